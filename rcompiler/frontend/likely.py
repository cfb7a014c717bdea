"""Between which numbers the elements of a result lie if none of them is NaN, and sums do not round.

    d = Clip(Ceil(Exp(x)), 0, 20);  n = ReduceSum(Cast(d))      // at most 20 for each element

Floats have no bounds that always hold (`bounds`). What is said here only gives room for what is
counted: a run looks whether it is enough.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rcompiler.support.extent import highest, lowest

from . import bounds, dtypes
from .value import Interval, Value

_MOST_CONSTANTS = 1024  # elements of a constant that are looked at
_EVERY = -math.inf, math.inf
# Whose rule for integers is one for floats, too.
_AS_INTEGERS = frozenset(
    (
        *("Abs", "Add", "Cast", "CastLike", "Clip", "Compress", "Concat", "CumSum", "Expand"),
        *("Flatten", "Gather", "GatherElements", "GatherND", "Identity", "Max", "Min", "Mul"),
        *("Neg", "Pad", "ReduceMax", "ReduceMin", "ReduceSum", "Relu", "Reshape", "Sign", "Slice"),
        *("Split", "Squeeze", "Sub", "Sum", "Tile", "TopK", "Transpose", "Unsqueeze", "Where"),
    )
)


@dataclass
class _Operand:
    """An operand as the rules for integers read it."""

    shape: tuple[int, ...]
    dtype: str
    bounds: Any
    elements: np.ndarray | None = None


def likely_interval(
    op: str,
    attributes: Mapping[str, Any],
    operands: Sequence[Value | None],
    result: Value,
    number: int = 0,
) -> Interval | None:
    """The interval of result ``number`` of a node of the standard's own domain; None of any."""
    own = _RULES.get(op)
    if own is None and op not in _AS_INTEGERS or not dtypes.is_number(result.dtype):
        return None
    given = [None if each is None else _operand(each) for each in operands]
    try:
        if own is not None:
            found = own(*(each.bounds for each in given if each is not None))
        else:
            found = bounds.by_rule(op, attributes, given, result, number)
    except (OverflowError, ValueError):
        return None
    if found is None or any(map(math.isnan, found)) or found == _EVERY:
        return None
    return float(found[0]), float(found[1])


def _operand(value: Value) -> _Operand:
    found = interval_of(value)
    return _Operand(value.shape, value.dtype, _EVERY if found is None else found)


def interval_of(value: Value) -> Interval | None:
    """What is known of a value; None of nothing."""
    if value.elements is not None and value.size:
        sizes = [*value.elements.flat]
        return float(min(map(lowest, sizes))), float(max(map(highest, sizes)))
    if value.likely is not None:
        return value.likely
    if value.base is not None and value.base.likely is not None:
        return value.base.likely
    if (low_high := value.bounds) is not None:
        return float(low_high[0]), float(low_high[1])
    if value.const is None or not 0 < value.size <= _MOST_CONSTANTS:
        return None
    least, most = float(value.const.min()), float(value.const.max())
    return None if math.isnan(least) else (least, most)


def most_of(value: Value, above: int) -> int | None:
    """The greatest integer that it is likely to be; None where that is more than ``above``."""
    found = interval_of(value)
    if found is None or not found[1] <= above:
        return None
    return max(math.ceil(found[1]), 0)


def _monotone(fn: Callable[[float], float]) -> Callable[..., Interval]:
    return lambda first, *_: (fn(first[0]), fn(first[1]))


def _whole(fn: Callable[[float], float]) -> Callable[[float], float]:
    return lambda x: x if math.isinf(x) else fn(x)


def _exp(x: float) -> float:
    return math.exp(x) if x < 700 else math.inf


def _quotients(a: Interval, b: Interval) -> Interval | None:
    if b[0] <= 0 <= b[1]:
        return None
    found = [x / y for x in a for y in b]
    return min(found), max(found)


_RULES: dict[str, Callable[..., Interval | None]] = {
    "Ceil": _monotone(_whole(math.ceil)),
    "Floor": _monotone(_whole(math.floor)),
    "Round": _monotone(_whole(round)),
    "Exp": _monotone(_exp),
    "Sqrt": _monotone(lambda x: math.sqrt(max(x, 0.0))),
    "ReduceMean": _monotone(lambda x: x),
    "Div": _quotients,
    "Sigmoid": lambda *_: (0.0, 1.0),
    "HardSigmoid": lambda *_: (0.0, 1.0),
    "Softmax": lambda *_: (0.0, 1.0),
    "Tanh": lambda *_: (-1.0, 1.0),
}
