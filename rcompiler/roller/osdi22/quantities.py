"""What a tile costs: traffic Q, footprint F, work W, registers (OSDI'22 §3.1, artifact figures).

`padding`: elements added to every row of an input's tile, per input; empty for none.
"""

import math
from collections.abc import Sequence

from rcompiler.roller.osdi22.expression import Expression, Tile


def traffic(expr: Expression, tile: Sequence[int], padding: Sequence[int] = ()) -> int:
    """Q: bytes of the operands' tiles over the whole reduction, rounded up to whole steps."""
    whole = expr.whole_reduction(tile)
    return _inputs(expr, whole, padding) + _outputs(expr, whole)


def output_traffic(expr: Expression, tile: Sequence[int]) -> int:
    """The part of Q that is written."""
    return _outputs(expr, expr.whole_reduction(tile))


def input_traffic(expr: Expression, tile: Sequence[int]) -> int:
    """The part of Q that is read."""
    return _inputs(expr, expr.whole_reduction(tile), ())


def footprint(expr: Expression, tile: Sequence[int], padding: Sequence[int] = ()) -> int:
    """F: bytes of the inputs' tiles of one reduction step; outputs live in registers."""
    return _inputs(expr, tile, padding)


def work(expr: Expression, tile: Sequence[int]) -> float:
    """W: operations over the whole reduction, rounded up to whole steps.

    Quirk (parity): bytes / 2 operations per point, which is right (2) for fp32 alone.
    """
    reduced = expr.whole_reduction(tile)[expr.spatial :]
    output = expr.outputs[0]
    return math.prod(output.extents(tile)) * math.prod(reduced) * output.itemsize / 2


def registers(expr: Expression, tile: Sequence[int]) -> float:
    """32-bit registers of one thread that holds all operands of `tile`.

    Quirk (parity): outputs count with the bytes of the first input. A warp shares a fragment.
    """
    elements = sum(math.prod(o.extents(tile)) for o in (*expr.inputs, *expr.outputs))
    words = elements * expr.itemsize / 4
    return words / 32 if expr.tensor_core else words


def tiles(large: Sequence[int], small: Sequence[int]) -> int:
    """How many tiles of size `small` cover `large`."""
    return math.prod(math.ceil(a / b) for a, b in zip(large, small, strict=True))


def threads(expr: Expression, shared: Tile, register: Tile) -> int:
    """Threads (warps, for matrix fragments) of one rTask; reductions are never split."""
    return tiles(shared[: expr.spatial], register[: expr.spatial])


def tasks(expr: Expression, shared: Tile) -> int:
    """rTasks of the operator: the grid."""
    return tiles(expr.sizes[: expr.spatial], shared[: expr.spatial])


def _inputs(expr: Expression, tile: Sequence[int], padding: Sequence[int]) -> int:
    total = 0
    for position, operand in enumerate(expr.inputs):
        extents = operand.extents(tile)
        if padding:
            extents[-1] += padding[position]
        total += math.prod(extents) * operand.itemsize
    return total


def _outputs(expr: Expression, tile: Sequence[int]) -> int:
    return sum(math.prod(o.extents(tile)) * o.itemsize for o in expr.outputs)
