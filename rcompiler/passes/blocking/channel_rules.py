"""Which ops of S1 can work on a blocked activation, and when that moves fewer bytes."""

from __future__ import annotations

import math
from collections.abc import Sequence

from torch_mlir import ir

from rcompiler.linalg.bodies import sums_in_words
from rcompiler.linalg.convolution import Convolution, Windows, convolution, depthwise_operand
from rcompiler.linalg.generic import Generic
from rcompiler.linalg.maps import dim_of, dims_of
from rcompiler.linalg.values import bytes_of, integer, integers, operations, shape_of
from rcompiler.linalg.views import MOVES
from rcompiler.passes.blocking.blocked import Layouts

# Combiners that round nothing, so that their order does not count, and what changes no result.
NEUTRAL: dict[str, float] = {
    "arith.maximumf": -math.inf,
    "arith.minimumf": math.inf,
    "arith.maxnumf": -math.inf,
    "arith.minnumf": math.inf,
    "arith.addi": 0,
}


class Rules:
    """Decisions for one function; reads the layouts made so far, changes nothing."""

    def __init__(self, layouts: Layouts, least: int) -> None:
        """least: lanes of a vector, of which channels that are blocked fill more than half."""
        self.layouts = layouts
        self.lanes = layouts.lanes
        self.least = least
        self.windows = Windows()

    # -- generics ----------------------------------------------------------------------------
    def seed(self, op: ir.Operation) -> Convolution | None:
        """The convolution that `op` is, if blocking it pays whatever stands around it."""
        found = convolution(op)
        if found is None or not sums_in_words(found.generic) or _is_void(op):
            return None
        co = found.generic.sizes[found.output_channel]
        ci = found.generic.sizes[found.input_channel]
        if found.grouped and (co % self.lanes or ci % self.lanes):
            return None
        return found if 2 * co >= self.least else None

    def channel(self, op: ir.Operation) -> int | None:
        """The loop dim of a generic to split: the channel of a depthwise convolution or of a
        blocked operand, where that is worth the copies around it."""
        old = Generic(op)
        image = depthwise_operand(op)
        if image is not None and sums_in_words(old) and not _is_void(op):
            channel = channel_dim(old, image, 1)
            if channel is not None and 2 * old.sizes[channel] >= self.least:
                return channel
        for number, value in enumerate(op.operands) if self.layouts.blocked else ():
            form = self.layouts.blocked.get(value)
            channel = None if form is None else channel_dim(old, number, form.axis)
            if channel is not None and self._packing_pays(
                op, self._conversions(old, channel), channel
            ):
                return channel
        return None

    def folded(self, op: ir.Operation) -> tuple[int, int] | None:
        """The blocked operand of a reduction that takes all channels together, and their loop
        dim; None where there is none, or the order of the channels counts.
        """
        old = Generic(op)
        for number, value in enumerate(old.inputs) if self.layouts.blocked else ():
            form = self.layouts.blocked.get(value)
            channel = None if form is None else folded_dim(old, number, form.axis)
            if channel is not None:
                return number, channel
        return None

    def _conversions(self, old: Generic, channel: int) -> list[tuple[ir.Value, int]]:
        """(operand, axis) of everything that the split loop dim indexes."""
        pairs = zip(old.op.operands, old.maps, strict=True)
        axes = ((value, self.axis_of(map_, channel)) for value, map_ in pairs)
        return [(value, axis) for value, axis in axes if axis is not None]

    @staticmethod
    def axis_of(map_: ir.AffineMap, channel: int) -> int | None:
        """The dim of an operand that is indexed by `channel` alone."""
        dims = [dim_of(e) for e in map_.results]
        return dims.index(channel) if channel in dims else None

    # -- movement ------------------------------------------------------------------------------
    def moves_blocked(self, op: ir.Operation, axis: int) -> int | None:
        """The blocked axis of the result of a tensor op on operands blocked at `axis`; None if
        it would tear blocks apart."""
        if op.name not in MOVES or not shape_of(op.operands[0]) or _is_void(op):
            return None
        source, result = shape_of(op.operands[0]), shape_of(op.results[0])
        if op.name in ("tensor.expand_shape", "tensor.collapse_shape"):
            return self.reshaped_axis(source, result, axis)
        if op.name == "tensor.pad":
            static = len(list(op.operands)) == 1 and result[axis] == source[axis]
            return axis if static else None
        if op.name == "tensor.concat":
            if integer(op, "dim") != axis:
                return axis
            counts = [shape_of(v)[axis] for v in op.operands]
            return None if any(n % self.lanes for n in counts[:-1]) else axis
        if op.name == "tensor.extract_slice" and len(source) == len(result):
            offset, stride = (integers(op, n)[axis] for n in ("static_offsets", "static_strides"))
            whole = result[axis] % self.lanes == 0 or offset + result[axis] == source[axis]
            return axis if offset % self.lanes == 0 and stride == 1 and whole else None
        return None

    def reshaped_axis(self, source: Sequence[int], result: Sequence[int], axis: int) -> int | None:
        """Where the blocked axis is after a reshape: blocks stay whole and what follows them
        keeps its size."""
        behind, channels = math.prod(source[axis + 1 :]), source[axis]
        for position in reversed(range(len(result))):
            size = result[position]
            whole = channels % self.lanes == 0 and size % self.lanes == 0
            if math.prod(result[position + 1 :]) == behind and (size == channels or whole):
                return position
        return None

    def worth_moving(self, op: ir.Operation, axis: int) -> bool:
        """Whether a tensor op should work on blocked operands."""
        if self.moves_blocked(op, axis) is None:
            return False
        return self._packing_pays(op, [(v, axis) for v in op.operands], None)

    # -- costs -----------------------------------------------------------------------------------
    def _packing_pays(
        self, op: ir.Operation, operands: Sequence[tuple[ir.Value, int]], channel: int | None
    ) -> bool:
        """Whether packing what is plain moves no more bytes than unpacking what is blocked."""
        blocked = sum(self.layouts.pack_bytes(v, axis) for v, axis in operands)
        plain = sum(self.layouts.unpack_bytes(v) for v in op.operands)
        for number, result in enumerate(op.results):
            if channel is None:
                axis = self.moves_blocked(op, operands[0][1])
            else:
                maps = Generic(op).maps
                axis = self.axis_of(maps[len(maps) - len(op.results) + number], channel)
            assert axis is not None
            users = [
                self._wants(use.owner.operation, use.operand_number, axis) for use in result.uses
            ]
            if "blocked" in users:
                plain += bytes_of(result)
            elif "either" not in users:
                blocked += self.layouts.copy_bytes(result, axis)
        return blocked <= plain

    def _wants(self, user: ir.Operation, number: int, axis: int) -> str:
        """How a user reads a value: "blocked" (a convolution), "either" or "plain"."""
        if user.parent.name != "func.func":
            return "plain"
        if user.name == "linalg.generic":
            seed = self.seed(user)
            if seed is not None:
                return "blocked" if number == seed.image else "plain"
            old = Generic(user)
            keeps = channel_dim(old, number, axis) is not None
            return "either" if keeps or folded_dim(old, number, axis) is not None else "plain"
        return "plain" if self.moves_blocked(user, axis) is None else "either"


def channel_dim(generic: Generic, operand: int, axis: int) -> int | None:
    """The parallel loop dim that indexes ``axis`` of an operand, if it can be split in two.

    It must stand alone wherever it occurs, at most once per operand and once in every result,
    and the body must not ask for its index.
    """
    channel = generic.dims[operand][axis]
    if channel < 0 or channel in generic.reduction_dims:
        return None
    for number, map_ in enumerate(generic.maps):
        alone = generic.dims[number].count(channel)
        inside = sum(channel in dims_of(e) for e in map_.results)
        if alone != inside or alone > 1 or (number >= len(generic.inputs) and alone != 1):
            return None
    return None if _asks_for(generic, channel) else channel


def folded_dim(generic: Generic, operand: int, axis: int) -> int | None:
    """The reduced loop dim that indexes ``axis`` of an operand and nothing else, if its elements
    may be combined in any order: none of them is rounded.
    """
    channel = generic.dims[operand][axis]
    if channel not in generic.reduction_dims or generic.combiner not in NEUTRAL:
        return None
    if sum(channel in dims_of(e) for map_ in generic.maps for e in map_.results) > 1:
        return None
    return None if _asks_for(generic, channel) else channel


def _asks_for(generic: Generic, dim: int) -> bool:
    """Whether the body asks for the index of a loop dim."""
    indices = (op for op in operations(generic.op) if op.name == "linalg.index")
    return any(integer(op, "dim") == dim for op in indices)


def _is_void(op: ir.Operation) -> bool:
    """Whether some operand or result has no elements: reshapes of it are ambiguous."""
    tensors = [v for v in [*op.operands, *op.results] if isinstance(v.type, ir.RankedTensorType)]
    return any(0 in shape_of(v) for v in tensors)
