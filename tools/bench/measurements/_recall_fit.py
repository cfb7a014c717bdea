"""Fit the figures of `Recall` to measured times of whole schedules.

They hold for the machine, not for a network: of values on a grid, those whose simulated times are
the nearest to the measured ones, as root mean square of the logarithms of their ratios. So a
network counts as much as any other, however long it takes. Schedules of one EU tell the rate of an
EU and its speed, those of several EUs what all of them get together, and both what the last cache
keeps.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import inf, log

import numpy as np
from numpy.typing import NDArray

from rcompiler.device.measured import Recall
from rcompiler.device.model import Device
from rcompiler.errors import DeviceError
from rcompiler.rammer.expected import expected
from rcompiler.rammer.graph import Graph
from rcompiler.rammer.program import Program, Run
from rcompiler.rammer.recall import Demand, Recalls, run_times

VERSION = 4  # of what is fitted: raise it when figures no longer compare with older ones
_STEPS = 3  # values up to half of the most, of any figure
_HALVES = 5  # how often the most is halved
_SPEEDS = 24  # values within a factor of two
_CACHE_SPEEDS = 12


@dataclass(frozen=True)
class Sample:
    """A schedule that was timed. ns: of one of many inferences in a row."""

    programs: tuple[Program, ...]
    graph: Graph
    ns: float

    @property
    def eus(self) -> int:
        """For how many EUs it is."""
        return max(program.eus for program in self.programs)

    def expected_ns(self, device: Device, recalls: Recalls | None = None) -> float:
        """The simulated time. recalls: as for `expected`."""
        return expected(self.programs, self.graph, device, recalls=recalls).makespan_ns


_Known = tuple[Sample, Recalls]


def fit_recall(samples: Sequence[Sample], device: Device, date: str) -> Recall:
    """The figures that explain the samples best. date: when they were timed.

    Without a sample of several EUs they share the bandwidth that the device was measured to have.

    Raises DeviceError where there is nothing to fit: no sample of one EU, or fewer than two caches.
    """
    ones = sum(sample.eus == 1 for sample in samples)
    if not ones or len(device.caches) < 2:
        raise DeviceError(
            f"device {device.name}: {ones} timed schedules of one EU, {len(device.memory)} memory "
            "levels; give one schedule or more, and a device with two caches"
        )
    last, memory = device.last_cache, device.main_memory
    first = Recall(last.capacity, memory.bandwidth, memory.shared_bandwidth, 0.0, date, VERSION)
    # what a schedule touches is found out once
    known = [(sample, Recalls(sample.graph, device, first)) for sample in samples]
    alone = [pair for pair in known if pair[0].eus == 1]
    together = [pair for pair in known if pair[0].eus > 1]
    shared = _rates(memory.shared_bandwidth) if together else []
    least, found = inf, first
    for recall, error in _alone(alone, device, first):
        some = [replace(recall, shared_rate=rate) for rate in shared[::_STEPS]] or [recall]
        for tried in some:
            whole = error + _squares(together, device, tried)
            if whole < least:
                least, found = whole, tried
    near = [replace(found, shared_rate=rate) for rate in shared]
    found = min([found, *near], key=lambda recall: _squares(together, device, recall))
    return replace(found, error=round((_squares(known, device, found) / len(known)) ** 0.5, 4))


def _alone(
    known: Sequence[_Known], device: Device, first: Recall
) -> Iterator[tuple[Recall, float]]:
    """For each size of the cache the best figures for schedules of one EU, and the sum of their
    squared errors. Of equals the fastest memory and the speeds next to 1.

    One EU takes its runs one after the other, and what each of them needs depends on the cache
    alone: a walk through the schedules serves all rates and speeds.
    """
    rates = np.array(_rates(device.main_memory.bandwidth))
    speeds = np.array(_speeds(_SPEEDS))
    cache_speeds = np.array(_speeds(_CACHE_SPEEDS))
    for size in _down(device.last_cache.capacity):
        recall = replace(first, kept_bytes=int(size))
        errors = np.zeros((len(rates), len(speeds), len(cache_speeds)))
        for sample, recalls in known:
            needs = _demands(sample, recalls.again(recall))
            plain = sum(run_times(needs, recall.rate, 1.0, 1.0))
            rest = sample.expected_ns(replace(device, recall=recall), recalls.again(recall)) - plain
            kinds, times = _alike(needs)
            for number, rate in enumerate(rates):
                figures = rate, speeds[:, None, None], cache_speeds[:, None]
                each = (run_times(kinds, *figures) * times).sum(axis=-1)
                errors[number] += np.log(sample.ns / (rest + each)) ** 2
        errors = errors.round(12)  # what differs by less is equal
        at = np.unravel_index(errors.argmin(), errors.shape)
        chosen = replace(
            recall,
            rate=float(rates[at[0]]),
            speed=float(speeds[at[1]]),
            cache_speed=float(cache_speeds[at[2]]),
        )
        yield chosen, float(errors[at])


def _speeds(within: int) -> list[float]:
    """From 1 up and down to a factor of two, so many values to each side."""
    found = [round(2 ** (step / within), 3) for step in range(-within, within + 1)]
    return sorted(found, key=lambda speed: abs(log(speed)))


def _alike(demand: Demand) -> tuple[Demand, NDArray[np.int64]]:
    """The different ones of many runs, and how often each occurs: steps of a loop are alike."""
    rows, times = np.unique(np.stack(demand, axis=1), axis=0, return_counts=True)
    found = Demand(*rows.T)
    return found._replace(large=found.large > 0), times


def _demands(sample: Sample, recalls: Recalls) -> Demand:
    """Of all runs of one inference of many, (runs,) each."""
    recalls.warm(sample.programs)
    found = [
        recalls.demand(program, eu, step)
        for program in sample.programs
        for eu, queue in enumerate(program.queues)
        for step in queue
        if isinstance(step, Run)
    ]
    return Demand(*(np.array(column) for column in zip(*found, strict=True)))


def _squares(known: Sequence[_Known], device: Device, recall: Recall) -> float:
    """Sum of the squares of the logarithms of measured over simulated times."""
    device = replace(device, recall=recall)
    errors = [log(s.ns / s.expected_ns(device, recalls.again(recall))) for s, recalls in known]
    return round(sum(error * error for error in errors), 12)  # what differs by less is equal


def _down(most: float) -> list[float]:
    return [most / 2 ** (step / _STEPS) for step in range(_STEPS * _HALVES + 1)]


def _rates(measured: float) -> list[float]:
    """From twice what was measured on: others may have had their part of it then."""
    return [float(f"{rate:.2g}") for rate in _down(2 * measured)]
