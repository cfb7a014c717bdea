"""Several sizes of one model: what `shapes` asks for, as one binding of its dimensions a program.

    shapes={"batch": (1, 4), "seq": range(1, 513)}

asks for programs with a batch of 1 and of 4, and with every length up to 512. A tuple names sizes
that have a program each. A range is cut into buckets: a program up to each of their tops takes
every size below. Dimensions are named by their symbol, or by the input and the axis they are of.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from onnx import ModelProto

from rcompiler.errors import ShapeError
from rcompiler.support.dimension_names import multiple_of, names_in

from .declared import declared
from .signature import check_given

MOST_BUCKETS = 64
FOLLOWS = -1  # in the place of a symbol: a size that is made of others, as `past + seq`
# Of a dimension of which nothing is said: a batch, which is the first one, and all others. The tops
# are those where there are several such dimensions, whose programs multiply.
_BATCHES, _BATCH_TOPS = range(1, 9), (1, 8)
_LENGTHS, _LENGTH_TOPS = range(1, 129), (32, 128)
# Of a range, buckets begin at this part of its end: below, programs differ by little time.
_FINEST = 32

Interval = tuple[int, int]  # the least and the greatest size
Axis = int | tuple[int, int, int] | None


@dataclass(frozen=True)
class SizeSets:
    """The programs of a model.

    Attributes:
        symbols: of the dimensions that differ between calls.
        axes: by the names of inputs, of each axis the number of its symbol, with a factor and a
            number where it is a multiple of it and more; FOLLOWS; or None where all programs have
            the same size.
        buckets: of each program the sizes it takes, an interval for each symbol.
        bindings: the same as `import_onnx` wants them, in the same order.
        open_ended: whether others are added while the model serves.
    """

    symbols: tuple[str, ...]
    axes: Mapping[str, tuple[Axis, ...]]
    buckets: tuple[tuple[Interval, ...], ...]
    bindings: tuple[Mapping[str, Any], ...]
    open_ended: bool = False


def open_sets(
    model: ModelProto, symbols: Sequence[str], bucket: Sequence[Interval], fixed: Collection[str]
) -> SizeSets:
    """A first bucket of sizes of which nothing else is known yet.

    Args:
        model: whose open dimensions are symbols, or made of them.
        symbols: of all of them.
        bucket: an interval for each.
        fixed: inputs that are constants of the programs.
    """
    inputs = [value for value in model.graph.input if value.name not in fixed]
    axes = {value.name: tuple(_axes(value, tuple(symbols), None, {})) for value in inputs}
    return SizeSets(
        tuple(symbols), axes, (tuple(bucket),), (binding_of(symbols, bucket),), open_ended=True
    )


def binding_of(symbols: Sequence[str], bucket: Sequence[Interval]) -> dict[str, Any]:
    """`shapes` of the program for a bucket: numbers, and ranges of what is known at run time.

    Args:
        symbols, bucket: as of `open_sets`.
    """
    pairs = zip(symbols, bucket, strict=True)
    return {s: low if low == high else range(low, high + 1) for s, (low, high) in pairs}


def sizes_of(
    model: ModelProto,
    shapes: Mapping[str, Any] | SizeSets | None,
    tops: Mapping[str, Sequence[int]] | None = None,
) -> SizeSets | None:
    """What `shapes` asks for; None where that is one program of one size.

    Args:
        model: whose inputs `shapes` speaks of.
        shapes: by symbol a size, a tuple of sizes or a range; by input one of these for each axis;
            or the answer itself.
        tops: by symbol the greatest size of each bucket, in the place of those chosen here.

    Raises:
        ShapeError: `shapes` names what the model has not, a set of sizes is empty or no sizes, the
            programs are too many, or the tops do not fit their range.
    """
    if isinstance(shapes, SizeSets):
        return shapes
    if shapes is None or not isinstance(shapes, Mapping):
        return None
    inputs = {value.name: value for value in model.graph.input}
    sets: dict[str, tuple[int, ...] | range] = {}
    fixed: dict[str, Any] = {}
    by_axis: dict[str, list[Any]] = {}  # of an input, of each axis a size or the name of a set
    for name, given in shapes.items():
        if name not in inputs:
            if (found := _set(name, given)) is None:
                fixed[name] = given
            else:
                _add(sets, name, found)
        elif isinstance(given, tuple | list) and any(_set(name, each) for each in given):
            by_axis[name] = []
            for axis, each in enumerate(given):
                symbol = _symbol(inputs[name], axis)
                if (found := _set(symbol, each)) is not None:
                    _add(sets, symbol, found)
                by_axis[name].append(each if found is None else symbol)
        else:
            fixed[name] = given
    if not sets:
        if tops:
            raise ShapeError(f"buckets={dict(tops)!r}: shapes has no range that they could cut")
        return None
    check_given(model, dict.fromkeys(shapes, 1), {})
    symbols = tuple(sets)
    intervals = [intervals_of(symbol, sets[symbol], tops, len(symbols)) for symbol in symbols]
    if (count := math.prod(map(len, intervals))) > MOST_BUCKETS:
        raise ShapeError(
            f"shapes={dict(shapes)!r} asks for {count} programs; at most {MOST_BUCKETS} are made "
            "of one model. Give fewer sizes, or buckets= with fewer tops"
        )
    buckets = tuple(itertools.product(*intervals))
    numbers = {name: size for name, size in fixed.items() if isinstance(size, int)}
    return SizeSets(
        symbols,
        {
            name: tuple(_axes(value, symbols, by_axis.get(name), numbers))
            for name, value in inputs.items()
        },
        buckets,
        tuple(_binding(fixed, by_axis, sets, symbols, bucket) for bucket in buckets),
    )


def with_defaults(
    model: ModelProto,
    shapes: Mapping[str, Any] | None,
    tops: Mapping[str, Sequence[int]] | None,
    fixed: Collection[str] = (),
) -> tuple[Mapping[str, Any] | None, Mapping[str, Sequence[int]] | None]:
    """`shapes` and `tops` with a range for each symbolic dimension of which they say nothing.

    Args:
        model, shapes, tops: as of `sizes_of`.
        fixed: inputs that are constants of the compiled model.
    """
    if shapes is not None and not isinstance(shapes, Mapping):
        return shapes, tops
    given = dict(shapes or {})
    found = declared(model).open_sizes(given, fixed)
    if not found:
        return shapes, tops
    cut = dict(tops or {})
    for name, first in found.items():
        sizes, own_tops = (_BATCHES, _BATCH_TOPS) if first else (_LENGTHS, _LENGTH_TOPS)
        factor = _greatest_factor(model, name)  # of 32*h, h is smaller
        given[name] = range(1, max(sizes[-1] // factor, 1) + 1)
        if len(found) > 1:
            cut.setdefault(name, tuple(sorted({max(top // factor, 1) for top in own_tops})))
    return given, cut or None


def _greatest_factor(model: ModelProto, symbol: str) -> int:
    """How many elements an axis has more, at most, for each one that a size is greater."""
    dims = {dim.dim_param for value in model.graph.input for dim in _dims(value)}
    found = [multiple_of(name) for name in dims]
    return max((factor for other, factor, _ in filter(None, found) if other == symbol), default=1)


def largest(
    model: ModelProto, shapes: Mapping[str, Any] | None, fixed: Collection[str] = ()
) -> Mapping[str, Any] | None:
    """`shapes` of the program for the largest sizes that are asked for.

    Args:
        model, shapes: as of `sizes_of`; of symbolic dimensions of which nothing is said the usual
            sizes.
        fixed: as of `with_defaults`.

    Raises:
        ShapeError: as `sizes_of`.
    """
    given, tops = with_defaults(model, shapes, None, fixed)
    sizes = sizes_of(model, given, tops)
    return given if sizes is None else sizes.bindings[-1]


def series(low: int, high: int) -> tuple[int, ...]:
    """Tops of the buckets of the sizes from `low` to `high`: four for each doubling from 16 on, two
    below, so that few sizes are padded by more than a quarter of themselves; those below a small
    part of `high` are one bucket.
    """
    powers = [2**k for k in range(high.bit_length())]
    finer = {power * step // 4 for power in powers if power >= 16 for step in (5, 7)}
    tops = sorted(finer.union(*((power, power * 3 // 2) for power in powers)))
    return (*(top for top in tops if max(low, high // _FINEST) <= top < high), high)


def intervals_of(
    symbol: str,
    sizes: tuple[int, ...] | range,
    tops: Mapping[str, Sequence[int]] | None,
    symbols: int,
) -> list[Interval]:
    """What each program of a dimension takes.

    Args:
        symbol: the name of the dimension.
        sizes: that there shall be programs for.
        tops: as of `sizes_of`.
        symbols: how many dimensions there are.

    Raises:
        ShapeError: the tops do not fit the sizes.
    """
    given = (tops or {}).get(symbol)
    if not isinstance(sizes, range):
        if given is not None:
            raise ShapeError(
                f"buckets['{symbol}']={given!r}: the sizes of '{symbol}' are named one by one, "
                "and have a program each"
            )
        return [(size, size) for size in sizes]
    low, high = sizes[0], sizes[-1]
    if given is None:
        # of several dimensions every second: programs multiply
        cuts = series(low, high)[:: -1 if symbols == 1 else -2][::-1]
    else:
        cuts = tuple(sorted(set(given)))
        if not cuts or cuts[0] < low or cuts[-1] != high:
            raise ShapeError(
                f"buckets['{symbol}']={given!r}: give sizes from {low} to {high}, the last one "
                f"{high}, as shapes has {sizes!r}"
            )
    return [(low, top) for top in cuts]


def _add(sets: dict[str, tuple[int, ...] | range], symbol: str, sizes: Any) -> None:
    if sets.setdefault(symbol, sizes) != sizes:
        raise ShapeError(
            f"shapes: two entries want different sizes of '{symbol}', {sets[symbol]!r} and "
            f"{sizes!r}; give them once"
        )


def _set(name: str, given: Any) -> tuple[int, ...] | range | None:
    """A set of sizes; None for anything else, which is checked where it is read."""
    if isinstance(given, range) and given.step == 1:
        if not len(given) or given[0] < 0:
            raise ShapeError(
                f"shapes['{name}'] is {given!r}; a range of sizes has a least one that is not "
                "negative, as range(1, 513) for 1 to 512"
            )
        return given
    if not isinstance(given, tuple | list | range | set | frozenset):
        return None
    each = sorted(set(given)) if all(isinstance(n, int) for n in given) else []
    if not each or each[0] < 0 or any(isinstance(n, bool) for n in given):
        raise ShapeError(f"shapes['{name}']={given!r}: give sizes, such as (1, 4, 8)")
    return tuple(each)


def _dims(value: Any) -> Any:
    return value.type.tensor_type.shape.dim


def _symbol(value: Any, axis: int) -> str:
    """What the axis of an input is called: by its symbol, if it has one."""
    dims = _dims(value)
    own = dims[axis].dim_param if axis < len(dims) else ""
    return own or f"{value.name}[{axis}]"


def _axes(
    value: Any, symbols: tuple[str, ...], given: list[Any] | None, numbers: Mapping[str, int]
) -> Iterator[Axis]:
    names = given or [dim.dim_param for dim in _dims(value)]
    for name in names:
        if name in symbols:
            yield symbols.index(name)
        elif not isinstance(name, str) or not name or {*names_in(name)}.isdisjoint(symbols):
            yield None
        else:
            found = multiple_of(name, numbers)
            known = found is not None and found[0] in symbols
            yield (symbols.index(found[0]), *found[1:]) if found and known else FOLLOWS


def _binding(
    fixed: Mapping[str, Any],
    by_axis: Mapping[str, list[Any]],
    sets: Mapping[str, Any],
    symbols: tuple[str, ...],
    bucket: tuple[Interval, ...],
) -> dict[str, Any]:
    """`shapes` of one program: of what was a range the range up to its top, else sizes."""
    sizes: dict[str, Any] = {
        symbol: range(low, high + 1) if isinstance(sets[symbol], range) else high
        for symbol, (low, high) in zip(symbols, bucket, strict=True)
    }
    own = {name: tuple(sizes.get(e, e) for e in each) for name, each in by_axis.items()}
    listed = {symbol for each in by_axis.values() for symbol in each}
    named = {s: size for s, size in sizes.items() if s not in listed or "[" not in s}
    return {**fixed, **named, **own}
