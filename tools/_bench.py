"""The work of rc-bench: one case is a model at a number of threads, measured beside baselines."""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
from onnx import ModelProto

from rcompiler.bucketed import BucketedModel
from rcompiler.errors import CompilerError
from rcompiler.model import GpuModel
from rcompiler.support.random_inputs import random_inputs
from rcompiler.tools import _measure
from rcompiler.tools._baselines import BASELINES, Bound, Feeds
from rcompiler.tools._data import need_unpacked
from rcompiler.tools._judge import Judge
from rcompiler.tools._sources import Source, resolve

FASTEST = "fastest"  # in place of the name of a baseline: the fastest of those measured


@dataclass
class Case:
    """Result of one measurement.

    latency_ms: per engine what `_measure.percentiles` gives. ratios: per baseline how many times
    faster than it we are, from paired rounds. fastest: the baseline with the smallest median.
    unmeasured: why there are no figures of a baseline. difference: largest error of our result, as
    a share of the root mean square of the first baseline's. load: processes that wanted a CPU in
    the minute that ends with the measurement, this one included. error: why there are no figures,
    or what is wrong.
    """

    model: str
    threads: int
    compile_s: float | None = None
    latency_ms: dict[str, dict[str, float]] = field(default_factory=dict)
    ratios: dict[str, float] = field(default_factory=dict)
    fastest: str | None = None
    unmeasured: dict[str, str] = field(default_factory=dict)
    difference: float | None = None
    load: float | None = None
    error: str = ""

    def ratio(self, baseline: str) -> float | None:
        """Over a baseline or `FASTEST`; None where it was not measured."""
        return self.ratios.get((self.fastest or "") if baseline == FASTEST else baseline)

    def record(self) -> dict[str, Any]:
        """The fields; ratio: over onnxruntime, ratio_fastest: over the fastest baseline."""
        short = {"ratio": self.ratio("onnxruntime"), "ratio_fastest": self.ratio(FASTEST)}
        return asdict(self) | short


@dataclass(frozen=True)
class Mean:
    """Geometric mean of the ratios over a baseline (or `FASTEST`) of all models measured at a
    number of threads.
    """

    threads: int
    baseline: str
    models: int
    ratio: float


def means(cases: Iterable[Case]) -> list[Mean]:
    """Over each baseline and over the fastest, per number of threads."""
    found: dict[tuple[int, str], list[float]] = {}
    for case in cases:
        for baseline in (*BASELINES, FASTEST):
            ratio = case.ratio(baseline)
            if ratio is not None:
                found.setdefault((case.threads, baseline), []).append(ratio)
    return [
        Mean(threads, baseline, len(ratios), float(np.exp(np.mean(np.log(ratios)))))
        for (threads, baseline), ratios in found.items()
    ]


def run_case(text: str, threads: int, options: argparse.Namespace) -> Case:
    """Compile, check the result against the baselines, measure. Errors end up in the case.

    options.baseline: names of `BASELINES`.
    """
    case = Case(text, threads)
    try:
        source = resolve(text)
        case.model = source.name
        _measure_case(case, source, options)
    except CompilerError as error:
        case.error = str(error)
    return case


def _measure_case(case: Case, source: Source, options: argparse.Namespace) -> None:
    if source.is_model:
        source.proto  # noqa: B018  # read before the clock starts
    start = time.perf_counter()
    options = argparse.Namespace(**{**vars(options), "eus": case.threads})
    model = source.executable(options)
    need_unpacked(model, "rc-bench")
    model = model.largest if isinstance(model, BucketedModel) else model
    case.compile_s = time.perf_counter() - start
    if isinstance(model, GpuModel):
        raise CompilerError(
            f"{source.name} is compiled for {model.artifact.target}; rc-bench compares engines of "
            "CPUs: compile it for one, or run it with rc-run"
        )
    feeds = random_inputs(model.inputs, options.seed)
    binding = model.bind(feeds)
    binding()
    engines: dict[str, _measure.Engine] = {"rcompiler": binding}
    if source.proto is not None:
        names = [tensor.name for tensor in model.outputs]
        beside = _baselines(case, source.proto, feeds, options.baseline)
        judge = Judge(source.proto, feeds, options.tolerance)
        engines |= _agreeing(case, judge, binding.outputs, names, beside)
    block_s = options.seconds / options.rounds
    times = _measure.interleaved(engines, options.rounds, block_s, options.clock)
    case.load = os.getloadavg()[0]
    case.latency_ms = {name: _measure.percentiles(timing) for name, timing in times.items()}
    ours = times.pop("rcompiler")
    case.ratios = {name: _measure.ratio(ours, timing) for name, timing in times.items()}
    case.fastest = min(times, key=lambda name: case.latency_ms[name]["p50"], default=None)


def _baselines(
    case: Case, model: ModelProto, feeds: Feeds, names: Sequence[str]
) -> dict[str, Bound]:
    """The model in each engine that can run it; the others end up in `case.unmeasured`."""
    found = {}
    for name in names:
        try:
            found[name] = BASELINES[name].bind(model, case.threads, feeds)
        except CompilerError as error:
            case.unmeasured[name] = str(error)
    return found


def _agreeing(
    case: Case,
    judge: Judge,
    ours: Sequence[np.ndarray],
    names: Sequence[str],
    beside: dict[str, Bound],
) -> dict[str, _measure.Engine]:
    """The engines whose results are ours. A fast wrong answer is not measured.

    Raises CompilerError when the first engine, the reference, gives another result than we do; an
    engine that differs from both is left out.
    """
    engines: dict[str, _measure.Engine] = {}
    for name, bound in beside.items():
        try:
            difference = _difference(judge, ours, bound.outputs, names, name)
        except CompilerError as error:
            if not engines:
                raise
            case.unmeasured[name] = str(error)
            continue
        if case.difference is None:
            case.difference = difference
        engines[name] = bound.run
    return engines


def _difference(
    judge: Judge,
    ours: Sequence[np.ndarray],
    theirs: list[np.ndarray],
    names: Sequence[str],
    engine: str,
) -> float:
    """The largest difference of all outputs. Raises CompilerError when it is not allowed."""
    largest = 0.0
    for name, actual, expected in zip(names, ours, theirs, strict=True):
        found = judge(name, actual, expected)
        if not found.right:
            raise CompilerError(
                f"output '{name}' differs from {engine} by {found.absolute:.3g} at "
                f"{list(found.where)}"
            )
        finite = expected.astype(np.float64)[np.isfinite(expected.astype(np.float64))]
        scale = np.sqrt(np.mean(finite * finite)) if finite.any() else 1.0
        largest = max(largest, float(found.absolute / scale))
    return largest
