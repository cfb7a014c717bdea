"""rKernels with the boxes their rTasks touch.

Plain data, checked when it is built. Byte sizes are in bytes, times in nanoseconds, task and grid
indices are row-major. Rammer (OSDI'20) section 3.1: an rKernel is one tiling of an rOperator into
independent, equal rTasks.
"""

from dataclasses import dataclass
from functools import cached_property, reduce
from math import prod

import numpy as np
from numpy.typing import NDArray

from rcompiler.errors import ScheduleError

WHOLE = -1  # the `axis` of a tensor dim that every task touches as a whole


@dataclass(frozen=True, slots=True)
class DimAccess:
    """The part of one tensor dim that a task with grid coordinates g touches.

    `[scale * g[axis] + offset, + extent)` clamped to the dim; `axis == -1` (`WHOLE`): all of it.
    """

    axis: int = WHOLE
    scale: int = 0
    offset: int = 0
    extent: int = 0


@dataclass(frozen=True)
class Access:
    """The box of one operand that a task touches: one `DimAccess` per dim of the tensor.

    shape: the operand's shape, row-major and dense in memory; itemsize: bytes of one element.
    """

    shape: tuple[int, ...]
    itemsize: int
    dims: tuple[DimAccess, ...]

    def __post_init__(self) -> None:
        if len(self.shape) != len(self.dims):
            raise ScheduleError(
                f"an access of a tensor of shape {self.shape} describes {len(self.dims)} dims: "
                "give one entry per dim"
            )
        if self.itemsize < 1 or min(self.shape, default=0) < 0:
            raise ScheduleError(f"impossible access: shape {self.shape}, itemsize {self.itemsize}")

    @property
    def bytes(self) -> int:
        """Size of the whole tensor."""
        return prod(self.shape) * self.itemsize

    @property
    def task_bytes(self) -> int:
        """Bytes that one rTask touches; at the edges it may be less."""
        return self.itemsize * prod(self.task_shape)

    @property
    def task_shape(self) -> tuple[int, ...]:
        """Elements of each dim that one rTask touches; at the edges they may be fewer."""
        pairs = zip(self.dims, self.shape, strict=True)
        return tuple(size if d.axis == WHOLE else min(d.extent, size) for d, size in pairs)

    @classmethod
    def whole(cls, shape: tuple[int, ...], itemsize: int) -> "Access":
        """Every task touches the whole tensor."""
        return cls(shape, itemsize, (DimAccess(),) * len(shape))


@dataclass(frozen=True)
class Kernel:
    """One rKernel: a tiling of an operator into `prod(grid)` rTasks, equal but for cut-off ends.

    Attributes:
        name: of the kernel.
        grid: how many rTasks there are along each axis.
        reads: one access per operand, which must cover all that a task may touch.
        writes: one access per result; they must be exact and cover each result.
        estimated_ns: time of one rTask alone on one EU, the mean of all.
        on_chip_bytes: of memory in cache or shared memory that an rTask works in.
        in_place: pairs (read, write) whose bytes may be the same, because the task reads each
            element only before it writes that very element (an element-wise body; equal boxes are
            not enough: a transposed square tile has them too).
        workspace: bytes of the EU's own memory in which a task keeps tiles.
        parts: "compute" and the memory levels that one rTask waits for, with the ns of each alone.
        pinned: numbers of the reads, then writes, whose boxes lie in the EU's own memory.
        updates: those of `in_place` whose bytes have to be the same: the result is what was read
            but for what the task writes of it.

    Raises:
        ScheduleError: an access, a time or a number does not fit the rest.
    """

    name: str
    grid: tuple[int, ...]
    reads: tuple[Access, ...]
    writes: tuple[Access, ...]
    estimated_ns: float
    on_chip_bytes: int = 0
    in_place: tuple[tuple[int, int], ...] = ()
    workspace: int = 0
    parts: tuple[tuple[str, float], ...] = ()
    pinned: tuple[int, ...] = ()
    updates: tuple[tuple[int, int], ...] = ()

    def __post_init__(self) -> None:
        if min(self.grid, default=0) < 0 or not self.estimated_ns >= 0:
            raise ScheduleError(
                f"rKernel {self.name}: impossible grid {self.grid} or time {self.estimated_ns}"
            )
        for access in (*self.reads, *self.writes):
            for dim in access.dims:
                if not WHOLE <= dim.axis < len(self.grid) or dim.scale < 0 or dim.extent < 0:
                    raise ScheduleError(
                        f"rKernel {self.name}: {dim} does not fit the grid {self.grid}: an axis is "
                        "-1 or a grid dim, scale and extent are not negative"
                    )
        for read, write in self.in_place:
            if not (0 <= read < len(self.reads) and 0 <= write < len(self.writes)):
                raise ScheduleError(f"rKernel {self.name}: no operands for in_place {read, write}")
        if not {*self.updates} <= {*self.in_place}:
            raise ScheduleError(f"rKernel {self.name}: updates {self.updates} are not in place")
        if not all(0 <= number < len(self.accesses) for number in self.pinned):
            raise ScheduleError(f"rKernel {self.name}: no operands for pinned {self.pinned}")

    @property
    def tasks(self) -> int:
        """Number of rTasks."""
        return prod(self.grid)

    @property
    def asks(self) -> bool:
        """Whether its rTasks only ask for what others will read: without results, they wait for
        none of it.
        """
        return not self.writes

    @property
    def accesses(self) -> tuple[Access, ...]:
        """Of the operands, then of the results."""
        return (*self.reads, *self.writes)

    @cached_property
    def operand_bytes(self) -> tuple[int, ...]:
        """Of operands, then results, the bytes behind the address that a task gets: of a pinned one
        those of its box.
        """
        return tuple(
            access.task_bytes if number in self.pinned else access.bytes
            for number, access in enumerate(self.accesses)
        )

    @cached_property
    def task_bytes(self) -> int:
        """Bytes of the memory of all EUs that one rTask touches, each operand for itself; at the
        edges it may be less.
        """
        return sum(a.task_bytes for n, a in enumerate(self.accesses) if n not in self.pinned)

    @property
    def work_ns(self) -> float:
        """Time of all rTasks on one EU: the paper's efficiency, smaller is better."""
        return self.estimated_ns * self.tasks

    @cached_property
    def progress(self) -> NDArray[np.float64] | None:
        """(tasks + 1,) work of the first rTasks, in rTasks of the mean size; None: all are equal.

        Those at the end of an axis may be cut off: each counts for what it writes.
        """
        sizes = [np.ones(number) for number in self.grid]
        for access in self.writes[:1]:
            for dim, size in zip(access.dims, access.shape, strict=True):
                if dim.axis != WHOLE:
                    start = dim.scale * np.arange(self.grid[dim.axis]) + dim.offset
                    ends = np.clip(start + dim.extent, 0, size)
                    sizes[dim.axis] *= ends - np.clip(start, 0, size)
        if all((lengths == lengths[:1]).all() for lengths in sizes) or not all(map(np.any, sizes)):
            return None
        work = np.cumsum(reduce(np.multiply.outer, sizes))
        return np.append(0.0, work * (self.tasks / work[-1]))
