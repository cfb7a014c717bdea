"""Quantised operators of onnxruntime: as it computes them, bytes up to one."""

import numpy as np
import pytest
from oracles.contrib_node import by_onnxruntime, check_node, check_ranges, node_model

import rcompiler
from rcompiler.errors import ShapeError, UnsupportedOp
from rcompiler.frontend import import_onnx

pytest.importorskip("onnxruntime")


def check(op: str, inputs: list, outputs: list[str], **attributes: object) -> None:
    check_node(op, inputs, outputs, 1, apart=1, **attributes)


rng = np.random.default_rng(0)


def byte(*shape: int, dtype: str = "uint8") -> np.ndarray:
    limits = np.iinfo(dtype)
    return rng.integers(limits.min, limits.max + 1, shape).astype(dtype)


def f32(x: float) -> np.ndarray:
    return np.array(x, np.float32)


def u8(x: int) -> np.ndarray:
    return np.array(x, np.uint8)


@pytest.mark.parametrize("op", ["QLinearAdd", "QLinearMul"])
def test_sums_and_products(op: str):
    parts = [byte(2, 3, 5), f32(0.03), u8(120), byte(3, 5), f32(0.05), u8(7), f32(0.2), u8(100)]
    a, *rest = parts
    check(op, [a, *rest], ["uint8"])


@pytest.mark.parametrize(
    ("op", "attributes"),
    [
        ("QLinearLeakyRelu", {"alpha": 0.2}),
        ("QLinearSigmoid", {}),
        ("QLinearGlobalAveragePool", {}),
        ("QLinearAveragePool", {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1], "strides": [2, 2]}),
        ("QLinearSoftmax", {"axis": 1, "opset": 17}),
    ],
)
def test_operators_of_one_tensor(op: str, attributes: dict):
    x = byte(1, 8, 6, 6)
    check(op, [x, f32(0.05), u8(128), f32(0.02), u8(90)], ["uint8"], **attributes)


@pytest.mark.parametrize("opset", [7, 12, 13, 17])
@pytest.mark.parametrize("axis", [0, 1, -2, 2, None])
@pytest.mark.parametrize("kind", ["uint8", "int8"])
def test_softmax_of_the_opset_that_it_says(opset: int, axis: int | None, kind: str):
    """Before opset 13 all axes from `axis` on are one row."""
    inputs = [byte(2, 3, 4, dtype=kind), f32(0.02), np.array(3, kind), f32(1 / 256)]
    inputs.append(np.array(np.iinfo(kind).min, kind))
    given = {} if axis is None else {"axis": axis}
    check("QLinearSoftmax", inputs, [kind], opset=opset, **given)


@pytest.mark.parametrize("kind", ["uint8", "int8"])
@pytest.mark.parametrize(
    ("op", "attributes"),
    [
        ("QLinearGlobalAveragePool", {}),
        ("QLinearAveragePool", {"kernel_shape": [2, 3]}),
        ("QLinearAveragePool", {"kernel_shape": [3, 3], "pads": [1, 0, 1, 2], "strides": [2, 1]}),
    ],
)
def test_pools_of_channels_that_come_last(op: str, attributes: dict, kind: str):
    x, zero = byte(2, 5, 7, 6, dtype=kind), np.array(3, kind)
    inputs = [x, f32(0.05), zero, f32(0.02), np.array(9, kind)]
    check(op, inputs, [kind], channels_last=1, **attributes)


def test_concatenated_tensors():
    x, y = byte(2, 3), byte(2, 4)
    inputs = [f32(0.04), u8(3), x, f32(0.03), u8(1), y, f32(0.05), u8(200)]
    made, _ = node_model("QLinearConcat", inputs, ["uint8"], 0, axis=1)
    [want] = by_onnxruntime(made, {})
    got = rcompiler.compile_onnx(made, eus=1)()[0]
    assert np.abs(got.astype(int) - want.astype(int)).max() <= 1


def test_concatenated_tensors_with_signs():
    x, y = byte(2, 3, dtype="int8"), byte(2, 4, dtype="int8")
    inputs = [f32(0.2), np.int8(3), x, f32(0.1), np.int8(-3), y, f32(0.3), np.int8(5)]
    check_node("QLinearConcat", inputs, ["int8"], [2, 5], apart=1, axis=1)


@pytest.mark.parametrize("dtype", ["uint8", "int8"])
@pytest.mark.parametrize("how", [{"axes": [1], "keepdims": 1}, {"axes": [0, -1], "keepdims": 0}])
def test_means_of_bytes(dtype: str, how: dict):
    """onnxruntime has the operator, and no implementation of it."""
    x, (low, high) = byte(2, 3, 4, dtype=dtype), (np.iinfo(dtype).min, np.iinfo(dtype).max)
    zeros = [np.array(n, dtype) for n in (9, 20)]
    inputs = [x, f32(0.1), zeros[0], f32(0.07), zeros[1]]
    real = (x.astype(np.float64) - 9) * 0.1
    mean = real.mean(axis=tuple(how["axes"]), keepdims=bool(how["keepdims"]))
    wanted = np.clip(np.rint(mean / 0.07) + 20, low, high).astype(dtype)
    check_node("QLinearReduceMean", inputs, [dtype], 1, wanted=[wanted], apart=1, **how)


@pytest.mark.parametrize("turned", [0, 1])
@pytest.mark.parametrize("form", ["bytes", "floats", "without bias"])
def test_gemm(form: str, turned: int):
    w = byte(32, 24, dtype="int8")
    w = w if not turned else np.ascontiguousarray(w.T)
    scales = rng.uniform(0.01, 0.02, 24).astype(np.float32)
    zeros, bias = np.zeros(24, np.int8), rng.integers(-999, 999, 24).astype(np.int32)
    inputs = [byte(5, 32), f32(0.02), u8(17), w, scales, zeros]
    inputs.append(None if form == "without bias" else bias)
    inputs += [] if form == "floats" else [f32(0.3), u8(110)]
    kind = "float32" if form == "floats" else "uint8"
    check("QGemm", inputs, [kind], transB=turned)


@pytest.mark.parametrize("columns", [False, True])
@pytest.mark.parametrize("form", ["bytes", "floats"])
@pytest.mark.parametrize("shape", [(24,), (1, 24), (5, 1), (5, 24), (1,), ()])
def test_gemm_with_a_factor_has_it_in_the_scale_of_the_bias(shape: tuple, form: str, columns: bool):
    """As onnxruntime's documentation of C: its scale is alpha / beta * a_scale * b_scale."""
    w, bias = byte(32, 24, dtype="int8"), rng.integers(-9999, 9999, shape).astype(np.int32)
    b_scale, b_zero = f32(0.015), np.array(3, np.int8)
    if columns:
        b_scale = rng.uniform(0.01, 0.02, 24).astype(np.float32)
        b_zero = np.zeros(24, np.int8)
    inputs = [byte(5, 32), f32(0.02), u8(17), w, b_scale, b_zero, bias]
    inputs += [] if form == "floats" else [f32(0.1), u8(110)]
    check("QGemm", inputs, ["float32" if form == "floats" else "uint8"], alpha=0.3)


def test_matmul_of_integers_to_floats():
    w, scales = byte(32, 24, dtype="int8"), rng.uniform(0.01, 0.02, 24).astype(np.float32)
    bias = rng.standard_normal(24).astype(np.float32)
    inputs = [byte(5, 32), w, f32(0.02), scales, u8(17), np.zeros(24, np.int8), bias]
    check("MatMulIntegerToFloat", inputs, ["float32"])


def test_dynamically_quantised_matmul():
    a, w = rng.standard_normal((5, 32)).astype(np.float32), byte(32, 24, dtype="int8")
    bias = rng.standard_normal(24).astype(np.float32)
    inputs = [a, w, f32(0.02), np.array(0, np.int8), bias]
    check("DynamicQuantizeMatMul", inputs, ["float32"])


def lstm(
    steps: int = 4, directions: int = 1, by_column: bool = False, kind: str = "int8", **rest: object
) -> tuple[list, dict]:
    """Inputs of a DynamicQuantizeLSTM of 2 sequences, 16 features and a state of 8, and how to call
    it. rest: bias, h and c by name."""
    x = rng.standard_normal((steps, 2, 16)).astype(np.float32)
    w, r = byte(directions, 16, 32, dtype=kind), byte(directions, 8, 32, dtype=kind)
    shape = (directions, 32) if by_column else (directions,)
    scales = [rng.uniform(0.002, 0.004, shape).astype(np.float32) for _ in range(2)]
    zero = np.full(shape, 0 if kind == "int8" else 128, kind)
    numbers = [scales[0], zero, scales[1], zero]
    given = [rest.get(name) for name in ("bias", "lens", "h", "c", "p")]
    name = "bidirectional" if directions == 2 else "forward"
    return [x, w, r, *given, *numbers], {"hidden_size": 8, "direction": name}


STATE = rng.standard_normal((2, 2, 8)).astype(np.float32) / 2
BIAS = rng.standard_normal((2, 64)).astype(np.float32) / 8


@pytest.mark.parametrize(
    ("form", "more"),
    [
        ({}, {}),
        ({"kind": "uint8"}, {}),
        ({"by_column": True, "bias": BIAS[:1], "h": STATE[:1], "c": STATE[1:]}, {}),
        ({"steps": 20}, {"direction": "reverse"}),
        ({"steps": 20, "directions": 2, "by_column": True, "bias": BIAS, "h": STATE}, {}),
    ],
)
def test_lstms_of_integers(form: dict, more: dict):
    """The state is quantised at each step, as onnxruntime does it: the products are the same."""
    inputs, how = lstm(**form)
    made, _ = node_model("DynamicQuantizeLSTM", inputs, ["float32"] * 3, 1, **how | more)
    assert import_onnx(made).module_text.count("arith.muli") >= 2
    check("DynamicQuantizeLSTM", inputs, ["float32"] * 3, **how | more)


def test_lstms_of_many_steps_stay_loops_of_f32():
    inputs, how = lstm(steps=160)
    made, _ = node_model("DynamicQuantizeLSTM", inputs, ["float32"], 1, **how)
    text = import_onnx(made).module_text
    assert "scf.for" in text and "arith.muli" not in text


@pytest.mark.parametrize(
    "more", [{"clip": 0.5}, {"input_forget": 1}, {"activations": ["Tanh"] * 3}]
)
def test_other_lstms_of_bytes_are_computed_in_f32(more: dict):
    """And are near onnxruntime, which quantises what is fed at each step: 8 bits of it."""
    inputs, how = lstm()
    made, fed = node_model("DynamicQuantizeLSTM", inputs, ["float32"], 1, **how | more)
    [want] = by_onnxruntime(made, fed)
    assert np.abs(rcompiler.compile_onnx(made, eus=1)(**fed)[0] - want).max() < 0.03


def i32(*numbers: object) -> np.ndarray:
    return np.array(numbers, np.int32)


def attention(mask: np.ndarray | None = None, *rest: np.ndarray | None) -> list:
    """Inputs of a QAttention of 2 sequences of 6 steps. rest: zero points, and the past."""
    x, w = byte(2, 6, 16), byte(16, 48, dtype="int8")
    bias = rng.standard_normal(48).astype(np.float32)
    zeros = rest or (u8(120), np.array(0, np.int8))
    return [x, w, bias, f32(0.02), f32(0.01), mask, *zeros]


FEWER = np.tril(np.ones((2, 6, 6), np.int32))
FEWER[1, :, 0] = 0
MASKS = {
    "none": None,
    "keys": i32([1] * 6, [1] * 4 + [0] * 2),
    "numbers other than 1": i32([2, 0, 1, 1, 0, 7], [1] * 6),
    "lengths": i32(2, 5),
    "lengths beyond the keys": i32(9, 0),
    "ends and beginnings": i32(4, 6, 1, 3),
    "each query": FEWER,
    "the same of all keys": i32([0], [1]),
    "the same of all sequences": i32([1]),
}


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("fed", [1, [0, 5]])
def test_attention(mask: str, fed: object):
    inputs = attention(MASKS[mask])
    check_node("QAttention", inputs, ["float32"], fed, num_heads=2)


PAST = rng.standard_normal((2, 2, 2, 3, 8)).astype(np.float32)
WEIGHT_ZEROS = rng.integers(-3, 4, 48).astype(np.int8)
ATTRIBUTES = {
    "scale": (attention(), {"scale": 0.1}),
    "filter": (attention(i32(2, 5)), {"mask_filter_value": -0.5}),
    "causal": (attention(), {"unidirectional": 1}),
    "causal and lengths": (attention(i32(2, 5)), {"unidirectional": 1}),
    "no zero points": (attention(None, None, None), {}),
    "zero points of columns": (attention(None, u8(7), WEIGHT_ZEROS), {}),
    "past": (attention(None, u8(120), None, PAST), {"unidirectional": 1}),
    "past and lengths": (attention(i32(5, 9), u8(120), None, PAST), {}),
    "past and keys": (attention(rng.integers(0, 2, (2, 9)).astype(np.int32), None, None, PAST), {}),
    "off": (attention(), {"do_rotary": 0, "past_present_share_buffer": 0}),
}


@pytest.mark.parametrize("form", ATTRIBUTES)
def test_attributes_and_inputs_of_attention(form: str):
    """With the keys and values as the second result."""
    inputs, attributes = ATTRIBUTES[form]
    check_node("QAttention", inputs, ["float32"] * 2, 1, num_heads=2, **attributes)


def test_attention_with_a_scale_for_each_column():
    inputs = attention()
    inputs[3], inputs[4] = np.array([0.02], np.float32), rng.uniform(0.01, 0.02, 48)
    inputs[4] = inputs[4].astype(np.float32)
    check("QAttention", inputs, ["float32"], num_heads=2)


@pytest.mark.parametrize("mask", ["none", "keys", "lengths"])
@pytest.mark.parametrize("ranges", [{0: "b"}, {1: "s"}, {0: "b", 1: "s"}])
def test_attention_of_sizes_that_a_call_decides(mask: str, ranges: dict):
    check_ranges("QAttention", attention(MASKS[mask]), [0, 5], ranges, num_heads=2)


@pytest.mark.parametrize(
    ("inputs", "attributes", "message"),
    [
        (attention(), {"do_rotary": 1}, "do_rotary"),
        (attention(), {"past_present_share_buffer": 1}, "past_present_share_buffer"),
        (attention(), {"qkv_hidden_sizes": [16, 16, 16]}, "qkv_hidden_sizes"),
        (attention(i32(1, 2, 3)), {}, "'mask_index' has 3 numbers for a batch of 2"),
        (attention(FEWER[:, :4]), {}, r"'mask_index' of shape \[2, 4, 6\]"),
        (attention(np.ones((2, 1, 1, 6, 6), np.int32)), {}, "'mask_index' of shape"),
        (attention(None, u8(1), np.zeros(5, np.int8)), {}, "'weight_zero_point' has shape"),
        (attention(None, u8(1), None, PAST[:, :1]), {}, "'past' has shape"),
        (attention(), {"num_heads": 5}, "5 heads"),
    ],
)
def test_attention_that_is_refused(inputs: list, attributes: dict, message: str):
    made, _ = node_model("QAttention", inputs, ["float32"], 1, **{"num_heads": 2} | attributes)
    with pytest.raises((UnsupportedOp, ShapeError), match=f"QAttention.*{message}"):
        rcompiler.compile_onnx(made, eus=1)


@pytest.mark.parametrize("bits", [2, 4, 8])
@pytest.mark.parametrize("zeros", ["none", "packed"])
@pytest.mark.parametrize(("depth", "block"), [(64, 16), (100, 32), (200, 128)])
@pytest.mark.parametrize("rows", [1, 5, 40])
def test_weights_of_few_bits(bits: int, zeros: str, depth: int, block: int, rows: int):
    columns, blocks = 24, -(-depth // block)
    a = rng.standard_normal((rows, depth)).astype(np.float32)
    packed = byte(columns, blocks, block * bits // 8)
    scales = rng.uniform(0.01, 0.02, columns * blocks).astype(np.float32)
    points = byte(columns * -(-blocks * bits // 8)) if zeros == "packed" else None
    attributes = {"K": depth, "N": columns, "bits": bits, "block_size": block}
    check("MatMulNBits", [a, packed, scales, points], ["float32"], **attributes)


@pytest.mark.parametrize(
    ("attributes", "message"),
    [
        ({"bits": 3, "block_size": 32}, "3 bits"),
        ({"bits": 4, "block_size": 0}, "blocks of 0"),
        ({"bits": 4, "block_size": 16}, "as many weights"),
        ({"bits": 4, "block_size": 32, "K": 63}, "K"),
    ],
)
def test_weights_that_do_not_fit_are_refused(attributes: dict, message: str):
    a = rng.standard_normal((5, 64)).astype(np.float32)
    inputs = [a, byte(24, 2, 16), np.ones(48, np.float32)]
    made, _ = node_model("MatMulNBits", inputs, ["float32"], 1, **{"K": 64, "N": 24} | attributes)
    with pytest.raises(rcompiler.CompilerError, match=message):
        rcompiler.compile_onnx(made, eus=1)
