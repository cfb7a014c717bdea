"""What products and windows ask of the shapes of their operands."""

from __future__ import annotations

from collections.abc import Sequence

from rcompiler.frontend.builder import Value, broadcast_shapes
from rcompiler.frontend.registry import Context


def check_matmul(ctx: Context, a: Value, b: Value) -> None:
    """ShapeError unless ``a @ b`` is defined."""
    if not a.rank or not b.rank or a.shape[-1] != b.shape[-2 if b.rank > 1 else 0]:
        raise ctx.shape_error("the contracted dimensions differ")
    if broadcast_shapes(a.shape[:-2], b.shape[:-2]) is None:
        raise ctx.shape_error("the batch dimensions do not broadcast")


def window(
    ctx: Context, spatial: Sequence[int], kernel: Sequence[int]
) -> tuple[list[int], list[int], list[int]]:
    """(strides, dilations, pads as begins then ends) of a convolution or pooling node."""
    rank, auto = len(spatial), ctx.attr("auto_pad", "NOTSET")
    strides = ctx.attr("strides") or [1] * rank
    dilations = ctx.attr("dilations") or [1] * rank
    pads = ctx.attr("pads") or [0] * 2 * rank
    if not len(strides) == len(dilations) == len(kernel) == rank or len(pads) != 2 * rank:
        raise ctx.shape_error(
            f"strides, dilations, pads or kernel_shape do not fit {rank} spatial dimensions"
        )
    if any(v < 1 for v in [*strides, *dilations, *kernel]):
        raise ctx.shape_error("strides, dilations and kernel sizes are positive")
    reach = [(k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True)]
    if auto == "VALID":
        pads = [0] * 2 * rank
    if auto in ("SAME_UPPER", "SAME_LOWER"):
        need = [
            max((-(-size // stride) - 1) * stride + r - size, 0)
            for size, stride, r in zip(spatial, strides, reach, strict=True)
        ]
        small, large = [n // 2 for n in need], [n - n // 2 for n in need]
        pads = small + large if auto == "SAME_UPPER" else large + small
    elif auto not in ("NOTSET", "VALID", ""):
        raise ctx.shape_error(f"auto_pad {auto} is not one of the standard's")
    else:
        for size, low, high, r in zip(spatial, pads[:rank], pads[rank:], reach, strict=True):
            if size + low + high < r:
                raise ctx.shape_error(f"the window of {r} is larger than the padded input")
    return strides, dilations, pads
