"""Products of dequantised tensors run on integers where that is possible, and say the same."""

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

import rcompiler
from rcompiler.errors import InvalidModel
from rcompiler.frontend import import_onnx

RNG = np.random.default_rng(3)
X8, W8 = (RNG.integers(0, 256, s).astype(np.uint8) for s in ((4, 20), (20, 36)))
IMAGE = RNG.integers(-128, 128, (1, 16, 6, 5)).astype(np.int8)
FILTER = RNG.integers(-128, 128, (24, 16, 3, 3)).astype(np.int8)


def model(op, x, w, scale, zero, axis, *rest, late=(), **attributes):
    """`op` of dequantised x and w and float32 operands; `late`: names that are inputs."""
    names = {
        "x": x,
        "sx": np.float32(0.037),
        "zx": x.dtype.type(7),
        "w": w,
        "sw": scale,
        "zw": zero,
    }
    names |= {f"r{k}": np.asarray(r, np.float32) for k, r in enumerate(rest)}
    inputs = {n: names[n] for n in ("x", *late)}
    nodes = [
        helper.make_node("DequantizeLinear", ["x", "sx", "zx"], ["a"]),
        helper.make_node("DequantizeLinear", ["w", "sw", "zw"], ["b"], axis=axis),
        helper.make_node(op, ["a", "b", *(f"r{k}" for k in range(len(rest)))], ["y"], **attributes),
    ]
    infos = [
        helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape)
        for n, a in inputs.items()
    ]
    weights = [
        numpy_helper.from_array(np.asarray(a), n) for n, a in names.items() if n not in inputs
    ]
    out = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    graph = helper.make_graph(nodes, "g", infos, [out], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)]), inputs


def scales(count):
    return (0.01 + RNG.random(count) / 40).astype(np.float32)


ONE, ZERO = np.float32(0.021), np.uint8(100)
BYTES = RNG.integers(0, 256, 36).astype(np.uint8)
CASES = {
    "product": (("MatMul", X8, W8, ONE, ZERO, 1), {}),
    "scale_per_column": (("MatMul", X8, W8, scales(36), BYTES, 1), {}),
    "rows_of_weights": (("Gemm", X8, W8.T.copy(), scales(36), BYTES, 0, scales(36)), {"transB": 1}),
    "alpha_and_beta": (("Gemm", X8, W8, ONE, ZERO, 1, scales(36)), {"alpha": 0.5, "beta": 3.0}),
    "convolution": (
        ("Conv", IMAGE, FILTER, scales(24), np.zeros(24, np.int8), 0, scales(24)),
        {"pads": [1, 1, 1, 1], "strides": [2, 1]},
    ),
    "scale_of_x_at_run_time": (("MatMul", X8, W8, ONE, ZERO, 1), {"late": ("sx", "zx")}),
}


@pytest.mark.parametrize("name", CASES)
def test_integers_take_the_place_of_floats(name):
    arguments, attributes = CASES[name]
    proto, feeds = model(*arguments, **attributes)
    assert "arith.muli" in import_onnx(proto).module_text
    [expected] = ReferenceEvaluator(proto).run(None, feeds)
    [found] = rcompiler.compile_onnx(proto, eus=1, cache=False)(*feeds.values())
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5 * np.abs(expected).max())


STAYS = {
    "scale_per_row_of_depth": (("MatMul", X8, W8, scales(20), BYTES[:20], 0), {}),
    "weights_at_run_time": (("MatMul", X8, W8, ONE, ZERO, 1), {"late": ("w",)}),
    "depth_outside": (("Gemm", X8.T.copy(), W8, ONE, ZERO, 1), {"transA": 1}),
}


@pytest.mark.parametrize("name", STAYS)
def test_floats_stay(name):
    arguments, attributes = STAYS[name]
    proto, feeds = model(*arguments, **attributes)
    assert "arith.muli" not in import_onnx(proto).module_text
    [expected] = ReferenceEvaluator(proto).run(None, feeds)
    [found] = rcompiler.compile_onnx(proto, eus=1, cache=False)(*feeds.values())
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5 * np.abs(expected).max())


@pytest.mark.parametrize("scale", [0.0, -0.01, np.inf, np.nan])
@pytest.mark.parametrize("op", ["QuantizeLinear", "DequantizeLinear"])
def test_scales_that_have_no_meaning_are_refused(op: str, scale: float):
    x = TensorProto.FLOAT if op == "QuantizeLinear" else TensorProto.UINT8
    node = helper.make_node(op, ["x", "s"], ["y"], name="quantiser")
    graph = helper.make_graph(
        [node],
        "g",
        [helper.make_tensor_value_info("x", x, [3])],
        [helper.make_tensor_value_info("y", TensorProto.UNDEFINED, None)],
        [numpy_helper.from_array(np.array(scale, np.float32), "s")],
    )
    graph.output[0].type.tensor_type.elem_type = (
        TensorProto.UINT8 if op == "QuantizeLinear" else TensorProto.FLOAT
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)])
    with pytest.raises(InvalidModel, match=r"quantiser.*scale is"):
        rcompiler.compile_onnx(made, eus=1)


@pytest.mark.parametrize("again", [(0.05, 3), (0.05, 4), (0.06, 3)])
def test_bytes_that_are_quantised_again_by_the_same_numbers_stay(again: tuple[float, int]):
    """All 256 of them, against a division; other numbers are computed."""
    x = np.arange(256, dtype=np.uint8)
    numbers = {"s": np.float32(0.05), "z": np.uint8(3)}
    numbers |= {"t": np.float32(again[0]), "w": np.uint8(again[1])}
    graph = helper.make_graph(
        [
            helper.make_node("DequantizeLinear", ["x", "s", "z"], ["a"]),
            helper.make_node("QuantizeLinear", ["a", "t", "w"], ["y"]),
        ],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.UINT8, [256])],
        [helper.make_tensor_value_info("y", TensorProto.UINT8, [256])],
        [numpy_helper.from_array(np.asarray(a), n) for n, a in numbers.items()],
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)])
    [expected] = ReferenceEvaluator(made).run(None, {"x": x})
    assert np.array_equal(rcompiler.compile_onnx(made, eus=1)(x)[0], expected)
    text = rcompiler.compile_onnx(made, eus=1).stage("linalg")
    assert ("roundeven" in text) == (again != (0.05, 3))


def summed(op, opset=21, **attributes):
    """`op` of the dequantised image."""
    zero = np.int8(-3)
    weights = [numpy_helper.from_array(a, n) for n, a in (("s", ONE), ("z", zero))]
    axes = attributes.pop("axes", None)
    if axes is not None:
        weights.append(numpy_helper.from_array(np.array(axes), "axes"))
    nodes = [
        helper.make_node("DequantizeLinear", ["x", "s", "z"], ["a"]),
        helper.make_node(op, ["a"] if axes is None else ["a", "axes"], ["y"], **attributes),
    ]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.INT8, IMAGE.shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        weights,
    )
    opsets = [helper.make_opsetid("", opset)]
    return helper.make_model(graph, opset_imports=opsets), (IMAGE - np.float64(zero)) * float(ONE)


def test_means_are_those_of_integers():
    """A rounding for the scale and one for the count: the sum itself is exact."""
    windows = {"kernel_shape": [2, 3], "strides": [2, 1]}
    made = (
        (summed("GlobalAveragePool"), lambda x: x.mean((2, 3), keepdims=True)),
        (summed("ReduceMean", axes=[1, 3], keepdims=0), lambda x: x.mean((1, 3))),
        (summed("ReduceSum", axes=[0, 2]), lambda x: x.sum((0, 2), keepdims=True)),
        (
            summed("AveragePool", **windows),
            lambda x: np.stack(
                [
                    [x[0, :, i : i + 2, j : j + 3].mean((1, 2)) for j in range(3)]
                    for i in range(0, 6, 2)
                ]
            ).transpose(2, 0, 1)[None],
        ),
    )
    for (proto, image), right in made:
        text = import_onnx(proto).module_text
        assert "arith.addi" in text and "arith.addf" not in text
        [found] = rcompiler.compile_onnx(proto, eus=1, cache=False)(IMAGE)
        np.testing.assert_allclose(found, right(image), rtol=2**-22)


def test_padding_adds_nothing_to_means():
    """[[-1, 0], [1, 2]] less -3 is [[2, 3], [4, 5]]: with a zero on each side of the rows."""
    x = np.array([[[[-1, 0], [1, 2]]]], np.int8)
    for counted, right in ((0, [2, 2.5, 3, 4, 4.5, 5]), (1, [1, 2.5, 1.5, 2, 4.5, 2.5])):
        proto, _ = summed(
            "AveragePool", kernel_shape=[1, 2], pads=[0, 1, 0, 1], count_include_pad=counted
        )
        for d, n in zip(proto.graph.input[0].type.tensor_type.shape.dim, x.shape, strict=True):
            d.dim_value = n
        [found] = rcompiler.compile_onnx(proto, eus=1, cache=False)(x)
        np.testing.assert_allclose(found.reshape(-1), np.array(right) * float(ONE), rtol=1e-6)


MOVING = {
    "pool": ("MaxPool", {"kernel_shape": [3, 2], "pads": [1, 0, 0, 1], "strides": [2, 1]}),
    "turn": ("Transpose", {"perm": [0, 2, 3, 1]}),
    "flat": ("Flatten", {"axis": 2}),
}


@pytest.mark.parametrize("name", MOVING)
def test_what_moves_between_the_same_numbers_moves_bytes(name: str):
    op, attributes = MOVING[name]
    proto, _ = summed(op, **attributes)
    proto.graph.node.append(helper.make_node("QuantizeLinear", ["y", "s", "z"], ["q"]))
    result = helper.make_tensor_value_info("q", TensorProto.INT8, None)
    proto.graph.output[0].CopyFrom(result)
    [expected] = ReferenceEvaluator(proto).run(None, {"x": IMAGE})
    assert np.array_equal(rcompiler.compile_onnx(proto, eus=1, cache=False)(IMAGE)[0], expected)
    assert "f32" not in import_onnx(proto).module_text
