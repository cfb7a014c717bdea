"""The work of operator_bench: one operator compiled, checked and timed beside onnxruntime."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from onnx import ModelProto

import rcompiler
from measurements._bench_operators import Operator
from measurements._operator_figures import COPY, OURS, PEAK, THEIRS, OperatorFigure, figure
from rcompiler.codegen.microbench import Kernels
from rcompiler.driver.host import target_device
from rcompiler.errors import CompilerError
from rcompiler.support.random_inputs import Range, random_inputs
from rcompiler.tools import _measure
from rcompiler.tools._baselines import BASELINES
from rcompiler.tools._reference import compare

_PEAK_FLOPS = 1 << 27  # of one call: half a millisecond, beside which the call is nothing


@dataclass(frozen=True)
class _Pair:
    """One model in both engines."""

    ours: _measure.Engine
    theirs: _measure.Engine


class Bench:
    """Measures operators for one target; a context manager, which holds the kernel of the peak.

    device: of the target. peak_gflops: the highest multiply-add peak of a round so far.
    """

    def __init__(self, target: str, clock: str, rounds: int, seconds: float) -> None:
        """seconds: of each model in each engine. Raises CompilerError for an unknown target."""
        self.device = target_device(target)
        self.peak_gflops = 0.0
        self._target, self._clock = target, clock
        self._rounds, self._block_s = rounds, seconds / rounds
        self._stack = ExitStack()

    def __enter__(self) -> Bench:
        bench = self._stack.enter_context(Kernels(self.device)).peak("f32")
        count = -(-_PEAK_FLOPS // bench.work)
        self._peak, self._peak_flops = partial(bench.run, count), bench.work * count
        return self

    def __exit__(self, *exception: Any) -> None:
        self._stack.close()

    def measure(self, operator: Operator) -> OperatorFigure:
        """Compile, compare with onnxruntime, time by turns. Errors end up in the figure."""
        try:
            found = self._measure(operator)
        except CompilerError as error:
            return OperatorFigure(operator.kind, operator.name, error=str(error))
        found.resident = operator.nbytes <= max(
            (level.capacity for level in self.device.caches), default=0
        )
        return found

    def _measure(self, operator: Operator) -> OperatorFigure:
        pairs = {name: self._pair(m, operator.ranges) for name, m in operator.models().items()}
        half = np.ones((2, operator.nbytes // 8), np.float32)
        engines: dict[str, _measure.Engine] = {
            PEAK: self._peak,
            COPY: partial(np.copyto, half[0], half[1]),
        }
        for name, pair in pairs.items():
            engines |= {f"{OURS} {name}": pair.ours, f"{THEIRS} {name}": pair.theirs}
        times = _measure.interleaved(engines, self._rounds, self._block_s, self._clock)
        peak = times[PEAK]
        fastest = self._peak_flops / _measure.medians(peak).min()
        self.peak_gflops = max(self.peak_gflops, float(fastest))
        by_engine = {e: {m: times[f"{e} {m}"] for m in pairs} for e in (OURS, THEIRS)}
        return figure(operator, by_engine, peak, self._peak_flops, times[COPY])

    def _pair(self, model: ModelProto, ranges: Mapping[str, Range]) -> _Pair:
        """Raises CompilerError where an engine cannot run a model, or results differ."""
        compiled: Any = rcompiler.compile_onnx(model, target=self._target, eus=1)
        feeds = random_inputs(compiled.inputs, ranges=ranges)
        binding = compiled.bind(feeds)
        binding()
        bound = BASELINES["onnxruntime"].bind(model, 1, feeds)
        for actual, expected in zip(binding.outputs, bound.outputs, strict=True):
            found = compare(np.asarray(actual), expected)
            if not found.right:
                raise CompilerError(
                    f"the result differs from onnxruntime's by {found.absolute:.3g} at "
                    f"{list(found.where)}"
                )
        return _Pair(binding, bound.run)
