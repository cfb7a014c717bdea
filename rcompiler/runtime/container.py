"""The file format of artifacts: a header that says everything, then sections of raw bytes.

    0    magic "\\x93RCX", format version u32, header bytes u64, 16 zeros, sha256 of all that and of
         the header; 64 in all
    64   header: JSON, keys sorted, without spaces
    ..   sections in the order of the header, each at a multiple of 64 bytes, or of 4096 where it is
         larger than 8 MiB, zeros between

Equal content gives equal bytes: there is no time, path or random number in the file, and no byte
that is not checked: it is hashed, or it must be zero.

Integrity. Every section has its sha256. Sections of up to 8 MiB (code, tables, texts) are checked
against it at every load. For the large one, the weights, sha256 would take most of the load time
(0.27 s for 100 MB on a CPU without SHA instructions), so loading checks CRC-32 sums of 4 MiB chunks
on several threads instead, and `full=True` checks the sha256 as well. Both find damage. Neither
is a signature: a file contains machine code, so load only files that you would also execute.

Files of up to 8 MiB are read into memory, and so are those that somebody has open for writing.
Larger ones are mapped, so that processes share their weights: `file_lease` has them copied before
somebody writes into the file, and `file_watch` finds out where that is not possible.

Who must know that it is one certain file passes its sha256 to `read`. The whole file is then read
into memory, so that nobody can change it afterwards, and hashed.
"""

import errno
import hashlib
import io
import json
import os
import re
import secrets
import stat
import struct
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, Protocol, TypeVar

import numpy as np

from rcompiler.device.cgroups import usable_cpus
from rcompiler.errors import ArtifactError, DeviceError
from rcompiler.runtime.file_lease import FileLease
from rcompiler.runtime.file_watch import FileWatch
from rcompiler.runtime.host_system import require_linux
from rcompiler.runtime.memory import address, aligned_empty, map_file, map_whole, refusal
from rcompiler.runtime.untrusted import integer

MAGIC = b"\x93RCX"
VERSION = 10  # of the format
_PREFIX = struct.Struct("<4sIQ16x")
_DIGEST = hashlib.sha256().digest_size
_START = _PREFIX.size + _DIGEST  # of the header
_ALIGNMENT = 64
PAGE = 4096  # of most machines, whatever this one has
STRONG_UP_TO = 8 << 20  # bytes of a section that every load checks by its sha256
_CHUNK = 4 << 20
THREADS = 4  # at most, that check and make weights
_MAX_HEADER = 1 << 30
_MOST_SHOWN = 300  # characters of what a caller passed

Json = dict[str, object]
_T = TypeVar("_T")
_R = TypeVar("_R")


class Bytes(Protocol):
    """uint8[bytes] that need not lie in memory."""

    @property
    def size(self) -> int: ...

    def __getitem__(self, wanted: slice, /) -> np.ndarray: ...


def write(path: Path, header: Json, sections: Mapping[str, Bytes]) -> None:
    """Write atomically: the file is there completely, or what was there before still is.

    Args:
        header, sections: see `packed`.

    Raises:
        ArtifactError: the file cannot be written.
    """
    with replacing(path) as file:
        write_to(file, header, sections)


def packed(header: Json, sections: Mapping[str, Bytes]) -> bytes:
    """The bytes of a file.

    Args:
        header: JSON values; the description of the sections is added, but for those that "sections"
            has what `describe` says of already.
        sections: name -> uint8[size].
    """
    file = io.BytesIO()
    write_to(file, header, sections)
    return file.getvalue()


def write_to(file: BinaryIO, header: Json, sections: Mapping[str, Bytes]) -> None:
    """Write the bytes of a file. header, sections: see `packed`. Raises OSError."""
    known: Any = header.get("sections", {})
    described = {name: known.get(name) or describe(data) for name, data in sections.items()}
    text = json.dumps(
        {**header, "sections": described}, sort_keys=True, separators=(",", ":"), allow_nan=False
    ).encode()
    prefix = _PREFIX.pack(MAGIC, VERSION, len(text))
    file.write(prefix)
    file.write(hashlib.sha256(prefix + text).digest())
    file.write(text)
    for data in sections.values():
        file.write(bytes(-file.tell() % _alignment(data.size)))
        for chunk in _chunks(data):
            file.write(chunk)


@contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """A new file that takes the place of `path` when the block ends well; else nothing changes.

    Raises:
        ArtifactError: the file cannot be written.
    """
    if path.exists() and not path.is_file():  # a folder; a device would be gone
        raise ArtifactError(f"{path}: cannot be written (not a plain file); give another name")
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(6)}.tmp")
    try:
        try:
            with open(temporary, "xb") as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, path)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
        _sync_folder(path.parent)
    except OSError as error:
        raise ArtifactError(
            f"{path}: cannot be written ({error.strerror}); nothing was changed; "
            "check the folder, its permissions and the free space"
        ) from None


class MappedFile(NamedTuple):
    """A file whose bytes are mapped. handle: of the open file; start: address of its first byte;
    watch: whether it changes."""

    handle: int
    start: int
    watch: FileWatch

    def offset(self, part: np.ndarray) -> int:
        """Where a part of the mapping begins in the file."""
        return address(part) - self.start

    def map(self, place: np.ndarray, part: np.ndarray) -> slice:
        """Map pages of the file once more, see `memory.map_file`.

        Args:
            place: uint8[size] in an `arena`.
            part: the same bytes of the mapping.
        """
        lease = self.watch.lease
        if lease is None:
            return map_file(place, part, self.handle, self.offset(part))
        return lease.map(place, part, self.offset(part))


def read(
    path: Path, full: bool = False, mapped: bool = True, sha256: str | None = None
) -> tuple[Json, dict[str, np.ndarray]]:
    """Map a file and check it: header and, by name, read-only uint8 views of the sections.

    Args:
        full: check the sha256 of large sections, too.
        mapped: False reads the file into memory, so that nothing of it is used later, as is done
            with small ones.
        sha256: hex digest that the file must have; implies ``mapped=False``.

    Raises:
        ArtifactError: naming the file, the reason and the remedy.
    """
    with reading(path, full, mapped, sha256) as (header, sections, _):
        return header, sections


@contextmanager
def reading(
    path: Path, full: bool = False, mapped: bool = True, sha256: str | None = None
) -> Iterator[tuple[Json, dict[str, np.ndarray], MappedFile | None]]:
    """The same, and the file as long as it is open; None if it is not mapped.

    Raises DeviceError on a system that runs no models.
    """
    require_linux(shown(path))
    with _opened(path) as file:
        watch = FileWatch(path, file.fileno())
        mapped = mapped and sha256 is None and watch.size > STRONG_UP_TO and watch.protect()
        data = _content(path, file, mapped, watch.lease)
        if sha256 is not None:
            _check_pin(path, data, sha256)
        there = MappedFile(file.fileno(), address(data), watch) if mapped else None
        header, sections = parsed(path, data, full)
        described: Any = header["sections"]
        watch.expect(lambda: all(_intact(described[n], d, False) for n, d in sections.items()))
        yield header, sections, there


def parsed(path: Path, data: np.ndarray, full: bool = False) -> tuple[Json, dict[str, np.ndarray]]:
    """The same of the bytes of a file, as uint8[size]. path: what to call it.

    Raises:
        ArtifactError: as `read`.
    """
    if data.size < _START or bytes(data[:4]) != MAGIC:
        raise _fault(path, "it is no compiled model", "give a file written by save()")
    prefix = data[: _PREFIX.size].tobytes()
    _, version, size = _PREFIX.unpack(prefix)
    if version != VERSION:
        what = f"it has format version {version}, this reads version {VERSION}"
        raise _fault(path, what, "compile the model again with this version")
    text = data[_START : _START + min(size, _MAX_HEADER)].tobytes()
    digest = data[_PREFIX.size : _START].tobytes()
    if len(text) != size or hashlib.sha256(prefix + text).digest() != digest:
        raise _damaged(path, "the header")
    if any(prefix[_PREFIX.size - 16 :]):
        raise _damaged(path, "the zeros before the header")
    header, sections = decoded(str(path), lambda: _sections(json.loads(text), data, size))
    for name, (entry, content) in sections.items():
        if not _intact(entry, content, full):
            raise _damaged(path, f"section '{name}'")
    return header, {name: content for name, (_, content) in sections.items()}


def contents(path: Path, mapped: bool = True) -> np.ndarray:
    """uint8[size] of a plain file, mapped or read into memory. Raises ArtifactError."""
    with _opened(path) as file:
        return _content(path, file, mapped)


@contextmanager
def _opened(path: Path) -> Iterator[io.BufferedReader]:
    """A plain file. Raises ArtifactError."""
    with _readable(path):
        # Not blocking: opening a FIFO that nobody writes to would wait for ever.
        file = open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb")  # noqa: SIM115
    with file:
        yield file


def _content(
    path: Path, file: io.BufferedReader, mapped: bool, lease: FileLease | None = None
) -> np.ndarray:
    with _readable(path):
        status = os.fstat(file.fileno())
        if stat.S_ISDIR(status.st_mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        if not stat.S_ISREG(status.st_mode):
            raise _fault(path, "it is no plain file", "give a file written by save()")
        if not status.st_size or not mapped:
            content = aligned_empty((status.st_size,), np.dtype(np.uint8))
            content = content[: file.readinto(content.data)]
            content.flags.writeable = False
            return content
        return map_whole(file.fileno()) if lease is None else lease.map_whole()


@contextmanager
def _readable(path: Path) -> Iterator[None]:
    """What the system says of a file that cannot be read, as our errors."""
    try:
        yield
    except OSError as error:
        if error.errno == errno.ENOMEM:
            raise _no_room(path) from None
        raise _fault(
            path, f"it cannot be read ({error.strerror})", "check path and rights"
        ) from None
    except ValueError:  # a zero in the path
        raise _fault(path, "it cannot be read (no such path)", "check the path") from None
    except MemoryError:
        raise _no_room(path) from None


def _no_room(path: Path) -> DeviceError:
    return DeviceError(
        f"{shown(path)}: there is no memory or address space for its bytes; free some, or raise "
        "the limit of this process (ulimit -v)"
    )


def _check_pin(path: Path, data: np.ndarray, sha256: str) -> None:
    if not isinstance(sha256, str) or not re.fullmatch(r"[0-9a-fA-F]{64}", sha256):
        raise ArtifactError(f"sha256={shown(sha256)}: give the 64 hex digits that sha256sum prints")
    found = hashlib.sha256(data.data).hexdigest()
    if found != sha256.lower():
        raise _fault(
            path, f"its sha256 is {found}, not the one that was asked for", "do not run this file"
        )


def describe(data: Bytes) -> Json:
    """What the header says of a section: size, sha256 and, for a large one, CRC-32 of chunks."""
    digest = hashlib.sha256()
    for chunk in _chunks(data):
        digest.update(chunk)
    return {"sha256": digest.hexdigest(), **sums(data)}


def sums(data: Bytes) -> Json:
    """The same without the sha256: of a large section all that a load checks."""
    if data.size <= STRONG_UP_TO:
        return {"size": int(data.size)}
    return {"size": int(data.size), "crc32": list(map(zlib.crc32, _chunks(data)))}


def decoded(name: str, decode: Callable[[], _T]) -> _T:
    """Run `decode` over untrusted JSON: any surprise in it becomes an ArtifactError."""
    try:
        return decode()
    except (KeyError, TypeError, ValueError, IndexError, AttributeError, OverflowError):
        raise _damaged(Path(name), "the header") from None
    except RecursionError:
        raise _damaged(Path(name), "the nesting of the header") from None


def _sections(
    header: Json, data: np.ndarray, header_size: int
) -> tuple[Json, dict[str, tuple[Json, np.ndarray]]]:
    sections: dict[str, tuple[Json, np.ndarray]] = {}
    end = _START + header_size
    # JSON keys are sorted, so the order of the sections is the order of their names.
    for name, entry in header["sections"].items():  # type: ignore[attr-defined]
        size = integer(entry["size"])
        start = -(-end // _alignment(size)) * _alignment(size)
        zeros = data[end:start]
        end = start + size
        if not start <= end <= data.size or zeros.any():
            raise ValueError
        sections[name] = entry, data[start:end]
    if end != data.size:
        raise ValueError
    return header, sections


def _alignment(size: int) -> int:
    """Of where a section begins: pages of a large one can be mapped elsewhere in memory."""
    return PAGE if size > STRONG_UP_TO else _ALIGNMENT


def _intact(entry: Json, data: np.ndarray, full: bool) -> bool:
    large = data.size > STRONG_UP_TO
    if large and in_threads(zlib.crc32, [*_chunks(data)]) != entry.get("crc32"):
        return False
    return (large and not full) or hashlib.sha256(data.data).hexdigest() == entry.get("sha256")


def _chunks(data: Bytes) -> Iterator[memoryview]:
    return (np.ascontiguousarray(data[i : i + _CHUNK]).data for i in range(0, data.size, _CHUNK))


def in_threads(work: Callable[[_T], _R], items: Sequence[_T]) -> list[_R]:
    """The results of work on items, on up to `THREADS` threads where the system gives them."""
    # Imported here: it takes 5 ms, and small models have no large section.
    from concurrent.futures import ThreadPoolExecutor

    try:
        with ThreadPoolExecutor(min(THREADS, usable_cpus())) as pool:
            return list(pool.map(work, items))
    except RuntimeError as error:
        if refusal("", error) is None:
            raise
        return [work(item) for item in items]  # no thread can be started


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _damaged(path: Path, part: str) -> ArtifactError:
    return _fault(path, f"{part} is damaged or cut off", "copy it again or compile again")


def _fault(path: Path, reason: str, remedy: str) -> ArtifactError:
    return ArtifactError(f"{shown(path)}: {reason}; {remedy}")


def shown(value: object) -> str:
    """What a caller passed, for a message: cut off where it is long, whatever it is."""
    if isinstance(value, bytes | bytearray | memoryview):
        return f"{len(value)} bytes"
    text = str(value) if isinstance(value, os.PathLike) else repr(value)[: _MOST_SHOWN + 1]
    return text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}..."
