"""Bodies with stages: what each stage computes, from what, and along which axes of the result."""

from __future__ import annotations

from dataclasses import dataclass, replace

from torch_mlir import ir

from rcompiler.linalg.values import STAGE, defining, ops_of, shape_of, yielded
from rcompiler.passes.tiling.task_boxes import stage_axes
from rcompiler.passes.tiling.tensor_expr import Traced, Tracer, tensor_expr
from rcompiler.passes.tiling.unit_product import Multiplier
from rcompiler.roller.expr import TensorExpr
from rcompiler.roller.staged import StageExpr


@dataclass(frozen=True)
class StageBody:
    """One stage of a body. traced: its value, from arguments and earlier stages; axes: for each dim
    the axis of the first result that it goes along with, or -1.
    """

    op: ir.Operation
    traced: Traced
    axes: tuple[int, ...]


def stage_bodies(block: ir.Block, traced: Traced) -> list[StageBody] | None:
    """The stages of a body in order; None if no tile of some stage can be kept.

    traced: the whole body.
    """
    found = []
    for op in (op for op in ops_of(block) if op.name == STAGE):
        axes = stage_axes(op, traced)
        if axes is None:
            return None
        value = op.operands[0]
        found.append(StageBody(op, Tracer(leaves_of([value]), [value]).trace(), axes))
    return found


def stage_expressions(
    block: ir.Block,
    kind: str,
    traced: Traced,
    stages: list[StageBody],
    multiplier: Multiplier | None = None,
) -> tuple[list[StageExpr], TensorExpr]:
    """The stages for Roller, and what is left to do after them; `multiplier`: whose matrix units
    compute products, None for multiply-adds.
    """
    results = yielded(block)
    rank = len(shape_of(results[0]))
    parallel = [d for d in range(rank) if traced.kinds[d] == "parallel"]
    expressions = []
    for stage in stages:
        expr = _expression([stage.op.operands[0]], None, stage.traced, multiplier, kept=True)
        own = [stage.axes[d] for d in expr.parallel]
        axes = tuple(parallel.index(a) if a in parallel else -1 for a in own)
        expressions.append(StageExpr(expr, axes))
    last = Tracer(leaves_of(results), results).trace()
    return expressions, _expression(results, kind, last, multiplier, kept=False)


def _expression(
    results: list[ir.Value],
    kind: str | None,
    traced: Traced,
    multiplier: Multiplier | None,
    *,
    kept: bool,
) -> TensorExpr:
    leaves = leaves_of(results)
    expr = tensor_expr(leaves, results, kind, traced)
    if multiplier is not None:
        expr = multiplier.on_unit(expr, leaves, results, traced)
    inputs = zip(leaves, expr.inputs, strict=True)
    return replace(
        expr,
        inputs=tuple(replace(access, kept=_is_stage(leaf)) for leaf, access in inputs),
        outputs=tuple(replace(access, kept=kept) for access in expr.outputs),
    )


def leaves_of(results: list[ir.Value]) -> list[ir.Value]:
    """Arguments and stages that `results` are computed from, in the order of a walk backwards."""
    found: list[ir.Value] = []
    seen: set[ir.Value] = set()
    pending = list(reversed(results))
    while pending:
        value = pending.pop()
        if value in seen or not isinstance(value.type, ir.RankedTensorType):
            continue
        seen.add(value)
        op = defining(value)
        if op is None or op.name == STAGE:
            found.append(value)
        else:
            pending += reversed(list(op.operands))
    return found


def _is_stage(value: ir.Value) -> bool:
    op = defining(value)
    return op is not None and op.name == STAGE
