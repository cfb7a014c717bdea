"""Attention with a state that learns, of tokens of several sequences: as onnxruntime has it."""

import numpy as np
import pytest
from oracles.contrib_node import check_node, node_model

import rcompiler
from rcompiler.errors import CompilerError
from rcompiler.frontend import import_onnx

pytest.importorskip("onnxruntime")
rng = np.random.default_rng(0)
F = "float32"
BATCH, SHARED, HEADS, SIZE, WIDTH = 2, 2, 4, 8, 6
ENDS = np.int32([0, 3, 7])


def f(*shape: int) -> np.ndarray:
    return rng.standard_normal(shape).astype(np.float32)


def node(*lead: int, ends: np.ndarray | None = None, by_column: bool = False) -> list:
    """Queries, keys, values, ends, decay, beta and state."""
    decay = -np.abs(f(*lead, HEADS, SIZE) if by_column else f(*lead, HEADS))
    made = [f(*lead, SHARED, SIZE), f(*lead, SHARED, SIZE) * 0.4, f(*lead, HEADS, WIDTH)]
    return [*made, ends, decay, np.abs(f(*lead, HEADS)), f(BATCH, HEADS, WIDTH, SIZE)]


@pytest.mark.parametrize("ends", [None, ENDS])
@pytest.mark.parametrize("rule", ["linear", "gated", "delta", "gated_delta"])
def test_rules(rule: str, ends: np.ndarray | None):
    """Sequences of one length, and of lengths that a call says."""
    inputs = node(6 if ends is None else 7, ends=ends)
    inputs[4] = inputs[4] if "gated" in rule else None
    inputs[5] = inputs[5] if "delta" in rule else None
    check_node("GatedDeltaNet", inputs, [F, F], update_rule=rule)


@pytest.mark.parametrize("by_column", [False, True])
@pytest.mark.parametrize("gate", ["softplus", "qwen", "sigmoid", "kda"])
def test_gates(gate: str, by_column: bool):
    inputs = [*node(7, ends=ENDS, by_column=by_column), f(HEADS)]
    inputs.append(f(HEADS, SIZE) if by_column else f(HEADS))
    how = {"gate_activation": gate, "beta_activation": "sigmoid", "qk_l2_norm": 1, "scale": 0.5}
    check_node("GatedDeltaNet", inputs, [F, F], gate_lower_bound=-2.0, **how)


def test_a_batch_in_front_and_packed_queries():
    check_node("GatedDeltaNet", node(BATCH, 3), [F, F])
    check_node("GatedDeltaNet", node(BATCH, 1), [F, F])
    inputs = node(6)
    packed = np.concatenate([x.reshape(6, -1) for x in inputs[:3]], 1)
    check_node("GatedDeltaNet", [packed, None, None, *inputs[3:]], [F, F])
    without = node(7, ends=ENDS)[:6]
    check_node("GatedDeltaNet", without, [F, F])


def test_many_steps_are_a_loop():
    inputs = node(80, ends=np.int32([0, 15, 80]))
    inputs[1] *= 0.3
    check_node("GatedDeltaNet", inputs, [F, F])
    model, _ = node_model("GatedDeltaNet", inputs, [F, F], 99)
    assert "scf.for" in import_onnx(model).module_text


def test_halves():
    inputs = [x.astype(np.float16) if k < 3 else x for k, x in enumerate(node(6))]
    check_node("GatedDeltaNet", inputs, ["float16", F])


def test_a_prompt_and_its_steps_make_the_same_state():
    """70 tokens at once, or 64 of them and then each of the others."""
    inputs = node(BATCH, 70)
    inputs[1] *= 0.3
    by_token = [0, 1, 2, 4, 5]

    def call(first: int, end: int, state: np.ndarray) -> list[np.ndarray]:
        part = [x[:, first:end] if k in by_token else x for k, x in enumerate(inputs)]
        part[6] = state
        model, fed = node_model("GatedDeltaNet", part, [F, F], 99)
        return rcompiler.compile_onnx(model, eus=1)(**fed)

    y, state = call(0, 70, inputs[6])
    parts, before = call(0, 64, inputs[6])
    made = [parts]
    for step in range(64, 70):
        part, before = call(step, step + 1, before)
        made.append(part)
    np.testing.assert_allclose(np.concatenate(made, 1), y, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(before, state, rtol=1e-4, atol=1e-4)


REFUSED = [
    (node(6), {"state_update_capacity": 2}, "state_update_capacity"),
    (node(6), {"update_rule": "other"}, "update_rule 'other'"),
    (node(6), {"gate_activation": "relu"}, "gate_activation 'relu'"),
    (node(6), {"gate_activation": "softplus"}, "'a_log' is missing"),
    (node(7), {}, "7 tokens are not those of 2"),
    (node(6)[:6], {}, "how many sequences"),
    ([*node(6)[:4], None, *node(6)[5:]], {}, "'decay' is missing"),
    (node(BATCH, 3)[:3] + [ENDS] + node(BATCH, 3)[4:], {}, r"\[tokens, heads, size\]"),
]


@pytest.mark.parametrize(("inputs", "attributes", "message"), REFUSED)
def test_what_is_not_translated_is_named(inputs: list, attributes: dict, message: str):
    model, _ = node_model("GatedDeltaNet", inputs, [F, F], 99, **attributes)
    with pytest.raises(CompilerError, match=message):
        import_onnx(model)


TOKENS_OF = np.int32([0, 1, 4, 9])
CONV = [
    {},
    {"activation": "silu"},
    {"dilation": 2},
    {"state_update_capacity": 3, "dilation": 2, "activation": "swish"},
]


@pytest.mark.parametrize("how", CONV)
@pytest.mark.parametrize("biased", [False, True])
def test_convolutions_of_tokens_of_several_sequences(biased: bool, how: dict):
    """One is shorter than what a step reads, of which the rest is in its state."""
    channels, taps = 6, 4
    kept = (taps - 1) * how.get("dilation", 1)
    captured = np.int32([2, 0, 9]) if "state_update_capacity" in how else None
    inputs = [f(9, channels), f(channels, 1, taps), TOKENS_OF, f(channels) if biased else None]
    inputs += [f(3, channels, kept), captured]
    results = [F, F, F] if captured is not None else [F, F]
    check_node("VarlenCausalConvWithState", inputs, results, **how)
