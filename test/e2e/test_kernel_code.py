"""kernel_code.py: the same bytes by one process, by two, and with another one that fails."""

import time

import pytest
from small_networks import SMALL
from torch_mlir import ir

import rcompiler
from rcompiler import dialects
from rcompiler.device.cpu import cpu_device
from rcompiler.driver import kernel_code
from rcompiler.driver.kernel_code import KernelCodes
from rcompiler.errors import CompilerError
from rcompiler.passes.ir.module_device import attribute_of
from rcompiler.passes.vdevice_attach_device import VdeviceAttachDevice
from rcompiler.passes.vdevice_to_cpu import VdeviceToCpu
from rcompiler.support import workers
from rcompiler.support.workers import Worker, WorkerDied, Workers
from rcompiler.tools import models


@pytest.fixture(scope="module")
def proto():
    return models.build("mobilenet_v2", **SMALL["mobilenet_v2"])


@pytest.fixture
def asked(monkeypatch):
    """The modules whose workers were asked, one for each question."""
    found = []
    ask = Worker.ask

    def noted(self, question, *rest):
        found.append(self._module)
        return ask(self, question, *rest)

    monkeypatch.setattr(Worker, "ask", noted)
    return found


def compiled(proto, tmp_path, target="cpu"):
    path = tmp_path / "m.rcx"
    rcompiler.compile_onnx(proto, target=target, eus=2, cache=False).save(path)
    return path.read_bytes()


def alone(proto, tmp_path, monkeypatch, target="cpu"):
    with monkeypatch.context() as patch:
        patch.setattr(kernel_code, "_WORTH_A_PROCESS", 1 << 30)
        return compiled(proto, tmp_path, target)


@pytest.mark.parametrize("target", ["cpu", "cuda:sm_80", "rocm:gfx90a"])
def test_two_processes_make_the_bytes_of_one(proto, tmp_path, monkeypatch, asked, target):
    expected = alone(proto, tmp_path, monkeypatch, target)
    assert "rcompiler.driver.kernel_code" not in asked
    monkeypatch.setattr(kernel_code, "_WORTH_A_PROCESS", 1)
    monkeypatch.setattr(workers, "usable_cpus", lambda: 2)
    for _ in range(3):
        assert compiled(proto, tmp_path, target) == expected
    assert "rcompiler.driver.kernel_code" in asked


def test_on_one_core_no_other_process_is_started(proto, tmp_path, monkeypatch, asked):
    started = []
    start = Workers.prepare
    monkeypatch.setattr(Workers, "prepare", lambda s: (started.append(s._module), start(s)))
    monkeypatch.setattr(kernel_code, "_WORTH_A_PROCESS", 1)
    monkeypatch.setattr(workers, "usable_cpus", lambda: 1)
    compiled(proto, tmp_path)
    assert "rcompiler.driver.kernel_code" not in {*asked, *started}


@pytest.mark.parametrize("answer", ["dies", "cannot"])
def test_what_the_other_process_does_not_make_is_made_here(proto, tmp_path, monkeypatch, answer):
    expected = alone(proto, tmp_path, monkeypatch)
    monkeypatch.setattr(kernel_code, "_WORTH_A_PROCESS", 1)
    monkeypatch.setattr(workers, "usable_cpus", lambda: 2)
    ask, count = Worker.ask, 0

    def fails(self, question, *rest):
        nonlocal count
        if self._module == "rcompiler.driver.kernel_code":
            count += 1
            if answer == "dies":
                self.kill()
                raise WorkerDied(-9, "")
            return 1, b"cannot"
        return ask(self, question, *rest)

    monkeypatch.setattr(Worker, "ask", fails)
    assert compiled(proto, tmp_path) == expected
    assert count == 1


@pytest.fixture
def lowered(monkeypatch):
    """The kernels that this process lowers, as text; no other one takes part."""
    found = []
    code = kernel_code._Generator.code

    def noted(self, module, device, keep):
        found.append(str(module))
        return code(self, module, device, keep)

    monkeypatch.setattr(kernel_code._Generator, "code", noted)
    monkeypatch.setattr(workers, "usable_cpus", lambda: 1)
    return found


@pytest.mark.parametrize("target", ["cpu", "cuda:sm_80"])
def test_a_kernel_is_lowered_once_in_a_process(tmp_path, lowered, target):
    proto = models.build("mlp", batch=2, layers=(12, 20, 8))
    first = compiled(proto, tmp_path, target)
    kernels = list(lowered)
    assert kernels
    assert compiled(proto, tmp_path, target) == first
    assert lowered == kernels
    compiled(proto, tmp_path, "cpu:v3" if target == "cpu" else "cuda:sm_70")
    assert len(lowered) > len(kernels)  # for another device it is other code


def test_what_was_made_before_is_not_asked_of_the_other_process(tmp_path, monkeypatch, asked):
    proto = models.build("mlp", batch=2, layers=(12, 20, 8))
    monkeypatch.setattr(kernel_code, "_WORTH_A_PROCESS", 1)
    monkeypatch.setattr(workers, "usable_cpus", lambda: 2)
    first = compiled(proto, tmp_path)
    asked.clear()
    assert compiled(proto, tmp_path) == first
    assert {*asked} <= {"rcompiler.support.onnx_worker"}  # which sees each model


_KERNEL = """"rtask.kernel"() ({
  %y = arith.constant dense<[1.0, 2.0]> : tensor<2xf32>
  "rtask.yield"(%y) : (tensor<2xf32>) -> ()
}) {estimated_ns = 3.0 : f64, grid = array<i64: 1>, kind = "movement", lanes = 1 : i64,
    on_chip_bytes = 8 : i64, order = array<i64: 0>, reads = [], register_tile = array<i64: 1>,
    registers = 1 : i64, source = "test", sym_name = "k", tasks = 1 : i64, tile = array<i64: 2>,
    vector_dim = 0 : i64, writes = [[array<i64: -1, 0, 0, 0>]]} : () -> ()"""


@pytest.mark.parametrize("cores", [1, 2])
def test_a_kernel_without_code_is_the_same_error(monkeypatch, cores):
    """A constant tensor that is not a splat is an operand of the kernel."""
    monkeypatch.setattr(kernel_code, "_WORTH_A_PROCESS", 1)
    monkeypatch.setattr(workers, "usable_cpus", lambda: cores)
    with dialects.load(ir.Context()), ir.Location.unknown():
        module = ir.Module.parse(_KERNEL)
        VdeviceAttachDevice(cpu_device("v3")).run(module.operation)
        device, stages = attribute_of(module.operation), [("llvm", VdeviceToCpu())]
        codes = KernelCodes(device, stages, lambda name, code: None)
        kernel = module.body.operations[0].operation
        with pytest.raises(CompilerError, match="a constant tensor of an rTask body"):
            with codes.begun():
                codes.expect(kernel)
                time.sleep(1)  # the other process tries first
                codes.finish({"k": kernel})
