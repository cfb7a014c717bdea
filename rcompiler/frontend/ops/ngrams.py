"""TfIdfVectorizer on numbers: how often each n-gram of a pool occurs in a row."""

from __future__ import annotations

import numpy as np

from rcompiler.frontend import load
from rcompiler.frontend.body import Body
from rcompiler.frontend.builder import Value
from rcompiler.frontend.ops.gather import take
from rcompiler.frontend.registry import Context, lowering
from rcompiler.frontend.scalar import Scalar

MAX_PASSES = 1024  # over a row: one per length of n-gram and number of skipped elements


@lowering("TfIdfVectorizer")
def _tf_idf_vectorizer(ctx: Context) -> Value:
    """[C] or [B, C] integers to [size] or [B, size] f32.

    An n-gram occurs wherever its numbers stand at equal distances of 1 to ``max_skip_count`` + 1.
    Element ``ngram_indexes[i]`` of the result counts the i-th n-gram of the pool. ``weights`` are
    those of the result's elements, as in ONNX's reference.
    """
    b, x = ctx.b, ctx.input(0)
    if ctx.attr("pool_strings"):
        raise ctx.refuse(*load.untranslated("string")[:2])
    if x.rank > 2 or x.dtype not in ("int32", "int64"):
        raise ctx.shape_error("the input is [C] or [B, C] of int32 or int64")
    rows, columns = [1, x.size] if x.rank < 2 else x.shape
    places = np.array(ctx.attr("ngram_indexes"), np.int64)
    if not places.size or places.min() < 0 or np.unique(places).size < places.size:
        raise ctx.shape_error("ngram_indexes are different and not negative")
    size = int(places.max()) + 1
    ctx.check_size([rows, size], "float32")
    row = b.cast(b.reshape(x, [rows, columns]), "int64")
    found, order = [b.splat([rows, 1], "float32", 0)], np.zeros(size, np.int64)
    made = 1
    for grams, first in _selected(ctx, columns):
        found.append(_counted(ctx, row, grams))
        order[places[first : first + len(grams)]] = np.arange(made, made + len(grams))
        made += len(grams)
    counts = take(ctx, b.concat(found, 1), b.constant(order), 1)
    return b.reshape(_weighted(ctx, counts), [size] if x.rank < 2 else [rows, size])


def _selected(ctx: Context, columns: int) -> list[tuple[np.ndarray, int]]:
    """([count, n] n-grams, number of the first) per length n that is looked for."""
    pool = np.array(ctx.attr("pool_int64s", []), np.int64)
    low, high = ctx.attr("min_gram_length"), ctx.attr("max_gram_length")
    starts, skips = ctx.attr("ngram_counts"), ctx.attr("max_skip_count")
    bounds = [*starts, pool.size]
    lengths = [b - a for a, b in zip(bounds[:-1], bounds[1:], strict=True)]
    whole = all(k >= 0 and k % n == 0 for n, k in enumerate(lengths, 1))
    if not (1 <= low <= high and skips >= 0 and starts and starts[0] == 0 and whole):
        raise ctx.shape_error("lengths, skips or the bounds of the pool do not fit together")
    if (min(skips, columns) + 1) * min(high, len(starts)) > MAX_PASSES:
        raise ctx.refuse(f"max_skip_count {skips} is too large", "Skip fewer elements")
    out, first = [], 0
    for n, (start, length) in enumerate(zip(starts, lengths, strict=True), 1):
        if low <= n <= high and length:
            out.append((pool[start : start + length].reshape(-1, n), first))
        first += length // n
    if first != len(ctx.attr("ngram_indexes")):
        raise ctx.shape_error(f"the pool holds {first} n-grams, ngram_indexes are others")
    return out


def _counted(ctx: Context, row: Value, grams: np.ndarray) -> Value:
    """[rows, count] occurrences of n-grams of one length."""
    b, (rows, columns), (count, n) = ctx.b, row.shape, grams.shape
    numbers = [(b.constant(np.ascontiguousarray(grams[:, i])), "d1") for i in range(n)]
    total = b.fill([rows, count], "float32", 0)

    def body(s: Body, *args: Scalar) -> Scalar:
        hit = args[0].eq(args[n])
        for i in range(1, n):
            hit = hit & args[i].eq(args[n + i])
        return args[-1] + s.select(hit, s.const(1, "float32"), s.const(0, "float32"))

    for distance in range(1, ctx.attr("max_skip_count") + 2 if n > 1 else 2):
        length = columns - (n - 1) * distance
        if length < 1:
            break
        windows = [(b.slice(row, [0, i * distance], [rows, length]), "d0, d2") for i in range(n)]
        (total,) = b.generic([*windows, *numbers], [(total, "d0, d1")], "ppr", body)
    return total


def _weighted(ctx: Context, counts: Value) -> Value:
    """Counts (TF), presence (IDF) or counts (TFIDF), the latter two times the weights."""
    b, mode, weights = ctx.b, ctx.attr("mode"), ctx.attr("weights", [])
    if mode not in ("TF", "IDF", "TFIDF") or (weights and len(weights) != counts.shape[1]):
        raise ctx.shape_error(f"mode {mode} with {len(weights)} weights")
    if mode == "IDF":
        counts = b.elementwise(lambda s, c: s.minimum(c, s.const(1, c.dtype)), counts)
    if mode == "TF" or not weights:
        return counts
    return b.elementwise(lambda s, c, w: c * w, counts, b.constant(np.array(weights, np.float32)))
