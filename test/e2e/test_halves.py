"""Networks of f16 compute in f32; what they store, and what a Cast says, is rounded."""

from functools import cache

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator
from support.half_networks import KINDS, NETWORKS, Network
from support.levels import HERE

import rcompiler

FUSING = [f"cpu:{level}" for level in HERE if level != "x86-64"]


def shape_of(model):
    return [d.dim_value for d in model.graph.input[0].type.tensor_type.shape.dim]


@cache
def exact(name, kind):
    """The input, and what a network makes of it in f64 with weights of 16 bits."""
    model = NETWORKS[name](Network(kind, as_double=True))
    x = np.random.default_rng(3).standard_normal(shape_of(model)).astype(KINDS[kind][1])
    [y] = ReferenceEvaluator(model).run(None, {"x": x.astype(np.float64)})
    return x, y


@cache
def found(name, kind, target, fusion=True):
    model = NETWORKS[name](Network(kind, as_double=False))
    compiled = rcompiler.compile_onnx(model, target=target, fusion=fusion, cache=False)
    [y] = compiled(exact(name, kind)[0])
    assert y.dtype == KINDS[kind][1]
    return y


def error(name, kind, target, **options):
    """The largest error, as a share of the range of the right result."""
    right = exact(name, kind)[1]
    return np.max(np.abs(found(name, kind, target, **options) - right)) / np.ptp(right)


@pytest.mark.parametrize("target", ["cpu", "cpu:x86-64"])
@pytest.mark.parametrize("name", NETWORKS)
def test_a_network_of_f16_computes_what_leaves_f16(name, target):
    """Rounded between two ops, each of these was infinite or wrong by half of the range."""
    assert error(name, "f16", target) < 1e-3


@pytest.mark.parametrize("name", NETWORKS)
def test_a_network_of_f16_does_not_ask_what_is_fused(name):
    assert error(name, "f16", "cpu", fusion=False) < 1e-3


@pytest.mark.parametrize("name", NETWORKS)
def test_a_network_of_bf16_rounds_what_it_stores(name):
    assert error(name, "bf16", "cpu") < 3e-2


@pytest.mark.parametrize("target", ["cuda:emulated", "cuda:emulated-sm_90a"])
@pytest.mark.parametrize("name", ["bert", "convnext", "vit"])
def test_norms_and_scores_that_leave_f16_on_a_gpu(name, target):
    """Inside of an rOperator; in T5's layer of 10^5 one hands them to another."""
    assert error(name, "f16", target) < 1e-3


@pytest.mark.skipif(len(FUSING) < 2, reason="this host has one such level at most")
@pytest.mark.parametrize("name", NETWORKS)
def test_all_levels_give_the_same_bits(name):
    first, *others = (found(name, "f16", target) for target in FUSING)
    for other in others:
        np.testing.assert_array_equal(first.view(np.int16), other.view(np.int16))


def run(nodes, outputs, x, target, constants=()):
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", helper.np_dtype_to_tensor_dtype(x.dtype), x.shape)],
        [helper.make_tensor_value_info(name, kind, None) for name, kind in outputs],
        [numpy_helper.from_array(value, name) for name, value in constants],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)
    return rcompiler.compile_onnx(model, target=target, cache=False)(x)


@pytest.mark.parametrize("target", ["cpu", "cuda:emulated"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_cast_rounds(kind, target):
    """To what it says, although nothing else in between is rounded."""
    onnx_type, dtype = KINDS[kind]
    x = np.random.default_rng(0).standard_normal(100).astype(np.float32)
    nodes = [
        helper.make_node("Cast", ["x"], ["half"], to=onnx_type),
        helper.make_node("Mul", ["half", "one"], ["product"]),
        helper.make_node("Cast", ["product"], ["y"], to=TensorProto.FLOAT),
    ]
    [y] = run(nodes, [("y", TensorProto.FLOAT)], x, target, [("one", np.ones((), dtype))])
    np.testing.assert_array_equal(y, x.astype(dtype).astype(np.float32))


def test_what_is_an_output_is_read_as_it_is_stored():
    x = np.random.default_rng(0).uniform(1, 2, 64).astype(np.float16)
    third = np.float16(1 / 3)
    nodes = [
        helper.make_node("Mul", ["x", "third"], ["stored"]),
        helper.make_node("Mul", ["stored", "many"], ["y"]),
    ]
    outputs = [("stored", TensorProto.FLOAT16), ("y", TensorProto.FLOAT16)]
    constants = [("third", third), ("many", np.float16(1000))]
    stored, y = run(nodes, outputs, x, "cpu", constants)
    np.testing.assert_array_equal(stored, x * third)
    np.testing.assert_array_equal(y, stored * np.float16(1000))
