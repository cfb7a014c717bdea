"""What code generation for GPUs shares: a gpu.module of the llvm dialect -> code of its target."""

from __future__ import annotations

import re
from collections.abc import Callable

from torch_mlir import ir

from rcompiler.codegen.emit import Emission
from rcompiler.codegen.llvm_ir import llvm_ir, parsed
from rcompiler.codegen.llvm_job import Job
from rcompiler.errors import PipelineError

_CHIP = re.compile(r'#(\w+)\.target<.*chip = "(\w+)"')
# Those of MLIR; the target machine says what is true.
_TARGET_LINES = re.compile(r"^target (?:triple|datalayout) = .*\n", re.MULTILINE)


def gpu_code(
    module: str | ir.Module | ir.Operation,
    dialect: str,
    triple: str,
    features: Callable[[str], str],
    *,
    assembly: bool,
) -> tuple[str, bytes]:
    """The chip and the code of a gpu.module, the only one of the builtin.module if that is given.

    dialect: whose target it must have ("nvvm"); features: LLVM's feature string by chip.
    Raises PipelineError for a module that is not lowered, CompilerError when LLVM rejects it, also
    when LLVM ends the process that runs it.
    """
    if isinstance(module, str):
        module = parsed(module)
    operation = _gpu_module(module.operation)
    chip = _chip(operation, dialect)
    text = without_target(llvm_ir(operation))
    job = Job(text, chip, features(chip), optimize=True, assembly=assembly, triple=triple)
    with Emission(1) as emission:
        emission.submit(0, job)
        return chip, emission.results()[0]


def without_target(text: str) -> str:
    """LLVM IR that says nothing of the target: whoever compiles it does."""
    return _TARGET_LINES.sub("", text)


def _gpu_module(operation: ir.Operation) -> ir.Operation:
    if operation.name == "gpu.module":
        return operation
    found = [view.operation for view in operation.regions[0].blocks[0].operations]
    found = [op for op in found if op.name == "gpu.module"]
    if len(found) != 1:
        raise PipelineError(f"code generation: one gpu.module is needed, here are {len(found)}")
    return found[0]


def _chip(operation: ir.Operation, dialect: str) -> str:
    targets = str(operation.attributes["targets"]) if "targets" in operation.attributes else ""
    match = _CHIP.search(targets)
    if match is None or match[1] != dialect:
        raise PipelineError(
            f"code generation: the gpu.module has no {dialect} target; lower it with "
            f"gpu-to-{dialect}"
        )
    return match[2]
