"""Resize and Upsample.

Scales and the region of interest are known while compiling. Along each axis every element of the
result is a sum over few elements of the input, at positions and with weights that are tables
(`resize_axes`). Nearest copies through an affine map or a table of positions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from rcompiler.frontend import dtypes
from rcompiler.frontend.body import Body
from rcompiler.frontend.builder import Value, dims
from rcompiler.frontend.ops.quantize import round_to
from rcompiler.frontend.ops.resize_axes import (
    Axis,
    Taps,
    nearest_places,
    reach,
    scale_of,
    scaled,
    taps_of,
)
from rcompiler.frontend.ops.shape import MOST_POSITIONS
from rcompiler.frontend.registry import Context, lowering
from rcompiler.frontend.scalar import Scalar
from rcompiler.frontend.sized import bare
from rcompiler.frontend.sizes.ratios import resized
from rcompiler.frontend.value import SizeAtRunTime
from rcompiler.support.extent import Size, lowest

UNROLLED = 4  # taps that are written out; more become a reduction


@lowering("Upsample")
def _upsample(ctx: Context) -> Value:
    x, scales = ctx.input(0), ctx.attr("scales")
    if ctx.has(1):
        scales = ctx.const(1).tolist()
    elif scales is None:  # opset 1
        scales = [1.0, 1.0, ctx.attr("height_scale", 1.0), ctx.attr("width_scale", 1.0)]
    return _resampled(ctx, x, _scaled(ctx, x, scales, range(x.rank)), "asymmetric", "floor")


@lowering("Resize")
def _resize(ctx: Context) -> Value:
    x = ctx.input(0)
    if ctx.opset < 11:
        plan = _scaled(ctx, x, ctx.const(1), range(x.rank))
        return _resampled(ctx, x, plan, "asymmetric", "outward")
    axes = ctx.axes(ctx.attr("axes") or range(x.rank), x.rank)
    given = [ctx.has(i) and ctx.input(i).size > 0 for i in (2, 3)]
    if given == [True, False]:
        sizes = resized(ctx.input(2), [x.sizes[axis] for axis in axes])
        if sizes is None:
            plan = _scaled(ctx, x, ctx.const(2), axes)
        else:
            plan = _stretched(x, axes, sizes)
    elif given == [False, True]:
        plan = _sized(ctx, x, axes)
    else:
        raise ctx.shape_error("either scales or sizes are given")
    mode = ctx.attr("coordinate_transformation_mode", "half_pixel")
    if mode == "tf_crop_and_resize":
        region = ctx.const(1).astype(np.float64).reshape(-1)
        if region.size != 2 * len(axes):
            raise ctx.shape_error("the region has a start and an end per axis")
        ends = zip(region[: len(axes)].tolist(), region[len(axes) :].tolist(), strict=True)
        plan = [replace(a, region=own) for a, own in zip(plan, ends, strict=True)]
        if any(a.there is not None and not a.keeps for a in plan):
            raise SizeAtRunTime("a region is cut out of it")
    return _resampled(ctx, x, plan, mode, ctx.attr("nearest_mode", "round_prefer_floor"))


def _scaled(
    ctx: Context, x: Value, scales: Sequence[float] | np.ndarray, axes: Sequence[int]
) -> list[Axis]:
    factors = np.asarray(scales, np.float32).reshape(-1).astype(np.float64)
    if factors.size != len(axes) or not (factors > 0).all():
        raise ctx.shape_error("one positive scale per axis is expected")
    pairs = zip(axes, factors.tolist(), strict=True)
    return [Axis.of(x, a, scaled(ctx, x.sizes[a], a, s), s) for a, s in pairs]


def _sized(ctx: Context, x: Value, axes: Sequence[int]) -> list[Axis]:
    told = ctx.input(3).elements
    sizes = (ctx.const(3) if told is None else told).reshape(-1).tolist()
    if len(sizes) != len(axes) or any(lowest(size) < 0 for size in sizes):
        raise ctx.shape_error("one size per axis is expected")
    policy = ctx.attr("keep_aspect_ratio_policy", "stretch")
    if policy == "stretch":
        return _stretched(x, axes, sizes)
    if policy not in ("not_larger", "not_smaller"):
        raise ctx.shape_error(f"keep_aspect_ratio_policy '{policy}' is unknown")
    if told is not None or any(x.extents[a] is not None for a in axes):
        raise SizeAtRunTime(f"keep_aspect_ratio_policy '{policy}' compares the sizes")
    scales = [scale_of(x.sizes[a], n) for n, a in zip(sizes, axes, strict=True)]
    known = [scale for scale in scales if scale is not None]
    scale = min(known) if policy == "not_larger" else max(known)
    return [Axis(a, x.shape[a], int(scale * x.shape[a] + 0.5), scale) for a in axes]


def _stretched(x: Value, axes: Sequence[int], sizes: Sequence[Size]) -> list[Axis]:
    return [Axis.of(x, a, n, scale_of(x.sizes[a], n)) for a, n in zip(axes, sizes, strict=True)]


def _resampled(ctx: Context, x: Value, plan: list[Axis], mode: str, nearest: str) -> Value:
    kind = {"bilinear": "linear", "trilinear": "linear"}.get(
        ctx.attr("mode", "nearest"), ctx.attr("mode", "nearest")
    )
    if kind not in ("nearest", "linear", "cubic"):
        raise ctx.shape_error(f"mode '{kind}' is unknown")
    if not dtypes.is_number(x.dtype) and kind != "nearest":
        raise ctx.refuse(f"interpolating {x.dtype} is not translated", "Cast it to float32")
    plan = [a for a in plan if not a.keeps]
    shape, extents, whole = list(x.shape), list(x.extents), bare(x)
    for axis in plan:
        shape[axis.axis], extents[axis.axis] = axis.out, axis.extent
        if axis.there is not None and lowest(axis.there[0]) < 1:
            raise SizeAtRunTime(f"there may be nothing to resize along axis {axis.axis}")
    if not x.size and 0 not in shape:
        raise ctx.shape_error("an empty tensor cannot be enlarged")
    if 0 in shape:
        return ctx.b.empty(shape, x.dtype)
    ctx.check_size(shape, x.dtype)
    for axis in plan:
        _check_tables(ctx, axis, axis.out * (1 if kind == "nearest" else reach(ctx, axis, kind)))
    if kind == "nearest":
        return ctx.b.sized(_nearest(ctx, whole, plan, mode, nearest, shape), extents)
    wide = x.dtype if x.dtype in ("float32", "float64") else "float32"
    out = ctx.b.cast(whole, wide)
    for axis in plan:
        taps = taps_of(ctx, axis, mode, kind, dtypes.numpy_dtype(wide))
        out = _resample_axis(ctx, out, axis, taps)
    if dtypes.is_integer(x.dtype):
        out = ctx.b.elementwise(lambda s, a: round_to(s, a, None, x.dtype), out, dtype=x.dtype)
    return ctx.b.sized(ctx.b.cast(out, x.dtype), extents)


def _check_tables(ctx: Context, a: Axis, size: int) -> None:
    """Refuse tables of positions that would be made for minutes, and fill the memory."""
    if size > MOST_POSITIONS:
        raise ctx.refuse(
            f"resizing dimension {a.axis} from {a.size} to {a.out} elements reads {size} elements, "
            f"more than the {MOST_POSITIONS} that a table of their positions may have",
            "Check sizes and scales, or resize less",
        )


# -- code ----------------------------------------------------------------------------------------


def _resample_axis(ctx: Context, x: Value, a: Axis, taps: Taps) -> Value:
    """One axis resampled."""
    b, count = ctx.b, taps.at.shape[1]
    at, weight = taps.at, taps.weight
    shape = list(x.shape)
    shape[a.axis] = a.out
    own = dims(x.rank)
    fill = ctx.attr("extrapolation_value", 0.0)

    def element(s: Body, at: Scalar) -> Scalar:
        where = [s.index(i) for i in range(x.rank)]
        where[a.axis] = s.cast(at, "index")
        return s.extract(x, where)

    mask = [] if taps.outside is None else [(b.constant(taps.outside), own[a.axis])]
    if count <= UNROLLED:
        columns = [
            _column(ctx, table, t, own[a.axis]) for table in (at, weight) for t in range(count)
        ]

        def body(s: Body, *args: Scalar) -> Scalar:
            total = element(s, args[0]) * args[count]
            for t in range(1, count):
                total = total + element(s, args[t]) * args[count + t]
            return s.select(args[2 * count], fill, total) if mask else total

        return b.tabulate(shape, x.dtype, body, *columns, *mask)
    table = f"{own[a.axis]}, d{x.rank}"
    reads = [(at, table), (weight, table)]
    add = lambda s, at, w, acc: acc + element(s, at) * w  # noqa: E731
    out = b.fold(reads, shape, x.dtype, 0, "p" * x.rank + "r", add)
    if not mask:
        return out
    column = b.reshape(mask[0][0], [a.out, *[1] * (x.rank - 1 - a.axis)])
    return b.elementwise(lambda s, v, m: s.select(m, fill, v), out, column)


def _column(ctx: Context, table: Value, number: int, read: str) -> tuple[Value, str]:
    """One column of a table, as a body reads it."""
    if table.const is None:
        return table, f"{read}, {number}"
    return ctx.b.constant(table.const[:, number].copy()), read


def _nearest(
    ctx: Context, x: Value, plan: list[Axis], mode: str, nearest: str, shape: list[int]
) -> Value:
    b = ctx.b
    tables: dict[int, np.ndarray] = {}
    masks: dict[int, np.ndarray] = {}
    computed: dict[int, Value] = {}
    for a in plan:
        found, outside = nearest_places(ctx, a, mode, nearest)
        if isinstance(found, Value):
            computed[a.axis] = found
            continue
        tables[a.axis] = found
        if outside is not None:
            masks[a.axis] = outside
        elif _even(found) and (step := _step(found)) > 0:
            x = b.slice_along(x, a.axis, int(tables.pop(a.axis)[0]), a.out, step)
    if not tables and not computed:
        return x
    own = dims(x.rank)
    read = [f"{d} floordiv {_times(tables[i])}" if i in tables else d for i, d in enumerate(own)]
    if not masks and not computed and all(_times(t) for t in tables.values()):
        return b.tabulate(shape, x.dtype, lambda s, v: v, (x, ", ".join(read)))
    places = {i: b.constant(t) for i, t in tables.items()} | computed
    reads = [(t, own[i]) for i, t in places.items()]
    reads += [(b.constant(m), own[i]) for i, m in masks.items()]

    def body(s: Body, *args: Scalar) -> Scalar:
        where = [s.index(i) for i in range(x.rank)]
        for i, at in zip(places, args, strict=False):
            where[i] = s.cast(at, "index")
        value = s.extract(x, where)
        for mask in args[len(places) :]:
            value = s.select(mask, ctx.attr("extrapolation_value", 0.0), value)
        return value

    return b.tabulate(shape, x.dtype, body, *reads)


def _even(table: np.ndarray) -> bool:
    """Whether all positions are equally far from the next."""
    return bool((np.diff(table, 2) == 0).all())


def _step(table: np.ndarray) -> int:
    return int(table[1] - table[0]) if table.size > 1 else 1


def _times(table: np.ndarray) -> int:
    """n when every element is taken n times in a row from the first on, else 0."""
    times = int(np.count_nonzero(table == table[0]))
    return times if np.array_equal(table, np.arange(table.size) // times) else 0
