"""The code of the micro-benchmarks of GPUs, for machines that have no compiler."""

from __future__ import annotations

from torch_mlir import ir

from rcompiler.codegen.ptx import ptx
from rcompiler.passes._pipeline_text import runner
from rcompiler.passes.gpu_to_nvvm import GpuToNvvm
from rcompiler.profiler.gpu_bench_text import module_text


def bench_code(chip: str) -> bytes:
    """PTX of all kernels for "sm_90a" and the like."""
    with ir.Context() as context, ir.Location.unknown():
        context.enable_multithreading(False)  # passes in Python wait for one another
        module = ir.Module.parse(module_text())
        runner(str(GpuToNvvm(chip)), context)(module)
        return ptx(module).text
