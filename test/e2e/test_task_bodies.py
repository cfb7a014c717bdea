"""Kernels whose bodies are those of one task: made by the passes, or by hand, compiled and run."""

import re

import numpy as np
import onnx
import pytest
from levels import LOWER
from onnx import TensorProto, helper
from small_networks import SMALL
from task_body import (
    PRODUCT,
    STORE,
    TASK_BODY,
    lowered,
    of_whole_operators,
    product_body,
    straight_body,
    vector_body,
    with_body,
)
from turns import turn_of

import rcompiler
from rcompiler.errors import CompilerError, InvalidModel
from rcompiler.support.random_inputs import random_inputs
from rcompiler.tools import models

M, N, K = 12, 32, 40
TARGET, RECORD = "cpu:x86-64", "zen5-2"  # what decides the text: the same on every machine


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    return tmp_path_factory.mktemp("cache")


def small_network():
    """A padded convolution in steps of 2, pooling, a transpose, a softmax and a sum of rows."""
    rng = np.random.default_rng(1)
    weights = {
        "w": rng.standard_normal((8, 3, 3, 3), dtype=np.float32) / 5,
        "b": rng.standard_normal(8, dtype=np.float32),
    }
    nodes = [
        helper.make_node("Conv", ["x", "w", "b"], ["c"], pads=[1, 1, 1, 1], strides=[2, 2]),
        helper.make_node("Relu", ["c"], ["r"]),
        helper.make_node("MaxPool", ["r"], ["p"], kernel_shape=[3, 3], pads=[1, 1, 1, 1]),
        helper.make_node("Transpose", ["p"], ["t"], perm=[0, 2, 3, 1]),
        helper.make_node("Softmax", ["t"], ["s"], axis=2),
        helper.make_node("ReduceSum", ["s", "axes"], ["y"], keepdims=0),
        helper.make_node("Concat", ["s", "t"], ["z"], axis=1),
    ]
    graph = helper.make_graph(
        nodes,
        "small",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 3, 21, 19])],
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, None) for n in ("y", "z")],
        [
            *(onnx.numpy_helper.from_array(v, k) for k, v in weights.items()),
            onnx.numpy_helper.from_array(np.array([1, 2]), "axes"),
        ],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


def one_node(op, x, weights, **attributes):
    """One operator with constant weights."""
    arrays = [np.random.default_rng(3).standard_normal(s, dtype=np.float32) for s in weights]
    named = [onnx.numpy_helper.from_array(a, f"w{k}") for k, a in enumerate(arrays)]
    graph = helper.make_graph(
        [helper.make_node(op, ["x", *(a.name for a in named)], ["y"], **attributes)],
        "node",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, x)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        named,
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


def replaced_row():
    """All of an operand put over all of another, which is a value and no tile of a result."""
    shapes = {"x": [1, 3], "u": [1, 3]}
    graph = helper.make_graph(
        [helper.make_node("ScatterElements", ["x", "at", "u"], ["y"])],
        "row",
        [helper.make_tensor_value_info(n, TensorProto.INT64, s) for n, s in shapes.items()],
        [helper.make_tensor_value_info("y", TensorProto.INT64, [1, 3])],
        [onnx.numpy_helper.from_array(np.zeros((1, 3), np.int64), "at")],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


NETWORKS = {
    "an operand over another": replaced_row,
    # five columns: a register tile of one, along which no vector runs
    "a small constant matrix": lambda: one_node("Conv", [1, 4, 5], [(4, 1, 1), (4,)], group=4),
    # puts elements between zeros, which is no tile of the result
    "an insertion that is a value": lambda: one_node(
        "ConvTranspose",
        [2, 2, 1, 2],
        [(2, 1, 1, 2), (2,)],
        dilations=[2, 2],
        strides=[2, 1],
        group=2,
    ),
    "mlp": lambda: models.build("mlp"),
    "two branches": lambda: models.build("two_branch", rows=96, width=64),
    "windows and rows": small_network,
    "transformer": lambda: models.build("tiny_llama"),
    "recurrence": lambda: models.build("lstm2"),
    "a stage and a result of one tile": lambda: models.build("two_branch"),
    "stages of one shape": lambda: models.build("nasnet_a", **SMALL["nasnet_a"]),
    "stages that a result reads last first": lambda: models.build("lstm_tc", **SMALL["lstm_tc"]),
}
ON_TARGETS = [(network, target) for target in ("cpu", *LOWER) for network in NETWORKS]


@pytest.mark.parametrize(("network", "target"), turn_of(ON_TARGETS, 3))
def test_the_code_is_that_of_the_whole_operators(network, target, cache):
    """Byte for byte: what the tiled bodies say is what is generated without them."""
    model = rcompiler.compile_onnx(
        NETWORKS[network](), target=target, device="default", eus=2, cache=cache
    )
    whole = of_whole_operators(model, 2)
    assert TASK_BODY.search(model.stage("vdevice")) and not TASK_BODY.search(whole)
    again = rcompiler.compile_schedule(whole, model.constants(), target=target, cache=cache)
    assert again.stage("llvm") == model.stage("llvm")


@pytest.mark.parametrize("network", ["mlp", *turn_of((n for n in NETWORKS if n != "mlp"), 2)])
def test_the_text_of_what_the_passes_make_is_proved(network, cache):
    """And gives the same code again."""
    model = rcompiler.compile_onnx(NETWORKS[network](), device="default", eus=2, cache=cache)
    again = rcompiler.compile_schedule(model.stage("vdevice"), model.constants(), cache=cache)
    assert again.stage("llvm") == model.stage("llvm")


# Padded tiles of run-time size, whose sums wait between parts; tiles of a product that begin in the
# middle of a panel of its weights, where vectors are given up while a loop is open.
OTHER_CODE = ("inception_v3", "tiny_llama")


@pytest.mark.parametrize(
    ("network", "target"), turn_of(((n, t) for n in OTHER_CODE for t in ("cpu", *LOWER)), 3)
)
def test_other_code_has_the_same_results(network, target, cache):
    proto = models.build(network, **SMALL[network])
    model = rcompiler.compile_onnx(proto, target=target, device="default", eus=2, cache=cache)
    whole = of_whole_operators(model, 2)
    if "reduction_tile" in whole:  # only the pass cuts the reductions of whole operators
        with pytest.raises(CompilerError, match="run rc-tile-kernels"):
            rcompiler.compile_schedule(whole, model.constants(), target=target, cache=cache)
        whole = re.sub(r"reduction_tile = (array<[^>]*>|\[[^\]]*\]), ", "", whole)
    again = rcompiler.compile_schedule(whole, model.constants(), target=target, cache=cache)
    inputs = random_inputs(model.inputs)
    for found, wanted in zip(again(**inputs), model(**inputs), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)


@pytest.fixture(scope="module")
def product(cache):
    """x * w + bias, as one task."""
    rng = np.random.default_rng(0)
    arrays = {
        "w": rng.standard_normal((K, N), dtype=np.float32),
        "bias": rng.standard_normal(N, dtype=np.float32),
    }
    inputs = [
        helper.make_tensor_value_info("x", TensorProto.FLOAT, [M, K]),
        *(helper.make_tensor_value_info(k, TensorProto.FLOAT, v.shape) for k, v in arrays.items()),
    ]
    graph = helper.make_graph(
        [
            helper.make_node("MatMul", ["x", "w"], ["p"]),
            helper.make_node("Add", ["p", "bias"], ["y"]),
        ],
        "product",
        inputs,
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [M, N])],
    )
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    model = rcompiler.compile_onnx(proto, target=TARGET, device=RECORD, eus=1, cache=cache)
    x = rng.standard_normal((M, K), dtype=np.float32)
    return model, [x, arrays["w"], arrays["bias"]]


def one_task(text):
    """The schedule with the whole result as the only task's tile."""
    whole = "array<i64: -1, 0, 0, 0>"
    assert f"writes = [[{whole}, {whole}]]" in text and "tasks = 1 : i64" in text
    return text


@pytest.mark.parametrize("fused", [True, False], ids=["fused", "apart"])
@pytest.mark.parametrize("order", ["rows outside", "columns outside"])
@pytest.mark.parametrize(("rows", "columns"), [(4, 8), (3, 16), (12, 32), (1, 4)])
def test_a_body_by_hand_runs_as_it_is_written(product, cache, rows, columns, order, fused):
    model, inputs = product
    body = product_body(M, N, K, rows=rows, columns=columns, order=order, fused=fused)
    text = with_body(one_task(model.stage("vdevice")), body)
    again = rcompiler.compile_schedule(text, model.constants(), target=TARGET, cache=cache)
    np.testing.assert_array_equal(again(*inputs)[0], model(*inputs)[0])


def test_a_tile_is_written_behind_what_it_reads(product, cache):
    """Two tiles at the same place of two tensors are written together, but not if one is made of
    the other.
    """
    model, inputs = product
    text = with_body(one_task(model.stage("vdevice")), straight_body(M, N, K))
    again = rcompiler.compile_schedule(text, model.constants(), target=TARGET, cache=cache)
    np.testing.assert_array_equal(again(*inputs)[0], model(*inputs)[0])


def refused(product, cache, body):
    model, _ = product
    text = with_body(one_task(model.stage("vdevice")), body)
    with pytest.raises(InvalidModel) as found:
        rcompiler.compile_schedule(text, model.constants(), target=TARGET, cache=cache)
    return str(found.value)


def test_a_gap_is_refused(product, cache):
    body = product_body(M, N, K, rows=4, columns=8, order="rows outside", last=8)
    assert "element [8, 0] of result 0 is written never" in refused(product, cache, body)


def test_an_overlap_is_refused(product, cache):
    twice = STORE.replace("[%i, %j]", "[0, %j]")
    body = product_body(M, N, K, rows=4, columns=8, order="rows outside", stored=twice)
    assert "element [0, 0] of result 0 is written 3 times" in refused(product, cache, body)


def test_a_slice_out_of_bounds_is_refused(product, cache):
    body = product_body(M, N, K, rows=8, columns=8, order="rows outside")
    assert "takes 8 elements from 8 on in dim 0 of a tensor of 12" in refused(product, cache, body)


@pytest.mark.parametrize(
    ("right", "wrong", "reason"),
    [
        (f"tile = array<i64: {M}, {N}>", f"tile = array<i64: {M - 1}, {N}>",
         f"'tile' is .* should be {M} in dim 0, which is not cut into a grid"),
        ("lanes = ", "order = array<i64: 1, 0>, lanes = ", "it has 'order' beside the body of one"),
        ("lanes = ", "reduction_tile = array<i64: 0, 8>, lanes = ", "it has 'reduction_tile' besi"),
    ],
)  # fmt: skip
def test_a_tiling_beside_the_body_is_refused(product, cache, right, wrong, reason):
    """What would be read by nobody, and believed by who reads the text."""
    model, _ = product
    text = re.sub(rf"(?<!register_){re.escape(right)}", wrong, one_task(model.stage("vdevice")))
    assert text != model.stage("vdevice")
    with pytest.raises(InvalidModel, match=reason):
        rcompiler.compile_schedule(text, model.constants(), target=TARGET, cache=cache)


def test_a_tile_that_is_not_what_is_written_is_refused(cache):
    proto = models.build("two_branch", rows=96, width=64)
    options = {"target": TARGET, "cache": cache}
    model = rcompiler.compile_onnx(proto, device=RECORD, eus=2, **options)
    text = model.stage("vdevice")
    own = r"tile = array<i64: (\d+), 64>, vector_dim"  # of the kernel, not of its explanation
    rows = int(re.search(own, text)[1])
    assert rows < 96
    wrong = re.sub(own, "tile = array<i64: 5, 64>, vector_dim", text)
    with pytest.raises(InvalidModel, match=f"'tile' is .* should be {rows} in dim 0, as in 'writ"):
        rcompiler.compile_schedule(wrong, model.constants(), **options)


def ran(product, cache, body):
    model, inputs = product
    text = with_body(one_task(model.stage("vdevice")), body)
    again = rcompiler.compile_schedule(text, model.constants(), target=TARGET, cache=cache)
    return again(*inputs)[0]


@pytest.mark.parametrize("lanes", [1, 4, 8, 32])
def test_a_body_in_vectors_runs_as_it_is_written(product, cache, lanes):
    model, inputs = product
    found = ran(product, cache, vector_body(M, N, K, lanes))
    np.testing.assert_array_equal(found, model(*inputs)[0])


def test_arithmetic_on_vectors_is_what_the_body_says(product, cache):
    """Another function than that of the operator: the text decides."""
    body = vector_body(M, N, K, 8).replace(
        "%y = arith.addf %sum, %c :", "%d = math.exp %c : vector<8xf32>\n"
        "        %g = arith.cmpf ogt, %d, %c : vector<8xf32>\n"
        "        %y = arith.select %g, %d, %sum : vector<8xi1>,",
    )  # fmt: skip
    bias = product[1][2]
    wanted = np.broadcast_to(np.exp(bias), (M, N))
    np.testing.assert_allclose(ran(product, cache, body), wanted, rtol=1e-6)


NAMED = {
    "linalg.matmul": (
        PRODUCT[PRODUCT.index("%p = ") :],
        "%p = linalg.matmul ins(%a, %b : tensor<4x40xf32>, tensor<40x8xf32>) "
        "outs(%f : tensor<4x8xf32>) -> tensor<4x8xf32>\n",
    ),
    "linalg.map": (
        "linalg.yield %u : f32\n    } -> tensor<4x8xf32>\n",
        "linalg.yield %u : f32\n    } -> tensor<4x8xf32>\n"
        "    %e3 = tensor.empty() : tensor<4x8xf32>\n"
        "    %z = linalg.map { math.absf } ins(%y : tensor<4x8xf32>) outs(%e3 : tensor<4x8xf32>)\n",
    ),
}


@pytest.mark.parametrize("op", NAMED)
def test_named_ops_are_what_they_stand_for(product, cache, op):
    model, inputs = product
    old, new = NAMED[op]
    sizes = dict(m=M, n=N, k=K, rows=4, columns=8)
    body = product_body(M, N, K, rows=4, columns=8, order="rows outside")
    old = old.format(**sizes) if op == "linalg.matmul" else old
    assert body.count(old) == 1
    body = body.replace(old, new)
    wanted = model(*inputs)[0]
    if op == "linalg.map":
        body, wanted = body.replace("insert_slice %y", "insert_slice %z"), np.abs(wanted)
    np.testing.assert_array_equal(ran(product, cache, body), wanted)


IN_VECTORS = vector_body(M, N, K, 8)
WRONG = {
    "gap": ("%i = %c0 to", "%i = %c1 to", "element [0, 0] of result 0 is written never"),
    "overlap": ("%p[%i, %j]", "%p[%c0, %j]", "element [0, 0] of result 0 is written 12 times"),
    "read outside": ("%bias[%j]", "%bias[%n]", "goes from 32 to 39 in dim 0 of a tensor of 32"),
    "read outside in a loop": ("%k = arith.constant 40", "%k = arith.constant 41",
        "tensor.extract goes from 0 to 40 in dim 1 of a tensor of 40"),
    "write outside": ("%p[%i, %j]", "%p[%m, %j]", "goes from 12 to 12 in dim 0 of a tensor of 12"),
    "lost": ("scf.yield %r :", "scf.yield %p :", "what is yielded does not have it"),
    "a result is read": ("%bias[%j], %zero {in_bounds = [true]} : tensor<32xf32>",
        "%p[%i, %j], %zero {in_bounds = [true]} : tensor<12x32xf32>", "reads what is no operand"),
    "not in bounds": ("%p[%i, %j] {in_bounds = [true]}", "%p[%i, %j]", "in bounds and without"),
    "another op": ("%y = arith.addf %sum, %c :",
        "%y = vector.multi_reduction <add>, %sum, %c [] : vector<8xf32> to",
        "vector.multi_reduction cannot stand in the body of a task"),
    "no yield": ('    "rtask.yield"(%done) : (tensor<12x32xf32>) -> ()', "", "terminator"),
    "other types": ("%bias: tensor<32xf32>", "%bias: tensor<31xf32>", "tensor<31xf32>"),
    "yields an operand": ('"rtask.yield"(%done) : (tensor<12x32xf32>)',
        '"rtask.yield"(%x) : (tensor<12x40xf32>)', "expects the results as arguments"),
}  # fmt: skip


@pytest.mark.parametrize("fault", WRONG)
def test_a_wrong_body_in_vectors_is_refused(product, cache, fault):
    right, wrong, reason = WRONG[fault]
    assert IN_VECTORS.count(right) == 1
    assert reason in refused(product, cache, IN_VECTORS.replace(right, wrong))


@pytest.mark.parametrize("factor", [1 << 62, 1 << 59, 1 << 45])
def test_positions_that_would_wrap_are_refused(product, cache, factor):
    """16 * 2 ** 62 is 0 in 64 bits, the row where a tile may well begin."""
    body = product_body(M, N, K, rows=4, columns=8, order="rows outside")
    apply = (
        f"%far = affine.apply affine_map<(d) -> (d * {factor})>(%i)\n    %r = tensor.insert_slice"
    )
    right, place = "%r = tensor.insert_slice", "[%i, %j] [4, 8] [1, 1] : tensor<4x8xf32> into"
    assert body.count(right) == body.count(place) == 1
    wrong = body.replace(right, apply).replace(place, place.replace("%i", "%far"))
    assert "a position that no tensor is large enough for" in refused(product, cache, wrong)


def test_tiles_that_are_not_yielded_are_refused(product, cache):
    body = product_body(M, N, K, rows=4, columns=8, order="rows outside")
    for right, wrong in (
        ('"rtask.yield"(%done)', '"rtask.yield"(%out)'),
        ("scf.yield %q_done", "scf.yield %o_done"),
    ):
        assert body.count(right) == 1
        assert "what is yielded does not have it" in refused(
            product, cache, body.replace(right, wrong)
        )


def test_a_gpu_is_not_programmed_from_the_body_of_one_task(cache):
    """It does not say what each thread does."""
    model = rcompiler.compile_onnx(models.build("mlp"), target="cuda:sm_80", cache=cache)
    with pytest.raises(rcompiler.CompilerError, match="which thread makes which part of a tile"):
        tiled = lowered(model.stage("vdevice"), "rc-tile-kernels")
        rcompiler.compile_schedule(tiled, model.constants(), cache=cache)
