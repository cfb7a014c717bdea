"""The work of rc-bench: one case is a model at a number of threads, measured beside onnxruntime."""

from __future__ import annotations

import argparse
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
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

    latency_ms: per engine p50, p90, p99, min and the number of calls. ratio: how many times faster
    than onnxruntime, from paired rounds. error: why there are no figures, or what is wrong.
    """

    model: str
    threads: int
    compile_s: float | None = None
    latency_ms: dict[str, dict[str, float]] = field(default_factory=dict)
    ratio: float | None = None
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
    arrays = [feeds[tensor.name] for tensor in model.inputs]
    engines: dict[str, _measure.Engine] = {"rcompiler": lambda: model(*arrays)}
    if source.proto is not None and options.baseline == "onnxruntime" and has_onnxruntime():
        bound = _Bound(session(source.proto, case.threads), feeds)
        _same(model(*arrays), bound.outputs(), [tensor.name for tensor in model.outputs])
        engines["onnxruntime"] = bound
    block_s = options.seconds / options.rounds
    times = _measure.interleaved(engines, options.rounds, block_s)
    case.latency_ms = {name: _measure.percentiles(blocks) for name, blocks in times.items()}
    if "onnxruntime" in times:
        case.ratio = _measure.ratio(times["rcompiler"], times["onnxruntime"])


def _same(ours: list[np.ndarray], theirs: list[np.ndarray], names: list[str]) -> None:
    """A fast wrong answer is not measured."""
    for name, actual, expected in zip(names, ours, theirs, strict=True):
        found = compare(actual, expected)
        if not found.right:
            raise CompilerError(
                f"output '{name}' differs from onnxruntime by {found.absolute:.3g} at "
                f"{list(found.where)}"
            )


class _Bound:
    """An onnxruntime session with inputs and outputs bound to memory once (I/O binding)."""

    def __init__(self, session: Any, feeds: Mapping[str, np.ndarray]) -> None:
        self._session = session
        self._binding = session.io_binding()
        for value in session.get_inputs():
            self._binding.bind_cpu_input(value.name, np.ascontiguousarray(feeds[value.name]))
        for value in session.get_outputs():
            self._binding.bind_output(value.name, "cpu")

    def __call__(self) -> None:
        self._session.run_with_iobinding(self._binding)

    def outputs(self) -> list[np.ndarray]:
        self()
        return self._binding.copy_outputs_to_cpu()
