"""Random quantised networks: what is drawn, what it means, and what is seen of a wrong compiler."""

import sys
from collections import Counter
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper

sys.path.insert(0, str(Path(__file__).parents[1]))

import rcompiler  # noqa: E402
from fuzz import contrib_nodes, evaluate, kinds, quantised  # noqa: E402
from fuzz.maker import Reject  # noqa: E402
from rcompiler.frontend import contrib  # noqa: E402

SEEDS = range(60)


def cases():
    for seed in SEEDS:
        try:
            yield quantised.case_of(seed)
        except Reject:
            continue


def test_networks_are_valid_and_of_all_forms():
    found, forms = Counter(), Counter()
    for case in cases():
        onnx.checker.check_model(case.model)
        found.update(n.op_type for n in case.model.graph.node)
        forms.update(exact=case.exact, open=case.open)
    assert {"Conv", "MatMul", "Gemm", "Add", "Concat", "AveragePool", "QLinearConv",
            "QLinearMatMul", "MatMulInteger", "DynamicQuantizeLinear", "QLinearAdd", "QGemm",
            "Transpose", "Reshape", "Relu"} <= set(found)  # fmt: skip
    assert 5 < forms["exact"] < 30 and 5 < forms["open"] < 40


def test_a_network_is_made_of_its_seed():
    first, second = quantised.case_of(2), quantised.case_of(2)
    assert first.model.SerializeToString() == second.model.SerializeToString()
    assert first.options == second.options


def test_no_network_is_for_a_gpu():
    found = kinds.KINDS["quantised"](2, ("cuda:emulated",), lambda stage: None)
    assert found.status == "no graph"


def node(op, inputs, domain="", **attributes):
    return helper.make_node(op, inputs, ["y"], domain=domain, **attributes)


def test_sums_are_rounded_before_the_zero_point_is_added():
    """107 / 2 is 53.5, which is rounded to 54, and 105 / 2 to 52, whatever the zero point is."""
    arrays = {"x": np.array([[107, 105]], np.uint8).T, "w": np.array([[1]], np.int8)}
    arrays |= {"one": np.float64(1), "two": np.float64(2), "z": np.uint8(0), "v": np.int8(0)}
    arrays["odd"] = np.uint8(95)
    made = node("QLinearMatMul", ["x", "one", "z", "w", "one", "v", "two", "odd"])
    [y] = evaluate.apply(made, arrays, {"": 21})
    assert y.tolist() == [[149], [147]] and y.dtype == np.uint8
    arrays |= {"image": arrays["x"].reshape(1, 1, 2), "filter": arrays["w"].reshape(1, 1, 1)}
    made = node("QLinearConv", ["image", "one", "z", "filter", "one", "v", "two", "odd"])
    [y] = evaluate.apply(made, arrays, {"": 21})
    assert y.tolist() == [[[149, 147]]] and y.dtype == np.uint8


def test_operators_of_onnxruntime_are_what_they_stand_for():
    """(3 - 1) 0.5 + (10 - 4) 0.25 is 2.5, five halves, above a zero point of 7."""
    numbers = {"a": 3, "az": 1, "b": 10, "bz": 4, "yz": 7}
    arrays = {name: np.array(n, np.uint8) for name, n in numbers.items()}
    arrays |= {"as": np.float64(0.5), "bs": np.float64(0.25), "ys": np.float64(0.5)}
    inputs = ["a", "as", "az", "b", "bs", "bz", "ys", "yz"]
    made = node("QLinearAdd", inputs, contrib.DOMAIN)
    [y] = evaluate.apply(made, arrays, {"": 21})
    assert y == 12 and y.dtype == np.uint8


def test_attributes_of_their_bodies_are_those_of_the_node_or_the_usual():
    inputs = ["x", "s", "z", "t", "u"]
    operands = dict.fromkeys("st", np.float32(0.5)) | dict.fromkeys("xzu", np.uint8(3))
    for given, alpha in (({}, 0.01), ({"alpha": 0.5}, 0.5)):
        made = node("QLinearLeakyRelu", inputs, contrib.DOMAIN, **given)
        nodes, _ = contrib_nodes.body_nodes(made, operands)
        (leaky,) = [n for n in nodes if n.op_type == "LeakyRelu"]
        assert leaky.attribute[0].f == pytest.approx(alpha)
        assert nodes[-1].output == ["y"] and nodes[0].input == ["x", "s", "z"]
    with pytest.raises(ValueError, match="Inverse has no body"):
        contrib_nodes.body_nodes(node("Inverse", ["x"], contrib.DOMAIN))


def first(where):
    return next(case for case in cases() if where(case))


def one_more(result):
    return result + np.asarray(1, result.dtype)


def off(monkeypatch, targets, by=one_more):
    """A compiler whose first result is off by that for some targets."""
    real = rcompiler.compile_onnx

    def compile_onnx(model, target, **options):
        compiled = real(model, target=target, **options)
        if target not in targets:
            return compiled

        def run(**feeds):
            results = list(compiled(**feeds))
            results[0] = by(results[0])
            return results

        return run

    monkeypatch.setattr(rcompiler, "compile_onnx", compile_onnx)


def test_a_level_that_computes_something_else_is_seen(monkeypatch):
    case = first(lambda case: not case.open)
    assert quantised.judged(case).status == "ok"
    off(monkeypatch, ("cpu",))
    found = quantised.judged(case)
    assert (found.status, found.key) == ("wrong", "levels differ")


def test_another_level_is_judged_where_its_last_bits_may_differ(monkeypatch):
    case = first(lambda case: case.open)
    off(monkeypatch, ("cpu",))
    found = quantised.judged(case)
    assert found.status == "wrong" and found.reason.startswith("cpu: ")


def test_a_wrong_byte_everywhere_is_seen(monkeypatch):
    case = first(lambda case: not case.open)
    off(monkeypatch, ("cpu", case.options["target"]))
    assert quantised.judged(case).status == "wrong"


def test_what_the_standard_fixes_is_exact(monkeypatch):
    """In what rounding decides nothing of, a last bit counts."""
    case = first(lambda case: case.exact and case.model.graph.output[0].type.tensor_type.elem_type
                 == onnx.TensorProto.FLOAT)  # fmt: skip
    off(monkeypatch, ("cpu", case.options["target"]), lambda y: np.nextafter(y, np.float32(9)))
    assert quantised.judged(case).key == "not exact"
