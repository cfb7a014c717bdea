"""What is tried of operators: older forms, cells, judges, and the record."""

import json

import numpy as np
import onnx
import pytest
from fuzz.graphs import Case
from onnx import TensorProto, helper, numpy_helper

from operators import judge, runner, trials
from operators.forms import form_of
from operators.versions import NoForm, versions_of, with_opset


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
    assert judge.judged(case) == judge.Judgement("right", "onnxruntime")
    monkeypatch.setattr(judge.rcompiler, "compile_onnx", lambda *_, **__: lambda x: [x])
    assert judge.judged(case).status == "wrong"


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
    assert told == {"onnxruntime", "onnx.reference", "float64", "refused", "unjudged", "no case"}
    assert onnx.defs.onnx_opset_version() >= max(int(job.split("|")[2]) for job in record)
