"""Fit the figures of `Recall` to measured times of whole schedules.

Two figures that hold for the machine, not for a network: of all pairs on a grid, the one whose
simulated times are the nearest to the measured ones, as root mean square of the logarithms of their
ratios. So a network counts as much as any other, however long it takes.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import log

from rcompiler.device.model import Device, Recall
from rcompiler.errors import DeviceError
from rcompiler.rammer.expected import expected
from rcompiler.rammer.graph import Graph
from rcompiler.rammer.program import Program
from rcompiler.rammer.recall import Recalls

VERSION = 1  # of what is fitted: raise it when figures no longer compare with older ones
_STEPS = 3  # values up to half of the most, of either figure
_HALVES = 5  # how often the most is halved: `_LONGEST_NS`, the bandwidth of memory
_LONGEST_NS = 32e6


@dataclass(frozen=True)
class Sample:
    """A schedule that was timed. ns: of one of many inferences in a row."""

    programs: tuple[Program, ...]
    graph: Graph
    ns: float

    def expected_ns(self, device: Device, recalls: Recalls | None = None) -> float:
        """The simulated time. recalls: as for `expected`."""
        return expected(self.programs, self.graph, device, recalls=recalls).makespan_ns


def fit_recall(samples: Sequence[Sample], device: Device, date: str) -> Recall:
    """The figures that explain the samples best. date: when they were timed.

    Raises DeviceError where there is nothing to fit: no sample, or fewer than two caches.
    """
    if not samples or len(device.memory) < 3:
        raise DeviceError(
            f"device {device.name}: {len(samples)} timed schedules, {len(device.memory)} memory "
            "levels; give one schedule or more, and a device with two caches"
        )
    memory = device.memory[-1]
    best: Recall | None = None
    first = Recall(_LONGEST_NS, memory.bandwidth, 0.0, date, VERSION)
    known = [Recalls(sample.graph, device, first) for sample in samples]
    for kept in _down(_LONGEST_NS):
        for rate in _down(memory.bandwidth):
            tried = replace(first, kept_ns=kept, rate=float(f"{rate:.2g}"))
            pairs = zip(samples, known, strict=True)
            errors = [
                log(sample.ns / sample.expected_ns(device, recalls.again(tried)))
                for sample, recalls in pairs
            ]
            error = (sum(e * e for e in errors) / len(errors)) ** 0.5
            if best is None or error < best.error:
                best = replace(tried, error=round(error, 4))
    assert best is not None
    return best


def _down(most: float) -> list[float]:
    return [most / 2 ** (step / _STEPS) for step in range(_STEPS * _HALVES + 1)]
