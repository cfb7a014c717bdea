"""GroupQueryAttention: several heads of queries share one of keys and values, and keys of earlier
calls lie in buffers of a fixed length, of which each sequence has filled its own part."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .attention import by_heads, scale_of
from .embedding import following, need_caches, rotated
from .node import Node, Result, operator
from .quantised_keys import Numbers, numbers_of
from .window_cache import Window

# Of buffers, of which what no key counts of is left out: how many parts at most, and keys of one at
# least. A part takes two operators, so that more of them take more than they save.
_PARTS, _LEAST_PART = 8, 128


@dataclass(frozen=True)
class _Extents:
    batch: int
    steps: int  # of queries, and of new keys
    heads: int  # of queries
    shared: int  # of keys and values
    size: int
    own: str  # of open steps how many there are, int64 [1]; behind them is nothing that counts
    room: int  # of keys: those of earlier calls, the new ones, and what is not filled yet
    seen: int  # of these as many at most count


@operator(
    "GroupQueryAttention",
    "query:T key:T? value:T? past_key:N? past_value:N? seqlens_k:I total_sequence_length:I "
    "cos_cache:T? sin_cache:T? position_ids:M? attention_bias:T? head_sink:T? k_scale:U? "
    "v_scale:U? q_norm_weight:T? k_norm_weight:T? query_seqlens:I?",
    outputs=4,
    causal=1,
    do_rotary=0,
    k_norm_epsilon=0.0,
    k_quant_type="NONE",
    kv_cache_bit_width=0,
    kv_num_heads=int,
    local_window_size=-1,
    num_heads=int,
    q_norm_epsilon=0.0,
    qk_norm_epsilon=1e-6,
    qk_output=0,
    rotary_interleaved=0,
    scale=0.0,
    sliding_window_cache=0,
    smooth_softmax=0,
    softcap=0.0,
    v_quant_type="NONE",
)
def _grouped(n: Node) -> Result:
    """With packed or separate inputs, rotation, a window, softcap, sinks, norms of heads, and keys
    in buffers that `seqlens_k` says the filled part of while the model runs, as floats or as
    integers of 8 or 4 bits; a total length that is not known while compiling is at most that of
    `past_key`. A `past_key` of a range of lengths is no buffer: results have the new keys behind;
    so is one of any length where new keys have a range, which the total length goes with.
    Buffers of a window's length (`sliding_window_cache`) without `attention_bias`."""
    if n.attr("qk_output") not in (0, 1, 2) or n.attr("causal") not in (0, 1):
        raise n.shape_error("qk_output is 0, 1 or 2, causal 0 or 1")
    q, k, v, e = _parts(n)
    before = _before(n, e)
    q, k = _normalised(n, q, k, e)
    if n.attr("do_rotary"):
        q, k = _rotated(n, q, k, before, e)
    new = [by_heads(n, x, e.batch, e.steps, e.shared, e.size) for x in (k, v)]
    window = _window(n, before, e)
    first = window.first if window else before  # where the new keys lie in a buffer
    read, present = [], []
    for letter, past, x in zip("kv", ("past_key", "past_value"), new, strict=True):
        numbers = numbers_of(n, letter, past, e.shared, e.size)
        if n.has(past):
            x = numbers.stored(n, x, (e.batch, e.shared, e.steps, e.size), n.dtype(past))
            x = _behind(n, past, x, first, e, numbers)
        present.append(window.kept(n, x, e.room) if window else _as_long(n, past, x, e))
        x = numbers.real(n, x, (e.batch, e.shared, e.room, e.size), n.dtype("query"))
        read.append(n.sliced(x, 2, 0, e.seen) if e.seen < e.room else x)
    keys, values = read
    y, scores = _attend(n, q, keys, values, first, e)
    if _is_open(n):
        y = n.op("Slice", y, n.ints(0), e.own, n.ints(1))
    return [y, *present, scores]


def _window(n: Node, before: str, e: _Extents) -> Window | None:
    """Of buffers of a window's length, None of others."""
    if not n.attr("sliding_window_cache"):
        return None
    if n.has("attention_bias"):
        reason = "'attention_bias' with sliding_window_cache is not translated"
        raise n.refuse(reason, "Use buffers of the longest sequence")
    if not n.has("past_key") or _grows(n) or not n.attr("causal"):
        raise n.shape_error("sliding_window_cache is of causal attention with 'past_key'")
    capacity, length = n.shape("past_key")[2], n.attr("local_window_size")
    if not 0 < length <= capacity:
        raise n.shape_error(f"a buffer of {capacity} keys holds no window of {length}")
    total = n.op("Add", n.reshaped(n.cast("seqlens_k", "int64"), e.batch), n.ints(1))
    return Window.of(n, capacity, length, e.batch, before, total)


def _parts(n: Node) -> tuple[str, str, str, _Extents]:
    """Queries, keys and values [batch, steps, heads * size], and all extents."""
    heads, shared = n.attr("num_heads"), n.attr("kv_num_heads")
    batch, steps, columns = n.shape("query", 3)
    _check_open(n)
    if heads < 1 or shared < 1 or heads % shared:
        raise n.shape_error(f"{heads} heads do not share {shared}")
    if n.has("key") != n.has("value"):
        raise n.shape_error("'key' and 'value' come together")
    whole = heads if n.has("key") else heads + 2 * shared
    if columns % whole:
        raise n.shape_error(f"{columns} columns do not divide into {whole} heads")
    size = columns // whole
    for name in ("key", "value"):
        n.need_shape(name, (batch, steps, shared * size))
    n.need_shape("seqlens_k", (batch,), (batch, 1))
    n.need_shape("total_sequence_length", (), (1,))
    if n.has("past_key") != n.has("past_value"):
        raise n.shape_error("'past_key' and 'past_value' come together")
    n.need_shape("query_seqlens", (batch,))
    room = n.shape("past_key", 4)[2] if n.has("past_key") else 0
    for letter, name in zip("kv", ("past_key", "past_value"), strict=True):
        width = numbers_of(n, letter, name, shared, size).width(size)
        n.need_shape(name, (batch, shared, room, width))
    if _grows(n):
        _need_all_lengths(n)
        room += steps
    total = n.const("total_sequence_length")
    known = None if total is None else int(total.reshape(-1)[0])
    if known is not None and known < steps and not _is_open(n):
        raise n.shape_error(f"{steps} new keys make a total length of {known}")
    if n.attr("sliding_window_cache"):
        room, known = room + steps, None  # of the keys before, and the new ones
    room = max(room, steps if known is None else known)
    own = n.op("Gather", n.op("Shape", "query"), n.ints(1)) if _is_open(n) else ""
    e = _Extents(batch, steps, heads, shared, size, own, room, room if known is None else known)
    if n.has("key"):
        return _whole(n, "query", 1), _whole(n, "key", 1), _whole(n, "value", 1), e
    q, k, v = n.split(_whole(n, "query", 1), -1, heads * size, shared * size, shared * size)
    return q, k, v, e


def _is_open(n: Node) -> bool:
    """Whether it is known while the model runs only how many queries and new keys there are."""
    return n.given["query"].extents[1] is not None


def _check_open(n: Node) -> None:
    """Refuse steps of a range that differ between inputs, or with what knows of numbers only."""
    steps = n.given["query"].sizes[1]
    for name in ("key", "value"):
        if n.has(name) and n.given[name].rank == 3 and n.given[name].sizes[1] != steps:
            raise n.refuse(f"'{name}' has other steps than 'query'", "Give one size of both")
    if _is_open(n) and (n.attr("sliding_window_cache") or n.attr("qk_output")):
        raise n.refuse(
            "steps of a range are not translated with sliding_window_cache or qk_output",
            "Give a number of steps",
        )


def _whole(n: Node, name: str, *axes: int) -> str:
    """An input with zeros along axes behind what is there, up to the bounds of their sizes."""
    value = n.given[name]
    open_ = [axis for axis in axes if value.extents[axis] is not None]
    if not open_:
        return name
    own = n.op("Gather", n.op("Shape", name), n.ints(*open_))
    behind = n.op("Sub", n.ints(*(value.shape[axis] for axis in open_)), own)
    none = n.ints(*[0] * len(open_))
    return n.op("Pad", name, n.op("Concat", none, behind, axis=0), "", n.ints(*open_))


def _before(n: Node, e: _Extents) -> str:
    """How many keys each sequence has from earlier calls: int64 [batch]. Of the first call none,
    even where `seqlens_k` says that a sequence is shorter than the others."""
    last = n.reshaped(n.cast("seqlens_k", "int64"), e.batch)
    if n.has("query_seqlens"):  # how many of the new rows are no padding
        total = n.op("Add", last, n.ints(1))
        return n.op("Sub", total, n.cast("query_seqlens", "int64"))
    before = n.op("Sub", last, _last(n, e))
    return n.op("Where", _is_first(n, e), n.ints(0), before)


def _is_first(n: Node, e: _Extents) -> str:
    """Whether there are no keys but the new ones: a scalar."""
    total = n.op("Squeeze", n.cast("total_sequence_length", "int64"))
    steps = n.op("Squeeze", e.own) if _is_open(n) else n.constant(e.steps, "int64")
    return n.op("Equal", total, steps)


def _normalised(n: Node, q: str, k: str, e: _Extents) -> tuple[str, str]:
    """Each head's row by its root mean square, where there are weights of it."""
    if n.has("q_norm_weight") != n.has("k_norm_weight"):
        raise n.shape_error("'q_norm_weight' and 'k_norm_weight' come together")
    if not n.has("q_norm_weight"):
        return q, k
    made = []
    for x, letter, heads in ((q, "q", e.heads), (k, "k", e.shared)):
        n.need_shape(f"{letter}_norm_weight", (e.size,))
        epsilon = n.attr(f"{letter}_norm_epsilon") or n.attr("qk_norm_epsilon")
        rows = n.reshaped(x, e.batch, e.steps, heads, e.size)
        rows = n.op("RMSNormalization", rows, f"{letter}_norm_weight", epsilon=epsilon)
        made.append(n.reshaped(rows, e.batch, e.steps, heads * e.size))
    return made[0], made[1]


def _rotated(n: Node, q: str, k: str, before: str, e: _Extents) -> tuple[str, str]:
    if not n.has("cos_cache") or not n.has("sin_cache"):
        raise n.shape_error("do_rotary needs 'cos_cache' and 'sin_cache'")
    half = n.shape("cos_cache", 2)[1]
    need_caches(n, half)
    if not 0 < 2 * half <= e.size:
        raise n.shape_error(f"{2 * half} elements of a head of {e.size} are not rotated")
    n.need_shape("position_ids", (e.batch, e.steps))
    if n.has("position_ids") and n.has("query_seqlens"):
        positions = n.cast(_whole(n, "position_ids", 1), "int64")
    elif n.has("position_ids"):  # of the first call only the first one counts
        following_first = following(n, n.sliced(n.reshaped("position_ids", -1), 0, 0, 1), e.steps)
        given = n.cast(_whole(n, "position_ids", 1), "int64")
        positions = n.op("Where", _is_first(n, e), following_first, given)
    else:
        numbered = _numbered(n, e)
        positions = n.op("Add", n.unsqueezed(before, 1), numbered)
    width, interleaved = 2 * half % e.size, n.attr("rotary_interleaved")
    turned = [
        rotated(n, x, positions, heads=heads, width=width, interleaved=interleaved)
        for x, heads in ((q, e.heads), (k, e.shared))
    ]
    return turned[0], turned[1]


def _last(n: Node, e: _Extents) -> str:
    """The number of the last of the new rows, int64 [1]."""
    return n.op("Sub", e.own, n.ints(1)) if _is_open(n) else n.ints(e.steps - 1)


def _numbered(n: Node, e: _Extents) -> str:
    """0, 1, ... of the new rows; of those that are not there that of the last one, so that each is
    a place of tables."""
    steps = n.constant(np.arange(e.steps, dtype=np.int64))
    return n.op("Min", steps, _last(n, e)) if _is_open(n) else steps


def _grows(n: Node) -> bool:
    """Whether results have the new keys behind the earlier ones, as many as the model runs with: of
    a range of these, or of new ones, where the total length is that of both."""
    if not n.has("past_key") or n.given["past_key"].rank != 4:
        return False
    return n.given["past_key"].extents[2] is not None or (_is_open(n) and _has_all_lengths(n))


def _has_all_lengths(n: Node) -> bool:
    """Whether the total length is, in each call, that of all keys."""
    total, past = n.given["total_sequence_length"].elements, n.given["past_key"].sizes[2]
    return total is not None and total.reshape(-1)[0] - past == n.given["query"].sizes[1]


def _need_all_lengths(n: Node) -> None:
    """Refuse a total length that is not, for each length of the range, that of all keys."""
    if not _has_all_lengths(n):
        raise n.refuse(
            "'past_key' has a range of lengths, and 'total_sequence_length' is not made of them",
            "Make it the length of 'past_key' and the number of new keys, or give a length",
        )


def _as_long(n: Node, past: str, x: str, e: _Extents) -> str:
    """Of all keys in a buffer of the longest those that are there, where it is not known which."""
    if not _grows(n):
        return x
    length = n.op("Gather", n.op("Shape", past), n.ints(2))
    return n.op("Slice", x, n.ints(0), n.op("Add", length, e.own or n.ints(e.steps)), n.ints(2))


def _behind(n: Node, past: str, new: str, first: str, e: _Extents, numbers: Numbers) -> str:
    """The buffer of earlier keys with the new ones behind those of each sequence."""
    missing = e.room - n.shape(past)[2]
    if _grows(n):
        empty = np.zeros((e.batch, e.shared, e.room, numbers.width(e.size)))
        longer = n.op("Concat", past, n.constant(empty, n.dtype(past)), axis=2)
        past = n.sliced(longer, 2, 0, e.room)
    elif missing:
        past = n.op("Pad", past, n.ints(0, missing), "", n.ints(2))
    if not _is_open(n) or _grows(n):
        return n.op("TensorScatter", past, new, first, axis=2)
    # what is not there is written, too, and may be beyond the end of the buffer
    longer = n.op("Pad", past, n.ints(0, e.steps), "", n.ints(2))
    return n.sliced(n.op("TensorScatter", longer, new, first, axis=2), 2, 0, e.room)


@dataclass(frozen=True)
class _Part:
    """Keys `first` to `end`; needed: a scalar, whether any of them counts; "" where they do."""

    first: int
    end: int
    needed: str = ""

    def chosen(self, n: Node, x: str, other: float, dtype: str) -> str:
        """`x`, which is not computed where none of the keys counts."""
        return n.op("Where", self.needed, x, n.constant(other, dtype)) if self.needed else x


def _parts_of_keys(n: Node, before: str, e: _Extents) -> list[_Part]:
    """Buffers in parts, so that the time that a call takes goes with the keys that there are."""
    length = max(_LEAST_PART, -(-e.seen // _PARTS))
    if not n.has("past_key") or n.attr("qk_output") or e.seen <= length:
        return [_Part(0, e.seen)]
    most = n.op("ReduceMax", before, keepdims=0)
    steps = n.op("Squeeze", _last(n, e)) if _is_open(n) else n.constant(e.steps - 1)
    last = n.op("Add", most, steps)
    return [
        _Part(
            first,
            min(first + length, e.seen),
            n.op("GreaterOrEqual", last, n.constant(first)) if first else "",
        )
        for first in range(0, e.seen, length)
    ]


def _attend(n: Node, q: str, k: str, v: str, before: str, e: _Extents) -> tuple[str, str | None]:
    """The result, and the products as result 3 has them. Heads that share keys are rows of one
    product: row r of [batch, shared, rows, seen] is step r % steps of head r // steps.
    """
    group, dtype = e.heads // e.shared, n.dtype("query")
    q = n.transposed(n.reshaped(q, e.batch, e.steps, e.shared, group, e.size), 0, 2, 3, 1, 4)
    q = n.reshaped(q, e.batch, e.shared, group * e.steps, e.size)
    bias = _bias(n, e) if n.has("attention_bias") else ""
    parts = _parts_of_keys(n, before, e)
    scores, masked = [], []
    for part in parts:
        scores.append(_scores(n, q, k, bias, part, e))
        counted = _counted(n, before, part, e)
        those = n.op("Where", counted, scores[-1], n.constant(-np.inf, dtype))
        masked.append(part.chosen(n, those, -np.inf, dtype))
    weights = _softmax(n, n.op("Concat", *masked, axis=3), e, dtype)
    mixed = [
        part.chosen(n, n.op("MatMul", _of(n, part, weights, 3, e), _of(n, part, v, 2, e)), 0, dtype)
        for part in parts
    ]
    apart = n.reshaped(n.add(*mixed), e.batch, e.shared, group, e.steps, e.size)
    flat = n.transposed(apart, 0, 3, 1, 2, 4)
    wanted = {1: scores[0], 2: weights}.get(n.attr("qk_output"))  # of all keys at once
    if wanted is not None:
        wanted = n.reshaped(wanted, e.batch, e.heads, e.steps, e.seen)
    return n.reshaped(flat, e.batch, e.steps, e.heads * e.size), wanted


def _of(n: Node, part: _Part, x: str, axis: int, e: _Extents) -> str:
    """What belongs to the keys of a part of what has an axis of all of them."""
    return x if part.end - part.first == e.seen else n.sliced(x, axis, part.first, part.end)


def _scores(n: Node, q: str, k: str, bias: str, part: _Part, e: _Extents) -> str:
    """The products of queries and keys, scaled, in their bounds and with their bias."""
    dtype, keys = n.dtype("query"), n.transposed(_of(n, part, k, 2, e), 0, 1, 3, 2)
    scores = n.scaled(n.op("MatMul", q, keys), scale_of(n, e.size), dtype)
    if n.attr("softcap") > 0:
        cap = n.constant(n.attr("softcap"), dtype)
        scores = n.op("Mul", n.op("Tanh", n.op("Div", scores, cap)), cap)
    return n.op("Add", scores, _of(n, part, bias, 3, e)) if bias else scores


def _bias(n: Node, e: _Extents) -> str:
    """The input attention_bias, for all keys and the rows of heads that share keys."""
    batch, heads, steps, seen = n.shape("attention_bias", 4)
    n.need_broadcast("attention_bias", (e.batch, e.heads, e.steps, e.seen))
    group, bias = e.heads // e.shared, _whole(n, "attention_bias", 2, 3)
    if heads == 1 or steps != e.steps or seen != e.seen:
        rows = group if heads == 1 else heads
        bias = n.op("Expand", bias, n.ints(batch, rows, e.steps, e.seen))
    return n.reshaped(bias, batch, 1 if heads == 1 else e.shared, group * e.steps, e.seen)


def _counted(n: Node, before: str, part: _Part, e: _Extents) -> str:
    """Which keys of a part a row sees, [batch, 1, rows, keys]: those up to its own, of them those
    in the window; all of the sequence where attention is not causal.
    """
    places = n.constant(np.arange(part.first, part.end, dtype=np.int64))
    if not n.attr("causal"):
        ends = n.reshaped(n.cast("seqlens_k", "int64"), e.batch, 1, 1, 1)
        return n.op("LessOrEqual", places, ends)
    steps = np.tile(np.arange(e.steps, dtype=np.int64), e.heads // e.shared)[:, None]
    own = n.op("Add", n.reshaped(before, e.batch, 1, 1, 1), n.constant(steps))
    seen = n.op("LessOrEqual", places, own)
    window = n.attr("local_window_size")
    if window < 0:
        return seen
    near = n.op("Greater", places, n.op("Sub", own, n.constant(window, "int64")))
    return n.op("And", seen, near)


def _softmax(n: Node, x: str, e: _Extents, dtype: str) -> str:
    """Of rows; with a sink beside the keys, whose share is left out."""
    if not n.has("head_sink") and n.attr("smooth_softmax") <= 0:
        return n.op("Softmax", x, axis=-1)
    n.need_shape("head_sink", (e.heads,))
    sink = n.constant(0, dtype)
    if n.has("head_sink"):
        apart = n.reshaped("head_sink", 1, e.shared, e.heads // e.shared, 1)
        spread = n.op("Expand", apart, n.ints(1, e.shared, e.heads // e.shared, e.steps))
        sink = n.reshaped(spread, 1, e.shared, -1, 1)
    most = n.op("Max", n.op("ReduceMax", x, n.ints(-1)), sink)
    shares = n.op("Exp", n.op("Sub", x, most))
    total = n.op("ReduceSum", shares, n.ints(-1))
    return n.op("Div", shares, n.op("Add", total, n.op("Exp", n.op("Sub", sink, most))))
