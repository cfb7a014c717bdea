"""Timing of several engines side by side, in interleaved rounds of one process.

Engines that take turns every few milliseconds see the same clock speed, the same neighbours on the
machine and the same cache pollution; separate runs do not, and differ by more than the engines do.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Mapping

import numpy as np

Engine = Callable[[], object]
# Worker threads of the engine that ran before spin for a while after its last call.
_SETTLE_S = 0.02
_CALIBRATION_CALLS = 3


def interleaved(
    engines: Mapping[str, Engine], rounds: int, block_s: float
) -> dict[str, list[np.ndarray]]:
    """Call times in ns: per engine one array per round.

    Every round runs each engine once, in an order that alternates, as often as fills ``block_s``
    seconds (at least once), after one call that does not count.
    """
    calls = {name: _calls(engine, block_s) for name, engine in engines.items()}
    times: dict[str, list[np.ndarray]] = {name: [] for name in engines}
    order = list(engines)
    collecting = gc.isenabled()
    gc.disable()
    try:
        for _ in range(rounds):
            for name in order:
                time.sleep(_SETTLE_S)
                engines[name]()
                times[name].append(_block(engines[name], calls[name]))
            order.reverse()
    finally:
        if collecting:
            gc.enable()
    return times


def _calls(engine: Engine, block_s: float) -> int:
    engine()
    return max(1, int(block_s * 1e9 / max(1, _block(engine, _CALIBRATION_CALLS).min())))


def _block(engine: Engine, calls: int) -> np.ndarray:
    clock = time.perf_counter_ns
    marks = np.empty(calls, np.int64)
    for index in range(calls):
        start = clock()
        engine()
        marks[index] = clock() - start
    return marks


def percentiles(blocks: list[np.ndarray]) -> dict[str, float]:
    """p50, p90, p99 and the smallest time in ms over all rounds, and the number of calls."""
    times = np.concatenate(blocks) / 1e6
    p50, p90, p99 = np.percentile(times, (50, 90, 99))
    figures = {"p50": p50, "p90": p90, "p99": p99, "min": times.min()}
    return {k: float(v) for k, v in figures.items()} | {"calls": float(times.size)}


def ratio(ours: list[np.ndarray], other: list[np.ndarray]) -> float:
    """How many times faster we are: median over rounds of (other's median / our median)."""
    pairs = zip(ours, other, strict=True)
    return float(np.median([np.median(b) / np.median(a) for a, b in pairs]))
