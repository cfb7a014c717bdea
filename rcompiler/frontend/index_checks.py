"""Results that say whether indices which a model computes lead out of a tensor.

A lowering reads at clamped positions, so that no memory is touched wrongly, and expects its indices
in a range (`Core.expect`). For each such tensor the model has one more result behind its outputs:
an index that is outside, or 0 where all are inside. The runtime looks at it after a call. A node
that the outputs do not need is not looked at: it does not run. Where what is said of an index has
a size in it that only a run tells, one more result behind it is that size.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import reduce
from operator import and_
from typing import Any

from rcompiler.support.extent import SIZE_BESIDE

from .body import Body
from .builder import Builder, Value
from .core import Expected, Range
from .scalar import Scalar
from .sized import bare


def index_checks(b: Builder, results: Sequence[Value]) -> list[tuple[Value, Range]]:
    """int64 scalars, each with the range, and who reads there."""
    if not b.expected:
        return []
    sizes = b.sizes_computed([("", value) for value in results])
    live = {"", *b.needed([*results, *(b.counts[symbol] for symbol in sizes)])}
    kept: dict[Any, list[Expected]] = {}
    for each in b.expected:
        if each.readers.isdisjoint(live):
            continue
        others = kept.setdefault((bare(each.value).name, each.value.extents, each.when), [])
        if not any(each.range.holds(other.range) for other in others):
            others[:] = [other for other in others if not other.range.holds(each.range)]
            others.append(each)
    return [told for found in kept.values() for each in found for told in _answers(b, each)]


def _answers(b: Builder, expected: Expected) -> Iterator[tuple[Value, Range]]:
    """What is outside, and behind it the size that is said beside it, or 0 where all is well."""
    wrong = outside(b, expected)
    yield wrong, expected.range
    if expected.size is not None:
        beside = b.elementwise(
            lambda s, a, size: s.select(a.ne(0), size, 0), wrong, b.reshape(expected.size, [])
        )
        yield beside, Range(0, 0, expected.range.reader, SIZE_BESIDE)


def outside(b: Builder, expected: Expected) -> Value:
    """Of the elements that are outside the one that is greatest without a sign; 0 for none."""
    first, last, *_ = expected.range
    assert first <= 0 <= last, "0 says that all is well"

    def worst(s: Body, at: Scalar, found: Scalar) -> Scalar:
        at = s.cast(at, "int64")
        outside = s.as_type(at - first, "uint64") > last - first  # both sides at once
        return s.maximum(found, s.as_type(s.select(outside, at, 0), "uint64"))

    b.at(f"{expected.location}.indices", "outside")
    value = expected.value
    if not any(value.extents):
        value = b.reshape(value, [value.size])
    found = b.reduce(value, range(value.rank), 0, worst, dtype="uint64")
    if expected.when:
        conditions = [b.reshape(v, []) for v in expected.when]
        found = b.elementwise(_where_all, found, *conditions)
    return Value(found.name, (), "int64", inputs=found.inputs)


def _where_all(s: Body, found: Scalar, *conditions: Scalar) -> Scalar:
    return s.select(reduce(and_, conditions), found, 0)
