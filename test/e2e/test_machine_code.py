"""Machine code of GPUs ahead of time: in the artifact, in the report, and whether blocks fit."""

import re
from dataclasses import replace

import numpy as np
import onnx
import onnx.numpy_helper
import pytest
from onnx import helper

import rcompiler
from rcompiler.codegen import toolkit
from rcompiler.codegen.cuda_tools import find_tool
from rcompiler.device.occupancy import BlockNeeds
from rcompiler.device.target import find_device
from rcompiler.driver import gpu_image
from rcompiler.driver.gpu_devices import is_emulated
from rcompiler.errors import CompilerError, DeviceError, TooManyBlocks
from rcompiler.support.random_inputs import random_inputs
from rcompiler.tools._reference import compare, reference

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
    monkeypatch.setattr(toolkit, "tools", lambda name: [])
    absent = rcompiler.compile_onnx(proto, target="cuda:h200")
    for model in (emulated, unwanted, absent):
        assert model.artifact.image.cubin == b"" and model.artifact.image.ptx
        assert "ptxas" not in model.artifact.provenance
        assert model.report().registers is None
    assert emulated.report().note == unwanted.report().note == ""
    assert "note: PTX only, as ptxas is not installed: the driver" in str(absent.report())
    with pytest.raises(CompilerError, match="machine_code=1: give True or False"):
        rcompiler.compile_onnx(proto, target="cuda:h200", machine_code=1)


@needs_ptxas
def test_an_architecture_that_ptxas_does_not_know_gets_ptx(proto, monkeypatch):
    known = toolkit.Toolkit.assembles
    monkeypatch.setattr(  # of CUDA 12 and before it knows sm_70, of CUDA 13 it does not
        toolkit.Toolkit, "assembles", lambda kit, chip: chip != "sm_70" and known(kit, chip)
    )
    model = rcompiler.compile_onnx(proto, target="cuda:v100")
    assert b".target sm_70" in model.artifact.image.ptx and not model.artifact.image.cubin
    assert re.search(r"note: PTX only, as ptxas 1[\d., ]* does not know sm_70", str(model.report()))


@needs_ptxas
def test_an_architecture_that_nobody_knows_is_said_not_to_be_known():
    assert toolkit.toolkit_for("sm_12") is None
    assert toolkit.toolkit_for("sm_90a") is not None


@pytest.mark.parametrize("target", ["cuda:k80", "cuda:sm_37"])
def test_an_architecture_without_acquire_is_refused(proto, target):
    known = "sm_70, sm_80, sm_90a, sm_100a, sm_120a"
    message = f"no code can be made for sm_37: .* sm_70 and later have; .* {known}"
    with pytest.raises(DeviceError, match=message):
        rcompiler.compile_onnx(proto, target=target)


@pytest.mark.parametrize("target", ["cuda:h200", "cuda:emulated", "rocm:gfx942"])
def test_kernels_of_gpus_are_not_tuned_on_this_machine(proto, target):
    with pytest.raises(CompilerError, match=f"tune='kernels' runs .* target '{target}' is a GPU"):
        rcompiler.compile_onnx(proto, target=target, tune="kernels")


@needs_ptxas
def test_products_in_front_of_divisions_are_not_serialised():
    """ptxas waits for each wgmma of a function that calls, as its own division does (C7509)."""
    tensor, half = helper.make_tensor_value_info, onnx.TensorProto.FLOAT16
    weights = np.random.default_rng(0).standard_normal((128, 128)).astype(np.float16)
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["m"]),
        helper.make_node("Div", ["m", "by"], ["q"]),
        helper.make_node("Erf", ["q"], ["y"]),
    ]
    sides = [[tensor("x", half, [128, 128]), tensor("by", half, [128, 1])]]
    sides += [[tensor("y", half, [128, 128])]]
    constants = [onnx.numpy_helper.from_array(weights, "w")]
    graph = helper.make_graph(nodes, "g", *sides, constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    report = rcompiler.compile_onnx(model, target="cuda:h200").report()
    assert "wgmma" in str(report) and report.note == ""


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


def products(rows: int, columns: int) -> onnx.ModelProto:
    """softmax(x w) v"""
    tensor, real, size = helper.make_tensor_value_info, onnx.TensorProto.FLOAT, [columns] * 2
    rng = np.random.default_rng(0)
    weights = [helper.make_tensor(name, real, size, rng.normal(size=size).ravel()) for name in "wv"]
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["m"]),
        helper.make_node("Softmax", ["m"], ["s"]),
        helper.make_node("MatMul", ["s", "v"], ["y"]),
    ]
    sides = [[tensor(name, real, [rows, columns])] for name in "xy"]
    graph = helper.make_graph(nodes, "g", *sides, weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


@pytest.mark.parametrize("policy", ["rammer", "bsp"])
def test_a_policy_that_is_named_is_kept_or_refused(policy):
    options = {"target": "cuda:h200", "machine_code": False, "policy": policy}
    message = r"needs 1500 blocks at the same time, and device h200 runs .*eus=.* policy='wave'"
    with pytest.raises(TooManyBlocks, match=message):
        rcompiler.compile_onnx(products(512, 128), eus=1500, **options)
    model = rcompiler.compile_onnx(products(512, 128), **options)
    assert model.report().note == "" and model.needs.blocks == model.eus == 132
    assert model.artifact.provenance["policy"] == policy


@pytest.mark.parametrize("assembled", [False, pytest.param(True, marks=needs_ptxas)])
def test_without_a_policy_each_wave_is_a_launch_where_blocks_do_not_fit(assembled):
    options = {"target": "cuda:h200", "eus": 500, "machine_code": assembled}
    model = rcompiler.compile_onnx(products(512, 128), **options)
    wave = rcompiler.compile_onnx(products(512, 128), policy="wave", **options)
    report = model.report()
    assert report.note.startswith("policy 'wave', one launch per wave, instead of 'rammer': the")
    assert "needs 500 blocks at the same time, and device h200 runs " in report.note
    assert f"note: {report.note}" in str(report) and wave.report().note == ""
    assert replace(report, note="") == wave.report()
    for made in ("provenance", "image", "proof"):
        assert getattr(model.artifact, made) == getattr(wave.artifact, made)
    assert model.stage("vdevice") == wave.stage("vdevice")
    assert model.needs.blocks == 1 and model.eus == 500


def test_what_is_compiled_as_waves_instead_runs():
    proto = products(128, 64)
    model = rcompiler.compile_onnx(proto, target="cuda:emulated", eus=64)
    assert model.report().note and model.report().launches == len(model.artifact.programs) > 1
    feeds = random_inputs(model.inputs, 0)
    assert compare(model(**feeds)[0], reference(proto, feeds)[1][0]).right


@needs_ptxas
def test_one_wave_needs_no_blocks_at_the_same_time(proto):
    model = rcompiler.compile_onnx(proto, target="cuda:h200", eus=3000, policy="list")
    assert model.needs.blocks == 1 and model.report().note == ""


def test_blocks_too_large_for_the_device_have_no_way_out(proto, monkeypatch):
    monkeypatch.setattr(gpu_image, "shared_bytes", lambda module: 1 << 19)
    for policy in (None, "wave"):
        with pytest.raises(DeviceError, match="runs 0 blocks .*; compile for a larger device"):
            rcompiler.compile_onnx(proto, target="cuda:h200", policy=policy, machine_code=False)


def test_emulated_targets():
    assert is_emulated("cuda:emulated") and is_emulated("cuda:emulated-sm_90a")
    assert not is_emulated("cuda:h200")
