"""Floats to integers that have no such number: one answer on each device, and while compiling."""

import numpy as np
import pytest
from onnx import TensorProto, helper

import rcompiler

INTEGERS = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")
FLOATS = ("float16", "float32", "float64")
TARGETS = ("cpu:x86-64", "cpu:v3", "cpu:v4", "cuda:emulated")
VALUES = np.array(
    [np.nan, np.inf, -np.inf, 1e20, -1e20, 3e9, -3e9, 5e9, 1.8e19, 2.0**64, 2.0**63, -(2.0**63),
     2.0**31, -(2.0**31), 2147483647.5, 70000, -70000, 300, -300, -1, -0.5, 0.5, 7]
)  # fmt: skip


def low_bits(number: int, kind: str) -> int:
    bits = np.iinfo(kind).bits
    number &= (1 << bits) - 1
    return number - (1 << bits) if np.iinfo(kind).min < 0 and number >> (bits - 1) else number


def right(value: float, kind: str) -> int:
    """As `frontend.casts` says it."""
    bits = 64 if kind in ("int64", "uint32", "uint64") else 32
    whole = int(value) if np.isfinite(value) else None
    if kind == "uint64":
        if value >= 2.0**64:
            return 0
        if value >= 2.0**63:
            return int(value)
    least = -(1 << (bits - 1))
    return low_bits(whole if whole is not None and least <= whole < -least else least, kind)


def network(source, constant=False):
    """A cast to each type, of an input or of a constant."""
    x = VALUES.astype(source)
    kind = helper.np_dtype_to_tensor_dtype(x.dtype)
    nodes = [
        helper.make_node("Cast", ["x"], [name], to=helper.np_dtype_to_tensor_dtype(np.dtype(name)))
        for name in INTEGERS
    ]
    outputs = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(np.dtype(name)), None)
        for name in INTEGERS
    ]
    inputs = [helper.make_tensor_value_info("x", kind, x.shape)]
    weights = []
    if constant:
        weights = [helper.make_tensor("x", kind, x.shape, x)]
        inputs = [helper.make_tensor_value_info("z", TensorProto.FLOAT, [1])]
        nodes.append(helper.make_node("Neg", ["z"], ["w"]))
        outputs.append(helper.make_tensor_value_info("w", TensorProto.FLOAT, [1]))
    graph = helper.make_graph(nodes, "g", inputs, outputs, weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


def check(found, source):
    with np.errstate(over="ignore"):
        x = VALUES.astype(source)
    for name, got in zip(INTEGERS, found, strict=False):
        wanted = [right(float(value), name) for value in x]
        assert got.tolist() == wanted, (source, name)


@pytest.mark.filterwarnings("ignore:overflow")
@pytest.mark.parametrize("source", FLOATS)
@pytest.mark.parametrize("target", TARGETS)
def test_what_an_integer_has_not_is_the_same_on_each_device(target, source):
    model = rcompiler.compile_onnx(network(source), target=target, eus=1, cache=False)
    if not callable(model):
        pytest.skip("this CPU lacks what the target has")
    check(model(VALUES.astype(source)), source)


@pytest.mark.filterwarnings("ignore:overflow", "ignore:invalid value")
@pytest.mark.parametrize("source", FLOATS)
def test_what_is_computed_while_compiling_is_the_same(source):
    model = rcompiler.compile_onnx(network(source, constant=True), eus=1, cache=False)
    found = model(np.zeros(1, np.float32))
    check(found, source)
