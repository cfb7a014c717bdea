"""Micro-benchmarks of a CPU as modules of the llvm dialect, and the measuring of this host.

    peak_f32(data, words, n) -> i64     n times UNROLL multiply-adds on every accumulator; same: f64
    peak_i8(data, words, n) -> i64      the same with dot products of words of i8; same: bf16
    clock(data, words, n) -> i64        n times CHAIN dependent integer operations
    stream(from, bytes, n, sums)        read `bytes` bytes n times, add up all 64-bit words

data: vectors x and y, then the accumulators a, each of which becomes a * x + y; with x = y = 1
they count the steps, as they do with words of 1 and zeros, whose product is 1. sums: STREAMS
vectors, whose sum is n times the sum of the buffer. So all work ends in memory that the caller
looks at, and no compiler may leave it out.

The clock is a chain of operations of one cycle each, beside vector multiply-adds in every second
cycle, since vectors can lower the frequency. A program on the other hyperthread of the core takes
ports from the peaks (measured: 140 falls to 85 operations/ns), hardly anything from the chain.

The buffers are allocated as the tensors of models are, so the same pages and TLB misses count.
"""

import ctypes
from collections.abc import Callable, Collection
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache, partial

import numpy as np

from rcompiler.codegen.cpu import Target, compile_object
from rcompiler.codegen.link import link
from rcompiler.device.measure import TYPES, Bench, measure_device
from rcompiler.device.model import DOT_STEPS, Device
from rcompiler.device.store import fingerprint
from rcompiler.runtime.image import LoadedImage
from rcompiler.runtime.memory import address, arena

# Hide latencies of up to 6 cycles at two ports, and leave registers for x and y among 16.
ACCUMULATORS = 12
UNROLL = 4
WINDOWS = 8  # of a buffer that is larger than all caches
CHAIN = 4 * ACCUMULATORS
STREAMS = 8  # accumulators, and loads in flight, of the stream
_TARGETS = {"x86-64": "x86-64", "v3": "x86-64-v3", "v4": "x86-64-v4"}
_NUMPY = {"f32": np.float32, "f64": np.float64, "i32": np.int32}
_BYTES = {**TYPES, "i32": 4}


_Step = Callable[[str, str], str]  # a multiply-add, from the names of the old and the new sums


@dataclass(frozen=True)
class _Dot:
    """A dot-product instruction: LLVM's name, type of the sums, a word [1, 0, ..] of factors."""

    name: str
    sums: str
    one: int


_DOTS = {
    "i8": _Dot("avx512.vpdpbusd", "i32", 1),
    "bf16": _Dot("avx512bf16.dpbf16ps", "f32", 0x3F80),
}


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
        module = module_text(size, fused=device.level_name != "x86-64")
        objects = [compile_object(module, Target.named(_TARGETS[device.level_name]))]
        if device.dots:  # features of this host beside its level
            objects.append(compile_object(dots_text(size, device.dots), Target.named("host")))
        self._code = LoadedImage(link(objects))
        pointer, word = ctypes.c_void_p, ctypes.c_int64
        self._sums = ctypes.CFUNCTYPE(word, pointer, pointer, word)
        stream = ctypes.CFUNCTYPE(None, pointer, word, word, pointer)
        self._stream = stream(self._code.function("stream"))
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
        sums, one = (_DOTS[name].sums, _DOTS[name].one) if name in _DOTS else (name, None)
        lanes = self._device.compute.vector_bytes // _BYTES[sums]
        run = self._on_accumulators(f"peak_{name}", sums, one)
        return Bench(run, 2 * DOT_STEPS.get(name, 1) * lanes * ACCUMULATORS * UNROLL)

    def clock(self) -> Bench:
        """The frequency of one EU; work in cycles. See `_on_accumulators`."""
        return Bench(self._on_accumulators("clock", "f32"), CHAIN)

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
        caches = [level for level in self._device.memory[:-1] if level.capacity < size]
        private = max((level.capacity for level in caches if level.shared_by == 1), default=0)
        windows = WINDOWS if len(caches) == len(self._device.memory) - 1 else 1
        part = max(size // eus, min(size, 2 * private)) // (block * windows) * block
        gap = (len(buffer) - part * windows) // max(eus - 1, 1) // block * block
        sums = [arena(block, "sums").view(np.uint64) for _ in range(eus)]
        first, outs = address(buffer), [address(s) for s in sums]
        position = 0

        def one(eu: int, start: int, count: int) -> None:
            at = first + eu * gap
            if windows == 1:
                self._stream(at, part, count, outs[eu])
            for window in range(start, start + count) if windows > 1 else ():
                self._stream(at + window % windows * part, part, 1, outs[eu])

        def repeat(count: int) -> list[np.ndarray]:
            nonlocal position
            others = [self._pool.submit(one, eu, position, count) for eu in range(1, eus)]
            one(0, position, count)
            for other in others:
                other.result()
            position += count
            return sums

        return Bench(repeat, part * eus)


def _touched(size: int) -> np.ndarray:
    """Bytes on pages of their own: without a write, all pages are one page of zeros.

    Every 64-bit word of number i * 512 (the first of a page) is i + 1, all others are 0.
    """
    buffer = arena(size, "buffer of a micro-benchmark")
    words = buffer.view(np.uint64)[::512]
    words[:] = np.arange(1, len(words) + 1, dtype=np.uint64)
    return buffer


def module_text(vector_bytes: int, *, fused: bool) -> str:
    """All kernels as one module, for vectors of `vector_bytes`.

    fused: there is a multiply-add instruction; without one, a multiplication and an addition.
    """
    lanes = {name: vector_bytes // size for name, size in TYPES.items()}
    vectors = {name: f"vector<{lanes[name]}x{name}>" for name in TYPES}
    several = {name: partial(_multiply_add, vector, fused) for name, vector in vectors.items()}
    peaks = [
        _sums(f"peak_{name}", vectors[name], several[name], steps=UNROLL, chain=0) for name in TYPES
    ]
    steps = 2 if fused else 1
    clock = _sums("clock", vectors["f32"], several["f32"], steps=steps, chain=CHAIN)
    return "\n".join(["module {", *peaks, clock, _stream(vector_bytes), "}"])


def dots_text(vector_bytes: int, elements: Collection[str]) -> str:
    """The peak kernels of dot groups as one module, for targets that have the instructions."""
    kernels = []
    for element in sorted(elements):
        vector = f"vector<{vector_bytes // 4}x{_DOTS[element].sums}>"
        step = partial(_multiply_dots, element, vector_bytes)
        kernels.append(_sums(f"peak_{element}", vector, step, steps=UNROLL, chain=0))
    return "\n".join(["module {", *kernels, "}"])


_COUNTERS = """  %c0 = llvm.mlir.constant(0 : i64) : i64
  %c1 = llvm.mlir.constant(1 : i64) : i64"""


def _sums(name: str, vector: str, step: _Step, *, steps: int, chain: int) -> str:
    """Multiply-adds on all accumulators, `steps` times per repetition, beside a chain."""
    several = range(ACCUMULATORS)
    values = [[f"%a{i}_{step}" for i in several] for step in range(steps + 1)]
    loads = [
        f"%p{i} = llvm.getelementptr %data[{2 + i}] : (!llvm.ptr) -> !llvm.ptr, {vector}\n"
        f"  %i{i} = llvm.load %p{i} : !llvm.ptr -> {vector}"
        for i in several
    ]
    body = [step(values[k][i], values[k + 1][i]) for k in range(steps) for i in several]
    links = [
        f"%c_{i + 1} = llvm.{'xor' if i % 2 else 'add'} %c_{i}, %w{i % 2} : i64"
        for i in range(chain)
    ]
    stores = [f"llvm.store {values[steps][i]}, %p{i} : {vector}, !llvm.ptr" for i in several]
    return f"""
llvm.func @{name}(%data: !llvm.ptr, %words: !llvm.ptr, %n: i64) -> i64 {{
{_COUNTERS}
  %x = llvm.load %data : !llvm.ptr -> {vector}
  %py = llvm.getelementptr %data[1] : (!llvm.ptr) -> !llvm.ptr, {vector}
  %y = llvm.load %py : !llvm.ptr -> {vector}
  %w0 = llvm.load %words : !llvm.ptr -> i64
  %pw = llvm.getelementptr %words[1] : (!llvm.ptr) -> !llvm.ptr, i64
  %w1 = llvm.load %pw : !llvm.ptr -> i64
  {_lines(loads)}
  llvm.br ^loop({_passed(["%c0", "%c0"], [f"%i{i}" for i in several], vector)})
^loop({_declared(["%k", "%c_0"], values[0], vector)}):
  {_lines(_mixed(body, links))}
  %k1 = llvm.add %k, %c1 : i64
  %more = llvm.icmp "slt" %k1, %n : i64
  llvm.cond_br %more, ^loop({_passed(["%k1", f"%c_{chain}"], values[steps], vector)}), ^done
^done:
  {_lines(stores)}
  llvm.return %c_{chain} : i64
}}"""


def _multiply_add(vector: str, fused: bool, old: str, new: str) -> str:
    """new = old * x + y"""
    if fused:
        return f"{new} = llvm.intr.fma({old}, %x, %y) : ({vector}, {vector}, {vector}) -> {vector}"
    return f"{new}m = llvm.fmul {old}, %x : {vector}\n  {new} = llvm.fadd {new}m, %y : {vector}"


def _multiply_dots(element: str, size: int, old: str, new: str) -> str:
    """new = old + the products of the words of x and y"""
    dot = _DOTS[element]
    vector = f"vector<{size // 4}x{dot.sums}>"
    words = f"vector<{size // 4 * DOT_STEPS[element]}x{element}>"
    call = f'llvm.call_intrinsic "llvm.x86.{dot.name}.{8 * size}"({old}, {new}x, {new}y)'
    return f"""{new}x = llvm.bitcast %x : {vector} to {words}
  {new}y = llvm.bitcast %y : {vector} to {words}
  {new} = {call} : ({vector}, {words}, {words}) -> {vector}"""


def _mixed(body: list[str], links: list[str]) -> list[str]:
    """Both lists in order, the second spread evenly over the first."""
    each = -(-len(links) // len(body))
    return [line for i, op in enumerate(body) for line in (op, *links[i * each : (i + 1) * each])]


def _stream(vector_bytes: int) -> str:
    vector = f"vector<{vector_bytes // 8}xi64>"
    several = range(STREAMS)
    outer, old, new = ([f"%{letter}{i}" for i in several] for letter in "oab")
    loads = [
        f"%q{i} = llvm.getelementptr %q[{i}] : (!llvm.ptr) -> !llvm.ptr, {vector}\n"
        f"  %l{i} = llvm.load %q{i} : !llvm.ptr -> {vector}\n"
        f"  {new[i]} = llvm.add {old[i]}, %l{i} : {vector}"
        for i in several
    ]
    stores = [
        f"%w{i} = llvm.getelementptr %sums[{i}] : (!llvm.ptr) -> !llvm.ptr, {vector}\n"
        f"  llvm.store {new[i]}, %w{i} : {vector}, !llvm.ptr"
        for i in several
    ]
    return f"""
llvm.func @stream(%from: !llvm.ptr, %bytes: i64, %n: i64, %sums: !llvm.ptr) {{
{_COUNTERS}
  %step = llvm.mlir.constant({vector_bytes * STREAMS} : i64) : i64
  %zero = llvm.mlir.constant(dense<0> : {vector}) : {vector}
  llvm.br ^pass({_passed(["%c0"], ["%zero"] * STREAMS, vector)})
^pass({_declared(["%k"], outer, vector)}):
  llvm.br ^loop({_passed(["%c0"], outer, vector)})
^loop({_declared(["%at"], old, vector)}):
  %q = llvm.getelementptr %from[%at] : (!llvm.ptr, i64) -> !llvm.ptr, i8
  {_lines(loads)}
  %next = llvm.add %at, %step : i64
  %more = llvm.icmp "slt" %next, %bytes : i64
  llvm.cond_br %more, ^loop({_passed(["%next"], new, vector)}), ^passed
^passed:
  %k1 = llvm.add %k, %c1 : i64
  %again = llvm.icmp "slt" %k1, %n : i64
  llvm.cond_br %again, ^pass({_passed(["%k1"], new, vector)}), ^done
^done:
  {_lines(stores)}
  llvm.return
}}"""


def _lines(lines: list[str]) -> str:
    return "\n  ".join(lines)


def _passed(words: list[str], vectors: list[str], vector: str) -> str:
    """Arguments of a branch: 64-bit integers and vectors."""
    types = ["i64"] * len(words) + [vector] * len(vectors)
    return f"{', '.join([*words, *vectors])} : {', '.join(types)}"


def _declared(words: list[str], vectors: list[str], vector: str) -> str:
    """Arguments of a block: 64-bit integers and vectors."""
    return ", ".join([f"{w}: i64" for w in words] + [f"{v}: {vector}" for v in vectors])
