"""Models whose weights stay where they are until a constant is made of them.

protobuf copies the bytes of a file into its messages, and gives out copies of those: a model of a
GB would be there three times before anything is compiled. So the large weights of a graph are left
out of what protobuf parses, and each message says where its bytes are, as those with external data
do: in a file, or in the bytes that a caller gave.

    with load.opened(path) as model:     # an onnx.ModelProto without its large weights
        array = load.array_of(model.graph.initializer[0])

What says so has a name that nobody can guess, and means something inside of the context alone: a
stranger's model cannot name what was opened for another.
"""

from __future__ import annotations

import os
import secrets
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

import numpy as np
from onnx import ModelProto, StringStringEntryProto, TensorProto

from rcompiler.support.own_pages import own_pages

LARGE = 1 << 16  # bytes of a weight that is left out
_WINDOW = 1 << 18  # bytes that are read of a file at once
# Numbers of the fields that lead to the bytes of a weight.
_GRAPH, _INITIALIZER, _RAW = 7, 5, 9
_EXTERNAL, _LOCATION = 13, 14
_VARINT, _FIXED64, _LENGTH, _FIXED32 = 0, 1, 2, 5  # wire types


class Store(Protocol):
    """Bytes by their places."""

    @property
    def size(self) -> int: ...

    def read(self, start: int, count: int) -> np.ndarray:
        """Bytes as uint8, an array of its own or read-only. Raises ValueError, OSError."""
        ...


@dataclass(frozen=True)
class Given:
    """The bytes that a caller gave."""

    data: bytes

    @property
    def size(self) -> int:
        return len(self.data)

    def read(self, start: int, count: int) -> np.ndarray:
        return np.frombuffer(self.data, np.uint8, count, start)


class File:
    """An open file. What is read when somebody has written to it is refused.

    Attributes:
        status: what the system said of it when it was opened.
        size: its bytes.
    """

    def __init__(self, descriptor: int, status: tuple[int, ...] = ()) -> None:
        """descriptor: is closed by `close`, or when nobody has the object any more. status: what
        the system said of the file before; () for what it says now."""
        self._descriptor = descriptor
        self._close = weakref.finalize(self, os.close, descriptor)
        self.status = status or self._now()
        self.size = self.status[0]

    @property
    def path(self) -> str:
        """By which another process of this user opens it, also where it has no name any more."""
        return f"/proc/{os.getpid()}/fd/{self._descriptor}"

    def another(self) -> File:
        """The same content for somebody else, for whom it stays open. Raises OSError."""
        return File(os.dup(self._descriptor), self.status)

    def is_unchanged(self) -> bool:
        """Whether it has the content that it had when it was opened, as far as the system says:
        another name, or none, is no other content. Raises OSError."""
        *found, _ = self._now()
        return found == [*self.status[:-1]]

    def _now(self) -> tuple[int, ...]:
        found = os.fstat(self._descriptor)
        return found.st_size, found.st_ino, found.st_mtime_ns, found.st_ctime_ns

    def read(self, start: int, count: int) -> np.ndarray:
        """Raises ValueError also where the file was written to since it was opened."""
        data = own_pages(count)
        view, done = data.data, 0
        while done < count:
            got = os.preadv(self._descriptor, [view[done:]], start + done)
            if not got:
                break
            done += got
        if done < count or not self.is_unchanged():
            raise ValueError("its file was written to while it was read; read it again")
        return data

    def close(self) -> None:
        self._close()


@dataclass
class Outside:
    """Where the weights are that messages of a context leave out, by names that they say."""

    stores: dict[str, Store] = field(default_factory=dict)

    def add(self, store: Store, name: str | None = None) -> str:
        """The name of a store from now on. name: that of another process; None for a new one."""
        name = f"rcompiler/{secrets.token_hex(16)}" if name is None else name
        self.stores[name] = _STORES[name] = store
        return name

    def forget(self) -> None:
        for name in self.stores:
            _STORES.pop(name, None)


_STORES: dict[str, Store] = {}


@contextmanager
def outside() -> Iterator[Outside]:
    """Inside of the context the messages that it is asked to make have their bytes elsewhere."""
    found = Outside()
    try:
        yield found
    finally:
        found.forget()


def place_outside(tensor: TensorProto, store: str, start: int, count: int) -> None:
    """Let a tensor say that its bytes are so many of a store."""
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    del tensor.external_data[:]
    tensor.external_data.extend(_entries(store, start, count))


def is_outside(tensor: TensorProto) -> bool:
    """Whether the bytes of a tensor are in a store that is open."""
    return _place(tensor) is not None


def files_of(model: ModelProto) -> dict[str, File] | None:
    """The open files that have the large weights of a model, by the names that it says; None where
    some of these are in the bytes that a caller gave.
    """
    found = {}
    for tensor in model.graph.initializer:
        if (place := _place(tensor)) is not None:
            if not isinstance(place[0], File):
                return None
            found[location_said(tensor)] = place[0]
    return found


def raw_bytes(tensor: TensorProto) -> np.ndarray:
    """The bytes of a tensor that is outside, as uint8. Raises ValueError, OSError."""
    place = _place(tensor)
    assert place is not None
    store, start, count = place
    data = store.read(start, count)
    if isinstance(store, File):
        data.flags.writeable = False
        key = id(data)
        _READ[key] = weakref.ref(data, lambda _: _READ.pop(key, None)), Origin(store, start)
    return data


class Origin(NamedTuple):
    """Where bytes were read: an open file, and where in it they begin."""

    file: File
    start: int


# Of arrays that were read of files, by their identity.
_READ: dict[int, tuple[weakref.ref[np.ndarray], Origin]] = {}


def origin_of(array: np.ndarray) -> Origin | None:
    """Where the bytes of an array were read; None where it has no bytes of a file as they are.

    Args:
        array: C-contiguous.
    """
    owner = array
    while isinstance(owner.base, np.ndarray):
        owner = owner.base
    if id(owner) not in _READ:
        return None
    _, (file, start) = _READ[id(owner)]
    begin, first = (each.__array_interface__["data"][0] for each in (array, owner))
    return Origin(file, start + begin - first)


def _place(tensor: TensorProto) -> tuple[Store, int, int] | None:
    if tensor.data_location != TensorProto.EXTERNAL:
        return None
    said = {entry.key: entry.value for entry in tensor.external_data}
    store = _STORES.get(location_said(tensor))
    return None if store is None else (store, int(said["offset"]), int(said["length"]))


def location_said(tensor: TensorProto) -> str:
    """The name of the store that a tensor says; "" where it says none."""
    return next((each.value for each in tensor.external_data if each.key == "location"), "")


def _entries(store: str, start: int, count: int) -> list[StringStringEntryProto]:
    said = {"location": store, "offset": str(start), "length": str(count)}
    return [StringStringEntryProto(key=key, value=value) for key, value in said.items()]


def without_weights(store: Store, name: str) -> bytes | None:
    """The bytes of a model in a store without the large weights of its graph, each of which says
    where it is in the store of a name; None where the bytes are no message.
    """
    try:
        return b"".join(_Splitter(store, name).model())
    except (ValueError, IndexError):
        return None


class _Splitter:
    """Walks over the fields of a message as they lie in a store."""

    def __init__(self, store: Store, name: str) -> None:
        self._store, self._name = store, name
        self._start, self._window = 0, b""

    def model(self) -> Iterator[bytes]:
        yield from self._message(0, self._store.size, (_GRAPH, _INITIALIZER))

    def _message(self, start: int, end: int, path: tuple[int, ...]) -> Iterator[bytes]:
        """The fields between two places; path: to the messages that are tensors."""
        for number, wire, head, begin, stop in self._fields(start, end):
            if path and number == path[0] and wire == _LENGTH and stop - begin > LARGE:
                inner = b"".join(
                    self._message(begin, stop, path[1:]) if path[1:] else self._tensor(begin, stop)
                )
                yield _varint(number << 3 | _LENGTH) + _varint(len(inner))
                yield inner
            else:
                yield self._bytes(head, stop)

    def _tensor(self, start: int, end: int) -> Iterator[bytes]:
        fields = list(self._fields(start, end))
        numbers = [number for number, *_ in fields]
        large = [f for f in fields if f[0] == _RAW and f[1] == _LENGTH and f[4] - f[3] > LARGE]
        plain = numbers.count(_RAW) == 1 and not {_EXTERNAL, _LOCATION} & set(numbers)
        if not (plain and large):
            yield self._bytes(start, end)
            return
        for number, _, head, begin, stop in fields:
            if number != _RAW:
                yield self._bytes(head, stop)
                continue
            said = TensorProto(data_location=TensorProto.EXTERNAL)
            said.external_data.extend(_entries(self._name, begin, stop - begin))
            yield said.SerializeToString()

    def _fields(self, start: int, end: int) -> Iterator[tuple[int, int, int, int, int]]:
        """Number, wire type, and where a field, its content and what follows begin."""
        at = start
        while at < end:
            head = at
            tag, at = self._number(at)
            number, wire = tag >> 3, tag & 7
            if wire == _VARINT:
                begin, (_, at) = at, self._number(at)
            elif wire == _LENGTH:
                size, begin = self._number(at)
                at = begin + size
            elif wire in (_FIXED32, _FIXED64):
                begin = at
                at += 4 if wire == _FIXED32 else 8
            else:
                raise ValueError("a group")
            if not number or at > end:
                raise ValueError("a field that leads out of its message")
            yield number, wire, head, begin, at

    def _number(self, at: int) -> tuple[int, int]:
        """A varint, and where it ends."""
        found = shift = 0
        while True:
            byte = self._byte(at)
            at += 1
            found |= (byte & 127) << shift
            if byte < 128:
                return found, at
            shift += 7
            if shift > 63:
                raise ValueError("a number that is too long")

    def _byte(self, at: int) -> int:
        place = at - self._start
        if not 0 <= place < len(self._window):
            count = min(_WINDOW, self._store.size - at)
            if count <= 0:
                raise ValueError("cut off")
            self._start, self._window = at, self._store.read(at, count).tobytes()
            place = 0
        return self._window[place]

    def _bytes(self, start: int, end: int) -> bytes:
        place = start - self._start
        if 0 <= place and place + end - start <= len(self._window):
            return self._window[place : place + end - start]
        return self._store.read(start, end - start).tobytes()


def _varint(number: int) -> bytes:
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    return bytes([*out, number])
