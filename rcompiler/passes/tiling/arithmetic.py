"""The arithmetic of a traced body: which of its loops run one after the other, and how much each
point of them costs.

A body may sum up several times: the mean of a row, then its variance; the two products of a gate.
Such loops follow one another, and the axes of one are not those of another. Only the axes that some
operation runs along at once span a space of points.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Part:
    """One linalg body. `cost`: operations of an evaluation; `axes`: along which it is evaluated."""

    cost: float
    axes: frozenset[int]


@dataclass(frozen=True)
class Arithmetic:
    """`ops`: operations per point of the whole space, `epilogue_ops`: per point of the parallel
    axes, as for a TensorExpr. `sizes`: of the axes; one that shares the loop of another is 1 long.
    `shared`: the axis whose loop it shares, by such an axis.
    """

    ops: float
    epilogue_ops: float
    sizes: tuple[int, ...]
    shared: Mapping[int, int]


def arithmetic(sizes: Sequence[int], kinds: Sequence[str], parts: Iterable[Part]) -> Arithmetic:
    """What the parts of a body take. sizes, kinds: of its axes, as in a TensorExpr.

    Reduction axes that no part has in common become one loop, as long as the longest of them.
    """
    parts = list(parts)
    loops = [a for a, kind in enumerate(kinds) if kind == "reduction"]
    shared, merged = _shared(loops, parts), list(sizes)
    for axis, other in shared.items():
        merged[axis], merged[other] = 1, max(merged[other], sizes[axis])
    points = math.prod(max(merged[a], 1) for a in loops)
    ops = epilogue = 0.0
    for part in parts:
        own = [a for a in loops if a in part.axes]
        if own:
            ops += part.cost * math.prod(max(sizes[a], 1) for a in own) / points
        else:
            epilogue += part.cost
    return Arithmetic(ops, epilogue, tuple(merged), shared)


def _shared(loops: Sequence[int], parts: Sequence[Part]) -> dict[int, int]:
    """The axis whose loop each axis shares, for those that do: the first that no part has together
    with it, or with another that shares that loop.
    """
    together: dict[int, set[int]] = {a: set() for a in loops}
    for part in parts:
        for axis in part.axes & together.keys():
            together[axis] |= part.axes
    members: dict[int, set[int]] = {}
    shared = {}
    for axis in loops:
        own = together[axis] or {axis}
        first = next((f for f, m in members.items() if not m & own), None)
        if first is None:
            members[axis] = {axis}
        else:
            members[first].add(axis)
            shared[axis] = first
    return shared
