"""What a user meets first: what models show of themselves."""

from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pytest
from bad_models import graph_model
from onnx import helper

import rcompiler

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
    large.artifact = replace(large.artifact, inputs=many)
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
