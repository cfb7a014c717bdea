"""rtask-sink-reshapes: what follows a contraction works on the contraction's own loop dims.

Before:
    %1 = linalg.generic {grouped convolution} ins(%x, %w) ... -> tensor<1x8x4x32x32x16xf32>
    %2 = tensor.collapse_shape %1 [[0], [1, 2], [3], [4], [5]] ... into tensor<1x32x32x32x16xf32>
    %3 = linalg.generic {bias} ins(%2, %b : ..., tensor<32x16xf32>) ... -> 1x32x32x32x16
After:
    %v = tensor.expand_shape %b [[0, 1], [2]] ... into tensor<8x4x16xf32>
    %2 = linalg.generic {bias} ins(%1, %v) ... -> tensor<1x8x4x32x32x16xf32>
    %3 = tensor.collapse_shape %2 ... into tensor<1x32x32x32x16xf32>
So an rOperator and its tile see the groups, or the phases of a transposed convolution, as they are:
along a collapsed dim no two neighbours could share a register tile, for the operands are indexed
by its quotients. Only elementwise ops and pads are passed. Needs: static shapes. A reshaped
constant is left to fold-constants.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch_mlir import ir
from torch_mlir.dialects import tensor

from rcompiler.linalg.bodies import is_elementwise
from rcompiler.linalg.generic import Generic
from rcompiler.linalg.values import defining, integers, ops_of, shape_of
from rcompiler.linalg.views import groups_of
from rcompiler.passes import OptionalPass
from rcompiler.passes.ir.operators import bodies
from rcompiler.passes.ir.tensor_ir import erase_dead, reshape, split_elementwise, type_like


@dataclass(frozen=True)
class RTaskSinkReshapes(OptionalPass):
    """Move reshapes of contractions behind their epilogues."""

    def run(self, module: ir.Operation) -> None:
        for body in bodies(module):
            if not _collapses_sums(body):
                continue
            walk = _Walk()
            for op in ops_of(body):
                walk.visit(op)
            erase_dead(body)


def _collapses_sums(body: ir.Block) -> bool:
    """Whether a value of loops that reduce comes to a collapse: in few models, and to find that out
    costs little.
    """
    collapsed: set[ir.Value] = set()  # and what those are computed from
    for op in reversed(ops_of(body)):
        if op.name == "tensor.collapse_shape":
            collapsed.add(op.operands[0])
        elif not collapsed.isdisjoint(op.results):
            if op.name == "linalg.generic" and Generic(op).reduction_dims:
                return True
            collapsed.update(op.operands)
    return False


class _Walk:
    """One walk in SSA order; `grown`: results of contractions and of what joins them."""

    def __init__(self) -> None:
        self.grown: set[ir.Value] = set()

    def visit(self, op: ir.Operation) -> None:
        """Rewrite one op if it reads a collapsed value; the op itself is then dead."""
        if op.name == "tensor.pad":
            collapse = self._collapse(op.operands[0])
            if collapse is not None and not _pads_split_dims(op, collapse):
                self._move(op, _padded(op, collapse))
        elif op.name == "linalg.generic":
            old = Generic(op)
            if old.reduction_dims:
                if old.product is not None:
                    self.grown.update(op.results)
                return
            collapse = next(filter(None, map(self._collapse, old.inputs)), None)
            if collapse is not None and _can_split(old, collapse):
                wide = shape_of(collapse.operands[0])
                self._move(op, split_elementwise(old, wide, groups_of(collapse)))
            elif any(v in self.grown for v in old.inputs) and is_elementwise(old):
                self.grown.update(op.results)

    def _collapse(self, value: ir.Value) -> ir.Operation | None:
        op = defining(value)
        if op is None or op.name != "tensor.collapse_shape":
            return None
        return op if op.operands[0] in self.grown else None

    def _move(self, old: ir.Operation, new: ir.Value) -> None:
        self.grown.add(new)
        with ir.InsertionPoint(old), old.location:
            collapsed = reshape(new, shape_of(old.results[0]))
        old.results[0].replace_all_uses_with(collapsed)


def _can_split(old: Generic, collapse: ir.Operation) -> bool:
    """Whether every operand is indexed by loop dims alone, the collapsed one by all in order."""
    if not is_elementwise(old) or not old.maps[-1].results:
        return False
    number = list(old.op.operands).index(collapse.results[0])
    return old.maps[number] == old.maps[-1] and all(m.is_projected_permutation for m in old.maps)


def _pads_split_dims(pad: ir.Operation, collapse: ir.Operation) -> bool:
    amounts = zip(integers(pad, "static_low"), integers(pad, "static_high"), strict=True)
    return any(
        len(group) > 1 and any(sides)
        for group, sides in zip(groups_of(collapse), amounts, strict=True)
    )


def _padded(pad: ir.Operation, collapse: ir.Operation) -> ir.Value:
    """The pad on the dims of the collapse's source."""
    source, groups = collapse.operands[0], groups_of(collapse)
    low, high = [0] * len(shape_of(source)), [0] * len(shape_of(source))
    for k, group in enumerate(groups):
        low[group[0]] += integers(pad, "static_low")[k]
        high[group[0]] += integers(pad, "static_high")[k]
    shape = [a + d + b for a, d, b in zip(low, shape_of(source), high, strict=True)]
    with ir.InsertionPoint(pad), pad.location:
        new = tensor.PadOp(type_like(source, shape), source, [], [], low, high)
    block = pad.regions[0].blocks[0]
    for _ in range(len(shape) - len(groups)):
        block.add_argument(ir.IndexType.get(pad.context), pad.location)
    block.append_to(new.regions[0])
    return new.results[0]
