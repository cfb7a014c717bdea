"""Measured figures of a GPU, into its record.

As `measure`, of what a GPU has: the times of a launch, of a node of a graph, of a meeting of all
blocks and of a hand-over between two, peaks of multiply-adds and of matrix units, bandwidths.
Whoever can run kernels hands in `GpuKernels`. What is not measured stays as in the record that is
measured into: sizes, latencies, limits; `MeasurementOrigin.figures` names what is.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Protocol

from rcompiler.device.measure import two_digits
from rcompiler.device.measured import MeasurementOrigin
from rcompiler.device.model import Device

VERSION = 1  # of what is measured and how
MATRIX = ("bf16", "f16", "i8", "tf32")  # element types of matrix units that are measured
_PAST = 4  # of what is read from memory, so many times as much as the last cache holds
MOST = 1 << 18  # repetitions of one run: results that count them stay exact


@dataclass(frozen=True)
class GpuBench:
    """`run(n)` gives the ns of the device for `n` repetitions, each of `work` operations, bytes or
    events. Raises DeviceError where the results are wrong.
    """

    run: Callable[[int], float]
    work: float = 1.0


class GpuKernels(Protocol):
    """Who can run kernels builds the benchmarks."""

    def launch(self) -> GpuBench:
        """A cooperative launch of a block on each EU."""

    def graph(self) -> GpuBench:
        """The same, as the only node of a graph."""

    def meeting(self) -> GpuBench:
        """All EUs wait for all."""

    def hand_off(self) -> GpuBench:
        """One EU signals, another one waits for it; work: hand-overs."""

    def peak(self) -> GpuBench:
        """Multiply-adds of f32 on all EUs; work in operations."""

    def matrix(self, element: str) -> GpuBench:
        """Products of matrix units on all EUs; work in operations."""

    def clock(self) -> float:
        """GHz under the load of `peak`, after it has run."""

    def shared(self) -> GpuBench:
        """All EUs read their shared memory; work in bytes."""

    def stream(self, size: int, eus: int) -> GpuBench:
        """`eus` EUs read memory of `size` bytes, each another part; work in bytes."""


def measure_gpu(
    device: Device, kernels: GpuKernels, *, machine: str, seconds: float = 0.002, rounds: int = 7
) -> Device:
    """`device` with measured figures, of two digits.

    seconds: of one run, of which the best of `rounds` counts; machine: for the `MeasurementOrigin`.
    """
    benches = _benches(device, kernels)
    counts = {name: _repetitions(bench, seconds) for name, bench in benches.items()}
    best = dict.fromkeys(benches, math.inf)
    for _ in range(rounds):
        for name, bench in benches.items():
            best[name] = min(best[name], bench.run(counts[name]))
    found = {
        name: best[name] / (counts[name] * bench.work)
        if name in _TIMES
        else counts[name] * bench.work / best[name]
        for name, bench in benches.items()
    }
    found["clock"] = kernels.clock()
    return _recorded(device, {k: two_digits(v) for k, v in found.items()}, machine)


_TIMES = ("launch", "graph", "barrier", "hand-off")  # ns; the others are rates


def _benches(device: Device, kernels: GpuKernels) -> dict[str, GpuBench]:
    benches = {
        "launch": kernels.launch(),
        "graph": kernels.graph(),
        "barrier": kernels.meeting(),
        "hand-off": kernels.hand_off(),
        "peak f32": kernels.peak(),
    }
    elements = {name for name, _ in device.compute.matrix}
    benches |= {f"matrix {name}": kernels.matrix(name) for name in MATRIX if name in elements}
    first, *others = device.memory
    benches[f"bandwidth {first.name}"] = kernels.shared()
    for level, before in zip(others, device.memory, strict=False):
        size = level.capacity // 2
        if level is device.memory[-1]:
            size = min(size, _PAST * before.capacity)
        benches[f"bandwidth {level.name}"] = kernels.stream(size, 1)
        benches[f"shared bandwidth {level.name}"] = kernels.stream(size, device.eus)
    return benches


def _repetitions(bench: GpuBench, seconds: float) -> int:
    """How many take about `seconds`, at most MOST."""
    count = 1
    while count < MOST and (taken := bench.run(count)) < seconds * 1e9:
        wanted = 1.2 * seconds * 1e9 / max(taken, 1.0)
        count = min(math.ceil(count * min(10.0, max(1.5, wanted))), MOST)
    return count


def _recorded(device: Device, found: Mapping[str, float], machine: str) -> Device:
    eus, first = device.eus, device.memory[0].name
    peaks = {**dict(device.compute.peaks), "f32": two_digits(found["peak f32"] / eus)}
    matrix = dict(device.compute.matrix)
    matrix |= {e: two_digits(found[f"matrix {e}"] / eus) for e in matrix if f"matrix {e}" in found}
    compute = replace(
        device.compute,
        ghz=found["clock"],
        peaks=tuple(sorted(peaks.items())),
        matrix=tuple(sorted(matrix.items())),
    )
    levels = []
    for level in device.memory:
        alone = found[f"bandwidth {level.name}"]
        if level.name == first:
            alone = together = two_digits(alone / eus)
        else:
            together = found[f"shared bandwidth {level.name}"]
        levels.append(replace(level, bandwidth=alone, shared_bandwidth=together))
    costs = replace(
        device.costs,
        launch_ns=found["launch"],
        barrier_ns=found["barrier"],
        hand_off_ns=found["hand-off"],
    )
    date = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    noted = MeasurementOrigin(
        machine, date, VERSION, tuple(found), others=(("graph ns", found["graph"]),)
    )
    return replace(
        device,
        compute=compute,
        memory=tuple(levels),
        costs=costs,
        measured=True,
        measurement=noted,
    )


def gpu_figures(device: Device) -> dict[str, float]:
    """What measuring decides, by name: ns, GHz, operations/ns of one EU, GB/s."""
    costs, compute = device.costs, device.compute
    found = {
        "launch": costs.launch_ns,
        "barrier": costs.barrier_ns,
        "hand-off": costs.hand_off_ns,
    }
    found |= {"clock": compute.ghz, "peak f32": compute.peak(4)}
    found |= {f"matrix {name}": rate for name, rate in compute.matrix if name in MATRIX}
    for number, level in enumerate(device.memory):
        found[f"bandwidth {level.name}"] = level.bandwidth
        if number:
            found[f"shared bandwidth {level.name}"] = level.shared_bandwidth
    return found
