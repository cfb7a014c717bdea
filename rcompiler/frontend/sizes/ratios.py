"""Floats that are quotients of sizes, until they are rounded to sizes again.

    h = Cast(Shape(x)[2], float);  n = Cast(Floor(h / 2.0), int64);  y = Resize(x, sizes=[.., n])

Of a few floats it is noted what they are: a size over a number, how often they were rounded on the
way, and between which floats they lie. Nothing is computed by that. Floor and Ceil, and Cast to
integers, make a size of such a float: the quotient itself, where roundings cannot have carried it
over a whole number, so that it meets other sizes that are the same quotient. Else a run counts it,
with the floats of the ends as bounds: what is noted only grows with each step.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np

from rcompiler.frontend import dtypes
from rcompiler.frontend.builder import Builder, Value
from rcompiler.frontend.nodes import MISFITS, attribute_value
from rcompiler.support.extent import Extent, Size, divided, highest, lowest

from . import arithmetic
from .arithmetic import Undecided

_MOST_FLOATS = 64  # of a tensor that are looked at
# Up to this number the floats of a type have all whole numbers.
_WHOLE = {"float16": 1 << 11, "float32": 1 << 24, "float64": 1 << 53}
_ROUNDED: dict[str, Callable[[Any], Any]] = {
    "Floor": np.floor,
    "Ceil": np.ceil,
    "Round": np.rint,
    "Cast": np.trunc,
}


@dataclass(frozen=True)
class Ratio:
    """A float that is near ``over / by``, and where that is a whole number, it is this one.

    Attributes:
        over, by: a size, and a number above 0.
        roundings: how many results on the way were no floats of the type; None where too much was
            done with what was rounded to say how near it is.
        most: no result that was rounded was greater, or less than the negative of it.
        low, high: the floats that the least and the greatest come to.
    """

    over: Size
    by: int
    roundings: int | None
    most: Fraction
    low: Any
    high: Any

    @property
    def number(self) -> Fraction | None:
        """What it is in each call; None where that differs."""
        if isinstance(self.over, Extent) or self.roundings != 0:
            return None
        return Fraction(self.over, self.by)


class _Floats:
    """Arithmetic as floats of one type have it."""

    def __init__(self, dtype: str) -> None:
        self._type = dtypes.numpy_dtype(dtype).type
        self._whole = _WHOLE[dtype]

    def of(self, what: Any) -> Ratio:
        """A size, or a float that is known, as one that was not rounded."""
        if isinstance(what, Ratio):
            return what
        if isinstance(what, int | Extent):
            ends = lowest(what), highest(what)
            low, high = map(self._type, ends)
            return self._kept(Ratio(what, 1, 0, Fraction(0), low, high))
        if not math.isfinite(what):
            raise Undecided
        exact = Fraction(float(what))
        over, by = exact.numerator, exact.denominator
        return Ratio(over, by, 0, Fraction(0), self._type(what), self._type(what))

    def _kept(self, made: Ratio, *of: Ratio) -> Ratio:
        """A result, with what is common to both of its numbers left out."""
        factors = [n for _, n in made.over.terms] if isinstance(made.over, Extent) else [made.over]
        common = math.gcd(made.by, *factors)
        over, by = made.over // common, made.by // common
        ends = abs(Fraction(lowest(over), by)), abs(Fraction(highest(over), by))
        if not (np.isfinite(made.low) and np.isfinite(made.high)):
            raise Undecided
        # of a power of two the float is exact where what stands above it is
        exact = by & (by - 1) == 0 and max(ends) * by <= self._whole
        rounded = made.roundings
        most = max((each.most for each in of), default=Fraction(0))
        if rounded is not None and not (exact and rounded == 0):
            rounded, most = rounded + 1, max(most, *ends)
        if max(ends) > self._whole:
            rounded = None
        return replace(made, over=over, by=by, roundings=rounded, most=most)

    def plus(self, a: Any, b: Any) -> Ratio:
        a, b = self.of(a), self.of(b)
        with np.errstate(all="ignore"):
            ends = a.low + b.low, a.high + b.high
        roundings = self._beside(a, b)
        made = Ratio(a.over * b.by + b.over * a.by, a.by * b.by, roundings, a.most, *ends)
        return self._kept(made, a, b)

    def _beside(self, a: Ratio, b: Ratio) -> int | None:
        """Roundings of a sum before its own. What is added to a float that was rounded is none, so
        that the float is exact wherever the sum is a whole number."""
        if a.roundings is None or b.roundings is None or (a.roundings and b.roundings):
            return None
        for rounded, other in ((a, b), (b, a)):
            if rounded.roundings and rounded.most * other.by > self._whole:
                return None
        return a.roundings + b.roundings

    def negative(self, a: Any) -> Ratio:
        a = self.of(a)
        return replace(a, over=-a.over, low=-a.high, high=-a.low)

    def times(self, a: Any, b: Any) -> Ratio:
        a, b = self.of(a), self.of(b)
        if b.number is None:
            a, b = b, a
        if b.number is not None and b.number < 0:
            return self.times(self.negative(a), self.negative(b))
        if min(a.low, b.low) < 0 and b.number is None:
            raise Undecided
        roundings = None if a.roundings != 0 or b.roundings != 0 else 0
        with np.errstate(all="ignore"):
            ends = a.low * b.low, a.high * b.high
        return self._kept(Ratio(a.over * b.over, a.by * b.by, roundings, a.most, *ends), a)

    def over(self, a: Any, b: Any) -> Ratio:
        """By a number."""
        a, b = self.of(a), self.of(b)
        if not b.number:
            raise Undecided
        if b.number < 0:
            return self.over(self.negative(a), self.negative(b))
        over, by = b.number.numerator, b.number.denominator
        roundings = 0 if a.roundings == 0 else None
        with np.errstate(all="ignore"):
            ends = a.low / b.low, a.high / b.high
        return self._kept(Ratio(a.over * by, a.by * over, roundings, a.most, *ends), a)

    def decides(self, a: Ratio) -> bool:
        """Whether the float lies between the same whole numbers as the quotient."""
        return a.roundings is not None and 2 * a.roundings * a.most * a.by <= self._whole


def rounded(b: Builder, node: Any, inputs: Sequence[Any], results: Sequence[Any]) -> list[Any]:
    """The results of a node, those among them that are floats made whole as sizes.

    Args:
        b: for what is counted.
        node: that is translated.
        inputs, results: of it.
    """
    if node.domain in ("", "ai.onnx") and results and isinstance(results[0], Value):
        first = inputs[0] if inputs else None
        if node.op_type in _ROUNDED and isinstance(first, Value) and first.ratios is not None:
            return _whole(b, node, first, results[0]) or list(results)
        _note(node, inputs, results)
    return list(results)


def resized(scales: Value, sizes: Sequence[Size]) -> list[Size] | None:
    """What sizes become that are multiplied by scales, where these are exact quotients of others,
    and the products are whole: 4 times (h // 8) / 4. None where nothing is known of them, or that
    is not so.
    """
    if scales.ratios is None or scales.ratios.size != len(sizes):
        return None
    floats, found = _Floats(scales.dtype), []
    for each, size in zip(scales.ratios.reshape(-1), sizes, strict=True):
        ratio = floats.of(each)
        if ratio.roundings != 0 or ratio.low <= 0:
            return None
        whole, rest = _divided(ratio.over * size, ratio.by)
        if rest != 0:
            return None
        found.append(whole)
    return found


def _divided(size: Size, by: int) -> tuple[Size, Size]:
    return divided(size, by) if isinstance(size, Extent) else divmod(size, by)


def _note(node: Any, inputs: Sequence[Any], results: Sequence[Any]) -> None:
    """Note what floats that a node makes of sizes are."""
    made: Any = results[0]
    if made.dtype not in _WHOLE or any(not isinstance(value, Value) for value in inputs):
        return
    if not any(value.ratios is not None or value.elements is not None for value in inputs):
        return
    floats = _Floats(made.dtype)
    functions: dict[str, Callable[..., Any]] = {
        "Add": floats.plus,
        "Sub": lambda a, b: floats.plus(a, floats.negative(b)),
        "Mul": floats.times,
        "Div": floats.over,
        "Neg": floats.negative,
    }
    function = functions.get(node.op_type)
    try:
        if function is not None:
            given = [_floats_of(value) for value in inputs]
            found = arithmetic.of_each(function, given)
        else:
            found = arithmetic.moved(node, [_floats_or_sizes(value) for value in inputs])
    except (Undecided, *MISFITS):
        return
    for value, ratios in zip(results, found, strict=False):
        if isinstance(value, Value) and value.shape == ratios.shape and value.const is None:
            value.ratios = ratios


def _floats_of(value: Value) -> np.ndarray:
    """What is known of the floats of a tensor: ratios, sizes, or numbers."""
    known = value.ratios if value.ratios is not None else value.elements
    if known is None and value.const is not None and value.size <= _MOST_FLOATS:
        known = value.const.astype(np.float64).astype(object)
    if known is None or value.dtype not in _WHOLE:
        raise Undecided
    return known


def _floats_or_sizes(value: Value) -> np.ndarray:
    """The same, of places and shapes too."""
    if value.dtype in _WHOLE:
        return _floats_of(value)
    if value.const is None:
        raise Undecided
    return value.const


def _whole(b: Builder, node: Any, value: Value, made: Value) -> list[Any] | None:
    """Sizes of floats that are made whole; None where one may be negative, or is another float."""
    kinds = {attribute.name: attribute_value(attribute) for attribute in node.attribute}
    if node.op_type == "Cast":
        kind = dtypes.from_onnx(kinds["to"])
        if kind not in ("int32", "int64"):
            return None
    floats, ratios = _Floats(value.dtype), value.ratios
    assert ratios is not None
    elements = np.empty(value.shape, object)
    for place, each in enumerate(ratios.reshape(-1)):
        ratio = floats.of(each)
        low, high = (int(_ROUNDED[node.op_type](end)) for end in (ratio.low, ratio.high))
        if low < 0 or high > min(_WHOLE[value.dtype], (1 << 31) - 1):
            return None
        size = _quotient(b, node, ratio) if floats.decides(ratio) else None
        if size is None:
            flat = b.reshape(made, [made.size])
            number = b.reshape(b.slice_along(flat, 0, place, 1), [])
            number = b.elementwise(lambda s, n: s.cast(n, "int64"), number, dtype="int64")
            size = low if low == high else b.count(node.output[0], number, high, low)
        elements.reshape(-1)[place] = size
    return [b.numbers(elements, made.dtype)]


def _quotient(b: Builder, node: Any, ratio: Ratio) -> Size | None:
    """``over / by``, rounded as the node does; None where that is no quotient rounded down."""
    over, by = ratio.over, ratio.by
    if node.op_type == "Ceil":
        over = over + (by - 1)
    if node.op_type == "Round":
        if by % 2 == 0:  # halves go to even numbers
            return None
        over, by = over * 2 + by, by * 2
    beyond = max(-(lowest(over) // by), 0)  # a quotient is asked of what is never negative
    return b.quotient(node.output[0], over + beyond * by, by) - beyond
