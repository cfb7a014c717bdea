"""The work of schedule_bench: one model scheduled in several ways, checked and timed; and what the
figures of all models have to reach.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rcompiler.compile import compile_policies
from rcompiler.errors import CompilerError, InvalidModel
from rcompiler.options import Scheduler
from rcompiler.support.random_inputs import random_inputs
from rcompiler.tools import _measure
from rcompiler.tools._reference import check_equal
from rcompiler.tools._sources import resolve

NOISE = 0.03  # what two equal schedules may differ by


@dataclass
class ModelFigure:
    """Of one model.

    operators: how many. launches: per scheduler, by its text. ms: per scheduler the median of a
    run. gain: how many times as fast as base, the median over rounds. load: processes that wanted a
    CPU in the minute that ends with the measurement. error: why there are no figures.
    """

    model: str
    eus: int
    compile_s: float | None = None
    operators: int = 0
    launches: dict[str, int] = field(default_factory=dict)
    ms: dict[str, float] = field(default_factory=dict)
    gain: dict[str, float] = field(default_factory=dict)
    load: float | None = None
    error: str = ""


def measure(
    text: str,
    schedulers: Sequence[Scheduler],
    eus: int,
    rounds: int,
    seconds: float,
    seed: int = 0,
    *,
    as_written: bool = False,
) -> ModelFigure:
    """Schedule a model in each way, compare the results, time by turns. Errors end up in the
    figure.

    seconds: timed, of each schedule. seed: of the input data. as_written: see `compile_policies`.
    """
    found = ModelFigure(text, eus)
    try:
        source = resolve(text)
        found.model = source.name
        if source.proto is None:
            raise InvalidModel(f"{source.path}: is compiled already; give an ONNX model")
        start = time.perf_counter()
        models = compile_policies(source.proto, schedulers, eus=eus, as_written=as_written)
        found.compile_s = time.perf_counter() - start
        _measure_models(found, models, rounds, seconds / rounds, seed)
    except CompilerError as error:
        found.error = str(error)
    return found


def base_of(schedulers: Iterable[Scheduler]) -> Scheduler | None:
    """What the others are held against: base at its best, each operator as fast as it can be."""
    best = (Scheduler("base"), Scheduler("base", "fast"))
    return next((by for by in best if by in schedulers), None)


def _measure_models(
    found: ModelFigure, models: Mapping[Scheduler, Any], rounds: int, block_s: float, seed: int
) -> None:
    bindings: dict[str, Any] = {}
    for by, model in models.items():
        report = model.report()
        found.operators = len(report.operators)
        found.launches[str(by)] = report.launches
        bindings[str(by)] = model.bind(random_inputs(model.inputs, seed))
        bindings[str(by)]()
    check_equal({name: binding.outputs for name, binding in bindings.items()})
    times = _measure.interleaved(bindings, rounds, block_s)
    found.load = os.getloadavg()[0]
    base = base_of(models)
    for name, timing in times.items():
        found.ms[name] = _measure.percentiles(timing)["p50"]
        if base:
            found.gain[name] = _measure.ratio(timing, times[str(base)])


@dataclass(frozen=True)
class Gain:
    """A policy is never less than `least` times as fast as base, on these models (all if none)."""

    policy: str
    least: float
    models: tuple[str, ...] = ()

    def value(self, figures: Sequence[ModelFigure]) -> float | None:
        """The least gain; None where one of the models was not measured."""
        mine = {f.model: f.gain.get(self.policy) for f in figures}
        found = [mine.get(model) for model in self.models or mine]
        gains = [gain for gain in found if gain is not None]
        return min(gains) if gains and (len(gains) == len(found) or not self.models) else None

    def __str__(self) -> str:
        where = " and ".join(self.models) or f"all models, {NOISE:.0%} being noise"
        return f"{self.policy}: least gain over base >= {self.least:.2f} ({where})"


_STATIC = ("rammer", "list")
_RECURRENT = ("lstm_tc", "seq2seq")
GOALS: tuple[Gain, ...] = (
    *(Gain(policy, 1 - NOISE) for policy in _STATIC),
    *(Gain(policy, 1.3, _RECURRENT) for policy in _STATIC),
)
