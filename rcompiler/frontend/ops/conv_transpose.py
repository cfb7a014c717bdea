"""ConvTranspose, without zeros between the pixels."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np

from rcompiler.frontend.builder import Builder, Value
from rcompiler.frontend.ops.contraction import add_channels, refoldable
from rcompiler.frontend.registry import Context, lowering
from rcompiler.frontend.subpixel import Axis, Run, plan_axis
from rcompiler.support.extent import Size, highest


@lowering("ConvTranspose")
def _conv_transpose(ctx: Context) -> Value:
    """A convolution per set of output phases that read the same pixels, interleaved."""
    x, w, bias = ctx.input(0), ctx.input(1), ctx.optional(2)
    ctx.need_float()
    rank, groups = x.rank - 2, ctx.attr("group", 1)
    if x.rank < 3 or w.rank != x.rank or w.shape[0] != x.shape[1] or x.shape[1] % groups:
        raise ctx.shape_error("the weight does not fit the input's channels")
    if bias is not None and bias.size != w.shape[1] * groups:
        raise ctx.shape_error("one bias per output channel is expected")
    strides, dilations, _, pads = _transposed_window(ctx, x, w)
    sizes = [highest(size) for size in transposed_sizes(ctx, x, w)]
    # With both a stride and a dilation the taps of a phase are no sequence: zeros between pixels.
    spread = [s if d > 1 else 1 for s, d in zip(strides, dilations, strict=True)]
    wide = _spread(ctx.b, x, spread)
    axes = [
        plan_axis(k, s // a, d, p, size)
        for k, s, a, d, p, size in zip(
            *(w.shape[2:], strides, spread, dilations, pads[:rank], sizes), strict=True
        )
    ]

    def build(weight: Value, shift: Value | None) -> Value:
        return _interleaved(ctx.b, wide, _by_output(ctx.b, weight, groups), shift, axes, groups)

    def of_weights(scale: np.ndarray) -> np.ndarray:
        rows = np.repeat(scale.reshape(groups, -1), x.shape[1] // groups, axis=0)
        return rows.reshape([*rows.shape, *[1] * rank])

    return refoldable(ctx.b, build, w, bias, of_weights)


def transposed_sizes(ctx: Context, x: Value, w: Value) -> list[Size]:
    """Of the result along the spatial axes. x, w: as the node has them."""
    strides, dilations, extra, pads = _transposed_window(ctx, x, w)
    rank = x.rank - 2
    return [
        (d - 1) * s + (e + (k - 1) * g + 1 - low - high)
        for d, s, e, k, g, low, high in zip(
            *(x.sizes[2:], strides, extra, w.shape[2:], dilations, pads[:rank], pads[rank:]),
            strict=True,
        )
    ]


def _transposed_window(
    ctx: Context, x: Value, w: Value
) -> tuple[list[int], list[int], list[int], list[int]]:
    """(strides, dilations, output padding, pads); ``output_shape`` and auto_pad set the pads."""
    rank = x.rank - 2
    strides = ctx.attr("strides", [1] * rank)
    dilations = ctx.attr("dilations", [1] * rank)
    extra = ctx.attr("output_padding", [0] * rank)
    pads = ctx.attr("pads", [0] * 2 * rank)
    auto, wanted = ctx.attr("auto_pad", "NOTSET"), ctx.attr("output_shape")
    if not len(strides) == len(dilations) == len(extra) == rank or len(pads) != 2 * rank:
        raise ctx.shape_error("strides, dilations, pads or output_padding have the wrong length")
    if wanted is None and auto in ("SAME_UPPER", "SAME_LOWER"):
        wanted = [d * s for d, s in zip(x.shape[2:], strides, strict=True)]
    if wanted is not None:
        full = [
            (d - 1) * s + e + (k - 1) * g + 1
            for d, s, e, k, g in zip(
                x.shape[2:], strides, extra, w.shape[2:], dilations, strict=True
            )
        ]
        cut = [f - o for f, o in zip(full, wanted[-rank:], strict=True)]
        small, large = [c // 2 for c in cut], [c - c // 2 for c in cut]
        pads = small + large if auto == "SAME_UPPER" else large + small
    elif auto == "VALID":
        pads = [0] * 2 * rank
    return strides, dilations, extra, pads


def _spread(b: Builder, x: Value, strides: Sequence[int]) -> Value:
    """``strides[i] - 1`` zeros between neighbouring elements."""
    if all(s == 1 for s in strides):
        return x
    shape = [*x.shape[:2]] + [(d - 1) * s + 1 for d, s in zip(x.shape[2:], strides, strict=True)]
    return b.insert_slice(x, b.fill(shape, x.dtype, 0), [0] * x.rank, [1, 1, *strides])


def _by_output(b: Builder, w: Value, groups: int) -> Value:
    """[ci, co/g, k...] -> [co, ci/g, k...]."""
    ci, co, kernel = w.shape[0] // groups, w.shape[1], w.shape[2:]
    w = b.reshape(w, [groups, ci, co, *kernel])
    w = b.transpose(w, [0, 2, 1, *range(3, w.rank)])
    return b.reshape(w, [groups * co, ci, *kernel])


def _interleaved(
    b: Builder, x: Value, w: Value, bias: Value | None, axes: Sequence[Axis], groups: int
) -> Value:
    """The transposed convolution of ``x`` [n, ci, spatial...] with ``w`` [co, ci/g, kernel...]."""
    frame = _frame(b, x, axes)
    lead = [x.shape[0], w.shape[0]]
    parts = []
    for runs in itertools.product(*(axis.runs for axis in axes)):
        if frame is not None and all(run.taps for run in runs):
            part = _phases(b, frame, w, axes, runs, groups)
        else:
            boxes = [axis.box(run.phases) for axis, run in zip(axes, runs, strict=True)]
            part = b.fill([*lead, *itertools.chain(*boxes)], x.dtype, 0)
        parts.append(b.cast(add_channels(b, part, bias), x.dtype))
    dim = parts[0].rank
    for axis in reversed(axes):
        count = len(axis.runs)
        if count > 1:  # the phases are the last dim of the axis
            parts = [b.concat(parts[i : i + count], dim - 1) for i in range(0, len(parts), count)]
        dim -= len(axis.box(0))
    out = b.reshape(parts[0], [*lead, *(axis.blocks * axis.stride for axis in axes)])
    return b.slice(
        out, [0, 0, *(axis.origin for axis in axes)], [*lead, *(axis.size for axis in axes)]
    )


def _frame(b: Builder, x: Value, axes: Sequence[Axis]) -> Value | None:
    """``x`` padded or cropped to what the runs of all axes reach; None if that is only padding."""
    low = [-axis.reach[0] for axis in axes]
    high = [axis.reach[1] + 1 - d for axis, d in zip(axes, x.shape[2:], strict=True)]
    if any(-min(a, c) >= d for a, c, d in zip(low, high, x.shape[2:], strict=True)):
        return None
    return b.pad(x, [0, 0, *low], [0, 0, *high])


def _phases(
    b: Builder, frame: Value, w: Value, axes: Sequence[Axis], runs: Sequence[Run], groups: int
) -> Value:
    """The outputs of one run per axis, [n, co, then per axis blocks and phases]."""
    pairs = list(zip(axes, runs, strict=True))
    starts = [run.start - axis.reach[0] for axis, run in pairs]
    sizes = [axis.blocks + (run.taps - 1) * axis.dilation for axis, run in pairs]
    x = b.slice(frame, [0, 0, *starts], [*frame.shape[:2], *sizes])
    for dim, (axis, run) in reversed(list(enumerate(pairs, 2))):
        w = _taps(b, w, dim, axis, run)
    return b.conv_phases(
        x,
        w,
        [axis.blocks for axis in axes],
        [axis.dilation for axis in axes],
        [axis.stride > 1 for axis in axes],
        groups,
        wide=True,
    )


def _taps(b: Builder, w: Value, dim: int, axis: Axis, run: Run) -> Value:
    """``w`` with the kernel at ``dim`` replaced by [phases, taps] of a run, by rising pixel."""
    parts = []
    for phase in range(run.phases):
        start = run.first + phase + (run.taps - 1) * axis.stride
        part = b.slice_along(w, dim, start, run.taps, -axis.stride)
        box = [1, run.taps] if axis.stride > 1 else [run.taps]
        parts.append(b.reshape(part, [*w.shape[:dim], *box, *w.shape[dim + 1 :]]))
    return b.concat(parts, dim)
