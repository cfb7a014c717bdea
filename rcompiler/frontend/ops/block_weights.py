"""Weights of a few bits in blocks: MatMulNBits of onnxruntime (domain com.microsoft)."""

from __future__ import annotations

import numpy as np

from rcompiler.frontend.builder import Value
from rcompiler.frontend.contrib import DOMAIN
from rcompiler.frontend.few_bits import BITS, BlockWeights, unpacked
from rcompiler.frontend.ops.word_products import times_weights
from rcompiler.frontend.registry import Context, lowering


@lowering("MatMulNBits", domain=DOMAIN)
def _matmul_nbits(ctx: Context) -> Value:
    """``a @ ((q - zero) * scale).T + bias`` for packed constants q [columns, blocks, bytes] with a
    scale for each block of the depth, and a zero point that is 2^(bits - 1) where none is given.
    """
    a, packed, scales = (ctx.input(i) for i in range(3))
    zeros, order, bias = (ctx.optional(i) for i in (3, 4, 5))
    depth, columns = ctx.attr("K", 0), ctx.attr("N", 0)
    bits, block = ctx.attr("bits", 4), ctx.attr("block_size", 0)
    if bits not in BITS or block < 1 or block * bits % 8:
        raise ctx.refuse(
            f"weights of {bits} bits in blocks of {block} are not translated",
            "Use 2, 4 or 8 bits, and blocks that are whole bytes",
        )
    if order is not None:
        raise ctx.refuse(
            "blocks in an order of their own (g_idx) are not translated", "Leave it out"
        )
    known = [v.const is not None for v in (packed, scales, *([zeros] if zeros else []))]
    if not all(known):
        raise ctx.refuse("weights that are no constants are not translated", "Make them constants")
    blocks = -(-depth // block)
    if packed.size != columns * blocks * block * bits // 8 or scales.size != columns * blocks:
        raise ctx.shape_error(
            f"{columns} columns of {blocks} blocks of {block} need as many weights and scales"
        )
    if a.shape[-1:] != (depth,):
        raise ctx.shape_error(f"the last axis of the input must be K, {depth}")
    weights = BlockWeights(
        bits,
        depth,
        unpacked(packed.array.reshape(columns, blocks, -1), bits),
        scales.array.astype(np.float32).reshape(columns, blocks),
        _zero_points(ctx, zeros, (columns, blocks), bits),
    )
    if a.size and weights.fills_words:
        out = times_weights(ctx.b, a, weights)
    else:
        out = ctx.b.matmul(a, ctx.b.constant(weights.dense(), a.dtype), a.dtype)
    return out if bias is None else ctx.b.elementwise(lambda s, x, y: x + y, out, bias)


def _zero_points(
    ctx: Context, zeros: Value | None, shape: tuple[int, int], bits: int
) -> np.ndarray | float:
    """f32 [columns, blocks]: packed like the weights, or numbers of the type of the input."""
    if zeros is None:
        return float(1 << (bits - 1))
    columns, blocks = shape
    array = zeros.array
    if zeros.dtype == "uint8":
        if array.size != columns * -(-blocks * bits // 8):
            raise ctx.shape_error(f"{blocks} packed zero points a column are expected")
        array = unpacked(array.reshape(columns, -1), bits)[:, :blocks]
    if array.size != columns * blocks:
        raise ctx.shape_error("one zero point for each block is expected")
    return array.astype(np.float32).reshape(columns, blocks)
