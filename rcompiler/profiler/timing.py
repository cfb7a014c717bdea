"""Interleaved timing of equal work done in several ways, gated against noise.

Every round runs each candidate once, so all of them see the same clock speed and the same
neighbours on the machine; short ones after a run that does not count, which brings back into the
caches what the candidate before drove out. Only ratios of one round are compared. Rounds go on
until the medians of these ratios are known well enough, or the budget is used.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass

import numpy as np

Clock = Callable[[], int]
Valid = Callable[[float], bool]  # of a reading of so many ns: whether it counts

_LEAST = 7  # rounds: the spread of fewer says little
_SHORTEST_NS = 100_000  # of one reading: the clock itself takes about a microsecond
_COLD_NS = 1_000_000  # from here on it does not matter what the caches held before
_CONTENDER = 1.15  # slower by more than this: its exact time does not matter
_TRIES = 8  # for a reading that counts


# What else goes on makes a reading slower: of work alone the fastest one is right, but of work
# beside others that is one which they were hardly in the way of.
_FASTEST, _TYPICAL = 0, 50


@contextmanager
def _nothing() -> Iterator[Valid]:
    yield lambda ns: True


@dataclass(frozen=True)
class TimedWork:
    """Work to time. work: does it so many times. meanwhile: what else goes on while it is timed;
    gives what is asked after a reading whether it did.
    """

    work: Callable[[int], object]
    meanwhile: Callable[[], AbstractContextManager[Valid]] = _nothing

    def __call__(self, times: int) -> None:
        """Do it so many times without a clock."""
        with self.meanwhile():
            self.work(times)


@dataclass(frozen=True)
class Timings:
    """`ns` of one run of each candidate. `spread`: the largest standard error of the ratios that
    matter; `settled`: it is small enough.
    """

    ns: tuple[float, ...]
    rounds: int
    spread: float
    settled: bool


def interleaved(
    runs: Sequence[TimedWork],
    *,
    seconds: float = 1.0,
    spread: float = 0.01,
    most: int = 200,
    clock: Clock = time.thread_time_ns,
) -> Timings:
    """Time the candidates by turns. Readings that do not count are left out, unless a candidate has
    no others.

    seconds: of `clock` to spend, though never fewer than seven rounds. spread: stop below this
    standard error. most: rounds. clock: ns; CPU time of this thread, so that time in which another
    program has the processor does not count.
    """
    start = clock()
    first = [_first(run, clock) for run in runs]
    counts = [max(1, int(_SHORTEST_NS / ns)) for ns in first]
    rounds: list[list[tuple[float, bool]]] = []
    order = list(range(len(runs)))
    look, found, settled = _LEAST, 0.0, False
    while len(rounds) < most:
        readings = [(0.0, False)] * len(runs)
        for k in order:
            readings[k] = _reading(runs[k], counts[k], first[k] < _COLD_NS, clock)
        rounds.append(readings)
        order.reverse()
        if len(rounds) >= min(look, most):
            look = len(rounds) + 1 + len(rounds) // 4
            times, complete = _counted(rounds)
            found = _spread(times)
            settled = complete and found <= spread
            if settled or clock() - start >= seconds * 1e9:
                break
    alone = all(run.meanwhile is _nothing for run in runs)
    return Timings(_settle(times, _FASTEST if alone else _TYPICAL), len(rounds), found, settled)


def _first(run: TimedWork, clock: Clock) -> float:
    run.work(1)
    return max(_time(run, 1, clock), 1)


def _reading(run: TimedWork, count: int, warm: bool, clock: Clock) -> tuple[float, bool]:
    """ns of one run, and whether it counts."""
    with run.meanwhile() as valid:
        for _ in range(_TRIES):
            if warm:
                run.work(1)
            valid(0.0)  # from here on
            ns = _time(run, count, clock)
            if valid(ns * count):
                return ns, True
    return ns, False


def _time(run: TimedWork, count: int, clock: Clock) -> float:
    start = clock()
    run.work(count)
    return (clock() - start) / count


def _counted(rounds: Sequence[Sequence[tuple[float, bool]]]) -> tuple[np.ndarray, bool]:
    """The readings [rounds, candidates] that count, NaN instead of the others; and whether every
    candidate has one. All of them count for a candidate without.
    """
    readings = np.array(rounds)
    times, valid = readings[..., 0], readings[..., 1] > 0
    some = valid.any(axis=0)
    return np.where(valid | ~some, times, np.nan), bool(some.all())


def _ratios(times: np.ndarray) -> tuple[int, np.ndarray]:
    """The candidate that is the fastest in most rounds, and of each round the times relative to it;
    relative to its median for candidates that have no round in common with it.
    """
    times = np.maximum(times, 1e-3)
    medians = np.nanmedian(times, axis=0)
    best = int(np.argmin(medians))
    ratios = times / times[:, best : best + 1]
    unpaired = np.isnan(ratios).all(axis=0)
    ratios[:, unpaired] = times[:, unpaired] / medians[best]
    return best, ratios


def _spread(times: np.ndarray) -> float:
    _, ratios = _ratios(times)
    low, medians, high = np.nanpercentile(ratios, (25, 50, 75), axis=0)
    readings = (~np.isnan(ratios)).sum(axis=0)
    # of a median: 1.25 standard deviations / sqrt(n), and 1.35 of them lie between the quartiles
    errors = 0.93 * (high - low) / np.sqrt(readings)
    errors[readings < _LEAST] = 1.0
    return float(errors[medians - 3 * errors < _CONTENDER].max())


def _settle(times: np.ndarray, level: float) -> tuple[float, ...]:
    """The median ratios, times the reading of the candidate that they are relative to; level: which
    percentile.
    """
    best, ratios = _ratios(times)
    typical = np.nanmedian(ratios, axis=0) * np.nanpercentile(times[:, best], level)
    return tuple(float(ns) for ns in np.maximum(typical, 1e-3))
