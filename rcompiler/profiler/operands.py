"""Arrays for the operands of one kernel, with a guard around every result."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rcompiler.linalg.element_types import dtype_of
from rcompiler.runtime.memory import ALIGNMENT, address, aligned_empty, arena

_GUARD = 64  # bytes on either side of a result
_STEPS = 16  # floats are multiples of 1 / 16: sums of many products are exact in f32
_PATTERN = 0xA5  # of bytes that a kernel has not written


@dataclass(frozen=True)
class OperandType:
    """A shape, and the name of an element type in MLIR ("f32", "i64")."""

    shape: tuple[int, ...]
    element: str

    @property
    def dtype(self) -> np.dtype:
        """Raises CompilerError for a type that numpy has not."""
        return dtype_of(self.element)

    @property
    def bytes(self) -> int:
        return math.prod(self.shape) * self.dtype.itemsize


def draw(tensors: Sequence[OperandType], seed: int, *, positive: bool = False) -> list[np.ndarray]:
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
    """Inputs, and results that one kernel after the other is run into.

    They lie in one piece of memory, as the tensors of a model do: pages count for the time.
    """

    def __init__(
        self,
        inputs: Sequence[np.ndarray],
        results: Sequence[OperandType],
        memory: np.ndarray | None = None,
    ) -> None:
        """Copies the inputs. memory: uint8[size] for all of it; by default memory of its own."""
        self.results = list(results)
        sizes = [a.nbytes for a in inputs] + [t.bytes + 2 * _GUARD for t in results]
        ends = np.cumsum([-(-size // ALIGNMENT) * ALIGNMENT for size in sizes])
        self.size = int(ends[-1]) if sizes else 0
        memory = arena(self.size, "operands of a kernel") if memory is None else memory
        starts = [0, *ends[:-1]]
        parts = [memory[a : a + size] for a, size in zip(starts, sizes, strict=True)]
        self._inputs = []
        for array, part in zip(inputs, parts[: len(inputs)], strict=True):
            self._inputs.append(part.view(array.dtype).reshape(array.shape))
            self._inputs[-1][...] = array
        self._memory = parts[len(inputs) :]
        places = [address(a) for a in self._inputs] + [address(m) + _GUARD for m in self._memory]
        self._table = (ctypes.c_uint64 * len(places))(*places)
        self.table = ctypes.addressof(self._table)

    def copies(self, count: int) -> list[Operands]:
        """So many sets of the same inputs, with results of their own."""
        memory = arena(count * self.size, "operands of a kernel")
        parts = [memory[k * self.size : (k + 1) * self.size] for k in range(count)]
        found = [Operands(self._inputs, self.results, part) for part in parts]
        for operands in found:
            operands.clear()  # nobody wants to measure the first touch of a page
        return found

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
