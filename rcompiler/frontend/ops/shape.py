"""Operators that change shapes or move whole pieces: views, joining, cutting, repeating."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from rcompiler.frontend import dtypes, load
from rcompiler.frontend.body import Body
from rcompiler.frontend.builder import Value, broadcast_shapes
from rcompiler.frontend.ops.run_time_slice import slice_at_run_time
from rcompiler.frontend.registry import Context, lowering
from rcompiler.frontend.scalar import Scalar

MOST_POSITIONS = 1 << 26  # of a table of where the elements of a dimension come from


@lowering("Reshape")
def _reshape(ctx: Context) -> Value:
    x = ctx.input(0)
    wanted = ctx.ints(1, "shape", [])
    keep_zero = ctx.attr("allowzero", 0)
    if not keep_zero:
        if any(d == 0 and i >= x.rank for i, d in enumerate(wanted)):
            raise ctx.shape_error(f"shape {wanted} copies a dimension the input does not have")
        wanted = [x.shape[i] if d == 0 else d for i, d in enumerate(wanted)]
    if wanted.count(-1) == 1:
        rest = -math.prod(wanted)
        wanted = [(x.size // rest if rest else 0) if d == -1 else d for d in wanted]
    if any(d < 0 for d in wanted) or math.prod(wanted) != x.size:
        raise ctx.shape_error(f"{x.size} elements do not fit the shape {wanted}")
    return ctx.b.reshape(x, wanted)


@lowering("Flatten")
def _flatten(ctx: Context) -> Value:
    x, axis = ctx.input(0), ctx.attr("axis", 1)
    if not -x.rank <= axis <= x.rank:
        raise ctx.shape_error(f"axis {axis} is outside a tensor of rank {x.rank}")
    axis = axis + x.rank if axis < 0 else axis
    return ctx.b.reshape(x, [math.prod(x.shape[:axis]), math.prod(x.shape[axis:])])


@lowering("Squeeze")
def _squeeze(ctx: Context) -> Value:
    x = ctx.input(0)
    axes = ctx.ints(1, "axes", None)
    if axes is None or not axes and not ctx.has(1):  # an attribute without numbers says nothing
        axes = [i for i, d in enumerate(x.shape) if d == 1]
    axes = ctx.axes(axes, x.rank)
    if any(x.shape[a] != 1 for a in axes):
        raise ctx.shape_error(f"axes {axes} are not all of size one")
    return ctx.b.reshape(x, [d for i, d in enumerate(x.shape) if i not in axes])


@lowering("Unsqueeze")
def _unsqueeze(ctx: Context) -> Value:
    x = ctx.input(0)
    given = ctx.ints(1, "axes", [])
    axes = ctx.axes(given, x.rank + len(given))
    if len(set(axes)) != len(axes):
        raise ctx.shape_error(f"axes {given} name one axis twice")
    rest = iter(x.shape)
    rank = x.rank + len(axes)
    return ctx.b.reshape(x, [1 if i in axes else next(rest) for i in range(rank)])


@lowering("Transpose")
def _transpose(ctx: Context) -> Value:
    x = ctx.input(0)
    perm = ctx.attr("perm", list(reversed(range(x.rank))))
    if sorted(perm) != list(range(x.rank)):
        raise ctx.shape_error(f"perm {perm} is not a permutation of {x.rank} axes")
    return ctx.b.transpose(x, perm)


@lowering("Shape")
def _shape(ctx: Context) -> Value:
    shape = ctx.input(0).shape
    return ctx.b.constant(np.array(shape[ctx.attr("start", 0) : ctx.attr("end")], np.int64))


@lowering("Size")
def _size(ctx: Context) -> Value:
    return ctx.b.constant(np.array(ctx.input(0).size, np.int64))


@lowering("Concat")
def _concat(ctx: Context) -> Value:
    values = [ctx.input(i) for i in range(len(ctx.inputs))]
    axis = ctx.axis(ctx.attr("axis", 1), values[0].rank)
    rests = {(v.dtype, v.shape[:axis], v.shape[axis + 1 :], v.rank) for v in values}
    if len(rests) > 1:
        raise ctx.shape_error("the inputs differ outside the joined axis")
    return ctx.b.concat(values, axis)


@lowering("Split")
def _split(ctx: Context) -> list[Value]:
    x, count = ctx.input(0), len(ctx.outputs)
    axis = ctx.axis(ctx.attr("axis", 0), x.rank)
    sizes = ctx.ints(1, "split", None)
    length = x.shape[axis]
    if sizes is None:
        if ctx.attr("num_outputs", count) != count:
            asked = ctx.attr("num_outputs")
            raise ctx.shape_error(f"num_outputs is {asked}, but the node has {count} outputs")
        step = -(-length // count)
        sizes = [max(min(step, length - i * step), 0) for i in range(count)]
    if sum(sizes) != length or any(s < 0 for s in sizes):
        raise ctx.shape_error(f"parts {sizes} do not add up to {length}")
    return list(ctx.b.split(x, axis, sizes))


@lowering("Slice")
def _slice(ctx: Context) -> Value:
    x = ctx.input(0)
    if any(value is not None and value.const is None for value in map(ctx.optional, (1, 2))):
        return slice_at_run_time(ctx)
    starts, ends = ctx.ints(1, "starts", []), ctx.ints(2, "ends", [])
    axes = ctx.axes(ctx.ints(3, "axes", None) or list(range(len(starts))), x.rank)
    steps = ctx.ints(4, "steps", None) or [1] * len(starts)
    if not len(starts) == len(ends) == len(axes) == len(steps) or 0 in steps:
        raise ctx.shape_error(f"starts {starts}, ends {ends}, axes {axes}, steps {steps}")
    begin, size, stride = [0] * x.rank, list(x.shape), [1] * x.rank
    for axis, start, end, step in zip(axes, starts, ends, steps, strict=True):
        picked = range(x.shape[axis])[start:end:step]
        begin[axis], size[axis], stride[axis] = picked.start, len(picked), step
    return ctx.b.slice(x, begin, size, stride)


@lowering("Expand")
def _expand(ctx: Context) -> Value:
    x, wanted = ctx.input(0), ctx.ints(1, "shape")
    shape = broadcast_shapes(x.shape, wanted) if all(d >= 0 for d in wanted) else None
    if shape is None:
        raise ctx.shape_error(f"it does not broadcast with the shape {wanted}")
    return ctx.b.broadcast_to(x, shape)


@lowering("Tile")
def _tile(ctx: Context) -> Value:
    """Each repeated axis is read through a broadcast axis in front of it."""
    x = ctx.input(0)
    if ctx.opset < 6:
        axis, times = ctx.axis(ctx.scalar(2), x.rank), ctx.scalar(1)
        repeats = [times if i == axis else 1 for i in range(x.rank)]
    else:
        repeats = ctx.ints(1, "repeats")
    if len(repeats) != x.rank or any(r < 0 for r in repeats):
        raise ctx.shape_error(f"repeats {repeats} do not fit rank {x.rank}")
    apart: list[int] = []
    spread: list[int] = []
    for size, times in zip(x.shape, repeats, strict=True):
        apart += [1, size] if times != 1 and size != 1 else [size]
        spread += [times, size] if times != 1 and size != 1 else [size * times]
    wide = ctx.b.broadcast_to(ctx.b.reshape(x, apart), spread)
    return ctx.b.reshape(wide, [d * r for d, r in zip(x.shape, repeats, strict=True)])


@lowering("ConstantOfShape")
def _constant_of_shape(ctx: Context) -> Value:
    shape = ctx.ints(0, "shape")
    tensor = ctx.attr("value")
    one = np.zeros(1, np.float32) if tensor is None else load.array_of(tensor)
    if any(d < 0 for d in shape) or one.size != 1:
        raise ctx.shape_error(f"shape {shape}, {one.size} values")
    ctx.check_size(shape, dtypes.name_of(one))
    return ctx.b.constant_view(np.broadcast_to(one.reshape(()), shape), dtypes.name_of(one))


@lowering("Pad")
def _pad(ctx: Context) -> Value:
    x, mode = ctx.input(0), ctx.attr("mode", "constant")
    pads = ctx.ints(1, "pads", None)
    if pads is None:
        pads = ctx.attr("paddings", [])  # opset 1
    axes = ctx.axes(ctx.ints(3, "axes", None) or list(range(x.rank)), x.rank)
    if len(pads) != 2 * len(axes):
        raise ctx.shape_error(f"pads {pads} do not fit {len(axes)} axes")
    low, high = [0] * x.rank, [0] * x.rank
    for i, axis in enumerate(axes):
        low[axis], high[axis] = pads[i], pads[len(axes) + i]
    if any(d + a + b < 0 for d, a, b in zip(x.shape, low, high, strict=True)):
        raise ctx.shape_error(f"pads {pads} remove more than there is")
    ctx.check_size([d + a + b for d, a, b in zip(x.shape, low, high, strict=True)], x.dtype)
    if mode == "constant":
        return _pad_constant(ctx, x, low, high)
    if mode not in ("reflect", "edge", "wrap"):
        raise ctx.refuse(f"mode {mode} is not translated", "Use constant, reflect, edge or wrap")
    return _pad_from_data(ctx, x, low, high, mode)


def _pad_constant(ctx: Context, x: Value, low: list[int], high: list[int]) -> Value:
    number = ctx.optional(2)
    if number is None or number.const is not None:
        fixed = 0 if number is None else number.array.reshape(-1)[0]
        if ctx.opset < 11:
            fixed = ctx.attr("value", 0.0)
        return ctx.b.pad(x, low, high, fixed)
    # A number known only at run time: choose it outside a mask of ones.
    inside = ctx.b.pad(ctx.b.splat(x.shape, "bool", True), low, high, False)
    padded = ctx.b.pad(x, low, high, 0)
    return ctx.b.elementwise(
        lambda s, c, a, n: s.select(c, a, n),
        inside,
        padded,
        ctx.b.reshape(number, []),
        dtype=x.dtype,
    )


def _pad_from_data(
    ctx: Context, x: Value, low: Sequence[int], high: Sequence[int], mode: str
) -> Value:
    """Padding that repeats the tensor's own elements: one gather per padded axis position. What is
    cut off is not there to repeat.
    """
    shape = [d + a + b for d, a, b in zip(x.shape, low, high, strict=True)]
    cut = [max(-a, 0) for a in low]
    left = [d - c - max(-b, 0) for d, c, b in zip(x.shape, cut, high, strict=True)]
    if 0 in shape:
        return ctx.b.empty(shape, x.dtype)
    if any(d <= 0 for d in left):
        raise ctx.shape_error(f"mode {mode} has nothing to repeat")
    moved = [i for i in range(x.rank) if low[i] or high[i]]
    if max((shape[i] for i in moved), default=0) > MOST_POSITIONS:
        raise ctx.refuse(
            f"mode {mode} pads a dimension to {max(shape[i] for i in moved)} elements, more than "
            f"the {MOST_POSITIONS} that a table of their positions may have",
            "Pad less, or with mode constant",
        )
    maps = [
        ctx.b.constant(
            cut[i] + _sources(np.arange(shape[i], dtype=np.int64) - max(low[i], 0), left[i], mode)
        )
        for i in moved
    ]

    def body(s: Body, *args: Scalar) -> Scalar:
        at: list[Scalar] = [s.index(i) for i in range(x.rank)]
        for i, position in zip(moved, args, strict=True):
            at[i] = s.cast(position, "index")
        return s.extract(x, at)

    return ctx.b.tabulate(
        shape, x.dtype, body, *((table, f"d{i}") for i, table in zip(moved, maps, strict=True))
    )


def _sources(positions: np.ndarray, size: int, mode: str) -> np.ndarray:
    """The elements that stand at ``positions`` (may be outside 0..size)."""
    if mode == "edge":
        return positions.clip(0, size - 1)
    if mode == "wrap":
        return positions % size
    period = max(2 * (size - 1), 1)
    positions %= period
    return np.minimum(positions, period - positions) if size > 1 else 0 * positions
