"""Weights of a few bits in blocks: MatMulNBits and MatMulBnb4 of onnxruntime's domain."""

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
    _need_known(ctx)
    if bits not in BITS or block < 1 or block * bits % 8:
        raise ctx.refuse(
            f"weights of {bits} bits in blocks of {block} are not translated",
            "Use 2, 4 or 8 bits, and blocks that are whole bytes",
        )
    given = [v for v in (packed, scales, zeros, order) if v is not None]
    if any(v.const is None for v in given):
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
    if order is not None:
        out = ctx.b.matmul(a, _in_order(ctx, weights, order.array), a.dtype)
    elif a.size and weights.fills_words:
        out = times_weights(ctx.b, a, weights)
    else:
        out = ctx.b.matmul(a, ctx.b.constant(weights.dense(), a.dtype), a.dtype)
    return out if bias is None else ctx.b.elementwise(lambda s, x, y: x + y, out, bias)


def _need_known(ctx: Context) -> None:
    """Refuses attributes that say that the bytes are in another layout, and those of no version."""
    known = {"K", "N", "bits", "block_size", "accuracy_level", "weight_prepacked"}
    for name in sorted(ctx.attributes.keys() - known):
        raise ctx.refuse(f"attribute '{name}' is not translated", "Leave it out")
    if ctx.attr("weight_prepacked", 0):
        remedy = "Save the model with weights that are not packed for one device"
        raise ctx.refuse("weights that are packed for one device are not translated", remedy)


def _in_order(ctx: Context, weights: BlockWeights, blocks: np.ndarray) -> Value:
    """The weights [depth, columns] where `blocks` says of each row which block's scale and zero
    point it has.
    """
    count = weights.scales.shape[1]
    if len(blocks.reshape(-1)) < weights.depth:
        raise ctx.shape_error(f"g_idx has {blocks.size} numbers for a depth of {weights.depth}")
    of_row = blocks.reshape(-1)[: weights.depth].astype(np.int64)
    if ((of_row < 0) | (of_row >= count)).any():
        raise ctx.shape_error(f"g_idx names a block that is none of {count}")
    columns = len(weights.scales)
    numbers = weights.numbers.reshape(columns, -1)[:, : weights.depth].astype(np.float32)
    zeros = np.broadcast_to(np.asarray(weights.zeros, np.float32), weights.scales.shape)
    dense = (numbers - zeros[:, of_row]) * weights.scales[:, of_row]
    return ctx.b.constant(np.ascontiguousarray(dense.T), ctx.input(0).dtype)


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


# What four bits stand for: FP4 and NF4 of bitsandbytes.
_FP4 = (0.0, 0.0052083333, 0.66666667, 1.0, 0.33333333, 0.5, 0.16666667, 0.25)
_NF4 = (
    *(-1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453),
    *(-0.28444138169288635, -0.18477343022823334, -0.09105003625154495, 0.0),
    *(0.07958029955625534, 0.16093020141124725, 0.24611230194568634, 0.33791524171829224),
    *(0.44070982933044434, 0.5626170039176941, 0.7229568362236023, 1.0),
)
_TABLES = {0: (*_FP4, *(-x for x in _FP4)), 1: _NF4}


@lowering("MatMulBnb4", domain=DOMAIN)
def _matmul_bnb4(ctx: Context) -> Value:
    """``a @ w.T``, or ``a @ w``, for a constant w [N, K], of which four bits each say a number of a
    table, which is multiplied by the largest of its block.
    """
    a, packed, largest = (ctx.input(i) for i in range(3))
    depth, columns, block = (ctx.attr(name, 0) for name in ("K", "N", "block_size"))
    table = _TABLES.get(ctx.attr("quant_type", -1))
    if table is None or block < 1:
        raise ctx.refuse("this quant_type is not translated", "Use 0 (FP4) or 1 (NF4)")
    if packed.const is None or largest.const is None:
        raise ctx.refuse("weights that are no constants are not translated", "Make them constants")
    count, turned = depth * columns, ctx.attr("transB", 1)
    if packed.size != -(-count // 2) or largest.size != -(-count // block):
        raise ctx.shape_error(f"{columns} columns of {depth} weights need as many bytes and scales")
    if a.shape[-1:] != (depth if turned else columns,):
        raise ctx.shape_error(f"the last axis of the input must be {depth if turned else columns}")
    bits = packed.array.reshape(-1)
    numbers = np.stack([bits >> 4, bits & 15], -1).reshape(-1)[:count]
    scales = np.repeat(largest.array.reshape(-1).astype(np.float32), block)[:count]
    dense = (np.array(table, np.float32)[numbers] * scales).reshape(columns, depth)
    dense = np.ascontiguousarray(dense.T) if turned else dense
    return ctx.b.matmul(a, ctx.b.constant(dense, a.dtype), a.dtype)
