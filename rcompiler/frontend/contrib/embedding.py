"""Embeddings: of positions by rotation and by biases, and of rows that stay quantised."""

from __future__ import annotations

import numpy as np

from rcompiler.frontend import dtypes

from .node import Node, Result, operator


def rotated(
    n: Node, x: str, positions: str, *, heads: int, width: int = 0, interleaved: int = 0
) -> str:
    """Queries or keys rotated by the inputs cos_cache and sin_cache.

    x: [batch, steps, heads * size], or [batch, heads, steps, size]. positions: [batch or 1, steps].
    width: how many of the elements of a head are rotated; 0 of all.
    """
    own = {"rotary_embedding_dim": width, "interleaved": interleaved}
    own |= {"num_heads": heads} if heads else {}
    return n.op("RotaryEmbedding", x, "cos_cache", "sin_cache", positions, **own)


def need_caches(n: Node, half: int) -> None:
    """Raises ShapeError where the tables of cosines have not `half` columns."""
    rows, columns = n.shape("cos_cache", 2)
    n.need_shape("sin_cache", (rows, columns))
    if columns != half:
        raise n.shape_error(f"'cos_cache' has {columns} columns; {half} are expected")


def following(n: Node, first: str, steps: int) -> str:
    """``first`` of one element, and the numbers that follow it: int64 [1, steps]."""
    start = n.reshaped(n.cast(first, "int64"), 1, 1)
    return n.op("Add", start, n.constant(np.arange(steps, dtype=np.int64)[None]))


@operator(
    "RotaryEmbedding", "input:T position_ids:I cos_cache:T sin_cache:T",
    interleaved=0, is_packed_batching=0, num_heads=0, rotary_embedding_dim=0, scale=1.0,
)  # fmt: skip
def _rotary(n: Node) -> Result:
    """As the standard's, of positions [batch, steps], or of the first one [1]; not with a scale."""
    shape, heads, width = n.shape("input"), n.attr("num_heads"), n.attr("rotary_embedding_dim")
    if len(shape) not in (3, 4):
        raise n.shape_error(f"'input' has {len(shape)} dimensions; 3 or 4 are expected")
    if n.attr("scale") != 1:
        raise n.refuse("scale is not translated", "Scale cos_cache and sin_cache")
    half = n.shape("cos_cache", 2)[1]
    if len(shape) == 3:
        heads = heads or shape[2] // max(2 * half, 1)
        if heads < 1 or shape[2] % heads:
            raise n.shape_error(f"{shape[2]} columns do not divide into {heads} heads")
        size = shape[2] // heads
    else:
        heads, size = 0, shape[3]
    need_caches(n, (width or size) // 2)
    if width > size or (width or size) % 2:
        raise n.shape_error(f"{width or size} elements of a head of {size} are not rotated")
    steps = shape[-2]
    n.need_shape("position_ids", (1,), (shape[0], steps))
    positions = "position_ids"
    if len(n.shape("position_ids")) == 1:
        positions = following(n, positions, steps)
    own = {"heads": heads, "width": width % size, "interleaved": n.attr("interleaved")}
    return rotated(n, "input", positions, **own)


@operator(
    "RelativePositionBias", "bias_table:T query_length:I key_length:I",
    is_bidirectional=0, max_distance=int,
)  # fmt: skip
def _relative(n: Node) -> Result:
    """T5's: rows of the table by the distance of query and key; their counts are known while
    compiling."""
    buckets, heads = n.shape("bias_table", 2)
    counts = [n.known(name, "it decides the shape") for name in ("query_length", "key_length")]
    if any(count.size != 1 for count in counts):
        raise n.shape_error("a length is one number")
    queries, keys = (int(count.reshape(-1)[0]) for count in counts)
    if min(queries, keys) < 0 or buckets < 4 or n.attr("max_distance") <= buckets // 2:
        raise n.shape_error("the lengths, the buckets and max_distance do not fit each other")
    apart = np.arange(keys)[None] - np.arange(queries)[:, None]
    numbers = _buckets(apart, buckets, n.attr("max_distance"), bool(n.attr("is_bidirectional")))
    rows = n.op("Gather", "bias_table", n.constant(numbers))  # [queries, keys, heads]
    return n.unsqueezed(n.transposed(rows, 2, 0, 1), 0)


def _buckets(apart: np.ndarray, buckets: int, most: int, both: bool) -> np.ndarray:
    """Of each distance: exact near 0, by its logarithm further off."""
    first = np.zeros_like(apart)
    if both:
        buckets //= 2
        first = np.where(apart > 0, buckets, 0)
        apart = np.abs(apart)
    else:
        apart = np.maximum(-apart, 0)
    exact = buckets // 2
    ratio = np.log(np.maximum(apart, 1).astype(np.float32) / np.float32(exact))
    steps = ratio / np.float32(np.log(most / exact)) * np.float32(buckets - exact)
    far = np.minimum(exact + steps.astype(np.int64), buckets - 1)
    return np.asarray(first + np.where(apart < exact, apart, far), np.int64)


@operator(
    "GatedRelativePositionBias",
    "query_layer:T query_bias:T rel_pos:T weight:T bias:T eco_a:T token_offset:I?",
    num_heads=int,
)
def _gated(n: Node) -> Result:
    """`rel_pos` times a gate of each query; not of tokens without padding."""
    heads = n.attr("num_heads")
    if n.has("token_offset"):
        raise n.refuse("tokens without padding are not translated", "Restore the padding")
    batch, steps, columns = n.shape("query_layer", 3)
    size, gates = n.shape("weight", 2)
    if heads * size != columns or gates % 2:
        raise n.shape_error(f"{columns} columns, {heads} heads and {gates} gates do not fit")
    n.need_shape("query_bias", (columns,))
    n.need_shape("bias", (gates,))
    n.need_shape("eco_a", (1, heads, 1, 1))
    n.need_shape("rel_pos", (1, heads, steps, steps))
    apart = n.reshaped(n.add("query_layer", "query_bias"), batch, steps, heads, size)
    products = n.add(n.op("MatMul", n.transposed(apart, 0, 2, 1, 3), "weight"), "bias")
    halves = n.reshaped(products, batch, heads, steps, 2, gates // 2)
    sums = n.op("Sigmoid", n.op("ReduceSum", halves, n.ints(-1), keepdims=0))
    update, reset = n.split(sums, -1, 1, 1)
    one, two = (n.constant(number, n.dtype("weight")) for number in (1, 2))
    factor = n.op("Sub", n.op("Mul", reset, "eco_a"), one)
    return n.op("Mul", n.op("Add", n.op("Mul", update, factor), two), "rel_pos")


@operator(
    "GatherBlockQuantized", "data:Q indices:I scales:T zero_points:Q?",
    bits=4, block_size=128, gather_axis=0, quantize_axis=1,
)  # fmt: skip
def _gather_quantised(n: Node) -> Result:
    """Rows of 4 or 8 bits with a scale for each block, which are gathered as they are and
    dequantised then; of two numbers in a byte, constants."""
    rank, bits, block = len(n.shape("data")), n.attr("bits"), n.attr("block_size")
    axis, blocked = n.attr("gather_axis"), n.attr("quantize_axis")
    if not all(-rank <= each < rank for each in (axis, blocked)) or rank < 2:
        raise n.shape_error(f"an axis is outside a tensor of rank {rank}")
    axis, blocked = axis % rank, blocked % rank
    if axis == blocked or bits not in (4, 8):
        raise n.refuse("this axis, or these bits, are not translated", "Gather along another axis")
    zero = "zero_points" if n.has("zero_points") else ""
    data = "data"
    if n.dtype("data") == "uint8" and bits == 4:
        data = _unpacked(n, data)
        zero = _unpacked(n, zero) if zero else n.constant(np.full(n.shape("scales"), 8), "uint4")
    elif n.dtype("data") == "uint8" and not zero:
        zero = n.constant(np.full(n.shape("scales"), 128, np.uint8))
    parts = [n.op("Gather", part, "indices", axis=axis) for part in (data, "scales", zero) if part]
    more = len(n.shape("indices")) - 1
    return n.op(
        "DequantizeLinear",
        *parts,
        axis=blocked + (more if blocked > axis else 0),
        block_size=block,
    )


def _unpacked(n: Node, name: str) -> str:
    """Two numbers of each byte along the last axis, the lower half of its bits first."""
    packed = n.known(name, "its bytes have two numbers each")
    numbers = np.stack([packed & 15, packed >> 4], -1).reshape(*packed.shape[:-1], -1)
    if name == "zero_points":
        numbers = numbers[..., : n.shape("scales")[-1]]
    return n.constant(numbers.astype(dtypes.numpy_dtype("uint4")))


@operator(
    "MRotaryEmbedding", "input:T position_ids:I cos_cache:T sin_cache:T",
    interleaved=0, is_packed_batching=0, mrope_layout=0, mrope_section=tuple, num_heads=0,
    rotary_embedding_dim=0, scale=1.0,
)  # fmt: skip
def _rotary_of_three(n: Node) -> Result:
    """RotaryEmbedding of three positions [3, batch, steps], of which each rotates its own columns:
    those that follow each other, or every third (`mrope_layout` 1); not with a scale."""
    sections, half = n.attr("mrope_section"), n.shape("cos_cache", 2)[1]
    if n.attr("scale") != 1:
        raise n.refuse("scale is not translated", "Scale cos_cache and sin_cache")
    if len(sections) != 3 or min(sections) < 0 or sum(sections) != half:
        raise n.shape_error(f"mrope_section {list(sections)} does not fit {half} columns")
    shape, width = n.shape("input"), n.attr("rotary_embedding_dim")
    if len(shape) not in (3, 4):
        raise n.shape_error(f"'input' has {len(shape)} dimensions; 3 or 4 are expected")
    need_caches(n, half)
    n.need_shape("position_ids", (3, shape[0], shape[-2]))
    heads = 0 if len(shape) == 4 else n.attr("num_heads") or shape[2] // max(2 * half, 1)
    if n.attr("mrope_layout"):
        column = np.zeros(half, np.int64)
        for which in (1, 2):
            column[which : 3 * sections[which] : 3] = which
    else:
        column = np.repeat(np.arange(3), sections)
    tables = []
    for cache in ("cos_cache", "sin_cache"):
        rows = n.op("Gather", cache, "position_ids")  # [3, batch, steps, half]
        parts = [n.op("Squeeze", part, n.ints(0)) for part in n.split(rows, 0, 1, 1, 1)]
        mixed = n.op("Where", n.constant(column == 1), parts[1], parts[2])
        tables.append(n.op("Where", n.constant(column == 0), parts[0], mixed))
    own = {"rotary_embedding_dim": width, "interleaved": n.attr("interleaved")}
    own |= {"num_heads": heads} if heads else {}
    return n.op("RotaryEmbedding", "input", *tables, **own)
