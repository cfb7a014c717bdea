"""Which axis the vectors run along.

The best axis is contiguous, or absent, in every access: one vector load, or one broadcast, per
lanes points. Strided and data-dependent accesses take one load per lane; but on a CPU every other
element of two vectors makes one, and strided loads whose elements lie along another axis are made
for several vectors at once, as a block that is turned.
"""

import math
from dataclasses import dataclass

from rcompiler.device.model import Device
from rcompiler.roller.expr import TensorAccess, TensorExpr

# Bytes of the smallest elements of which a vector of every other one is taken out of two vectors:
# AVX2 has no single instruction for smaller ones.
WORD = 4
_EVERY_OTHER = 3.0  # slots of that: two loads and a shuffle


@dataclass(frozen=True)
class VectorAxis:
    """`axis`: position in `expr.axes`, or -1 for scalar code; `lanes`: elements per vector."""

    axis: int
    lanes: int


def choose_vector_axis(expr: TensorExpr, device: Device) -> VectorAxis:
    """The axis with the fewest load and store slots per point; the later one when equal. Of a
    sequential expression the one along which iterations are abreast.
    """
    if expr.kind == "sequential":
        lanes = device.lanes(expr.compute_bytes) if expr.abreast >= 0 else 1
        return VectorAxis(expr.abreast, lanes) if lanes > 1 else VectorAxis(-1, 1)
    best = VectorAxis(-1, 1)
    best_cost = _scalar_cost(expr)
    for axis, info in enumerate(expr.axes):
        if info.size < 2 or info.kind == "whole":
            continue
        lanes = min(device.lanes(expr.compute_bytes), 1 << (info.size - 1).bit_length())
        cost = vector_cost(expr, axis, lanes, device)
        if lanes > 1 and cost <= best_cost * (1 + 1e-9):
            best, best_cost = VectorAxis(axis, lanes), cost
    return best


def vector_cost(expr: TensorExpr, axis: int, lanes: int, device: Device) -> float:
    """Load, store and arithmetic slots per point when vectors run along `axis`."""
    size = expr.axes[axis].size
    waste = math.ceil(size / lanes) * lanes / size
    reduction = expr.axes[axis].kind == "reduction"
    slots = 1.0  # the arithmetic itself
    for access in expr.accesses:
        weight = 1.0 if _every_point(expr, access) else 0.05
        slots += weight * load_slots(expr, access, axis, lanes, device)
    if reduction and not all(axis in access.axes() for access in expr.outputs):
        # lanes are added up at the end: log2(lanes) shuffles, once per output point
        slots += 2.0 * math.log2(lanes) * lanes / size
    return slots * waste / lanes


def load_slots(
    expr: TensorExpr, access: TensorAccess, axis: int, lanes: int, device: Device
) -> float:
    """Load (or store) slots of one vector along `axis`: 1 if contiguous or a broadcast.

    A block of lanes rows that is turned takes a load and log2(lanes) shuffles for each row, also
    where rows are shorter and make fewer vectors; never more than element by element.
    """
    stride = access.stride(axis, lanes, expr.axes[axis].size)
    if stride in (0, 1):
        return 1.0
    if stride == 2 and device.is_cpu and access in expr.distinct_inputs and access.itemsize >= WORD:
        return min(float(lanes), _EVERY_OTHER)
    if stride is not None and not expr.reduction and access in expr.distinct_inputs:
        rows = [p for p in expr.parallel if turns(expr, access, p, axis, lanes)]
        if rows:
            vectors = max(min(expr.axes[row].size, lanes) for row in rows)
            return min(float(lanes), (1.0 + math.log2(lanes)) * lanes / max(vectors, 1))
    return float(lanes)


def turns(expr: TensorExpr, access: TensorAccess, axis: int, vector: int, lanes: int) -> bool:
    """Whether an access is contiguous along `axis` but strided along the vector axis."""
    size, along = expr.axes[axis].size, expr.axes[vector].size
    return (
        axis != vector
        and access.stride(axis, lanes, size) == 1
        and access.stride(vector, lanes, along) not in (0, 1)
    )


def _scalar_cost(expr: TensorExpr) -> float:
    return 1.0 + sum(1.0 if _every_point(expr, a) else 0.05 for a in expr.accesses)


def _every_point(expr: TensorExpr, access: TensorAccess) -> bool:
    """Whether the access moves in the innermost loops, not once per output tile."""
    return not expr.reduction or any(map(access.moves_with, expr.reduction))
