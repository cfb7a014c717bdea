"""SparseAttention: attention in which a block of steps sees some of the blocks of keys before it.

Which ones is a mask for each layout, of which heads have one in turns, as rows of sparse matrices
that are known while compiling.
"""

from __future__ import annotations

import numpy as np

from .attention import by_heads, scale_of
from .embedding import need_caches, rotated
from .node import Node, Result, operator


@operator(
    "SparseAttention",
    "query:T key:T? value:T? past_key:T past_value:T block_row_indices:I block_col_indices:I "
    "total_sequence_length:I key_total_sequence_lengths:I cos_cache:T? sin_cache:T?",
    outputs=3,
    do_rotary=0,
    kv_num_heads=int,
    num_heads=int,
    rotary_interleaved=0,
    scale=0.0,
    sparse_block_size=int,
)
def _sparse(n: Node) -> Result:
    """Causal attention of blocks that constant masks choose, with keys in buffers whose filled part
    is known while the model runs."""
    heads, shared = n.attr("num_heads"), n.attr("kv_num_heads")
    batch, steps, columns = n.shape("query", 3)
    if heads < 1 or shared < 1 or heads % shared or n.has("key") != n.has("value"):
        raise n.shape_error(f"{heads} heads do not share {shared}, or 'key' comes without 'value'")
    _, _, room, size = n.shape("past_key", 4)
    if n.has("key"):
        n.need_shape("query", (batch, steps, heads * size))
        q, k, v = "query", "key", "value"
    else:
        n.need_shape("query", (batch, steps, (heads + 2 * shared) * size))
        q, k, v = n.split("query", -1, heads * size, shared * size, shared * size)
    for name in ("key", "value"):
        n.need_shape(name, (batch, steps, shared * size))
    for name in ("past_key", "past_value"):
        n.need_shape(name, (batch, shared, room, size))
    n.need_shape("key_total_sequence_lengths", (batch,))
    before, positions = _positions(n, batch, steps)
    if n.attr("do_rotary"):
        q, k = _turned(n, q, k, positions, heads, shared, size)
    kept = [
        n.op("TensorScatter", past, by_heads(n, x, batch, steps, shared, size), before, axis=2)
        for past, x in (("past_key", k), ("past_value", v))
    ]
    group = heads // shared
    q = n.transposed(n.reshaped(q, batch, steps, shared, group, size), 0, 2, 3, 1, 4)
    q = n.reshaped(q, batch, shared, group * steps, size)
    products = n.op("MatMul", q, n.transposed(kept[0], 0, 1, 3, 2))
    scores = n.scaled(products, scale_of(n, size), n.dtype("query"))
    counted = n.op("And", _causal(n, positions, room), _blocks(n, positions, heads, room))
    rows = n.reshaped(counted, batch, shared, group * steps, room)
    lowest = n.constant(-np.inf, n.dtype("query"))
    weights = n.op("Softmax", n.op("Where", rows, scores, lowest), axis=-1)
    mixed = n.reshaped(n.op("MatMul", weights, kept[1]), batch, shared, group, steps, size)
    y = n.reshaped(n.transposed(mixed, 0, 3, 1, 2, 4), batch, steps, heads * size)
    return [y, *kept]


def _positions(n: Node, batch: int, steps: int) -> tuple[str, str]:
    """How many keys each sequence has from earlier calls, int64 [batch]: none of the first one; and
    where the new ones are, [batch, steps].
    """
    total = n.op("Reshape", n.cast("total_sequence_length", "int64"), n.ints(1))
    own = n.cast("key_total_sequence_lengths", "int64")
    before = n.op("Sub", own, n.ints(steps))
    before = n.op("Where", n.op("Equal", total, n.ints(steps)), n.ints(0), before)
    following = n.constant(np.arange(steps, dtype=np.int64))
    return before, n.op("Add", n.reshaped(before, batch, 1), following)


def _turned(
    n: Node, q: str, k: str, positions: str, heads: int, shared: int, size: int
) -> tuple[str, str]:
    if not n.has("cos_cache") or not n.has("sin_cache"):
        raise n.shape_error("do_rotary needs 'cos_cache' and 'sin_cache'")
    half = n.shape("cos_cache", 2)[1]
    need_caches(n, half)
    if not 0 < 2 * half <= size:
        raise n.shape_error(f"{2 * half} elements of a head of {size} are not rotated")
    how = {"width": 2 * half % size, "interleaved": n.attr("rotary_interleaved")}
    return (
        rotated(n, q, positions, heads=heads, **how),
        rotated(n, k, positions, heads=shared, **how),
    )


def _causal(n: Node, positions: str, room: int) -> str:
    """Which keys lie up to each step: [batch, 1, steps, room]."""
    places = n.constant(np.arange(room, dtype=np.int64))
    return n.op("LessOrEqual", places, n.unsqueezed(positions, 1, 3))


def _blocks(n: Node, positions: str, heads: int, room: int) -> str:
    """Which keys the block of each step sees: [batch, heads, steps, room]."""
    mask, size = _mask(n, room), n.attr("sparse_block_size")
    own = n.op("Div", positions, n.constant(size, "int64"))
    of_key = np.arange(room) // size
    by_key = mask[np.arange(heads) % len(mask)][:, :, of_key]  # [heads, blocks, room]
    rows = n.op("Gather", n.constant(by_key), own, axis=1)  # [heads, batch, steps, room]
    return n.transposed(rows, 1, 0, 2, 3)


def _mask(n: Node, room: int) -> np.ndarray:
    """bool [layouts, blocks, blocks] out of the rows and columns of sparse matrices."""
    why, size = "it says which blocks there are", n.attr("sparse_block_size")
    layouts, ends = n.shape("block_row_indices", 2)
    _, most = n.shape("block_col_indices", 2)
    n.need_shape("block_col_indices", (layouts, most))
    rows, columns = n.known("block_row_indices", why), n.known("block_col_indices", why)
    blocks, heads = ends - 1, n.attr("num_heads")
    if size < 1 or not layouts or heads % layouts or blocks * size < room:
        there = f"{layouts} layouts of {blocks} blocks of {size}"
        raise n.shape_error(f"{there} do not fit {heads} heads of {room} keys")
    mask = np.zeros((layouts, blocks, blocks), bool)
    for layout, row in np.ndindex(layouts, blocks):
        seen = columns[layout, rows[layout, row] : rows[layout, row + 1]]
        if seen.size and not 0 <= seen.min() <= seen.max() < blocks:
            raise n.shape_error(f"'block_col_indices' names a block that is none of {blocks}")
        mask[layout, row, seen] = True
    return mask
