"""Between which numbers the integers of a result lie, told from what its node reads.

Only what one node says is used: intervals, no relations between tensors. What is found always
holds; where nothing is known, or a number could leave its type, it is the range of the type. Of
floats nothing is said: a NaN is in no interval, and what a cast makes of it is any integer.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from rcompiler.support.extent import highest, lowest

from . import dtypes

Bounds = tuple[int, int]  # the least and the greatest that an element may be


class Tensor(Protocol):
    """An operand, or a result, of which only its shape and type are asked for."""

    shape: tuple[int, ...]
    dtype: str

    @property
    def bounds(self) -> Bounds | None: ...

    @property
    def elements(self) -> np.ndarray | None: ...


Operands = Sequence[Tensor | None]
Attributes = Mapping[str, Any]
Rule = Callable[[Operands, Attributes, Tensor], "Bounds | None"]


def of_type(dtype: str) -> Bounds | None:
    """All numbers of a type; None for floats."""
    if dtype == "bool":
        return 0, 1
    if not dtypes.is_integer(dtype):
        return None
    low, high = dtypes.limits(dtype)
    return int(low), int(high)


def union(*parts: Bounds | None) -> Bounds | None:
    """The least interval that holds all of these; None if nothing is known of one."""
    known = [part for part in parts if part is not None]
    if len(known) < len(parts) or not known:
        return None
    return min(low for low, _ in known), max(high for _, high in known)


def of_result(
    op: str, attributes: Attributes, operands: Operands, result: Tensor, number: int = 0
) -> Bounds | None:
    """The bounds of result ``number`` of a node of the standard's own domain; None for floats."""
    whole = of_type(result.dtype)
    if whole is None:
        return None
    found = by_rule(op, attributes, operands, result, number)
    if found is not None and whole[0] <= found[0] and found[1] <= whole[1]:
        return found
    return whole


def by_rule(
    op: str, attributes: Attributes, operands: Operands, result: Tensor, number: int = 0
) -> Bounds | None:
    """What the rule of an operator says; None where there is none, or it says nothing."""
    rule = _RULES.get((op, number)) or _RULES.get((op, _ANY))
    return None if 0 in result.shape or rule is None else rule(operands, attributes, result)


_ANY = -1  # of the results of a node
_RULES: dict[tuple[str, int], Rule] = {}


def _rule(names: str, number: int = 0) -> Callable[[Rule], Rule]:
    def register(rule: Rule) -> Rule:
        _RULES.update({(name, number): rule for name in names.split()})
        return rule

    return register


def _given(operands: Operands, number: int) -> Tensor | None:
    return operands[number] if number < len(operands) else None


def _bounds(operands: Operands, number: int) -> Bounds | None:
    """None also for an operand that is left out."""
    operand = _given(operands, number)
    return None if operand is None else operand.bounds


def _of_one(fn: Callable[[int, int], Bounds]) -> Rule:
    """A function of the bounds of the first operand."""
    return lambda operands, _, __: None if (b := _bounds(operands, 0)) is None else fn(*b)


# -- elements that only move -------------------------------------------------------------------
@_rule(
    "Cast CastLike Compress DepthToSpace Expand Flatten Gather GatherElements GatherND Identity "
    "Reshape ReverseSequence Slice SpaceToDepth Squeeze Tile TopK Transpose "
    "Unique Unsqueeze"
)
def _of_the_first(operands: Operands, _: Attributes, __: Tensor) -> Bounds | None:
    first = _given(operands, 0)
    # the reductions of no elements are numbers of their own
    return first.bounds if first is not None and 0 not in first.shape else None


def _reduced(choose: Callable[[Iterable[int]], int]) -> Rule:
    """The least or the greatest; of sizes, one alone bounds it from one side."""

    def rule(operands: Operands, attributes: Attributes, result: Tensor) -> Bounds | None:
        first = _given(operands, 0)
        sizes = None if first is None or first.elements is None else [*first.elements.flat]
        if not sizes or math.prod(result.shape) != 1:
            return _of_the_first(operands, attributes, result)
        return choose(map(lowest, sizes)), choose(map(highest, sizes))

    return rule


_rule("ReduceMax")(_reduced(max))
_rule("ReduceMin")(_reduced(min))


@_rule("Concat")
def _of_all(operands: Operands, _: Attributes, __: Tensor) -> Bounds | None:
    full = [o for o in operands if o is None or 0 not in o.shape]
    return union(*(None if o is None else o.bounds for o in full))


@_rule("Scatter ScatterElements ScatterND")
def _written(operands: Operands, attributes: Attributes, _: Tensor) -> Bounds | None:
    if attributes.get("reduction", "none") not in ("none", "max", "min"):
        return None
    return union(_bounds(operands, 0), _bounds(operands, 2))


@_rule("Pad")
def _padded(operands: Operands, _: Attributes, __: Tensor) -> Bounds | None:
    filled = (0, 0) if _given(operands, 2) is None else _bounds(operands, 2)
    return union(_bounds(operands, 0), filled)


_rule("Split", _ANY)(_of_the_first)
_rule("Where")(lambda operands, _, __: union(_bounds(operands, 1), _bounds(operands, 2)))
_rule("OneHot")(lambda operands, _, __: _bounds(operands, 2))
_rule("Trilu")(_of_one(lambda low, high: (min(low, 0), max(high, 0))))


# -- positions -----------------------------------------------------------------------------------
def _positions(axis_of: Callable[[Attributes], int]) -> Rule:
    """Places along an axis of the first operand."""

    def rule(operands: Operands, attributes: Attributes, _: Tensor) -> Bounds | None:
        first, axis = _given(operands, 0), axis_of(attributes)
        if first is None or not -len(first.shape) <= axis < len(first.shape):
            return None
        return (0, first.shape[axis] - 1) if first.shape[axis] else None

    return rule


_rule("ArgMax ArgMin")(_positions(lambda attributes: attributes.get("axis", 0)))
_rule("TopK", 1)(_positions(lambda attributes: attributes.get("axis", -1)))
_rule("Multinomial")(_positions(lambda _: -1))


@_rule("NonZero")
def _coordinates(operands: Operands, _: Attributes, __: Tensor) -> Bounds | None:
    first = _given(operands, 0)
    return None if first is None else (0, max([*first.shape, 1]) - 1)


@_rule("NonMaxSuppression")
def _selected(operands: Operands, _: Attributes, __: Tensor) -> Bounds | None:
    """Numbers of batches, classes and boxes."""
    scores = _given(operands, 1)
    return None if scores is None else (0, max([*scores.shape, 1]) - 1)


@_rule("Unique", 1)
def _first_ones(operands: Operands, attributes: Attributes, _: Tensor) -> Bounds | None:
    """Places along an axis, or of all elements."""
    first, axis = _given(operands, 0), attributes.get("axis")
    if first is None:
        return None
    return 0, max(math.prod(first.shape) if axis is None else first.shape[axis], 1) - 1


_rule("Unique", 2)(_first_ones)


# -- arithmetic ----------------------------------------------------------------------------------
def _of_two(fn: Callable[[Bounds, Bounds], Bounds | None]) -> Rule:
    """A function of two operands, or folded over any number of them."""

    def rule(operands: Operands, _: Attributes, __: Tensor) -> Bounds | None:
        found, *rest = [_bounds(operands, i) for i in range(len(operands))] or [None]
        for other in rest:
            found = None if found is None or other is None else fn(found, other)
        return found

    return rule


def _corners(fn: Callable[[int, int], int]) -> Callable[[Bounds, Bounds], Bounds]:
    """Of a function that is monotonic in each operand."""

    def extremes(a: Bounds, b: Bounds) -> Bounds:
        values = [fn(x, y) for x in a for y in b]
        return min(values), max(values)

    return extremes


def _divided(a: Bounds, b: Bounds) -> Bounds | None:
    """Quotients are truncated; a divisor may not be zero."""
    if b[0] <= 0 <= b[1]:
        return None
    return _corners(lambda x, y: abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1))(a, b)


_rule("Add Sum")(_of_two(_corners(lambda x, y: x + y)))
_rule("Sub")(_of_two(_corners(lambda x, y: x - y)))
_rule("Mul")(_of_two(_corners(lambda x, y: x * y)))
_rule("Div")(_of_two(_divided))


def _extreme(choose: Callable[[Iterable[int]], int]) -> Rule:
    """One operand alone bounds it from one side. What is not known of one, its type says."""

    def rule(operands: Operands, _: Attributes, result: Tensor) -> Bounds | None:
        found = [_bounds(operands, i) or of_type(result.dtype) for i in range(len(operands))]
        known = [bounds for bounds in found if bounds is not None]
        return (choose(a for a, _ in known), choose(b for _, b in known)) if known else None

    return rule


_rule("Max")(_extreme(max))
_rule("Min")(_extreme(min))


@_rule("Clip")
def _clipped(operands: Operands, _: Attributes, __: Tensor) -> Bounds | None:
    """As min(max(x, low), high): the upper limit decides where they cross."""
    found = _bounds(operands, 0)
    if found is None:
        return None
    for number, fn in ((1, max), (2, min)):
        if _given(operands, number) is not None:
            limit = _bounds(operands, number)
            if limit is None:
                return None
            found = fn(found[0], limit[0]), fn(found[1], limit[1])
    return found


@_rule("Mod")
def _remainder(operands: Operands, attributes: Attributes, _: Tensor) -> Bounds | None:
    """Of the sign of the divisor, or with fmod of the dividend."""
    a, b = _bounds(operands, 0), _bounds(operands, 1)
    if a is None or b is None or b[0] <= 0 <= b[1]:
        return None
    most = max(abs(b[0]), abs(b[1])) - 1
    if attributes.get("fmod", 0):
        return (-min(most, -a[0]) if a[0] < 0 else 0), (min(most, a[1]) if a[1] > 0 else 0)
    if b[0] > 0:
        return 0, min(most, a[1]) if a[0] >= 0 else most
    return -most, 0


_rule("Neg")(_of_one(lambda low, high: (-high, -low)))
_rule("Abs")(_of_one(lambda low, high: (max(low, -high, 0), max(abs(low), abs(high)))))
_rule("Relu")(_of_one(lambda low, high: (max(low, 0), max(high, 0))))
_rule("Sign")(lambda _, __, ___: (-1, 1))


@_rule("BitwiseAnd")
def _masked(operands: Operands, _: Attributes, __: Tensor) -> Bounds | None:
    """What is not negative bounds it from both sides."""
    highs = [b[1] for i in (0, 1) if (b := _bounds(operands, i)) is not None and b[0] >= 0]
    return (0, min(highs)) if highs else None


@_rule("CumSum")
def _running(operands: Operands, _: Attributes, result: Tensor) -> Bounds | None:
    found, most = _bounds(operands, 0), max(result.shape, default=1)
    return None if found is None else (min(0, found[0] * most), max(0, found[1] * most))


@_rule("ReduceSum")
def _summed(operands: Operands, _: Attributes, result: Tensor) -> Bounds | None:
    first, found = _given(operands, 0), _bounds(operands, 0)
    if first is None or found is None:
        return None
    count = math.prod(first.shape) // math.prod(result.shape)
    return min(0, found[0] * count), max(0, found[1] * count)
