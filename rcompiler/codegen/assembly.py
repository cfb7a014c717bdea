"""Stage "asm": what the machine code of a module says, as LLVM prints it."""

from __future__ import annotations

from rcompiler.codegen.emit import Job, emit_all
from rcompiler.codegen.llvm_ir import llvm_ir


def assembly(module: str, cpu: str, features: str) -> str:
    """Assembly text of a module of the llvm dialect; cpu, features: LLVM's names, see `cpu.Target`.

    Raises PipelineError or CompilerError as `cpu.compile_object`.
    """
    [text] = emit_all([Job(llvm_ir(module), cpu, features, optimize=False, assembly=True)], 1)
    return text.decode()
