"""Micro-benchmarks: they do the work that they claim, on every feature level of this host."""

import math

import numpy as np
import pytest

from rcompiler.codegen import microbench
from rcompiler.codegen.assembly import assembly
from rcompiler.codegen.microbench import WINDOWS, Kernels, measure_host
from rcompiler.codegen.microbench_text import ACCUMULATORS, CHAIN, STREAMS, UNROLL, module_text
from rcompiler.device.cpu import cpu_device, detect_cpu, host_features
from rcompiler.device.host_flags import LEVELS
from rcompiler.device.measure import LINKS, figures, stream_sizes, streams
from rcompiler.device.model import DOT_STEPS
from rcompiler.device.record import from_json, to_json
from rcompiler.device.store import fingerprint

HERE = [level for level, needs in LEVELS.items() if needs <= host_features()]


@pytest.fixture(scope="module", params=HERE)
def kernels(request):
    # small caches: small buffers
    with Kernels(cpu_device(request.param, eus=2)) as found:
        yield found


@pytest.mark.parametrize("name", ["f32", "f64"])
def test_every_accumulator_counts_every_multiply_add(kernels, name):
    bench = kernels.peak(name)
    _, found = bench.run(25)
    assert found.shape[0] == ACCUMULATORS and (found == 25 * UNROLL).all()
    _, found = bench.run(1)
    assert (found == 26 * UNROLL).all()
    assert bench.work == 2 * found.size * UNROLL  # a multiplication and an addition each


@pytest.mark.parametrize("name", sorted(detect_cpu().dots))
def test_every_accumulator_counts_every_dot_product(name):
    with Kernels(detect_cpu(eus=1)) as kernels:
        bench = kernels.peak(name)
        _, found = bench.run(25)
    assert found.shape[0] == ACCUMULATORS and (found == 25 * UNROLL).all()
    assert bench.work == 2 * DOT_STEPS[name] * found.size * UNROLL


def test_the_chain_takes_every_step(kernels):
    bench = kernels.clock()
    total, found = bench.run(1000)
    assert total == 1000 * CHAIN // 2 and bench.work == CHAIN
    assert np.unique(found) in (1000.0, 2000.0)  # and multiply-adds run beside it


@pytest.mark.parametrize("several", [False, True])
def test_every_chain_takes_every_step(kernels, several):
    bench = kernels.chains(several=several)
    _, found = bench.run(10)
    chains = ACCUMULATORS if several else 1
    assert (found[:chains] == 10 * LINKS).all() and not found[chains:].any()
    assert bench.work == chains * LINKS


def test_every_operand_is_multiplied_twice(kernels):
    bench = kernels.feed(10_000)
    assert 10_000 <= bench.work <= 10_000 + 512
    assert bench.run(3).sum() == 3 * 2 * bench.work // 8
    assert bench.run(1).sum() == 2 * bench.work // 8


@pytest.mark.parametrize("eus", [1, 2])
def test_a_stream_reads_every_word_every_time(kernels, eus):
    for size in (8192, 1 << 20, 4 << 20):
        bench = kernels.stream(size, eus)
        parts = [int(sums.sum()) for sums in bench.run(3)]
        pages = np.arange(1, size // 4096 + 1, dtype=np.uint64)  # in the first word of each
        part = bench.work // eus
        assert part * eus == bench.work and size <= bench.work <= 2 * size
        first, last = pages[: math.ceil(part / 4096)], pages[-math.ceil(part / 4096) :]
        assert parts == [3 * int(p.sum()) for p in (first, last)][:eus]
        assert len(parts) == eus and min(parts) > 0


def test_what_no_cache_holds_is_read_in_turn(kernels):
    size = stream_sizes(cpu_device("v3"))["DRAM"]
    bench = kernels.stream(size, 1)
    assert bench.work == size // WINDOWS
    [sums] = bench.run(1)
    firsts = [int(sums.sum())]
    for _ in range(WINDOWS):
        bench.run(1)
        firsts.append(int(sums.sum()))
    assert firsts == sorted(set(firsts[:-1])) + [firsts[0]]  # onwards, then from the start
    pages = size // 4096
    assert sum(firsts[:-1]) == pages * (pages + 1) // 2


def test_two_eus_read_different_halves_of_main_memory(kernels):
    size = stream_sizes(cpu_device("v3"))["DRAM"]
    bench = kernels.stream(size, 2)
    totals = np.zeros(2, int)
    for _ in range(WINDOWS):
        totals += [int(sums.sum()) for sums in bench.run(1)]
    pages = size // 4096
    assert bench.work * WINDOWS == size and totals.sum() == pages * (pages + 1) // 2
    assert totals[1] > totals[0]


@pytest.mark.parametrize(
    ("cpu", "vector_bytes", "multiply_add", "register"),
    [
        ("x86-64-v4", 64, "vfmadd", "zmm"),
        ("x86-64-v3", 32, "vfmadd", "ymm"),
        ("x86-64", 16, "mulps", "xmm"),
    ],
)
def test_the_loop_of_a_peak_kernel_touches_no_memory(cpu, vector_bytes, multiply_add, register):
    text = assembly(module_text(vector_bytes, fused=cpu != "x86-64"), cpu, "")
    body = text.partition("peak_f32:")[2].partition("peak_f64:")[0]
    lines = [line for line in body.splitlines() if multiply_add in line]
    assert len(lines) == ACCUMULATORS * UNROLL
    assert all(register in line for line in lines)
    loop = body[body.index(lines[0]) : body.index(lines[-1])]
    assert "(%r" not in loop  # no spills
    chains = text.partition("\nchains:")[2].partition("\nstream:")[0].splitlines()
    chains = [line for line in chains if multiply_add in line]
    sums = [line.rpartition("%")[2] for line in chains if multiply_add != "mulps"]
    assert len(chains) == ACCUMULATORS * LINKS
    assert all(len({*sums[i : i + LINKS]}) == 1 for i in range(0, len(sums), LINKS))
    stream = text.partition("\nstream:")[2].partition("\nfeed:")[0]
    assert sum("(%r" in line and "add" in line for line in stream.splitlines()) >= STREAMS


@pytest.mark.parametrize("level", [*HERE, None])
def test_a_measured_record(level):
    """Only that figures are there and plausible by orders of magnitude: the machine may be busy."""
    base = detect_cpu(level, eus=2)
    most = 64 << 20
    found = measure_host(base, seconds=1e-4, rounds=2, most=most)
    values = figures(found)
    too_large = {name for name, size, _ in streams(base) if size > most}
    assert all(0.01 < value < 1e5 for value in values.values())
    assert 0.1 < values["clock"] < 10
    speeds = [memory.bandwidth for memory in found.memory]
    assert speeds == sorted(speeds, reverse=True)
    expected = tuple(name for name in values if name not in too_large)
    assert found.measured and found.measurement.figures == expected
    assert found.measurement.machine == fingerprint(base)
    assert from_json(to_json(found)) == found


def test_threads_and_buffers_are_given_back():
    with Kernels(cpu_device("x86-64", eus=2)) as kernels:
        bench = kernels.stream(1 << 20, 2)
        bench.run(1)
    with pytest.raises(RuntimeError, match="shutdown"):
        bench.run(1)


def test_pages_are_written_before_they_are_read():
    words = microbench._touched(5 * 4096 + 512).view(np.uint64)
    assert list(words[::512]) == [1, 2, 3, 4, 5, 6] and int(words.sum()) == 21
