"""DepthToSpace, SpaceToDepth, Col2Im, AffineGrid and GridSample."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from rcompiler.frontend import dtypes
from rcompiler.frontend.body import Body
from rcompiler.frontend.builder import Value, dims
from rcompiler.frontend.registry import Context, lowering
from rcompiler.frontend.scalar import Operand, Scalar
from rcompiler.frontend.sized import bare
from rcompiler.frontend.value import extent_of
from rcompiler.support.extent import Size, highest, lowest, product


@lowering("DepthToSpace", "SpaceToDepth")
def _blocks(ctx: Context) -> Value:
    """Move blocks of pixels between the channels and the two spatial dimensions.

    Channels are (row, column, depth) in mode DCR and (depth, row, column) in mode CRD.
    """
    b, x, size = ctx.b, ctx.input(0), ctx.attr("blocksize")
    if x.rank != 4 or size is None or size < 1:
        raise ctx.shape_error("the input is [n, c, h, w] and blocksize is positive")
    n, c, h, w = x.shape
    crd = ctx.attr("mode", "DCR") == "CRD"
    if ctx.op == "DepthToSpace":
        if c % (size * size):
            raise ctx.shape_error(f"{c} channels do not make blocks of {size}")
        c //= size * size
        parts = b.reshape(x, [n, c, size, size, h, w] if crd else [n, size, size, c, h, w])
        parts = b.transpose(parts, [0, 1, 4, 2, 5, 3] if crd else [0, 3, 4, 1, 5, 2])
        return b.reshape(parts, [n, c, h * size, w * size])
    if h % size or w % size:
        raise ctx.shape_error(f"the image does not consist of blocks of {size}")
    parts = b.reshape(x, [n, c, h // size, size, w // size, size])
    parts = b.transpose(parts, [0, 1, 3, 5, 2, 4] if crd else [0, 3, 5, 1, 2, 4])
    return b.reshape(parts, [n, c * size * size, h // size, w // size])


def blocks_of(ctx: Context) -> tuple[list[Size], list[Size]]:
    """Of a Col2Im the sizes of the image, and how many blocks there are along each axis of it."""
    given = ctx.input(1).elements
    told = ctx.ints(1, "image_shape") if given is None else given.reshape(-1).tolist()
    image: list[Size] = [*told]
    block, rank = ctx.ints(2, "block_shape"), len(image)
    strides, dilations = ctx.attr("strides") or [1] * rank, ctx.attr("dilations") or [1] * rank
    pads = ctx.attr("pads") or [0] * (2 * rank)
    if not rank == len(block) == len(strides) == len(dilations) == len(pads) // 2:
        raise ctx.shape_error("block_shape, strides, dilations or pads do not fit the image")
    counts: list[Size] = []
    for i, size in enumerate(image):
        room = size + (pads[i] + pads[rank + i] - (block[i] - 1) * dilations[i] - 1)
        if lowest(room) < 0:
            raise ctx.shape_error("the columns do not fit the image")
        counts.append(ctx.b.quotient(f"{ctx.outputs[0]}[{i + 2}]", room, strides[i]) + 1)
    return image, counts


@lowering("Col2Im")
def _col2im(ctx: Context) -> Value:
    """Sum of overlapping blocks: every pixel adds up the block elements that cover it."""
    b, x = ctx.b, ctx.input(0)
    image, counts = blocks_of(ctx)
    block, rank = ctx.ints(2, "block_shape"), len(image)
    strides, dilations = ctx.attr("strides") or [1] * rank, ctx.attr("dilations") or [1] * rank
    pads = ctx.attr("pads") or [0] * (2 * rank)
    if x.rank != 3:
        raise ctx.shape_error("block_shape, strides, dilations or pads do not fit the image")
    n, count = x.shape[0], math.prod(block)
    channels = x.shape[1] // max(count, 1)
    if count < 1 or x.sizes[1:] != (channels * count, product(counts)):
        raise ctx.shape_error("the columns do not fit the image")
    bounds = [highest(size) for size in counts]
    extents = [x.extents[0], None, *[None] * rank, *map(extent_of, counts)]
    columns = bare(b.reshape(x, [n, channels, *block, *bounds], extents))
    sizes, told = b.told_sizes(counts)

    def body(s: Body, _: Scalar, *args: Scalar) -> Scalar:
        inside, taps, where = s.const(True, "bool"), [], []
        for i, blocks in enumerate(told(args[:-1])):
            blocks = s.cast(blocks, "index") if isinstance(blocks, Scalar) else blocks
            tap = s.index(2 + rank + i)
            at = s.index(2 + i) + pads[i] - tap * dilations[i]
            inside = inside & (at >= 0) & s.rem(at, strides[i]).eq(0) & (at < blocks * strides[i])
            taps.append(tap)
            where.append(s.clamp(at / strides[i], 0, bounds[i] - 1))
        value = s.extract(columns, [s.index(0), s.index(1), *taps, *where])
        return args[-1] + s.select(inside, value, 0)

    shape = [n, channels, *map(highest, image)]
    reads = [(b.empty(block, x.dtype), ", ".join(dims(rank, 2 + rank))), *sizes]
    made = b.fold(reads, shape, x.dtype, 0, "p" * (2 + rank) + "r" * rank, body)
    return b.sized(made, [x.extents[0], None, *map(extent_of, image)])


@lowering("AffineGrid")
def _affine_grid(ctx: Context) -> Value:
    """Points [n, spatial..., rank] where maps theta [n, rank, rank + 1] put those of a regular grid
    over [-1, 1]; of a point the last axis comes first.

    The standard's function body divides by zero where an axis has one point at its corners: it is
    at -1, as in onnx.reference and onnxruntime.
    """
    ctx.need_float()
    b, theta = ctx.b, ctx.input(0)
    size = [int(d) for d in ctx.const(1, "it decides the result's shape")]
    rank = len(size) - 2
    if rank not in (2, 3) or min(size) < 1 or theta.shape != (size[0], rank, rank + 1):
        raise ctx.shape_error("theta is [n, 2, 3] for size [n, c, h, w], or [n, 3, 4] with a depth")
    ctx.check_size([size[0], *size[2:], rank], theta.dtype)
    wide = dtypes.wide(theta.dtype)
    corners = bool(ctx.attr("align_corners", 0))
    points = [
        np.linspace(-1, 1, n) if corners else (2 * np.arange(n) + 1) / n - 1 for n in size[2:]
    ]
    reads = [(theta, f"d0, d{rank + 1}, {j}") for j in range(rank + 1)]
    reads += [(b.constant(p, wide), f"d{1 + i}") for i, p in enumerate(points)]

    def body(s: Body, *args: Scalar) -> Scalar:
        factors, places = args[: rank + 1], args[rank + 1 :]
        total = s.cast(factors[rank], wide)
        for factor, place in zip(factors, reversed(places), strict=False):
            total = total + s.cast(factor, wide) * place
        return s.cast(total, theta.dtype)

    return b.tabulate([size[0], *size[2:], rank], theta.dtype, body, *reads)


# -- GridSample ----------------------------------------------------------------------------------

Tap = tuple[Scalar, Scalar, "Scalar | None"]  # position (index), weight, inside


def whole(s: Body, x: Scalar) -> Scalar:
    """A float that holds a whole number of moderate size, as an ``index``."""
    return s.cast(s.convert("arith.fptosi", x, "int32"), "index")


def weights_cubic(t: Scalar, a: float = -0.75) -> list[Scalar]:
    """Keys' kernel at distances t + 1, t, 1 - t, 2 - t."""

    def near(x: Scalar) -> Scalar:
        return (x * (a + 2) - (a + 3)) * x * x + 1.0

    def far(x: Scalar) -> Scalar:
        return ((x * a - 5 * a) * x + 8 * a) * x - 4 * a

    return [far(t + 1.0), near(t), near(1.0 - t), far(2.0 - t)]


def _reflect(s: Body, x: Scalar, low: float, high: Operand) -> Scalar:
    """Mirror ``x`` at the borders until it is inside."""
    span = high - low
    if not isinstance(span, Scalar) and span <= 0:
        return s.const(low, x.dtype)
    distance = s.select(x < low, low - x, x - high)
    turns = s.floor(distance / span)
    rest = distance - turns * span
    even = (turns - s.floor(turns * 0.5) * 2.0).eq(0.0)
    inner = s.select(even, rest, span - rest)
    mirrored = s.select(x < low, inner + low, high - inner)
    found = s.select((x < low) | (x > high), mirrored, x)
    return s.select(span > 0.0, found, low) if isinstance(span, Scalar) else found


def of_floats(s: Body, size: Operand, dtype: str) -> Operand:
    """A size as a float: a number, or a scalar."""
    return s.cast(size, dtype) if isinstance(size, Scalar) else float(size)


def _taps_of(
    s: Body, g: Scalar, size: Operand, mode: str, padding: str, corners: bool
) -> list[Tap]:
    """Positions and weights along one axis for a coordinate in [-1, 1]. size: a float.

    With padding "border" the standard moves a coordinate to the border before it looks around it;
    PyTorch, which the operator comes from, and onnxruntime move each place that is read. It is the
    same but for cubic interpolation, where we do as they do, since models are exported from there.
    """
    x = (g + 1.0) * (0.5 * (size - 1.0)) if corners else ((g + 1.0) * size - 1.0) * 0.5
    low, high = (0.0, size - 1.0) if corners else (-0.5, size - 0.5)
    if mode == "nearest":
        x = s.roundeven(x)
    if padding == "reflection":
        x = _reflect(s, x, low, high)
    elif padding == "border" and mode != "cubic":
        x = s.select((x < low) | (x > high), s.clamp(x, 0.0, size - 1.0), x)
    # Far outside, and NaN: every tap is outside all the same.
    x = s.bounded(x, -4.0, size + 4.0)
    if mode == "nearest":
        points, weights = [x], [s.const(1.0, x.dtype)]
    else:
        floor = s.floor(x)
        t = x - floor
        weights = [1.0 - t, t] if mode == "linear" else weights_cubic(t)
        points = [floor + float(i) for i in range(1 - len(weights) // 2, 1 + len(weights) // 2)]
    taps: list[Tap] = []
    for point, weight in zip(points, weights, strict=True):
        inside = (point >= 0.0) & (point <= size - 1.0) if padding == "zeros" else None
        if padding == "reflection":
            point = _reflect(s, point, low, high)
        taps.append((whole(s, s.clamp(point, 0.0, size - 1.0)), weight, inside))
    return taps


def interpolate(
    s: Body, axes: Sequence[list[Tap]], read: Callable[[list[Scalar]], Scalar]
) -> Scalar:
    """Sum over the taps of all axes; ``read`` gives an element."""

    def level(rest: Sequence[list[Tap]], at: list[Scalar], inside: Scalar | None) -> Scalar:
        if not rest:
            value = read(at)
            return value if inside is None else s.select(inside, value, 0.0)
        total: Scalar | None = None
        for index, weight, good in rest[0]:
            both = good if inside is None else inside if good is None else inside & good
            part = level(rest[1:], [*at, index], both)
            part = part * weight if len(rest[0]) > 1 else part
            total = part if total is None else total + part
        assert total is not None
        return total

    return level(axes, [], None)


@lowering("GridSample")
def _grid_sample(ctx: Context) -> Value:
    """Read ``x`` [n, c, spatial...] at the grid's points [n, out..., rank] (last axis first). Of
    ``x`` also the sizes may be known at run time only.
    """
    b, x, grid = ctx.b, bare(ctx.input(0)), ctx.input(1)
    ctx.need_float(1)
    sizes, told = b.told_sizes(ctx.input(0).sizes[2:])
    rank = x.rank - 2
    if rank < 1 or grid.rank != x.rank or grid.shape[-1] != rank or grid.shape[0] != x.shape[0]:
        raise ctx.shape_error("the grid does not fit the input")
    mode = ctx.attr("mode", "linear")
    mode = {"bilinear": "linear", "bicubic": "cubic"}.get(mode, mode)
    padding = ctx.attr("padding_mode", "zeros")
    if mode not in ("linear", "nearest", "cubic") or padding not in (
        "zeros",
        "border",
        "reflection",
    ):
        raise ctx.shape_error(f"mode '{mode}' or padding '{padding}' is unknown")
    if mode != "nearest":
        ctx.need_float(0)
    shape = [*x.shape[:2], *grid.shape[1:-1]]
    if 0 in shape:
        return b.empty(shape, x.dtype)
    if not x.size:
        raise ctx.shape_error("the input has no elements to read")
    wide = "float64" if "float64" in (x.dtype, grid.dtype) else "float32"
    corners = bool(ctx.attr("align_corners", 0))

    def body(s: Body, *args: Scalar) -> Scalar:
        extents = [of_floats(s, size, wide) for size in told(args[rank:])]
        axes = [
            _taps_of(s, s.cast(args[rank - 1 - i], wide), extents[i], mode, padding, corners)
            for i in range(rank)
        ]
        if mode == "nearest":
            where = [s.index(0), s.index(1), *(a[0][0] for a in axes)]
            value = s.extract(x, where)
            for axis in axes:
                if axis[0][2] is not None:
                    value = s.select(axis[0][2], value, s.const(0, x.dtype))
            return value

        def read(at: list[Scalar]) -> Scalar:
            return s.cast(s.extract(x, [s.index(0), s.index(1), *at]), wide)

        return s.cast(interpolate(s, axes, read), x.dtype)

    points = dims(rank, 2)
    reads = [(grid, ", ".join(["d0", *points, str(i)])) for i in range(rank)]
    return b.tabulate(shape, x.dtype, body, *reads, *sizes)
