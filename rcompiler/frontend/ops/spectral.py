"""DFT (fast where its length allows), STFT as a product with a matrix, and MelWeightMatrix."""

from __future__ import annotations

import numpy as np

from rcompiler.frontend import dtypes, fft
from rcompiler.frontend.builder import Value
from rcompiler.frontend.registry import Context, lowering

MATRIX_ELEMENTS = 1 << 26  # of the largest transform


def transform(
    ctx: Context, points: int, length: int, parts: int, inverse: bool, onesided: bool
) -> np.ndarray:
    """Matrix [points * parts, results] of a transform of ``length``, real and imaginary in turn.

    ``points``: elements given (the rest are zeros). ``parts``: 1 for real input, 2 for complex.
    A one-sided inverse has real results only.
    """
    real = inverse and onesided
    count = length // 2 + 1 if onesided and not inverse else length
    if points * parts * count * 2 > MATRIX_ELEMENTS:
        raise ctx.refuse(
            f"a transform of {length} points needs a matrix of "
            f"{points * parts * count * 2} elements",
            "Use shorter frames; fast transforms are not built",
        )
    step = np.outer(np.arange(points, dtype=np.int64), np.arange(count, dtype=np.int64)) % length
    angle = step * (2 * np.pi / length)
    cos, sin = np.cos(angle), np.sin(angle) * (1 if inverse else -1)
    if real:  # every frequency but zero and the middle one stands for its mirror image as well
        twice = np.full((points, 1), 2.0)
        twice[0] = 1.0
        if length % 2 == 0 and points > length // 2:
            twice[length // 2] = 1.0
        cos, sin = cos * twice, sin * twice
    matrix = np.empty((points, parts, count, 1 if real else 2))
    matrix[:, 0, :, 0] = cos
    if parts == 2:
        matrix[:, 1, :, 0] = -sin
    if not real:
        matrix[:, 0, :, 1] = sin
        if parts == 2:
            matrix[:, 1, :, 1] = cos
    matrix /= length if inverse else 1
    return matrix.reshape(points * parts, -1)


@lowering("DFT")
def _dft(ctx: Context) -> Value:
    """Input [..., n, ..., 1 or 2]; result [..., k, ..., 2], or 1 for a one-sided inverse."""
    ctx.need_float()
    b, x = ctx.b, ctx.input(0)
    axis = ctx.attr("axis", 1) if ctx.opset < 20 else int(ctx.scalar(2, -2))
    axis = ctx.axis(axis, x.rank)
    if x.rank < 2 or axis == x.rank - 1 or x.shape[-1] not in (1, 2):
        raise ctx.shape_error("the last dimension holds the real (and imaginary) part")
    inverse, onesided = bool(ctx.attr("inverse", 0)), bool(ctx.attr("onesided", 0))
    if onesided and not inverse and x.shape[-1] == 2:
        raise ctx.shape_error("a one-sided transform needs real input")
    size = x.shape[axis]
    length = int(ctx.scalar(1, 2 * (size - 1) if inverse and onesided else size))
    if length < 1 or not x.size:
        raise ctx.shape_error("the transform has no points")
    points = min(size, length // 2 + 1 if inverse and onesided else length)
    if points < size:
        x = b.slice_along(x, axis, 0, points)
    order = [i for i in range(x.rank) if i not in (axis, x.rank - 1)]
    moved = b.transpose(x, [*order, axis, x.rank - 1])
    lead = moved.shape[:-2]
    back = [*order, axis, x.rank - 1]
    restore = [back.index(i) for i in range(x.rank)]
    plain = x.shape[-1] == 2 and not onesided and points == length
    if plain and fft.factors(length) is not None and x.dtype in ("float32", "float64"):
        return b.transpose(fft.transform(b, moved, inverse), restore)
    matrix = transform(ctx, points, length, x.shape[-1], inverse, onesided)
    parts = 1 if inverse and onesided else 2
    rows = b.reshape(moved, [*lead, points * x.shape[-1]])
    out = _product(ctx, rows, b.constant(matrix.astype(dtypes.numpy_dtype(dtypes.wide(x.dtype)))))
    out = b.reshape(out, [*lead, matrix.shape[1] // parts, parts])
    return b.transpose(out, restore)


def _product(ctx: Context, rows: Value, matrix: Value) -> Value:
    b, dtype = ctx.b, rows.dtype
    if rows.rank == 1:
        rows = b.reshape(rows, [1, rows.size])
    return b.cast(b.matmul(b.cast(rows, matrix.dtype), matrix), dtype)


@lowering("STFT")
def _stft(ctx: Context) -> Value:
    """Signal [batch, n, 1 or 2]; result [batch, frames, bins, 2]: one strided contraction."""
    ctx.need_float()
    b, x, window = ctx.b, ctx.input(0), ctx.optional(2)
    if x.rank == 2:
        x = b.reshape(x, [*x.shape, 1])
    step = int(ctx.scalar(1))
    if x.rank != 3 or x.shape[2] not in (1, 2) or step < 1:
        raise ctx.shape_error("the signal is [batch, n, 1 or 2] and the frame step positive")
    batch, size, parts = x.shape
    default = size if window is None else window.size
    length = int(ctx.scalar(3, default))
    if window is not None and window.shape != (length,) or not 1 <= length <= size:
        raise ctx.shape_error("the window has one element per element of a frame")
    onesided = bool(ctx.attr("onesided", 1))
    if onesided and parts == 2:
        raise ctx.shape_error("a one-sided transform needs a real signal")
    dtype, wide = x.dtype, dtypes.wide(x.dtype)
    table = transform(ctx, length, length, parts, False, onesided)
    if window is not None and window.const is not None:
        table = table * np.repeat(window.const.astype(np.float64), parts)[:, None]
    matrix = b.constant(table.astype(dtypes.numpy_dtype(wide)))
    frames = (size - length) // step + 1
    if window is not None and window.const is None:
        weights = b.reshape(b.cast(window, wide), [length, 1, 1])
        parted = b.reshape(matrix, [length, parts, table.shape[1]])
        matrix = b.reshape(b.elementwise(lambda s, m, w: m * w, parted, weights), table.shape)
    out = b.contract(
        (b.cast(b.reshape(x, [batch, size * parts]), wide), f"d0, d1 * {step * parts} + d3"),
        (matrix, "d3, d2"),
        ([batch, frames, table.shape[1]], "d0, d1, d2"),
        "pppr",
    )
    return b.reshape(b.cast(out, dtype), [batch, frames, table.shape[1] // 2, 2])


@lowering("MelWeightMatrix")
def _mel(ctx: Context) -> Value:
    """Triangles on the mel scale [dft_length // 2 + 1, mel bins]; all inputs are constants."""
    mels, length, rate, low, high = (ctx.scalar(i) for i in range(5))
    bins = length // 2 + 1
    dtype = dtypes.from_onnx(ctx.attr("output_datatype", 1))
    if mels < 1 or rate < 1 or not dtypes.is_float(dtype):
        raise ctx.shape_error("the bins and the rate are positive, the result of floats")
    if mels * bins > MATRIX_ELEMENTS:
        raise ctx.refuse(f"a matrix of {mels * bins} elements is too large", "Use fewer bins")
    first, last = (2595 * np.log10(1 + edge / 700) for edge in (low, high))
    edges = first + np.arange(mels + 2) * ((last - first) / (mels + 2))
    edges = ((length + 1) * (700 * (10 ** (edges / 2595) - 1)) // rate).astype(np.int64)
    if edges.min() < 0 or edges.max() > bins:
        raise ctx.shape_error("the edge frequencies are outside the spectrum")
    out = np.zeros((bins, mels))
    for i in range(mels):
        left, centre, right = (int(e) for e in edges[i : i + 3])
        if left == centre:
            out[centre, i] = 1
        else:
            rise = np.arange(left, centre + 1)
            out[rise, i] = (rise - left) / (centre - left)
        fall = np.arange(centre, right)
        out[fall, i] = (right - fall) / max(right - centre, 1)
    return ctx.b.constant(out.astype(dtypes.numpy_dtype(dtype)), dtype)
