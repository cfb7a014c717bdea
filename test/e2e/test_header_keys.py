"""Each key of the header of a compiled file missing, or of another type, with right hashes."""

import copy
import json
from collections.abc import Iterator

import numpy as np
import pytest
from onnx import TensorProto, helper

import rcompiler
from rcompiler.errors import CompilerError
from rcompiler.runtime import container

F = TensorProto.FLOAT
OTHERS = (None, True, -1, 1 << 70, 0.5, "x", [], ["x"], [[]], {}, {"x": 1})
MOST_OF_A_LIST = 2  # items that are changed: the others are read as they are


def network(kind="Softmax"):
    x, y = (helper.make_tensor_value_info(name, F, ["n", 8]) for name in "xy")
    w = helper.make_tensor("w", F, [8, 8], np.linspace(-1, 1, 64, dtype=np.float32))
    domain = "com.example" if kind == "Own" else ""
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["a"]),
        helper.make_node(kind, ["a"], ["b"], domain=domain),
        helper.make_node("Tanh", ["b"], ["y"]),
    ]
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("com.example", 1)]
    return helper.make_model(helper.make_graph(nodes, "g", [x], [y], [w]), opset_imports=opsets)


OWN = {"com.example::Own": rcompiler.Fallback(np.tanh, lambda x: [x])}
KINDS = {
    "one": ({"shapes": {"n": 4}}, "Softmax"),
    "sizes at run time": ({"shapes": {"n": range(1, 9)}, "buckets": {"n": (8,)}}, "Softmax"),
    "family": ({"shapes": {"n": range(1, 9)}, "buckets": {"n": (2, 8)}}, "Softmax"),
    "levels": ({"shapes": {"n": 4}, "target": "cpu:x86-64,cpu:v3"}, "Softmax"),
    "functions": ({"shapes": {"n": 4}, "fallback": OWN}, "Own"),
}


def places(value) -> Iterator[list]:
    """The ways to all values in JSON."""
    if isinstance(value, dict):
        items = list(value.items())
    elif isinstance(value, list):
        items = list(enumerate(value[:MOST_OF_A_LIST]))
    else:
        return
    for key, inner in items:
        yield [key]
        yield from ([key, *rest] for rest in places(inner))


def changed(header, way, other) -> dict:
    """The header with another value there; without any if `other` is Ellipsis."""
    made = copy.deepcopy(header)
    holder = made
    for key in way[:-1]:
        holder = holder[key]
    if other is ...:
        del holder[way[-1]]
    else:
        holder[way[-1]] = other
    return made


@pytest.mark.parametrize("kind", KINDS)
def test_each_key_missing_or_of_another_type_is_refused_or_of_no_use(tmp_path, kind):
    options, operator = KINDS[kind]
    path = tmp_path / "m.rcx"
    rcompiler.compile_onnx(network(operator), eus=1, **options).save(path)
    header, sections = container.read(path, mapped=False)
    header = json.loads(json.dumps({n: v for n, v in header.items() if n != "sections"}))
    functions = {"fallback": OWN} if operator == "Own" else {}
    refused = tried = 0
    for number, way in enumerate(places(header)):
        for other in (..., OTHERS[number % len(OTHERS)], OTHERS[(number * 7 + 3) % len(OTHERS)]):
            container.write(path, changed(header, way, other), sections)
            tried += 1
            try:
                rcompiler.load(path, eus=1, **functions).close()
            except CompilerError as error:
                assert "m.rcx" in str(error), (way, other, error)
                refused += 1
            except Exception as error:
                pytest.fail(f"{way} = {other!r}: {type(error).__name__}: {error}")
    assert tried > 50 and refused > tried / 2
