"""Measured figures of a CPU: multiply-add peak and bandwidth of every level (Roller §3.3).

This package generates no code. Whoever can compile hands in a `Bench`: a callable that runs
`n` repetitions of a known amount of work. What is measured is kept in a device record, so it
is measured once per machine.
"""

import datetime
import math
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Protocol

from rcompiler.device.cpu import with_figures
from rcompiler.device.measured import MeasurementOrigin
from rcompiler.device.model import Device, MemoryLevel
from rcompiler.errors import DeviceError

# Of what is measured and how: raise it when figures are no longer comparable with older ones.
VERSION = 4
TYPES = {"f32": 4, "f64": 8}  # bytes of the types whose peak is measured
LINKS = 128  # multiply-adds of one of the chains that tell how large the window is


@dataclass(frozen=True)
class Bench:
    """Compiled micro-benchmark. `run(n)` does `n * work` operations (or bytes) and returns.

    A peak kernel keeps at least `compute.accumulators` independent accumulators in registers and
    touches no memory; `work` = operations per repetition. A clock kernel is bound by `work` cycles
    per repetition, whatever runs on the same core. A bandwidth kernel reads a buffer of `work`
    bytes once per repetition. `threads`: how many work at the same time.
    """

    run: Callable[[int], object]
    work: int
    threads: int = 1


class Kernels(Protocol):
    """Who can compile builds the benchmarks."""

    def clock(self) -> Bench: ...

    def peak(self, name: str) -> Bench:
        """name: "f32", "f64", or an element type of `Device.dots`."""

    def chains(self, *, several: bool) -> Bench:
        """LINKS multiply-adds that wait for one another; several: one such chain after the other,
        none of which waits for another one. `work`: multiply-adds.
        """

    def stream(self, size: int, eus: int) -> Bench:
        """`eus` EUs read at the same time, each its part of a buffer of `size` bytes."""

    def feed(self, size: int) -> Bench:
        """Multiply a buffer of `size` bytes, beside operands from the first level."""


def rates(benches: dict[str, Bench], *, seconds: float, rounds: int) -> dict[str, float]:
    """Best operations (bytes) per ns of each over `rounds` runs of about `seconds` each.

    The best, not the mean: noise of other programs only ever slows a run down. All of them take
    turns, so that a change of the frequency does not hit one of them only. One repetition before
    each run brings back into the caches what the others drove out.
    """
    counts = {name: _repetitions(bench, seconds) for name, bench in benches.items()}
    best = dict.fromkeys(benches, math.inf)
    for _ in range(max(1, rounds)):
        for name, bench in benches.items():
            bench.run(1)
            best[name] = min(best[name], _nanoseconds(bench, counts[name]))
    return {name: b.work * counts[name] / max(best[name], 1) for name, b in benches.items()}


def measure_device(
    device: Device,
    kernels: Kernels,
    *,
    machine: str = "",
    seconds: float = 0.01,
    rounds: int = 7,
    most: int = 1 << 62,
) -> Device:
    """`device` with its frequency, peaks, window and bandwidths replaced by measured ones, of two
    digits.

    A level that several EUs share is measured with one EU and with all of them at once; the second
    one also while its data is multiplied. What needs a buffer of more than `most` bytes is not
    measured and keeps its value. machine: for the `MeasurementOrigin`.
    """
    benches = {f"peak {name}": kernels.peak(name) for name in (*TYPES, *sorted(device.dots))}
    benches["clock"] = kernels.clock()  # after the peaks: at the frequency that they leave
    benches |= {name: kernels.chains(several=name == "chains") for name in ("chain", "chains")}
    feeding = _feeding(device)
    benches |= {f"feed {name}": kernels.feed(stream_sizes(device)[name]) for name in feeding}
    for name, size, eus in streams(device):
        if size <= most:
            benches[name] = kernels.stream(size, eus)
    found = rates(benches, seconds=seconds, rounds=rounds)
    bandwidth, floor = {}, 0.0
    for level in reversed(device.memory):
        if (name := f"bandwidth {level.name}") in found:
            # a level cannot be slower than one behind it: where noise says so, believe the faster
            floor = bandwidth[level.name] = max(floor, found[name])
    shared = {
        level.name: found[name] / instances(device, level)
        for level in device.memory
        if (name := f"shared bandwidth {level.name}") in found
    }
    peaks = {name: found[f"peak {name}"] for name in (*TYPES, *sorted(device.dots))}
    # no faster than without multiplying: where noise says so, believe the slower
    feeds = {name: min(found[f"feed {name}"], bandwidth[name]) for name in feeding}
    # as many chains run at once as the window holds
    found["window"] = LINKS * found["chains"] / found["chain"]
    rounded = [_rounded(values) for values in (peaks, bandwidth, shared, feeds)]
    window = two_digits(found["window"])
    date = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    noted = MeasurementOrigin(
        machine, date, VERSION, tuple(name for name in figures(device) if name in found)
    )
    clock = two_digits(found["clock"])
    return replace(with_figures(device, clock, *rounded, window=window), measurement=noted)


def _feeding(device: Device) -> list[str]:
    """The levels whose data is multiplied: the second one, between which and the first one lies the
    last step of most operands.
    """
    return [level.name for level in device.memory[1:-1][:1]]


def streams(device: Device) -> list[tuple[str, int, int]]:
    """The bandwidths to measure: name, bytes of the buffer, EUs that read at once."""
    sizes = stream_sizes(device)
    found = [(f"bandwidth {name}", size, 1) for name, size in sizes.items()]
    caches = 1  # instances that a buffer has to fill, or for main memory to overflow
    for level in device.memory:
        if min(level.shared_by, device.eus) > 1:
            caches = max(caches, instances(device, level))
            found.append((f"shared bandwidth {level.name}", sizes[level.name] * caches, device.eus))
    return found


def figures(device: Device) -> dict[str, float]:
    """What measuring decides, by name: GHz, peaks in operations/ns, instructions of the window,
    bandwidths in GB/s.
    """
    found = {"clock": device.compute.ghz}
    found |= {f"peak {name}": device.compute.peak(size) for name, size in TYPES.items()}
    single = device.compute.peak(4)
    found |= {f"peak {name}": device.dot_speed(name) * single for name in sorted(device.dots)}
    found["window"] = device.compute.window
    found |= {f"bandwidth {level.name}": level.bandwidth for level in device.memory}
    found |= {f"feed {name}": device.level(name).fed for name in _feeding(device)}
    shared = [level for level in device.memory if min(level.shared_by, device.eus) > 1]
    return found | {f"shared bandwidth {level.name}": level.shared_bandwidth for level in shared}


def summary(device: Device) -> str:
    """The figures of a device in one line, and whether they were measured."""
    values = {name: f"{value:g}" for name, value in figures(device).items()}

    def some(kind: str) -> str:
        start = f"{kind} "
        return ", ".join(f"{n[len(start) :]} {v}" for n, v in values.items() if n.startswith(start))

    shared = some("shared bandwidth")
    return (
        f"{device.name} {device.level_name}, {device.eus} EU(s), "
        f"{'measured' if device.measured else 'default'} figures: {values['clock']} GHz; "
        f"{some('peak')} Gop/s; {values['window']} instructions in flight; "
        f"{some('bandwidth')} GB/s, beside multiply-adds {some('feed')} GB/s"
        + (f"; of all EUs: {shared} GB/s" if shared else "")
    )


def stream_sizes(device: Device) -> dict[str, int]:
    """Buffer bytes that live in each level: well past the level before, at most half of its own.

    No more than needed: a last cache is often shared with others, who do not say so. Main memory
    is read through a buffer of twice the largest cache: of what is read in turn, little stays.
    """
    sizes = {}
    below = 0
    for level in device.memory:
        last = level is device.memory[-1]
        size = min((2 if last else 4) * below or level.capacity, level.capacity)
        size = size if last and below else min(size, level.capacity // 2)
        sizes[level.name] = max(size, min(2 * below, level.capacity)) // level.line * level.line
        below = level.capacity
    return sizes


def instances(device: Device, level: MemoryLevel) -> int:
    """How many of a level the EUs of a device have."""
    return math.ceil(device.eus / level.shared_by)


def _repetitions(bench: Bench, seconds: float) -> int:
    """How many take about `seconds`: the better of two runs counts, as in the first one threads
    start and code is cold, which must not be taken for work.
    """
    if bench.work <= 0:
        raise DeviceError(f"micro-benchmark does {bench.work} work; it must be above 0")
    count = 1
    while (
        taken := min(_nanoseconds(bench, count) for _ in range(2))
    ) < seconds * 1e9 and count < 1 << 40:
        # grow at most tenfold per step: short runs look too long
        wanted = 1.2 * seconds * 1e9 / max(taken, 1)
        count = math.ceil(count * min(10.0, max(1.5, wanted)))
    return count


def two_digits(value: float) -> float:
    """Rounded to two significant digits: more of a measured figure is noise."""
    return float(f"{value:.1e}")


def _rounded(values: dict[str, float]) -> dict[str, float]:
    return {name: two_digits(value) for name, value in values.items()}


def _nanoseconds(bench: Bench, count: int) -> int:
    """Of the processor, where one thread works: time in which another program has it is none."""
    clock = time.thread_time_ns if bench.threads == 1 else time.perf_counter_ns
    start = clock()
    bench.run(count)
    return clock() - start
