"""Products and convolutions of bytes by the matrix units of a GPU, on the emulated one: the
integers of a CPU, bit for bit, and those of ONNX's reference.
"""

import itertools
import re

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator
from quantised_networks import convolutions, products
from turns import turn_of

import rcompiler
from rcompiler.tools import models, quantise

EMULATED = ["cuda:emulated", "cuda:emulated-sm_90a"]
TYPES = {"uint8": TensorProto.UINT8, "int8": TensorProto.INT8, "int32": TensorProto.INT32}
UNIT = r"mma(?:_async)?\.sync\.aligned\.(?:m16n8k32\.row\.col|m64n\d+k32)\.s32\.(\w+)\.(\w+)"


def model(nodes, feeds, weights, result):
    """feeds: by name their arrays; result: element type."""
    inputs = [helper.make_tensor_value_info(n, TYPES[a.dtype.name], a.shape) for n, a in feeds]
    made = [numpy_helper.from_array(np.asarray(a), n) for n, a in weights.items()]
    output = helper.make_tensor_value_info("y", TYPES[result], None)
    graph = helper.make_graph(nodes, "bytes", inputs, [output], made)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def drawn(shape, dtype, seed=0):
    limits = np.iinfo(dtype)
    return np.random.default_rng(seed).integers(limits.min, limits.max + 1, shape).astype(dtype)


def units(compiled):
    """Types of both factors of each instruction of the matrix unit."""
    return set(re.findall(UNIT, compiled.stage("ptx")))


def matmul(left, right, *, constant=False):
    """With their sizes; constant: the second factor."""
    feeds, weights = [("a", left)], {}
    if constant:
        weights["b"] = right
    else:
        feeds.append(("b", right))
    return model([helper.make_node("MatMulInteger", ["a", "b"], ["y"])], feeds, weights, "int32")


# Whole words of 16 bytes and none; columns for panels; several products.
SHAPES = {
    "words": ((33, 64), (64, 24)),
    "odd": ((17, 37), (37, 9)),
    "panels": ((40, 96), (96, 100)),
    "batch": ((3, 20, 48), (3, 48, 18)),
    "rows": ((130, 33), (33, 8)),
}


@pytest.mark.parametrize("name", SHAPES)
@pytest.mark.parametrize("signs", list(itertools.product(("uint8", "int8"), repeat=2)))
def test_products_of_two_activations(name, signs):
    """No byte is turned in memory: threads do it. Of every sign there is an instruction."""
    left, right = (drawn(shape, sign) for shape, sign in zip(SHAPES[name], signs, strict=True))
    compiled = rcompiler.compile_onnx(matmul(left, right), target="cuda:emulated")
    assert units(compiled) == {tuple({"uint8": "u8", "int8": "s8"}[sign] for sign in signs)}
    wanted = np.matmul(left.astype(np.int32), right.astype(np.int32))
    np.testing.assert_array_equal(compiled(left, right)[0], wanted)


@pytest.mark.parametrize("target", EMULATED)
@pytest.mark.parametrize("name", SHAPES)
def test_products_with_weights(name, target):
    """Which lie as they are copied, 16 steps at a time where rows are whole words."""
    left, right = (drawn(shape, "int8", k) for k, shape in enumerate(SHAPES[name]))
    compiled = rcompiler.compile_onnx(matmul(left, right, constant=True), target=target)
    assert units(compiled) == {("u8", "s8")}
    whole, text = SHAPES[name][0][-1] % 16 == 0, compiled.stage("ptx")
    boxes = target == "cuda:emulated-sm_90a"
    assert ("cp.async.cg.shared.global" in text) == (whole and not boxes)
    assert ("wgmma.mma_async" in text) == (whole and boxes)
    [found] = compiled(left)
    np.testing.assert_array_equal(found, np.matmul(left.astype(np.int32), right.astype(np.int32)))


@pytest.mark.parametrize("sizes", [(130, 256, 200), (5, 1040, 40), (200, 144, 530), (64, 32, 8)])
def test_boxes_of_bytes(sizes):
    """Several tiles of rows and of columns, lines of 128, 32 and 64 bytes, an end of a reduction
    that hangs over, and fewer columns than an instruction has.
    """
    rows, depth, columns = sizes
    left, right = drawn((rows, depth), "uint8"), drawn((depth, columns), "int8", 1)
    compiled = rcompiler.compile_onnx(
        matmul(left, right, constant=True), target="cuda:emulated-sm_90a"
    )
    assert "wgmma.mma_async" in compiled.stage("ptx")
    wanted = left.astype(np.int32) @ right.astype(np.int32)
    np.testing.assert_array_equal(compiled(left)[0], wanted)


def test_sums_wrap_as_those_of_a_cpu():
    """66,400 products of 255 and 127 are more than 2^31."""
    depth = 66_400
    left, right = np.full((2, depth), 255, np.uint8), np.full((depth, 3), 127, np.int8)
    left[1, ::2] = 1
    compiled = rcompiler.compile_onnx(matmul(left, right), target="cuda:emulated")
    assert units(compiled)
    wanted = np.matmul(left.astype(np.int64), right.astype(np.int64))
    assert wanted[0, 0] > 2**31
    np.testing.assert_array_equal(compiled(left, right)[0], wanted.astype(np.int32))


@pytest.mark.parametrize("policy", ["base", "list"])
@pytest.mark.parametrize("eus", [1, 3])
def test_a_schedule_changes_nothing(policy, eus):
    left, right = drawn((70, 50), "uint8"), drawn((50, 90), "int8", 1)
    made = matmul(left, right, constant=True)
    compiled = rcompiler.compile_onnx(made, target="cuda:emulated", policy=policy, eus=eus)
    wanted = left.astype(np.int32) @ right.astype(np.int32)
    np.testing.assert_array_equal(compiled(left)[0], wanted)


def requantised(op, x, w, **attributes):
    """QLinearConv or QLinearMatMul of x, with zero points everywhere."""
    columns = w.shape[0] if op == "QLinearConv" else w.shape[1]
    rng = np.random.default_rng(1)
    names = ["x", "xs", "xz", "w", "ws", "wz", "ys", "yz"]
    weights = {
        "xs": np.float32(0.021),
        "xz": np.array(131, x.dtype) if x.dtype == np.uint8 else np.array(-3, x.dtype),
        "w": w,
        "ws": rng.uniform(0.001, 0.004, columns).astype(np.float32),
        "wz": np.zeros(columns, w.dtype),
        "ys": np.float32(0.37),
        "yz": np.array(7, x.dtype),
    }
    if op == "QLinearConv":
        names.append("bias")
        weights["bias"] = rng.integers(-4000, 4000, columns).astype(np.int32)
    node = helper.make_node(op, names, ["y"], **attributes)
    return model([node], [("x", x)], weights, x.dtype.name)


CONVOLUTIONS = {
    "blocked": ((2, 64, 7, 9), (40, 64, 3, 3), {"pads": [1, 1, 1, 1]}),
    "pixels": ((1, 96, 6, 5), (33, 96, 1, 1), {}),
    "stem": ((2, 3, 13, 11), (24, 3, 5, 5), {"pads": [2, 1, 2, 2], "strides": [2, 2]}),
    "groups": ((1, 64, 6, 6), (64, 32, 3, 3), {"group": 2, "pads": [1, 0, 0, 1]}),
    "spread": ((1, 20, 11, 10), (17, 20, 2, 3), {"dilations": [2, 3], "strides": [1, 2]}),
}


@pytest.mark.parametrize("target", EMULATED)
@pytest.mark.parametrize("dtype", ["uint8", "int8"])
@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_convolutions(name, dtype, target):
    image, kernel, attributes = CONVOLUTIONS[name]
    x = drawn(image, dtype)
    made = requantised("QLinearConv", x, drawn(kernel, "int8", 1), **attributes)
    compiled = rcompiler.compile_onnx(made, target=target)
    assert units(compiled) == {("u8", "s8")}
    [found] = compiled(x)
    assert found.dtype == x.dtype and len(np.unique(found)) > 8
    [wanted] = ReferenceEvaluator(made).run(None, {"x": x})
    np.testing.assert_array_equal(found, rcompiler.compile_onnx(made)(x)[0])
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("target", EMULATED)
@pytest.mark.parametrize("shape", [(33, 64, 40), (9, 37, 21), (64, 160, 128)])
def test_requantised_products(shape, target):
    rows, depth, columns = shape
    x = drawn((rows, depth), "uint8")
    made = requantised("QLinearMatMul", x, drawn((depth, columns), "int8", 1))
    compiled = rcompiler.compile_onnx(made, target=target)
    assert units(compiled) == {("u8", "s8")}
    [found] = compiled(x)
    np.testing.assert_array_equal(found, rcompiler.compile_onnx(made)(x)[0])
    np.testing.assert_array_equal(found, ReferenceEvaluator(made).run(None, {"x": x})[0])


def test_all_products_of_an_attention_go_to_the_unit():
    """Also those whose heads change places, and whose rows are packed for the next product."""
    pytest.importorskip("onnxruntime", reason="its tools quantise the network")
    sizes = {"layers": 1, "hidden": 128, "heads": 2, "sequence": 64, "vocabulary": 10}
    made = quantise.dynamic(models.build("bert_base", **sizes))
    compiled = rcompiler.compile_onnx(made, target="cuda:sm_80")
    of_bytes = [op for op in compiled.report().operators if op.name.endswith("MatMul_quant")]
    reasons = {op.name: op.reason for op in of_bytes if "pooler" not in op.name}  # it has one row
    assert len(reasons) == 6 and all("mma of i8" in reason for reason in reasons.values()), reasons


@pytest.mark.parametrize(
    ("network", "sizes", "target"),
    turn_of(
        (
            (*network, target)
            for target in EMULATED
            for network in (
                (convolutions, (64, 14)),
                (convolutions, (40, 17)),
                (products, (50, 192)),
            )
        ),
        2,
    ),
)
def test_networks_between_quantise_and_dequantise(network, sizes, target):
    """A stem, a residual block, a depthwise convolution, pools, products: the numbers of a CPU."""
    made, shape = network(*sizes)
    x = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    compiled = rcompiler.compile_onnx(made, target=target)
    assert units(compiled) == {("u8", "s8")}
    [found], [wanted] = compiled(x), rcompiler.compile_onnx(made)(x)
    assert len(np.unique(wanted)) > 8
    np.testing.assert_array_equal(found, wanted)
