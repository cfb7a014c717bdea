"""Numbers of tokens: n-grams that do not repeat, and what they are hashed to."""

from __future__ import annotations

from .node import Node, Result, operator


@operator("NGramRepeatBlock", "input_ids:I scores:T", ngram_size=int)
def _no_repeat(n: Node) -> Result:
    """Scores, -inf for tokens that would complete an n-gram which is there already."""
    (batch, steps), (_, words) = n.shape("input_ids", 2), n.shape("scores", 2)
    n.need_shape("scores", (batch, words))
    size = n.attr("ngram_size")
    if size < 1:
        raise n.shape_error(f"ngram_size is {size}")
    grams = steps - size + 1
    if grams < 1:
        return n.op("Identity", "scores")
    ends = n.sliced("input_ids", 1, size - 1, steps)
    kind = n.dtype("scores")
    barred = n.constant(float("-inf"), kind)
    for place in range(size - 1):
        seen = n.sliced("input_ids", 1, place, place + grams)
        last = n.sliced("input_ids", 1, grams + place, grams + place + 1)
        free = n.constant(float("inf"), kind)
        barred = n.op("Where", n.op("Equal", seen, last), barred, free)
    if size == 1:
        barred = n.op("Expand", barred, n.ints(batch, grams))
    return n.op("ScatterElements", "scores", ends, barred, axis=1, reduction="min")


@operator(
    "NGramHashMapping",
    "input_ids:I multipliers:I vocab_sizes:I past_ids:I? head_offsets:I? eos_token_id:I?",
    outputs=2,
    max_ngram_size=int,
    n_head_per_ngram=int,
    pad_id=int,
    reset_on_eos=0,
)
def _hashes(n: Node) -> Result:
    """For each n-gram that ends at a token, and each head of that length, a row of a table; result
    1 is what the next call has before its first token. Not with segments, nor with a reset."""
    if n.attr("reset_on_eos"):
        raise n.refuse("reset_on_eos is not translated", "Call the model for each sequence")
    most, heads, kind = n.attr("max_ngram_size"), n.attr("n_head_per_ngram"), n.dtype("input_ids")
    batch, steps = n.shape("input_ids", 2)
    if most < 2 or heads < 1 or n.shape("multipliers", 1)[0] < most:
        raise n.shape_error("max_ngram_size, n_head_per_ngram and multipliers do not fit")
    n.need_shape("vocab_sizes", ((most - 1) * heads,))
    n.need_shape("head_offsets", ((most - 1) * heads,))
    n.need_shape("past_ids", (batch, most - 1))
    if n.has("past_ids"):
        past = "past_ids"
    else:
        pad = n.constant(n.attr("pad_id"), kind)
        pad = n.reshaped("eos_token_id") if n.has("eos_token_id") else pad
        past = n.op("Expand", pad, n.ints(batch, most - 1))
    ids = n.op("Concat", past, "input_ids", axis=1)
    mixed, rows = "", []
    for back in range(most):
        shifted = n.sliced(ids, 1, most - 1 - back, most - 1 - back + steps)
        product = n.op("Mul", shifted, n.sliced("multipliers", 0, back, back + 1))
        mixed = n.op("BitwiseXor", mixed, product) if mixed else product
        if back:
            first = (back - 1) * heads
            sizes = n.sliced("vocab_sizes", 0, first, first + heads)
            rows.append(n.op("Mod", n.unsqueezed(mixed, 2), sizes))
    made = n.add(n.op("Concat", *rows, axis=2), "head_offsets")
    return [made, n.sliced(ids, 1, steps, steps + most - 1)]


_FACTORS = (0xCC9E2D51, 0x1B873593)
_ENDS = ((16, 0x85EBCA6B), (13, 0xC2B2AE35), (16, 1))


@operator("MurmurHash3", "X:Q", positive=1, seed=0)
def _murmur(n: Node) -> Result:
    """MurmurHash3_x86_32 of the bytes of each integer of 32 or 64 bits."""
    kind = n.dtype("X")
    if kind not in ("int32", "uint32", "int64", "uint64"):
        raise n.refuse(f"a hash of {kind} is not translated", "Cast it to int32 or int64")
    whole = n.cast("X", "uint64" if kind.endswith("64") else "uint32")
    words = [n.cast(whole, "uint32")]
    if kind.endswith("64"):
        upper = n.op("BitShift", whole, n.constant(32, "uint64"), direction="RIGHT")
        words.append(n.cast(upper, "uint32"))
    made = n.constant(n.attr("seed") % (1 << 32), "uint32")
    for word in words:
        word = _rotated(n, n.op("Mul", word, n.constant(_FACTORS[0], "uint32")), 15)
        word = n.op("Mul", word, n.constant(_FACTORS[1], "uint32"))
        made = _rotated(n, n.op("BitwiseXor", made, word), 13)
        made = n.op("Mul", made, n.constant(5, "uint32"))
        made = n.op("Add", made, n.constant(0xE6546B64, "uint32"))
    made = n.op("BitwiseXor", made, n.constant(4 * len(words), "uint32"))
    for shift, factor in _ENDS:
        shifted = n.op("BitShift", made, n.constant(shift, "uint32"), direction="RIGHT")
        made = n.op("BitwiseXor", made, shifted)
        made = n.op("Mul", made, n.constant(factor, "uint32"))
    return made if n.attr("positive") else n.cast(made, "int32")


def _rotated(n: Node, x: str, bits: int) -> str:
    """uint32 with its bits turned to the left."""
    left = n.op("BitShift", x, n.constant(bits, "uint32"), direction="LEFT")
    right = n.op("BitShift", x, n.constant(32 - bits, "uint32"), direction="RIGHT")
    return n.op("BitwiseOr", left, right)
