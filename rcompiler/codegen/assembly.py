"""Stage "asm": what the machine code of a module says, as LLVM prints it."""

from __future__ import annotations

from rcompiler.codegen.emit import Emission
from rcompiler.codegen.llvm_ir import llvm_ir, parsed
from rcompiler.codegen.llvm_job import LOOPS, Job


def assembly(module: str, cpu: str, features: str) -> str:
    """Assembly text of a module of the llvm dialect; cpu, features: LLVM's names, see `cpu.Target`.

    Raises PipelineError or CompilerError as `cpu.compile_object`.
    """
    modules = _with_modules_of_their_own(module)
    with Emission(1) as emission:
        for number, text in enumerate(modules):
            emission.submit(
                number, Job(llvm_ir(text), cpu, features, optimize=False, assembly=True)
            )
        found = emission.results()
    return "\n".join(found[number].decode() for number in sorted(found))


def _with_modules_of_their_own(module: str) -> list[str]:
    """The functions that LLVM optimises in a module of their own, as they are compiled; of others
    nothing is to change.
    """
    functions: list[list[str]] = [[], []]
    others = []
    whole = parsed(module)
    for view in whole.body.operations:
        op = view.operation
        text = op.get_asm(assume_verified=True)
        if op.name == "llvm.func" and len(op.regions[0].blocks):
            functions[LOOPS in str(op.attributes)].append(text)
        else:
            others.append(text)
    return ["\n".join(["module {", *others, *texts, "}\n"]) for texts in functions if texts]
