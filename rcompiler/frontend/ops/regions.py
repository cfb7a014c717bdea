"""RoiAlign, MaxRoiPool and DeformConv: reading an image at computed places."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import reduce

import numpy as np

from rcompiler.frontend import dtypes
from rcompiler.frontend.body import Body
from rcompiler.frontend.builder import Value, dims
from rcompiler.frontend.contraction import window_counts
from rcompiler.frontend.counted import given_room
from rcompiler.frontend.ops.contraction import add_channels
from rcompiler.frontend.ops.gather import expect_inside
from rcompiler.frontend.ops.operand_shapes import window
from rcompiler.frontend.ops.vision import Tap, interpolate, of_floats, whole
from rcompiler.frontend.registry import Context, lowering
from rcompiler.frontend.scalar import Operand, Scalar
from rcompiler.frontend.sized import bare
from rcompiler.frontend.sizes.numbers import without_bound

_MOST_POINTS = 8  # along an axis of a bin: all are computed, whether they are in it or not


def _check_regions(ctx: Context, x: Value, rois: Value, columns: int) -> None:
    ctx.need_float()
    if x.rank != 4 or rois.rank != 2 or rois.shape[1] != columns or rois.dtype != x.dtype:
        raise ctx.shape_error(f"the input is [n, c, h, w] and a region has {columns} numbers")


# -- RoiAlign --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Grid:
    """Sampling points of each bin along one axis. counts: int64 [regions]; most: of them."""

    counts: Value
    most: int


def _grids(ctx: Context, rois: Value, half: bool, scale: float, sizes: list[int]) -> list[_Grid]:
    """Along rows and columns."""
    ratio = ctx.attr("sampling_ratio", 0)
    if ratio > 0:
        return [_known(ctx, np.full(rois.shape[0], ratio, np.int64))] * 2
    if rois.const is None:
        return [_computed(ctx, rois, half, scale, axis, size) for axis, size in enumerate(sizes)]
    # In the regions' own type: a rounding difference here would change the number of points.
    number = rois.const.dtype.type
    edges = rois.const * number(scale) - number(0.5 if half else 0.0)
    extent = np.stack([edges[:, 3] - edges[:, 1], edges[:, 2] - edges[:, 0]])
    extent = extent if half else np.maximum(extent, 1.0)
    found = np.ceil(extent / np.array(sizes, extent.dtype)[:, None]).astype(np.int64)
    return [_known(ctx, each) for each in found]


def _known(ctx: Context, counts: np.ndarray) -> _Grid:
    return _Grid(ctx.b.constant(counts), max(int(counts.max()), 1))


def _computed(ctx: Context, rois: Value, half: bool, scale: float, axis: int, size: int) -> _Grid:
    """As many points as pixels of a region are in a bin, which a run finds: as many as there is
    room for, at most.
    """
    b, given = ctx.b, given_room(ctx)
    whole_image = -(-ctx.input(0).shape[2 + axis] // size)
    if given is None and whole_image > _MOST_POINTS:
        raise without_bound(ctx, 1)
    most = max(whole_image if given is None else given, 1)

    def count(s: Body, start: Scalar, end: Scalar) -> Scalar:
        start, end = (edge * scale - (0.5 if half else 0.0) for edge in (start, end))
        extent = end - start if half else s.maximum(end - start, 1.0)
        return s.cast(s.bounded(s.ceil(extent / float(size)), 0.0, float(1 << 30)), "int64")

    reads = [(rois, f"d0, {column}") for column in (1 - axis, 3 - axis)]
    counts = b.tabulate([rois.shape[0]], "int64", count, *reads)
    name = next(name for name in ctx.outputs if name)
    reader = f"{ctx.op} '{ctx.name}'"
    says = (
        f"{reader} has a region of {{}} points along an axis of a bin, more than the {most} that "
        f"there is room for; compile the model with a greater bound: bounds={{'{name}': ...}}"
    )
    b.expect(counts, 0, most, reader, says=says, bound=name)
    return _Grid(counts, most)


def _bilinear(s: Body, at: Scalar, size: Operand) -> tuple[list[tuple[Scalar, Scalar]], Scalar]:
    """((low, weight), (high, weight)) of a coordinate, and whether it is on the image."""
    if isinstance(size, Scalar):
        last: Operand = s.cast(size, "index") - 1
        end: Operand = s.cast(size, at.dtype)
        top = end - 1.0
    else:
        last, end, top = size - 1, float(size), size - 1.0
    inside = (at >= -1.0) & (at <= end)
    at = s.minimum(s.maximum(at, 0.0), top) if isinstance(size, Scalar) else s.bounded(at, 0.0, top)
    low = s.floor(at)
    part = at - low
    first = whole(s, low)
    return [(first, 1.0 - part), (s.minimum(first + 1, last), part)], inside


@lowering("RoiAlign")
def _roi_align(ctx: Context) -> Value:
    """Average (or maximum) of bilinear samples in every bin of every region [x1, y1, x2, y2]."""
    b, x, rois, batch = ctx.b, ctx.input(0), ctx.input(1), ctx.input(2)
    _check_regions(ctx, x, rois, 4)
    if batch.shape != rois.shape[:1]:
        raise ctx.shape_error("there is one batch index per region")
    sizes = [ctx.attr("output_height", 1), ctx.attr("output_width", 1)]
    default = "half_pixel" if ctx.opset >= 16 else "output_half_pixel"
    half = ctx.attr("coordinate_transformation_mode", default) == "half_pixel"
    scale, largest = ctx.attr("spatial_scale", 1.0), ctx.attr("mode", "avg") == "max"
    shape = [rois.shape[0], x.shape[1], *sizes]
    if 0 in shape:
        return b.empty(shape, x.dtype)
    if not x.size:
        raise ctx.shape_error("regions of an image without elements have no values")
    expect_inside(ctx, batch, x.shape[0] - 1)
    grids = _grids(ctx, rois, half, scale, sizes)
    reach = [grid.most for grid in grids]
    wide, image_of = dtypes.wide(x.dtype), bare(x)
    size_reads, told = b.told_sizes(x.sizes[2:])

    def body(s: Body, *args: Scalar) -> Scalar:
        edges = [s.cast(a, wide) * scale for a in args[:4]]
        edges = [e - 0.5 for e in edges] if half else edges
        inside, axes = s.const(True, "bool"), []
        for i in range(2):
            start, extent = edges[1 - i], edges[3 - i] - edges[1 - i]
            extent = extent if half else s.maximum(extent, 1.0)
            step = extent / float(sizes[i])
            tap, cell = s.index(4 + i), s.index(2 + i)
            inside = inside & (tap < s.cast(args[5 + i], "index"))
            points = s.maximum(s.cast(s.cast(args[5 + i], "int32"), wide), 1.0)
            place = s.cast(s.cast(tap, "int32"), wide) + 0.5
            at = start + s.cast(s.cast(cell, "int32"), wide) * step + place * step / points
            axes.append(_bilinear(s, at, told(args[7 : 7 + len(size_reads)])[i]))
        image = s.clamp(s.cast(args[4], "index"), 0, x.shape[0] - 1)
        on_image = axes[0][1] & axes[1][1]
        parts = [
            s.cast(s.extract(image_of, [image, s.index(1), row, column]), wide) * (u * v)
            for row, u in axes[0][0]
            for column, v in axes[1][0]
        ]
        total = reduce(s.maximum if largest else s.add, parts)
        if largest:
            total = s.select(on_image, total, 0.0)
            return s.select(inside, s.maximum(args[-1], total), args[-1])
        return args[-1] + s.select(inside & on_image, total, 0.0)

    reads = [(rois, f"d0, {i}") for i in range(4)] + [(batch, "d0")]
    reads += [(grid.counts, "d0") for grid in grids]
    reads += size_reads
    reads.append((b.empty(reach, x.dtype), "d4, d5"))
    out = b.fold(reads, shape, wide, float("-inf") if largest else 0.0, "pppprr", body)
    return b.cast(_finished(ctx, out, grids[0].counts, grids[1].counts, largest), x.dtype)


def _finished(ctx: Context, total: Value, rows: Value, columns: Value, largest: bool) -> Value:
    """Sums become averages over so many points; the maximum of no points is zero."""
    b = ctx.b
    if rows.const is None or columns.const is None:
        count = b.elementwise(lambda s, m, n: m * n, rows, columns)
        count = b.reshape(count, [rows.size, 1, 1, 1])
        if largest:
            return b.elementwise(
                lambda s, v, c: s.select(c > 0, v, 0.0), total, count, dtype=total.dtype
            )
        return b.elementwise(
            lambda s, v, c: v / s.cast(s.maximum(c, 1), v.dtype), total, count, dtype=total.dtype
        )
    return _divided(ctx, total, (rows.const * columns.const).reshape(-1, 1, 1, 1), largest)


def _divided(ctx: Context, total: Value, count: np.ndarray, largest: bool) -> Value:
    """The same of numbers that are known."""
    b = ctx.b
    if not largest:
        divisor = b.constant(np.maximum(count, 1), total.dtype)
        return b.elementwise(lambda s, v, c: v / c, total, divisor)
    if count.all():
        return total
    return b.elementwise(lambda s, v, c: s.select(c, v, 0.0), total, b.constant(count > 0))


@lowering("MaxRoiPool")
def _max_roi_pool(ctx: Context) -> Value:
    """Maximum of every bin of every region [batch, x1, y1, x2, y2]; an empty bin is zero.

    A bin's extent is only known at run time, so every bin looks at the whole image.
    """
    b, x, rois = ctx.b, ctx.input(0), ctx.input(1)
    _check_regions(ctx, x, rois, 5)
    sizes, scale = ctx.attr("pooled_shape"), ctx.attr("spatial_scale", 1.0)
    if sizes is None or len(sizes) != 2 or min(sizes) < 1:
        raise ctx.shape_error("pooled_shape has two positive sizes")
    shape = [rois.shape[0], x.shape[1], *sizes]
    if 0 in shape:
        return b.empty(shape, x.dtype)
    if not x.size:
        raise ctx.shape_error("regions of an image without elements have no values")
    batch = b.cast(b.slice(rois, [0, 0], [rois.shape[0], 1]), "int64")
    expect_inside(ctx, batch, x.shape[0] - 1, rois)
    low = float("-inf")

    def body(s: Body, *args: Scalar) -> Scalar:
        inside = s.const(True, "bool")
        for i in range(2):
            first, last = (s.cast(args[n], "float32") * scale for n in (2 - i, 4 - i))
            first, last = (_half_away(s, v) for v in (first, last))
            step = s.maximum(last - first + 1.0, 1.0) / float(sizes[i])
            cell = s.cast(s.cast(s.index(2 + i), "int32"), "float32")
            at = s.cast(s.cast(s.index(4 + i), "int32"), "float32")
            inside = (
                inside
                & (at >= s.floor(cell * step) + first)
                & (at < s.ceil((cell + 1.0) * step) + first)
            )
        image = whole(s, s.bounded(s.cast(args[0], "float32"), 0.0, x.shape[0] - 1.0))
        value = s.extract(x, [image, s.index(1), s.index(4), s.index(5)])
        return s.maximum(args[-1], s.select(inside, value, low))

    reads = [(rois, f"d0, {i}") for i in range(5)]
    reads.append((b.empty(x.shape[2:], x.dtype), "d4, d5"))
    out = b.fold(reads, shape, x.dtype, low, "pppprr", body)
    return b.elementwise(lambda s, v: s.select(v.eq(low), 0.0, v), out)


def _half_away(s: Body, x: Scalar) -> Scalar:
    """C's ``round``."""
    return s.select(x < 0.0, s.ceil(x - 0.5), s.floor(x + 0.5))


# -- DeformConv ------------------------------------------------------------------------------------


@lowering("DeformConv")
def _deform_conv(ctx: Context) -> Value:
    """Samples at shifted positions [n, c, kernel..., out...], then one contraction. Of the image
    also the sizes may be known at run time only; the result is at the bound then.
    """
    ctx.need_float()
    b, x, w, groups = ctx.b, ctx.input(0), ctx.input(1), ctx.attr("group", 1)
    if (
        x.rank < 3
        or w.rank != x.rank
        or w.shape[1] * groups != x.shape[1]
        or w.shape[0] % groups
        or x.shape[1] % ctx.attr("offset_group", 1)
    ):
        raise ctx.shape_error("the input and weight do not fit the groups")
    columns, out = _shifted_samples(ctx)
    n, depth, pixels = x.shape[0], w.shape[1] * math.prod(w.shape[2:]), math.prod(out)
    columns = b.reshape(columns, [n, groups, depth, pixels])
    weights = b.reshape(w, [groups, w.shape[0] // groups, depth])
    total = b.contract(
        (weights, "d1, d2, d4"),
        (columns, "d0, d1, d4, d3"),
        ([n, groups, w.shape[0] // groups, pixels], "d0, d1, d2, d3"),
        "ppppr",
        wide=True,
    )
    whole = add_channels(b, b.reshape(total, [n, w.shape[0], *out]), ctx.optional(3))
    return b.cast(whole, x.dtype)


def _shifted_samples(ctx: Context) -> tuple[Value, list[int]]:
    """What every tap of the kernel sees at every place of the result, and the result's sizes."""
    b, x, offset, mask = ctx.b, bare(ctx.input(0)), ctx.input(2), ctx.optional(4)
    sizes, told = b.told_sizes(ctx.input(0).sizes[2:])
    rank, shifts, kernel = x.rank - 2, ctx.attr("offset_group", 1), list(ctx.input(1).shape[2:])
    strides, dilations, pads = window(ctx, x.shape[2:], kernel)
    padded = [n + a + c for n, a, c in zip(x.shape[2:], pads[:rank], pads[rank:], strict=True)]
    out = window_counts(padded, kernel, strides, dilations)
    taps, n = math.prod(kernel), x.shape[0]
    if offset.shape != (n, shifts * taps * rank, *out):
        raise ctx.shape_error("the offsets do not fit the kernel and the result")
    if mask is not None and mask.shape != (n, shifts * taps, *out):
        raise ctx.shape_error("the mask does not fit the kernel and the result")
    wide = dtypes.wide(x.dtype)
    per = x.shape[1] // shifts
    offset = b.reshape(offset, [n, shifts, *kernel, rank, *out])
    mask = None if mask is None else b.reshape(mask, [n, shifts, *kernel, *out])
    first = 3 + rank  # dimensions: n, shift group, channel in it, kernel..., out...

    def body(s: Body, *args: Scalar) -> Scalar:
        axes, extents = [], told(args[len(args) - len(sizes) :])
        for i in range(rank):
            whole = s.index(first + i) * strides[i] + s.index(3 + i) * dilations[i] - pads[i]
            at = s.cast(s.cast(whole, "int32"), wide) + s.cast(args[i], wide)
            axes.append(_around(s, at, of_floats(s, extents[i], wide)))
        channel = s.index(1) * per + s.index(2)
        value = interpolate(
            s, axes, lambda at: s.cast(s.extract(x, [s.index(0), channel, *at]), wide)
        )
        return s.cast(value if mask is None else value * s.cast(args[rank], wide), x.dtype)

    kernels, places = dims(rank, 3), dims(rank, first)
    reads = [(offset, ", ".join(["d0", "d1", *kernels, str(i), *places])) for i in range(rank)]
    if mask is not None:
        reads.append((mask, ", ".join(["d0", "d1", *kernels, *places])))
    shape = [n, shifts, per, *kernel, *out]
    return b.tabulate(shape, x.dtype, body, *reads, *sizes), out


def _around(s: Body, at: Scalar, size: Operand) -> list[Tap]:
    """Both neighbours of a coordinate; those outside the image count as zero. size: a float."""
    at = s.bounded(at, -4.0, size + 4.0)
    low = s.floor(at)
    part = at - low
    taps: list[Tap] = []
    for point, weight in ((low, 1.0 - part), (low + 1.0, part)):
        inside = (point >= 0.0) & (point <= size - 1.0)
        taps.append((whole(s, s.clamp(point, 0.0, size - 1.0)), weight, inside))
    return taps
