"""Machine code of GPUs ahead of time: in the artifact, in the report, and whether blocks fit."""

import onnx
import pytest
from onnx import helper

import rcompiler
from rcompiler import gpu_image
from rcompiler.codegen.cuda_tools import find_tool
from rcompiler.device.occupancy import BlockNeeds
from rcompiler.device.target import find_device
from rcompiler.errors import CompilerError, DeviceError
from rcompiler.gpu_devices import is_emulated

needs_ptxas = pytest.mark.skipif(find_tool("ptxas") is None, reason="needs ptxas")


@pytest.fixture(scope="module")
def proto():
    tensor, real = helper.make_tensor_value_info, onnx.TensorProto.FLOAT
    weights = helper.make_tensor("w", real, [32, 16], [0.5] * 512)
    nodes = [helper.make_node("MatMul", ["x", "w"], ["m"]), helper.make_node("Exp", ["m"], ["y"])]
    sides = [tensor("x", real, [8, 32])], [tensor("y", real, [8, 16])]
    graph = helper.make_graph(nodes, "g", *sides, [weights])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


@needs_ptxas
def test_the_artifact_carries_machine_code(proto, tmp_path):
    first, second = (rcompiler.compile_onnx(proto, target="cuda:h200") for _ in range(2))
    assert first.artifact.image.cubin.startswith(b"\x7fELF")
    assert first.artifact.provenance["ptxas"].count(".") == 2
    for name, model in (("a", first), ("b", second)):
        model.save(tmp_path / name)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    report = rcompiler.load(tmp_path / "a").report()
    assert 0 < report.registers <= 255
    assert {op.spilled_bytes for op in report.operators} == {0}
    assert f"machine code: {report.registers} registers of a thread" in str(report)


def test_machine_code_is_left_out(proto, monkeypatch):
    emulated = rcompiler.compile_onnx(proto, target="cuda:emulated")
    unwanted = rcompiler.compile_onnx(proto, target="cuda:h200", machine_code=False)
    monkeypatch.setattr(gpu_image, "find_tool", lambda name: None)
    absent = rcompiler.compile_onnx(proto, target="cuda:h200")
    for model in (emulated, unwanted, absent):
        assert model.artifact.image.cubin == b"" and model.artifact.image.ptx
        assert "ptxas" not in model.artifact.provenance
        assert model.report().registers is None
    with pytest.raises(CompilerError, match="machine_code=1: give True or False"):
        rcompiler.compile_onnx(proto, target="cuda:h200", machine_code=1)


@needs_ptxas
def test_schedules_as_text(proto):
    text = rcompiler.compile_onnx(proto, target="cuda:h200", machine_code=False)
    given = text.stage("vdevice"), text.constants()
    for wanted in (True, False):
        made = rcompiler.compile_schedule(*given, target="cuda:h200", machine_code=wanted)
        assert bool(made.artifact.image.cubin) == wanted
        assert made.artifact.image.ptx == text.artifact.image.ptx


@pytest.mark.parametrize(
    ("needs", "eus", "message"),
    [
        (BlockNeeds(256, 255), 133, "runs 132 blocks .* 255 registers a thread.* with eus=132"),
        (BlockNeeds(256, 32, 120 << 10), 200, "122880 bytes .* shared memory is .* with eus=132"),
        (BlockNeeds(512, 168), 8, "runs 0 blocks .* registers is .*; compile for a larger device"),
    ],
)
def test_blocks_that_do_not_fit_are_refused(needs, eus, message):
    device = find_device("cuda:h200")
    with pytest.raises(DeviceError, match=message):
        gpu_image.check_resident(device, needs, eus)


def test_blocks_that_fit():
    device = find_device("cuda:h200")
    gpu_image.check_resident(device, BlockNeeds(256, 255, 200 << 10), 132)
    gpu_image.check_resident(device, BlockNeeds(256, 128), 264)  # two on each EU


@needs_ptxas
def test_more_eus_than_fit(proto):
    with pytest.raises(DeviceError, match=r"EUs that wait for one another, and device h200 runs"):
        rcompiler.compile_onnx(proto, target="cuda:h200", eus=1000)


def test_emulated_targets():
    assert is_emulated("cuda:emulated") and is_emulated("cuda:emulated-sm_90a")
    assert not is_emulated("cuda:h200")
