"""Products with weights of a few bits, which stay in words (`few_bits`) while the model runs.

A step of the sum takes one word of each column apart and adds its numbers, times the activations
that meet them, to -zero times the sum of these activations; the whole times the scale of the block
is added to the result. So zero points and scales cost a word one operation each, and not a number.
Rounded to f32: each addition of a product within a word (a fused multiply-add), the product with
the scale, and the sum of words.
"""

from __future__ import annotations

import numpy as np

from rcompiler.frontend.body import Body
from rcompiler.frontend.builder import Builder, Value
from rcompiler.frontend.few_bits import LANES, WORD, BlockWeights, in_panels
from rcompiler.frontend.scalar import Scalar

_PANEL = f"d1 floordiv {LANES}"
_LANE = f"d1 mod {LANES}"


def times_weights(b: Builder, a: Value, weights: BlockWeights) -> Value:
    """``a @ weights`` for a [.., depth], in the type of ``a``."""
    if suits_words(a, weights):
        return times_words(b, a, weights)
    return b.matmul(a, b.constant(weights.dense(), a.dtype), a.dtype)


def suits_words(a: Value, weights: BlockWeights) -> bool:
    """Whether a product reads words: of few rows, and then it takes as long as memory does. Each
    row of more would have to take the words apart again (measured: f32 is faster from 9 rows on
    with 4 bits, and from 6 on with 8 bits).
    """
    return weights.fills_words and 0 < a.size <= weights.per_word * weights.depth


def times_words(b: Builder, a: Value, weights: BlockWeights) -> Value:
    """``a @ weights`` for a [.., depth], in the type of ``a``."""
    rows = a.size // weights.depth
    x = b.cast(b.reshape(a, [rows, weights.depth]), "float32")
    x = b.pad(x, [0, 0], [0, weights.padded - weights.depth], 0)
    x = b.reshape(x, [rows, *weights.word_shape])
    zeros = weights.zeros
    sums = b.sum(x, [3], of_sum=None if isinstance(zeros, np.ndarray) else lambda s, v: v * -zeros)
    shared = b.elementwise(lambda s, v, share: v * share, x, b.constant(weights.shares()))
    reads = [
        (b.constant(weights.words()), f"{_PANEL}, d2, d3, {_LANE}"),
        (b.constant(in_panels(weights.scales)), f"{_PANEL}, d2, {_LANE}"),
        (sums, "d0, d2, d3"),
    ]
    if isinstance(zeros, np.ndarray):
        reads.append((b.constant(in_panels(-zeros)), f"{_PANEL}, d2, {_LANE}"))
    reads += [(shared, f"d0, d2, d3, {i}") for i in range(weights.per_word)]

    def step(s: Body, word: Scalar, scale: Scalar, total: Scalar, *rest: Scalar) -> Scalar:
        *factors, acc = rest
        if isinstance(zeros, np.ndarray):
            zero, *factors = factors
            total = total * zero
        for number, factor in zip(_numbers(s, word, weights), factors, strict=True):
            total = s.fma(number, factor, total)
        return acc + total * scale

    out = b.fold(reads, [rows, weights.columns], "float32", 0, "pprr", step)
    return b.cast(b.reshape(out, [*a.shape[:-1], weights.columns]), a.dtype)


def _numbers(s: Body, word: Scalar, weights: BlockWeights) -> list[Scalar]:
    """The numbers of a word as f32, each but the last where it is in the word."""
    apart = [word & mask for mask in weights.masks()]
    apart.append(s.shift_right(word, WORD - weights.bits))
    return [s.convert("arith.sitofp", number, "float32") for number in apart]
