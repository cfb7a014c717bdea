"""What cannot be compiled is refused before compiling, with all that is needed to mend it."""

import re
import resource
import warnings
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.backend.test.loader import load_model_tests

from rcompiler.errors import CompilerError, Gap, InvalidModel, ShapeError, UnsupportedOp
from rcompiler.frontend import check, import_onnx

node, tensor = helper.make_node, helper.make_tensor_value_info
F, INT, TEXT = TensorProto.FLOAT, TensorProto.INT64, TensorProto.STRING
KINDS = ("node", "simple", "pytorch-converted", "pytorch-operator")


def model(nodes, inputs, outputs, weights=(), imports=()):
    graph = helper.make_graph(nodes, "g", inputs, outputs, list(weights))
    opsets = [helper.make_opsetid("", 21), *(helper.make_opsetid(d, 1) for d in imports)]
    return helper.make_model(graph, opset_imports=opsets)


def sequence(name, shape=None):
    inner = helper.make_tensor_type_proto(F, shape)
    return helper.make_value_info(name, helper.make_sequence_type_proto(inner))


def optional(name):
    inner = helper.make_tensor_type_proto(F, [2])
    return helper.make_value_info(name, helper.make_optional_type_proto(inner))


def assert_complete(gap: Gap, graph: onnx.GraphProto) -> None:
    """The refusal names a part of the graph, its operator and types, a reason and a remedy."""
    first = gap.node.partition("/")[0]
    places = {
        "input": {value.name for value in graph.input},
        "output": {value.name for value in graph.output},
        "node": {n.name or f"{n.op_type}_{i}" for i, n in enumerate(graph.node)},
        "tensor": {t.name for t in graph.initializer},
    }
    assert gap.node and (first in places[gap.kind] or gap.node in places[gap.kind]), gap
    assert re.fullmatch(r"[A-Za-z0-9_.]+", gap.op), gap
    assert re.search(r"[a-z0-9]+\[.*\]|sequence|optional|unknown|inputs: $", gap.detail), gap
    assert len(gap.reason) > 10, gap
    assert len(gap.remedy.split()) >= 4 and not gap.remedy.startswith("See"), gap
    assert str(gap).startswith(f"{gap.kind} '{gap.node}'") and gap.remedy in str(gap)


def suite():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        cases = [case for kind in KINDS for case in load_model_tests(kind=kind)]
    for case in cases:
        yield case.name, case.model or onnx.load(f"{case.model_dir}/model.onnx")


def test_every_refusal_of_the_standard_cases_says_all():
    refused: dict[str, list[Gap]] = {}
    for name, proto in suite():
        try:
            gaps = check(proto)
        except CompilerError as error:
            pytest.fail(f"{name}: not listed but raised: {error}")
        for gap in gaps:
            assert_complete(gap, proto.graph)
        if any(not gap.needs for gap in gaps):
            refused[name] = gaps
    assert len(refused) > 60
    details = " ".join(gap.detail for gaps in refused.values() for gap in gaps)
    assert all(kind in details for kind in ("string[", "sequence of", "optional of"))


EVERYTHING = model(
    [
        node("StringConcat", ["text", "text"], ["joined"], name="join"),
        node("SequenceAt", ["list", "at"], ["item"], name="take"),
        node("OptionalGetElement", ["maybe"], ["got"], name="get"),
        node("OneHot", ["at", "at", "x"], ["where"], name="find"),
        node("Nope", ["x"], ["no"], name="nope", domain="me"),
        node("SplitToSequence", ["x"], ["parts"], name="split"),
        node("If", ["c"], ["r"], name="if",
             then_branch=helper.make_graph(
                 [node("Nope", ["x"], ["t"], name="inner", domain="me")], "t", [],
                 [tensor("t", F, None)]),
             else_branch=helper.make_graph(
                 [node("Relu", ["x"], ["e"], name="fine")], "e", [], [tensor("e", F, None)])),
        node("Constant", [], ["words"], name="const", value=numpy_helper.from_array(
            np.array(["a"], object))),
        node("Identity", ["weight"], ["w"], name="copy"),
    ],
    [tensor("text", TEXT, [2]), sequence("list", [2]), optional("maybe"), tensor("x", F, [2, 2]),
     tensor("n", F, ["batch"]), tensor("c", TensorProto.BOOL, []), tensor("at", INT, [])],
    [tensor("joined", TEXT, None), tensor("where", F, None), sequence("parts"),
     tensor("r", F, None)],
    [numpy_helper.from_array(np.array(["b"], object), "weight"),
     numpy_helper.from_array(np.array(["b"], object), "not_read")],
    ["me"],
)  # fmt: skip


def test_all_of_a_model_is_listed():
    gaps = {(gap.kind, gap.node): gap for gap in check(EVERYTHING)}
    assert set(gaps) == {
        ("input", "text"), ("input", "list"), ("input", "maybe"), ("input", "n"),
        ("node", "join"), ("node", "find"), ("node", "nope"),
        ("node", "if/inner"), ("node", "const"), ("tensor", "weight"), ("output", "parts"),
    }  # fmt: skip
    assert gaps["input", "text"].detail == "string[2]"
    assert gaps["input", "list"].detail == "sequence of float32[2]"
    assert gaps["input", "maybe"].op == "OptionalGetElement"
    assert gaps["input", "n"].needs == ("n",) and "batch" in gaps["input", "n"].remedy
    assert gaps["node", "find"].needs == ("at",)
    assert gaps["tensor", "weight"].op == "Identity"
    assert gaps["output", "parts"].op == "SplitToSequence"


def test_compiling_raises_the_first_one():
    with pytest.raises(UnsupportedOp, match=r"input 'text' \(StringConcat\): .*\(string\[2\]\)"):
        import_onnx(EVERYTHING)


def test_a_result_that_is_not_made_is_refused_when_it_is_read():
    """BatchNormalization of opset 8 declares running statistics; at inference they are not made."""
    nodes = [
        node(
            "BatchNormalization",
            ["x", "s", "s", "s", "s"],
            ["y", "mean", "v", "m", "w"],
            name="norm",
        ),
        node("Relu", ["mean"], ["z"], name="relu"),
    ]
    one = numpy_helper.from_array(np.ones(2, np.float32), "s")
    made = model(nodes[:1], [tensor("x", F, [1, 2, 3])], [tensor("y", F, None)], [one])
    made.opset_import[0].version = 8
    assert [spec.name for spec in import_onnx(made).outputs] == ["y"]
    made.graph.output.append(tensor("mean", F, None))
    with pytest.raises(UnsupportedOp, match="'norm' .*result 1 .'mean'. is not translated"):
        import_onnx(made)
    assert [gap.node for gap in check(made)] == ["norm"]
    del made.graph.output[1]
    made.graph.node.append(nodes[1])
    made.graph.output.append(tensor("z", F, None))
    with pytest.raises(UnsupportedOp, match="result 1"):
        import_onnx(made)
    assert [gap.node for gap in check(made)] == ["norm"]


@pytest.mark.parametrize(
    "shapes, values, words",
    [
        ({"x": (3,)}, None, "fixes a dimension"),
        (None, {"x": np.zeros(3)}, "fixes a dimension"),
        (None, {"n": 4}, "no input 'n'"),
        ({"m": 4}, None, "no input or dimension 'm'"),
        ([], None, "shapes=.. give a dict|shapes=..: give a dict"),
    ],
)
def test_what_does_not_fit_the_model_is_raised_also_by_check(shapes, values, words):
    made = model(
        [node("Add", ["x", "b"], ["y"])],
        [tensor("x", F, [2]), tensor("b", F, ["n"])],
        [tensor("y", F, None)],
    )
    for call in (check, import_onnx):
        with pytest.raises(ShapeError, match=words):
            call(made, shapes, values)


def test_huge_tensors_are_refused_by_name():
    made = model(
        [node("Add", ["x", "b"], ["y"], name="add")],
        [tensor("x", F, [1 << 18, 1]), tensor("b", F, [1, 1 << 18])],
        [tensor("y", F, None)],
    )
    (gap,) = check(made)
    assert_complete(gap, made.graph)
    assert gap.node == "add" and "GiB" in gap.reason and "float32[262144,262144]" in gap.detail
    made.graph.input[0].type.tensor_type.shape.dim[1].dim_value = 1 << 40
    assert check(made)[0].node == "x"


@pytest.mark.parametrize(
    "shape, words",
    [([0, 1 << 61], "larger than 64 GiB"), ([1] * 65, "more than 64 dimensions")],
)
def test_shapes_that_numpy_cannot_hold_are_refused(shape, words):
    made = model([node("Relu", ["x"], ["y"])], [tensor("x", F, shape)], [tensor("y", F, None)])
    with pytest.raises(ShapeError, match=f"input 'x' .Relu.: a tensor .*{words}"):
        import_onnx(made)


def test_what_cannot_be_allocated_is_refused_as_such():
    """Sizes beyond 64 bits must not wrap around, and running out of memory is no misfit."""
    weights = [numpy_helper.from_array(np.array([1 << 62]), "s")]
    made = model(
        [node("Tile", ["x", "s"], ["y"])], [tensor("x", F, [2])], [tensor("y", F, None)], weights
    )
    with pytest.raises(ShapeError, match="Tile.*larger than 64 GiB"):
        import_onnx(made)
    nodes = [node("EyeLike", ["x"], ["y"])]
    made = model(nodes, [tensor("x", F, [1 << 17, 1 << 16])], [tensor("y", F, None)])
    with pytest.raises(ShapeError, match="EyeLike.*not enough memory to compile it"), limited():
        import_onnx(made)


@pytest.mark.parametrize("count", [-1, 0, 3, (1 << 63) - 1])
def test_parts_of_a_split_that_have_no_output_are_never_made(count):
    split = node("Split", ["x"], ["y", "z"], num_outputs=count)
    made = model([split], [tensor("x", F, [5])], [tensor("y", F, None)])
    with pytest.raises((ShapeError, InvalidModel), match="outputs|num_outputs"):
        import_onnx(made)


@pytest.mark.parametrize("mode", ["reflect", "edge", "wrap"])
def test_a_table_of_billions_of_positions_is_never_made(mode):
    pads = numpy_helper.from_array(np.array([3, 1 << 31], np.int64), "p")
    pad = node("Pad", ["x", "p"], ["y"], mode=mode)
    made = model([pad], [tensor("x", F, [5])], [tensor("y", F, None)], [pads])
    with pytest.raises(UnsupportedOp, match=f"mode {mode} pads a dimension to 2147483656 elements"):
        import_onnx(made)


@pytest.mark.parametrize("given", [{"mode": "nearest"}, {"mode": "linear"}])
def test_a_resize_to_hundreds_of_millions_of_elements_makes_no_table(given):
    sizes = numpy_helper.from_array(np.array([1 << 28], np.int64), "s")
    resize = node("Resize", ["x", "", "", "s"], ["y"], **given)
    made = model([resize], [tensor("x", F, [5])], [tensor("y", F, None)], [sizes])
    with pytest.raises(UnsupportedOp, match="resizing dimension 0 from 5 to 268435456 elements"):
        import_onnx(made)


def test_a_resize_that_averages_hundreds_of_millions_of_elements_makes_no_table():
    scales = numpy_helper.from_array(np.array([2e-8], np.float32), "s")
    resize = node("Resize", ["x", "", "s"], ["y"], mode="cubic", antialias=1)
    made = model([resize], [tensor("x", F, [1 << 26])], [tensor("y", F, None)], [scales])
    with pytest.raises(UnsupportedOp, match="reads 20000000[0-9] elements"):
        import_onnx(made)


@contextmanager
def limited():
    """At most 1 GB more memory than now."""
    before = resource.getrlimit(resource.RLIMIT_AS)
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limit = pages * resource.getpagesize() + (1 << 30)
    resource.setrlimit(resource.RLIMIT_AS, (limit, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)


def test_a_model_that_is_not_valid_is_not_listed_but_raised():
    with pytest.raises(InvalidModel):
        check(model([node("Relu", ["none"], ["y"])], [], [tensor("y", F, None)]))


@pytest.mark.parametrize(
    ("nodes", "shapes", "message"),
    [
        ([node("ConvTranspose", ["x", "w"], ["y"], name="n", strides=[1, -1])],
         {"x": [1, 2, 4, 4], "w": [2, 3, 1, 1]}, "does not fit its operator"),
        ([node("ConvTranspose", ["x", "w"], ["y"], name="n", pads=[0, 2, 0, 2])],
         {"x": [1, 2, 4, 0], "w": [2, 3, 1, 1]}, "-[0-9]+ elements along an axis"),
        ([node("RoiAlign", ["x", "r", "i"], ["y"], name="n", output_width=-3, sampling_ratio=1)],
         {"x": [1, 2, 4, 4], "r": [3, 4], "i": [3]}, "-3 elements along an axis"),
        ([node("RoiAlign", ["x", "r", "i"], ["y"], name="n")],
         {"x": [1, 2, 0, 4], "r": [3, 4], "i": [3]}, "an image without elements"),
        ([node("MaxRoiPool", ["x", "r"], ["y"], name="n", pooled_shape=[2, 2])],
         {"x": [0, 2, 4, 4], "r": [3, 5]}, "an image without elements"),
    ],
)  # fmt: skip
def test_results_that_no_tensor_can_be(nodes, shapes, message):
    kinds = {"i": INT}
    inputs = [tensor(name, kinds.get(name, F), shape) for name, shape in shapes.items()]
    with pytest.raises(ShapeError, match=message):
        import_onnx(model(nodes, inputs, [tensor("y", F, None)]))
