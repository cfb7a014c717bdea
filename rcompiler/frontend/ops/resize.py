"""Resize and Upsample.

Sizes, scales and the region of interest are known while compiling. So along each axis every
element of the result is a fixed sum over few elements of the input: positions and weights are
constants. Nearest copies through an affine map or a table of positions.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from rcompiler.frontend import dtypes
from rcompiler.frontend.body import Body
from rcompiler.frontend.builder import Value, dims
from rcompiler.frontend.ops.quantize import round_to
from rcompiler.frontend.ops.shape import MOST_POSITIONS
from rcompiler.frontend.registry import Context, lowering
from rcompiler.frontend.scalar import Scalar

UNROLLED = 4  # taps that are written out; more become a reduction


@dataclass
class Axis:
    """Resampling of one axis.

    scale: output over input size, as given. region: start and end, normalised.
    """

    axis: int
    size: int
    out: int
    scale: float
    region: tuple[float, float] = (0.0, 1.0)


@dataclass
class Taps:
    """at, weight: [out, taps], positions clamped to the input. outside: [out], None if never."""

    at: np.ndarray
    weight: np.ndarray
    outside: np.ndarray | None


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
    scales, sizes = (ctx.const(i) if ctx.has(i) and ctx.input(i).size else None for i in (2, 3))
    if scales is not None and sizes is None:
        plan = _scaled(ctx, x, scales, axes)
    elif sizes is not None and scales is None:
        plan = _sized(ctx, x, sizes, axes)
    else:
        raise ctx.shape_error("either scales or sizes are given")
    mode = ctx.attr("coordinate_transformation_mode", "half_pixel")
    if mode == "tf_crop_and_resize":
        region = ctx.const(1).astype(np.float64).reshape(-1)
        if region.size != 2 * len(axes):
            raise ctx.shape_error("the region has a start and an end per axis")
        for i, axis in enumerate(plan):
            axis.region = (float(region[i]), float(region[len(axes) + i]))
    return _resampled(ctx, x, plan, mode, ctx.attr("nearest_mode", "round_prefer_floor"))


def _scaled(
    ctx: Context, x: Value, scales: Sequence[float] | np.ndarray, axes: Sequence[int]
) -> list[Axis]:
    factors = np.asarray(scales, np.float32).reshape(-1).astype(np.float64)
    if factors.size != len(axes) or not (factors > 0).all():
        raise ctx.shape_error("one positive scale per axis is expected")
    return [
        Axis(a, x.shape[a], int(s * x.shape[a]), float(s))
        for a, s in zip(axes, factors, strict=True)
    ]


def _sized(ctx: Context, x: Value, sizes: np.ndarray, axes: Sequence[int]) -> list[Axis]:
    sizes = sizes.reshape(-1)
    if sizes.size != len(axes) or (sizes < 0).any():
        raise ctx.shape_error("one size per axis is expected")
    scales = [int(n) / max(x.shape[a], 1) for n, a in zip(sizes, axes, strict=True)]
    policy = ctx.attr("keep_aspect_ratio_policy", "stretch")
    if policy == "stretch":
        return [Axis(a, x.shape[a], int(n), s) for a, n, s in zip(axes, sizes, scales, strict=True)]
    if policy not in ("not_larger", "not_smaller"):
        raise ctx.shape_error(f"keep_aspect_ratio_policy '{policy}' is unknown")
    scale = min(scales) if policy == "not_larger" else max(scales)
    return [Axis(a, x.shape[a], int(scale * x.shape[a] + 0.5), scale) for a in axes]


def _resampled(ctx: Context, x: Value, plan: list[Axis], mode: str, nearest: str) -> Value:
    kind = {"bilinear": "linear", "trilinear": "linear"}.get(
        ctx.attr("mode", "nearest"), ctx.attr("mode", "nearest")
    )
    if kind not in ("nearest", "linear", "cubic"):
        raise ctx.shape_error(f"mode '{kind}' is unknown")
    if not dtypes.is_number(x.dtype) and kind != "nearest":
        raise ctx.refuse(f"interpolating {x.dtype} is not translated", "Cast it to float32")
    plan = [
        a
        for a in plan
        if a.out != a.size or not math.isclose(a.scale, 1.0) or a.region != (0.0, 1.0)
    ]
    shape = list(x.shape)
    for axis in plan:
        shape[axis.axis] = axis.out
    if not x.size and 0 not in shape:
        raise ctx.shape_error("an empty tensor cannot be enlarged")
    if 0 in shape:
        return ctx.b.empty(shape, x.dtype)
    ctx.check_size(shape, x.dtype)
    for axis in plan:
        _check_tables(ctx, axis, axis.out * (1 if kind == "nearest" else _reach(ctx, axis, kind)))
    if kind == "nearest":
        return _nearest(ctx, x, plan, mode, nearest, shape)
    wide = x.dtype if x.dtype in ("float32", "float64") else "float32"
    out = ctx.b.cast(x, wide)
    for axis in plan:
        out = _resample_axis(ctx, out, axis, _taps(ctx, axis, mode, kind))
    if dtypes.is_integer(x.dtype):
        return ctx.b.elementwise(lambda s, a: round_to(s, a, None, x.dtype), out, dtype=x.dtype)
    return ctx.b.cast(out, x.dtype)


# -- coordinates ---------------------------------------------------------------------------------


def _source(ctx: Context, a: Axis, mode: str) -> np.ndarray:
    """Coordinate in the input of every element of the result (f64)."""
    y, width = np.arange(a.out, dtype=np.float64), a.scale * a.size
    if mode == "asymmetric":
        return y / a.scale
    if mode == "align_corners":
        return y * 0.0 if width == 1 else y * (a.size - 1) / (width - 1)
    if mode == "tf_crop_and_resize":
        start, end = a.region
        step = (end - start) * (a.size - 1)
        inner = np.full(a.out, step / 2) if a.out == 1 else y * step / (a.out - 1)
        # the region is f32: what it misses a whole number by is no part of the coordinate
        return (inner + start * (a.size - 1)).astype(np.float32).astype(np.float64)
    if mode == "tf_half_pixel_for_nn":
        return (y + 0.5) / a.scale
    if mode == "pytorch_half_pixel" and width == 1:
        return np.full(a.out, -0.5)
    if mode in ("half_pixel", "pytorch_half_pixel"):
        return (y + 0.5) / a.scale - 0.5
    if mode == "half_pixel_symmetric":
        return a.size / 2 * (1 - a.out / width) + (y + 0.5) / a.scale - 0.5
    raise ctx.shape_error(f"coordinate_transformation_mode '{mode}' is unknown")


def _outside(a: Axis, at: np.ndarray, mode: str) -> np.ndarray | None:
    """Where tf_crop_and_resize takes the extrapolation value."""
    if mode != "tf_crop_and_resize":
        return None
    outside = (at < 0) | (at > a.size - 1)
    return outside if outside.any() else None


def _taps(ctx: Context, a: Axis, mode: str, kind: str) -> Taps:
    """Positions and weights; an exact integer coordinate counts as the right end of its cell."""
    x = _source(ctx, a, mode)
    floor = np.floor(x)
    whole = x == floor
    ratio = np.where(whole, 1.0, x - floor)
    scale, count = _narrowing(ctx, a), _reach(ctx, a, kind)
    first = 1 - count // 2
    offsets = np.arange(first, first + count)
    distance = np.abs(offsets[None, :] - ratio[:, None]) * scale
    kernel = _triangle if kind == "linear" else _cubic(ctx.attr("cubic_coeff_a", -0.75))
    weight = kernel(distance)
    if ctx.attr("antialias", 0):
        weight = weight / weight.sum(1, keepdims=True)
    at = (floor - whole).astype(np.int64)[:, None] + offsets[None, :]
    if ctx.attr("exclude_outside", 0):
        weight = np.where((at < 0) | (at >= a.size), 0.0, weight)
        total = weight.sum(1, keepdims=True)
        weight = weight / np.where(total == 0, 1.0, total)
    return Taps(np.clip(at, 0, a.size - 1), weight, _outside(a, x, mode))


def _narrowing(ctx: Context, a: Axis) -> float:
    """What distances are multiplied with: of antialiasing, where the result is smaller."""
    return min(a.scale, 1.0) if ctx.attr("antialias", 0) else 1.0


def _reach(ctx: Context, a: Axis, kind: str) -> int:
    """How many elements of the input one of the result is a sum of."""
    return -2 * math.floor(-(1 if kind == "linear" else 2) / _narrowing(ctx, a))


def _check_tables(ctx: Context, a: Axis, size: int) -> None:
    """Refuse tables of positions that would be made for minutes, and fill the memory."""
    if size > MOST_POSITIONS:
        raise ctx.refuse(
            f"resizing dimension {a.axis} from {a.size} to {a.out} elements reads {size} elements, "
            f"more than the {MOST_POSITIONS} that a table of their positions may have",
            "Check sizes and scales, or resize less",
        )


def _triangle(distance: np.ndarray) -> np.ndarray:
    return np.clip(1 - distance, 0, 1)


def _cubic(a: float) -> Callable[[np.ndarray], np.ndarray]:
    """Keys' cubic convolution kernel (IEEE Trans. ASSP 29(6), 1981)."""

    def kernel(x: np.ndarray) -> np.ndarray:
        near = ((a + 2) * x - (a + 3)) * x * x + 1
        far = ((a * x - 5 * a) * x + 8 * a) * x - 4 * a
        return np.where(x <= 1, near, np.where(x < 2, far, 0.0))

    return kernel


# -- code ----------------------------------------------------------------------------------------


def _resample_axis(ctx: Context, x: Value, a: Axis, taps: Taps) -> Value:
    """One axis resampled."""
    b, count = ctx.b, taps.at.shape[1]
    shape = list(x.shape)
    shape[a.axis] = a.out
    own = dims(x.rank)
    fill = ctx.attr("extrapolation_value", 0.0)

    def element(s: Body, at: Scalar) -> Scalar:
        where = [s.index(i) for i in range(x.rank)]
        where[a.axis] = s.cast(at, "index")
        return s.extract(x, where)

    weights = taps.weight.astype(dtypes.numpy_dtype(x.dtype))
    mask = [] if taps.outside is None else [(b.constant(taps.outside), own[a.axis])]
    if count <= UNROLLED:
        columns = [(b.constant(taps.at[:, t].copy()), own[a.axis]) for t in range(count)]
        columns += [(b.constant(weights[:, t].copy()), own[a.axis]) for t in range(count)]

        def body(s: Body, *args: Scalar) -> Scalar:
            total = element(s, args[0]) * args[count]
            for t in range(1, count):
                total = total + element(s, args[t]) * args[count + t]
            return s.select(args[2 * count], fill, total) if mask else total

        return b.tabulate(shape, x.dtype, body, *columns, *mask)
    table = f"{own[a.axis]}, d{x.rank}"
    reads = [(b.constant(taps.at), table), (b.constant(weights), table)]
    add = lambda s, at, w, acc: acc + element(s, at) * w  # noqa: E731
    out = b.fold(reads, shape, x.dtype, 0, "p" * x.rank + "r", add)
    if not mask:
        return out
    column = b.reshape(mask[0][0], [a.out, *[1] * (x.rank - 1 - a.axis)])
    return b.elementwise(lambda s, v, m: s.select(m, fill, v), out, column)


def _nearest(
    ctx: Context, x: Value, plan: list[Axis], mode: str, nearest: str, shape: list[int]
) -> Value:
    b = ctx.b
    tables: dict[int, np.ndarray] = {}
    masks: dict[int, np.ndarray] = {}
    for a in plan:
        at = _source(ctx, a, mode)
        rounded = {
            "round_prefer_floor": np.ceil(at - 0.5), "round_prefer_ceil": np.floor(at + 0.5),
            "floor": np.floor(at), "ceil": np.ceil(at),
            # Opset 10, by its test cases and onnxruntime.
            "outward": np.ceil(at) if a.scale < 1 else np.floor(at),
        }.get(nearest)  # fmt: skip
        if rounded is None:
            raise ctx.shape_error(f"nearest_mode '{nearest}' is unknown")
        tables[a.axis] = np.clip(rounded, 0, a.size - 1).astype(np.int64)
        outside = _outside(a, at, mode)
        if outside is not None:
            masks[a.axis] = outside
        elif _even(tables[a.axis]) and (step := _step(tables[a.axis])) > 0:
            x = b.slice_along(x, a.axis, int(tables.pop(a.axis)[0]), a.out, step)
    if not tables:
        return x
    own = dims(x.rank)
    read = [f"{d} floordiv {_times(tables[i])}" if i in tables else d for i, d in enumerate(own)]
    if not masks and all(_times(t) for t in tables.values()):
        return b.tabulate(shape, x.dtype, lambda s, v: v, (x, ", ".join(read)))
    reads = [(b.constant(t), own[i]) for i, t in tables.items()]
    reads += [(b.constant(m), own[i]) for i, m in masks.items()]

    def body(s: Body, *args: Scalar) -> Scalar:
        where = [s.index(i) for i in range(x.rank)]
        for i, at in zip(tables, args, strict=False):
            where[i] = s.cast(at, "index")
        value = s.extract(x, where)
        for mask in args[len(tables) :]:
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
