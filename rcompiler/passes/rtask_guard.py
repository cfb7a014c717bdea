"""rtask-guard: S2 -> S2, an rOperator whose results matter only under conditions does nothing where
one of them does not hold.

Before:
    %a = "rtask.operator"() ({ contraction of %x, %w }) ...
    %r = "rtask.operator"() ({ %c ? %a : %b, element by element }) ...
After:
    %a = "rtask.operator"() ({
      "rtask.guard"(%c) {holds = true} : (tensor<i1>) -> ()
      contraction of %x, %w
    }) ...
Where a guard does not hold, the results are whatever was in memory, which nothing uses
(`linalg.conditions`). Left alone: what matters under a condition that comes later, and all of a
condition under which there is little to do. Needs: rOperators (rtask-form) that compute what is
chosen apart from the choice (rtask-form{apart=true}).
"""

from __future__ import annotations

from dataclasses import dataclass

from torch_mlir import ir

from rcompiler.dialects import rtask
from rcompiler.linalg.conditions import OPERATOR, Conditional
from rcompiler.passes import OptionalPass
from rcompiler.passes.ir.operators import bodies


@dataclass(frozen=True)
class RTaskGuard(OptionalPass):
    """Let rOperators do nothing where their results are not chosen."""

    def run(self, module: ir.Operation) -> None:
        for body in bodies(module):
            kept = Conditional(body).kept()
            every = dict.fromkeys(c for found in kept.values() for c in found)
            position = {condition: number for number, condition in enumerate(every)}
            for op, conditions in kept.items():
                if op.name == OPERATOR:
                    block = op.regions[0].blocks[0]
                    with ir.InsertionPoint.at_block_begin(block), op.location:
                        for condition in sorted(conditions, key=lambda c: position[c]):
                            rtask.GuardOp.build(condition.value, condition.holds)
