"""Timing of several engines side by side, in interleaved rounds of one process.

Engines that take turns every few milliseconds see the same clock speed, the same neighbours on the
machine and the same cache pollution; separate runs do not, and differ by more than the engines do.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import repeat

import numpy as np

from rcompiler.errors import CompilerError

Engine = Callable[[], object]
# Worker threads of the engine that ran before spin for a while after its last call.
_SETTLE_S = 0.02
_CALIBRATION_CALLS = 5
_OWN = 0.9  # share of the work that a thread has to do for its clock to count
_LOOKS = 3  # for threads that work beside it
# Two readings of the clock cost a tenth of a microsecond: shorter calls are timed several at once.
_SHORTEST_NS = 100_000


@dataclass
class Timing:
    """Of one engine: per round an array of ns per call, each the mean of ``batch`` calls."""

    batch: int
    blocks: list[np.ndarray] = field(default_factory=list)


def interleaved(
    engines: Mapping[str, Engine], rounds: int, block_s: float, clock: str = "wall"
) -> dict[str, Timing]:
    """Time the engines by turns.

    Every round runs each engine once, in an order that alternates, as often as fills ``block_s``
    seconds (at least once), after one call that does not count. Calls of less than 100 us are
    timed in batches. clock: "wall", or "cpu" for the time that the calling thread has a processor:
    what other programs take away does not count then, nor would the work of other threads.

    Raises CompilerError for an engine that works in other threads than the calling one, if the
    clock is "cpu".
    """
    if clock == "cpu":
        for name, engine in engines.items():
            _alone(name, engine)
    counts = {name: _counts(engine, block_s, clock) for name, engine in engines.items()}
    times = {name: Timing(batch) for name, (_, batch) in counts.items()}
    order = list(engines)
    collecting = gc.isenabled()
    gc.disable()
    try:
        for _ in range(rounds):
            for name in order:
                if clock == "wall":
                    time.sleep(_SETTLE_S)
                engines[name]()
                times[name].blocks.append(_block(engines[name], *counts[name], clock))
            order.reverse()
    finally:
        if collecting:
            gc.enable()
    return times


def _alone(name: str, engine: Engine) -> None:
    """Raises CompilerError when an engine does a part of its work in other threads.

    It is so every time; what ran before, like numpy's product of matrices, may have left threads
    that spin for a while.
    """
    for _ in range(_LOOKS):
        time.sleep(_SETTLE_S)
        engine()
        thread, process = time.thread_time_ns(), time.process_time_ns()
        for _ in range(_CALIBRATION_CALLS):
            engine()
        thread, process = time.thread_time_ns() - thread, time.process_time_ns() - process
        if thread >= _OWN * process:
            return
    raise CompilerError(f"{name} works in threads of its own; measure with --clock=wall")


def _counts(engine: Engine, block_s: float, clock: str) -> tuple[int, int]:
    """How many batches of how many calls fill ``block_s`` seconds."""
    engine()
    each = max(1, _block(engine, _CALIBRATION_CALLS, 1, clock).min())
    calls = max(1, int(block_s * 1e9 / each))
    batch = min(calls, int(-(-_SHORTEST_NS // each)))
    return calls // batch, batch


def _block(engine: Engine, batches: int, batch: int, clock: str) -> np.ndarray:
    now = time.thread_time_ns if clock == "cpu" else time.perf_counter_ns
    marks = np.empty(batches, np.float64)
    for index in range(batches):
        start = now()
        for _ in repeat(None, batch):
            engine()
        marks[index] = (now() - start) / batch
    return marks


def percentiles(timing: Timing) -> dict[str, float]:
    """p5, p50, p90, p99 and the smallest time in ms over all rounds; the number of calls, and how
    many of them each time is the mean of. p5 is that of a call that nothing else on the machine was
    in the way of.
    """
    times = np.concatenate(timing.blocks) / 1e6
    p5, p50, p90, p99 = np.percentile(times, (5, 50, 90, 99))
    figures = {"p5": p5, "p50": p50, "p90": p90, "p99": p99, "min": times.min()}
    counts = {"calls": times.size * timing.batch, "batch": timing.batch}
    return {k: float(v) for k, v in (figures | counts).items()}


def medians(timing: Timing) -> np.ndarray:
    """Of each round the median, ns per call."""
    return np.array([np.median(block) for block in timing.blocks])


def ratio(ours: Timing, other: Timing) -> float:
    """How many times faster we are: median over rounds of (other's median / our median)."""
    return float(np.median(medians(other) / medians(ours)))
