"""rtask-stage-rows: S2 -> S2, what the elements of a row share becomes a stage of its own.

Before, in an rOperator:
    %s = "rtask.stage"(%x)                          512x512
    %m = linalg.generic {max(acc, s)} ins(%s)       512
    %e = linalg.generic {exp(s - m)} ins(%s, %m)    512x512
    %k = "rtask.stage"(%e)
After:
    %s = "rtask.stage"(%x)
    %m = linalg.generic {max(acc, s)} ins(%s)
    %n = "rtask.stage"(%m)
    %e = linalg.generic {exp(s - n)} ins(%s, %n)
    %k = "rtask.stage"(%e)
A row of %e waits for all of its maximum, down to the last lane of a vector. With all maxima of a
task first, the processor works on several rows at once (measured on attention of 128 tokens with
AVX-512: 6 cycles for a vector of weights instead of 13). The results of a product also share a
factor of their row this way without its vectors having to run along the row.

Only in rOperators that have stages. Needs: rtask-stitch.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch_mlir import ir

from rcompiler.dialects import rtask
from rcompiler.linalg.generic import Generic
from rcompiler.linalg.maps import dims_of
from rcompiler.linalg.values import STAGE, ops_of
from rcompiler.passes import OptionalPass
from rcompiler.passes.ir.operators import operators
from rcompiler.passes.roller_tile import body_of


@dataclass(frozen=True)
class RTaskStageRows(OptionalPass):
    """Make what the elements of a row share a stage of its own."""

    def run(self, module: ir.Operation) -> None:
        for operator in operators(module):
            stage_rows(operator)


def stage_rows(operator: ir.Operation) -> None:
    """The pass, on one rOperator."""
    ops = ops_of(operator.regions[0].blocks[0])
    if any(op.name == STAGE for op in ops):
        for op in filter(_serves_rows, ops):
            _keep(op, operator)


def _serves_rows(op: ir.Operation) -> bool:
    """Whether several elements of a later value need the same element of this reduction."""
    if op.name != "linalg.generic" or len(op.results) != 1 or not Generic(op).accumulates:
        return False
    return any(_spreads(use) for use in op.results[0].uses)


def _spreads(use: ir.OpOperand) -> bool:
    """Whether an elementwise op reads an element for more than one of its results."""
    user = use.owner.operation
    if user.name != "linalg.generic" or Generic(user).reduction_dims:
        return False
    reader = Generic(user)
    read = set().union(*(dims_of(e) for e in reader.maps[use.operand_number].results))
    return any(size > 1 for dim, size in enumerate(reader.sizes) if dim not in read)


def _keep(op: ir.Operation, operator: ir.Operation) -> None:
    """A stage behind `op`, if a task can keep its tile of it."""
    value = op.results[0]
    with ir.InsertionPoint(op), op.location:
        stage = rtask.StageOp(value=value, output=value.type).operation
    stage.move_after(op)
    value.replace_all_uses_except(stage.results[0], stage)
    with body_of(operator) as body:
        fits = body.stages_fit
    if not fits:
        stage.results[0].replace_all_uses_with(value)
        stage.erase()
