"""Where the elements of a resized axis come from: positions in the input, and their weights.

The formulas are those of the standard, written once. Of sizes that are known they make arrays while
compiling; of a size that only a run tells, the run computes the same tables in f64.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rcompiler.frontend.body import Body
from rcompiler.frontend.builder import Value
from rcompiler.frontend.registry import Context
from rcompiler.frontend.scalar import Scalar
from rcompiler.frontend.value import SizeAtRunTime, extent_of
from rcompiler.support.extent import Extent, InexactDivision, Size, highest, lowest

_MOST_SCALED = 1 << 62  # a size times the numerator of its scale
_BY_PLACE = ("asymmetric", "half_pixel", "tf_half_pixel_for_nn")  # whatever the sizes are


@dataclass(frozen=True)
class Axis:
    """Resampling of one axis.

    size, out: of the input and of the result; bounds, where ``there`` has both as a run tells them.
    scale: output over input size, as given; None where a run computes it. region: start and end,
    normalised.
    """

    axis: int
    size: int
    out: int
    scale: float | None
    region: tuple[float, float] = (0.0, 1.0)
    there: tuple[Size, Size] | None = None

    @staticmethod
    def of(x: Value, axis: int, out: Size, scale: float | None) -> Axis:
        own = x.sizes[axis]
        known = isinstance(own, int) and isinstance(out, int)
        there = None if known else (own, out)
        return Axis(axis, x.shape[axis], highest(out), scale, there=there)

    @property
    def keeps(self) -> bool:
        """Whether it stays as it is."""
        own, out = self.there or (self.size, self.out)
        same = own == out and self.scale is not None and math.isclose(self.scale, 1.0)
        return same and self.region == (0.0, 1.0)

    @property
    def extent(self) -> Extent | None:
        """That of the result."""
        return None if self.there is None else extent_of(self.there[1])


@dataclass(frozen=True)
class Taps:
    """at, weight: [out, taps], positions clamped to the input. outside: [out], None if never."""

    at: Value
    weight: Value
    outside: np.ndarray | None


class _InBody:
    """What numpy has for arrays, on scalars of f64 in a body."""

    def __init__(self, body: Body) -> None:
        self._body = body
        self.floor, self.ceil, self.abs = body.floor, body.ceil, body.abs

    def where(self, condition: Scalar, a: Any, b: Any) -> Scalar:
        first = a if isinstance(a, Scalar) else self._body.const(a, "float64")
        return self._body.select(condition, first, b)

    def equal(self, a: Scalar, b: Any) -> Scalar:
        return self._body.compare("eq", a, b)

    def clip(self, a: Scalar, low: Any, high: Any) -> Scalar:
        return self._body.maximum(self._body.minimum(a, high), low)


# -- sizes ---------------------------------------------------------------------------------------
def scaled(ctx: Context, size: Size, axis: int, scale: float) -> Size:
    """The product rounded down: a scale is a whole number over a power of two."""
    if isinstance(size, int):
        return int(scale * size)
    number, divisor = scale.as_integer_ratio()
    if highest(size) * number >= _MOST_SCALED:
        raise SizeAtRunTime(f"up to {highest(size)} elements times {scale} are too many")
    return ctx.b.quotient(f"{ctx.outputs[0]}[{axis}]", size * number, divisor)


def scale_of(size: Size, out: Size) -> float | None:
    """None where it is not the same for all counts."""
    if isinstance(size, int) and isinstance(out, int):
        return out / max(size, 1)
    try:
        times = out // size
    except (InexactDivision, ZeroDivisionError):
        return None
    return float(times) if isinstance(times, int) and size * times == out else None


# -- formulas ------------------------------------------------------------------------------------
def _source(ctx: Context, f: Any, a: Axis, mode: str, y: Any, size: Any, out: Any) -> Any:
    """The coordinate in the input of an element of the result."""
    scale = out / size if a.scale is None else a.scale
    width = scale * size
    if mode == "asymmetric":
        return y / scale
    if mode == "tf_crop_and_resize":
        start, end = a.region
        step = (end - start) * (size - 1)
        inner = np.full(a.out, step / 2) if out == 1 else y * step / (out - 1)
        # the region is f32: what it misses a whole number by is no part of the coordinate
        return (inner + start * (size - 1)).astype(np.float32).astype(np.float64)
    if mode == "tf_half_pixel_for_nn":
        return (y + 0.5) / scale
    if mode == "half_pixel_symmetric":
        return size / 2 * (1 - out / width) + (y + 0.5) / scale - 0.5
    if mode == "align_corners":
        return _unless_one(f, width, lambda: y * (size - 1) / (width - 1), lambda: y * 0.0)
    half = (y + 0.5) / scale - 0.5
    if mode == "pytorch_half_pixel":
        return _unless_one(f, width, lambda: half, lambda: y * 0.0 - 0.5)
    if mode == "half_pixel":
        return half
    raise ctx.shape_error(f"coordinate_transformation_mode '{mode}' is unknown")


def _unless_one(f: Any, width: Any, many: Any, one: Any) -> Any:
    if isinstance(width, Scalar):
        return f.where(f.equal(width, 1.0), one(), many())
    return one() if width == 1 else many()


def _rounded(ctx: Context, f: Any, a: Axis, nearest: str, at: Any, size: Any, out: Any) -> Any:
    if nearest == "round_prefer_floor":
        return f.ceil(at - 0.5)
    if nearest == "round_prefer_ceil":
        return f.floor(at + 0.5)
    if nearest == "floor":
        return f.floor(at)
    if nearest == "ceil":
        return f.ceil(at)
    if nearest == "outward":  # opset 10, by its test cases and onnxruntime
        assert a.scale is not None
        return f.ceil(at) if a.scale < 1 else f.floor(at)
    raise ctx.shape_error(f"nearest_mode '{nearest}' is unknown")


def _weight(ctx: Context, f: Any, a: Axis, kind: str, distance: Any) -> Any:
    """Of an element at a distance: a triangle, or Keys' cubic convolution kernel (IEEE Trans. ASSP
    29(6), 1981).
    """
    x = distance * narrowing(ctx, a)
    if kind == "linear":
        return f.clip(1 - x, 0, 1)
    c = ctx.attr("cubic_coeff_a", -0.75)
    near = ((c + 2) * x - (c + 3)) * x * x + 1
    far = ((c * x - 5 * c) * x + 8 * c) * x - 4 * c
    return f.where(x <= 1, near, f.where(x < 2, far, 0.0))


def _tap(
    ctx: Context, f: Any, a: Axis, mode: str, kind: str, y: Any, offset: Any, size: Any, out: Any
) -> tuple[Any, Any]:
    """The place of an element, not clamped, and its weight; offset: to the one before the
    coordinate. An exact integer coordinate counts as the right end of its cell.
    """
    x = _source(ctx, f, a, mode, y, size, out)
    floor = f.floor(x)
    whole = f.equal(x, floor)
    ratio = f.where(whole, 1.0, x - floor)
    return floor - f.where(whole, 1.0, 0.0) + offset, _weight(
        ctx, f, a, kind, f.abs(offset - ratio)
    )


def narrowing(ctx: Context, a: Axis) -> float:
    """What distances are multiplied with: of antialiasing, where the result is smaller."""
    if not ctx.attr("antialias", 0):
        return 1.0
    if a.scale is None:
        raise SizeAtRunTime("how many elements antialiasing adds up depends on the sizes")
    return min(a.scale, 1.0)


def reach(ctx: Context, a: Axis, kind: str) -> int:
    """How many elements of the input one of the result is a sum of."""
    return -2 * math.floor(-(1 if kind == "linear" else 2) / narrowing(ctx, a))


# -- tables --------------------------------------------------------------------------------------
def taps_of(ctx: Context, a: Axis, mode: str, kind: str, dtype: np.dtype[Any]) -> Taps:
    """The tables of an axis, weights in a type of floats."""
    if a.there is not None:
        return _taps_at_run_time(ctx, a, mode, kind, dtype)
    count = reach(ctx, a, kind)
    offsets = _first(count) + np.arange(count)
    y = np.arange(a.out, dtype=np.float64)
    at, weight = _tap(ctx, np, a, mode, kind, y[:, None], offsets[None, :], a.size, a.out)
    if ctx.attr("antialias", 0):
        weight = weight / weight.sum(1, keepdims=True)
    if ctx.attr("exclude_outside", 0):
        weight = np.where((at < 0) | (at >= a.size), 0.0, weight)
        total = weight.sum(1, keepdims=True)
        weight = weight / np.where(total == 0, 1.0, total)
    inside = np.clip(at, 0, a.size - 1).astype(np.int64)
    outside = _outside(ctx, a, mode, y)
    b = ctx.b
    return Taps(b.constant(inside), b.constant(weight.astype(dtype)), outside)


def _first(count: int) -> int:
    """The offset of the first of so many elements."""
    return 1 - count // 2


def _outside(ctx: Context, a: Axis, mode: str, y: np.ndarray) -> np.ndarray | None:
    """Where tf_crop_and_resize takes the extrapolation value."""
    if mode != "tf_crop_and_resize":
        return None
    at = _source(ctx, np, a, mode, y, a.size, a.out)
    outside = (at < 0) | (at > a.size - 1)
    return outside if outside.any() else None


def _table(ctx: Context, a: Axis, shape: Sequence[int], dtype: str, fn: Any) -> Value:
    """``fn(f, y, size, out)`` of a run, for each place of the result."""
    assert a.there is not None

    def body(s: Body, *sizes: Scalar) -> Scalar:
        floats = [s.cast(size, "float64") for size in sizes]
        y = s.cast(s.cast(s.index(0), "int64"), "float64")
        made: Scalar = fn(s, _InBody(s), y, *floats)
        return s.cast(made, dtype)

    return ctx.b.tabulate(shape, dtype, body, *((ctx.b.number(size), "") for size in a.there))


def _taps_at_run_time(ctx: Context, a: Axis, mode: str, kind: str, dtype: np.dtype[Any]) -> Taps:
    b, count = ctx.b, reach(ctx, a, kind)
    excludes, divides = ctx.attr("exclude_outside", 0), ctx.attr("antialias", 0)

    def tap(s: Body, f: Any, y: Scalar, size: Scalar, out: Scalar) -> tuple[Scalar, Scalar]:
        offset = s.cast(s.cast(s.index(1), "int64"), "float64") + float(_first(count))
        found: tuple[Scalar, Scalar]
        found = _tap(ctx, f, a, mode, kind, y, offset, size, out)
        return found

    def place(s: Body, f: Any, y: Scalar, size: Scalar, out: Scalar) -> Scalar:
        inside: Scalar = f.clip(tap(s, f, y, size, out)[0], 0.0, size - 1.0)
        return inside

    def weigh(s: Body, f: Any, y: Scalar, size: Scalar, out: Scalar) -> Scalar:
        at, weight = tap(s, f, y, size, out)
        if excludes and not divides:
            weight = s.select((at < 0.0) | (at >= size), 0.0, weight)
        return weight

    def kept(s: Body, f: Any, y: Scalar, size: Scalar, out: Scalar) -> Scalar:
        at, _ = tap(s, f, y, size, out)
        return s.select((at < 0.0) | (at >= size), s.const(0.0, "float64"), 1.0)

    shape = [a.out, count]
    weights = _table(ctx, a, shape, "float64", weigh)
    if divides:
        weights = _normalised(ctx, weights)
    if excludes and divides:
        inside = _table(ctx, a, shape, "float64", kept)
        weights = b.elementwise(lambda s, w, k: w * k, weights, inside)
    if excludes:
        weights = _normalised(ctx, weights)
    return Taps(_table(ctx, a, shape, "int64", place), b.cast(weights, dtype.name), None)


def _normalised(ctx: Context, weights: Value) -> Value:
    b = ctx.b
    total = b.sum(weights, [1], keepdims=True)
    return b.elementwise(
        lambda s, w, t: w / s.select(t.eq(0.0), s.const(1.0, t.dtype), t), weights, total
    )


def nearest_places(
    ctx: Context, a: Axis, mode: str, nearest: str
) -> tuple[np.ndarray | Value, np.ndarray | None]:
    """[out], positions clamped to the input, and which are outside, if some are."""
    if a.there is not None and not _stays_inside(ctx, a, mode, nearest):

        def place(s: Body, f: Any, y: Scalar, size: Scalar, out: Scalar) -> Scalar:
            at = _source(ctx, f, a, mode, y, size, out)
            found = _rounded(ctx, f, a, nearest, at, size, out)
            inside: Scalar = f.clip(found, 0.0, size - 1.0)
            return inside

        return _table(ctx, a, [a.out], "int64", place), None
    y = np.arange(a.out, dtype=np.float64)
    at = _source(ctx, np, a, mode, y, a.size, a.out)
    rounded = _rounded(ctx, np, a, nearest, at, a.size, a.out)
    inside = np.clip(rounded, 0, a.size - 1).astype(np.int64)
    return inside, _outside(ctx, a, mode, y)


def _stays_inside(ctx: Context, a: Axis, mode: str, nearest: str) -> bool:
    """Whether the table of the bound is right for each size: no place depends on it, and none of
    those that are there is behind what is there."""
    assert a.there is not None
    if a.scale is None or mode not in _BY_PLACE or a.out == 0:
        return False
    y = np.arange(a.out, dtype=np.float64)
    at = _source(ctx, np, a, mode, y, a.size, a.out)
    places = _rounded(ctx, np, a, nearest, at, a.size, a.out)
    sizes = np.arange(lowest(a.there[0]), highest(a.there[0]) + 1)
    outs = np.floor(a.scale * sizes).astype(np.int64)
    return bool((places[outs[outs > 0] - 1] <= sizes[outs > 0] - 1).all())
