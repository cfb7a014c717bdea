"""What a user meets first: what models show of themselves, and what calls take and return."""

import copy
import pickle
from collections import OrderedDict, UserDict
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pytest
from bad_models import graph_model
from onnx import helper

import rcompiler
from rcompiler.errors import ShapeError

HOSTILE = '<script>alert("x")</script>\n\x1b[31m'


def made(target="cpu", first="a", second="b", outputs=("total", "difference"), **options):
    """total = a + b, difference = a - b."""
    nodes = [
        helper.make_node(op, [first, second], [name], op)
        for op, name in zip(("Add", "Sub"), outputs, strict=True)
    ]
    sides = [(name, (2, 3)) for name in (first, second)], [(name, (2, 3)) for name in outputs]
    return rcompiler.compile_onnx(
        graph_model(nodes, *sides), target=target, eus=1, cache=False, **options
    )


@pytest.fixture(scope="module")
def model():
    return made()


@pytest.fixture(scope="module")
def gpu_model():
    return made("cuda:emulated")


A, B = np.arange(6, dtype=np.float32).reshape(2, 3), np.full((2, 3), 2, np.float32)


class Tags(HTMLParser):
    """The tags of a text, and the text between them; every tag must be closed."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.text, self._open = [], "", []
        self.feed(text)
        self.close()
        assert not self._open

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self._open.append(tag)

    def handle_endtag(self, tag):
        assert self._open.pop() == tag

    def handle_data(self, data):
        self.text += data


PLAIN = {"div", "b", "table", "thead", "tbody", "tr", "th", "td"}


def test_a_model_shows_its_signature_and_where_it_runs(model):
    assert repr(model).splitlines() == [
        "<CompiledModel for 'cpu' on 1 EU",
        "  input 'a': float32[2, 3]",
        "  input 'b': float32[2, 3]",
        "  output 'total': float32[2, 3]",
        "  output 'difference': float32[2, 3]>",
    ]


def test_a_model_on_a_gpu_shows_the_same_and_opens_no_device(gpu_model):
    assert repr(gpu_model).startswith("<GpuModel for 'cuda:emulated' on 1 EU\n  input 'a': float32")
    assert gpu_model._driver is None


def test_what_a_model_shows_is_short(model):
    many = tuple(replace(model.inputs[0], name=f"past{i}") for i in range(60))
    large = made()
    large._artifact = replace(large.artifact, inputs=many)
    assert len(repr(large).splitlines()) == 12 and "... and 52 more inputs" in repr(large)
    assert "past59" in large._repr_html_()


def test_a_notebook_shows_a_table_of_a_model(model):
    found = Tags(model._repr_html_())
    assert {*found.tags} == PLAIN and found.tags.count("tr") == 5
    assert "CompiledModel for" in found.text and "'total'" in found.text


def test_names_from_a_file_are_neither_markup_nor_commands_of_a_terminal():
    model = made(first=HOSTILE)
    assert "\x1b" not in repr(model) and len(repr(model).splitlines()) == 5
    assert {*Tags(model._repr_html_()).tags} == PLAIN
    report = model.report()
    operator = replace(report.operators[0], name=HOSTILE, reason=HOSTILE)
    hostile = replace(report, operators=(operator,), note=HOSTILE, device=HOSTILE)
    found = Tags(hostile._repr_html_())
    assert {*found.tags} == PLAIN and "<script>" in found.text


def test_a_notebook_shows_a_table_of_a_report_with_all_that_is_printed(model):
    report = model.report().noted("a remark")
    found = Tags(report._repr_html_())
    assert {*found.tags} == PLAIN
    _, *rows, device, schedule, note = str(report).splitlines()
    assert found.tags.count("tr") == 1 + len(rows)
    assert all(line in found.text for line in (device, schedule, note))
    long = replace(report, operators=report.operators * 300)
    assert long._repr_html_().count("<tr>") == 201 and "more rows" in long._repr_html_()


def calls(model):
    """Every way of a model to return outputs, as functions of its inputs to lists of numpy."""
    yield lambda *args, **named: model(*args, **named)
    if hasattr(model, "on_device"):
        yield lambda *args, **named: model.on_device(*args, **named)


def values(item):
    return item if isinstance(item, np.ndarray) else item.numpy()


@pytest.fixture(params=["cpu", "gpu"])
def either(request, model, gpu_model):
    return {"cpu": model, "gpu": gpu_model}[request.param]


def test_outputs_are_a_list_that_can_be_read_by_name(either):
    for call in calls(either):
        outputs = call(A, B)
        assert isinstance(outputs, list) and len(outputs) == 2
        assert outputs.names == ("total", "difference")
        assert outputs["total"] is outputs[0] is outputs[-2]
        assert outputs["difference"] is outputs[np.int64(1)]
        assert np.array_equal(values(outputs["total"]), A + B)
        assert np.array_equal(values(outputs["difference"]), A - B)
        total, difference = outputs
        assert outputs == [total, difference] and [total, difference] == outputs
        assert type(outputs[:1]) is list and outputs[:1] == [total]
        with pytest.raises(IndexError):
            outputs[2]


def test_an_unknown_output_is_refused_by_name(either):
    outputs = either(A, B)
    with pytest.raises(ShapeError, match="no output 'sum'; the outputs are: total, difference"):
        outputs["sum"]
    del outputs[0]
    assert len(outputs) == 1
    with pytest.raises(ShapeError, match="has 1 items for 2 outputs; read it by name before"):
        outputs["difference"]


@pytest.mark.parametrize("protocol", [*range(pickle.HIGHEST_PROTOCOL + 1), "copy", "deepcopy"])
def test_names_of_outputs_travel_and_are_copied(model, protocol):
    outputs = model(A, B)
    if isinstance(protocol, str):
        other = getattr(copy, protocol)(outputs)
    else:
        other = pickle.loads(pickle.dumps(outputs, protocol))
    assert type(other) is type(outputs) and other.names == outputs.names
    assert np.array_equal(other["difference"], A - B) and other is not outputs
    assert (other[0] is outputs[0]) == (protocol == "copy")


@pytest.mark.parametrize("kind", [dict, OrderedDict, UserDict])
def test_a_call_takes_all_inputs_in_one_mapping(either, kind):
    for call in calls(either):
        outputs = call(kind({"b": B, "a": A}))
        assert np.array_equal(values(outputs["difference"]), A - B)


def test_a_call_takes_the_arrays_of_a_file(model, tmp_path):
    np.savez(tmp_path / "inputs.npz", a=A, b=B)
    with np.load(tmp_path / "inputs.npz") as inputs:
        assert np.array_equal(model(inputs)["difference"], A - B)


def test_a_model_of_one_input_or_none_takes_a_mapping():
    """There a mapping is as many arguments as there are inputs."""
    relu = helper.make_node("Relu", ["x"], ["y"], "relu")
    one = rcompiler.compile_onnx(graph_model([relu]), cache=False)
    assert np.array_equal(one({"x": -A})[0], np.maximum(-A, 0))
    with pytest.raises(ShapeError, match="no input 'z'; the inputs are: x"):
        one({"z": A})
    with pytest.raises(ShapeError, match="input 'x' is missing"):
        one({})
    fixed = helper.make_tensor("w", 1, (2, 3), A.ravel())
    node = helper.make_node("Relu", ["w"], ["y"], "relu")
    none = rcompiler.compile_onnx(graph_model([node], (), weights=[fixed]), cache=False)
    assert np.array_equal(none({})[0], A) and np.array_equal(none()[0], A)


@pytest.mark.parametrize(
    ("args", "kwargs", "message"),
    [
        (({"a": A, "z": B},), {}, "there is no input 'z'; the inputs are: a, b"),
        (({"a": A, 1: B},), {}, "there is no input '1'; the inputs are: a, b"),
        (({"a": A},), {}, "input 'b' is missing; the inputs are: a, b"),
        (({"a": A, "b": B[:1]},), {}, r"input 'b' has shape \[1, 3\]"),
        (({"a": A},), {"b": B}, "by a dict and by keyword; give all of them in one of the two"),
        ((A, {"b": B}), {}, "input 'b' is a dict; .* in one dict by their names, and nothing"),
        (({"a": A, "b": {"b": B}},), {}, "input 'b' is a dict"),
    ],
)
def test_a_wrong_mapping_is_refused_by_name(either, args, kwargs, message):
    for call in calls(either):
        with pytest.raises(ShapeError, match=message):
            call(*args, **kwargs)


@pytest.mark.parametrize("target", ["cpu", "cuda:emulated"])
def test_a_call_takes_a_python_number_for_a_scalar(target):
    node = helper.make_node("Mul", ["x", "scale"], ["y"], "mul")
    proto = graph_model([node], [("x", (2, 3)), ("scale", ())])
    model = rcompiler.compile_onnx(proto, target=target, eus=1, cache=False)
    for scale in (0.1, 3):
        for outputs in (model(A, scale), model(x=A, scale=scale), model({"x": A, "scale": scale})):
            assert np.array_equal(outputs["y"], A * np.float32(scale))
    with pytest.raises(ShapeError, match="is float64, the model wants float32"):
        model(A, np.float64(0.1))
    with pytest.raises(ShapeError, match=r"input 'x' is the number 2.0, .* shape \[2, 3\]"):
        model(2.0, 0.1)
