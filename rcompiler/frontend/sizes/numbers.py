"""Integers that a run computes, where they decide shapes.

    n = ReduceMax(lengths);  shape = Concat([2], [n + 1], [64]);  y = ConstantOfShape(shape)

Of a few integers it is noted what each is in terms of those that no node makes of others: [2,
n + 1, 64]. Nothing is computed by that. Where an operator asks, such a number becomes a count,
which is a size as others are, and has room for what its bounds or a caller allow. Numbers that
decide shapes are from 0 on: the call where one is not is an error.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from rcompiler.frontend import dtypes
from rcompiler.frontend.body import Body
from rcompiler.frontend.builder import Builder, Value
from rcompiler.frontend.core import Range
from rcompiler.frontend.counted import counted, given_room
from rcompiler.frontend.likely import interval_of, most_of
from rcompiler.frontend.registry import Context
from rcompiler.frontend.scalar import Scalar
from rcompiler.frontend.sized import bare
from rcompiler.frontend.value import Leaf, Numbers
from rcompiler.support.extent import Extent, Size, Symbol, lowest

_MOST_GUESSED = 2  # numbers of a shape, of which the product is the room
_MOST = 64  # numbers of a tensor that are looked at
MOST_ROOM = 1 << 24  # what is bounded by more is not bounded


def may_be_numbers(value: Any) -> bool:
    """Whether a run computes it, and it is small."""
    return (
        isinstance(value, Value)
        and value.dtype in ("int32", "int64", "bool")
        and value.size <= _MOST
        and value.const is None
        and value.whole is None
        and value.elements is None
    )


def numbers_of(b: Builder, value: Value) -> Numbers | None:
    """What the elements of a tensor are; None where it is none of a few integers."""
    if value.elements is not None:
        return Numbers(value.elements, frozenset())
    if value.numbers is not None:
        return value.numbers
    if value.const is not None and value.size <= _MOST:
        if value.dtype == "bool":
            return Numbers(value.const.astype(bool), frozenset())
        if value.dtype in ("int32", "int64"):
            return Numbers(value.const.astype(object), frozenset())
    return _leaves(b, value)


def _leaves(b: Builder, value: Value) -> Numbers | None:
    """Each element as a number of its own, under the name of the tensor that it is one of."""
    if not may_be_numbers(value) or value.dtype == "bool":
        return None
    source = value if value.base is None else value.base
    low, high = value.bounds or (0, -1)
    if high < 0 or not source.name:
        return None
    if source.likely is None:
        source.likely = interval_of(value)
    elements = np.empty(value.size, object)
    for place in range(value.size):
        name = f"{source.name}[{place}]"
        leaf = b.leaves.setdefault(name, Leaf(Symbol(name, max(low, 0), high), source, place, low))
        elements[place] = Extent.of(leaf.symbol)
    return Numbers(elements.reshape(value.shape), frozenset())


def leaves_in(b: Builder, elements: np.ndarray) -> set[Symbol]:
    """The numbers of tensors that these are made of."""
    sizes = (each for each in elements.reshape(-1) if isinstance(each, Extent))
    return {symbol for size in sizes for symbol in size.symbols if symbol.name in b.leaves}


def of_one_leaf(b: Builder, value: Value, numbers: Numbers) -> Numbers:
    """With what is made of several numbers as one of its own: a sum of durations, say."""
    flat, own = numbers.elements.reshape(-1).copy(), _leaves(b, value)
    for place in range(flat.size):
        if own is not None and len(leaves_in(b, flat[place : place + 1])) > 1:
            flat[place] = own.elements.reshape(-1)[place]
    elements = flat.reshape(value.shape)
    return numbers._replace(elements=elements)


def is_computed(value: Value | None) -> bool:
    """Whether its elements are numbers that only a run knows, of which no size is known."""
    return value is not None and value.const is None and value.elements is None


def computed_sizes(ctx: Context, index: int) -> list[Size]:
    """The sizes that input ``index`` has, which a run computes.

    Raises UnsupportedOp where nothing says how large they may be.
    """
    b, value = ctx.b, ctx.input(index)
    for numbers in (numbers_of(b, value), _leaves(b, value)):
        if numbers is None:
            continue
        elements = list(numbers.elements.reshape(-1))
        own = sorted(leaves_in(b, numbers.elements))
        if not numbers.trusted.issubset(own):  # what would not be looked at
            continue
        if any(lowest(each) < 0 for each in elements if isinstance(each, Extent)):
            continue
        if given_room(ctx) is None and sum(not _has_bound(b, each) for each in own) > _MOST_GUESSED:
            raise ctx.run_time(index, "it decides the result's shape")
        sizes = {symbol: _size(ctx, symbol, index) for symbol in own}
        for symbol in own:
            _expect_no_less_than_nothing(ctx, symbol, sizes[symbol])
        return [each.replaced(sizes) if isinstance(each, Extent) else each for each in elements]
    raise ctx.run_time(index)


def computed_size(ctx: Context, index: int) -> Size | None:
    """How many places there are below input ``index``, one number of a run: none below one that is
    negative. None where it is nothing that sizes are made of.
    """
    numbers = numbers_of(ctx.b, ctx.input(index))
    if numbers is None or numbers.elements.size != 1:
        return None
    [size] = numbers.elements.reshape(-1)
    if not isinstance(size, Extent):
        return size if size > 0 else 0
    own = leaves_in(ctx.b, numbers.elements)
    if own and size == Extent.of(size.symbols[0]) and not numbers.trusted:
        return _size(ctx, size.symbols[0], index)
    return size if not own and lowest(size) >= 0 else None


def _has_bound(b: Builder, leaf: Symbol) -> bool:
    """Whether there is room for a number without a word of a caller."""
    likely = most_of(b.leaves[leaf.name].value, MOST_ROOM)
    return leaf.high <= MOST_ROOM or likely is not None or leaf in b.number_sizes


def _size(ctx: Context, leaf: Symbol, index: int) -> Extent:
    """A number as a count: one for all that ask, in the room that the first one has for it."""
    b, given = ctx.b, given_room(ctx)
    known = b.number_sizes.get(leaf)
    if known is not None and known.symbols[0] in b.counts:
        return known
    low, most, room = b.leaves[leaf.name].low, leaf.high, given
    if most > MOST_ROOM:
        if room is None:
            room = most_of(b.leaves[leaf.name].value, MOST_ROOM)
        if room is None:
            raise without_bound(ctx, index)
        most = int(dtypes.limits("int64")[1])
    room = most if room is None else min(most, room)
    number = _element(b, leaf)
    if low < 0:
        number = b.elementwise(lambda s, n: s.maximum(n, 0), number)
    found = counted(ctx, number, room, most)
    b.number_sizes[leaf] = found
    return found


def _element(b: Builder, leaf: Symbol) -> Value:
    """One of the numbers of a tensor, as int64."""
    own = b.leaves[leaf.name]
    flat = b.reshape(own.value, [own.value.size])
    number = b.reshape(b.slice_along(flat, 0, own.place, 1), [])
    return b.elementwise(lambda s, n: s.cast(n, "int64"), number, dtype="int64")


def _expect_no_less_than_nothing(ctx: Context, leaf: Symbol, size: Extent) -> None:
    """Note that a number which decides a shape is not negative."""
    b = ctx.b
    if b.leaves[leaf.name].low >= 0:
        return
    below = b.elementwise(lambda s, n: s.minimum(n, 0), _element(b, leaf))
    reader = f"{ctx.op} '{ctx.name}'"
    says = f"{reader} is to make {{}} elements along an axis, as the model has computed"
    b.expect_with({b.counts[size.symbols[0]].name}, below, Range(0, 0, reader, says))


def without_bound(ctx: Context, index: int) -> Any:
    """``raise without_bound(...)``: an input is asked for, or how much it is at most."""
    name = next(name for name in ctx.outputs if name)
    why = f"it decides the result's shape, unless bounds={{'{name}': ...}} does"
    return ctx.run_time(index, why, (name,))


def inferred(ctx: Context, index: int) -> tuple[list[Size], int | None] | None:
    """The sizes of a shape in which one alone is a number that only a run knows: -1 in its place,
    which is the second; None where there are more of them.
    """
    numbers = numbers_of(ctx.b, ctx.input(index))
    if numbers is None or numbers.elements.ndim != 1:
        return None
    elements = list(numbers.elements)
    unknown = [k for k in range(len(elements)) if leaves_in(ctx.b, numbers.elements[k : k + 1])]
    own = leaves_in(ctx.b, numbers.elements)
    if len(unknown) != 1 or -1 in elements or not numbers.trusted <= own:
        return None
    elements[unknown[0]] = -1
    return elements, unknown[0]


def are_sizes(ctx: Context, index: int) -> bool:
    """Whether the numbers of an input, which a run computes, are sizes of tensors already."""
    numbers = numbers_of(ctx.b, ctx.input(index))
    return numbers is not None and leaves_in(ctx.b, numbers.elements) <= set(ctx.b.number_sizes)


def expect_size(ctx: Context, index: int, place: int, size: Size, made: Value) -> None:
    """Note that one number of an input is this size, or -1, where a result is read."""
    b = ctx.b
    own = _leaves(b, ctx.input(index))
    assert own is not None
    [number] = own.elements[place].symbols

    def wrong(s: Body, n: Scalar, size: Scalar) -> Scalar:
        return s.select(n.eq(size) | n.eq(-1), 0, s.const(1, "int64"))

    other = b.elementwise(wrong, _element(b, number), b.number(size))
    reader = f"{ctx.op} '{ctx.name}'"
    says = f"{reader} has elements that do not fit the shape which the model computes for them"
    b.expect_with({bare(made).name.partition("#")[0]}, other, Range(0, 0, reader, says))
