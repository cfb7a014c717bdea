"""GPU kernels of test/Inputs/gpu, lowered."""

from __future__ import annotations

from pathlib import Path

from torch_mlir import ir

from rcompiler import dialects
from rcompiler.passes._pipeline_text import runner

KERNELS = Path(__file__).parents[1] / "Inputs" / "gpu"


def lowered(text: str, pipeline: str) -> str:
    """The module after a pipeline, as text."""
    context = dialects.load(ir.Context())
    with context, ir.Location.unknown():
        module = ir.Module.parse(text)
        runner(pipeline, context)(module)
        return str(module)


def kernel(name: str, pipeline: str) -> str:
    """The kernel `name` after a pipeline."""
    return lowered((KERNELS / f"{name}.mlir").read_text(), pipeline)


def one_thread(body: str, arguments: str = "%p: memref<64xf32>") -> str:
    """A module with one kernel @k; %t is the thread."""
    return f"""module {{ gpu.module @kernels {{
      gpu.func @k({arguments}) kernel {{
        %t = gpu.thread_id x
        {body}
        gpu.return }} }} }}"""
