"""The file format of artifacts: a header that says everything, then sections of raw bytes.

    0    magic "\\x93RCX", format version u32, header bytes u64, sha256 of the header; 64 in all
    64   header: JSON, keys sorted, without spaces
    ..   sections, each at a multiple of 64 bytes, in the order of the header, zeros between

Equal content gives equal bytes: there is no time, path or random number in the file.

Integrity. Every section has its sha256. Sections of up to 8 MiB (code, tables, texts) are checked
against it at every load. For the large one, the weights, sha256 would take most of the load time
(0.27 s for 100 MB on a CPU without SHA instructions), so loading checks CRC-32 sums of 4 MiB chunks
on several threads instead, and `full=True` checks the sha256 as well. Both find damage. Neither
is a signature: a file contains machine code, so load only files that you would also execute.
"""

import hashlib
import json
import mmap
import os
import secrets
import struct
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, TypeVar

import numpy as np

from rcompiler.device.cgroups import usable_cpus
from rcompiler.errors import ArtifactError

MAGIC = b"\x93RCX"
# Format versions: what a file needs a reader to know. A file has the least that says it all.
STATIC = 2
DYNAMIC = 3  # programs whose streams are queues that EUs take: "taken_by"
GPU = 4  # code for a GPU
PINNED = 5  # operands in the memory of EUs: "pinned", and of rKernels which ones
VERSIONS = (STATIC, DYNAMIC, GPU, PINNED)
_PREFIX = struct.Struct("<4sIQ32s16x")
_ALIGNMENT = 64
_STRONG_UP_TO = 8 << 20
_CHUNK = 4 << 20
_MAX_HEADER = 1 << 30

Json = dict[str, object]
_T = TypeVar("_T")


def write(path: Path, header: Json, sections: Mapping[str, np.ndarray], version: int) -> None:
    """Write atomically: the file is there completely, or what was there before still is.

    Args:
        header: JSON values; the description of the sections is added.
        sections: name -> uint8[size].
        version: one of VERSIONS.

    Raises:
        ArtifactError: the file cannot be written.
    """
    described = {name: describe(data) for name, data in sections.items()}
    text = json.dumps(
        {**header, "sections": described}, sort_keys=True, separators=(",", ":"), allow_nan=False
    ).encode()
    prefix = _PREFIX.pack(MAGIC, version, len(text), hashlib.sha256(text).digest())
    with replacing(path) as file:
        file.write(prefix)
        file.write(text)
        for data in sections.values():
            file.write(bytes(-file.tell() % _ALIGNMENT))
            file.write(np.ascontiguousarray(data).data)


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


def read(path: Path, full: bool = False, mapped: bool = True) -> tuple[Json, dict[str, np.ndarray]]:
    """Map a file and check it: header and, by name, read-only uint8 views of the sections.

    Args:
        full: check the sha256 of large sections, too.
        mapped: False reads the file into memory, so that nothing of it is used later.

    Raises:
        ArtifactError: naming the file, the reason and the remedy.
    """
    data = _bytes(path, mapped)
    if data.size < _PREFIX.size or bytes(data[:4]) != MAGIC:
        raise _fault(path, "it is no compiled model", "give a file written by save()")
    _, version, size, digest = _PREFIX.unpack(data[: _PREFIX.size].tobytes())
    if version not in VERSIONS:
        known = ", ".join(map(str, VERSIONS))
        what = f"it has format version {version}, this reads versions {known}"
        raise _fault(path, what, "compile the model again with this version")
    text = data[_PREFIX.size : _PREFIX.size + min(size, _MAX_HEADER)].tobytes()
    if len(text) != size or hashlib.sha256(text).digest() != digest:
        raise _damaged(path, "the header")
    header, sections = decoded(str(path), lambda: _sections(json.loads(text), data, size))
    for name, (entry, content) in sections.items():
        if not _intact(entry, content, full):
            raise _damaged(path, f"section '{name}'")
    return header, {name: content for name, (_, content) in sections.items()}


def describe(data: np.ndarray) -> Json:
    """What the header says of a section: size, sha256 and, for a large one, CRC-32 of chunks."""
    entry: Json = {"size": int(data.size), "sha256": hashlib.sha256(data.data).hexdigest()}
    if data.size > _STRONG_UP_TO:
        entry["crc32"] = [
            zlib.crc32(data[i : i + _CHUNK].data) for i in range(0, data.size, _CHUNK)
        ]
    return entry


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
    end = _PREFIX.size + header_size
    # JSON keys are sorted, so the order of the sections is the order of their names.
    for name, entry in header["sections"].items():  # type: ignore[attr-defined]
        start = -(-end // _ALIGNMENT) * _ALIGNMENT
        end = start + int(entry["size"])
        if not start <= end <= data.size:
            raise ValueError
        sections[name] = entry, data[start:end]
    if end != data.size:
        raise ValueError
    return header, sections


def _intact(entry: Json, data: np.ndarray, full: bool) -> bool:
    large = data.size > _STRONG_UP_TO
    if large:
        chunks = [data[i : i + _CHUNK].data for i in range(0, data.size, _CHUNK)]
        # Imported here: it takes 5 ms, and small models have no large section.
        from concurrent.futures import ThreadPoolExecutor

        with ThreadPoolExecutor(min(4, usable_cpus())) as pool:
            if list(pool.map(zlib.crc32, chunks)) != entry.get("crc32"):
                return False
    return (large and not full) or hashlib.sha256(data.data).hexdigest() == entry.get("sha256")


def _bytes(path: Path, mapped: bool) -> np.ndarray:
    try:
        with open(path, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            if not size or not mapped:
                return np.frombuffer(file.read(), np.uint8)
            flags = mmap.MAP_PRIVATE | mmap.MAP_POPULATE
            memory = mmap.mmap(file.fileno(), size, flags=flags, prot=mmap.PROT_READ)
            return np.frombuffer(memory, np.uint8)
    except OSError as error:
        raise _fault(
            path, f"it cannot be read ({error.strerror})", "check path and rights"
        ) from None


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _damaged(path: Path, part: str) -> ArtifactError:
    return _fault(path, f"{part} is damaged or cut off", "copy it again or compile again")


def _fault(path: Path, reason: str, remedy: str) -> ArtifactError:
    return ArtifactError(f"{path}: {reason}; {remedy}")
