"""The work of gpu_compile_bench: models compiled for GPUs, each in a process of its own; what the
figures have to reach.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from rcompiler.options import Precision
from rcompiler.tools._goals import Goal

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
class Figure:
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


def measured(case: Case) -> Figure:
    """The figure of a case, compiled in a process that knows nothing of other ones."""
    command = [sys.executable, "-m", "rcompiler.tools._gpu_compile_case", json.dumps(asdict(case))]
    failed = Figure(case.model, case.target, case.precision)
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False
        )
    except subprocess.TimeoutExpired:
        failed.error = f"was not done after {_TIMEOUT_S:.0f} s"
        return failed
    if done.returncode:
        lines = done.stderr.strip().splitlines() or [""]
        failed.error = f"its process ended with status {done.returncode}: {lines[-1]}"
        return failed
    return Figure(**json.loads(done.stdout.splitlines()[-1]))


# -- goals
@dataclass(frozen=True)
class Within:
    """All compilations take at most so many seconds."""

    seconds: float = MOST_SECONDS
    least: float = 1.0

    def value(self, figures: Sequence[Figure]) -> float | None:
        """The share of compilations that do; one that failed does not."""
        return _share([f.seconds is not None and f.seconds <= self.seconds for f in figures])

    def __str__(self) -> str:
        return f"share of compilations in at most {self.seconds:.0f} s"


@dataclass(frozen=True)
class NothingSpilled:
    """ptxas accepts all code, and spills no register in contractions."""

    least: float = 1.0

    def value(self, figures: Sequence[Figure]) -> float | None:
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

    def value(self, figures: Sequence[Figure]) -> float | None:
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
GOALS: tuple[Goal[Figure], ...] = (
    Within(),
    NothingSpilled(),
    *(Shows(opcode, _H200, ("f16",)) for opcode in ("HGMMA", "UTMALDG")),
    *(Shows(opcode, _SM_80, _MATRIX) for opcode in ("HMMA", "LDSM")),
    Shows("LDGSTS", _SM_80, ("f32", *_MATRIX)),
)


def faults(figures: Sequence[Figure]) -> Iterator[str]:
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
