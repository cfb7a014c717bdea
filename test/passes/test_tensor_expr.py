"""Operators as tensor expressions: what the cost model is told of their arithmetic."""

import onnx
import pytest
from onnx import TensorProto, helper

from rcompiler.compile import operators_of
from rcompiler.device.cpu import cpu_device
from rcompiler.passes.roller_tile import distinct_bodies


def of_one_node(op: str, **attributes) -> onnx.ModelProto:
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, (8, 64))
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    graph = helper.make_graph([helper.make_node(op, ["x"], ["y"], **attributes)], "g", [x], [y])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)


@pytest.mark.parametrize(
    ("op", "ops", "epilogue"),
    [
        ("Neg", 2, 0),  # two operations in one slot, as in a multiply-add
        ("Floor", 2, 0),
        ("Exp", 24, 0),
        ("Sin", 460, 0),  # calls libm
        # of each element: maximum, product, difference, power of two, sum, quotient and product
        ("Softmax", 2 * (1 + 1 + 1 + 10 + 1 + 5 + 1), 0),
        ("ReduceMean", 2, 10),  # a sum of elements, one quotient per row
    ],
)
def test_operations_are_counted_in_slots_of_arithmetic(op, ops, epilogue):
    attributes = {"ReduceMean": {"keepdims": 0}}.get(op, {})
    with operators_of(of_one_node(op, **attributes), cpu_device("v4")) as module:
        [expr] = [body.expression() for body in distinct_bodies(module.operation)]
    assert (expr.ops, expr.epilogue_ops) == (ops, epilogue)


def residual_block(rows: int, columns: int) -> onnx.ModelProto:
    """s = x + y, and its layer normalisation times a matrix, plus s: layers of transformers."""
    shape = (rows, columns)
    x, y, z = (helper.make_tensor_value_info(n, TensorProto.FLOAT, shape) for n in "xyz")
    scale = helper.make_tensor_value_info("scale", TensorProto.FLOAT, (columns,))
    weights = helper.make_tensor_value_info("w", TensorProto.FLOAT, (columns, columns))
    nodes = [
        helper.make_node("Add", ["x", "y"], ["s"]),
        helper.make_node("LayerNormalization", ["s", "scale"], ["n"]),
        helper.make_node("MatMul", ["n", "w"], ["m"]),
        helper.make_node("Add", ["m", "s"], ["z"]),
    ]
    graph = helper.make_graph(nodes, "g", [x, y, scale, weights], [z])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)


def test_a_sum_beside_its_normalisation_is_computed_row_by_row():
    with operators_of(residual_block(49, 768), cpu_device("v4")) as module:
        bodies = (body.expression() for body in distinct_bodies(module.operation))
        [expr] = [expr for expr in bodies if len(expr.outputs) == 2]
    kinds = [(axis.size, axis.kind) for axis in expr.axes]
    assert kinds == [(49, "parallel"), (768, "reduction")]  # the rows are cut, no row is
    # sum, two sums over the row, difference and square, difference and quotient, scale
    assert 2 * 7 <= expr.ops <= 2 * 12
