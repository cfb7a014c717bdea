"""rtask-defer-normalisation: S2 -> S2, divide a softmax's weighted sums instead of its weights.

Before, in an rOperator:
    %e = linalg.generic {exp(x - m)} ins(%x, %m)            %m: the maxima of the rows of %x
    %l = linalg.generic {acc + e} ins(%e)
    %p = linalg.generic {e * (1 / l)} ins(%e, %l)           512x512
    %s = "rtask.stage"(%p)
    %o = linalg.generic {acc + s * v} ins(%s, %v)           512x64
After:
    %s = "rtask.stage"(%e)
    %l = linalg.generic {acc + s} ins(%s)
    %a = linalg.generic {acc + s * v} ins(%s, %v)
    %o = linalg.generic {a * (1 / l)} ins(%a, %l)           512x64
Exact in real numbers; in floats the division rounds once per result instead of once per weight. As
the maximum was subtracted, weights are at most 1 and the sum of a row at least 1, so that nothing
overflows whose values are not within a factor of the row's length of the largest float already. A
NaN or +inf in a row, or nothing but -inf, makes its sum a NaN, before and after.

Left alone: weights that something else reads, or that are fewer than the results; f16 and bf16,
whose results would be rounded before they are divided. Needs: rtask-stitch.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from torch_mlir import ir

from rcompiler.linalg.bodies import is_multiply_add
from rcompiler.linalg.constants import scalar_number
from rcompiler.linalg.generic import Generic
from rcompiler.linalg.values import STAGE, defining, element_of, element_type, ops_of, shape_of
from rcompiler.passes import OptionalPass
from rcompiler.passes.ir.operators import operators
from rcompiler.passes.ir.tensor_ir import affine_map, empty, generic

_MAXIMA = ("arith.maximumf", "arith.maxnumf")
_SUM = ("arith.addf",)


@dataclass(frozen=True)
class RTaskDeferNormalisation(OptionalPass):
    """Divide a softmax's weighted sums instead of its weights."""

    def run(self, module: ir.Operation) -> None:
        for operator in operators(module):
            defer_normalisation(operator)


def defer_normalisation(operator: ir.Operation) -> None:
    """The pass, on one rOperator."""
    block = operator.regions[0].blocks[0]
    for stage in [op for op in ops_of(block) if op.name == STAGE]:
        found = _normalised(stage)
        if found is not None:
            _defer(found)


@dataclass(frozen=True)
class _Normalised:
    """A stage of normalised weights. scaling: weights times a factor of their row, `row` its sum.
    product: the only reader of the stage, which is its input number `left`.
    """

    stage: ir.Operation
    scaling: Generic
    row: Generic
    product: Generic
    left: int


def _normalised(stage: ir.Operation) -> _Normalised | None:
    """What `stage` keeps, if its weights can be normalised after they were summed."""
    scaling, use = _generic(stage.operands[0]), _only_use(stage.results[0])
    if scaling is None or use is None or _only_use(stage.operands[0]) is None:
        return None
    row, product = _softmax(scaling), _generic(use.owner.operation.results[0])
    if row is None or product is None or not is_multiply_add(product):
        return None
    found = _Normalised(stage, scaling, row, product, use.operand_number)
    return found if _sums_rows(found) else None


def _softmax(scaling: Generic) -> Generic | None:
    """The sums of the rows, if `scaling` divides e^(x - maximum of the row) by them."""
    powers = _generic(scaling.inputs[0])
    if powers is None or not _scales(scaling) or not _is_power(powers):
        return None
    row, maxima = _row_of(scaling, _SUM), _row_of(powers, _MAXIMA)
    if row is None or maxima is None or row.reduction_dims != maxima.reduction_dims:
        return None
    readers = {u.owner.operation for u in scaling.inputs[0].uses}
    return row if readers == {scaling.op, row.op} else None


def _scales(op: Generic) -> bool:
    """Whether it multiplies or divides its first input by something that it computes without."""
    scaled = ops_of(op.block)[-1].operands[0]
    last, use = defining(scaled), _only_use(op.block.arguments[0])
    if last is None or use is None or use.owner.operation != last or not _is_pointwise(op):
        return False
    return last.name == "arith.mulf" or (last.name == "arith.divf" and use.operand_number == 0)


def _is_power(op: Generic) -> bool:
    """Whether it computes a power of the first input - second input, with a base above 1."""
    last = ops_of(op.block)[-1].operands[0]
    power = defining(last)
    if power is None or power.name not in ("math.exp", "math.exp2") or not _is_pointwise(op):
        return False
    exponent = defining(power.operands[0])
    if exponent is not None and exponent.name == "arith.mulf":
        factor = scalar_number(exponent.operands[1])
        if factor is None or not factor > 0:
            return False
        exponent = defining(exponent.operands[0])
    if exponent is None or exponent.name != "arith.subf":
        return False
    return list(exponent.operands) == list(op.block.arguments)[:2]


def _is_pointwise(op: Generic) -> bool:
    """Whether each result is computed from the same element of the first of two inputs."""
    plain = len(op.inputs) == 2 and op.outputs == 1 and not op.reduction_dims
    return plain and _identical(op.maps[0]) and _identical(op.maps[-1]) and not any(op.init_used)


def _row_of(reader: Generic, combiners: tuple[str, ...]) -> Generic | None:
    """What combines the rows of the first input of `reader` into its second input."""
    row = _generic(reader.inputs[1])
    if row is None or row.inputs != reader.inputs[:1] or row.combiner not in combiners:
        return None
    plain = row.combined == row.block.arguments[0] and _identical(row.maps[0])
    return row if plain and row.maps[-1] == reader.maps[1] else None


def _sums_rows(found: _Normalised) -> bool:
    """Whether the product sums along the rows, in at least f32, into no more results than there are
    weights.
    """
    product = found.product
    along, results = product.dims[found.left], product.dims[-1]
    if -1 in along + results or element_of(product.inits[0]) not in ("f32", "f64"):
        return False
    weights, sums = (shape_of(g.op.results[0]) for g in (found.scaling, product))
    rows = {along[d] for d in found.scaling.dims[1]}
    return rows <= set(results) and math.prod(sums) <= math.prod(weights)


def _defer(found: _Normalised) -> None:
    stage, scaling, product = found.stage, found.scaling, found.product
    weights, sums = scaling.inputs[0], product.op.results[0]
    stage.move_after(weights.owner.operation)
    stage.operands[0] = weights
    found.row.op.operands[0] = stage.results[0]
    along, results = product.dims[found.left], product.dims[-1]
    places = [results.index(along[d]) for d in scaling.dims[1]]
    rank = len(results)
    identity = ir.AffineMap.get_identity(rank)
    rows = affine_map(rank, [ir.AffineExpr.get_dim(p) for p in places])
    with ir.InsertionPoint(product.op), scaling.op.location:
        out = empty(shape_of(sums), element_type(sums))
        inputs, maps = [sums, scaling.inputs[1]], [identity, rows, identity]
        deferred = generic(inputs, [out], maps, ["parallel"] * rank, scaling.block)
    deferred.move_after(product.op)
    sums.replace_all_uses_except(deferred.results[0], deferred)
    scaling.op.erase()


def _generic(value: ir.Value) -> Generic | None:
    """The linalg.generic of one result that computes `value`."""
    op = defining(value)
    alone = op is not None and op.name == "linalg.generic" and len(op.results) == 1
    return Generic(op) if op is not None and alone else None


def _only_use(value: ir.Value) -> ir.OpOperand | None:
    uses = list(value.uses)
    return uses[0] if len(uses) == 1 else None


def _identical(map_: ir.AffineMap) -> bool:
    return bool(map_ == ir.AffineMap.get_identity(map_.n_dims))
