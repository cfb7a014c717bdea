"""Products of floats with dequantised weights, which stay in words while the model runs.

    x @ ((q - zero) * scale)

for constant q of 2, 4 or 8 bits, with one scale, one for each column, or one for each block of a
column (DequantizeLinear with block_size). What does not suit is multiplied as floats.
"""

from __future__ import annotations

import numpy as np

from rcompiler.frontend import dtypes
from rcompiler.frontend.builder import Quantised, Value
from rcompiler.frontend.few_bits import WORD, BlockWeights, in_blocks
from rcompiler.frontend.ops.word_products import times_weights
from rcompiler.frontend.registry import Context

_PART = 1024  # steps of the depth, at most, of one scale
_BITS = {"int2": 2, "uint2": 2, "int4": 4, "uint4": 4, "int8": 8, "uint8": 8}


def weight_only_matmul(ctx: Context, a: Value, w: Value, *, by_rows: bool = False) -> Value | None:
    """``a @ w`` (``a @ w.T`` if ``by_rows``) on the numbers that ``w`` was dequantised from; None
    where it is better multiplied as it is.
    """
    made = w.quantised
    if made is None or w.rank != 2 or not a.rank or a.dtype == "float64" or a.dtype != w.dtype:
        return None
    weights = _weights(made, 1 if by_rows else 0)
    if weights is None or not weights.fills_words or not a.size:
        return None
    return times_weights(ctx.b, a, weights)


def _weights(made: Quantised, depth: int) -> BlockWeights | None:
    """The constants that weights were made of; depth: their axis that is summed over."""
    bits = _BITS.get(made.value.dtype)
    axis_fits = made.axis == depth if made.block else made.axis in (None, 1 - depth)
    if bits is None or not axis_fits or not made.value.size:
        return None
    parts = [made.value, made.scale, *([] if made.zero is None else [made.zero])]
    if any(part.const is None for part in parts):
        return None
    numbers = _by_columns(made.value, depth)
    extent, per_word = numbers.shape[1], WORD // bits
    block = made.block or _equal_parts(extent, per_word)
    blocks = -(-extent // block)
    unsigned = 1 << bits - 1 if dtypes.is_signed(made.value.dtype) else 0
    scales = _spread(made, made.scale, depth, (len(numbers), blocks))
    zeros = 0.0 if made.zero is None else _spread(made, made.zero, depth, scales.shape)
    return BlockWeights(
        bits,
        extent,
        in_blocks((numbers.astype(np.int16) + unsigned).astype(np.uint8), block),
        scales,
        _one_if_equal(np.asarray(zeros + np.float32(unsigned), np.float32)),
    )


def _equal_parts(extent: int, per_word: int) -> int:
    """Blocks of whole words for a depth whose scales do not change along it."""
    share = -(-extent // -(-extent // _PART))
    return -(-share // per_word) * per_word


def _by_columns(value: Value, depth: int) -> np.ndarray:
    """[columns, depth] or [columns, blocks]: the axis of the depth last."""
    stored = dtypes.to_storage(value.array, value.dtype)
    return np.moveaxis(stored, depth, -1)


def _spread(made: Quantised, value: Value, depth: int, shape: tuple[int, int]) -> np.ndarray:
    """f32 [columns, blocks] of scales or zero points."""
    if made.block:
        return np.ascontiguousarray(_by_columns(value, depth).astype(np.float32))
    array = dtypes.to_storage(value.array, value.dtype).astype(np.float32)
    return np.ascontiguousarray(np.broadcast_to(array.reshape(-1, 1), shape))


def _one_if_equal(zeros: np.ndarray) -> np.ndarray | float:
    """One number for zero points that are all the same."""
    first = float(zeros.reshape(-1)[0])
    return first if bool((zeros == first).all()) else zeros
