"""The work of gpu_compile_bench: models compiled for GPUs, each in a process of its own; what the
figures have to reach.
"""

from __future__ import annotations

import json
import os
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from measurements._shared import Goal
from rcompiler.errors import CompilerError, ToolError
from rcompiler.options import Precision
from rcompiler.support.workers import Worker, WorkerDied, WorkerLate, serve_answers

MOST_SECONDS = 30.0  # that a compilation may take
CONTRACTIONS = ("contraction", "convolution")  # kinds of operators that multiply and add up
# What the goals ask for: products of warp groups, tiles by the copy engine, products of warps,
# their operands, copies to shared memory that nobody waits for.
OPCODES = ("HGMMA", "UTMALDG", "HMMA", "LDSM", "LDGSTS")
_TIMEOUT_S = 900.0
# Of Rammer's evaluation (OSDI'20, table 2).
PAPER = ("resnext29_16x64d", "nasnet_a", "alexnet", "deepspeech2", "lstm_tc", "seq2seq")
NETWORKS = ("resnet50", "bert_base")


@dataclass(frozen=True)
class Case:
    """path: of the model, where it is none of the built-in ones."""

    model: str
    target: str
    precision: Precision
    path: str = ""


@dataclass
class CompilationFigure:
    """Of one compilation.

    seconds: of it, without the process that it runs in; steps: of it, by name. kernels,
    contractions: how many rKernels there are, and of these contractions. spilled: bytes of a
    thread, by rKernel, of contractions, where there are any; spilled_elsewhere: of others.
    registers: of a thread. instructions: of the machine code; sass: of each opcode of `OPCODES`.
    load: processes that wanted a CPU in the minute that ends with the compilation. error: why
    there are no figures.
    """

    model: str
    target: str
    precision: str
    seconds: float | None = None
    steps: dict[str, float] = field(default_factory=dict)
    kernels: int = 0
    contractions: int = 0
    spilled: dict[str, int] = field(default_factory=dict)
    spilled_elsewhere: dict[str, int] = field(default_factory=dict)
    registers: int | None = None
    instructions: int = 0
    sass: dict[str, int] = field(default_factory=dict)
    load: float | None = None
    error: str = ""

    def __str__(self) -> str:
        return f"{self.model} for {self.target}, {self.precision}"


def light_models() -> dict[str, str]:
    """Paths, by name, of the networks without weights that onnx's own tests have."""
    import onnx

    folder = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"
    return {path.stem: str(path) for path in sorted(folder.glob("*.onnx"))}


def measured(case: Case) -> CompilationFigure:
    """The figure of a case, compiled in a process that knows nothing of other ones."""
    worker = Worker(__name__)
    try:
        _, answer = worker.ask(json.dumps(asdict(case)).encode(), _TIMEOUT_S)
        return CompilationFigure(**json.loads(answer))
    except WorkerLate:
        why = f"was not done after {_TIMEOUT_S:.0f} s"
    except WorkerDied as died:
        why = f"its process ended with {died}"
    finally:
        worker.kill()
        worker.close()
    return CompilationFigure(case.model, case.target, case.precision, error=why)


# -- in the process of its own
def serve() -> None:
    """A case as JSON for each question, and its figure for the answer."""
    serve_answers(_answer)


def _answer(question: bytes) -> tuple[int, bytes]:
    case = Case(**json.loads(question))
    found = CompilationFigure(case.model, case.target, case.precision)
    try:
        _measure(case, found)
    except CompilerError as error:
        found.error = str(error)
    return 0, json.dumps(vars(found)).encode()


def _measure(case: Case, found: CompilationFigure) -> None:
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


# -- goals
@dataclass(frozen=True)
class Within:
    """All compilations take at most so many seconds."""

    seconds: float = MOST_SECONDS
    least: float = 1.0

    def value(self, figures: Sequence[CompilationFigure]) -> float | None:
        """The share of compilations that do; one that failed does not."""
        return _share([f.seconds is not None and f.seconds <= self.seconds for f in figures])

    def __str__(self) -> str:
        return f"share of compilations in at most {self.seconds:.0f} s"


@dataclass(frozen=True)
class NothingSpilled:
    """ptxas accepts all code, and spills no register in contractions."""

    least: float = 1.0

    def value(self, figures: Sequence[CompilationFigure]) -> float | None:
        """The share of models of which that is true."""
        return _share([not f.error and not f.spilled for f in figures])

    def __str__(self) -> str:
        return "share of compilations that ptxas accepts, nothing spilled in contractions"


@dataclass(frozen=True)
class Shows:
    """The machine code of some model for a target at one of these precisions has an opcode."""

    opcode: str
    target: str
    precisions: tuple[str, ...]
    least: float = 1.0

    def value(self, figures: Sequence[CompilationFigure]) -> float | None:
        """How many models show it; None where none was compiled so."""
        mine = [
            f
            for f in figures
            if f.target == self.target and f.precision in self.precisions and not f.error
        ]
        return sum(f.sass.get(self.opcode, 0) > 0 for f in mine) if mine else None

    def __str__(self) -> str:
        return f"models that show {self.opcode} for {self.target}, {' or '.join(self.precisions)}"


def _share(found: Sequence[bool]) -> float | None:
    return sum(found) / len(found) if found else None


_H200, _SM_80 = "cuda:h200", "cuda:sm_80"
_MATRIX = ("tf32", "f16", "bf16")
GOALS: tuple[Goal[CompilationFigure], ...] = (
    Within(),
    NothingSpilled(),
    *(Shows(opcode, _H200, ("f16",)) for opcode in ("HGMMA", "UTMALDG")),
    *(Shows(opcode, _SM_80, _MATRIX) for opcode in ("HMMA", "LDSM")),
    Shows("LDGSTS", _SM_80, ("f32", *_MATRIX)),
)


def faults(figures: Sequence[CompilationFigure]) -> Iterator[str]:
    """What keeps the goals from being met, a line for each model and reason."""
    for f in figures:
        if f.error:
            yield f"{f}: {f.error}"
        elif f.seconds is not None and f.seconds > MOST_SECONDS:
            longest = max(f.steps, key=lambda step: f.steps[step], default="")
            part = f", {f.steps[longest]:.1f} of them in {longest}" if longest else ""
            yield f"{f}: took {f.seconds:.1f} s{part}"
        for name, spilled in f.spilled.items():
            yield f"{f}: rKernel {name} spills {spilled} bytes"
