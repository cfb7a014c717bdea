"""roller-tidy-tasks: S3 -> S3, what loops over tiles repeat without need is done once.

Before:
    %r = scf.for %j = %c0 to %c32 step %c8 iter_args(%o = %out) {
      %a = tensor.extract_slice %x[%i, 0] [4, 96] [1, 1]
      ...
After:
    %a = tensor.extract_slice %x[%i, 0] [4, 96] [1, 1]
    %r = scf.for %j = %c0 to %c32 step %c8 iter_args(%o = %out) { ... }
MLIR's cse and loop-invariant-code-motion on the bodies of one task, and on no others: a sequential
body computes what it reads where it is read.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch_mlir import ir
from torch_mlir.passmanager import PassManager

from rcompiler.passes import Pass
from rcompiler.passes.ir.operators import ops_in_module
from rcompiler.passes.tiles.body import is_tiled

_PASSES = "rtask.kernel(cse,loop-invariant-code-motion,cse)"


@dataclass(frozen=True)
class RollerTidyTasks(Pass):
    """Do once what the loops of a task do not change."""

    def run(self, module: ir.Operation) -> None:
        manager = PassManager.parse(_PASSES, module.context)
        manager.enable_verifier(False)  # the pipeline around this pass verifies, or its caller does
        for op in ops_in_module(module, "rtask.kernel"):
            if is_tiled(op):
                manager.run(op)
