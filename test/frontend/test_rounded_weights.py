"""Models whose weights are rounded to a few bits: what is rounded, how, and what it costs."""

import numpy as np
import pytest
from onnx import ModelProto, TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

import rcompiler
from rcompiler.frontend.few_bits import packed, rounded, unpacked
from rcompiler.frontend.rounded_weights import with_rounded_weights

rng = np.random.default_rng(0)


def weights(*shape: int) -> np.ndarray:
    return rng.standard_normal(shape).astype(np.float32)


def model(nodes: list, shape: list[int], **constants: np.ndarray) -> ModelProto:
    """x [shape] -> y, with these constants."""
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(array, name) for name, array in constants.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def operators(made: ModelProto) -> list[str]:
    return [node.op_type for node in made.graph.node]


def result(made: ModelProto, x: np.ndarray) -> np.ndarray:
    return rcompiler.compile_onnx(made, eus=1)(x)[0]


def exact(made: ModelProto, x: np.ndarray) -> np.ndarray:
    return ReferenceEvaluator(made).run(None, {"x": x})[0]


def test_numbers_are_the_nearest_steps_by_hand():
    columns = np.array([[7, -3.4, 0.5, 1.5, 0, 0, 0, 0]], np.float32)
    made = rounded(columns, 4, 4)
    assert made.scales.tolist() == [[1, 1]]  # of zeros any scale will do
    assert made.numbers.tolist() == [[[15, 5, 8, 10], [8, 8, 8, 8]]]
    assert made.dense()[:, 0].tolist() == [7, -3, 0, 2, 0, 0, 0, 0]


@pytest.mark.parametrize("bits", [2, 4, 8])
def test_packed_numbers_come_out_as_they_were(bits: int):
    numbers = rng.integers(0, 1 << bits, (3, 16)).astype(np.uint8)
    assert (unpacked(packed(numbers, bits), bits) == numbers).all()


@pytest.mark.parametrize(("bits", "rms"), [(4, 0.12), (8, 0.008)])
def test_an_error_of_half_a_step(bits: int, rms: float):
    w = weights(96, 40)
    before = model([helper.make_node("MatMul", ["x", "w"], ["y"], "product")], [1, 96], w=w)
    made, [error] = with_rounded_weights(before, bits)
    assert operators(made) == ["MatMulNBits"] and operators(before) == ["MatMul"]
    assert "w" not in {t.name for t in made.graph.initializer}
    assert (error.node, error.shape) == ("product", (96, 40))
    assert rms / 2 < error.rms < rms
    assert error.largest <= 0.5 / ((1 << bits - 1) - 1) + 1e-6
    x = weights(1, 96)
    want = x @ rounded(np.ascontiguousarray(w.T), bits, 32).dense()
    np.testing.assert_allclose(result(made, x), want, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("beta", [1.0, 0.5, 0.0])
@pytest.mark.parametrize("by_rows", [0, 1])
def test_all_that_a_gemm_does(beta: float, by_rows: int):
    shape = (24, 64) if by_rows else (64, 24)
    node = helper.make_node(
        "Gemm", ["x", "w", "c"], ["y"], alpha=2.0, beta=beta, transB=by_rows, name="dense"
    )
    before = model([node], [2, 64], w=weights(*shape), c=weights(24))
    made, [error] = with_rounded_weights(before, 8)
    assert error.shape == (64, 24)
    x = weights(2, 64)
    want = exact(before, x)
    assert np.abs(result(made, x) - want).max() < 0.02 * np.abs(want).max()


def test_operators_that_share_weights_share_words():
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["h"]),
        helper.make_node("MatMul", ["h", "w"], ["g"]),
        helper.make_node("Add", ["g", "w"], ["y"]),  # reads the exact ones
    ]
    made, errors = with_rounded_weights(model(nodes, [32, 32], w=weights(32, 32)), 8)
    assert [e.node for e in errors] == ["h", "g"]
    assert {t.name for t in made.graph.initializer} == {"w", "w.0.q8", "w.0.scales"}


@pytest.mark.parametrize(
    ("node", "w"),
    [
        (helper.make_node("MatMul", ["x", "w"], ["y"]), weights(2, 64, 8)),
        (helper.make_node("MatMul", ["x", "x"], ["y"]), weights(1)),
        (helper.make_node("Gemm", ["x", "w"], ["y"], transA=1), weights(64, 8)),
        (helper.make_node("Add", ["x", "w"], ["y"]), weights(64, 64)),
    ],
    ids=["matrices with batches", "no constant", "a transposed input", "another operator"],
)
def test_what_stays_as_it_is(node, w: np.ndarray):
    before = model([node], [64, 64], w=w)
    made, errors = with_rounded_weights(before, 4)
    assert not errors and operators(made) == operators(before)
    assert len(made.opset_import) == 1


def test_weights_that_callers_may_give_stay_as_they_are():
    before = model([helper.make_node("MatMul", ["x", "w"], ["y"])], [1, 64], w=weights(64, 8))
    before.graph.input.append(helper.make_tensor_value_info("w", TensorProto.FLOAT, [64, 8]))
    assert with_rounded_weights(before, 4)[1] == []
