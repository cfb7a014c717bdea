"""What a caller says of packed batches, as one packing a program.

    compile_onnx(model, shapes={"batch": 8, "seq": range(1, 513)}, packed=("batch", "seq"))

asks for calls of 1 to 8 requests, each of 1 to 512 positions. The positions of all of them lie one
behind the other: they are the *rows* of a call. Programs differ in how many rows they take, and how
long the longest request is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from onnx import ModelProto

from rcompiler.errors import ShapeError
from rcompiler.frontend import binding
from rcompiler.frontend.signature import check_given
from rcompiler.frontend.size_sets import MOST_BUCKETS, Interval, intervals_of
from rcompiler.support.extent import Extent, Symbol
from rcompiler.support.packed_names import LENGTHS, ROWS

_SCALES = 2, 4  # of the room of groups
_LEAST_ROOM = 64  # of the longest request: with less, attention is a small part of a program


@dataclass(frozen=True)
class Group:
    """Requests that are next to each other in the order of their lengths, the longest first.

    Attributes:
        first: the number of the first.
        count: how many.
        longest: what none of them is longer than.
    """

    first: int
    count: int
    longest: int


@dataclass(frozen=True)
class Packing:
    """What one program takes.

    Attributes:
        shapes: of the inputs, as of `import_onnx`.
        batch: the number of requests.
        seq: the length of a request.
        rows: the positions of all requests together.
    """

    shapes: Mapping[str, Any]
    batch: Symbol
    seq: Symbol
    rows: Symbol

    @property
    def both(self) -> Extent:
        """The size of an axis that has joined the two, as symbols."""
        made = Extent.of(self.batch) * Extent.of(self.seq)
        assert isinstance(made, Extent)
        return made

    def tiers(self) -> list[list[Group]]:
        """Groups with less and less work, one of which a call chooses: with all of their room; with
        half of it, and a quarter; and of requests that are all alike, a quarter of the longest.
        """
        whole, longest = self.groups(), self.seq.high
        smaller = [self.groups(scale) for scale in _SCALES if longest // scale >= _LEAST_ROOM]
        if longest // _SCALES[-1] >= _LEAST_ROOM:
            smaller.append(self.groups(cap=-(-longest // _SCALES[-1])))
        found = []
        for tier in smaller:
            if tier != whole and tier not in found:
                found.append(tier)
        return [whole, *sorted(found, key=_work, reverse=True)]

    def groups(self, scale: int = 1, cap: int | None = None) -> list[Group]:
        """The requests 0, 1, 2 and 3, 4 to 7, and so on.

        Of requests in the order of their lengths, number n is not longer than a part n + 1 of all
        rows. So few of them need the room of the longest.

        Args:
            scale: what part of that room there is.
            cap: the most room that there is; None for the greatest length.
        """
        found: list[Group] = []
        first = 0
        while first < self.batch.high:
            count = min(max(first, 1), self.batch.high - first)
            # an axis of one element would be taken for one that is broadcast
            longest = min(cap or self.seq.high, self.rows.high // (first + 1))
            longest = max(2, -(-longest // scale))
            # the last one has several, by which axes of requests are told from others
            alone = first + count == self.batch.high and count == 1
            if found and (alone or found[-1].longest == longest):
                found[-1] = replace(found[-1], count=found[-1].count + count)
            else:
                found.append(Group(first, count, longest))
            first += count
        return found


@dataclass(frozen=True)
class Packings:
    """The programs of a model.

    Attributes:
        buckets: of each program the rows and the lengths that it takes.
        bindings: the same as `import_onnx` wants them, in the same order.
    """

    buckets: tuple[tuple[Interval, ...], ...]
    bindings: tuple[Packing, ...]

    @property
    def symbols(self) -> tuple[str, str]:
        """What the programs differ in."""
        return ROWS, self.bindings[0].seq.name


def packings_of(
    model: ModelProto,
    shapes: Mapping[str, Any] | None,
    tops: Mapping[str, Sequence[int]] | None,
    packed: Any,
) -> Packings:
    """What `shapes` asks for.

    Args:
        model: whose inputs `shapes` speaks of.
        shapes: sizes of symbolic dimensions: of the first of the packed ones the most requests of a
            call, or a range from 1 to it; of the second a range of lengths; of all others a number.
        tops: the greatest rows ("rows") and the greatest length of each bucket, in the place of
            those that are chosen here; the last one of the rows is the most that a call may have.
        packed: the names of the two dimensions, which are next to each other in inputs.

    Raises:
        ShapeError: `packed` or `shapes` says something else, the model has no such dimensions, or
            the programs are too many.
    """
    pair = tuple(packed) if isinstance(packed, tuple | list) else ()
    if len(pair) != 2 or not all(isinstance(name, str) for name in pair) or pair[0] == pair[1]:
        raise ShapeError(
            f"packed={packed!r}: give the names of two dimensions of inputs, that of the requests "
            'and that of their lengths, as in ("batch", "seq")'
        )
    given = {} if shapes is None else shapes
    check_given(model, given, {})
    for name in pair:
        if name not in given:
            raise ShapeError(f"packed={packed!r}: shapes says nothing of '{name}'; give its sizes")
    batch, seq = (_symbol(name, given[name]) for name in pair)
    _check_inputs(model, given, *pair)
    if tops is not None and not set(tops) <= {ROWS, seq.name}:
        raise ShapeError(
            f"buckets={dict(tops)!r}: of a packed model give tops of '{ROWS}' and '{seq.name}'"
        )
    lengths = range(seq.low, seq.high + 1)
    # the length is chosen at run time, too
    cuts = {seq.name: (seq.high,), **(tops or {})}
    each = intervals_of(seq.name, lengths, cuts, 2)
    most = batch.high * seq.high
    if tops and tops.get(ROWS):  # a caller may know that there are fewer
        most = min(most, max(tops[ROWS]))
    rows = intervals_of(ROWS, range(max(seq.low, 2), most + 1), tops, 2)
    rows = [(seq.low, top) for _, top in rows]
    buckets = [
        (many, longest)
        for n, many in enumerate(rows)
        for m, longest in enumerate(each)
        # what a program for fewer rows, or shorter requests, takes anyway
        if not (n and rows[n - 1][1] >= batch.high * longest[1])
        and not (m and each[m - 1][1] >= many[1])
    ]
    if len(buckets) > MOST_BUCKETS:
        raise ShapeError(
            f"packed={packed!r}: {len(buckets)} programs are asked for; at most {MOST_BUCKETS} are "
            "made of one model. Give buckets= with fewer tops"
        )
    made = tuple(_packing(given, batch, seq, *bucket) for bucket in buckets)
    return Packings(tuple(buckets), made)


def _work(groups: list[Group]) -> int:
    """Pairs of positions in attention."""
    return sum(group.count * group.longest**2 for group in groups)


def _packing(
    given: Mapping[str, Any], batch: Symbol, seq: Symbol, many: Interval, longest: Interval
) -> Packing:
    # of more than one number each, so that they are sizes at run time
    high = max(min(longest[1], many[1]), seq.low + 1)
    sizes = {
        batch.name: range(batch.low, batch.high + 1),
        seq.name: range(seq.low, high + 1),
    }
    return Packing({**given, **sizes}, batch, Symbol(seq.name, seq.low, high), Symbol(ROWS, *many))


def _symbol(name: str, given: Any) -> Symbol:
    """What is said of a packed dimension. A number is the most there may be."""
    size = binding.size_of(f"shapes['{name}']", name, given)
    if isinstance(size, int):
        size = Extent.of(Symbol(name, 1, size))
    [symbol] = size.symbols
    if symbol.low < 1 or symbol.high < 2:
        raise ShapeError(
            f"shapes['{name}'] is {given!r}; of a packed dimension give a number from 2 on, which "
            "is the most there may be, or a range from 1 on, as in range(1, 513)"
        )
    return symbol


def _check_inputs(model: ModelProto, given: Mapping[str, Any], batch: str, seq: str) -> None:
    """Raises ShapeError unless inputs have both dimensions next to each other, or none of them."""
    found = False
    for value in model.graph.input:
        names = [dim.dim_param for dim in value.type.tensor_type.shape.dim]
        if value.name == LENGTHS or ROWS in names:
            raise ShapeError(
                f"packed: input '{value.name}' or a dimension of it has a name that packed models "
                "use for themselves; rename it"
            )
        if value.name in given and not {batch, seq}.isdisjoint(names):
            raise ShapeError(
                f"shapes['{value.name}']: a packed model is given sizes by the names of "
                f"dimensions; give those of {', '.join(names)}"
            )
        if seq not in names:
            continue
        at = names.index(seq)
        if names.count(seq) > 1 or names.count(batch) != 1 or names[at - 1 : at] != [batch]:
            raise ShapeError(
                f"packed: input '{value.name}' has the dimensions [{', '.join(names)}]; "
                f"'{seq}' has to stand behind '{batch}', once"
            )
        found = True
    if not found:
        raise ShapeError(f"packed: no input has the dimensions '{batch}' and '{seq}'")
