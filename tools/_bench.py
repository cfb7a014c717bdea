"""The work of rc-bench: one case is a model at a number of threads, measured beside onnxruntime."""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import Any

import numpy as np

from rcompiler.errors import CompilerError
from rcompiler.tools import _measure
from rcompiler.tools._data import random_inputs
from rcompiler.tools._reference import compare, has_onnxruntime, session
from rcompiler.tools._sources import Source, resolve


@dataclass
class Case:
    """Result of one measurement.

    latency_ms: per engine what `_measure.percentiles` gives. ratio: how many times faster than
    onnxruntime, from paired rounds. difference: largest error of our result, as a share of the
    root mean square of onnxruntime's. load: processes that wanted a CPU in the minute that ends
    with the measurement, this one included. error: why there are no figures, or what is wrong.
    """

    model: str
    threads: int
    compile_s: float | None = None
    latency_ms: dict[str, dict[str, float]] = field(default_factory=dict)
    ratio: float | None = None
    difference: float | None = None
    load: float | None = None
    error: str = ""

    def record(self) -> dict[str, Any]:
        return asdict(self)


def run_case(text: str, threads: int, options: argparse.Namespace) -> Case:
    """Compile, check the result against onnxruntime, measure. Errors end up in the case."""
    case = Case(text, threads)
    try:
        source = resolve(text)
        case.model = source.name
        _measure_case(case, source, options)
    except CompilerError as error:
        case.error = str(error)
    return case


def _measure_case(case: Case, source: Source, options: argparse.Namespace) -> None:
    start = time.perf_counter()
    options = argparse.Namespace(**{**vars(options), "eus": case.threads})
    model = source.executable(options)
    case.compile_s = time.perf_counter() - start
    feeds = random_inputs(model.inputs, options.seed)
    binding = model.bind(feeds)
    binding()
    engines: dict[str, _measure.Engine] = {"rcompiler": binding}
    if source.proto is not None and options.baseline == "onnxruntime" and has_onnxruntime():
        engine, outputs = bound(session(source.proto, case.threads), feeds)
        names = [tensor.name for tensor in model.outputs]
        case.difference = _same(binding.outputs, outputs, names)
        engines["onnxruntime"] = engine
    block_s = options.seconds / options.rounds
    times = _measure.interleaved(engines, options.rounds, block_s)
    case.load = os.getloadavg()[0]
    case.latency_ms = {name: _measure.percentiles(timing) for name, timing in times.items()}
    if "onnxruntime" in times:
        case.ratio = _measure.ratio(times["rcompiler"], times["onnxruntime"])


def _same(ours: Sequence[np.ndarray], theirs: list[np.ndarray], names: list[str]) -> float:
    """The largest difference. A fast wrong answer is not measured: CompilerError."""
    largest = 0.0
    for name, actual, expected in zip(names, ours, theirs, strict=True):
        found = compare(actual, expected)
        if not found.right:
            raise CompilerError(
                f"output '{name}' differs from onnxruntime by {found.absolute:.3g} at "
                f"{list(found.where)}"
            )
        finite = expected.astype(np.float64)[np.isfinite(expected.astype(np.float64))]
        scale = np.sqrt(np.mean(finite * finite)) if finite.any() else 1.0
        largest = max(largest, float(found.absolute / scale))
    return largest


def bound(
    session: Any, feeds: Mapping[str, np.ndarray]
) -> tuple[_measure.Engine, list[np.ndarray]]:
    """An onnxruntime session as one call that allocates nothing (I/O binding), and its outputs."""
    binding = session.io_binding()
    for value in session.get_inputs():
        binding.bind_cpu_input(value.name, np.ascontiguousarray(feeds[value.name]))
    names = [value.name for value in session.get_outputs()]
    for name in names:
        binding.bind_output(name, "cpu")
    session.run_with_iobinding(binding)
    # What the first run has allocated is the memory of all others.
    for name, value in zip(names, binding.get_outputs(), strict=True):
        binding.bind_ortvalue_output(name, value)
    engine = partial(session.run_with_iobinding, binding)
    engine()
    return engine, binding.copy_outputs_to_cpu()
