"""Measured figures of a CPU: multiply-add peak and bandwidth of every level (Roller §3.3).

This package generates no code. Whoever can compile hands in a `Bench`: a callable that runs
`n` repetitions of a known amount of work. What is measured is kept in a device record, so it
is measured once per machine.
"""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass

from rcompiler.device.cpu import with_figures
from rcompiler.device.model import Device
from rcompiler.errors import DeviceError


@dataclass(frozen=True)
class Bench:
    """Compiled micro-benchmark. `run(n)` does `n * work` operations (or bytes) and returns.

    A peak kernel keeps at least `compute.accumulators` independent accumulators in registers and
    touches no memory; `work` = operations per repetition. A bandwidth kernel reads a buffer of
    `work` bytes once per repetition.
    """

    run: Callable[[int], object]
    work: int


# builds the benchmarks: peak_kernel("f32") and stream_kernel(bytes of the buffer)
PeakKernel = Callable[[str], Bench]
StreamKernel = Callable[[int], Bench]


def rate(bench: Bench, *, seconds: float = 0.01, repeats: int = 7) -> float:
    """Best operations (bytes) per ns over `repeats` runs of about `seconds` each.

    The best, not the mean: noise of other programs only ever slows a run down.
    """
    if bench.work <= 0:
        raise DeviceError(f"micro-benchmark does {bench.work} work; it must be above 0")
    count = 1
    while (taken := _nanoseconds(bench, count)) < seconds * 1e9 and count < 1 << 40:
        # grow at most tenfold per step: the first runs are cold and look too long
        wanted = 1.2 * seconds * 1e9 / max(taken, 1)
        count = math.ceil(count * min(10.0, max(1.5, wanted)))
    best = min(_nanoseconds(bench, count) for _ in range(max(1, repeats)))
    return bench.work * count / max(best, 1)


def measure_device(
    device: Device,
    peak_kernel: PeakKernel,
    stream_kernel: StreamKernel,
    *,
    types: tuple[str, ...] = ("f32", "f64"),
    seconds: float = 0.01,
) -> Device:
    """`device` with its peaks and its per-level bandwidth replaced by measured ones."""
    peaks = {name: rate(peak_kernel(name), seconds=seconds) for name in types}
    bandwidth = {}
    for name, size in stream_sizes(device).items():
        bandwidth[name] = rate(stream_kernel(size), seconds=seconds)
    # a level cannot be faster than the one above it: where noise says so, believe the faster run
    floor = 0.0
    for level in reversed(device.memory):
        if level.name in bandwidth:
            floor = bandwidth[level.name] = max(floor, bandwidth[level.name])
    return with_figures(device, peaks, bandwidth)


def stream_sizes(device: Device) -> dict[str, int]:
    """Buffer bytes that live in each level: half of it, and well past the level before.

    Main memory is read through a buffer of four times the largest cache.
    """
    sizes = {}
    below = 0
    for level in device.memory:
        last = level is device.memory[-1]
        size = min(4 * below, level.capacity) if last and below else level.capacity // 2
        sizes[level.name] = max(size, min(2 * below, level.capacity)) // level.line * level.line
        below = level.capacity
    return sizes


def _nanoseconds(bench: Bench, count: int) -> int:
    start = time.perf_counter_ns()
    bench.run(count)
    return time.perf_counter_ns() - start
