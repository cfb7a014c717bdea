"""Sequences that cannot be are refused by the node that finds it."""

import pytest
from onnx import TensorProto, helper

from rcompiler.errors import UnsupportedOp
from rcompiler.frontend import import_onnx

node, tensor = helper.make_node, helper.make_tensor_value_info
F, INT = TensorProto.FLOAT, TensorProto.INT64


def refused(nodes, reason, **shapes):
    """By the last of some nodes, which make `y` of inputs of these shapes."""
    inputs = [tensor(name, F, shape) for name, shape in shapes.items()]
    graph = helper.make_graph(nodes, "g", inputs, [tensor("y", F, None)])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 22)])
    with pytest.raises(UnsupportedOp, match=f"'last'.*{reason}"):
        import_onnx(model)


@pytest.mark.parametrize(
    ("axis", "new", "shape"),
    [(0, 0, [7, 0]), (0, 0, [7]), (1, 0, [6, 4]), (0, 1, [6, 16]), (2, 1, [7, 15])],
)
def test_tensors_that_do_not_fit_are_not_joined(axis, new, shape):
    nodes = [
        node("SequenceConstruct", ["a", "b"], ["s"]),
        node("ConcatFromSequence", ["s"], ["y"], name="last", axis=axis, new_axis=new),
    ]
    refused(nodes, "differ outside the joined axis", a=[7, 16], b=shape)


def test_tensors_of_other_ranks_are_not_joined():
    nodes = [
        node("SequenceConstruct", ["a", "b"], ["s"]),
        node("ConcatFromSequence", ["s"], ["y"], name="last", axis=2),
    ]
    refused(nodes, "differ outside the joined axis", a=[2, 3, 4], b=[2, 3])


def test_parts_of_less_than_nothing_are_none():
    sizes = helper.make_tensor("sizes", INT, [2], [-1, 4])
    nodes = [
        node("Constant", [], ["sizes"], value=sizes),
        node("SplitToSequence", ["a", "sizes"], ["s"], name="last"),
        node("ConcatFromSequence", ["s"], ["y"], axis=0),
    ]
    refused(nodes, "do not add up", a=[3, 2])


def test_sequences_of_other_lengths_are_not_gone_through_together():
    body = helper.make_graph(
        [node("Add", ["p", "q"], ["r"])], "b", [tensor("p", F, None), tensor("q", F, None)],
        [tensor("r", F, None)],
    )  # fmt: skip
    nodes = [
        node("SequenceConstruct", ["a", "b"], ["s"]),
        node("SequenceConstruct", ["a"], ["t"]),
        node("SequenceMap", ["s", "t"], ["u"], name="last", body=body),
        node("ConcatFromSequence", ["u"], ["y"], axis=0),
    ]
    refused(nodes, "do not match", a=[2, 3], b=[2, 3])
