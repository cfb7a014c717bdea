"""Arrays for the operands of one kernel, with a guard around every result."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass

import ml_dtypes
import numpy as np

from rcompiler.errors import CompilerError
from rcompiler.runtime.memory import address, aligned_empty

_GUARD = 64  # bytes on either side of a result
_STEPS = 16  # floats are multiples of 1 / 16: sums of many products are exact in f32
_PATTERN = 0xA5  # of bytes that a kernel has not written
_TYPES = {"i1": "bool", "f16": "float16", "f32": "float32", "f64": "float64"}


@dataclass(frozen=True)
class Tensor:
    """A shape, and the name of an element type in MLIR ("f32", "i64")."""

    shape: tuple[int, ...]
    element: str

    @property
    def dtype(self) -> np.dtype:
        """Raises CompilerError for a type that numpy has not."""
        try:
            if self.element == "bf16":
                return np.dtype(ml_dtypes.bfloat16)
            return np.dtype(_TYPES.get(self.element, "int" + self.element[1:]))
        except TypeError:
            raise CompilerError(f"profiler: no arrays of element type {self.element}") from None


def draw(tensors: Sequence[Tensor], seed: int, *, positive: bool = False) -> list[np.ndarray]:
    """Arrays of random numbers in [-1, 1], or in (0, 1].

    Integers may be positions in any of the tensors: they are smaller than every dimension.
    """
    random = np.random.default_rng(seed)
    limit = min([8, *(n for t in tensors for n in t.shape if n)])
    arrays = []
    for tensor in tensors:
        array = aligned_empty(tensor.shape, tensor.dtype)
        if tensor.element == "i1":
            array[...] = random.integers(0, 2, tensor.shape)
        elif tensor.element.startswith("i"):
            array[...] = random.integers(0, limit, tensor.shape)
        else:
            low = 1 if positive else -_STEPS
            array[...] = random.integers(low, _STEPS + 1, tensor.shape) / _STEPS
        arrays.append(array)
    return arrays


class Operands:
    """Inputs, and results that one kernel after the other is run into."""

    def __init__(self, inputs: Sequence[np.ndarray], results: Sequence[Tensor]) -> None:
        self.results = list(results)
        self._inputs = list(inputs)
        self._memory = []
        for tensor in results:
            size = int(np.prod(tensor.shape, dtype=np.int64)) * tensor.dtype.itemsize
            self._memory.append(aligned_empty((size + 2 * _GUARD,), np.dtype(np.uint8)))
        places = [address(a) for a in inputs] + [address(m) + _GUARD for m in self._memory]
        self._table = (ctypes.c_uint64 * len(places))(*places)
        self.table = ctypes.addressof(self._table)

    def copy(self) -> Operands:
        """The same inputs at other addresses, and results of its own."""
        copies = []
        for array in self._inputs:
            other = aligned_empty(array.shape, array.dtype)
            other[...] = array
            copies.append(other)
        found = Operands(copies, self.results)
        found.clear()  # nobody wants to measure the first touch of a page
        return found

    @property
    def size(self) -> int:
        """Bytes of all operands."""
        return sum(a.nbytes for a in self._inputs) + sum(m.nbytes for m in self._memory)

    def clear(self) -> None:
        """Overwrite results and guards with a pattern."""
        for memory in self._memory:
            memory[:] = _PATTERN

    def outputs(self) -> list[np.ndarray]:
        """Views of the results."""
        inner = (m[_GUARD : len(m) - _GUARD] for m in self._memory)
        return [m.view(t.dtype).reshape(t.shape) for m, t in zip(inner, self.results, strict=True)]

    def overrun(self) -> int | None:
        """The number of a result that was written beyond its ends since `clear`."""
        for number, memory in enumerate(self._memory):
            ends = np.concatenate([memory[:_GUARD], memory[len(memory) - _GUARD :]])
            if (ends != _PATTERN).any():
                return number
        return None
