"""What is tried of operators: older forms, cells, judges, and the record."""

import json

import numpy as np
import onnx
import pytest
from fuzz.graphs import Case
from onnx import TensorProto, helper, numpy_helper
from oracles.contrib_node import node_model

from operators import compared, judge, runner, trials, unreachable
from operators.forms import form_of
from operators.retyped import retyped
from operators.varied import varied
from operators.versions import NoForm, NotValid, versions_of, with_opset
from rcompiler.errors import CompilerError
from rcompiler.frontend import import_onnx


def model_of(op, inputs, constants=(), opset=22, rank=2, **attributes):
    names = [*inputs, *(f"c{k}" for k in range(len(constants)))]
    node = helper.make_node(op, names, ["y"], **attributes)
    infos = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [2, 3]) for n in inputs]
    tensors = [numpy_helper.from_array(np.array(c), f"c{k}") for k, c in enumerate(constants)]
    result = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["a", "b"][:rank])
    graph = helper.make_graph([node], "g", infos, [result], tensors)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


def test_versions_are_those_in_which_the_definition_changed():
    assert versions_of("Clip", "") == (1, 6, 11, 12, 13)
    assert versions_of("Upsample", "")[-1] == 9  # 10 says that there is none any longer


@pytest.mark.parametrize(
    "op, constants, attributes, version, wanted",
    [
        ("Clip", [np.float32(-1), np.float32(2)], {}, 6, {"min": -1.0, "max": 2.0}),
        ("ReduceSum", [np.int64([1])], {"keepdims": 0}, 11, {"axes": [1], "keepdims": 0}),
        ("TopK", [np.int64([2])], {}, 1, {"k": 2}),
        ("Squeeze", [np.int64([0])], {}, 11, {"axes": [0]}),
    ],
)
def test_inputs_become_the_attributes_that_they_were(op, constants, attributes, version, wanted):
    shape = [1, 3] if op == "Squeeze" else [2, 3]
    rank = 1 if op in ("ReduceSum", "Squeeze") else 2
    model = model_of(op, ["x"], constants, rank=rank, **attributes)
    for dim, size in zip(model.graph.input[0].type.tensor_type.shape.dim, shape, strict=True):
        dim.dim_value = size
    if op == "TopK":
        model.graph.node[0].output.append("at")
    [node] = with_opset(model, "", version).graph.node
    assert list(node.input) == ["x"]
    assert {a.name: helper.get_attribute_value(a) for a in node.attribute} == wanted


def old_node(model, version):
    """The node of the only operator, and the shapes of what is fed."""
    made = with_opset(model, "", version)
    shapes = {v.name: [d.dim_value for d in v.type.tensor_type.shape.dim] for v in made.graph.input}
    [node] = made.graph.node
    return {a.name: helper.get_attribute_value(a) for a in node.attribute}, list(node.input), shapes


@pytest.mark.parametrize(
    "shape, wanted, left",
    [
        ([2, 3], {}, [2, 3]),
        ([1, 3], {"broadcast": 1, "axis": 1}, [3]),
        ([2, 1], {"broadcast": 1, "axis": 0}, [2]),
        ([1, 1], {"broadcast": 1}, []),
    ],
)
def test_broadcasting_was_one_way_and_along_an_axis(shape, wanted, left):
    model = model_of("Add", ["x", "z"])
    dims = model.graph.input[1].type.tensor_type.shape.dim
    for dim, size in zip(dims, shape, strict=True):
        dim.dim_value = size
    attributes, inputs, shapes = old_node(model, 6)
    assert (attributes, inputs, shapes["z"]) == (wanted, ["x", "z"], left)
    with pytest.raises(NoForm, match="repeated"):
        wider = model_of("Add", ["x", "z"])
        wider.graph.input[0].type.tensor_type.shape.dim[1].dim_value = 1
        old_node(wider, 6)


def test_old_versions_say_what_later_ones_need_not():
    assert old_node(model_of("Abs", ["x"]), 1)[0] == {"consumed_inputs": [0]}
    pads = [np.int64([0, 1, 0, 1])]
    assert old_node(model_of("Pad", ["x"], pads), 1)[0]["paddings"] == [0, 1, 0, 1]
    to = model_of("Cast", ["x"], to=TensorProto.FLOAT)
    assert old_node(to, 1)[0] == {"to": b"FLOAT"}
    _, inputs, _ = old_node(model_of("Tile", ["x"], [np.int64([1, 2])]), 1)
    assert inputs == ["x", "c0.tiles", "c0.axis"]
    constants = [np.int64([0, 1, 0, 1]), np.float32(2)]
    assert old_node(model_of("Pad", ["x"], constants), 13)[1] == ["x", "c0", "c1"]
    dims = model_of("BatchNormalization", ["x"], [np.ones(3, np.float32)] * 4)
    attributes, inputs, _ = old_node(dims, 6)
    assert attributes == {"is_test": 1, "spatial": 0} and len(inputs) == 5
    assert len(old_node(dims, 14)[1]) == 5


def test_a_model_that_the_onnx_package_does_not_take_says_why():
    model = model_of("MeanVarianceNormalization", ["x"], axes=[0])
    for value in (*model.graph.input, *model.graph.output):
        value.type.tensor_type.elem_type = TensorProto.DOUBLE
    with pytest.raises(NotValid) as caught:
        with_opset(model, "", 13)
    assert caught.value.reason == "B has inconsistent type tensor(float)"


def test_a_graph_takes_another_type_and_another_attribute():
    case = Case(model_of("Erf", ["x"], opset=9), {"x": np.float32([[-1, 2, 3]])}, {}, "Erf")
    [other] = retyped(case, 9, "int8")
    [value] = other.model.graph.output
    assert value.type.tensor_type.elem_type == TensorProto.INT8
    assert other.feeds["x"].dtype == np.int8 and not [*retyped(case, 9, "bool")]
    model, feeds = node_model("Rfft", [np.ones((2, 8), np.float32)], ["float32"], 1)
    [other] = varied(Case(model, feeds, {}, "Rfft"), "onesided")
    assert other.model.graph.node[0].attribute[0].i == 0
    assert not [*varied(Case(model, feeds, {}, "Rfft"), "normalized")]


def test_cases_of_test_frontend_are_cases_of_the_table():
    found = compared.trials()
    assert {"QLinearReduceMean", "MoE", "MatMulNBits"} <= found.keys()
    assert any(trial.known is not None for trial in found["QLinearReduceMean"])
    assert {trial.apart for trial in found["QLinearConv"]} == {1}


@pytest.mark.parametrize(
    "op, domain, attributes",
    [
        ("Constant", "", {"value_string": "a"}),
        ("Constant", "", {"value_strings": ["a"]}),
        ("LabelEncoder", "ai.onnx.ml", {"keys_strings": ["a"], "values_int64s": [1]}),
        ("LabelEncoder", "ai.onnx.ml", {"keys_int64s": [1], "values_strings": ["a"]}),
        ("OneHotEncoder", "ai.onnx.ml", {"cats_strings": ["a"]}),
    ],
)
def test_strings_are_refused_by_name(op, domain, attributes):
    """What `unreachable` says of them."""
    names = [] if op == "Constant" else ["x"]
    node = helper.make_node(op, names, ["y"], domain=domain, **attributes)
    kind = TensorProto.STRING if "keys_strings" in attributes or op[0] == "O" else TensorProto.INT64
    infos = [helper.make_tensor_value_info(name, kind, [2]) for name in names]
    result = helper.make_tensor_value_info("y", TensorProto.UNDEFINED, None)
    graph = helper.make_graph([node], "g", infos, [result])
    opsets = [helper.make_opsetid("", 22), helper.make_opsetid("ai.onnx.ml", 4)]
    with pytest.raises(CompilerError, match="string"):
        import_onnx(helper.make_model(graph, opset_imports=opsets, ir_version=8))
    for name in attributes:
        if "string" in name:
            known = unreachable.reason("any", f"attribute/{name}", "no case")
            assert known.startswith("refused: tensors of strings")
    assert unreachable.reason("any", "attribute/axis", "no case") == "no case"
    assert unreachable.reason("any", "attribute/value_string", "onnxruntime") == "onnxruntime"


def test_what_an_older_version_does_not_have_has_no_form():
    with pytest.raises(NoForm, match="Gelu has no version 19"):
        with_opset(model_of("Gelu", ["x"]), "", 19)
    with pytest.raises(NoForm, match="attribute 'reduction'"):
        model = model_of("ScatterElements", ["x", "i", "u"], reduction="add")
        with_opset(model, "", 11)


def test_cells_are_those_that_a_node_has():
    form = form_of("Pad", "", 21)
    assert ("input", "constant_value") in form.cells() and ("type", "bool") in form.cells()
    model = model_of("Pad", ["x"], [np.int64([0, 0, 1, 1])], mode="edge")
    wanted = {("attribute", "mode"), ("type", "float32"), ("type", "int64")}
    assert form.of_model(model, ("Pad", "")) >= wanted
    model = model_of("Pad", ["x"], [np.int64([0, 0, 1, 1])], mode="constant")
    assert ("attribute", "mode") not in form.of_model(model, ("Pad", ""))


def test_onnxruntime_judges_first_and_sees_another_result(monkeypatch):
    pytest.importorskip("onnxruntime")
    model = model_of("Relu", ["x"])
    case = Case(model, {"x": np.float32([[-1, 2, 3], [4, -5, 6]])}, {}, "Relu")
    assert judge.judged(judge.Trial(case)) == judge.Judgement("right", "onnxruntime")
    monkeypatch.setattr(judge.rcompiler, "compile_onnx", lambda *_, **__: lambda x: [x])
    assert judge.judged(judge.Trial(case)).status == "wrong"


def test_what_no_judge_runs_is_judged_in_the_newest_form():
    """And what the two say differently is not."""
    pytest.importorskip("onnxruntime")
    model = model_of("Clip", ["x"], [np.float32(-1), np.float32(2)])
    old, feeds = with_opset(model, "", 1), {"x": np.float32([[-5, 0, 1], [2, 3, 9]])}
    newest = Case(model, feeds, {}, "Clip")
    found = judge.judged(judge.Trial(Case(old, feeds, {}, "Clip"), newest))
    assert found == judge.Judgement("right", "newest form")
    other = with_opset(model_of("Clip", ["x"], [np.float32(-1), np.float32(1)]), "", 1)
    found = judge.judged(judge.Trial(Case(other, feeds, {}, "Clip"), newest))
    assert found.status == "unjudged"


def test_what_a_test_wants_is_a_judge_and_integers_may_be_apart_as_it_says():
    case = Case(model_of("Relu", ["x"]), {"x": np.float32([[-1, 2, 3], [4, -5, 6]])}, {}, "Relu")
    wanted = [np.float32([[0, 2, 3], [4, 0, 6]])]
    assert judge.judged(judge.Trial(case, known=wanted), engine=False).by == "test"
    assert judge.judged(judge.Trial(case, known=[-wanted[0]]), engine=False).by != "test"
    ours, theirs = {"y": np.uint8([0, 255])}, {"y": np.uint8([1, 254])}
    assert judge._close(ours, theirs, 1) and not judge._close(ours, theirs, 0)


def test_an_operator_is_tried_in_each_type():
    found = trials.tried("Relu||14", lambda stage: None)
    assert found["wrong"] == []
    assert found["cells"]["type/float32"] == found["cells"]["type/int8"] == "onnxruntime"


def test_what_was_right_and_is_not_is_told():
    record = {"Relu||14": {"type/a": "onnxruntime", "type/b": "refused: no", "type/c": "float64"}}
    now = {"type/a": "refused: why", "type/b": "refused: yes", "type/c": "onnxruntime"}
    found = runner.worse({"Relu||14": {**now, "type/d": "onnxruntime"}}, record)
    assert found == [
        "Relu||14 type/a: onnxruntime in the record, refused: why here",
        "Relu||14 type/d: absent in the record, onnxruntime here",
    ]


def test_the_record_has_each_version_of_each_operator():
    record = json.loads(runner.RECORD.read_text())
    assert record.keys() == {*trials.jobs()}
    told = {runner.kind_of(text) for cells in record.values() for text in cells.values()}
    judges = {"onnxruntime", "onnx.reference", "float64", "newest form", "test"}
    assert judges <= told <= judges | {"refused", "not valid", "unjudged", "no case"}
    assert onnx.defs.onnx_opset_version() >= max(int(job.split("|")[2]) for job in record)
