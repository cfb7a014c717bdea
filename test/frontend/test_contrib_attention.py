"""Attention of onnxruntime's domain, each mask, layout and attribute: as it computes it, or as
another form of it that its CPU provider has."""

import numpy as np
import pytest
from onnx import parser
from oracles.contrib_node import by_onnxruntime, check_node, check_ranges, node_model

import rcompiler
from rcompiler.errors import RangeError, ShapeError, UnsupportedOp
from rcompiler.frontend import import_onnx

pytest.importorskip("onnxruntime")
rng = np.random.default_rng(0)


def f(*shape: int) -> np.ndarray:
    return rng.standard_normal(shape).astype(np.float32)


def i32(*numbers: object) -> np.ndarray:
    return np.array(numbers, np.int32)


def bits(*shape: int) -> np.ndarray:
    return rng.integers(0, 2, shape).astype(np.int32)


# 2 sequences of 4 steps, 3 heads of 4
X, W, BIAS, PAST = f(2, 4, 12), f(12, 36), f(36), f(2, 2, 3, 5, 4)
ATTENTION = {
    "plain": ([X, W, BIAS], {}),
    "weights at run time": ([X, W, BIAS], {"fed": 3}),
    "no bias": ([X, W], {"scale": 0.3}),
    "causal": ([X, W, BIAS], {"unidirectional": 1}),
    "keys": ([X, W, BIAS, bits(2, 4)], {"mask_filter_value": -5.0}),
    "ends": ([X, W, BIAS, i32(3, 2)], {}),
    "ends and beginnings": ([X, W, BIAS, i32(3, 4, 1, 0)], {}),
    "each query": ([X, W, BIAS, bits(2, 4, 4)], {"unidirectional": 1}),
    "the same of all keys": ([X, W, BIAS, i32([0], [1])], {}),
    "the same of all sequences": ([X, W, BIAS, i32([0])], {}),
    "bias of scores": ([X, W, BIAS, None, None, f(2, 1, 4, 4)], {"fed": 6}),
    "past": ([X, W, BIAS, bits(2, 9), PAST], {"fed": 5, "unidirectional": 1}),
    "past and ends": ([X, W, BIAS, i32(9, 8), PAST], {"fed": 5}),
    "values of another size": ([X, f(12, 30), f(30)], {"qkv_hidden_sizes": [12, 12, 6]}),
}


@pytest.mark.parametrize("form", ATTENTION)
def test_attention(form: str):
    inputs, attributes = ATTENTION[form]
    outputs = ["float32"] * (2 if "past" in form or form == "no bias" else 1)
    check_node("Attention", inputs, outputs, **{"fed": 1, "num_heads": 3} | attributes)


@pytest.mark.parametrize("form", ["plain", "keys", "ends"])
@pytest.mark.parametrize("ranges", [{0: "b"}, {1: "s"}, {0: "b", 1: "s"}])
def test_attention_of_sizes_that_a_call_decides(form: str, ranges: dict):
    inputs, attributes = ATTENTION[form]
    check_ranges("Attention", inputs, [0, 3], ranges, num_heads=3, **attributes)


def of_onnxruntime(op: str, inputs: list, **attributes: object) -> list[np.ndarray]:
    return by_onnxruntime(*node_model(op, inputs, ["float32"], 99, **attributes))


def test_attention_that_only_gpus_have():
    """A mask of four dimensions, and a buffer that past and present share."""
    whole = np.tril(np.ones((2, 1, 16, 16), np.int32))
    wanted = of_onnxruntime("Attention", [X, W, BIAS], num_heads=3, unidirectional=1)
    check_node("Attention", [X, W, BIAS, whole], wanted=wanted, num_heads=3)
    room = np.concatenate([PAST, f(2, 2, 3, 7, 4)], 3)
    model, fed = node_model("Attention", [X, W, BIAS, None, PAST], ["float32"] * 2, 99, num_heads=3)
    y, present = by_onnxruntime(model, fed)
    room_after = np.concatenate([present, room[:, :, :, 9:]], 3)
    inputs = [X, W, BIAS, None, room, None, i32(5)]
    how = {"num_heads": 3, "past_present_share_buffer": 1, "fed": range(6)}
    check_node("Attention", inputs, ["float32"] * 2, wanted=[y, room_after], **how)


Q, K, V = f(2, 4, 12), f(2, 5, 12), f(2, 5, 9)
HEADS = [f(2, 3, 5, 4), f(2, 3, 5, 4)]
OWN = [f(2, 4, 12) for _ in range(3)]
EARLIER = [f(2, 3, 6, 4), f(2, 3, 6, 4)]
MULTI_HEAD = {
    "plain": ([Q, K, V], {"scale": 0.2}),
    "bias": ([Q, K, V, f(33)], {}),
    "lengths": ([Q, K, V, None, i32(3, 5)], {}),
    "packed lengths": ([Q, K, V, None, i32(3, 5, 0, 3, 8, 0, 4, 8)], {}),
    "keys": ([Q, K, V, None, bits(2, 5)], {"mask_filter_value": -3.0}),
    "each query": ([Q, K, V, None, bits(2, 4, 5)], {}),
    "bias of scores": ([Q, K, V, None, None, f(1, 1, 4, 5)], {"results": [0, 3]}),
    "by heads": ([Q, *HEADS, f(36)], {}),
    "causal": (OWN, {"unidirectional": 1, "results": [0, 1, 2]}),
    "past": (
        [*OWN, f(36), bits(2, 10), f(2, 3, 4, 10), *EARLIER],
        {"unidirectional": 1, "results": [0, 1, 2]},
    ),
}


@pytest.mark.parametrize("form", MULTI_HEAD)
def test_multi_head_attention(form: str):
    inputs, attributes = MULTI_HEAD[form]
    asked = attributes.get("results", [0])
    outputs = ["float32" if k in asked else "" for k in range(max(asked) + 1)]
    rest = {name: value for name, value in attributes.items() if name != "results"}
    check_node("MultiHeadAttention", inputs, outputs, num_heads=3, **rest)


def test_packed_queries_keys_and_values():
    """As the same in three tensors."""
    q, k, v = (x.reshape(2, 4, 3, 4) for x in OWN)
    bias = f(36)
    wanted = of_onnxruntime("MultiHeadAttention", [*OWN, bias], num_heads=3)
    packed = [OWN[0], np.stack([k, v], 3), None, bias]
    check_node("MultiHeadAttention", packed, wanted=wanted, num_heads=3)
    packed = [np.stack([q, k, v], 3), None, None, bias]
    check_node("MultiHeadAttention", packed, wanted=wanted, num_heads=3)


STEP = [f(2, 1, 12) for _ in range(3)]


def test_a_step_of_a_decoder():
    shared = {"num_heads": 3, "past_present_share_buffer": 1}
    inputs = [*STEP, None, None, *EARLIER, i32(4), None, None, f(36)]
    check_node("DecoderMaskedMultiHeadAttention", inputs, ["float32"] * 3, **shared)
    check_node("DecoderMaskedMultiHeadAttention", [STEP[0], *HEADS], num_heads=3)
    mask = i32([1, 1, 1, 0, 1, 1, 1], [1, 1, 1, 1, 1, 1, 1])
    inputs = [*STEP, None, mask, None, *EARLIER]
    model, fed = node_model("MultiHeadAttention", inputs, ["float32"] * 3, 99, num_heads=3)
    wanted, inputs = by_onnxruntime(model, fed), [*STEP, mask, None, *EARLIER]
    check_node(
        "DecoderMaskedMultiHeadAttention", inputs, ["float32"] * 3, wanted=wanted, num_heads=3
    )
    packed = [np.concatenate(STEP, -1), None, None, mask, None, *EARLIER]
    check_node(
        "DecoderMaskedMultiHeadAttention", packed, ["float32"] * 3, wanted=wanted, num_heads=3
    )


# 4 heads of queries, 2 of keys and values, of 16 elements
SIZE = 16
COS, SIN = f(16, 8), f(16, 8)
PROMPT = [f(2, 4, 64), f(2, 4, 32), f(2, 4, 32), None, None, i32(3, 3), np.int32(4)]
BUFFERS = [f(2, 2, 9, SIZE), f(2, 2, 9, SIZE)]
TOKEN = [f(2, 1, 64), f(2, 1, 32), f(2, 1, 32), *BUFFERS, i32(8, 6), np.int32(9)]
MORE = [f(1, 4, 64), f(1, 4, 32), f(1, 4, 32), *[x[:1] for x in BUFFERS], i32(8), np.int32(9)]
LONG = [f(2, 2, 300, SIZE), f(2, 2, 300, SIZE)]  # of several parts
TURN = {"do_rotary": 1}
GROUPED = {
    "prompt": (PROMPT, {}),
    "rotated prompt": ([*PROMPT, COS, SIN], TURN),
    "first position of a prompt": ([*PROMPT, COS, SIN, np.array([[1, 3, 5, 7], [3] * 4])], TURN),
    "packed prompt": ([f(2, 4, 128), None, None, *PROMPT[3:], COS, SIN], TURN),
    "all keys": (PROMPT, {"causal": 0}),
    "token": (TOKEN, {}),
    "shorter than the buffer": ([*TOKEN[:5], i32(7, 6), np.int32(8)], {"fed": 6}),
    "longer than the buffer": ([*TOKEN[:5], i32(9, 6), np.int32(10)], {"fed": 6}),
    "rotated token": ([*TOKEN, COS, SIN], {**TURN, "rotary_interleaved": 1, "softcap": 2.0}),
    "token at a position": ([*TOKEN, COS, SIN, np.array([[3], [2]])], TURN),
    "window": (TOKEN, {"local_window_size": 3, "scale": 0.3}),
    "several tokens": (MORE, {"local_window_size": 3, "smooth_softmax": 1}),
    "bias and sinks": ([*MORE, None, None, None, f(1, 4, 4, 9), f(4)], {"softcap": 1.5}),
    "one part of a long buffer": ([*TOKEN[:3], *LONG, i32(90, 6), np.int32(91)], {"fed": 6}),
    "two parts of a long buffer": ([*TOKEN[:3], *LONG, i32(128, 6), np.int32(129)], {"fed": 6}),
    "several tokens of a long buffer": (
        [*MORE[:3], *[x[:1] for x in LONG], i32(299), np.int32(300), *[None] * 3, f(1, 1, 4, 300)],
        {"local_window_size": 40, "softcap": 2.0, "fed": 6},
    ),
    "weights of a long buffer": (
        [*TOKEN[:3], *LONG, i32(299, 299), np.int32(300)],
        {"qk_output": 2},
    ),
    "weights as a result": (PROMPT, {"qk_output": 2}),
}  # fmt: skip


@pytest.mark.parametrize("form", GROUPED)
def test_group_query_attention(form: str):
    """Of the buffers, what `seqlens_k` says that is filled."""
    inputs, attributes = GROUPED[form]
    how = {"num_heads": 4, "kv_num_heads": 2, "fed": 7} | attributes
    outputs = ["float32"] * (4 if "qk_output" in attributes else 3)
    model, fed = node_model("GroupQueryAttention", inputs, outputs, **how)
    wanted = by_onnxruntime(model, fed)
    found = rcompiler.compile_onnx(model, eus=1)(**fed)
    for number, (got, want) in enumerate(zip(found, wanted, strict=True)):
        assert got.shape == want.shape
        for batch, last in enumerate(inputs[5]):
            filled = slice(None, last + 1) if number in (1, 2) else slice(None)
            np.testing.assert_allclose(
                got[batch, :, filled], want[batch, :, filled], rtol=3e-5, atol=1e-4
            )


GROWING = """
  <ir_version: 10, opset_import: ["": 21, "com.microsoft": 1]>
  g (float[2, 1, 64] q, float[2, 1, 32] k, float[2, 1, 32] v, float[2, 2, past, 16] past_k,
     float[2, 2, past, 16] past_v, int32[2] last)
    => (float[2, 1, 64] y, float[2, 2, all, 16] present_k, float[2, 2, all, 16] present_v) {
    lengths = Shape <start: int = 2, end: int = 3> (past_k)
    one = Constant <value_ints = [1]> ()
    all64 = Add (lengths, one)
    total = Cast <to: int = 6> (all64)
    y, present_k, present_v = com.microsoft.GroupQueryAttention
      <num_heads: int = 4, kv_num_heads: int = 2> (q, k, v, past_k, past_v, last, total)
  }
"""


def test_a_cache_of_any_length_grows():
    """Also one sequence of which is shorter than the other; the filled parts are compared."""
    model = parser.parse_model(GROWING)
    compiled = rcompiler.compile_onnx(model, shapes={"past": range(1, 10)}, eus=1)
    for length in (1, 6, 9):
        past = [x[:, :, :length] for x in BUFFERS]
        feeds = [*TOKEN[:3], *past, i32(length, max(length - 2, 0))]
        names = [value.name for value in model.graph.input]
        wanted = by_onnxruntime(model, dict(zip(names, feeds, strict=True)))
        for got, want in zip(compiled(*feeds), wanted, strict=True):
            assert got.shape == want.shape
            for row, last in enumerate(feeds[-1]):
                filled = slice(None) if got.ndim == 3 else (slice(None), slice(None, last + 1))
                np.testing.assert_allclose(got[row][filled], want[row][filled], 3e-5, 1e-4)


def test_a_total_length_that_is_not_made_of_a_range_of_lengths_is_refused():
    model = parser.parse_model(GROWING.replace("(lengths, one)", "(one, one)"))
    with pytest.raises(UnsupportedOp, match="'past_key' has a range of lengths"):
        rcompiler.compile_onnx(model, shapes={"past": range(1, 10)}, eus=1)


def test_heads_that_are_normalised():
    """As onnxruntime's of queries and keys that are normalised before."""
    weights = f(16), f(16)

    def normal(x: np.ndarray, weight: np.ndarray) -> np.ndarray:
        rows = x.reshape(2, 4, -1, 16)
        root = np.sqrt((rows * rows).mean(-1, keepdims=True) + 0.01)
        return (rows / root * weight).reshape(x.shape).astype(np.float32)

    heads = {"num_heads": 4, "kv_num_heads": 2}
    before = [normal(x, w) for x, w in zip(PROMPT, weights, strict=False)]
    outputs = ["float32"] * 3
    wanted = by_onnxruntime(
        *node_model("GroupQueryAttention", [*before, *PROMPT[2:]], outputs, 99, **heads)
    )
    inputs = [*PROMPT, *[None] * 7, *weights]
    how = heads | {"qk_norm_epsilon": 0.5, "q_norm_epsilon": 0.01, "k_norm_epsilon": 0.01}
    check_node("GroupQueryAttention", inputs, outputs, wanted=wanted, **how)


def test_what_is_not_in_a_buffer_is_an_error():
    inputs = [*TOKEN[:5], i32(9, 6), np.int32(10)]
    heads = {"num_heads": 4, "kv_num_heads": 2}
    model, fed = node_model("GroupQueryAttention", inputs, ["float32"] * 3, 7, **heads)
    with pytest.raises(RangeError, match="GroupQueryAttention"):
        rcompiler.compile_onnx(model, eus=1)(**fed)


TURNED = {
    "first position": ([X, np.array([3]), f(10, 2), f(10, 2)], {}),
    "positions": ([X, np.array([[0, 1, 2, 3], [3, 4, 5, 6]]), f(10, 2), f(10, 2)], {}),
    "by heads": ([f(2, 3, 4, 4), np.array([2]), f(10, 2), f(10, 2)], {"interleaved": 1}),
    "a part": (
        [f(2, 4, 24), np.array([3]), f(10, 2), f(10, 2)],
        {"num_heads": 3, "rotary_embedding_dim": 4},
    ),
}


@pytest.mark.parametrize("form", TURNED)
def test_rotary_embedding(form: str):
    inputs, attributes = TURNED[form]
    check_node("RotaryEmbedding", inputs, **attributes)


def test_biases_of_positions():
    """By the formula of T5, and by that of WavLM."""
    table = f(8, 3)
    # 8 buckets, half of them exact, the others up to a distance of 20
    buckets = np.array([0, 1, 2, 3, 4, 4, 5, 5, 5, 6, 6, 6, 6, 6, 7, 7, 7, 7, 7, 7, 7, 7])
    apart = np.arange(22)[None] - np.arange(22)[:, None]
    wanted = [table[buckets[np.maximum(-apart, 0)]].transpose(2, 0, 1)[None]]
    lengths = [np.array([22]), np.array([22])]
    check_node("RelativePositionBias", [table, *lengths], wanted=wanted, fed=1, max_distance=20)
    exact = np.array([0, 1, 2, 2, 2, 2, 2, 3, 3])
    apart = np.arange(9)[None] - np.arange(9)[:, None]
    wanted = [table[exact[np.abs(apart)] + 4 * (apart > 0)].transpose(2, 0, 1)[None]]
    how = {"max_distance": 20, "is_bidirectional": 1, "fed": 1}
    check_node("RelativePositionBias", [table, np.array([9]), np.array([9])], wanted=wanted, **how)
    rel, weight, bias, eco, own = f(1, 3, 4, 4), f(4, 8), f(8), f(1, 3, 1, 1), f(12)
    q = (X + own).reshape(2, 4, 3, 4).transpose(0, 2, 1, 3)
    gates = 1 / (1 + np.exp(-(q @ weight + bias).reshape(2, 3, 4, 2, 4).sum(-1)))
    wanted = [((gates[..., :1] * (gates[..., 1:] * eco - 1) + 2) * rel).astype(np.float32)]
    inputs = [X, own, rel, weight, bias, eco]
    check_node("GatedRelativePositionBias", inputs, wanted=wanted, num_heads=3)


HEADS_3 = {"num_heads": 3}
REFUSED = [
    ("Attention", [X, W, BIAS], {**HEADS_3, "do_rotary": 1}, "do_rotary"),
    ("Attention", [X, W, BIAS], {"num_heads": 5}, "5 heads"),
    ("Attention", [X, W, BIAS, bits(2, 3)], HEADS_3, "masks no 4 keys"),
    ("Attention", [X, W, BIAS, None, f(2, 2, 3, 5, 3)], HEADS_3, "'past' has shape"),
    ("MultiHeadAttention", [Q, K], HEADS_3, "'value' is missing"),
    ("MultiHeadAttention", [Q, K, f(2, 6, 9)], HEADS_3, "'value' has shape"),
    ("MultiHeadAttention", [*OWN, *[None] * 5, i32(1)], HEADS_3, "'past_sequence_length' is not"),
    ("GroupQueryAttention", PROMPT, {"num_heads": 4, "kv_num_heads": 3}, "share"),
    ("GroupQueryAttention", PROMPT, {"num_heads": 4}, "'kv_num_heads' is missing"),
    ("MultiHeadAttention", [*OWN, *[None] * 6, np.zeros((2, 1, 9), np.int32)], HEADS_3,
     "'cache_indirection' is not"),
    ("DecoderMaskedMultiHeadAttention",
     [*STEP, None, None, *EARLIER, i32(4), i32(1), np.zeros((2, 1, 9), np.int32)], HEADS_3,
     "beams are not"),
    ("GroupQueryAttention", PROMPT, {"num_heads": 4, "kv_num_heads": 2, "do_rotary": 1}, "cos_c"),
    ("RotaryEmbedding", TURNED["positions"][0], {"scale": 2.0}, "scale is not"),
    ("DecoderMaskedMultiHeadAttention", OWN, HEADS_3, "one query is a step"),
    (
        "DecoderMaskedMultiHeadAttention",
        [*STEP, None, None, *EARLIER, i32(4), i32(2)],
        HEADS_3,
        "beams are not",
    ),
    ("RelativePositionBias", [f(8, 3), i32(4), i32(4)], {"max_distance": 20}, "must be known"),
]  # fmt: skip


@pytest.mark.parametrize(("op", "inputs", "attributes", "message"), REFUSED)
def test_refusals(op: str, inputs: list, attributes: dict, message: str):
    model, _ = node_model(op, inputs, ["float32"], 99, **attributes)
    with pytest.raises((UnsupportedOp, ShapeError), match=message):
        import_onnx(model)
