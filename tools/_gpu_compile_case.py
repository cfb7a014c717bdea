"""One compilation for a GPU in a process of its own, with nothing known before: what it took, and
what the machine code is like.

    python -m rcompiler.tools._gpu_compile_case '{"model": "resnet50", "target": "cuda:h200", ...}'

prints the figure as JSON; see `_gpu_compile_bench`.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections import Counter
from typing import Any

from rcompiler.errors import CompilerError, ToolError
from rcompiler.tools._gpu_compile_bench import CONTRACTIONS, OPCODES, Case, Figure


def measure(case: Case) -> Figure:
    """Compile a case; errors end up in the figure."""
    found = Figure(case.model, case.target, case.precision)
    try:
        _measure(case, found)
    except CompilerError as error:
        found.error = str(error)
    return found


def _measure(case: Case, found: Figure) -> None:
    import rcompiler
    from rcompiler.codegen.sass import opcodes
    from rcompiler.runtime.gpu.image import GpuImage
    from rcompiler.tools._sources import resolve

    proto = resolve(case.path or case.model).proto
    begun: list[tuple[str, float]] = []
    start = time.perf_counter()
    model: Any = rcompiler.compile_onnx(
        proto,
        target=case.target,
        precision=case.precision,
        cache=False,
        progress=lambda step, seconds: begun.append((step, seconds)),
    )
    found.seconds = time.perf_counter() - start
    found.load = os.getloadavg()[0]
    ends = [seconds for _, seconds in begun[1:]] + [found.seconds]
    for (step, at), end in zip(begun, ends, strict=True):
        found.steps[step] = found.steps.get(step, 0.0) + end - at
    image = model.artifact.image
    assert isinstance(image, GpuImage)
    if not image.cubin:
        raise ToolError("ptxas is not found, and it says what is spilled")
    report = model.report()
    found.registers = report.registers
    kernels = {op.kernel: op for op in report.operators}
    found.kernels = len(kernels)
    found.contractions = sum(op.kind in CONTRACTIONS for op in kernels.values())
    for name, op in kernels.items():
        if op.spilled_bytes:
            where = found.spilled if op.kind in CONTRACTIONS else found.spilled_elsewhere
            where[name] = op.spilled_bytes
    counts: Counter[str] = Counter()
    for function in opcodes(image.cubin).values():
        for opcode, number in function.items():
            counts[opcode.partition(".")[0]] += number
    found.instructions = counts.total()
    found.sass = {opcode: counts[opcode] for opcode in OPCODES}


if __name__ == "__main__":
    print(json.dumps(vars(measure(Case(**json.loads(sys.argv[1]))))))
