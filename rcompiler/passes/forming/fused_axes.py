"""An rOperator with neighbouring dims made one: which ones, and the operator on them."""

from __future__ import annotations

import math

from torch_mlir import ir

from rcompiler.dialects import rtask
from rcompiler.dialects.uses import captures
from rcompiler.linalg.generic import Generic
from rcompiler.linalg.maps import dim_of, dims_of
from rcompiler.linalg.values import (
    element_type,
    operations,
    ops_of,
    shape_of,
    string,
    yielded,
)
from rcompiler.linalg.views import RESHAPES, groups_of
from rcompiler.passes.ir.clone import Values, clone, copy_block, remap
from rcompiler.passes.ir.tensor_ir import (
    empty,
    fill,
    fused_map,
    generic,
    is_one_number,
    reshape,
    type_like,
)
from rcompiler.roller.fuse import Groups, LoopNest, Reshape, fuse_axes, fused_loops

_SPLATS = ("linalg.fill", "tensor.empty")
_ENDS = ("rtask.yield", rtask.CAST)


class FusedAxes:
    """One rOperator: which dims of which values become one, and the rewriting."""

    def __init__(self, operator: ir.Operation) -> None:
        self._operator = operator
        self._block = operator.regions[0].blocks[0]
        self._ops = ops_of(self._block)
        self._captures = captures(operator)
        inner = [r for op in self._ops if op.name not in _ENDS for r in op.results]
        tensors = [v for v in inner if isinstance(v.type, ir.RankedTensorType)]
        self._number = {value: k for k, value in enumerate([*self._captures, *tensors])}
        self._nests: dict[ir.Operation, LoopNest] = {}
        self._groups: list[Groups] = []
        self._whole: set[int] = set()
        self._reshapes: list[Reshape] = []
        for op in self._ops:
            if op.name == "linalg.generic" and not _asks_for_more(op):
                self._nests[op] = self._nest(Generic(op))
            elif self._is_reshape(op):
                self._reshapes.append(self._reshape(op))
            elif op.name not in (*_SPLATS, *_ENDS) and not is_one_number(op):
                self._whole |= {self._number[v] for v in self._tensors_of(op)}

    def build(self) -> ir.Operation | None:
        """The operator on values with fewer dims, in front of the old one; None if all of them stay
        apart.
        """
        values = list(self._number)
        if any(0 in shape_of(v) for v in values):
            return None
        ranks = [len(shape_of(v)) for v in values]
        self._groups = fuse_axes(ranks, list(self._nests.values()), self._whole, self._reshapes)
        return self._rewritten() if any(map(self._joins, values)) else None

    def replace(self, made: ir.Operation) -> None:
        """Let what `build` made take the place of the operator."""
        old = self._operator
        values = rtask.operator_results(old)
        with ir.InsertionPoint(old), old.location:
            for value, new in zip(values, rtask.unpack(made.results[0]), strict=True):
                value.replace_all_uses_with(reshape(new, shape_of(value)))
        if values[0] != old.results[0]:
            values[0].owner.operation.erase()
        old.erase()

    def _joins(self, value: ir.Value) -> bool:
        """Whether dims of more than one element become one."""
        shape, groups = shape_of(value), self._groups[self._number[value]]
        return any(sum(shape[d] > 1 for d in group) > 1 for group in groups)

    def _nest(self, old: Generic) -> LoopNest:
        reduced = set(old.reduction_dims)
        kinds = tuple("reduction" if d in reduced else "parallel" for d in range(len(old.sizes)))
        expressions = [e for map_ in old.maps for e in map_.results if _walker(e, old) is None]
        inside = frozenset(d for e in expressions for d in dims_of(e))
        maps = [*old.maps, *old.maps[len(old.inputs) :]]
        accesses = tuple(
            (self._number[value], tuple(_walker(e, old) for e in map_.results))
            for value, map_ in zip([*old.operands, *old.op.results], maps, strict=True)
        )
        return LoopNest(kinds, accesses, inside)

    def _is_reshape(self, op: ir.Operation) -> bool:
        """Whether an op makes one dim of several, or several of one; of dims of one element it
        does not matter which.
        """
        if op.name not in RESHAPES or op.operands[0] not in self._number:
            return False
        wide = max((shape_of(value) for value in (op.operands[0], op.results[0])), key=len)
        return any(sum(wide[d] > 1 for d in group) > 1 for group in groups_of(op))

    def _reshape(self, op: ir.Operation) -> Reshape:
        wide, narrow = op.operands[0], op.results[0]
        if op.name == "tensor.expand_shape":
            wide, narrow = narrow, wide
        groups = tuple(map(tuple, groups_of(op)))
        return Reshape(self._number[wide], self._number[narrow], groups)

    def _tensors_of(self, op: ir.Operation) -> list[ir.Value]:
        """All tensors that an op or its regions use, and its results."""
        used = [v for one in [op, *operations(op)] for v in one.operands]
        return [v for v in [*used, *op.results] if v in self._number]

    # -- rewriting ---------------------------------------------------------------------------------
    def _shape(self, value: ir.Value) -> list[int]:
        """The shape with its fused dims; that of a scalar stays."""
        shape = shape_of(value)
        return [math.prod(shape[d] for d in g) for g in self._groups[self._number[value]]]

    def _rewritten(self) -> ir.Operation:
        """The operator on values with fused dims, in front of the old one."""
        old, results = self._operator, yielded(self._block)
        names = {name: string(old, name) for name in ("sym_name", "kind")}
        with ir.InsertionPoint(old), old.location:
            mapped: Values = {v: reshape(v, self._shape(v)) for v in self._captures}
            made = rtask.OperatorOp.build(
                outputs=[type_like(r, self._shape(r)) for r in results], **names
            )
            with ir.InsertionPoint(made.body.blocks[0]):
                for op in self._ops:
                    if op.name not in _ENDS:
                        self._copy(op, mapped)
                rtask.YieldOp.build(rtask.pack([mapped[r] for r in results]))
        if rtask.ROOT in old.attributes:
            made.operation.attributes[rtask.ROOT] = old.attributes[rtask.ROOT]
        return made.operation

    def _copy(self, op: ir.Operation, mapped: Values) -> None:
        """Copy one op of the body on values with fused dims."""
        if self._is_reshape(op) and self._shape(op.operands[0]) == self._shape(op.results[0]):
            mapped[op.results[0]] = mapped[op.operands[0]]
        elif op in self._nests:
            with op.location:
                self._copy_generic(Generic(op), self._nests[op], mapped)
        elif op.name == "linalg.fill":
            with op.location:
                scalar = mapped.get(op.operands[0], op.operands[0])
                mapped[op.results[0]] = fill(scalar, self._shape(op.results[0]))
        elif op.name == "tensor.empty":
            if any(use.owner.operation.name != "linalg.fill" for use in op.results[0].uses):
                result = op.results[0]
                with op.location:
                    mapped[result] = empty(self._shape(result), element_type(result))
        elif is_one_number(op) and op.results[0] in self._number:
            type_ = type_like(op.results[0], self._shape(op.results[0]))
            scalar = ir.DenseElementsAttr(op.attributes["value"]).get_splat_value()
            value = ir.DenseElementsAttr.get_splat(type_, scalar)
            made_op = ir.Operation.create(op.name, results=[type_], attributes={"value": value})
            mapped[op.results[0]] = made_op.results[0]
        else:
            clone(op, mapped)

    def _copy_generic(self, old: Generic, nest: LoopNest, mapped: Values) -> None:
        loops = fused_loops(nest, self._groups)
        maps = [
            fused_map(map_, self._groups[self._number[value]], loops)
            for value, map_ in zip(old.operands, old.maps, strict=True)
        ]
        operands = [mapped.get(v, v) for v in old.operands]
        count = len(old.inputs)
        kinds = [old.kinds[group[0]] for group in loops]
        made = generic(operands[:count], operands[count:], maps, kinds)
        copy_block(old.block, made.regions[0], list(old.block.arguments))
        remap(made, mapped)
        mapped.update(zip(old.op.results, made.results, strict=True))


def _walker(expression: ir.AffineExpr, generic: Generic) -> int | None:
    """The loop that walks a dim alone: also in a window of one element. None if there is none."""
    if dim_of(expression) >= 0:
        return dim_of(expression)
    used = sorted(dims_of(expression))
    moving = [d for d in used if generic.sizes[d] > 1]
    terms = [ir.AffineExpr.get_dim(d) for d in used]
    whole = sum(terms[1:], terms[0]) if terms else None
    return moving[0] if len(moving) == 1 and expression == whole else None


def _asks_for_more(op: ir.Operation) -> bool:
    """Whether a body asks for its index, or reads tensors beside its operands."""
    return any(o.name in ("linalg.index", "tensor.extract") for o in operations(op))
