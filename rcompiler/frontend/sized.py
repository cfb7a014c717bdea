"""Builder methods on tensors of which only a part is there: sizes that are known at run time.

Each method of the layers below is asked with whole tensors, at their bounds, and the result is
told which part of it is the answer (`Value.extents`). What lies behind that part is never looked
at: what is folded along such an axis is masked first, by a number that changes nothing.

    %inside = arith.cmpi slt, %position, %size : i64        // of the axis, at run time
    %a = arith.select %inside, %element, %neutral : f32     // in the body of a generic, so it fuses
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from rcompiler.support.extent import (
    Extent,
    Size,
    highest,
    product,
)

from . import dtypes
from .body import Body
from .core import Fn, dims, stored
from .scalar import Number, Scalar
from .size_counts import SizeCounts
from .sized_reshapes import keeps_prefix, reshaped_extents
from .value import SizeAtRunTime, Value, extent_of

_DIM = re.compile(r"d(\d+)")


def sized(value: Value) -> bool:
    """Whether only a part of it is there."""
    return value.whole is not None


def bare(value: Value) -> Value:
    """All elements, also those that are no answer."""
    return value if value.whole is None else value.whole


class SizedOps(SizeCounts):
    """The part of Builder that knows of sizes at run time."""

    def masked(
        self, value: Value, axes: Iterable[int] | None = None, number: Number | Value = 0
    ) -> Value:
        """With ``number``, which may be a scalar that is computed, where nothing is along axes
        (default: all): there all is there now."""
        axes = range(value.rank) if axes is None else axes
        partial = [axis for axis in axes if value.extents[axis] is not None]
        if isinstance(number, Value) and number.const is not None:
            number = number.const.reshape(-1)[0]
        is_zero = not isinstance(number, Value) and not number
        cut = [axis for axis in partial if not is_zero or axis not in value.zeros]
        if not cut:
            left = (None if axis in partial else e for axis, e in enumerate(value.extents))
            return self.sized(bare(value), left)
        ends = [self.end(value, axis) for axis in cut]
        kind = dtypes.position_type(max(value.shape))  # narrow positions are compared in vectors

        filled = [(number, "")] if isinstance(number, Value) else []

        def body(s: Body, a: Scalar, *rest: Scalar) -> Scalar:
            ends, fill = rest[: len(cut)], rest[len(cut) :]
            pairs = zip(cut, ends, strict=True)
            inside = [s.cast(s.index(d), kind) < s.cast(end, kind) for d, end in pairs]
            both = inside[0]
            for each in inside[1:]:
                both = both & each
            return s.select(both, a, fill[0] if fill else s.const(stored(number, a.dtype), a.dtype))

        whole = bare(value)
        reads = [(whole, ", ".join(dims(value.rank))), *ends, *filled]
        made = self.tabulate(whole.shape, whole.dtype, body, *reads)
        rest = [None if axis in partial else extent for axis, extent in enumerate(value.extents)]
        return self.sized(made, rest)

    def counted(self, value: Value, axes: Sequence[int], keepdims: bool) -> Value:
        """How many elements are there along axes: a scalar, or where that differs between requests
        in the shape that is left of the tensor."""
        differing = [axis for axis in axes if self.length_along(value, axis)]
        beside = product(value.sizes[axis] for axis in axes if axis not in differing[:1])
        if not differing:
            return self.number(beside)
        counts, read = self.end(value, differing[0])
        if read:
            left = [d for d in range(value.rank) if keepdims or d not in axes]
            of = [read == f"d{d}" for d in left]
            shape = [value.shape[d] if own else 1 for d, own in zip(left, of, strict=True)]
            extents = [value.extents[d] if own else None for d, own in zip(left, of, strict=True)]
            counts = self.sized(self.reshape(counts, shape), extents)
        return self.elementwise(lambda s, n, m: n * m, counts, self.number(beside))

    # -- generics -------------------------------------------------------------------------------
    def tabulate(
        self, shape: Sequence[int], dtype: str, fn: Fn, *reads: tuple[Value, str]
    ) -> Value:
        if not any(sized(value) for value, _ in reads):
            return super().tabulate(shape, dtype, fn, *reads)
        extents = _extents_of_dims(reads)
        made = super().tabulate(shape, dtype, fn, *((bare(value), own) for value, own in reads))
        return self.sized(made, (extents.get(d) for d in range(len(shape))))

    def fold(
        self,
        reads: Sequence[tuple[Value, str]],
        shape: Sequence[int],
        dtype: str,
        init: Number,
        iterators: str,
        fn: Fn,
        write: str | None = None,
    ) -> Value:
        """As below; with ``init`` for every element that is not there, ``fn`` must not change what
        it folds, as it is with sums of products, maxima and the like.
        """
        if not any(sized(value) for value, _ in reads):
            return super().fold(reads, shape, dtype, init, iterators, fn, write)
        extents = _extents_of_dims(reads)
        within = []
        for value, own in reads:
            folded = [
                axis
                for axis, dim in enumerate(_results(own))
                if value.extents[axis] is not None and iterators[int(dim[1:])] == "r"
            ]
            within.append((bare(self.masked(value, folded, init)), own))
        made = super().fold(within, shape, dtype, init, iterators, fn, write)
        written = dims(len(shape)) if write is None else _results(write)
        return self.sized(made, (extents.get(int(dim[1:])) for dim in written))

    # -- layout ---------------------------------------------------------------------------------
    def reshape(
        self, value: Value, shape: Sequence[int], extents: Sequence[Extent | None] | None = None
    ) -> Value:
        """As below. extents: of the result; default: what they must be, if each dimension that is
        not all there stays the first of its group."""
        if not sized(value):
            assert extents is None or not any(extents)
            return super().reshape(value, shape)
        if extents is None:
            extents = reshaped_extents(value.sizes, value.shape, shape)
        sizes = [d if e is None else e for d, e in zip(shape, extents, strict=True)]
        if keeps_prefix(value.sizes, value.shape, sizes, shape):
            return self.sized(super().reshape(bare(value), shape), extents)
        return self.sized(self._rearranged(value, shape, sizes), extents)

    def _rearranged(self, value: Value, shape: Sequence[int], sizes: Sequence[Size]) -> Value:
        """The elements that are there, in row-major order under another shape."""
        own, wanted = ([self.number(size) for size in each] for each in (value.sizes, sizes))
        whole = bare(value)

        def body(s: Body, *ends: Scalar) -> Scalar:
            # none of them is 0 where an element is there
            counts = [s.maximum(s.cast(end, "index"), 1) for end in ends]
            left, position = counts[len(own) :], s.const(0, "index")
            for d, count in enumerate(left):
                position = position * count + s.index(d)
            at: list[Scalar] = []
            for count in reversed(counts[1 : len(own)]):
                at.insert(0, s.rem(position, count))
                position = position / count
            at.insert(0, s.minimum(position, whole.shape[0] - 1))
            return s.extract(whole, at)

        reads = [(size, "") for size in (*own, *wanted)]
        return self.tabulate(shape, value.dtype, body, *reads)

    def transpose(self, value: Value, perm: Sequence[int]) -> Value:
        if not sized(value):
            return super().transpose(value, perm)
        made = self.sized(super().transpose(bare(value), perm), [value.extents[p] for p in perm])
        made.zeros = frozenset(axis for axis, p in enumerate(perm) if p in value.zeros)
        return made

    def broadcast_to(
        self, value: Value, shape: Sequence[int], extents: Sequence[Extent | None] | None = None
    ) -> Value:
        """As below. extents: of the result, where it has some that the tensor has not."""
        if not sized(value) and (extents is None or not any(extents)):
            return super().broadcast_to(value, shape)
        own = [None] * (len(shape) - value.rank) + list(value.extents)
        wanted = own if extents is None else list(extents)
        for d, (extent, to) in enumerate(zip(own, wanted, strict=True)):
            repeated = d < len(shape) - value.rank or value.shape[d - len(shape)] == 1
            if extent != to and not (extent is None and repeated):
                raise SizeAtRunTime(f"{extent} elements are not repeated to {to}")
        return self.sized(super().broadcast_to(bare(value), shape), wanted)

    def slice(
        self,
        value: Value,
        starts: Sequence[int],
        sizes: Sequence[int],
        steps: Sequence[int] | None = None,
    ) -> Value:
        if not sized(value):
            return super().slice(value, starts, sizes, steps)
        for axis, extent in enumerate(value.extents):
            whole = starts[axis] == 0 and sizes[axis] == value.shape[axis]
            if extent is not None and not (whole and (steps is None or steps[axis] == 1)):
                raise SizeAtRunTime(f"axis {axis} of {value!r} is cut")
        return self.sized(super().slice(bare(value), starts, sizes, steps), value.extents)

    def pad(
        self, value: Value, low: Sequence[int], high: Sequence[int], number: Number = 0
    ) -> Value:
        if not sized(value):
            return super().pad(value, low, high, number)
        for axis, extent in enumerate(value.extents):
            if extent is not None and (low[axis] or high[axis]):
                raise SizeAtRunTime(f"axis {axis} of {value!r} is padded")
        return self.sized(super().pad(bare(value), low, high, number), value.extents)

    def concat(self, values: Sequence[Value], axis: int) -> Value:
        """As below; along an axis that is not all there each part begins where the one before it
        ends."""
        if not any(map(sized, values)):
            return super().concat(values, axis)
        sides = {v.extents[:axis] + v.extents[axis + 1 :] for v in values}
        if len(sides) > 1:
            raise SizeAtRunTime("the parts have different sizes beside the joined axis")
        total: Size = 0
        ends = [total := v.sizes[axis] + total for v in values]
        whole = [bare(v) for v in values]
        if any(v.extents[axis] is not None for v in values[:-1]):
            made = self._joined(whole, axis, ends)
        else:
            made = super().concat(whole, axis)
        extents = list(values[0].extents)
        extents[axis] = extent_of(total)
        return self.sized(made, extents)

    def _joined(self, values: Sequence[Value], axis: int, ends: Sequence[Size]) -> Value:
        """Parts along an axis, each up to its end; the last one has what is beyond."""
        shape = list(values[0].shape)
        shape[axis] = sum(v.shape[axis] for v in values)

        def body(s: Body, *counts: Scalar) -> Scalar:
            stops = [s.cast(count, "index") for count in counts]
            here, found = s.index(axis), None
            for number in reversed(range(len(values))):
                part, at = values[number], [s.index(d) for d in range(len(shape))]
                start = stops[number - 1] if number else s.const(0, "index")
                at[axis] = s.clamp(here - start, 0, part.shape[axis] - 1)
                element = s.extract(part, at)
                found = element if found is None else s.select(here < stops[number], element, found)
            assert found is not None
            return found

        reads = [(self.number(end), "") for end in ends[:-1]]
        return self.tabulate(shape, values[0].dtype, body, *reads)

    def picked(self, value: Value, axis: int, start: Size, size: Size, step: int = 1) -> Value:
        """``size`` elements of one axis from ``start`` on, where one of them, or the size of the
        axis, is known at run time only."""
        count = highest(size)
        shape = [count if d == axis else n for d, n in enumerate(value.shape)]
        extents = list(value.extents)
        extents[axis] = extent_of(size)
        whole, last = bare(value), value.shape[axis] - 1
        if isinstance(start, int) and step == 1 and start + count <= last + 1:
            return self.sized(self.slice_along(whole, axis, start, count), extents)

        def body(s: Body, first: Scalar) -> Scalar:
            at = [s.index(d) for d in range(len(shape))]
            at[axis] = s.clamp(s.cast(first, "index") + at[axis] * step, 0, last)
            return s.extract(whole, at)

        read = (self.number(start), "")
        return self.sized(self.tabulate(shape, value.dtype, body, read), extents)


def _results(map_: str) -> list[str]:
    return [each.strip() for each in map_.split(",")] if map_.strip() else []


def _extents_of_dims(reads: Sequence[tuple[Value, str]]) -> dict[int, Extent | None]:
    """What is there along each dim of a generic that reads tensors by these maps.

    Raises SizeAtRunTime where they do not agree, or an axis is not read element by element.
    """
    found: dict[int, Extent | None] = {}
    for value, map_ in reads:
        for extent, text in zip(value.extents, _results(map_), strict=True):
            dim = _DIM.fullmatch(text)
            if dim is None and extent is None:
                continue
            if dim is None:
                raise SizeAtRunTime(f"{extent} elements are read at '{text}'")
            known = found.setdefault(int(dim[1]), extent)
            if known != extent:
                told = [f"{each} elements" if each else "all elements" for each in (known, extent)]
                raise SizeAtRunTime(f"one operand has {told[0]} along an axis, another {told[1]}")
    return found
