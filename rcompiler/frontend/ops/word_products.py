"""Products with weights of a few bits, which stay in words (`few_bits`) while the model runs.

With few rows, a step of the sum takes one word of each column apart. It adds its numbers, times the
activations that meet them, to -zero times the sum of these activations, and adds the whole times
the scale of the block to the result: zero points and scales cost a word one operation each, and not
a number. Rounded to f32: each addition of a product within a word (a fused multiply-add), the
product with the scale, and the sum of words.

With more rows, words become weights of f32, rounded after the subtraction and the product. The
weights of a task's columns stay on chip (rtask-stitch), so of a long depth a part at a time.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rcompiler.frontend.body import Body
from rcompiler.frontend.builder import Builder, Value
from rcompiler.frontend.few_bits import LANES, WORD, BlockWeights, in_panels
from rcompiler.frontend.scalar import Scalar

# Rows, as a multiple of the numbers of a word, up to which it is taken apart anew for a few rows at
# a time: 16 rows with 4 bits, 8 with 8. Measured with AVX-512 on 2048x2048: either is as fast then.
_FEW = 2
# Steps of the depth whose weights a task keeps: a vector register or four of columns take 128 to
# 512 KiB. A choice for every device: it decides in which order is added.
_PART = 2048


def times_weights(b: Builder, a: Value, weights: BlockWeights) -> Value:
    """``a @ weights`` for a [.., depth] and blocks of whole words, in the type of ``a``."""
    rows = a.size // weights.depth
    x = b.cast(b.reshape(a, [rows, weights.depth]), "float32")
    x = b.pad(x, [0, 0], [0, weights.padded - weights.depth], 0)
    x = b.reshape(x, [rows, *weights.word_shape])
    few = rows <= _FEW * weights.per_word
    out = _times_words(b, x, weights) if few else _times_unpacked(b, x, weights)
    return b.cast(b.reshape(out, [*a.shape[:-1], weights.columns]), a.dtype)


def _constants(
    b: Builder, weights: BlockWeights, column: str, inside: Sequence[str]
) -> list[tuple[Value, str]]:
    """Words and scales, and zero points that are not all the same, as a body reads them. column,
    inside: the loops over columns, and over blocks and words.
    """
    panel, lane = f"{column} floordiv {LANES}", f"{column} mod {LANES}"
    block, word = inside
    reads = [
        (b.constant(weights.words()), f"{panel}, {block}, {word}, {lane}"),
        (b.constant(in_panels(weights.scales)), f"{panel}, {block}, {lane}"),
    ]
    if isinstance(weights.zeros, np.ndarray):
        reads.append((b.constant(in_panels(weights.zeros)), f"{panel}, {block}, {lane}"))
    return reads


def _times_words(b: Builder, x: Value, weights: BlockWeights) -> Value:
    """f32 [rows, columns] of x [rows, blocks, words, numbers of a word]."""
    zeros = weights.zeros
    by_block = isinstance(zeros, np.ndarray)
    sums = b.sum(x, [3], of_sum=lambda s, v: -v if by_block else v * -zeros)
    shared = b.elementwise(lambda s, v, share: v * share, x, b.constant(weights.shares()))
    reads = _constants(b, weights, "d1", ("d2", "d3"))
    count = len(reads)
    reads += [(shared, f"d0, d2, d3, {i}") for i in range(weights.per_word)]
    reads.append((sums, "d0, d2, d3"))

    def step(s: Body, *scalars: Scalar) -> Scalar:
        word, scale, *zero = scalars[:count]
        *factors, total, acc = scalars[count:]
        if zero:
            total = total * zero[0]
        for number, factor in zip(_numbers(s, word, weights), factors, strict=True):
            total = s.fma(number, factor, total)
        return acc + total * scale

    return b.fold(reads, [x.shape[0], weights.columns], "float32", 0, "pprr", step)


def _numbers(s: Body, word: Scalar, weights: BlockWeights) -> list[Scalar]:
    """The numbers of a word as f32, each but the last where it is in the word."""
    apart = [word & mask for mask in weights.masks()]
    apart.append(s.shift_right(word, WORD - weights.bits))
    return [s.convert("arith.sitofp", number, "float32") for number in apart]


def _times_unpacked(b: Builder, x: Value, weights: BlockWeights) -> Value:
    """f32 [rows, columns] of x [rows, blocks, words, numbers of a word]."""
    blocks, most = x.shape[1], max(_PART // weights.block, 1)
    total: Value | None = None
    for first in range(0, blocks, most):
        part = weights.part(first, min(first + most, blocks))
        product = b.contract(
            (b.slice_along(x, 1, first, part.word_shape[0]), "d0, d2, d3, d4"),
            (_unpacked(b, part), "d2, d3, d4, d1"),
            ((x.shape[0], weights.columns), "d0, d1"),
            "pprrr",
        )
        total = product if total is None else b.elementwise(lambda s, v, w: v + w, total, product)
    assert total is not None  # there is a block
    return total


def _unpacked(b: Builder, weights: BlockWeights) -> Value:
    """f32 [blocks, words, numbers of a word, columns], made at run time."""

    def real(s: Body, word: Scalar, scale: Scalar, *zero: Scalar) -> Scalar:
        shift = s.cast(s.index(2) * weights.bits, "uint32")
        number = s.shift_right(word, shift) & ((1 << weights.bits) - 1)
        number = s.convert("arith.sitofp", number, "float32")
        return (number - (zero[0] if zero else weights.zeros)) * scale

    shape = [*weights.word_shape, weights.columns]
    return b.tabulate(shape, "float32", real, *_constants(b, weights, "d3", ("d0", "d1")))
