"""The work of calibrate: networks compiled for one EU and for all, timed by turns; and how far what
is expected of them is from what they take.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import rcompiler
from measurements._recall_fit import Sample
from rcompiler.device.cgroups import usable_cpus
from rcompiler.device.model import Device
from rcompiler.driver.artifact_notes import rebuild
from rcompiler.errors import InvalidModel
from rcompiler.rammer.expected import timed
from rcompiler.rammer.placement import derive_graph
from rcompiler.support.random_inputs import random_inputs
from rcompiler.tools._console import doing
from rcompiler.tools._measure import Engine, interleaved, percentiles
from rcompiler.tools._sources import resolve

BAND = 0.15  # what an expected time may be off by


@dataclass(frozen=True)
class Row:
    """Of a network on so many EUs, in us: a run that others were not in the way of, and what is
    expected before and after calibration. fitted: whether the device is calibrated by it.
    """

    network: str
    eus: int
    measured_us: float
    before_us: float
    after_us: float
    fitted: bool

    @property
    def surprise(self) -> float:
        """Measured over expected time."""
        return self.measured_us / self.after_us


@dataclass(frozen=True)
class Expected:
    """On at least `least` of the networks on one EU, or on several, measured and expected time
    differ by `BAND` at most.
    """

    several: bool
    least: float = 0.9

    def value(self, figures: Sequence[Row]) -> float | None:
        """The share of the networks; None where none was measured."""
        mine = [row for row in figures if (row.eus > 1) == self.several]
        return sum(abs(row.surprise - 1) <= BAND for row in mine) / len(mine) if mine else None

    def __str__(self) -> str:
        eus = "all EUs" if self.several else "one EU"
        return (
            f"{eus}: measured within {BAND:.0%} of expected, share of networks >= {self.least:.0%}"
        )


GOALS = (Expected(several=False), Expected(several=True))


def measure(
    networks: Sequence[str], device: Device, rounds: int, seconds: float
) -> dict[tuple[str, int], Sample]:
    """By network and number of EUs, its schedule and the time of a run: the 5th percentile, which
    nothing else was in the way of.

    All take turns over the whole time, as a machine that is busy is so for seconds. seconds: timed
    per network. One EU is timed by the clock of its thread, which others disturb least.
    """
    found = {}
    for eus in dict.fromkeys((1, min(device.eus, usable_cpus()))):
        models = {}
        for name in networks:
            doing(f"{name} on {eus} EUs")
            models[name] = _compiled(name, device, eus)
        engines: dict[str, Engine] = {
            name: model.bind(random_inputs(model.inputs)) for name, model in models.items()
        }
        times = interleaved(engines, rounds, seconds / rounds, "cpu" if eus == 1 else "wall")
        for name, model in models.items():
            found[name, eus] = _sample(model, percentiles(times[name])["p5"] * 1e6)
            model.close()
    return found


def rows(
    samples: dict[tuple[str, int], Sample], device: Device, fitted: Sequence[str]
) -> list[Row]:
    """What is expected of the samples. device: calibrated by those of the networks `fitted`."""
    plain = replace(device, recall=None)
    found = []
    for (name, eus), sample in samples.items():
        before, after = (sample.expected_ns(d) / 1e3 for d in (plain, device))
        found.append(Row(name, eus, sample.ns / 1e3, before, after, name in fitted))
    return found


def _compiled(name: str, device: Device, eus: int) -> Any:
    source = resolve(name)
    if source.proto is None:
        raise InvalidModel(f"{source.path}: is compiled already; give an ONNX model")
    return rcompiler.compile_onnx(source.proto, device=device, eus=eus)


def _sample(model: Any, ns: float) -> Sample:
    programs, kernels = rebuild(model.artifact)
    graph = derive_graph(programs, timed(kernels, model.report().operators))
    return Sample(tuple(programs), graph, ns)
