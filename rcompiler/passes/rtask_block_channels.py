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
A channel count that is no multiple of `lanes` is padded: lanes beyond it are multiplied by zero
weights and sliced off at the end. The first layer (fewer input channels than lanes) reads NCHW, or
[n, C / 4, spatial.., 4] of bytes, and pairs of bf16.

Needs: S1 with static shapes. Leaves alone: convolutions that make fewer than lanes / 2 channels, or
whose sums are not f32 or i32, groups whose sizes are no multiple of lanes (but depthwise is
blocked), and models without convolutions. With infinities or NaN in activations of a padded tensor,
finite results are not promised where the plain form would give some.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch_mlir import ir
from torch_mlir.dialects import tensor

from rcompiler.linalg.constants import scalar_number
from rcompiler.linalg.generic import Generic
from rcompiler.linalg.loop_dims import extent_of
from rcompiler.linalg.pieces import pad_value
from rcompiler.linalg.values import integers
from rcompiler.passes import OptionalPass, PassFailure
from rcompiler.passes.blocking.block_convolution import block_convolution
from rcompiler.passes.blocking.blocked import Blocked, Layouts
from rcompiler.passes.blocking.channel_rules import Rules
from rcompiler.passes.blocking.padding_lanes import Numbers, after
from rcompiler.passes.ir.operators import bodies
from rcompiler.passes.ir.tensor_ir import (
    affine_map,
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
    """

    lanes: int = 16

    def run(self, module: ir.Operation) -> None:
        if self.lanes < 1:
            raise PassFailure(module, f"lanes must be at least 1, not {self.lanes}")
        for body in bodies(module):
            _Walk(self.lanes).run(body)


class _Walk:
    """One walk over a function body in SSA order."""

    def __init__(self, lanes: int) -> None:
        self.layouts = Layouts(lanes)
        self.rules = Rules(self.layouts)
        self.handlers = {
            "tensor.pad": self._pad,
            "tensor.concat": self._concat,
            "tensor.extract_slice": self._slice,
            "tensor.expand_shape": self._reshape,
            "tensor.collapse_shape": self._reshape,
        }

    def run(self, block: ir.Block) -> None:
        for view in list(block.operations):
            op = view.operation
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
            return channel is not None
        if op.name not in self.handlers:
            return False
        blocked = self.layouts.blocked
        form = next((blocked[v] for v in op.operands if v in blocked), None)
        if form is None or not self.rules.worth_moving(op, form.axis):
            return False
        self.handlers[op.name](op, form)
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
        parallel = ir.Attribute.parse("#linalg.iterator_type<parallel>")
        iterators = [*ir.ArrayAttr(old.op.attributes["iterator_types"]), parallel]
        count = len(old.inputs)
        padding: list[Numbers] = [frozenset()] * old.outputs
        if extent_of(old, channel) % self.layouts.lanes:
            padding = after(old, held)
        for inner in old.block.operations:
            self.layouts.use_plain(inner.operation)
        new = generic(operands[:count], operands[count:], maps, iterators)
        old.block.append_to(new.regions[0])
        for k, (before, result) in enumerate(zip(old.op.results, new.results, strict=True)):
            axis = self.rules.axis_of(old.maps[count + k], channel)
            assert axis is not None
            self.layouts.define(before, result, axis, padding[k])

    # -- ops that move data ----------------------------------------------------------------------
    def _pad(self, op: ir.Operation, form: Blocked) -> None:
        low, high = integers(op, "static_low"), integers(op, "static_high")
        shape = self.layouts.shape(op.results[0], form.axis)
        number = _padded_with(op)
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


def _only_number(value: ir.Value) -> Numbers:
    """The number that a uniform tensor without a channel dim holds, if it is known."""
    op = None if isinstance(value.owner, ir.Block) else value.owner.operation
    if op is None or op.name != "linalg.fill":
        return None
    number = scalar_number(op.operands[0])
    return None if number is None else frozenset([float(number)])


def _padded_with(op: ir.Operation) -> float | None:
    """The number that a tensor.pad writes, if it is known."""
    number = scalar_number(pad_value(op))
    return None if number is None else float(number)
