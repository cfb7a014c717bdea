"""The bytes of one rTask, straight from the definition of its accesses."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rcompiler.rammer.kernel import WHOLE, Access, Kernel

Ints = NDArray[np.int64]
Bytes = NDArray[np.uint8]


@dataclass(frozen=True)
class TouchedBox:
    """What a task touches through one operand.

    value: its name; at: (n,) addresses in the flat memory, row-major; shape: of the box, bytes of
    an element last; right: (n,) the bytes that must be there, or be written there.
    """

    value: str
    at: Ints
    shape: tuple[int, ...]
    right: Bytes


@dataclass(frozen=True)
class Task:
    """One rTask at its place in memory."""

    operator: str
    number: int
    kernel: Kernel
    reads: tuple[TouchedBox, ...]
    writes: tuple[TouchedBox, ...]

    def __str__(self) -> str:
        return f"operator {self.operator} (rKernel {self.kernel.name}), rTask {self.number}"


def box_bytes(grid: Sequence[int], access: Access, task: int) -> tuple[Ints, tuple[int, ...]]:
    """Byte offsets (n,) in the tensor that a task touches, and the shape (*box, itemsize)."""
    coords = np.unravel_index(task, tuple(grid)) if grid else ()
    index = np.zeros((), np.int64)
    shape: list[int] = []
    for dim, size in zip(access.dims, access.shape, strict=True):
        low, high = 0, size
        if dim.axis != WHOLE:
            start = dim.scale * int(coords[dim.axis]) + dim.offset
            low, high = max(0, start), min(size, start + dim.extent)
        indices = np.arange(low, max(low, high))
        index = index[..., None] * size + indices
        shape.append(len(indices))
    offsets = index[..., None] * access.itemsize + np.arange(access.itemsize)
    return offsets.reshape(-1), (*shape, access.itemsize)
