"""Measuring with benches that move a clock of their own: every figure is computed by hand."""

from dataclasses import replace
from types import SimpleNamespace

import pytest

from rcompiler.device import measure
from rcompiler.device.cpu import cpu_device, with_figures
from rcompiler.device.host_flags import LEVELS
from rcompiler.device.measure import (
    Bench,
    figures,
    measure_device,
    rates,
    stream_sizes,
    summary,
)
from rcompiler.device.record import from_json, to_json
from rcompiler.errors import DeviceError


class Clock:
    """Nanoseconds that only benches move."""

    def __init__(self, monkeypatch):
        self.now = 0
        clocks = dict.fromkeys(("perf_counter_ns", "thread_time_ns"), lambda: self.now)
        monkeypatch.setattr(measure, "time", SimpleNamespace(**clocks))

    def bench(self, work, per_ns, disturbed=lambda: 1.0):
        """Does `work` per repetition at a rate of `per_ns`, slower by a factor when disturbed."""
        runs = []

        def run(count):
            runs.append(count)
            self.now += round(count * work / per_ns * disturbed())

        bench = Bench(run, work)
        return bench, runs


@pytest.fixture
def clock(monkeypatch):
    return Clock(monkeypatch)


class Fakes:
    """Kernels of a device with known speeds: per bytes of the buffer and EUs for the streams."""

    def __init__(self, clock, device, alone, together, ghz=2.345, f32=123.4, f64=60.04):
        self.clock_, self.asked = clock, []
        self.speeds = {"clock": ghz, "f32": f32, "f64": f64, "i8": 3 * f32, "bf16": f32}
        # chains of 128 run 2.5 at a time: the window is 320
        self.speeds |= {"one chain": 0.5, "chains": 1.25, "feed": 0.6 * alone.get("L2", 1.0)}
        sizes = stream_sizes(device)
        self.streams = {(sizes[name], 1): speed for name, speed in alone.items()}
        self.streams |= {(size, device.eus): speed for size, speed in together.items()}

    def clock(self):
        return self._bench("clock", 48)

    def peak(self, name):
        return self._bench(name, 1536)

    def chains(self, *, several):
        return self._bench("chains" if several else "one chain", 128)

    def feed(self, size):
        assert size == 128 << 10  # what lives in L2
        return self._bench("feed", size)

    def stream(self, size, eus):
        self.asked.append((size, eus))
        return self.clock_.bench(size, self.streams[size, eus])[0]

    def _bench(self, name, work):
        self.asked.append(name)
        return self.clock_.bench(work, self.speeds[name])[0]


def test_rates_are_those_of_the_best_run(clock):
    slowdowns = iter([1.0] * 100)
    bench, runs = clock.bench(100, 5.0, lambda: next(slowdowns, 3.0))
    assert rates({"b": bench}, seconds=1e-5, rounds=4)["b"] == pytest.approx(5.0)
    # 10 us at 20 ns per repetition: 500 of them, one to warm up before each of the timed runs
    assert runs[-8:] == [1, runs[-1]] * 4 and 500 <= runs[-1] <= 650


def test_a_disturbed_run_does_not_count(clock):
    now = iter(range(1000))
    bench, _ = clock.bench(100, 5.0, lambda: 1.0 if next(now) % 7 == 0 else 4.0)
    assert rates({"b": bench}, seconds=1e-5, rounds=14)["b"] == pytest.approx(5.0)


def test_benches_take_turns(clock):
    order = []
    benches = {}
    for name in "ab":
        bench, _ = clock.bench(1000, 1.0)
        benches[name] = Bench(
            lambda n, run=bench.run, name=name: (order.append(name), run(n)), 1000
        )
    rates(benches, seconds=1e-6, rounds=3)
    assert "".join(order).endswith("aabb" * 3)


@pytest.mark.parametrize("work", [0, -5])
def test_no_work_is_refused(clock, work):
    with pytest.raises(DeviceError, match=f"does {work} work"):
        rates({"b": Bench(lambda count: None, work)}, seconds=0.01, rounds=1)


def test_measuring_fills_a_record(clock):
    device = cpu_device("v3", eus=2)
    sizes = stream_sizes(device)
    alone = {"L1": 180.4, "L2": 91.23, "L3": 17.77, "DRAM": 9.449}
    kernels = Fakes(clock, device, alone, {sizes["L3"]: 33.0, sizes["DRAM"]: 12.04})
    found = measure_device(device, kernels, seconds=1e-3, rounds=2)
    assert figures(found) == {
        "clock": 2.3,
        "peak f32": 120.0,
        "peak f64": 60.0,
        "window": 320.0,
        "bandwidth L1": 180.0,
        "bandwidth L2": 91.0,
        "bandwidth L3": 18.0,
        "bandwidth DRAM": 9.4,
        "feed L2": 55.0,
        "shared bandwidth L3": 33.0,
        "shared bandwidth DRAM": 12.0,
    }
    # the clock after the peaks, whose frequency it is to find; every level once per kind
    assert kernels.asked[:6] == ["f32", "f64", "clock", "one chain", "chains", "feed"]
    assert kernels.asked[6:] == [(s, 1) for s in sizes.values()] + [
        (sizes["L3"], 2),
        (sizes["DRAM"], 2),
    ]
    assert found.measured and from_json(to_json(found)) == found
    # of eight sharers two drew, so two share what was measured
    assert found.level("L3").shared_by == 2 and found.level("L3").share(2) == 16.5
    assert found.level("L1").shared_bandwidth == 180.0
    assert found.level("L2").fed == 55.0 and found.level("L3").fed == 18.0
    # what is not measured stays
    assert found.costs == device.costs and found.compute.fma_ports == device.compute.fma_ports


def test_an_inner_level_is_never_slower(clock):
    device = cpu_device("v4", eus=1)
    alone = {"L1": 300.0, "L2": 8.0, "L3": 20.0, "DRAM": 10.0}
    found = measure_device(device, Fakes(clock, device, alone, {}), seconds=1e-3, rounds=1)
    assert [level.bandwidth for level in found.memory] == [300.0, 20.0, 20.0, 10.0]


def test_dot_products_are_measured_where_they_are(clock):
    device = cpu_device("v4", features=LEVELS["v4"] | {"avx512vnni", "avx512bf16"})
    alone = dict.fromkeys(stream_sizes(device), 50.0)
    kernels = Fakes(clock, device, alone, {})
    found = measure_device(device, kernels, seconds=1e-3, rounds=1)
    assert kernels.asked[:5] == ["f32", "f64", "bf16", "i8", "clock"]
    assert dict(found.compute.peaks) == {"f32": 120.0, "f64": 60.0, "bf16": 120.0, "i8": 370.0}
    assert found.dot_speed("i8") == 370 / 120 and found.dot_speed("bf16") == 1.0
    assert figures(found)["peak i8"] == pytest.approx(370.0)


def test_multiplying_draws_no_more_than_reading(clock):
    device = cpu_device("v3", eus=1)
    kernels = Fakes(clock, device, {"L1": 300.0, "L2": 80.0, "L3": 20.0, "DRAM": 10.0}, {})
    kernels.speeds["feed"] = 95.0
    found = measure_device(device, kernels, seconds=1e-3, rounds=1)
    assert found.level("L2").fed == found.level("L2").bandwidth == 80.0


def test_one_thread_is_timed_by_its_own_clock(monkeypatch):
    clocks = {"perf_counter_ns": iter(range(0, 10**9, 1000)), "thread_time_ns": iter(range(10**6))}
    fakes = {name: lambda ticks=ticks: next(ticks) for name, ticks in clocks.items()}
    monkeypatch.setattr(measure, "time", SimpleNamespace(**fakes))
    benches = {"alone": Bench(lambda n: None, 1), "both": Bench(lambda n: None, 1, threads=2)}
    found = rates(benches, seconds=0.0, rounds=1)
    assert found == {"alone": 1.0, "both": 0.001}


def test_one_eu_measures_nothing_shared(clock):
    device = cpu_device("v3", eus=1)
    alone = {"L1": 100.0, "L2": 50.0, "L3": 20.0, "DRAM": 130.0}
    kernels = Fakes(clock, device, alone, {})
    found = measure_device(device, kernels, seconds=1e-3, rounds=1)
    assert {eus for _, eus in kernels.asked[6:]} == {1}
    # the instance delivers what one EU draws, and by default more
    assert [level.shared_bandwidth for level in found.memory] == [130.0] * 4
    assert not any(name.startswith("shared") for name in figures(found))


def test_several_instances_of_a_level_share_the_rate(clock):
    """16 EUs have two last caches of 8 EUs each: twice the buffer, half of the rate for each. Main
    memory is read past both of them.
    """
    device = cpu_device("v3", eus=16)
    sizes = stream_sizes(device)
    together = {2 * sizes["L3"]: 240.0, 2 * sizes["DRAM"]: 100.0}
    alone = {"L1": 100.0, "L2": 50.0, "L3": 20.0, "DRAM": 10.0}
    found = measure_device(device, Fakes(clock, device, alone, together), seconds=1e-3, rounds=1)
    assert found.level("L3").shared_bandwidth == 120.0 and found.level("L3").shared_by == 8
    assert found.level("DRAM").shared_bandwidth == 100.0 and found.level("DRAM").shared_by == 16


def test_what_needs_too_much_memory_keeps_its_value(clock):
    device = cpu_device("v3", eus=2)
    sizes = stream_sizes(device)
    alone = {"L1": 100.0, "L2": 50.0, "L3": 20.0, "DRAM": 90.0}
    kernels = Fakes(clock, device, alone, {sizes["L3"]: 31.0})
    found = measure_device(
        device, kernels, machine="m", seconds=1e-3, rounds=1, most=sizes["DRAM"] - 1
    )
    assert found.level("DRAM") == device.level("DRAM")
    assert found.level("L3").bandwidth == 20.0
    assert found.measurement.figures == (
        *("clock", "peak f32", "peak f64", "window"),
        *("bandwidth L1", "bandwidth L2", "bandwidth L3", "feed L2", "shared bandwidth L3"),
    )
    assert (found.measurement.machine, found.measurement.version) == ("m", measure.VERSION)


def test_a_shared_level_is_no_slower_than_one_of_its_eus():
    device = with_figures(cpu_device("v3", eus=2), 2.0, {}, {"L3": 30.0}, {"L3": 25.0})
    assert device.level("L3").shared_bandwidth == 30.0
    assert device.level("L2") == cpu_device("v3").level("L2")


@pytest.mark.parametrize("level", ["v4", "x86-64"])
def test_stream_sizes_live_in_their_level(level):
    device = cpu_device(level)
    sizes = stream_sizes(device)
    assert sizes == {"L1": 16 << 10, "L2": 128 << 10, "L3": 4 << 20, "DRAM": 32 << 20}
    # a level barely larger than the one before
    tight = replace(device, memory=(device.memory[0], replace(device.memory[1], capacity=40 << 10)))
    assert stream_sizes(tight) == {"L1": 16 << 10, "L2": 40 << 10}


def test_the_summary_names_every_figure():
    device = cpu_device("v3", eus=2)
    assert summary(device) == (
        "cpu-v3 v3, 2 EU(s), default figures: 3 GHz; f32 96, f64 48 Gop/s; "
        "224 instructions in flight; L1 192, L2 96, L3 24, DRAM 10 GB/s, beside multiply-adds "
        "L2 39 GB/s; of all EUs: L3 120, DRAM 40 GB/s"
    )
    assert ", measured figures: " in summary(replace(device, measured=True))
    assert "of all EUs" not in summary(cpu_device("v3", eus=1))
