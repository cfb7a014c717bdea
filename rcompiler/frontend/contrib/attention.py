"""Attention of as many heads of keys as of queries: Attention, QAttention, MultiHeadAttention and
the step of a decoder.

Written as exporters write it: products, a softmax of what masks and biases leave, products.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from .node import Node, Result, operator


@dataclass
class Heads:
    """Queries, keys and values: [batch, heads, rows, size] each, their names and extents."""

    q: str
    k: str
    v: str
    batch: int
    heads: int
    queries: int
    keys: int
    size: int  # of a query's and a key's row
    width: int  # of a value's


def by_heads(n: Node, x: str, batch: int, steps: int, heads: int, size: int) -> str:
    """[batch, steps, heads * size] as [batch, heads, steps, size]."""
    return n.transposed(_regrouped(n, x, (batch, steps), heads, size), 0, 2, 1, 3)


def _regrouped(n: Node, x: str, kept: tuple[int, ...], *shape: int) -> str:
    """`x` with its first dimensions, also where only a call knows them, and then `shape`.

    Reshape reads a 0 as a dimension that stays; where `shape` has one, all are given as numbers.
    """
    if 0 in shape:
        return n.reshaped(x, *kept, *shape)
    return n.op("Reshape", x, n.ints(*(0 for _ in kept), *shape), allowzero=0)


def scale_of(n: Node, size: int) -> float:
    """The attribute, or 1 / root of a head's size where it is 0."""
    return float(n.attr("scale")) or 1 / math.sqrt(max(size, 1))


def attend(n: Node, h: Heads, masks: list[str], dtype: str) -> tuple[str, str]:
    """The result, [batch, queries, heads * width], and what its softmax is of. masks: what is
    added to the products.
    """
    products = n.op("MatMul", h.q, n.transposed(h.k, 0, 1, 3, 2))
    scores = n.scaled(products, scale_of(n, h.size), dtype)
    for mask in masks:
        scores = n.op("Add", scores, mask)
    weights = n.op("Softmax", scores, axis=-1)
    mixed = n.transposed(n.op("MatMul", weights, h.v), 0, 2, 1, 3)
    return _regrouped(n, mixed, (h.batch, h.queries), h.heads * h.width), scores


def bias_of(n: Node, h: Heads) -> list[str]:
    """The input attention_bias, where it is given."""
    if not n.has("attention_bias"):
        return []
    n.need_broadcast("attention_bias", (h.batch, h.heads, h.queries, h.keys))
    n.shape("attention_bias", 4)
    return ["attention_bias"]


def causal(n: Node, h: Heads, dtype: str) -> list[str]:
    """Hides keys behind a query's own, where the attribute says so."""
    if not n.attr("unidirectional"):
        return []
    hidden = np.arange(h.keys) > np.arange(h.queries)[:, None] + (h.keys - h.queries)
    return [n.constant(np.where(hidden, _lowest(dtype), 0), dtype)]


def _lowest(dtype: str) -> float:
    return {"float16": -65504.0, "bfloat16": -3e38}.get(dtype, float(np.finfo(np.float32).min))


def mask_of(n: Node, name: str, h: Heads, dtype: str) -> list[str]:
    """What a mask adds: mask_filter_value for the keys that it hides.

    1 for keys that count: [batch, keys], [batch, queries, keys], [batch, 1, all, all]. Or where the
    keys that count end, [batch]; where they end and begin, [2 * batch]; how many count and what
    packed kernels need beside, [3 * batch + 2]. [batch, 1] and [1, 1] say the same of all keys of
    a sequence, so that a softmax is what it is without a mask.
    """
    if not n.has(name):
        return []
    shape, fill = n.shape(name), n.attr("mask_filter_value")
    whole = shape[-1] if shape else 0
    zero, hidden = n.constant(0, dtype), n.constant(fill, dtype)
    if len(shape) == 1:
        return [n.op("Where", _ranges(n, name, h), zero, hidden)]
    if shape == (h.batch, h.keys):
        kept = n.unsqueezed(name, 1, 2)
    elif shape == (h.batch, h.queries, h.keys):
        kept = n.unsqueezed(name, 1)
    elif shape in ((h.batch, 1), (1, 1)):
        return []
    elif shape == (h.batch, 1, whole, whole) and whole >= h.keys:
        rows = n.sliced(name, 2, h.keys - h.queries, h.keys)
        kept = n.sliced(rows, 3, 0, h.keys)
    else:
        raise n.shape_error(f"'{name}' of shape {list(shape)} masks no {h.keys} keys")
    seen = n.op("Greater", kept, n.constant(0, n.dtype(name)))
    return [n.op("Where", seen, zero, hidden)]


def _ranges(n: Node, name: str, h: Heads) -> str:
    """Which keys lie in the ranges that numbers say: [batch, 1, 1, keys]."""
    (count,) = n.shape(name)
    if count not in (h.batch, 2 * h.batch, 3 * h.batch + 2):
        raise n.shape_error(f"'{name}' has {count} numbers for a batch of {h.batch}")
    # read off the keys, whose number only a call may know
    keys = n.reshaped(n.op("Shape", h.k, start=2, end=3))
    places = n.op("Range", n.constant(0, "int64"), keys, n.constant(1, "int64"))
    places = n.cast(places, n.dtype(name))
    end = name if count == h.batch else n.sliced(name, 0, 0, h.batch)
    seen = n.op("Less", places, n.unsqueezed(end, 1, 2, 3))
    if count == 2 * h.batch:
        first = n.unsqueezed(n.sliced(name, 0, h.batch, count), 1, 2, 3)
        seen = n.op("And", seen, n.op("GreaterOrEqual", places, first))
    return seen


_COMMON: dict[str, Any] = {"mask_filter_value": -10000.0, "num_heads": int, "scale": 0.0}


@operator(
    "Attention",
    "input:T weights:T bias:T? mask_index:I? past:T? attention_bias:T? past_sequence_length:I?",
    outputs=2,
    do_rotary=0,
    past_present_share_buffer=0,
    qkv_hidden_sizes=(),
    rotary_embedding_dim=0,
    unidirectional=0,
    **_COMMON,
)
def _attention(n: Node) -> Result:
    """With every kind of mask, and with keys and values of earlier calls; of a buffer that those
    share with the results, with its length known while compiling. Not with `do_rotary`."""
    _need_no_rotary(n)
    sizes = _column_sizes(n, "weights")
    return _attended(n, _projected(n, sizes), sizes, n.dtype("input"))


@operator(
    "QAttention",
    "input:Q weight:Q1 bias:T input_scale:T weight_scale:T mask_index:I? input_zero_point:Q? "
    "weight_zero_point:Q1? past:T?",
    outputs=2,
    do_rotary=0,
    past_present_share_buffer=0,
    unidirectional=0,
    **_COMMON,
)
def _quantised_attention(n: Node) -> Result:
    """Attention of bytes with a scale, and of weights with one, or with one for each column. Not
    with `do_rotary`, nor with a buffer that past and present share."""
    _need_no_rotary(n)
    if n.attr("past_present_share_buffer"):
        reason = "past_present_share_buffer is not translated"
        raise n.refuse(reason, "Leave it out, so that the past and the new keys are concatenated")
    sizes = _column_sizes(n, "weight")
    x = _dequantised(n, "input", 1)
    product = n.op("MatMul", x, _dequantised(n, "weight", sum(sizes)))
    parts = n.split(n.op("Add", product, "bias"), -1, *sizes)
    return _attended(n, parts, sizes, n.dtype("bias"))


def _need_no_rotary(n: Node) -> None:
    if n.attr("do_rotary"):
        raise n.refuse("do_rotary is not translated", "Use RotaryEmbedding before the products")


def _column_sizes(n: Node, weights: str) -> tuple[int, ...]:
    """How many columns of the weights are those of queries, of keys and of values."""
    depth = n.shape("input", 3)[2]
    rows, columns = n.shape(weights, 2)
    n.need_shape("bias", (columns,))
    heads = n.attr("num_heads")
    sizes: tuple[int, ...] = n.attributes.get("qkv_hidden_sizes") or (columns // 3,) * 3
    fits = rows == depth and len(sizes) == 3 and sum(sizes) == columns and min(sizes) >= 0
    if not fits or sizes[0] != sizes[1] or heads < 1 or any(size % heads for size in sizes):
        raise n.shape_error(f"{columns} columns of weights are not those of {heads} heads")
    return sizes


def _dequantised(n: Node, name: str, columns: int) -> str:
    """A tensor of bytes, of which the scale and the zero point are one number each or one for each
    of `columns`; the standard has them of one shape.
    """
    given = [x for x in (f"{name}_scale", f"{name}_zero_point") if n.has(x)]
    for parameter in given:
        n.need_shape(parameter, (), (1,), (columns,))
    by_column = any(n.shape(parameter) not in ((), (1,)) for parameter in given)
    same = [
        n.op("Expand", parameter, n.ints(columns))
        if by_column and n.shape(parameter) in ((), (1,))
        else parameter
        for parameter in given
    ]
    return n.op("DequantizeLinear", name, *same, axis=1)


def _attended(n: Node, parts: list[str], sizes: tuple[int, ...], dtype: str) -> Result:
    """Both results, of queries, keys and values with their heads side by side in columns."""
    batch, steps, _ = n.shape("input", 3)
    heads = n.attr("num_heads")
    q, k, v = (
        by_heads(n, part, batch, steps, heads, size // heads)
        for part, size in zip(parts, sizes, strict=True)
    )
    h = Heads(q, k, v, batch, heads, steps, steps, sizes[0] // heads, sizes[2] // heads)
    present = _after_past(n, h)
    masks = mask_of(n, "mask_index", h, dtype) + causal(n, h, dtype) + bias_of(n, h)
    return [attend(n, h, masks, dtype)[0], present]


def _projected(n: Node, sizes: tuple[int, ...]) -> list[str]:
    """Queries, keys and values: of constant weights a product each, as exporters write them."""
    ends = np.cumsum(sizes).tolist()
    if n.const("weights") is None:
        return n.split(n.add(n.op("MatMul", "input", "weights"), "bias"), -1, *sizes)
    parts = []
    for size, end in zip(sizes, ends, strict=True):
        product = n.op("MatMul", "input", n.sliced("weights", 1, end - size, end))
        if n.has("bias"):
            product = n.op("Add", product, n.sliced("bias", 0, end - size, end))
        parts.append(product)
    return parts


def _after_past(n: Node, h: Heads) -> str | None:
    """Makes the keys and values those of `past` and the new ones; both, as result 1 has them."""
    if not n.has("past"):
        if not n.wants(1):
            return None
        if h.size != h.width:
            raise n.shape_error("keys and values of different sizes make no one tensor")
        return n.op("Concat", n.unsqueezed(h.k, 0), n.unsqueezed(h.v, 0), axis=0)
    past = n.shape("past", 5)
    n.need_shape("past", (2, h.batch, h.heads, past[3], h.size))
    if h.size != h.width:
        raise n.shape_error("keys and values of different sizes make no one tensor")
    length, room = past[3], 0
    if n.attr("past_present_share_buffer"):
        room, length = length, _known_past(n)
        if not 0 <= length <= room - h.queries:
            raise n.shape_error(f"{h.queries} keys do not fit a buffer of {room} behind {length}")
    both = n.op("Concat", n.unsqueezed(h.k, 0), n.unsqueezed(h.v, 0), axis=0)
    both = n.op("Concat", n.sliced("past", 3, 0, length), both, axis=3)
    h.keys = length + h.queries
    h.k, h.v = (n.op("Squeeze", n.sliced(both, 0, i, i + 1), n.ints(0)) for i in (0, 1))
    if room > h.keys:
        both = n.op("Concat", both, n.sliced("past", 3, h.keys, room), axis=3)
    return both


def _known_past(n: Node) -> int:
    if not n.has("past_sequence_length"):
        raise n.shape_error("a shared buffer has a 'past_sequence_length'")
    value = n.known("past_sequence_length", "it decides how many keys there are")
    if value.size != 1:
        raise n.shape_error("'past_sequence_length' is one number")
    return int(value.reshape(-1)[0])


@operator(
    "MultiHeadAttention",
    "query:T key:T? value:T? bias:T? key_padding_mask:I? attention_bias:T? past_key:T? "
    "past_value:T? past_sequence_length:I? cache_indirection:I?",
    outputs=4,
    unidirectional=0,
    **_COMMON,
)
def _multi_head(n: Node) -> Result:
    """With all layouts of query, key and value, masks, and keys and values of earlier calls; not
    with beams, nor with a buffer that those share with the results."""
    for name in ("past_sequence_length", "cache_indirection"):
        if n.has(name):
            raise n.refuse(f"'{name}' is not translated", "Concatenate the past and the new keys")
    h, dtype = _given_heads(n), n.dtype("query")
    for name, size in (("past_key", h.size), ("past_value", h.width)):
        if n.has(name):
            n.need_shape(name, (h.batch, h.heads, n.shape(name, 4)[2], size))
    if n.has("past_key") != n.has("past_value"):
        raise n.shape_error("'past_key' and 'past_value' come together")
    if n.has("past_key"):
        n.need_shape("past_value", (*n.shape("past_key")[:3], h.width))
        h.keys += n.shape("past_key")[2]
        h.k = n.op("Concat", "past_key", h.k, axis=2)
        h.v = n.op("Concat", "past_value", h.v, axis=2)
    masks = mask_of(n, "key_padding_mask", h, dtype) + causal(n, h, dtype) + bias_of(n, h)
    y, scores = attend(n, h, masks, dtype)
    return [y, h.k, h.v, scores]


def _given_heads(n: Node) -> Heads:
    """From the layouts that the inputs may have, with the bias added."""
    heads, shape = n.attr("num_heads"), n.shape("query")
    if heads < 1:
        raise n.shape_error(f"num_heads is {heads}")
    if len(shape) == 5:
        return _packed(n, heads)
    batch, queries, columns = n.shape("query", 3)
    if not n.has("key"):
        raise n.shape_error("'key' is missing")
    key, size = n.shape("key"), columns // heads
    if columns % heads:
        raise n.shape_error(f"{columns} columns do not divide into {heads} heads")
    if len(key) == 5:
        keys, width = key[1], size
        n.need_shape("key", (batch, keys, heads, 2, size))
        if n.has("value"):
            raise n.shape_error("'key' has the values, too")
        k, v = (n.op("Squeeze", part, n.ints(3)) for part in n.split("key", 3, 1, 1))
        k, v = (n.reshaped(part, batch, keys, columns) for part in (k, v))
    else:
        if not n.has("value"):
            raise n.shape_error("'value' is missing")
        k, v, value = "key", "value", n.shape("value")
        if len(key) not in (3, 4) or len(value) != len(key):
            raise n.shape_error("'key' and 'value' have 3 or 4 dimensions")
        keys = key[-2]
        width = value[-1] if len(key) == 4 else value[-1] // heads
        if len(key) == 4:
            n.need_shape("key", (batch, heads, keys, size))
            n.need_shape("value", (batch, heads, keys, width))
        else:
            n.need_shape("key", (batch, keys, columns))
            n.need_shape("value", (batch, keys, heads * width))
    whole = 2 * columns + heads * width
    n.need_shape("bias", (whole,))
    parts = {"query": ("query", 0, columns)}
    if len(key) != 4:  # else the bias is in them already
        parts |= {"key": (k, columns, 2 * columns), "value": (v, 2 * columns, whole)}
    made = {name: _biased(n, *part) for name, part in parts.items()}
    q = by_heads(n, made["query"], batch, queries, heads, size)
    if len(key) != 4:
        k = by_heads(n, made["key"], batch, keys, heads, size)
        v = by_heads(n, made["value"], batch, keys, heads, width)
    return Heads(q, k, v, batch, heads, queries, keys, size, width)


def _biased(n: Node, x: str, first: int, end: int) -> str:
    return n.op("Add", x, n.sliced("bias", 0, first, end)) if n.has("bias") else x


def _packed(n: Node, heads: int) -> Heads:
    """Of queries, keys and values side by side: [batch, steps, heads, 3, size]."""
    batch, steps, _, _, size = n.shape("query", 5)
    n.need_shape("query", (batch, steps, heads, 3, size))
    if n.has("key") or n.has("value"):
        raise n.shape_error("'query' has the keys and values, too")
    columns = heads * size
    n.need_shape("bias", (3 * columns,))
    made = []
    for i, part in enumerate(n.split("query", 3, 1, 1, 1)):
        flat = n.reshaped(part, batch, steps, columns)
        biased = _biased(n, flat, i * columns, (i + 1) * columns)
        made.append(by_heads(n, biased, batch, steps, heads, size))
    q, k, v = made
    return Heads(q, k, v, batch, heads, steps, steps, size, size)


@operator(
    "DecoderMaskedMultiHeadAttention",
    "query:T key:T? value:T? mask_index:I? attention_bias:T? past_key:T? past_value:T? "
    "past_sequence_length:I? beam_width:M? cache_indirection:I? bias:T?",
    outputs=4,
    output_qk=0,
    past_present_share_buffer=0,
    **_COMMON,
)
def _decoder_step(n: Node) -> Result:
    """One step: of its own keys behind those of earlier steps, in a buffer that they share with the
    results or not, or of the keys of an encoder; not of beams."""
    width = n.const("beam_width") if n.has("beam_width") else np.ones(1)
    if n.has("cache_indirection") or width is None or (width != 1).any():
        raise n.refuse("beams are not translated", "Reorder the keys with Gather")
    batch, steps, columns = n.shape("query", 3)
    heads, dtype = n.attr("num_heads"), n.dtype("query")
    if steps != 1 or heads < 1:
        raise n.shape_error(f"{steps} queries of {heads} heads; one query is a step")
    packed = not n.has("key")
    columns = columns // 3 if packed else columns
    if columns % heads or packed and n.shape("query") != (batch, 1, 3 * columns):
        raise n.shape_error(f"the columns of the query are not those of {heads} heads")
    size = columns // heads
    n.need_shape("bias", (3 * columns,))
    q, k, v = n.split("query", -1, *[columns] * 3) if packed else ("query", "key", "value")
    if not packed and not n.has("value"):
        raise n.shape_error("'value' is missing")
    q = by_heads(n, _biased(n, q, 0, columns), batch, 1, heads, size)
    h = Heads(q, k, v, batch, heads, 1, 1, size, size)
    if not packed and len(n.shape("key")) == 4:  # of an encoder
        h.keys = n.shape("key")[2]
        for name in ("key", "value"):
            n.need_shape(name, (batch, heads, h.keys, size))
        masks = mask_of(n, "mask_index", h, dtype) + bias_of(n, h)
        return [attend(n, h, masks, dtype)[0], None, None, None]
    for name in () if packed else ("key", "value"):
        n.need_shape(name, (batch, 1, columns))
    k = by_heads(n, _biased(n, k, columns, 2 * columns), batch, 1, heads, size)
    v = by_heads(n, _biased(n, v, 2 * columns, 3 * columns), batch, 1, heads, size)
    masks = _step_after_past(n, h, k, v, dtype)
    masks += mask_of(n, "mask_index", h, dtype) + bias_of(n, h)
    y, scores = attend(n, h, masks, dtype)
    return [y, h.k, h.v, scores]


def _step_after_past(n: Node, h: Heads, k: str, v: str, dtype: str) -> list[str]:
    """Puts the keys and values of a step behind those of earlier ones; hides what a shared buffer
    has behind them."""
    if not n.has("past_key") or not n.has("past_value"):
        if n.has("past_key") or n.has("past_value"):
            raise n.shape_error("'past_key' and 'past_value' come together")
        h.k, h.v = k, v
        return []
    room = n.shape("past_key", 4)[2]
    for name in ("past_key", "past_value"):
        n.need_shape(name, (h.batch, h.heads, room, h.size))
    if not n.attr("past_present_share_buffer"):
        h.keys = room + 1
        h.k, h.v = (
            n.op("Concat", past, new, axis=2) for past, new in (("past_key", k), ("past_value", v))
        )
        return []
    if not n.has("past_sequence_length"):
        raise n.shape_error("a shared buffer has a 'past_sequence_length'")
    n.need_shape("past_sequence_length", (), (1,))
    before = n.reshaped(n.cast("past_sequence_length", "int64"), 1)
    at = n.op("Expand", before, n.ints(h.batch))
    h.keys = room
    h.k, h.v = (
        n.op("TensorScatter", past, new, at, axis=2)
        for past, new in (("past_key", k), ("past_value", v))
    )
    seen = n.op("LessOrEqual", n.constant(np.arange(room)), before)
    return [n.op("Where", seen, n.constant(0, dtype), n.constant(_lowest(dtype), dtype))]
