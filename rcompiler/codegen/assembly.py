"""Stage "asm": what the machine code of a module says, as LLVM prints it."""

from __future__ import annotations

from rcompiler.codegen.emit import Emission, Job
from rcompiler.codegen.llvm_ir import llvm_ir


def assembly(module: str, cpu: str, features: str) -> str:
    """Assembly text of a module of the llvm dialect; cpu, features: LLVM's names, see `cpu.Target`.

    Raises PipelineError or CompilerError as `cpu.compile_object`.
    """
    with Emission(1) as emission:
        emission.submit(0, Job(llvm_ir(module), cpu, features, optimize=False, assembly=True))
        return emission.results()[0].decode()
