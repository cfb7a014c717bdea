"""Whether what rOperators leave undone is used by nobody: the law of `rtask.guard`.

It is proved of S3, where values are SSA: what an operator that is guarded makes must matter only
where its guards hold (`linalg.conditions`), and its rKernels look at just these. A schedule orders
a guarded rTask like any other, which reads its conditions and may write its results.
"""

from __future__ import annotations

from torch_mlir import ir

from rcompiler.dialects.rtask import guards_of
from rcompiler.dialects.uses import captures
from rcompiler.linalg.conditions import OPERATOR, Condition, Conditional
from rcompiler.linalg.values import ops_of, symbols
from rcompiler.passes import PassFailure
from rcompiler.passes.ir.operators import bodies, kernels_by_name


def check_guards(module: ir.Operation) -> None:
    """Raises PassFailure naming the operator."""
    kernels = {name: guards_of(op) for name, op in kernels_by_name(module).items()}
    for body in bodies(module):
        operators = [op for op in ops_of(body) if op.name == OPERATOR]
        guards = {op: _guards(op) for op in operators}
        conditional = Conditional(body) if any(guards.values()) else None
        for op, own in guards.items():
            if conditional is not None and not own <= conditional.of(op):
                raise PassFailure(
                    op,
                    "what it makes is used where its guard does not hold; remove the rtask.guard, "
                    "or choose by its condition between this and another value",
                )
            inputs = captures(op)
            for name in symbols(op, "kernels") if "kernels" in op.attributes else ():
                if {Condition(inputs[n], holds) for n, holds in kernels[name]} != own:
                    raise PassFailure(
                        op, f"rKernel @{name} has other guards than it; run roller-tile again"
                    )


def _guards(operator: ir.Operation) -> set[Condition]:
    ops = ops_of(operator.regions[0].blocks[0])
    guards = [op for op in ops if op.name == "rtask.guard"]
    return {Condition(g.operands[0], ir.BoolAttr(g.attributes["holds"]).value) for g in guards}
