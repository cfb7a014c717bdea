"""An ONNX model as a caller gives it: read when somebody compiles it, and known by its content.

    source = ModelSource("model.onnx")
    source.digest(cache)     # of all of its bytes, also of those in other files
    source.proto()           # the model, read by the package onnx
    with source.opened() as model: ...  # without its large weights

The names of the files that a model has its weights in are in its own bytes, and only onnx reads
those: the cache has them, with what the model declares, by the digest of these bytes.

The digest of a large file is kept, too, beside what the system says of it: its inode, its size and
when it was changed. Whoever writes to a file changes the last (`ctime`, which nobody can set), but
for writes in the same tick of its clock, or to pages that are mapped and not yet written back. So
what was changed in the last minute before it was read is read again the next time.
"""

from __future__ import annotations

import hashlib
import os
import stat
import threading
import time
import weakref
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from rcompiler.driver.finished_models import FinishedModels
from rcompiler.errors import InvalidModel
from rcompiler.runtime.container import in_threads
from rcompiler.support.declaration import Declared

_CHUNK = 8 << 20  # bytes that one thread reads and hashes
_SETTLED_NS = 60 * 10**9
_LARGE = 1 << 16  # bytes of a tensor that are not copied once more
_RAW_DATA = 9  # number of the field of a tensor

_HELD_OPEN = 16 << 20  # bytes of a model whose files stay open in the place of being read
_REMEMBERED = 4 << 20  # bytes of a file from which on its digest is kept

Status = tuple[int, ...]  # device, inode, bytes, nanoseconds of the last writing and change
_SIZE, _CHANGED = 2, 3


class _State(NamedTuple):
    """Of a file that was read: its digest; what the system says of it; whether a later change of it
    is sure to show there, as it had not been changed for a while."""

    digest: str
    status: Status
    settled: bool


class ModelSource:
    """A model by its path, its bytes or its onnx.ModelProto.

    Of a path the content counts that it has when it is read first. Threads may share it.
    """

    def __init__(self, given: Any) -> None:
        if isinstance(given, bytearray | memoryview):
            given = bytes(given)
        self.given = given
        self._path = Path(given) if isinstance(given, str | os.PathLike) else None
        self._proto: Any = None  # with what was in other files
        self._data: bytes | None = None  # of the file
        self._declared: Declared | None = None
        self._names: tuple[str, ...] | None = None if self._path else ()  # of files with weights
        self._opened: tuple[int, ...] | None = None  # what the system said of the file
        self._light: Any = None  # the model of a large file that is held, without its weights
        self._states: dict[Path, _State] = {}  # of the files that it was read from

    def proto(self) -> Any:
        """The model. Raises InvalidModel."""
        if self._proto is None:
            from rcompiler.frontend import load

            if self._path is None:
                self._proto = load.load(self.given)
            elif self._light is not None:
                return load.load(load.whole(self._light))
            else:
                proto, names = load.read(self._path, self._data)
                self._proto, self._names = load.load(proto), tuple(sorted(names))
            self._data = None
        return self._proto

    @contextmanager
    def opened(self) -> Iterator[Any]:
        """The model without its large weights, which are read inside of the context alone, see
        `frontend.load.opened`; whole where it is held as that. Raises InvalidModel.
        """
        from rcompiler.frontend import load

        data = self.given if self._path is None else self._data
        if self._light is not None:
            yield load.load(self._light)
        elif self._proto is None and isinstance(data, bytes):
            with load.opened_bytes(data) as proto:
                yield load.load(proto)
        elif self._proto is None and self._path is not None:
            with load.opened_file(self._path) as (proto, names, status):
                self._check_opened(self._path, status)
                self._names, self._opened = tuple(sorted(names)), status
                yield load.load(proto)
        else:
            yield self.proto()

    def hold(self, cache: FinishedModels | None) -> None:
        """Read all that `opened` needs: files may change, or go, when this has returned. Those of a
        large model stay open, and may go only: what was written to is refused when it is read.

        Raises InvalidModel.
        """
        path = self._path
        if path is None or self._proto is not None or self._light is not None:
            return
        names = self._names if cache is None else self._external(cache)
        if self._may_be_large(path, names) and self._holds_open(path):
            return
        if names != ():
            self.proto()
            return
        try:
            self._data = path.read_bytes()
            same = self.is_unchanged()
        except OSError as error:
            raise InvalidModel(f"{path}: {error.strerror or error}") from None
        if not same:
            raise InvalidModel(f"{path}: it was written to while it was read; read it again")

    @staticmethod
    def _may_be_large(path: Path, names: Sequence[str] | None) -> bool:
        """Whether the files of a model may be so large that they stay open: known without the
        package that reads models, where it is known which files it has. names: of the others."""
        try:
            if not path.is_file():
                return False
            files = [path, *(path.parent / name for name in names or ())]
            return names is None or sum(each.stat().st_size for each in files) >= _HELD_OPEN
        except OSError:
            return False  # who reads it says what is wrong

    def _holds_open(self, path: Path) -> bool:
        """Keep the files of the model open from now on, if they are large. Raises InvalidModel."""
        from rcompiler.frontend import load
        from rcompiler.frontend.weights_outside import files_of

        held = ExitStack()
        light, names, status = held.enter_context(load.opened_file(path))
        try:
            self._check_opened(path, status)
            files = files_of(light) or {}
            if sum(file.size for file in files.values()) < _HELD_OPEN:
                return False
            self._names, self._opened, self._light = tuple(sorted(names)), status, light
            weakref.finalize(self, held.pop_all().close)  # refers to nothing of this object
            return True
        finally:
            held.close()

    def _check_opened(self, path: Path, status: tuple[int, ...]) -> None:
        if self._opened not in (None, status):
            raise InvalidModel(f"{path}: it was written to since it was read first; read it again")

    def digest(self, cache: FinishedModels) -> str | None:
        """Of all of its content; None where it is no model, or it is not known which files have it.

        Raises OSError, ValueError where it cannot be read.
        """
        names = self._external(cache)
        if names is None:
            return None
        own = self._own_digest(cache)
        if own is None or self._path is None or not names:
            return own
        folder = self._path.parent
        return _joined([own, *(self._read(folder / name, cache) for name in names)])

    def is_unchanged(self) -> bool:
        """Whether the files that were read still have the same content. Raises OSError."""
        for path, state in self._states.items():
            if state.settled and state.status == _status(os.stat(path)):
                continue
            if _file_state(path).digest != state.digest:
                return False
        return True

    def declared(self, cache: FinishedModels | None) -> Declared:
        """What it declares. Raises InvalidModel."""
        if self._declared is None and cache is not None:
            self._declared = self._known(cache)
        if self._declared is None:
            from rcompiler.frontend.declared import declared

            with self.opened() as model:
                self._declared = declared(model)
            if cache is not None:
                self.keep_facts(cache)
        return self._declared

    def keep_facts(self, cache: FinishedModels) -> None:
        """Keep what was learnt when the model was read, for `digest` and `declared`; failure is
        only that it is read again."""
        if self._names is None or hasattr(self.given, "ListFields"):
            return
        try:
            own, digest = self._own_digest(cache), self.digest(cache)
            if own is None or digest is None or not self.is_unchanged():
                return
        except (OSError, ValueError):
            return
        told = None if self._declared is None else self._declared.data()
        known = cache.facts(own) or {}
        if known.get("digest") != digest or (told and _declared_in(known) is None):
            cache.keep_facts(own, {"external": self._names, "digest": digest, "declared": told})

    def _known(self, cache: FinishedModels) -> Declared | None:
        try:
            own, digest = self._own_digest(cache), self.digest(cache)
        except (OSError, ValueError):
            return None
        facts = cache.facts(own) if own is not None else None
        if digest is None or facts is None or facts.get("digest") != digest:
            return None
        return _declared_in(facts)

    def _external(self, cache: FinishedModels) -> tuple[str, ...] | None:
        """The names of the files with its weights; None where they are not known. Raises OSError,
        ValueError."""
        if self._names is None:
            own = self._own_digest(cache)
            facts = cache.facts(own) if own is not None else None
            names = (facts or {}).get("external")
            if isinstance(names, list) and all(isinstance(name, str) for name in names):
                self._names = tuple(names)
        return self._names

    def _own_digest(self, cache: FinishedModels) -> str | None:
        """Of the model without what is in other files; None where it is no model. Raises OSError,
        ValueError."""
        if self._path is not None:
            return self._read(self._path, cache)
        if isinstance(self.given, bytes):
            data = memoryview(self.given)
            pieces = [data[at : at + _CHUNK] for at in range(0, len(data), _CHUNK)]
            return _joined(in_threads(lambda piece: hashlib.sha256(piece).hexdigest(), pieces))
        if hasattr(self.given, "ListFields"):  # an onnx.ModelProto; who gave it may change it
            return _joined(list(_proto_digests(self.given)))
        return None

    def _read(self, path: Path, cache: FinishedModels) -> str:
        """The digest of a file, as it was when it was read first. Raises OSError, ValueError."""
        if path not in self._states:
            self._states[path] = _remembered(path, cache)
        return self._states[path].digest


def _declared_in(facts: Mapping[str, Any]) -> Declared | None:
    """What a model declares; None where the facts lack it, or an older version wrote them."""
    try:
        return Declared.of(facts["declared"])
    except (KeyError, TypeError, ValueError, AttributeError):
        return None


def _joined(digests: list[str]) -> str:
    return hashlib.sha256(" ".join(digests).encode()).hexdigest()


def _status(found: os.stat_result) -> Status:
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


def _remembered(path: Path, cache: FinishedModels) -> _State:
    """As `_file_state`, of a large file that was read before without reading it."""
    with _opened(path) as (handle, status):
        if status[_SIZE] < _REMEMBERED:
            return _state(path, handle, status)
        name = hashlib.sha256(b"file " + os.fsencode(path.absolute())).hexdigest()
        known = cache.facts(name) or {}
        if known.get("status") == list(status) and isinstance(known.get("digest"), str):
            return _State(known["digest"], status, True)
        found = _state(path, handle, status)
        if found.settled:
            cache.keep_facts(name, {"status": status, "digest": found.digest})
        return found


def _file_state(path: Path) -> _State:
    """Read a file. Raises OSError, ValueError."""
    with _opened(path) as (handle, status):
        return _state(path, handle, status)


@contextmanager
def _opened(path: Path) -> Iterator[tuple[int, Status]]:
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        found = os.fstat(handle)
        if not stat.S_ISREG(found.st_mode):
            raise ValueError(f"{path} is no plain file")
        yield handle, _status(found)
    finally:
        os.close(handle)


def _state(path: Path, handle: int, status: Status) -> _State:
    """Read an open file, in chunks by several threads."""
    settled = time.time_ns() - max(status[_CHANGED:]) > _SETTLED_NS
    total, buffers = status[_SIZE], threading.local()

    def digest(at: int) -> str:
        if not hasattr(buffers, "one"):
            buffers.one = memoryview(bytearray(min(_CHUNK, total)))
        size, done = min(_CHUNK, total - at), 0
        while done < size:
            count = os.preadv(handle, [buffers.one[done:size]], at + done)
            if not count:
                raise ValueError(f"{path} was cut off while it was read")
            done += count
        return hashlib.sha256(buffers.one[:size]).hexdigest()

    places = range(0, total, _CHUNK)
    digests = in_threads(digest, places) if len(places) > 1 else list(map(digest, places))
    if _status(os.fstat(handle)) != status:
        raise ValueError(f"{path} was written to while it was read")
    return _State(_joined(digests), status, settled)


def _proto_digests(message: Any) -> Iterator[str]:
    """Of all fields of a model; large tensors are not copied as `SerializeToString` would do."""
    for field, value in message.ListFields():
        yield str(field.number)
        if field.type != field.TYPE_MESSAGE:
            yield hashlib.sha256(repr(value).encode()).hexdigest()
            continue
        for part in (value,) if hasattr(value, "ListFields") else value:
            yield "{"
            if field.name == "graph":
                yield from _proto_digests(part)
            elif field.name == "initializer" and len(part.raw_data) > _LARGE:
                for inner, content in part.ListFields():
                    plain = content if isinstance(content, bytes) else repr(content).encode()
                    yield f"{inner.number} {hashlib.sha256(plain).hexdigest()}"
            elif field.name == "initializer" and (told := [*_left_outside(part)]):
                yield from told
            else:
                yield hashlib.sha256(part.SerializeToString(deterministic=True)).hexdigest()
            yield "}"


def _left_outside(tensor: Any) -> Iterator[str]:
    """Of a weight that is read where it lies what is said of one that has its elements; nothing for
    any other. Raises OSError, ValueError.
    """
    if tensor.data_location != tensor.EXTERNAL:  # known without the package that reads models
        return
    from rcompiler.frontend.weights_outside import is_outside, raw_bytes

    if is_outside(tensor):
        plain = type(tensor)()
        plain.CopyFrom(tensor)
        plain.ClearField("external_data")
        plain.ClearField("data_location")
        fields = {inner.number: repr(content).encode() for inner, content in plain.ListFields()}
        digests = {number: hashlib.sha256(said).hexdigest() for number, said in fields.items()}
        digests[_RAW_DATA] = hashlib.sha256(raw_bytes(tensor).data).hexdigest()
        yield from (f"{number} {digest}" for number, digest in sorted(digests.items()))
