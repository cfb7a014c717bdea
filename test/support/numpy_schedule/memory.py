"""The memory of a model: the caller's tensors, the two arenas, and what each EU has of its own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rcompiler.rammer.program import Buffer, Program

_NOTHING = 0xFF  # a byte that nobody has written: of all floats NaN, of integers -1
Bytes = NDArray[np.uint8]
_EMPTY = np.empty(0, np.uint8)


class Tensor(NamedTuple):
    """How bytes are a tensor."""

    shape: tuple[int, ...]
    dtype: np.dtype


class Memory:
    """Bytes by space, for all programs of a model: arenas keep theirs from one to the next.

    A pinned buffer is a tensor of its own on each EU, of which only what that EU has written is
    there.
    """

    def __init__(self, programs: Sequence[Program], inputs: Sequence[np.ndarray]) -> None:
        """inputs: of the caller, in storage types; an output that lies over one gets a copy."""
        self._spaces: dict[tuple[str, int], Bytes] = {}
        for program in programs:
            sizes = {("temp", -1): program.arena, ("constant", -1): program.constants}
            for buffer in program.buffers:
                end = buffer.offset + buffer.bytes
                sizes[buffer.space] = max(sizes.get(buffer.space, 0), end)
            for space, size in sizes.items():
                if size > len(self._spaces.get(space, _EMPTY)):
                    self._spaces[space] = np.full(size, _NOTHING, np.uint8)
        for number, array in enumerate(inputs):
            place = np.frombuffer(np.ascontiguousarray(array).tobytes(), np.uint8)
            self._spaces["input", number] = place.copy()
        self._pinned: dict[tuple[int, str], Bytes] = {}

    @property
    def constants(self) -> Bytes:
        """The arena of constants."""
        return self._spaces.get(("constant", -1), _EMPTY)

    def view(self, buffer: Buffer, tensor: Tensor, eu: int) -> np.ndarray:
        """A buffer as a tensor, through which it is written, too; of a pinned one that of an EU."""
        if buffer.kind == "pinned":
            size = int(np.prod(tensor.shape)) * tensor.dtype.itemsize
            nothing = np.full(size, _NOTHING, np.uint8)
            bytes_ = self._pinned.setdefault((eu, buffer.name), nothing)
        else:
            space = self._spaces.get(buffer.space, _EMPTY)
            bytes_ = space[buffer.offset : buffer.offset + buffer.bytes]
        return bytes_.view(tensor.dtype).reshape(tensor.shape)

    def output(self, number: int, over: int, tensor: Tensor) -> np.ndarray:
        """An output of the model; over: the input in whose bytes it lies, or -1."""
        space = ("output", number) if over < 0 else ("input", over)
        bytes_ = self._spaces.get(space, _EMPTY)
        return bytes_.view(tensor.dtype).reshape(tensor.shape)
