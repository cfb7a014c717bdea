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

from rcompiler.linalg.values import symbol, symbols
from rcompiler.passes import Pass
from rcompiler.passes.ir.operators import kernels_by_name, nested


@dataclass(frozen=True)
class RTaskDce(Pass):
    """Remove the kernels that no operator and no program uses."""

    def run(self, module: ir.Operation) -> None:
        used = _used(module)
        for name, op in kernels_by_name(module).items():
            if name not in used:
                op.erase()


def _used(module: ir.Operation) -> set[str]:
    """Names of the kernels that operators list and schedules run."""
    used: set[str] = set()
    for op in nested(module):
        if op.name == "rtask.operator" and "kernels" in op.attributes:
            used.update(symbols(op, "kernels"))
        elif op.name == "vdevice.run":
            used.add(symbol(op, "kernel"))
    return used
