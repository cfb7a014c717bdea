"""What gpu_bench measures of a group, and which goals the figures of all of them meet."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from measurements._shared import Goal

CUBLAS = "torch_graph"  # of a single product: nothing but cuBLAS's kernel


@dataclass
class GroupFigure:
    """Of one group.

    ms: per engine what `_measure.percentiles` gives of an inference as the host sees it, from the
    call until it is done. device_ms: per engine the median by the device's clock, of inferences
    one after another that nobody waits for. expected_ms: per policy by the device record. fastest:
    the policy of the smallest median on the host. ratio, device_ratio: per baseline how many times
    as fast as it the fastest policy is. difference: per engine, the largest from the reference, as
    a share of its root mean square. unmeasured: why there are no figures of an engine. load:
    processes that wanted a CPU. error: why there are no figures at all.
    """

    model: str
    kind: str
    precision: str
    target: str
    flops: int = 0
    ms: dict[str, dict[str, float]] = field(default_factory=dict)
    device_ms: dict[str, float] = field(default_factory=dict)
    expected_ms: dict[str, float] = field(default_factory=dict)
    fastest: str = ""
    ratio: dict[str, float] = field(default_factory=dict)
    device_ratio: dict[str, float] = field(default_factory=dict)
    difference: dict[str, float] = field(default_factory=dict)
    unmeasured: dict[str, str] = field(default_factory=dict)
    load: float | None = None
    error: str = ""

    def __str__(self) -> str:
        return f"{self.model}, {self.precision}"

    @property
    def median(self) -> float | None:
        """ms of the fastest policy as the host sees it."""
        return self.ms[self.fastest]["p50"] if self.fastest else None

    @property
    def tflops(self) -> float | None:
        """Of the policy that is fastest by the device's clock; None where nobody counts them."""
        own = [ms for name, ms in self.device_ms.items() if name in self.expected_ms and ms > 0]
        return self.flops / min(own) / 1e9 if own and self.flops else None


@dataclass(frozen=True)
class AtMost:
    """The fastest policy needs at most so many ms for a model at one of these precisions."""

    model: str
    ms: float
    precisions: tuple[str, ...]
    least: float = 1.0

    def value(self, figures: Sequence[GroupFigure]) -> float | None:
        """How many times as fast as asked; None where it was not measured."""
        found = [
            f.median for f in figures if f.model == self.model and f.precision in self.precisions
        ]
        medians = [median for median in found if median]
        return self.ms / min(medians) if medians else None

    def __str__(self) -> str:
        return f"{self.model}, {' or '.join(self.precisions)}: times as fast as {self.ms:.2f} ms"


@dataclass(frozen=True)
class OverCublas:
    """Products take at most so much longer than cuBLAS's."""

    least: float = 0.8

    def value(self, figures: Sequence[GroupFigure]) -> float | None:
        """The least ratio by the device's clock; None where none was measured."""
        found = [f.device_ratio.get(CUBLAS) for f in figures if f.kind == "gemm"]
        return min((ratio for ratio in found if ratio is not None), default=None)

    def __str__(self) -> str:
        return f"gemm: least ratio over cuBLAS >= {self.least:.0%}"


_EXACT, _HALF = ("f32", "tf32"), ("f16",)
GOALS: tuple[Goal[GroupFigure], ...] = (
    AtMost("lstm_tc", 0.30, _EXACT),
    AtMost("seq2seq", 0.5, _EXACT),
    AtMost("deepspeech2", 0.5, _EXACT),
    AtMost("nasnet_a", 0.6, _EXACT),
    AtMost("resnext29_16x64d", 0.5, _EXACT),
    AtMost("alexnet", 0.12, _EXACT),
    AtMost("resnet50", 0.35, _HALF),
    AtMost("bert_base", 0.35, _HALF),
    OverCublas(),
)
