"""What the times of one operator say, and which goals the figures of all of them meet."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from measurements._bench_operators import ALONE, AROUND, WITHIN, Operator
from rcompiler.tools._measure import Timing, medians

OURS, THEIRS, PEAK, COPY = "rcompiler", "onnxruntime", "peak", "copy"


@dataclass
class OperatorFigure:
    """Of one operator.

    us: per engine the figure, see `cost`. parts: per engine and model the us of a run. ratio: how
    many times faster than onnxruntime we are. gflops: ours; peak_share: of the multiply-add peak
    measured in the same rounds; None where arithmetic is not counted. copy_us: what copying takes
    that reads and writes as many bytes in all as the operator has to: a floor where data moves
    between caches. resident: the last cache holds all operands. error: why there are no figures.
    """

    kind: str
    name: str
    us: dict[str, float] = field(default_factory=dict)
    parts: dict[str, dict[str, float]] = field(default_factory=dict)
    ratio: float | None = None
    gflops: float | None = None
    peak_share: float | None = None
    copy_us: float | None = None
    resident: bool = True
    error: str = ""


def cost(parts: Mapping[str, np.ndarray]) -> np.ndarray:
    """ns per round from those of the models that are there: what an operator adds to a network, or
    what it takes alone, whichever is less.

    The second is rarely less, and would be the choice of an engine that works on NCHW anyway.
    """
    alone = parts[ALONE]
    if WITHIN not in parts:
        return alone
    added = parts[WITHIN] - parts.get(AROUND, np.zeros_like(alone))
    return added if np.median(added) < np.median(alone) else alone


def figure(
    operator: Operator,
    times: Mapping[str, Mapping[str, Timing]],
    peak: Timing,
    peak_flops: int,
    copy: Timing,
) -> OperatorFigure:
    """times: per engine and model. peak_flops: of one call of the engine behind ``peak``. copy: of
    half of the operator's bytes over the other half.

    Ratios are of one round each, in which all engines met the same frequency and neighbours.
    """
    rounds = {
        engine: {model: medians(timing) for model, timing in of_models.items()}
        for engine, of_models in times.items()
    }
    ns = {engine: cost(parts) for engine, parts in rounds.items()}
    found = OperatorFigure(
        operator.kind,
        operator.name,
        us={engine: _us(values) for engine, values in ns.items()},
        parts={e: {m: _us(v) for m, v in parts.items()} for e, parts in rounds.items()},
        copy_us=_us(medians(copy)),
    )
    ratio = float(np.median(ns[THEIRS] / ns[OURS]))
    if min(*found.us.values(), ratio) <= 0:
        found.error = "it adds less to a network than can be measured; give it more --seconds"
        return found
    found.ratio = ratio
    if operator.flops:
        rate = operator.flops / ns[OURS]
        found.gflops = float(np.median(rate))
        found.peak_share = float(np.median(rate * medians(peak) / peak_flops))
    return found


def _us(ns: np.ndarray) -> float:
    return float(np.median(ns)) / 1e3


def geomean(ratios: Sequence[float]) -> float:
    """Geometric mean of numbers above 0; at least one."""
    return math.exp(math.fsum(map(math.log, ratios)) / len(ratios))


@dataclass(frozen=True)
class Goal:
    """kinds: a regular expression. measure: "geomean" or "least" of the ratios, or "peak", the
    least share of the peak where the last cache holds the operands. least: what it has to reach.
    """

    kinds: str
    measure: str
    least: float

    def value(self, figures: Sequence[OperatorFigure]) -> float | None:
        """What was reached; None where nothing of these kinds was measured."""
        mine = [f for f in figures if re.fullmatch(self.kinds, f.kind)]
        if self.measure == "peak":
            return min((f.peak_share for f in mine if f.resident and f.peak_share), default=None)
        ratios = [f.ratio for f in mine if f.ratio]
        if not ratios:
            return None
        return geomean(ratios) if self.measure == "geomean" else min(ratios)

    def __str__(self) -> str:
        kinds = self.kinds.replace("|", " and ")
        if self.measure == "peak":
            return f"{kinds}: least share of the peak >= {self.least:.0%}"
        what = {"geomean": "geometric mean", "least": "least ratio"}[self.measure]
        return f"{kinds}: {what} >= {self.least:.2f}"


# By feature level: onnxruntime always uses all of the machine, so below it only peaks compare.
GOALS: Mapping[str, Sequence[Goal]] = {
    "v4": (
        Goal("gemm|convolution", "geomean", 1.03),
        Goal("gemm|convolution", "least", 0.97),
        Goal("gemm|convolution", "peak", 0.9),
        Goal("depthwise", "least", 1.5),
        Goal("layer norm", "least", 3.0),
        Goal("softmax", "least", 1.0),
        Goal("gelu", "least", 1.0),
        Goal("attention", "least", 1.3),
        Goal("attention block", "least", 1.3),
        Goal("gemv", "least", 1.0),
        Goal("reduction|argmax|top k|sort|cumsum|scatter|determinant|remainder", "least", 0.5),
    ),
    "v3": (Goal("gemm", "peak", 0.85),),
    "x86-64": (),
}
