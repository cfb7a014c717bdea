"""Buffers of keys of GroupQueryAttention: as integers, of a window's length, of padded chunks."""

import numpy as np
import pytest
from oracles.contrib_node import by_onnxruntime, node_model

import rcompiler
from rcompiler.errors import CompilerError
from rcompiler.frontend import import_onnx

pytest.importorskip("onnxruntime")
rng = np.random.default_rng(0)
SIZE, ROOM = 16, 9
HEADS = {"num_heads": 4, "kv_num_heads": 2}
SCALES = {
    "PER_TENSOR": [np.float32([0.02]), np.float32([0.03])],
    "PER_CHANNEL": [rng.uniform(0.01, 0.03, (1, 2, 1, SIZE)).astype(np.float32) for _ in "kv"],
}


def f(*shape: int) -> np.ndarray:
    return rng.standard_normal(shape).astype(np.float32)


def i32(*numbers: object) -> np.ndarray:
    return np.array(numbers, np.int32)


def new(batch: int, steps: int) -> list[np.ndarray]:
    return [f(batch, steps, 4 * SIZE), f(batch, steps, 2 * SIZE), f(batch, steps, 2 * SIZE)]


def buffers(batch: int, dtype: str = "float32", room: int = ROOM) -> list[np.ndarray]:
    if dtype == "float32":
        return [f(batch, 2, room, SIZE) for _ in "kv"]
    shape = (batch, 2, room, SIZE if dtype == "int8" else SIZE // 2)
    return [rng.integers(0, 256, shape).astype(np.uint8).view(dtype) for _ in "kv"]


def check(
    inputs: list,
    filled: list[int],
    rows: list[int] | None = None,
    cache: str = "float32",
    apart: int = 0,
    **how: object,
) -> list[np.ndarray]:
    """Compare with onnxruntime. filled: the rows of the buffers of each sequence that count; rows:
    those of the result. apart: how far integers may be. Returns the results."""
    types = ["float32", cache, cache]
    model, fed = node_model("GroupQueryAttention", inputs, types, 99, **HEADS, **how)
    wanted = by_onnxruntime(model, fed)
    found = rcompiler.compile_onnx(model, eus=1)(**fed)
    for number, (got, want) in enumerate(zip(found, wanted, strict=True)):
        assert got.shape == want.shape and got.dtype == want.dtype
        for batch, count in enumerate(filled):
            part = (slice(None), slice(count)) if number else slice(rows[batch] if rows else None)
            one, other = (x[batch][part].astype(np.float64) for x in (got, want))
            if number and cache != "float32":
                assert np.abs(one - other).max(initial=0) <= apart
            else:
                np.testing.assert_allclose(one, other, rtol=3e-5, atol=1e-4)
    return found


@pytest.mark.parametrize("kind", SCALES)
@pytest.mark.parametrize(("dtype", "bits"), [("int8", 8), ("uint8", 4)])
def test_quantised_keys(dtype: str, bits: int, kind: str):
    """A step of sequences of their own lengths, several steps of one, and a prompt."""
    how = {"k_quant_type": kind, "v_quant_type": kind, "kv_cache_bit_width": bits, "cache": dtype}
    rest = [None] * 5 + SCALES[kind]
    check([*new(2, 1), *buffers(2, dtype), i32(8, 6), np.int32(9), *rest], [9, 7], **how)
    check([*new(1, 3), *buffers(1, dtype), i32(6), np.int32(7), *rest], [7], **how)
    check([*new(2, 4), *buffers(2, dtype), i32(3, 3), np.int32(4), *rest], [4, 4], **how)


def test_quantised_keys_that_rotate_and_have_a_window():
    turned = {"do_rotary": 1, "local_window_size": 4}
    kinds = dict.fromkeys(("k_quant_type", "v_quant_type"), "PER_CHANNEL")
    kinds |= {"kv_cache_bit_width": 8}
    inputs = [*new(2, 1), *buffers(2, "int8"), i32(8, 6), np.int32(9), f(16, 8), f(16, 8)]
    inputs += [None] * 3 + SCALES["PER_CHANNEL"]
    check(inputs, [9, 7], cache="int8", apart=1, **turned, **kinds)


def test_chunks_with_padding_behind():
    """Sequences bring 2, 4, 0 and 1 of 4 rows; the total length says how long buffers are."""
    total, count = i32(6, 4, 3, 0), i32(2, 4, 0, 1)
    inputs = [*new(4, 4), *buffers(4, room=12), total, np.int32(12), f(16, 8), f(16, 8)]
    inputs += [None] * 7 + [count]
    check(inputs, [7, 5, 4, 1], [2, 4, 0, 1], do_rotary=1)
    check(inputs, [7, 5, 4, 1], [2, 4, 0, 1], do_rotary=1, local_window_size=3)
    one = [*new(2, 1), *buffers(2), i32(4, 5), np.int32(9), *[None] * 9, i32(1, 0)]
    check(one, [5, 6], [1, 0])


def resident(total: int, capacity: int, window: int) -> int:
    step = capacity - window + 1
    return total - step * -(-max(total - capacity, 0) // step)


@pytest.mark.parametrize("capacity", [4, 5, 8])
def test_buffers_of_a_windows_length(capacity: int):
    """A prompt that is longer than its buffer, and steps and chunks behind it: buffers go from call
    to call."""
    how = {"local_window_size": 4, "sliding_window_cache": 1, "do_rotary": 1}
    cos, sin = f(32, 8), f(32, 8)
    past, total = [np.zeros((1, 2, capacity, SIZE), np.float32) for _ in "kv"], 0
    for steps in (6, 1, 1, 3, 1, 7, 1):
        total += steps
        inputs = [*new(1, steps), *past, i32(total - 1), np.int32(total), cos, sin]
        _, *past = check(inputs, [resident(total, capacity, 4)], **how)


def test_windows_of_sequences_of_their_own_lengths():
    how = {"local_window_size": 4, "sliding_window_cache": 1}
    inputs = [*new(2, 1), *buffers(2, room=6), i32(11, 5), np.int32(12)]
    check(inputs, [resident(12, 6, 4), 6], **how)
    padded = [*new(2, 3), *buffers(2, room=6), i32(11, 5), np.int32(12), *[None] * 9, i32(1, 3)]
    check(padded, [resident(12, 6, 4), 6], [1, 3], **how)


STEP = [*new(2, 1), *buffers(2), i32(8, 6), np.int32(9)]
BYTES = [*new(2, 1), *buffers(2, "int8"), i32(8, 6), np.int32(9)]
WINDOW = {"local_window_size": 4, "sliding_window_cache": 1}
REFUSED = [
    (STEP, {"k_quant_type": "PER_TENSOR"}, "'k_scale' is missing"),
    (STEP, {"k_quant_type": "PER_ROW"}, "none of NONE, PER_TENSOR"),
    (BYTES, {}, "'past_key' is int8; float32 is expected"),
    (
        [*BYTES, *[None] * 5, *SCALES["PER_TENSOR"]],
        {"k_quant_type": "PER_TENSOR", "v_quant_type": "PER_TENSOR", "kv_cache_bit_width": 4},
        "'past_key' of int8 with 4 bits",
    ),
    ([*STEP, *[None] * 5, *SCALES["PER_TENSOR"]], {}, "k_quant_type is NONE"),
    ([*STEP, *[None] * 3, f(1, 1, 1, 9)], WINDOW, "'attention_bias' with sliding_window_cache"),
    (STEP, WINDOW | {"local_window_size": 12}, "holds no window of 12"),
    (STEP, WINDOW | {"causal": 0}, "of causal attention"),
]  # fmt: skip


@pytest.mark.parametrize(("inputs", "attributes", "message"), REFUSED)
def test_what_is_not_translated_is_named(inputs: list, attributes: dict, message: str):
    model, _ = node_model("GroupQueryAttention", inputs, ["float32"], 99, **HEADS, **attributes)
    with pytest.raises(CompilerError, match=message):
        import_onnx(model)
