"""vdevice-validate: S4 -> S4, the proof that a schedule may run; the module stays as it is.

Before and after:
    "vdevice.device"() {eus = 2 : i64, ...} : () -> ()
    "vdevice.program"() ({ buffers, events, runs, waits, signals }) {sym_name = "main_0", ...}
    func.func @main() attributes {rtask.inputs = [...], rtask.outputs = [...]} {
      "vdevice.launch"() {program = @main_0} : () -> () ... }
What every compilation proves of its own schedules, of one that somebody wrote or edited: each rTask
runs exactly once, no wait is for ever, each read sees what was written for it, no value is
overwritten while it is in use, and rKernels touch the bytes that they say they touch.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch_mlir import ir

from rcompiler.errors import CompilerError
from rcompiler.passes import Pass, PassFailure
from rcompiler.passes.ir.operators import ops_in_module
from rcompiler.passes.schedule.tables import proved_tables
from rcompiler.passes.tiling.claims import check_kernel


@dataclass(frozen=True)
class VdeviceValidate(Pass):
    """Prove that a schedule has no race, no deadlock and no overwritten value."""

    def run(self, module: ir.Operation) -> None:
        blamed = module
        try:
            for blamed in ops_in_module(module, "rtask.kernel"):
                check_kernel(blamed)
            # what launches the programs: what is proved is true of all of them together
            blamed = next(iter(ops_in_module(module, "func.func")), module)
            proved_tables(module)
        except CompilerError as error:
            raise PassFailure(blamed, str(error)) from error
