"""rtask-update-state: S2 -> S2, what replaces a part of a state writes that part alone.

Before: (the loop begins with a copy of the state)
    func.func @main(%cache: tensor<16x8xf32> {rtask.state = "k"}, ...)
        -> (tensor<16x8xf32> {rtask.state = "k"}) {
      %new = "rtask.operator"() ({
        %r = scf.for ... iter_args(%t = %cache) -> (tensor<16x8xf32>) { ... tensor.insert ... }
        "rtask.yield"(%r) ...
      }) {kind = "sequential", ...} : () -> tensor<16x8xf32>
      return %new
    }
After: the same, with a mark on the loop; its rKernels copy nothing, and run only where both lie on
the same bytes, which `vdevice-validate` proves of every schedule.
        %r = scf.for ... { ... } {rtask.updates}
Nobody else reads the state, so the last value is of no use once the operator has begun.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch_mlir import ir

from rcompiler.linalg.independent_loops import UPDATES
from rcompiler.linalg.values import string, yielded
from rcompiler.passes import Pass
from rcompiler.passes.ir.operators import ops_in_module


@dataclass(frozen=True)
class RTaskUpdateState(Pass):
    """Let rOperators that replace a part of a state write that part alone."""

    def run(self, module: ir.Operation) -> None:
        for function in ops_in_module(module, "func.func"):
            if "arg_attrs" in function.attributes and "res_attrs" in function.attributes:
                _mark(function)


def _mark(function: ir.Operation) -> None:
    block = function.regions[0].blocks[0]
    *_, end = block.operations
    following = dict(zip(_states(function, "res_attrs"), end.operation.operands, strict=True))
    for state, argument in zip(_states(function, "arg_attrs"), block.arguments, strict=True):
        if state is not None and (loop := _update(argument, following.get(state))) is not None:
            loop.attributes[UPDATES] = ir.UnitAttr.get(loop.context)


def _states(function: ir.Operation, side: str) -> list[str | None]:
    """The state of each argument or result; None of what is none."""
    found: list[str | None] = []
    for own in ir.ArrayAttr(function.attributes[side]):
        known = {item.name: item.attr for item in ir.DictAttr(own)}
        state = known.get("rtask.state")
        found.append(None if state is None else ir.StringAttr(state).value)
    return found


def _update(last: ir.Value, following: ir.Value | None) -> ir.Operation | None:
    """The loop of an rOperator that makes the next value of a state of the last one, which nobody
    else reads.
    """
    uses = list(last.uses)
    if following is None or len(uses) != 1 or isinstance(following.owner, ir.Block):
        return None
    loop, operator = uses[0].owner.operation, following.owner.operation
    begins = loop.name == "scf.for" and uses[0].operand_number == 3 and len(loop.results) == 1
    whole = operator.name == "rtask.operator" and len(operator.results) == 1
    if not begins or not whole or loop.parent is None or loop.parent.operation != operator:
        return None
    sequential = string(operator, "kind") == "sequential"
    made = yielded(operator.regions[0].blocks[0])
    return loop if sequential and made == [loop.results[0]] else None
