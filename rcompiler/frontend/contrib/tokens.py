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
