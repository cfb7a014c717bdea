"""What runs find in the caches, worked out by hand; and figures found again from the times."""

from dataclasses import dataclass, replace

import numpy as np
import pytest
from measurements._recall_fit import Sample, fit_recall
from rammer_cases import chain, kernel

from rcompiler.device.cpu import cpu_device
from rcompiler.device.measured import Recall
from rcompiler.device.model import Costs, MemoryLevel
from rcompiler.device.record import from_json, to_json
from rcompiler.errors import DeviceError
from rcompiler.rammer.expected import expected, timed
from rcompiler.rammer.policy.base import schedule_base
from rcompiler.rammer.policy.rammer import schedule_rammer
from rcompiler.rammer.program import Run
from rcompiler.rammer.recall import CHUNK, Recalls
from rcompiler.rammer.simulate import simulate

SHAPE = (64, 64)  # of f32: one chunk
COSTS = Costs(task_ns=1e-6, hand_off_ns=100, barrier_ns=200, launch_ns=500, min_task_ns=1)
RATE = 16.0  # GB/s: a chunk takes 1024 ns
NS = CHUNK / RATE


def level(name, chunks, bandwidth, sharers=1):
    return MemoryLevel(name, chunks * CHUNK, 64, 8, bandwidth, 2 * bandwidth, sharers)


MEMORY = (level("L2", 8, 200.0), level("L3", 64, 100.0, 2), level("DRAM", 1 << 16, 32.0, 2))


def recall(chunks=64, rate=RATE, shared_rate=64.0, speed=1.0, cache_speed=1.0):
    sizes = int(chunks * CHUNK), rate, shared_rate
    return Recall(*sizes, 0.0, "2026-01-01", 1, speed, cache_speed)


DEVICE = replace(cpu_device("v3"), eus=2, memory=MEMORY, costs=COSTS, recall=recall())


def once(chunks=64, parts=(), device=DEVICE):
    """One operator of one rTask of 1000 ns, x -> v0: its recalls, program and run."""
    one = replace(kernel("one", SHAPE, (1, 1), "w", estimated_ns=1000.0), parts=parts)
    graph = chain([one], [[-1]])
    [program] = schedule_base(graph, 2, COSTS)
    [run] = [step for queue in program.queues for step in queue if isinstance(step, Run)]
    return Recalls(graph, device, recall(chunks)), program, run


def test_everything_comes_from_memory_at_first():
    recalls, program, run = once()
    ns, moved = recalls.run(program, 0, run)
    assert moved == 4 * CHUNK  # code, x, and v0 twice: it is read before it is written over
    assert ns == pytest.approx(4 * NS + 0.2 * 1000)
    assert recalls.run(program, 0, run) == (pytest.approx(1000), 0.0)


def test_arithmetic_and_caches_have_speeds_of_their_own():
    # Arithmetic of 900 ns hides caches of 250 and 200 ns but for a fifth: 990 ns, and 10 ns more.
    recalls, program, run = once(parts=(("compute", 900.0), ("L1", 250.0), ("L2", 200.0)))
    recalls.run(program, 0, run)
    for speeds, ns in (((1.0, 1.0), 1000), ((2.0, 1.0), 550), ((1.0, 2.0), 955), ((4.0, 0.5), 635)):
        figures = recall(speed=speeds[0], cache_speed=speeds[1])
        again = recalls.again(figures)
        again.run(program, 0, run)
        assert again.run(program, 0, run)[0] == pytest.approx(ns)


def test_a_measured_time_is_shared_out_like_the_estimate():
    parts = (("compute", 1800.0), ("L1", 500.0), ("L2", 400.0))  # twice what was measured
    recalls, program, run = once(parts=parts)
    again = recalls.again(recall(speed=2.0))
    again.run(program, 0, run)
    assert again.run(program, 0, run)[0] == pytest.approx(1000 * 540 / 990)


def test_the_last_cache_forgets():
    """Of code, x and v0 it keeps what was touched last: at the second run none is there in time."""
    recalls, program, run = once(chunks=2)
    recalls.run(program, 0, run)
    # the operands are still in the EU's own cache, the code is not followed there
    assert recalls.run(program, 0, run) == (pytest.approx(NS + 0.2 * 1000), CHUNK)
    assert recalls.run(program, 1, run)[1] == 4 * CHUNK
    recalls, program, run = once(chunks=3)
    recalls.run(program, 0, run)
    assert recalls.run(program, 1, run)[1] == 0.0


def test_what_is_near_need_not_come_from_the_last_cache():
    recalls, program, run = once(parts=(("compute", 100.0), ("L3", 800.0)))
    recalls.run(program, 0, run)
    saved = 2 * CHUNK / 100.0  # of 800 ns, which are the longest part before and after
    assert recalls.run(program, 0, run)[0] == pytest.approx(1000 - saved)
    # written by another EU: x is near still, v0 is not
    recalls.run(program, 1, run)
    assert recalls.run(program, 0, run)[0] == pytest.approx(1000 - saved / 2)


def test_a_tensor_too_large_for_caches_is_estimated_from_memory():
    small = replace(DEVICE, memory=(level("L2", 1, 200.0), level("L3", 2, 100.0), MEMORY[2]))
    recalls, program, run = once(device=small)
    assert recalls.run(program, 0, run) == (pytest.approx(1000), 4 * CHUNK)


def steps(count, weights):
    """`count` operators in a row, whose values are touched again `weights` operators later."""
    # one waits for arithmetic, the next one for a cache
    kernels = [
        replace(kernel(name, (256, 64), (2, 1), "tw", estimated_ns=3e5), parts=parts)
        for name, parts in (
            ("one", (("compute", 2.5e5), ("L2", 1e5))),
            ("two", (("compute", 5e4), ("L2", 2.4e5))),
        )
    ]
    reads = [[i - 1, max(-1, i - 1 - weights)] for i in range(count)]
    return chain([kernels[i % 2] for i in range(count)], reads)


def test_a_schedule_is_simulated_with_warm_caches():
    graph = steps(6, 0)
    programs = schedule_rammer(graph, 2, COSTS)
    recalls = Recalls(graph, DEVICE, recall())
    plain = simulate(programs, graph, COSTS).makespan_ns
    cold = simulate(programs, graph, COSTS, None, recalls).makespan_ns
    assert cold > plain
    line = simulate(programs, graph, COSTS, None, recalls)
    assert line.makespan_ns == pytest.approx(plain)
    assert max(line.work_bound_ns, line.path_bound_ns) <= line.makespan_ns
    assert line.bandwidth_bound_ns == 0.0


def test_what_is_expected_of_a_schedule():
    """By the figures of a device that is calibrated, else by the estimates of its rTasks."""
    graph = steps(6, 3)
    programs = schedule_rammer(graph, 2, COSTS)
    plain = replace(DEVICE, recall=None)
    assert expected(programs, graph, plain).spans == simulate(programs, graph, COSTS).spans
    slowed = expected(programs, graph, plain, contention=True)
    shared = simulate(programs, graph, COSTS, plain.shared_bandwidth)
    assert slowed.makespan_ns == shared.makespan_ns
    recalls = Recalls(graph, DEVICE, DEVICE.recall)
    recalls.warm(programs)
    warm = simulate(programs, graph, COSTS, DEVICE.recall.shared_rate, recalls)
    assert expected(programs, graph, DEVICE).spans == warm.spans


def test_kernels_take_the_times_of_a_report():
    @dataclass
    class Told:
        kernel: str
        task_ns: float
        parts: tuple[tuple[str, float], ...]

    kernels = [kernel(name, SHAPE, (1, 1), "w", estimated_ns=1.0) for name in ("a", "b")]
    first, second = timed(kernels, [Told("a", 7.0, (("L3", 5.0),))])
    assert (first.estimated_ns, first.parts) == (7.0, (("L3", 5.0),))
    assert second == kernels[1]


def test_memory_is_shared_by_the_EUs():
    graph = chain([kernel("one", (256, 256), (2, 1), "t", estimated_ns=1.0)], [[-1]])
    programs = schedule_rammer(graph, 2, COSTS)
    fresh = Recalls(graph, DEVICE, recall())
    alone = simulate(programs, graph, COSTS, None, fresh.again(recall())).makespan_ns
    shared = simulate(programs, graph, COSTS, RATE, fresh.again(recall())).makespan_ns
    # 8 chunks of x and 8 of v0 each, and the code, which only the first one has to fetch
    assert alone - 500 == pytest.approx(25 * NS, abs=1)
    assert shared - 500 == pytest.approx(49 * NS, abs=1)


@pytest.mark.parametrize(
    "kept, rate, shared, speed, caches",
    [(4, 1, 5, 0, 0), (6, 4, 2, 5, 5), (0, 8, 9, -3, 7), (3, 2, 2, 9, -4)],
)
def test_figures_are_found_again(kept, rate, shared, speed, caches):
    """On the values that are tried: parts of a power of two, thirds, of speeds 24ths and 12ths."""
    rates = [float(f"{most / 2 ** (n / 3):.2g}") for most, n in ((32.0, rate), (64.0, shared))]
    speeds = round(2 ** (speed / 24), 3), round(2 ** (caches / 12), 3)
    truth = recall(64 / 2 ** (kept / 3), *rates, *speeds)
    device = replace(DEVICE, recall=truth)
    samples = []
    for count, weights in ((20, 5), (25, 8), (12, 1), (18, 3)):
        for eus in (1, 2):
            graph = steps(count, weights)
            programs = tuple(schedule_rammer(graph, eus, COSTS))
            ns = Sample(programs, graph, 0.0).expected_ns(device)
            samples.append(Sample(programs, graph, ns))
    found = fit_recall(samples, DEVICE, "2026-02-02")
    assert found.error == pytest.approx(0.0, abs=1e-6) and found.date == "2026-02-02"
    assert (found.rate, found.speed) == (truth.rate, truth.speed)
    assert found.cache_speed == truth.cache_speed
    # of sizes that keep the same, the largest is taken, and of rates that slow nobody down
    assert truth.kept_bytes <= found.kept_bytes
    assert truth.shared_rate <= found.shared_rate


def test_without_schedules_of_several_EUs_memory_is_shared_as_measured():
    graph = steps(12, 1)
    programs = tuple(schedule_rammer(graph, 1, COSTS))
    found = fit_recall([Sample(programs, graph, 4e6)], DEVICE, "")
    assert found.shared_rate == MEMORY[-1].shared_bandwidth


@pytest.mark.parametrize("eus", [(), (2,)])
def test_nothing_to_fit(eus):
    graph = steps(2, 0)
    samples = [Sample(tuple(schedule_rammer(graph, n, COSTS)), graph, 1e6) for n in eus]
    with pytest.raises(DeviceError, match="0 timed schedules of one EU, 3 memory levels; give one"):
        fit_recall(samples, DEVICE, "")


# -- the record ------------------------------------------------------------------------------
def test_a_recall_is_a_part_of_the_record():
    assert from_json(to_json(DEVICE)) == DEVICE
    assert "recall" not in to_json(replace(DEVICE, recall=None))


@pytest.mark.parametrize("figures", [(0, 1.0, 1.0), (1, 0.0, 1.0), (1, np.inf, 1.0), (1, 1.0, 0.0)])
def test_impossible_figures_are_refused(figures):
    with pytest.raises(DeviceError, match="recall: .* must be a number above 0"):
        Recall(*figures, 0.0, "", 1)
    with pytest.raises(DeviceError, match="recall: speed is 0.0; it must be a number above 0"):
        Recall(1, 1.0, 1.0, 0.0, "", 1, 0.0)


def test_a_recall_needs_two_caches():
    with pytest.raises(DeviceError, match=r"recall with memory levels \['L3', 'DRAM'\]"):
        replace(DEVICE, memory=MEMORY[1:])
