"""What packed batches are computed on: rows, and groups of requests by their lengths."""

import re
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))

import sized_networks

from rcompiler.errors import ShapeError, UnsupportedOp
from rcompiler.frontend import check, import_onnx
from rcompiler.frontend.packed.packing import Group, Packing, packings_of
from rcompiler.frontend.packed.rules import names
from rcompiler.frontend.sizes import rules as sizes
from rcompiler.support.extent import Extent, Symbol

SHAPES = {"batch": 8, "seq": range(1, 17)}


def packing(requests, longest, rows):
    return Packing(
        {}, *(Symbol(n, 1, d) for n, d in (("b", requests), ("s", longest), ("r", rows)))
    )


def test_groups_halve():
    assert packing(8, 512, 1024).groups() == [Group(0, 2, 512), Group(2, 2, 341), Group(4, 4, 204)]
    assert packing(8, 512, 4096).groups() == [Group(0, 8, 512)]
    assert packing(3, 9, 9).groups() == [Group(0, 1, 9), Group(1, 2, 4)]
    assert packing(2, 9, 9).groups() == [Group(0, 2, 9)]


@given(st.lists(st.integers(1, 40), min_size=1, max_size=9), st.integers(0, 20))
def test_each_request_has_room_in_its_group(lengths, more):
    lengths = sorted(lengths, reverse=True)
    most, rows = max(len(lengths), 2), sum(lengths) + more
    groups = packing(most, 40, max(rows, 2)).groups()
    assert [n for g in groups for n in range(g.first, g.first + g.count)] == [*range(most)]
    assert groups[-1].count > 1
    for group in groups:
        assert all(n <= group.longest for n in lengths[group.first : group.first + group.count])


def test_tiers_have_less_and_less_work():
    assert packing(8, 100, 800).tiers() == [packing(8, 100, 800).groups()]
    assert packing(8, 512, 1024).tiers() == [
        [Group(0, 2, 512), Group(2, 2, 341), Group(4, 4, 204)],
        [Group(0, 2, 256), Group(2, 2, 171), Group(4, 4, 102)],
        [Group(0, 8, 128)],
        [Group(0, 2, 128), Group(2, 2, 86), Group(4, 4, 51)],
    ]
    assert packing(8, 512, 4096).tiers() == [[Group(0, 8, n)] for n in (512, 256, 128)]


def bert(**options):
    return packings_of(sized_networks.bert(layers=1), SHAPES, options or None, ("batch", "seq"))


def test_all_sizes_have_a_program():
    found = bert()
    assert found.symbols == ("rows", "seq")
    tops = [tuple(top for _, top in sizes) for sizes in found.buckets]
    assert tops == [(top, 16) for top, _ in tops] and tops[-1] == (128, 16)
    tops = [tuple(top for _, top in sizes) for sizes in bert(seq=(4, 16)).buckets]
    for longest in range(1, 17):
        for rows in range(longest, 8 * longest + 1):
            most = min(top for top, _ in tops if top >= rows)
            assert any(top == most and n >= min(longest, rows) for top, n in tops)
    # what a program for fewer rows, or for shorter requests, takes anyway
    assert len(tops) == len({*tops}) and (128, 4) not in tops and (4, 16) not in tops


def test_buckets_may_be_given():
    assert [*bert(rows=(32, 128), seq=(8, 16)).buckets] == [
        ((1, 32), (1, 8)),
        ((1, 32), (1, 16)),
        ((1, 128), (1, 8)),
        ((1, 128), (1, 16)),
    ]
    with pytest.raises(ShapeError, match="65 programs|programs are asked for"):
        bert(rows=tuple(range(4, 129)))


def test_weights_multiply_rows_alone():
    """Of 48 rows only pairs of positions, and what is multiplied by them, are in groups."""
    found = replace(bert(rows=(128,), seq=(16,)).bindings[0], rows=Symbol("rows", 1, 48))
    text = import_onnx(sized_networks.bert(layers=1), packing=found).module_text
    shapes = {tuple(map(int, n.split("x"))) for n in re.findall(r"tensor<([\dx]+)xf32>", text)}
    assert {(48, 32), (48, 64)} <= shapes
    assert {(4, 4, 16, 16), (4, 4, 9, 9)} <= shapes
    assert not any(shape[-1] == 32 and len(shape) > 2 and shape[0] > 1 for shape in shapes)
    assert not any(shape[:2] == (8, 16) for shape in shapes)


def test_all_gaps_are_listed():
    nodes = [
        helper.make_node("Trilu", ["x"], ["a"], "first"),
        helper.make_node("Concat", ["x", "x"], ["b"], "second", axis=1),
    ]
    both = ["batch", "seq", 4]
    graph = helper.make_graph(
        nodes,
        "gaps",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, both)],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in "ab"],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)])
    found = packings_of(model, SHAPES, None, ("batch", "seq")).bindings[-1]
    gaps = check(model, packing=found)
    assert [(gap.node, gap.op) for gap in gaps] == [("first", "Trilu"), ("second", "Concat")]
    assert all("not translated for packed batches" in gap.reason for gap in gaps)


def test_squeeze_without_axes_is_refused():
    """A call may have one request, and a request one position."""
    graph = helper.make_graph(
        [helper.make_node("Squeeze", ["x"], ["y"])],
        "axes",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", "seq", 1])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)])
    found = packings_of(model, SHAPES, None, ("batch", "seq")).bindings[-1]
    with pytest.raises(UnsupportedOp, match="which axes have one element depends on the sizes"):
        import_onnx(model, packing=found)


NODES = {
    "a row more": helper.make_node("Pad", ["z", "pads"], ["y"]),
    "rows again": helper.make_node("Tile", ["z", "twice"], ["y"]),
    "over requests": helper.make_node("Softmax", ["z"], ["y"], axis=0),
    "their sum": helper.make_node("ReduceSum", ["z", "first"], ["y"]),
    "the first one": helper.make_node("Gather", ["z", "first"], ["y"]),
    "all pairs": helper.make_node("Gemm", ["z", "z"], ["y"], transB=1),
    "so far": helper.make_node("CumSum", ["z", "first"], ["y"]),
}
APART = {
    "within each": helper.make_node("Softmax", ["z"], ["y"], axis=1),
    "its sum": helper.make_node("ReduceSum", ["z", "last"], ["y"]),
    "with weights": helper.make_node("Gemm", ["z", "w"], ["y"]),
    "turned": helper.make_node("Transpose", ["z"], ["y"], perm=[1, 0]),
    "normalised": helper.make_node("LpNormalization", ["z"], ["y"], axis=1),
}


def of_requests(node):
    """The gaps of a model with a node on a tensor that requests have without lengths."""
    constants = {"pads": [1, 0, 0, 0], "twice": [2, 1], "first": [0], "last": [-1]}
    weights = {"w": np.ones((4, 2), np.float32)}
    arrays = weights | {name: np.int64(value) for name, value in constants.items()}
    graph = helper.make_graph(
        [helper.make_node("Relu", ["x"], ["v"]), node],
        "requests",
        [
            helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", "seq", 4]),
            helper.make_tensor_value_info("z", TensorProto.FLOAT, ["batch", 4]),
        ],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in "vy"],
        [numpy_helper.from_array(array, name) for name, array in arrays.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)])
    return check(model, packing=packings_of(model, SHAPES, None, ("batch", "seq")).bindings[-1])


@pytest.mark.parametrize("what", NODES)
def test_requests_without_lengths_do_not_read_each_other(what):
    (gap,) = of_requests(NODES[what])
    assert "requests read each other" in gap.reason


@pytest.mark.parametrize("what", APART)
def test_requests_without_lengths_may_be_apart(what):
    assert of_requests(APART[what]) == []


@pytest.mark.parametrize("op", ["Shape", "Size"])
def test_a_result_that_says_lengths_is_refused(op):
    """It is one number, and each request has its own."""
    graph = helper.make_graph(
        [helper.make_node("Relu", ["x"], ["y"]), helper.make_node(op, ["y"], ["told"])],
        "lengths",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", "seq", 4])],
        [helper.make_tensor_value_info("told", TensorProto.INT64, None)],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)])
    found = packings_of(model, SHAPES, None, ("batch", "seq")).bindings[-1]
    with pytest.raises(UnsupportedOp, match="'told'.* number of its own"):
        import_onnx(model, packing=found)


def test_operators_have_rules_for_sizes_too():
    """By groups they are computed on tensors of sizes that are known at run time."""
    for name, domain in names():
        assert name in ("Shape", "Size") or sizes.find(name, domain) is not None, name


def test_sizes_are_replaced():
    a, b = (Symbol(name, 1, 9) for name in "ab")
    size = Extent.of(a) * Extent.of(b) * 3 + Extent.of(a) + 2
    assert size.replaced({a: 2}) == Extent.of(b) * 6 + 4
    assert size.replaced({a: Extent.of(b)}) == Extent.of(b) * Extent.of(b) * 3 + Extent.of(b) + 2
    assert size.replaced({a: 2, b: 0}) == 4 and size.replaced({}) == size
