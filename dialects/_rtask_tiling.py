"""What must hold for the attributes of rtask ops that cut an operator into rTasks."""

import math
from collections.abc import Iterator, Sequence
from typing import Any

from torch_mlir import ir

from rcompiler.dialects.attributes import integer_problems

WHOLE = -1
"""The axis of an access to a whole tensor dimension."""

Access = Sequence[tuple[int, int, int, int]]
"""Per tensor dim (axis, scale, offset, extent): the task with grid coordinates g touches
[scale * g[axis] + offset, + extent) clamped to the dim; axis WHOLE: all of it."""


def kernel_tiling_problems(op: Any) -> Iterator[str]:
    """Of the rTiles of an rtask.kernel and of the loops over them."""
    for name in ("grid", "tile", "register_tile"):
        array = op.attributes[name]
        if not isinstance(array, ir.DenseI64ArrayAttr) or any(extent < 1 for extent in array):
            yield f"expects '{name}' to be an array<i64> of positive numbers"
        if len(array) != len(op.grid):
            yield f"expects '{name}' to have one number for each of {len(op.grid)} grid axes"
    yield from integer_problems(
        op, {"vector_dim": -1, "lanes": 1, "tasks": 1, "on_chip_bytes": 0, "registers": 0}
    )
    if op.vector_dim.value >= len(op.grid):
        yield f"expects 'vector_dim' to be -1 or one of {len(op.grid)} grid axes"
    if op.lanes.value & (op.lanes.value - 1):
        yield f"expects 'lanes' to be a power of two, not {op.lanes.value}"
    yield from _loop_problems(op, len(op.grid))
    tasks = math.prod(op.grid)
    if op.tasks.value != tasks:
        yield f"expects 'tasks' to be the {tasks} points of 'grid', not {op.tasks.value}"


def stage_tiling_problems(op: Any, rank: int, axes: int, *, in_task: bool) -> Iterator[str]:
    """Of the attributes that a stage has in a kernel, over a grid of `axes` axes.

    in_task: whether it is in the body of one task, whose slices and loops say the rest.
    """
    for name in ("register_tile",) if in_task else ("axes", "register_tile"):
        array = op.attributes[name] if name in op.attributes else None
        if not isinstance(array, ir.DenseI64ArrayAttr) or len(array) != rank:
            yield f"expects '{name}' to be an array<i64> with one number for each of {rank} dims"
    if in_task and "axes" in op.attributes:
        yield "expects no 'axes' in the body of one task: its slices say which tile is kept"
    if not in_task and any(not WHOLE <= axis < axes for axis in op.attributes["axes"]):
        yield f"expects 'axes' to be -1 or one of {axes} grid axes"
    if any(extent < 1 for extent in op.attributes["register_tile"]):
        yield "expects 'register_tile' to have positive numbers"
    yield from integer_problems(op, {"vector_dim": -1, "lanes": 1})
    if op.attributes["vector_dim"].value >= rank:
        yield f"expects 'vector_dim' to be -1 or one of {rank} dims"
    if "order" not in op.attributes and not in_task:
        yield "expects an 'order'"
    yield from _loop_problems(op, rank)


def _loop_problems(op: ir.OpView, axes: int) -> Iterator[str]:
    """Of the optional attributes that say how the loops of a task are nested."""
    if "order" in op.attributes:
        order = op.attributes["order"]
        if not isinstance(order, ir.DenseI64ArrayAttr) or sorted(order) != list(range(axes)):
            yield f"expects 'order' to be an array<i64> with each of {axes} axes once"
    if "reduction_tile" in op.attributes:
        parts = op.attributes["reduction_tile"]
        if not isinstance(parts, ir.DenseI64ArrayAttr) or len(parts) != 2:
            yield "expects 'reduction_tile' to be array<i64: loops around the parts, steps>"
        if not 0 <= parts[0] <= axes or parts[1] < 1:
            yield f"expects 'reduction_tile' to have 0 to {axes} loops and at least 1 step"


def pinned_problems(op: Any, tensors: int) -> Iterator[str]:
    """Of the optional attribute `pinned` of an rtask.kernel with so many operands and results."""
    pinned = op.attributes["pinned"] if "pinned" in op.attributes else None
    if pinned is None:
        return
    if not isinstance(pinned, ir.DenseI64ArrayAttr):
        yield "expects 'pinned' to be an array<i64>"
    if list(pinned) != sorted({n for n in pinned if 0 <= n < tensors}):
        yield f"expects 'pinned' to be rising numbers of its {tensors} tensors, not {list(pinned)}"


def access_problems(access: ir.Attribute, rank: int, axes: int) -> Iterator[str]:
    """Is this an access to a tensor of that rank, over a grid of that many axes?"""
    if (
        not isinstance(access, ir.ArrayAttr)
        or len(access) != rank
        or any(not isinstance(dim, ir.DenseI64ArrayAttr) or len(dim) != 4 for dim in access)
    ):
        yield f"one array<i64: axis, scale, offset, extent> for each of {rank} dims"
    for dim in access:
        axis, _, _, extent = dim
        if not WHOLE <= axis < axes:
            yield f"an axis of -1 or below {axes}, not {axis},"
        if axis != WHOLE and extent < 1:
            yield f"an extent of at least 1, not {extent},"


def partition_problems(
    access: ir.ArrayAttr, shape: Sequence[int], grid: tuple[int, ...]
) -> Iterator[str]:
    """Closed form of "every element is in the tile of exactly one task, and no tile is empty".

    That holds just when each axis of more than one point walks exactly one dim of the tensor, in
    steps of the tile's extent, and the last of those tiles ends at or past the end of the dim.
    """
    used: list[int] = []
    for size, (axis, scale, offset, extent) in zip(shape, access, strict=True):
        if axis == WHOLE:
            continue
        points = grid[axis]
        if offset or (points > 1 and scale != extent):
            yield f"[{scale} * g + {offset}, + {extent}) leaves gaps or overlaps"
        if not extent * (points - 1) < max(size, 1) <= extent * points:
            yield f"{points} tiles of {extent} do not fit a dim of {size}"
        used.append(axis)
    for axis, points in enumerate(grid):
        if points > 1 and used.count(axis) != 1:
            yield f"axis {axis} of {points} points walks {used.count(axis)} of its dims, not 1"
