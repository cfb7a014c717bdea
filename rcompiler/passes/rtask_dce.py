"""rtask-dce: remove the kernels that no operator and no program uses.

Before:
    "rtask.kernel"() ({...}) {sym_name = "k_fast", ...} : () -> ()
    "rtask.kernel"() ({...}) {sym_name = "k_efficient", ...} : () -> ()
    "vdevice.program"() ({... "vdevice.run"() {kernel = @k_fast, ...} ...}) {...} : () -> ()
After: the same without k_efficient.

MLIR's symbol-dce cannot do it: the bindings give an op no Symbol trait.
"""

from dataclasses import dataclass

from torch_mlir import ir

from rcompiler.dialects import rtask
from rcompiler.passes import Pass


@dataclass(frozen=True)
class RTaskDce(Pass):
    """Remove the kernels that no operator and no program uses."""

    def run(self, module: ir.Operation) -> None:
        used = _used(module)
        for op in list(module.regions[0].blocks[0].operations):
            if isinstance(op, rtask.KernelOp) and op.sym_name.value not in used:
                op.operation.erase()


def _used(module: ir.Operation) -> set[str]:
    """Names of the kernels that operators list and schedules run."""
    used: set[str] = set()

    def visit(op: ir.Operation) -> ir.WalkResult:
        if op.name == "rtask.operator" and "kernels" in op.attributes:
            used.update(kernel.value for kernel in op.attributes["kernels"])
        elif op.name == "vdevice.run":
            used.add(op.attributes["kernel"].value)
        return ir.WalkResult.ADVANCE

    module.walk(visit, ir.WalkOrder.PRE_ORDER)
    return used
