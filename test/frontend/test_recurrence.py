"""LSTM, GRU and RNN are loops over one step, which is a function of its own."""

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

import rcompiler
from rcompiler.frontend import import_onnx
from rcompiler.frontend.ops import recurrent

GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}
STATES = {"LSTM": ("h", "c"), "GRU": ("h",), "RNN": ("h",)}
STEPS = recurrent.LOOP_STEPS


def layer(op, steps=STEPS, *, batch=1, hidden=16, lens=False, peephole=False, given=True, **more):
    """A model of one recurrent node, and arrays for its inputs."""
    rng, width = np.random.default_rng(0), 8
    directions = 2 if more.get("direction") == "bidirectional" else 1
    rows = GATES[op] * hidden
    shapes = {"w": (directions, rows, width), "r": (directions, rows, hidden)}
    shapes["b"] = (directions, 2 * rows)
    weights = {k: rng.uniform(-0.5, 0.5, s).astype("f") for k, s in shapes.items()}
    if lens:
        weights["lens"] = np.full(batch, steps - 1, np.int32)
    if peephole:
        weights["p"] = rng.uniform(-0.5, 0.5, (directions, 3 * hidden)).astype("f")
    state, first = (directions, batch, hidden), {"x": (steps, batch, width)}
    first |= dict.fromkeys(STATES[op] if given else (), state)
    operands = ["x", "w", "r", "b", "lens" if lens else "", *(STATES[op] if given else ())]
    operands += [""] * (7 - len(operands)) + ["p"] if peephole else []
    shown = {"y": (steps, *state), **{f"y_{s}": state for s in STATES[op]}}
    graph = helper.make_graph(
        [helper.make_node(op, operands, list(shown), hidden_size=hidden, name="layer", **more)],
        "g",
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in first.items()],
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in shown.items()],
        [numpy_helper.from_array(a, n) for n, a in weights.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 22)])
    return model, [rng.uniform(-1, 1, s).astype("f") for s in first.values()]


def text(*args, **more):
    return import_onnx(layer(*args, **more)[0]).module_text


@pytest.mark.parametrize("op", GATES)
def test_the_text_does_not_grow_with_the_steps(op):
    few, many = text(op), text(op, 4 * STEPS)
    assert few.count("func.call") == 1
    assert few.count("\n") == many.count("\n")


def test_each_direction_has_a_loop_and_both_write_rows_of_one_tensor():
    found = text("GRU", direction="bidirectional")
    assert found.count("scf.for") == 2
    assert found.count("arith.subi") == 1  # the second goes backward
    assert found.count(f"tensor.empty() : tensor<{STEPS}x2x1x16xf32>") == 1


def test_a_step_has_copies_of_the_constants_that_it_reads():
    found = text("LSTM")
    main, step = found.split("func.func private")
    [weights] = {w for w in step.replace("<", " ").replace(">", " ").split() if w[:2] == "w_"}
    assert weights not in main


def test_weights_that_are_inputs_are_arguments_of_the_step():
    model, _ = layer("LSTM")
    weights = model.graph.initializer
    [r] = [w for w in weights if w.name == "r"]
    model.graph.input.append(helper.make_tensor_value_info("r", TensorProto.FLOAT, r.dims))
    weights.remove(r)
    step = import_onnx(model).module_text.split("func.func private")[1]
    assert "tensor<64x16xf32>" in step.splitlines()[0]


@pytest.mark.parametrize(
    "more",
    [{"steps": STEPS - 1}, {"lens": True}, {"hidden": 10}],
    ids=["few", "lengths", "unaligned"],
)
def test_other_steps_are_unrolled(more):
    assert "scf.for" not in text("LSTM", **more)


CASES = [
    *((op, {"direction": d}) for op in GATES for d in ("forward", "reverse", "bidirectional")),
    ("LSTM", {"peephole": True, "input_forget": 1}),
    ("LSTM", {"given": False, "batch": 3}),
    ("GRU", {"linear_before_reset": 1}),
    ("GRU", {"given": False}),
    ("RNN", {"clip": 0.4, "given": False}),
]


@pytest.mark.parametrize(("op", "more"), CASES, ids=str)
def test_a_loop_computes_what_the_unrolled_steps_do(op, more, monkeypatch):
    model, inputs = layer(op, **more)

    def run():
        made = rcompiler.compile_onnx(model, device="default", eus=2, cache=False)
        return made(*inputs), made.stage("linalg")

    looped, text = run()
    assert "scf.for" in text
    monkeypatch.setattr(recurrent, "LOOP_STEPS", STEPS + 1)
    unrolled, text = run()
    assert "scf.for" not in text
    for found, wanted in zip(looped, unrolled, strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)


def products(model):
    """How many steps multiply what they are handed on."""
    made = rcompiler.compile_onnx(model, device="default", eus=1, cache=False, fusion=False)
    return made, sum("contraction" in line for line in str(made.report()).splitlines()) - 1


def with_weight(model, number):
    """The recurrence weights with one that is `number`."""
    [r] = [w for w in model.graph.initializer if w.name == "r"]
    array = numpy_helper.to_array(r).copy()
    array[0, 3, 5] = number
    r.CopyFrom(numpy_helper.from_array(array, "r"))
    return model


def as_input(model):
    """The same with recurrence weights that are given at run time."""
    [r] = [w for w in model.graph.initializer if w.name == "r"]
    model.graph.input.append(helper.make_tensor_value_info("r", TensorProto.FLOAT, r.dims))
    model.graph.initializer.remove(r)
    return model


@pytest.mark.parametrize(
    ("op", "change", "wanted"),
    [
        ("RNN", lambda model: model, STEPS - 1),
        ("LSTM", lambda model: model, STEPS - 1),
        ("GRU", lambda model: model, 2 * STEPS - 1),  # its second product is of what it resets
        ("LSTM", lambda model: with_weight(model, np.inf), STEPS),  # 0 times that is not 0
        ("LSTM", lambda model: with_weight(model, np.nan), STEPS),
        ("LSTM", as_input, STEPS),
    ],
    ids=["RNN", "LSTM", "GRU", "infinite", "NaN", "unknown"],
)
def test_a_first_step_does_not_multiply_zeros(op, change, wanted):
    model, _ = layer(op, given=False)
    assert products(change(model))[1] == wanted


def test_a_first_step_multiplies_what_is_given():
    assert products(layer("LSTM")[0])[1] == STEPS


def test_an_infinite_weight_is_seen_in_the_first_step():
    model, inputs = layer("LSTM", given=False)
    y, *_ = products(with_weight(model, np.inf))[0](*inputs)
    assert np.isnan(y[0]).any()
