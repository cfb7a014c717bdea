"""Quotients by known scales are those of a division, to the last bit, and take none."""

import re

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import rcompiler
from rcompiler.device.cpu import best_level, host_features
from rcompiler.device.host_flags import LEVELS

TYPES = {
    "int8": TensorProto.INT8,
    "uint8": TensorProto.UINT8,
    "int16": TensorProto.INT16,
    "uint16": TensorProto.UINT16,
}


def quantiser(size: int, scale: np.float32, zero: int, dtype: str) -> onnx.ModelProto:
    node = helper.make_node("QuantizeLinear", ["x", "scale", "zero"], ["y"])
    initial = [
        numpy_helper.from_array(np.array(scale), "scale"),
        numpy_helper.from_array(np.array(zero, dtype), "zero"),
    ]
    graph = helper.make_graph(
        [node],
        "quantiser",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [size])],
        [helper.make_tensor_value_info("y", TYPES[dtype], [size])],
        initial,
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


def values(scale: np.float32, rng: np.random.Generator) -> np.ndarray:
    """What is hard to round: next to the middle of two integers, at and beyond the limits, tiny."""
    middle = (np.arange(-70000, 70000) + 0.5).astype(np.float32) * scale
    near = [middle]
    for direction in (np.inf, -np.inf):
        x = middle
        for _ in range(3):
            x = np.nextafter(x, np.float32(direction))
            near.append(x)
    special = np.array([0, -0.0, np.inf, -np.inf, np.nan, 3e38, -3e38, 1e-45, -1e-38], np.float32)
    return np.concatenate([*near, special, rng.standard_normal(1000).astype(np.float32) * scale])


def expected(x: np.ndarray, scale: np.float32, zero: int, dtype: str) -> np.ndarray:
    """As the standard says; no number becomes the smallest one."""
    limits = np.iinfo(dtype)
    with np.errstate(all="ignore"):
        y = np.rint(x / scale) + np.float32(zero)
        return np.clip(np.where(np.isnan(y), limits.min, y), limits.min, limits.max).astype(dtype)


@pytest.mark.parametrize("target", ["cpu", "cpu:x86-64"])
@pytest.mark.parametrize(("dtype", "zero"), [("uint8", 0), ("uint8", 128), ("int8", -7),
                                             ("int16", 5), ("uint16", 40000)])  # fmt: skip
def test_every_integer_is_that_of_the_division(dtype: str, zero: int, target: str):
    rng = np.random.default_rng(abs(zero))
    for scale in rng.uniform(0.5, 1, 3).astype(np.float32) * np.float32(2.0) ** [-9, 0, 11]:
        scale = np.float32(scale)
        x = values(scale, rng)
        model = rcompiler.compile_onnx(quantiser(x.size, scale, zero, dtype), target=target, eus=1)
        assert np.array_equal(model(x)[0], expected(x, scale, zero, dtype))


def test_the_last_step_gives_the_quotient_of_a_division(monkeypatch):
    """It is for scales of which the step before has other integers: none of those above is one."""
    asked = []
    monkeypatch.setattr("rcompiler.kernelgen.quotient.same_integers", lambda *x: asked.append(x))
    scale, rng = np.float32(0.0371), np.random.default_rng(7)
    x = values(scale, rng)
    model = rcompiler.compile_onnx(quantiser(x.size, scale, 3, "int16"), eus=1, cache=False)
    assert asked and np.array_equal(model(x)[0], expected(x, scale, 3, "int16"))


def test_known_scales_take_no_division():
    x = quantiser(64, np.float32(0.03), 3, "uint8")
    levels = list(LEVELS)
    for level in levels[levels.index(best_level(host_features())) :]:
        text = rcompiler.compile_onnx(x, target=f"cpu:{level}", eus=1).stage("llvm")
        assert ("llvm.fdiv" in text) == (level == "x86-64")


def test_scales_of_unusual_size_are_divided_by():
    x = quantiser(64, np.float32(1e-30), 3, "uint8")
    assert "llvm.fdiv" in rcompiler.compile_onnx(x, eus=1).stage("llvm")


def requantised(low: float, high: float, zero: int, dtype: str) -> onnx.ModelProto:
    """A number that is quantised, dequantised and doubled."""
    nodes = [
        helper.make_node("Clip", ["x", "low", "high"], ["c"]),
        helper.make_node("QuantizeLinear", ["c", "scale", "zero"], ["q"]),
        helper.make_node("DequantizeLinear", ["q", "scale", "zero"], ["d"]),
        helper.make_node("Add", ["d", "d"], ["y"]),
    ]
    initial = {"low": np.float32(low), "high": np.float32(high), "scale": np.float32(0.3)}
    initial["zero"] = np.array(zero, dtype)
    graph = helper.make_graph(
        nodes,
        "requantised",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [4096])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [4096])],
        [numpy_helper.from_array(np.asarray(v), k) for k, v in initial.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


@pytest.mark.parametrize(("dtype", "zero"), [("uint8", 0), ("uint8", 200), ("int8", -7)])
def test_a_byte_that_is_extended_again_is_never_made(dtype: str, zero: int):
    model = rcompiler.compile_onnx(requantised(-1e3, 1e3, zero, dtype), eus=1)
    text = model.stage("llvm")
    assert "llvm.fptosi" in text or "llvm.lrint" in text
    assert not any(op in text for op in ("llvm.sext", "llvm.zext"))
    scale = np.float32(0.3)
    x = np.random.default_rng(3).uniform(-90, 90, 4096).astype(np.float32)
    limits = np.iinfo(dtype)
    q = np.clip(np.rint(np.clip(x, -1e3, 1e3) / scale) + zero, limits.min, limits.max)
    assert np.array_equal(model(x)[0], (q - zero).astype(np.float32) * scale * 2)


@pytest.mark.parametrize(
    ("dtype", "zeros"),
    [("uint8", (0, 0)), ("uint8", (128, 3)), ("int8", (-7, 100)), ("uint16", (4, 40000))],
)
def test_operators_that_differ_in_scales_share_code(dtype: str, zeros: tuple[int, int]):
    """Each layer quantises, and dequantises, as its own scale says."""
    nodes, initial, inputs, outputs = [], [], [], []
    scales = np.float32(0.0234567), np.float32(3.21e-3)
    xs = [values(scale, np.random.default_rng(0)) for scale in scales]
    for k, (scale, zero, x) in enumerate(zip(scales, zeros, xs, strict=True)):
        numbers = np.array(scale), np.array(zero, dtype)
        initial += [numpy_helper.from_array(n, f"{k}{i}") for i, n in enumerate(numbers)]
        nodes += [
            helper.make_node("QuantizeLinear", [f"x{k}", f"{k}0", f"{k}1"], [f"q{k}"]),
            helper.make_node("DequantizeLinear", [f"q{k}", f"{k}0", f"{k}1"], [f"y{k}"]),
        ]
        inputs.append(helper.make_tensor_value_info(f"x{k}", TensorProto.FLOAT, x.shape))
        outputs.append(helper.make_tensor_value_info(f"y{k}", TensorProto.FLOAT, x.shape))
    graph = helper.make_graph(nodes, "layers", inputs, outputs, initial)
    opset = [helper.make_opsetid("", 21)]
    model = rcompiler.compile_onnx(helper.make_model(graph, opset_imports=opset, ir_version=10))
    for y, x, scale, zero in zip(model(*xs), xs, scales, zeros, strict=True):
        whole = expected(x, scale, zero, dtype).astype(np.int32) - zero
        np.testing.assert_array_equal(y, whole.astype(np.float32) * scale)
    if host_features() >= LEVELS["v3"]:
        assert len(set(re.findall(r"kernels = \[(.*?)\]", model.stage("rkernel")))) == 1
