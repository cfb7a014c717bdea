"""Split-K: a long reduction in parts that run side by side, and the sum of the parts.

    C[m, n] = sum over k of A[m, k] B[k, n]
    P[p, m, n] = sum over j of A[m, p * K/P + j] B[p * K/P + j, n]     C[m, n] = sum over p of P

Few results of long sums have too few tiles for a wide device, or for the latency of its additions.
Two steps and no atomics: both add in a fixed order. The order is another one than without parts,
so the number of parts depends on the operator and the device record alone, never on how many EUs a
program runs on.
"""

import math

from rcompiler.device.model import Device
from rcompiler.roller.choice import shortest_task_ns
from rcompiler.roller.construct import paced
from rcompiler.roller.decision import Decision
from rcompiler.roller.expr import ExpressionError, TensorAccess, TensorExpr, index, tensor_expr
from rcompiler.roller.index_expr import Index, axis_index

_LEAST = 32  # steps of a part at least
_GAIN = 0.8  # of the makespan that may be left
_SAVED = 0.5  # of a task that is worth placing, at least
_MUCH = 4  # of the shortest rTasks: more than one rTask, by whatever tiles
_ENOUGH = 2  # register tiles per EU: more parallelism than that needs no parts


def parts_of(expr: TensorExpr, axis: int, device: Device) -> int:
    """In how many parts the reduction `axis` of a product should run; 1: as it is.

    A divisor of its size, chosen for the shortest makespan on all EUs of the device.
    """
    if not _few_results(expr, device) or expr.axes[axis].kind != "reduction":
        return 1
    decisions = paced(expr, device, device.eus)
    whole = min(ns for _, ns in decisions)
    best, shortest = 1, min(_GAIN * whole, whole - _SAVED * device.costs.min_task_ns)
    if shortest <= _least_makespan(decisions[0][0], device):
        return 1
    for parts in _counts(expr, axis, device.eus):
        span = _makespan(partial(expr, axis, parts), device)
        if span < shortest:  # else the second step need not be looked at
            span += _makespan(total(expr, parts), device)
        if span < shortest:
            best, shortest = parts, span
    return best


def partial(expr: TensorExpr, axis: int, parts: int) -> TensorExpr:
    """The first step: `expr` over one part of `axis` more, a parallel axis in front.

    ExpressionError when an access names `axis` inside of a floordiv or mod.
    """
    size = expr.axes[axis].size // parts
    rename = {old: (old + 1, 1) for old in range(len(expr.axes))}

    def part(access: TensorAccess) -> TensorAccess:
        if access.dims is None:
            return access
        dims = (dim and _split(dim.rename(rename), axis + 1, size) for dim in access.dims)
        return TensorAccess(access.shape, access.itemsize, tuple(dims))

    axes = [(a.name, size if i == axis else a.size, a.kind) for i, a in enumerate(expr.axes)]
    output = expr.outputs[0]
    written = tuple(dim and dim.rename(rename) for dim in output.dims or ())
    return tensor_expr(
        [("part", parts, "parallel"), *axes],
        [part(access) for access in expr.inputs],
        [TensorAccess((parts, *output.shape), output.itemsize, (axis_index(0), *written))],
        kind=expr.kind,
        ops=expr.ops,
        in_parts=expr.in_parts,
    )


def total(expr: TensorExpr, parts: int) -> TensorExpr:
    """The second step: the sums of the parts, with the epilogue of `expr`."""
    output = expr.outputs[0]
    rank = len(output.shape)
    axes = [(f"d{d}", size, "parallel") for d, size in enumerate(output.shape)]
    at = tuple(map(axis_index, range(rank)))
    return tensor_expr(
        [*axes, ("part", parts, "reduction")],
        [TensorAccess((parts, *output.shape), output.itemsize, (axis_index(rank), *at))],
        [TensorAccess(output.shape, output.itemsize, at)],
        kind="reduction",
        ops=2.0,
        epilogue_ops=expr.epilogue_ops,
    )


def _few_results(expr: TensorExpr, device: Device) -> bool:
    """Whether there are too few vectors of results to keep all EUs busy."""
    results = math.prod(expr.axes[p].size for p in expr.parallel)
    vectors = math.ceil(results / device.lanes(expr.compute_bytes))
    return 0 < vectors < _ENOUGH * device.compute.accumulators * device.eus


def _counts(expr: TensorExpr, axis: int, eus: int) -> list[int]:
    """Divisors of the axis that leave parts of enough steps, at most two per EU, and eight."""
    size = expr.axes[axis].size
    steps = math.prod(expr.axes[r].size for r in expr.reduction)
    most = min(max(2 * eus, 8), steps // _LEAST)
    found = [n for n in range(2, most + 1) if size % n == 0]
    return [n for i, n in enumerate(found) if i == 0 or n >= 1.5 * found[i - 1] or n == found[-1]]


def _least_makespan(efficient: Decision, device: Device) -> float:
    """ns that the first step takes at least, by what the whole takes most efficiently: where there
    is so much work that one rTask would be long by itself, rTasks are as long as they have to be.
    """
    shortest = shortest_task_ns(device)
    much = efficient.tasks * efficient.estimated_ns >= _MUCH * shortest
    return shortest if much else 0.0


def _makespan(expr: TensorExpr, device: Device) -> float:
    return min(ns for _, ns in paced(expr, device, device.eus))


def _split(dim: Index, axis: int, size: int) -> Index:
    """`dim` with size * part + axis for the axis; the part is axis 0."""
    if Index(tuple(t for t in dim.terms if t[1] != axis)).axes() & {axis}:
        raise ExpressionError(f"axis {axis - 1} is inside of a floordiv or mod; it stays whole")
    step = dim.coefficient(axis)
    return index(*dim.terms, *([(step * size, 0)] if step else []), constant=dim.constant)
