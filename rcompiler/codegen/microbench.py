"""Micro-benchmarks of a CPU as modules of the llvm dialect, and the measuring of this host.

    peak_f32(data, words, n) -> i64     n times UNROLL multiply-adds on every accumulator; same: f64
    peak_i8(data, words, n) -> i64      the same with dot products of words of i8; same: bf16
    clock(data, words, n) -> i64        n times CHAIN dependent integer operations
    one_chain(data, words, n) -> i64    n times LINKS dependent multiply-adds
    chains(data, words, n) -> i64       the same on every accumulator, one after the other
    stream(from, bytes, n, sums)        read `bytes` bytes n times, add up all 64-bit words
    feed(from, bytes, n, sums)          the same of f64 numbers, each of them multiplied twice

data: vectors x and y, then the accumulators a, each of which becomes a * x + y; with x = y = 1
they count the steps, as they do with words of 1 and zeros, whose product is 1. sums: STREAMS
vectors, whose sum is n times the sum of the buffer; behind them ONES bytes of factors for `feed`.
So all work ends in memory that the caller looks at, and no compiler may leave it out.

Chains that follow each other run at the same time as far as the window of the EU reaches: with a
window of W operations, W / LINKS of them. `feed` reads as a product of matrices does: beside every
vector from further away one from the first level.

The clock is a chain of operations of one cycle each, beside vector multiply-adds in every second
cycle, since vectors can lower the frequency. A program on the other hyperthread of the core takes
ports from the peaks (measured: 140 falls to 85 operations/ns), hardly anything from the chain.

The buffers are allocated as the tensors of models are, so the same pages and TLB misses count.
"""

import ctypes
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache

import numpy as np

from rcompiler.codegen.cpu import Target, compile_object
from rcompiler.codegen.link import link
from rcompiler.codegen.microbench_text import (
    ACCUMULATORS,
    CHAIN,
    DOTS,
    ONES,
    STREAMS,
    UNROLL,
    dots_text,
    module_text,
)
from rcompiler.device.instruction_set import InstructionSet
from rcompiler.device.measure import LINKS, TYPES, Bench, measure_device
from rcompiler.device.model import DOT_STEPS, Device
from rcompiler.device.store import fingerprint
from rcompiler.runtime.image import LoadedImage
from rcompiler.runtime.memory import address, arena

WINDOWS = 8  # of a buffer that is larger than all caches
_NUMPY = {"f32": np.float32, "f64": np.float64, "i32": np.int32}
_BYTES = {**TYPES, "i32": 4}


def measure_host(
    device: Device, *, seconds: float = 0.001, rounds: int = 6, most: int = 256 << 20
) -> Device:
    """`device`, the host as it was detected, with measured figures.

    seconds: of one run of a kernel; rounds: runs of each; most: bytes of a buffer, see
    `measure_device`. The defaults take about 0.2 s in all.

    Raises:
        DeviceError: no memory for the buffers, or executable memory is refused.
        CompilerError: LLVM rejects a kernel.
    """
    with Kernels(device) as kernels:
        return measure_device(
            device,
            kernels,
            machine=fingerprint(device),
            seconds=seconds,
            rounds=rounds,
            most=most,
        )


class Kernels:
    """The compiled kernels for the feature level of a device; makes the `Bench`es of measuring.

    A context manager: it has threads and buffers until it is left.
    """

    def __init__(self, device: Device) -> None:
        """Compile and load. Raises as `measure_host`."""
        self._device = device
        size = device.compute.vector_bytes
        module = module_text(size, fused=device.has_fma)
        objects = [compile_object(module, Target.of(InstructionSet(device.level_name)))]
        if device.dots:  # features of this host beside its level
            objects.append(compile_object(dots_text(size, device.dots), Target.named("host")))
        self._code = LoadedImage(link(objects))
        pointer, word = ctypes.c_void_p, ctypes.c_int64
        self._sums = ctypes.CFUNCTYPE(word, pointer, pointer, word)
        stream = ctypes.CFUNCTYPE(None, pointer, word, word, pointer)
        self._stream, self._feed = (stream(self._code.function(n)) for n in ("stream", "feed"))
        self._cpus = sorted(os.sched_getaffinity(0))
        self._pool = ThreadPoolExecutor(device.eus, "rcompiler measuring")
        self._buffer = cache(_touched)

    def __enter__(self) -> "Kernels":
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.shutdown()
        self._buffer.cache_clear()

    def peak(self, name: str) -> Bench:
        """Multiply-adds of one EU on "f32" or "f64", or of dot groups of "i8" or "bf16"; work in
        operations. See `_on_accumulators`.
        """
        sums, one = (DOTS[name].sums, DOTS[name].one) if name in DOTS else (name, None)
        lanes = self._device.compute.vector_bytes // _BYTES[sums]
        run = self._on_accumulators(f"peak_{name}", sums, one)
        return Bench(run, 2 * DOT_STEPS.get(name, 1) * lanes * ACCUMULATORS * UNROLL)

    def clock(self) -> Bench:
        """The frequency of one EU; work in cycles. See `_on_accumulators`."""
        return Bench(self._on_accumulators("clock", "f32"), CHAIN)

    def chains(self, *, several: bool) -> Bench:
        """Chains of LINKS dependent multiply-adds: one, or several, one after the other; work in
        multiply-adds on vectors. See `_on_accumulators`.
        """
        if several:
            return Bench(self._on_accumulators("chains", "f32"), LINKS * ACCUMULATORS)
        return Bench(self._on_accumulators("one_chain", "f32"), LINKS)

    def _on_accumulators(
        self, symbol: str, name: str, one: int | None = None
    ) -> Callable[[int], tuple[int, np.ndarray]]:
        """A kernel on zeros: a function that returns the chain's end and the accumulators.

        Every multiply-add adds 1 to an accumulator, every second operation of the chain adds 1.
        one: the word whose product with itself is 1; None: the number of the type.
        """
        size = self._device.compute.vector_bytes
        data = arena((2 + ACCUMULATORS) * size, "accumulators").view(_NUMPY[name])
        vectors = data.reshape(2 + ACCUMULATORS, -1)
        if one is None:
            vectors[:2] = 1
        else:
            vectors[:2].view(np.int32)[:] = one
        words = arena(16, "operands of the chain").view(np.int64)
        words[0] = 1  # to add; the other one, for the exclusive or, is 0

        def repeat(count: int) -> tuple[int, np.ndarray]:
            kernel = self._sums(self._code.function(symbol))
            return kernel(address(data), address(words), count), vectors[2:]

        return repeat

    def stream(self, size: int, eus: int) -> Bench:
        """Read a buffer of `size` bytes with `eus` EUs at once; work in bytes.

        Each EU reads a part of its own, if that is no less than a cache that it has to miss: the
        parts overlap where the last caches are smaller than the ones before together. What no cache
        holds is read a window further at every repetition, so a repetition is short there too.
        """
        block = STREAMS * self._device.compute.vector_bytes
        buffer = self._buffer(-(-size // block) * block)
        caches = [level for level in self._device.caches if level.capacity < size]
        private = max((level.capacity for level in caches if level.shared_by == 1), default=0)
        windows = WINDOWS if len(caches) == len(self._device.caches) else 1
        part = max(size // eus, min(size, 2 * private)) // (block * windows) * block
        gap = (len(buffer) - part * windows) // max(eus - 1, 1) // block * block
        sums = [arena(block, "sums").view(np.uint64) for _ in range(eus)]
        first, outs = address(buffer), [address(s) for s in sums]
        position = 0

        def one(eu: int, start: int, count: int) -> None:
            if eus > 1:  # else a thread may wake up on the CPU of the one that called for it
                os.sched_setaffinity(0, {self._cpus[eu % len(self._cpus)]})
            at = first + eu * gap
            if windows == 1:
                self._stream(at, part, count, outs[eu])
            for window in range(start, start + count) if windows > 1 else ():
                self._stream(at + window % windows * part, part, 1, outs[eu])

        def repeat(count: int) -> list[np.ndarray]:
            nonlocal position
            others = [self._pool.submit(one, eu, position, count) for eu in range(1, eus)]
            try:
                one(0, position, count)
            finally:
                os.sched_setaffinity(0, self._cpus)
            for other in others:
                other.result()
            position += count
            return sums

        return Bench(repeat, part * eus, threads=eus)

    def feed(self, size: int) -> Bench:
        """Multiply `size` bytes of operands on one EU; work in bytes."""
        block = STREAMS * self._device.compute.vector_bytes
        operands = arena(-(-size // block) * block, "operands").view(np.float64)
        sums = arena(block + ONES, "sums").view(np.float64)
        operands[:] = sums[block // 8 :] = 1

        def repeat(count: int) -> np.ndarray:
            self._feed(address(operands), operands.nbytes, count, address(sums))
            return sums[: block // 8]

        return Bench(repeat, operands.nbytes)


def _touched(size: int) -> np.ndarray:
    """Bytes on pages of their own: without a write, all pages are one page of zeros.

    Every 64-bit word of number i * 512 (the first of a page) is i + 1, all others are 0.
    """
    buffer = arena(size, "buffer of a micro-benchmark")
    words = buffer.view(np.uint64)[::512]
    words[:] = np.arange(1, len(words) + 1, dtype=np.uint64)
    return buffer
