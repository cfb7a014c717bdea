"""The NCHWc form of a convolution generic (see rtask_block_channels)."""

from __future__ import annotations

from torch_mlir import ir

from rcompiler.device.model import DOT_STEPS
from rcompiler.linalg.convolution import Convolution
from rcompiler.linalg.values import element_of, shape_of
from rcompiler.passes.blocking.blocked import Layouts
from rcompiler.passes.ir.tensor_ir import affine_map, block_axes, generic


def block_convolution(layouts: Layouts, convolution: Convolution) -> None:
    """Emit the blocked convolution and record its result.

    Loops (parallel.., co block, .., co lane | ci block, window.., ci lane). An image with fewer
    channels than lanes stays plain and its ci loop whole; one of bytes or bf16 has a word of
    channels as its ci lanes, which is a dot group.
    """
    c, old = convolution, convolution.generic
    image, weights = old.inputs[c.image], old.inputs[c.weights]
    image_axis = c.position(c.image, c.input_channel)
    few = shape_of(image)[image_axis] < layouts.lanes and image not in layouts.blocked
    element = element_of(image)
    words = few and element in DOT_STEPS and element == element_of(weights)
    co_axis, ci_axis = (c.position(c.weights, d) for d in (c.output_channel, c.input_channel))
    result_axis = c.position(2, c.output_channel)

    init = layouts.operand(old.inits[0], result_axis)
    if words:
        image = block_axes(image, [image_axis], DOT_STEPS[element])
        weights = block_axes(layouts.plain(weights), [ci_axis], DOT_STEPS[element])
    elif not few:
        image = layouts.image(image, image_axis).value
    weights = layouts.pack(weights, *([co_axis] if few else [ci_axis, co_axis]))
    operands = [image, weights] if c.image == 0 else [weights, image]

    order = [d for d in range(old.maps[0].n_dims) if d not in old.reduction_dims]
    parallel = len(order) + 1
    order += [-1, *old.reduction_dims]  # -1: the co lane
    count = len(order) + (words or not few)
    to_new = affine_map(count, [ir.AffineExpr.get_dim(order.index(d)) for d in sorted(order)[1:]])
    co_lane, ci_lane = ir.AffineExpr.get_dim(parallel - 1), ir.AffineExpr.get_dim(count - 1)
    within = [ci_lane] if words or not few else []
    lanes = {c.image: within, c.weights: [*within, co_lane], 2: [co_lane]}
    maps = [
        affine_map(count, [*(e.compose(to_new) for e in map_.results), *lanes[number]])
        for number, map_ in enumerate(old.maps)
    ]
    kinds = ["parallel"] * parallel + ["reduction"] * (count - parallel)
    new = generic(operands, [init.value], maps, kinds, old.block)
    # the zero weights of a padding lane add nothing to the init
    layouts.define(old.op.results[0], new.results[0], result_axis, init.padding)
