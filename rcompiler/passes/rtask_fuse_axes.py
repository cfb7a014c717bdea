"""rtask-fuse-axes: neighbouring dims that an rOperator always walks together become one dim.

Before:
    %y = "rtask.operator"() ({ relu on tensor<224x224x3xf32> ... }) ...
After:
    %v = tensor.collapse_shape %x [[0, 1, 2]] : tensor<224x224x3xf32> into tensor<150528xf32>
    %r = "rtask.operator"() ({ relu on tensor<150528xf32> ... }) ...
    %y = tensor.expand_shape %r [[0, 1, 2]] ... into tensor<224x224x3xf32>
A long dim has room for every aligned tile, short ones have not (Roller §3.2; measured on a core
with vectors of 16: rows of 3 elements 2.7 to 3.3 times as fast, sums over 7x7 pixels 1.8 times).
The reshapes cost nothing. Only where the cost model sees a gain, as tiles of long rows should end
where the tiles of other operators do; or where reshapes between the ops of an operator go, along
which no two neighbours could share a register tile (the model does not see that). A sum over two
dims that become one may be added up in another order; that depends on the operator and the device
record alone.

Kept apart: dims that meet a pad, a slice or a stage, that an expression adds or divides, or whose
index the body asks for. Left alone: operators of several stages, all of whose dims meet one.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass

from torch_mlir import ir

from rcompiler.linalg.values import STAGE, defining, ops_of
from rcompiler.linalg.views import RESHAPES
from rcompiler.passes import OptionalPass
from rcompiler.passes.forming.fused_axes import FusedAxes
from rcompiler.passes.ir.module_device import Attached, attached
from rcompiler.passes.ir.operators import operators
from rcompiler.passes.ir.structure import structure
from rcompiler.passes.ir.tensor_ir import erase_with_views
from rcompiler.passes.roller_tile import body_of
from rcompiler.support import lookups

_LEAST_GAIN = 1.05  # estimated


@dataclass(frozen=True)
class RTaskFuseAxes(OptionalPass):
    """Make one dim of neighbouring dims that an rOperator always walks together."""

    def run(self, module: ir.Operation) -> None:
        gain = _Gain(attached(module))
        known: dict[Hashable, bool] = {}  # whether operators with that body are better fused
        for operator in operators(module):
            if any(op.name == STAGE for op in ops_of(operator.regions[0].blocks[0])):
                continue
            key = structure(operator)
            lookups.note(known=key in known)
            if known.get(key, True):
                known[key] = _visit(operator, gain if key not in known else None)


class _Gain:
    """Whether one operator is clearly faster than another; remembers what each takes."""

    def __init__(self, on: Attached) -> None:
        self._device, self._precision = on.device, on.precision
        self._known: dict[str, float] = {}

    def __call__(self, fused: ir.Operation, old: ir.Operation) -> bool:
        return self._ns(fused) * _LEAST_GAIN <= self._ns(old)

    def _ns(self, operator: ir.Operation) -> float:
        """All tasks, one after the other."""
        with body_of(operator) as body:
            if body.signature not in self._known:
                best = body.construct(self._device, eus=1, precision=self._precision)[0]
                self._known[body.signature] = best.tasks * best.estimated_ns
            return self._known[body.signature]


def _has_fewer_views(fused: ir.Operation, old: ir.Operation) -> bool:
    """Whether ops of one operator walk dims that others of it walk as one, and no longer do."""
    return _views_inside(fused) < _views_inside(old)


def _views_inside(operator: ir.Operation) -> int:
    """Reshapes between the ops of an operator."""
    ops = ops_of(operator.regions[0].blocks[0])
    return sum(op.name in RESHAPES and defining(op.operands[0]) in ops for op in ops)


def _visit(operator: ir.Operation, gain: _Gain | None) -> bool:
    """Replace the operator by its fused form; with `gain`, only if that says so."""
    fused = FusedAxes(operator)
    made = fused.build()
    if made is None:
        return False
    if gain is None or _has_fewer_views(made, operator) or gain(made, operator):
        fused.replace(made)
        return True
    erase_with_views(made)
    return False
