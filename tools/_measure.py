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

Engine = Callable[[], object]
# Worker threads of the engine that ran before spin for a while after its last call.
_SETTLE_S = 0.02
_CALIBRATION_CALLS = 5
# Two readings of the clock cost a tenth of a microsecond: shorter calls are timed several at once.
_SHORTEST_NS = 100_000


@dataclass
class Timing:
    """Of one engine: per round an array of ns per call, each the mean of ``batch`` calls."""

    batch: int
    blocks: list[np.ndarray] = field(default_factory=list)


def interleaved(engines: Mapping[str, Engine], rounds: int, block_s: float) -> dict[str, Timing]:
    """Time the engines by turns.

    Every round runs each engine once, in an order that alternates, as often as fills ``block_s``
    seconds (at least once), after one call that does not count. Calls of less than 100 us are
    timed in batches.
    """
    counts = {name: _counts(engine, block_s) for name, engine in engines.items()}
    times = {name: Timing(batch) for name, (_, batch) in counts.items()}
    order = list(engines)
    collecting = gc.isenabled()
    gc.disable()
    try:
        for _ in range(rounds):
            for name in order:
                time.sleep(_SETTLE_S)
                engines[name]()
                times[name].blocks.append(_block(engines[name], *counts[name]))
            order.reverse()
    finally:
        if collecting:
            gc.enable()
    return times


def _counts(engine: Engine, block_s: float) -> tuple[int, int]:
    """How many batches of how many calls fill ``block_s`` seconds."""
    engine()
    each = max(1, _block(engine, _CALIBRATION_CALLS, 1).min())
    calls = max(1, int(block_s * 1e9 / each))
    batch = min(calls, int(-(-_SHORTEST_NS // each)))
    return calls // batch, batch


def _block(engine: Engine, batches: int, batch: int) -> np.ndarray:
    clock = time.perf_counter_ns
    marks = np.empty(batches, np.float64)
    for index in range(batches):
        start = clock()
        for _ in repeat(None, batch):
            engine()
        marks[index] = (clock() - start) / batch
    return marks


def percentiles(timing: Timing) -> dict[str, float]:
    """p50, p90, p99 and the smallest time in ms over all rounds; the number of calls, and how many
    of them each time is the mean of."""
    times = np.concatenate(timing.blocks) / 1e6
    p50, p90, p99 = np.percentile(times, (50, 90, 99))
    figures = {"p50": p50, "p90": p90, "p99": p99, "min": times.min()}
    counts = {"calls": times.size * timing.batch, "batch": timing.batch}
    return {k: float(v) for k, v in (figures | counts).items()}


def ratio(ours: Timing, other: Timing) -> float:
    """How many times faster we are: median over rounds of (other's median / our median)."""
    pairs = zip(ours.blocks, other.blocks, strict=True)
    return float(np.median([np.median(b) / np.median(a) for a, b in pairs]))
