"""Views and movement: which axes the rows are, and where requests part."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from rcompiler.frontend.builder import Value
from rcompiler.frontend.packed.ragged import Padded, Rows, is_ragged, place
from rcompiler.frontend.packed.rules import Packed, constant, rule
from rcompiler.frontend.value import extent_of
from rcompiler.support.extent import Extent, InexactDivision, Size, highest, product


@rule("Shape", "Size")
def _shape(packed: Packed) -> list[Any]:
    sizes, call = packed.inputs[0].sizes, packed.call
    if call.node.op_type == "Size":
        return [packed.tables.b.numbers(_array([product(sizes)]).reshape(()), "int64")]
    return [
        packed.tables.b.numbers(_array(sizes[call.attr("start", 0) : call.attr("end")]), "int64")
    ]


def _array(sizes: Sequence[Size]) -> np.ndarray:
    array = np.empty(len(sizes), object)
    array[:] = sizes
    return array


@rule("Reshape")
def _reshape(packed: Packed) -> list[Any]:
    x, call = packed.inputs[0], packed.call
    wanted = _elements(packed, 1)
    if not call.attr("allowzero", 0):
        wanted = [x.sizes[i] if d == 0 else d for i, d in enumerate(wanted)]
    if wanted.count(-1) == 1:
        rest = product(d for d in wanted if d != -1)
        try:
            whole = product(x.sizes) // rest
        except InexactDivision:
            raise packed.refuse(f"{product(x.sizes)} elements do not divide by {rest}") from None
        wanted = [whole if d == -1 else d for d in wanted]
    return _reshaped(packed, wanted)


@rule("Flatten")
def _flatten(packed: Packed) -> list[Any]:
    sizes, axis = packed.inputs[0].sizes, packed.call.attr("axis", 1)
    axis = axis + len(sizes) if axis < 0 else axis
    return _reshaped(packed, [product(sizes[:axis]), product(sizes[axis:])])


@rule("Squeeze")
def _squeeze(packed: Packed) -> list[Any]:
    sizes = packed.inputs[0].sizes
    given = _axes(packed)
    if given is None and any(isinstance(size, Extent) and size.lowest <= 1 for size in sizes):
        raise packed.refuse("which axes have one element depends on the sizes")
    axes = [d for d, size in enumerate(sizes) if size == 1] if given is None else given
    axes = [packed.axis(axis, len(sizes)) for axis in axes]
    if any(sizes[axis] != 1 for axis in axes):
        raise packed.refuse(f"axes {axes} are not all of size one")
    return _reshaped(packed, [size for d, size in enumerate(sizes) if d not in axes])


@rule("Unsqueeze")
def _unsqueeze(packed: Packed) -> list[Any]:
    sizes, given = packed.inputs[0].sizes, _axes(packed) or []
    rank = len(sizes) + len(given)
    axes, rest = [packed.axis(axis, rank) for axis in given], iter(sizes)
    return _reshaped(packed, [1 if d in axes else next(rest) for d in range(rank)])


def _axes(packed: Packed) -> list[int] | None:
    given = packed.call.optional(1)
    if given is None:
        told = packed.call.attr("axes")
        return None if told is None else list(told)
    return [int(axis) for axis in packed.call.known(given, "input 1 ('axes')").reshape(-1)]


def _elements(packed: Packed, index: int) -> list[Size]:
    """Sizes that an input has."""
    value = packed.call.optional(index)
    if isinstance(value, Value) and value.elements is not None:
        return list(value.elements.reshape(-1))
    return [int(n) for n in packed.call.known(value, f"input {index}").reshape(-1)]


def _reshaped(packed: Packed, sizes: Sequence[Size]) -> list[Any]:
    """The same elements in another shape."""
    x = packed.inputs[0]
    if product(sizes) != product(x.sizes):
        told = ", ".join(map(str, sizes))
        raise packed.refuse(f"{product(x.sizes)} elements do not fit the shape [{told}]")
    found = place(sizes, packed.packing)
    b, tables = packed.tables.b, packed.tables
    if isinstance(x, Rows) and found is not None:
        axis, width = found
        if product(sizes[:axis]) != product(x.sizes[: x.axis]):
            raise packed.refuse("it joins an axis before the requests with one behind them")
        own = tables.row_sizes(sizes)
        shape, extents = [highest(size) for size in own], [extent_of(size) for size in own]
        return [tables.rows(b.reshape(x.value, shape, extents), width == 1)]
    results = []
    for number in range(len(tables.groups)):
        part = packed.part(x, number)
        own = [tables.size_in(size, number) for size in sizes]
        extents = [extent_of(size) for size in own]
        results.append(b.reshape(part, [highest(size) for size in own], extents))
        if part.zeros and list(x.sizes) == [size for size in sizes if size != 1]:
            kept = [d for d, size in enumerate(sizes) if size != 1]
            results[-1].zeros = frozenset(kept[axis] for axis in part.zeros)
    return [packed.joined(results)]


@rule("Transpose")
def _transpose(packed: Packed) -> list[Any]:
    """Of rows where the two dimensions stay next to each other."""
    x = packed.inputs[0]
    perm = list(packed.call.attr("perm", list(reversed(range(len(x.sizes))))))
    if isinstance(x, Padded) or place([x.sizes[p] for p in perm], packed.packing) is None:
        return packed.by_groups()
    own = [x.axis if p == x.axis else x.beside(p) for p in perm if p == x.axis or not x.covers(p)]
    return packed.on_rows([x], {"perm": own})


@rule("Gather")
def _gather(packed: Packed) -> list[Any]:
    """Rows of a table; one position of each request; along other axes on rows."""
    x, at = packed.inputs
    axis = packed.axis(packed.call.attr("axis", 0), len(x.sizes))
    if isinstance(at, Rows) and isinstance(x, Value) and x.whole is None:
        return packed.on_rows([x, at])
    if is_ragged(at) or not isinstance(x, Rows):
        raise packed.refuse("it reads at packed positions, or from what is padded")
    if not x.covers(axis):
        return packed.on_rows([x, at], {"axis": x.beside(axis)})
    index = packed.call.known(at, "input 1 ('indices')")
    if x.joined or axis == x.axis or index.size != 1:
        raise packed.refuse("it picks requests, or several positions of each")
    return [_one(packed, x, int(index.reshape(-1)[0]), index.shape)]


def _one(packed: Packed, x: Rows, index: int, shape: Sequence[int]) -> Value:
    """A position of each request, with axes of one element in the place of positions."""
    one, behind = packed.tables.first(x, index), x.axis + 1
    sizes = [*one.shape[:behind], *shape, *one.shape[behind:]]
    extents = [*one.extents[:behind], *[None] * len(shape), *one.extents[behind:]]
    return packed.tables.b.reshape(one, sizes, extents)


@rule("Slice")
def _slice(packed: Packed) -> list[Any]:
    """Along other axes on rows; one position of each request, or all of them."""
    x, call = packed.inputs[0], packed.call
    if call.version < 10 or not isinstance(x, Rows):
        raise packed.refuse("it cuts what is padded, or by attributes")
    starts, ends = _elements(packed, 1), _elements(packed, 2)
    axes = list(range(len(starts))) if call.optional(3) is None else _elements(packed, 3)
    steps = [1] * len(starts) if call.optional(4) is None else _elements(packed, 4)
    beside, position = [], None
    for start, end, given, step in zip(starts, ends, axes, steps, strict=True):
        assert isinstance(given, int)
        axis = packed.axis(given, len(x.sizes))
        if not x.covers(axis):
            beside.append((start, end, x.beside(axis), step))
        elif (start, step) == (0, 1) and (end == x.sizes[axis] or _is_end(end)):
            continue  # all of them
        elif step == 1 and axis == x.axis + 1 and isinstance(start, int) and _is_one(start, end):
            position = start
        else:
            raise packed.refuse(f"it takes {start} to {end} of {x.sizes[axis]}")
    if beside:
        if any(isinstance(size, Extent) for each in beside for size in each):
            raise packed.refuse("it cuts at what differs between calls")
        numbers = [constant(packed, each) for each in zip(*beside, strict=True)]
        [x] = packed.on_rows([x, *numbers])
    return [x if position is None else _one(packed, x, position, [1])]


def _is_end(end: Size) -> bool:
    return isinstance(end, int) and end >= (1 << 31) - 1


def _is_one(start: int, end: Size) -> bool:
    return end == start + 1 != 0 or (start == -1 and _is_end(end))


@rule("Split")
def _split(packed: Packed) -> list[Any]:
    """Along other axes than those of the rows."""
    x = packed.inputs[0]
    axis = packed.axis(packed.call.attr("axis", 0), len(x.sizes))
    if isinstance(x.sizes[axis], Extent):
        raise packed.refuse("it cuts what differs between calls")
    if isinstance(x, Padded):
        return packed.by_groups()
    return packed.on_rows(packed.inputs, {"axis": x.beside(axis)})


@rule("Concat")
def _concat(packed: Packed) -> list[Any]:
    """Along other axes than those of the rows, of what has them at one place."""
    first = packed.inputs[0]
    if not all(is_ragged(value) for value in packed.inputs):
        raise packed.refuse("it joins what is packed with what is not")
    axis = packed.axis(packed.call.attr("axis", 0), len(first.sizes))
    if any(isinstance(value.sizes[axis], Extent) for value in packed.inputs):
        raise packed.refuse("it joins what differs between calls")
    if any(isinstance(value, Padded) or value.axis != first.axis for value in packed.inputs):
        return packed.by_groups()
    return packed.on_rows(packed.inputs, {"axis": first.beside(axis)})


@rule("Expand")
def _expand(packed: Packed) -> list[Any]:
    """Rows where the result has some: their number stays."""
    x = packed.inputs[0]
    wanted = _elements(packed, 1)
    rank = max(len(x.sizes), len(wanted))
    own = [1] * (rank - len(x.sizes)) + list(x.sizes)
    pairs = zip(own, [1] * (rank - len(wanted)) + wanted, strict=True)
    sizes = [d if to == 1 else to for d, to in pairs]
    if isinstance(x, Padded) or place(sizes, packed.packing) is None:
        return packed.by_groups()
    b, rows = packed.tables.b, packed.tables.row_sizes(sizes)
    made = b.broadcast_to(x.value, [highest(d) for d in rows], [extent_of(d) for d in rows])
    return [packed.tables.rows(made, x.joined)]
