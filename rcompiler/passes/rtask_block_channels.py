"""rtask-block-channels: keep activations as NCHWc, [n, C / lanes, spatial..., lanes].

Before (lanes=16):
    %y = linalg.generic {maps (n, co, h, w | ci, kh, kw): (n, ci, h + kh, w + kw), (co, ci, kh, kw)}
         ins(%x, %w : tensor<1x64x58x58xf32>, tensor<64x64x3x3xf32>) outs(..) -> 1x64x56x56
After:
    %px = pack of %x -> tensor<1x4x58x58x16xf32>   %pw = repacked %w -> tensor<4x4x3x3x16x16xf32>
    %y = linalg.generic {maps (n, cb, h, w, cl | ib, kh, kw, il):
         (n, ib, h + kh, w + kw, il), (cb, ib, kh, kw, il, cl)} ... -> tensor<1x4x56x56x16xf32>
and every following op that lets its channel dim be split works on the blocked tensor; packs and
unpacks (tensor.pad, expand_shape, one copying generic and their inverses) remain at the borders.
Extremes over all channels, and sums of integers, are those over blocks and lanes.
A channel count that is no multiple of `lanes` is padded: lanes beyond it are multiplied by zero
weights and sliced off at the end. The first layer (fewer input channels than lanes) reads NCHW, or
[n, C / 4, spatial.., 4] of bytes, and pairs of 16 bits.

Needs: S1 with static shapes. Leaves alone: convolutions that make fewer than lanes / 2 channels, or
whose sums are not f32 or i32, groups whose sizes are no multiple of lanes (but depthwise is
blocked), and models without convolutions. With infinities or NaN in activations of a padded tensor,
finite results are not promised where the plain form would give some.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from torch_mlir import ir
from torch_mlir.dialects import arith, tensor

from rcompiler.device.model import DOT_STEPS
from rcompiler.linalg.constants import scalar_number
from rcompiler.linalg.convolution import Convolution
from rcompiler.linalg.generic import Generic
from rcompiler.linalg.pieces import pad_value
from rcompiler.linalg.values import defining, element_of, element_type, integers, ops_of, shape_of
from rcompiler.passes import OptionalPass, PassFailure
from rcompiler.passes.blocking.blocked import Blocked, Layouts
from rcompiler.passes.blocking.channel_rules import NEUTRAL, Rules
from rcompiler.passes.blocking.padding_lanes import Numbers, after
from rcompiler.passes.blocking.tile_blocks import best_lanes
from rcompiler.passes.ir.clone import clone
from rcompiler.passes.ir.operators import bodies
from rcompiler.passes.ir.tensor_ir import (
    affine_map,
    block_axes,
    erase_dead,
    extract_slice,
    generic,
    reshape,
    type_like,
)


@dataclass(frozen=True)
class RTaskBlockChannels(OptionalPass):
    """Keep activations blocked by channels (NCHWc) between convolutions.

    Attributes:
        lanes: channels of a block.
        step_bytes: of a function whose products tile registers compute, what one step of theirs
            takes of a row, side by side: blocks are as many channels as make it fastest; 0: there
            are no tile registers.
    """

    lanes: int = 16
    step_bytes: int = 0

    def run(self, module: ir.Operation) -> None:
        if self.lanes < 1:
            raise PassFailure(module, f"lanes must be at least 1, not {self.lanes}")
        if self.step_bytes % self.lanes:
            raise PassFailure(
                module,
                f"step_bytes must be a multiple of {self.lanes} lanes, not {self.step_bytes}",
            )
        for body in bodies(module):
            _Walk(best_lanes(body, self.lanes, self.step_bytes), least=self.lanes).run(body)


class _Walk:
    """One walk over a function body in SSA order."""

    def __init__(self, lanes: int, least: int) -> None:
        """least: lanes of a vector, of which channels that are blocked fill more than half."""
        self.layouts = Layouts(lanes)
        self.rules = Rules(self.layouts, least)

    def run(self, block: ir.Block) -> None:
        for op in ops_of(block):
            # nothing is blocked before the first convolution
            if not self.layouts.blocked and not self._may_begin(op):
                continue
            with ir.InsertionPoint(op), op.location:
                if not self._rewrite(op):
                    self.layouts.use_plain(op)
        erase_dead(block)

    def _may_begin(self, op: ir.Operation) -> bool:
        return op.name == "linalg.generic" and self.rules.windows(op)

    def _rewrite(self, op: ir.Operation) -> bool:
        """Make the blocked form of `op`; False: it stays as it is."""
        if op.name == "linalg.generic":
            convolution = self.rules.seed(op)
            if convolution is not None:
                block_convolution(self.layouts, convolution)
                return True
            channel = self.rules.channel(op)
            if channel is not None:
                self._split(Generic(op), channel)
                return True
            folded = self.rules.folded(op)
            if folded is not None:
                self._fold(Generic(op), *folded)
            return folded is not None
        move = _MOVED.get(op.name)
        if move is None:
            return False
        blocked = self.layouts.blocked
        form = next((blocked[v] for v in op.operands if v in blocked), None)
        if form is None or not self.rules.worth_moving(op, form.axis):
            return False
        move(self, op, form)
        return True

    # -- ops that keep channels apart ------------------------------------------------------------
    def _split(self, old: Generic, channel: int) -> None:
        """Split the loop dim `channel` into (block, lane): the lane becomes the last loop."""
        dims = old.maps[0].n_dims
        operands, maps, held = [], [], []
        for value, map_ in zip(old.op.operands, old.maps, strict=True):
            results = list(map_.results)
            axis = self.rules.axis_of(map_, channel)
            if axis is None:
                operands.append(self.layouts.plain(value))
                held.append(_only_number(value))
            else:
                form = self.layouts.operand(value, axis)
                operands.append(form.value)
                held.append(form.padding if form.channels % self.layouts.lanes else frozenset())
                results.append(ir.AffineExpr.get_dim(dims))
            maps.append(affine_map(dims + 1, results))
        count = len(old.inputs)
        padding: list[Numbers] = [frozenset()] * old.outputs
        if old.sizes[channel] % self.layouts.lanes:
            padding = after(old, held)
        for inner in old.block.operations:
            self.layouts.use_plain(inner.operation)
        kinds = [*old.kinds, "parallel"]
        new = generic(operands[:count], operands[count:], maps, kinds, old.block)
        for k, (before, result) in enumerate(zip(old.op.results, new.results, strict=True)):
            axis = self.rules.axis_of(old.maps[count + k], channel)
            assert axis is not None
            self.layouts.define(before, result, axis, padding[k])

    def _fold(self, old: Generic, number: int, channel: int) -> None:
        """Reduce over blocks and lanes in the place of the loop dim `channel` of an operand."""
        form, dims = self.layouts.blocked[old.inputs[number]], old.maps[0].n_dims
        operands = [self.layouts.plain(v) for v in old.operands]
        maps = [affine_map(dims + 1, map_.results) for map_ in old.maps]
        operands[number] = form.value
        block, lane = ir.AffineExpr.get_dim(channel), ir.AffineExpr.get_dim(dims)
        maps[number] = affine_map(dims + 1, [*old.maps[number].results, lane])
        for inner in old.block.operations:
            self.layouts.use_plain(inner.operation)
        count, kinds = len(old.inputs), [*old.kinds, "reduction"]
        if form.channels % self.layouts.lanes:
            operands.insert(count, _real_lanes(form.channels, self.layouts.lanes))
            maps.insert(count, affine_map(dims + 1, [block, lane]))
            new = generic(operands[:-1], operands[-1:], maps, kinds)
            _fill_masked(new, old)
        else:
            new = generic(operands[:count], operands[count:], maps, kinds, old.block)
        old.op.results[0].replace_all_uses_with(new.results[0])

    # -- ops that move data ----------------------------------------------------------------------
    def _pad(self, op: ir.Operation, form: Blocked) -> None:
        low, high = integers(op, "static_low"), integers(op, "static_high")
        shape = self.layouts.shape(op.results[0], form.axis)
        number = scalar_number(pad_value(op))
        kind = type_like(op.results[0], shape)
        new = tensor.PadOp(kind, form.value, [], [], [*low, 0], [*high, 0])
        block = op.regions[0].blocks[0]
        block.add_argument(ir.IndexType.get(), op.location)
        block.append_to(new.regions[0])
        padding = None if number is None or form.padding is None else form.padding | {number}
        self.layouts.define(op.results[0], new.results[0], form.axis, padding)

    def _concat(self, op: ir.Operation, form: Blocked) -> None:
        parts = [self.layouts.operand(v, form.axis) for v in op.operands]
        shape = self.layouts.shape(op.results[0], form.axis)
        kind = type_like(op.results[0], shape)
        new = tensor.concat(kind, op.attributes["dim"], [p.value for p in parts])
        ragged = [p.padding for p in parts if p.channels % self.layouts.lanes]
        known = [p for p in ragged if p is not None]
        padding = frozenset().union(*known) if len(known) == len(ragged) else None
        self.layouts.define(op.results[0], new, form.axis, padding)

    def _slice(self, op: ir.Operation, form: Blocked) -> None:
        offsets, strides = integers(op, "static_offsets"), integers(op, "static_strides")
        start = [o // self.layouts.lanes if i == form.axis else o for i, o in enumerate(offsets)]
        sizes = self.layouts.shape(op.results[0], form.axis)
        new = extract_slice(form.value, [*start, 0], sizes, [*strides, 1])
        self.layouts.define(op.results[0], new, form.axis, form.padding)

    def _reshape(self, op: ir.Operation, form: Blocked) -> None:
        axis = self.rules.moves_blocked(op, form.axis)
        assert axis is not None
        new = reshape(form.value, self.layouts.shape(op.results[0], axis))
        self.layouts.define(op.results[0], new, axis, form.padding)


# Of ops that move channels: a table of methods that an object had would be a cycle, which keeps IR.
_MOVED = {
    "tensor.pad": _Walk._pad,
    "tensor.concat": _Walk._concat,
    "tensor.extract_slice": _Walk._slice,
    "tensor.expand_shape": _Walk._reshape,
    "tensor.collapse_shape": _Walk._reshape,
}


def _real_lanes(channels: int, lanes: int) -> ir.Value:
    """f32 [blocks, lanes]: 1 in lanes of channels, 0 beyond."""
    blocks = -(-channels // lanes)
    real = (np.arange(blocks * lanes) < channels).astype(np.float32).reshape(blocks, lanes)
    numbers = ir.DenseElementsAttr.get(real)
    return arith.ConstantOp(numbers.type, numbers).result


def _fill_masked(new: ir.Operation, old: Generic) -> None:
    """The body of a reduction that takes nothing where the last input is 0."""
    kinds = [element_type(v) for v in new.operands]
    block = new.regions[0].blocks.append(*kinds, arg_locs=[new.location] * len(kinds))
    *inputs, real, before = block.arguments
    mapped = dict(zip(old.block.arguments, [*inputs, before], strict=True))
    with ir.InsertionPoint(block):
        *body, last, end = ops_of(old.block)
        for op in body:
            clone(op, mapped)
        taken = mapped.get(old.combined, old.combined)
        inside = arith.cmpf(arith.CmpFPredicate.OGT, real, arith.constant(real.type, 0.0))
        nothing = arith.constant(taken.type, NEUTRAL[last.name])
        mapped[old.combined] = arith.select(inside, taken, nothing)
        clone(last, mapped)
        clone(end, mapped)


def _only_number(value: ir.Value) -> Numbers:
    """The number that a uniform tensor without a channel dim holds, if it is known."""
    op = defining(value)
    number = scalar_number(op.operands[0]) if op is not None and op.name == "linalg.fill" else None
    return None if number is None else frozenset([number])


def block_convolution(layouts: Layouts, convolution: Convolution) -> None:
    """Emit the blocked convolution and record its result.

    Loops (parallel.., co block, .., co lane | ci block, window.., ci lane). An image with fewer
    channels than lanes stays plain and its ci loop whole; one of 8 or 16 bits has a word of
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
