"""The micro-benchmarks of GPUs on a driver: runs them, and checks what they have computed."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from rcompiler.device.gpu import GPUS
from rcompiler.device.gpu_measure import GpuBench, measure_gpu
from rcompiler.device.model import Device
from rcompiler.errors import DeviceError
from rcompiler.profiler.gpu_bench_sizes import (
    ACCUMULATORS,
    CLOCKS,
    COLUMNS,
    LOADS,
    ONES,
    ROUND,
    ROWS,
    SHARED_WORDS,
    STEPS,
    THREADS,
    TILES,
    UNROLL,
    WORKERS,
)
from rcompiler.runtime.gpu.control import LINE
from rcompiler.runtime.gpu.driver import Driver

_HEAD_BYTES = 4096  # of the words that a kernel takes and counts in
_WARP = 32
_FILL = 0x01010101  # every word of what is read from memory
Words = npt.NDArray[np.generic]


def measure_cuda(
    driver: Driver, code: bytes | None = None, *, seconds: float = 0.002, rounds: int = 7
) -> Device:
    """The record of a GPU: that of its architecture, with measured figures.

    code: PTX of the kernels (`bench_code`) for it; None: made now, by the compiler. seconds: of
    one run of a kernel, rounds: runs of each. Raises DeviceError where times of the
    driver mean nothing, no record has this architecture, or a kernel's results are wrong.
    """
    if not driver.real:
        raise DeviceError(
            f"'{driver.name}' is no GPU: its times mean nothing, so there is nothing to measure; "
            "run this on a machine with a GPU and its driver"
        )
    machine = (
        f"{driver.name}, compute capability {'.'.join(map(str, driver.capability))}, "
        f"{driver.multiprocessors} multiprocessors; what is not measured is as of "
        f"{shipped_record(driver).name}"
    )
    device = for_driver(driver)
    with GpuBenches(driver, device, code) as kernels:
        return measure_gpu(device, kernels, machine=machine, seconds=seconds, rounds=rounds)


def shipped_record(driver: Driver) -> Device:
    """The record that comes with the compiler for the architecture of a GPU."""
    major, minor = driver.capability
    for device in GPUS.values():
        if device.compute_capability == (major, minor):
            return device
    raise DeviceError(
        f"{driver.name}: no record has compute capability {major}.{minor}, which what cannot be "
        "measured is taken from; add one to rcompiler/device/gpu.py"
    )


def for_driver(driver: Driver) -> Device:
    """That record under the name of the GPU, with as many multiprocessors as it has."""
    shipped = shipped_record(driver)
    eus = driver.multiprocessors
    memory = tuple(
        replace(v, shared_by=eus if v.shared_by == shipped.eus else min(v.shared_by, eus))
        for v in shipped.memory
    )
    return replace(shipped, name="-".join(driver.name.lower().split()), eus=eus, memory=memory)


class GpuBenches:
    """`GpuKernels` on a driver. A context manager: it has memory on the device until it is left."""

    def __init__(self, driver: Driver, device: Device, code: bytes | None = None) -> None:
        """device: the record to measure into. code: as of `measure_cuda`. Raises DeviceError where
        there is no memory, or for code that the device does not take.
        """
        self._device, self._driver, self._ghz = device, driver, 0.0
        self._module = driver.load(code or _made(device.level_name))
        self._out_bytes = 4 * device.eus * WORKERS
        self._head = driver.allocate(_HEAD_BYTES)
        self._out = driver.allocate(self._out_bytes)
        self._buffers: dict[int, int] = {}

    def __enter__(self) -> GpuBenches:
        return self

    def __exit__(self, *_: object) -> None:
        for address in (self._head, self._out, *self._buffers.values()):
            self._driver.free(address)
        self._buffers.clear()

    # -- launches and hand-overs
    def launch(self) -> GpuBench:
        function = self._driver.function(self._module, "empty")
        return GpuBench(lambda n: self._driver.elapsed_ns(lambda: self._several(function, n)))

    def graph(self) -> GpuBench:
        driver, function = self._driver, self._driver.function(self._module, "empty")
        arguments = self._arguments(self._head, 1)

        def run(n: int) -> float:
            graph = driver.capture(lambda: self._several(function, 1))

            def launches() -> None:
                for _ in range(n):
                    driver.launch_graph(graph, arguments)

            try:
                return driver.elapsed_ns(launches)
            finally:
                driver.drop_graph(graph)

        return GpuBench(run)

    def _several(self, function: object, n: int) -> None:
        for _ in range(n):
            self._start(function, self._device.eus, THREADS, self._arguments(self._head, 1))

    def meeting(self) -> GpuBench:
        eus = self._device.eus

        def run(n: int) -> float:
            taken = self._timed("meet", eus, THREADS, n)
            self._check("meet", self._counted(eus), np.full(eus, n * eus))
            return taken

        return GpuBench(run)

    def hand_off(self) -> GpuBench:
        if self._device.eus < 2:
            raise DeviceError(f"{self._device.name} has one multiprocessor: nobody to hand over to")

        def run(n: int) -> float:
            taken = self._timed("hand_off", 2, THREADS, n)
            # block 0 has seen all of block 1, which counts last
            self._check("hand_off", self._counted(2), np.full(2, n))
            counters = self._driver.read(self._head, 8 * 2 * LINE).view(np.int64)[::LINE]
            self._check("hand_off", counters, np.full(2, n))
            return taken

        return GpuBench(run, 2)

    def _counted(self, blocks: int) -> Words:
        return self._driver.read(self._out, 8 * blocks).view(np.int64)

    # -- arithmetic
    def peak(self) -> GpuBench:
        eus = self._device.eus
        words = np.array([1.0, 1.0], np.float32)

        def run(n: int) -> float:
            taken = self._timed("sums", eus, WORKERS, n, words)
            self._check("sums", self._results(eus, np.float32), float(n * UNROLL * ACCUMULATORS))
            cycles, ns = self._driver.read(self._head + 8 * CLOCKS, 16).view(np.int64).tolist()
            self._ghz = cycles / max(ns, 1)
            return taken

        return GpuBench(run, 2.0 * UNROLL * ACCUMULATORS * WORKERS * eus)

    def clock(self) -> float:
        return self._ghz

    def matrix(self, element: str) -> GpuBench:
        eus, name = self._device.eus, f"mma_{element}"
        words = np.array([ONES[element]], np.uint32)

        def run(n: int) -> float:
            taken = self._timed(name, eus, WORKERS, n, words)
            kind = np.int32 if element == "i8" else np.float32
            self._check(name, self._results(eus, kind), n * STEPS[element] * 4 * TILES)
            return taken

        each = 2.0 * ROWS * COLUMNS * STEPS[element] * TILES
        return GpuBench(run, each * (WORKERS // _WARP) * eus)

    # -- memory
    def shared(self) -> GpuBench:
        eus = self._device.eus

        def run(n: int) -> float:
            taken = self._timed("read_shared", eus, WORKERS, n)
            self._check("read_shared", self._results(eus, np.uint32), shared_sums(n))
            return taken

        return GpuBench(run, 16.0 * LOADS * WORKERS * eus)

    def stream(self, size: int, eus: int) -> GpuBench:
        part = self._part(size)
        parts = max(size // (4 * part), 1)
        if parts not in self._buffers:
            self._buffers[parts] = self._driver.allocate(4 * part * parts)
            self._driver.fill(self._buffers[parts], 4 * part * parts, _FILL & 0xFF)
        buffer = self._buffers[parts]

        everybody = self._device.eus
        once = self._arguments(buffer, -(-parts // everybody), part, parts)

        def run(n: int) -> float:
            self._elapsed("read", everybody, WORKERS, once)  # into the caches, if it fits
            arguments = self._arguments(buffer, n, part, parts)
            taken = self._elapsed("read", eus, WORKERS, arguments)
            wanted = _words(np.full(1, n * (part // WORKERS) * _FILL))[0]
            self._check("read", self._results(eus, np.uint32), wanted)
            return taken

        return GpuBench(run, 4.0 * part * eus)

    @staticmethod
    def _part(size: int) -> int:
        """Words that a block reads at a time: many parts of the memory, so that caches before it
        have forgotten a part when it comes again.
        """
        return ROUND * max(1, min(4, size // (4 * ROUND * 64)))

    # -- parts
    def _timed(
        self, name: str, blocks: int, threads: int, n: int, words: Words | None = None
    ) -> float:
        """Ns of a launch, from `words` and zeros behind them."""
        self._driver.fill(self._head, _HEAD_BYTES, 0)
        if words is not None:
            self._driver.write(self._head, words.view(np.uint8))
        return self._elapsed(name, blocks, threads, self._arguments(self._head, n))

    def _elapsed(self, name: str, blocks: int, threads: int, arguments: list[np.generic]) -> float:
        function = self._driver.function(self._module, name)
        self._driver.fill(self._out, self._out_bytes, 0xFF)
        return self._driver.elapsed_ns(lambda: self._start(function, blocks, threads, arguments))

    def _start(
        self, function: object, blocks: int, threads: int, arguments: list[np.generic]
    ) -> None:
        self._driver.launch(function, (blocks, 1, 1), (threads, 1, 1), 0, arguments, True)

    def _arguments(self, data: int, n: int, size: int = 0, parts: int = 1) -> list[np.generic]:
        return [np.int64(value) for value in (data, self._out, n, size, parts)]

    def _results(self, blocks: int, dtype: type[np.generic]) -> Words:
        """By block and thread."""
        found = self._driver.read(self._out, 4 * blocks * WORKERS)
        return found.view(dtype).reshape(blocks, WORKERS)

    def _check(self, name: str, found: Words, wanted: object) -> None:
        if not np.array_equal(found, np.broadcast_to(np.asarray(wanted), found.shape)):
            raise DeviceError(
                f"micro-benchmark '{name}': {self._driver.name} computes wrong results; its times "
                "say nothing. Check the driver, and the memory of the device"
            )


def shared_sums(n: int) -> Words:
    """What each thread has added up after n steps: of four words each, the numbers of the vectors
    that it has read, one further in every step.
    """
    vectors = SHARED_WORDS // 4
    first = np.arange(WORKERS)[:, None] + WORKERS * np.arange(LOADS)
    rounds, rest = divmod(n, vectors)
    sums = np.full(WORKERS, rounds * LOADS * (vectors * (vectors - 1) // 2))
    for step in range(rest):
        sums += ((first + step) % vectors).sum(1)
    return _words(4 * sums)


def _words(sums: Words) -> Words:
    """Modulo 2**32."""
    return (sums.astype(object) % (1 << 32)).astype(np.uint32)


def _made(chip: str) -> bytes:
    from rcompiler.profiler.gpu_bench_text import bench_code  # the compiler, not needed elsewhere

    return bench_code(chip)
