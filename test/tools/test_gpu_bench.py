"""The micro-benchmarks of GPUs: every kernel computes what it should, on the emulated device, whose
times are no measurements; and the record that comes of times."""

import json
import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import measurements
import numpy as np
import pytest

from rcompiler.device.gpu import GPUS
from rcompiler.device.gpu_measure import GpuBench, gpu_figures, measure_gpu
from rcompiler.device.record import from_json, to_json
from rcompiler.emulator.driver import EmulatedDriver
from rcompiler.errors import DeviceError
from rcompiler.profiler import gpu_bench
from rcompiler.profiler.gpu_bench import (
    GpuBenches,
    for_driver,
    measure_cuda,
    shared_sums,
    shipped_record,
)
from rcompiler.profiler.gpu_bench_text import bench_code
from rcompiler.tools import rc_compile, rc_tune

KIB = 1 << 10
CHIPS = {"sm_80": (8, 0), "sm_90a": (9, 0)}
KERNELS = {
    "launch": lambda k: k.launch(),
    "graph": lambda k: k.graph(),
    "meeting": lambda k: k.meeting(),
    "hand_off": lambda k: k.hand_off(),
    "peak": lambda k: k.peak(),
    "f16": lambda k: k.matrix("f16"),
    "bf16": lambda k: k.matrix("bf16"),
    "tf32": lambda k: k.matrix("tf32"),
    "i8": lambda k: k.matrix("i8"),
    "shared": lambda k: k.shared(),
    "all stream": lambda k: k.stream(256 * KIB, 4),
    "one streams": lambda k: k.stream(100 * KIB, 1),
}


def small(driver) -> object:
    """The record of an emulated device with caches that are read in a moment."""
    device = for_driver(driver)
    sizes = (64 * KIB, 128 * KIB, 256 * KIB)
    levels = [replace(v, capacity=n) for v, n in zip(device.memory, sizes, strict=True)]
    return replace(device, memory=tuple(levels))


@pytest.fixture(scope="module", params=CHIPS)
def kernels(request):
    driver = EmulatedDriver(capability=CHIPS[request.param], multiprocessors=4)
    with GpuBenches(driver, small(driver)) as found:
        yield found


@pytest.mark.parametrize("name", KERNELS)
def test_results_are_right_for_any_number_of_repetitions(kernels, name):
    bench = KERNELS[name](kernels)
    few, more = bench.run(1), bench.run(5)
    assert 0 < few < more and bench.work >= 1


@pytest.mark.parametrize("n", [1, 7, 2047, 2048, 5000])
def test_sums_of_shared_memory(n):
    """Whole rounds of 2048 vectors, and what is over."""
    at = (np.arange(n)[:, None, None] + np.arange(512)[:, None] + 512 * np.arange(4)) % 2048
    assert np.array_equal(shared_sums(n), (4 * at.sum((0, 2)) % (1 << 32)).astype(np.uint32))


@pytest.mark.parametrize("seed", range(3))
def test_blocks_in_any_order_hand_over(seed):
    driver = EmulatedDriver(capability=(8, 0), multiprocessors=4, interleave=True, seed=seed)
    with GpuBenches(driver, small(driver)) as found:
        assert found.meeting().run(4) > 0 and found.hand_off().run(4) > 0


class Wrong(EmulatedDriver):
    """One word of every result is another."""

    def read(self, address, size):
        found = super().read(address, size)
        found[0] ^= 1
        return found


@pytest.mark.parametrize("name", [n for n in KERNELS if n not in ("launch", "graph")])
def test_wrong_results_are_no_measurement(name):
    driver = Wrong(capability=(8, 0), multiprocessors=4)
    with GpuBenches(driver, small(driver)) as found:
        with pytest.raises(DeviceError, match="computes wrong results"):
            KERNELS[name](found).run(2)


def test_code_that_was_made_elsewhere(monkeypatch):
    """On a machine without the compiler."""
    code = bench_code("sm_80")
    monkeypatch.setattr(gpu_bench, "_made", None)
    driver = EmulatedDriver(capability=(8, 0), multiprocessors=4)
    with GpuBenches(driver, small(driver), code) as found:
        assert found.peak().run(2) > 0
    with pytest.raises(DeviceError):
        GpuBenches(driver, small(driver), b"no code")


MEASUREMENTS = str(Path(measurements.__file__).parents[1])
_WITHOUT_COMPILER = """
import sys
for name in ("torch_mlir", "llvmlite", "onnx"):
    sys.modules[name] = None
sys.path.insert(0, sys.argv[1])
import rcompiler.tools.rc_tune, rcompiler.profiler.gpu_bench
import measurements._gpu_bench_jobs, measurements._gpu_bench_tables
import measurements
from measurements import gpu_bench
"""


def test_what_measures_a_gpu_needs_no_compiler():
    subprocess.run([sys.executable, "-c", _WITHOUT_COMPILER, MEASUREMENTS], check=True)


def test_all_memory_is_given_back():
    driver = EmulatedDriver(capability=(8, 0), multiprocessors=2)
    with GpuBenches(driver, small(driver)) as found:
        found.stream(128 * KIB, 2).run(1)
        places = [found._head, found._out, *found._buffers.values()]
        assert len(places) == 3 and all(map(driver.holds, places))
    assert not any(map(driver.holds, places))


class Real(EmulatedDriver):
    """As if its count of instructions were a time."""

    @property
    def real(self):
        return True


def test_a_record_of_a_device_is_a_target(monkeypatch):
    driver = Real(capability=(8, 0), multiprocessors=4)
    monkeypatch.setattr(gpu_bench, "for_driver", small)
    found = measure_cuda(driver, seconds=1e-9, rounds=1)
    assert found.measured and (found.kind, found.level_name, found.eus) == ("cuda", "sm_80", 4)
    assert from_json(to_json(found)) == found
    noted = found.measurement
    assert "what is not measured is as of a100" in noted.machine
    assert {*gpu_figures(found), "graph"} == set(noted.figures)
    assert json.loads(to_json(found))["measurement"]["others"].keys() == {"graph ns"}
    default = small(driver)
    assert found.compute.fma_latency == default.compute.fma_latency
    assert found.residency == default.residency
    changed = [n for n, v in gpu_figures(default).items() if gpu_figures(found)[n] != v]
    assert len(changed) >= len(gpu_figures(found)) - 2


class Fixed:
    """Benchmarks that take known times."""

    def __init__(self):
        self.streams = []

    def launch(self):
        return GpuBench(lambda n: 5_000 + 2_500.0 * n)

    def graph(self):
        return GpuBench(lambda n: 1_500.0 * n)

    def meeting(self):
        return GpuBench(lambda n: 1_200.0 * n)

    def hand_off(self):
        return GpuBench(lambda n: 1_400.0 * n, 2)

    def peak(self):
        return GpuBench(lambda n: 10.0 * n, 132 * 5_000.0)

    def matrix(self, element):
        rates = {"f16": 4e4, "bf16": 4e4, "tf32": 2e4, "i8": 5e4}
        return GpuBench(lambda n: 10.0 * n, 132 * rates[element])

    def clock(self):
        return 1.755

    def shared(self):
        return GpuBench(lambda n: 1.0 * n, 132 * 220.0)

    def stream(self, size, eus):
        self.streams.append((size, eus))
        return GpuBench(lambda n: 1.0 * n, 60.0 if eus == 1 else 4_000.0)


def test_times_become_figures():
    kernels = Fixed()
    found = measure_gpu(GPUS["h200"], kernels, machine="test")
    costs, compute = found.costs, found.compute
    assert (costs.launch_ns, costs.barrier_ns, costs.hand_off_ns) == (2500, 1200, 700)
    assert costs.task_ns == GPUS["h200"].costs.task_ns
    assert compute.peaks == (("f32", 500.0),) and compute.ghz == 1.8
    assert dict(compute.matrix) == {
        **dict(GPUS["h200"].compute.matrix), "f16": 4000.0, "bf16": 4000.0, "tf32": 2000.0,
        "i8": 5000.0,
    }  # fmt: skip
    rates = {v.name: (v.bandwidth, v.shared_bandwidth) for v in found.memory}
    assert rates == {"L1": (220, 220), "L2": (60, 4000), "DRAM": (60, 4000)}
    assert found.measurement.others == (("graph ns", 1500.0),)
    # half of the second cache, and four times as much as all of it
    assert kernels.streams == [(25 << 20, 1), (25 << 20, 132), (200 << 20, 1), (200 << 20, 132)]


def test_what_is_no_gpu_is_not_measured():
    with pytest.raises(DeviceError, match="'emulated' is no GPU: its times mean nothing"):
        measure_cuda(EmulatedDriver())
    with pytest.raises(DeviceError, match="no record has compute capability 7.5"):
        shipped_record(type("Odd", (), {"capability": (7, 5), "name": "odd"})())
    with pytest.raises(DeviceError, match="one multiprocessor"):
        driver = EmulatedDriver(capability=(8, 0), multiprocessors=1)
        GpuBenches(driver, for_driver(driver)).hand_off()


def test_the_command_without_a_gpu(capsys, tmp_path):
    path = tmp_path / "gpu.json"
    command = [sys.executable, "-m", "rcompiler.tools.rc_tune", "--device=cuda", "-o", str(path)]
    nothing = {**os.environ, "CUDA_VISIBLE_DEVICES": ""}
    done = subprocess.run(command, capture_output=True, text=True, env=nothing)
    assert done.returncode == 1 and not done.stdout and not path.exists()
    assert re.fullmatch(r"rc-tune: error: .*(cuda-bindings|driver|GPU).*\n", done.stderr)
    assert rc_tune.main(["--device=cuda"]) == 1 and "give -o FILE" in capsys.readouterr().err


def test_the_command_writes_a_record(capsys, tmp_path, monkeypatch):
    driver = Real(capability=(8, 0), multiprocessors=4)
    monkeypatch.setattr("rcompiler.runtime.gpu.cuda.CudaDriver", lambda: driver)
    monkeypatch.setattr(gpu_bench, "for_driver", small)
    path = tmp_path / "gpu.json"
    assert rc_tune.main(["--device=cuda", "-o", str(path), "--seconds=1e-7"]) == 0
    out, _ = capsys.readouterr()
    assert "hand-off" in out and "graph ns:" in out and f"record: {path}" in out
    assert from_json(path.read_text()).measured
    target = f"--target={path}"
    assert rc_compile.main(["two_branch", target, "--eus=2", "--emit=ptx", "-o", "-"]) == 0
    assert ".target sm_80" in capsys.readouterr().out
    assert rc_tune.main(["--device=cuda", "-o", "-", "--seconds=1e-7"]) == 0
    assert from_json(capsys.readouterr().out).kind == "cuda"
