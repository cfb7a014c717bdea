"""Writing at computed positions: ScatterElements (Scatter) and ScatterND, with reductions.

Positions known while compiling become a gather, which runs in parallel: a constant says for every
element of the result which update it takes, if any. So do a few updates of long slices, of which
every slice looks for its last one. Otherwise a loop writes one update after the other. Its
outermost loop goes over slabs of the result, which run in parallel: of few updates over blocks of
neighbours, which each look through all updates for what is theirs; else over a coordinate that the
updates leave as it is.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from rcompiler.frontend import dtypes
from rcompiler.frontend.body import Body
from rcompiler.frontend.builder import Builder, Value, dims
from rcompiler.frontend.ops.gather import positions
from rcompiler.frontend.registry import Context, lowering
from rcompiler.frontend.scalar import Scalar
from rcompiler.frontend.sized import bare
from rcompiler.frontend.value import SizeAtRunTime
from rcompiler.support.extent import Size, at_most

_BLOCKS = (64, 32, 16)  # neighbours that stay in one slab: of which there are two or more
# Updates for each element of a slice that are few: that each slice asks them all takes less than
# copying it.
_FEW = 1
_MOST = 64  # blocks of neighbours: tasks for this many EUs
# Elements of data and updates, for each time that a block looks at an update, beside which that is
# next to nothing.
_LOOK = 128

Combine = Callable[[Body, Scalar, Scalar], Scalar]


def _combine(ctx: Context, dtype: str) -> Combine | None:
    """``f(s, old, new)`` of the node's reduction; None when an update replaces."""
    name = ctx.attr("reduction", "none")
    table: dict[str, Combine | None] = {
        "none": None,
        "add": lambda s, old, new: old + new,
        "mul": lambda s, old, new: old * new,
        "max": lambda s, old, new: s.maximum(old, new),
        "min": lambda s, old, new: s.minimum(old, new),
    }
    if name not in table:
        raise ctx.shape_error(f"the reduction '{name}' is unknown")
    fn = table[name]
    if fn is not None and (not dtypes.is_number(dtype) or dtype in dtypes.SMALL_INTS):
        raise ctx.refuse(
            f"the reduction '{name}' of {dtype} is not translated", "Cast the data to float32"
        )
    return fn


def _write(
    s: Body,
    tensor: Value,
    where: list[Scalar],
    inside: Scalar | None,
    new: Scalar,
    combine: Combine | None,
) -> Value:
    """The tensor with one update applied, unless its position is outside: then `where` is any."""
    if combine is not None or inside is not None:
        old = s.extract(tensor, where)
        new = new if combine is None else combine(s, old, new)
        new = new if inside is None else s.select(inside, new, old)
    return s.insert(new, tensor, where)


def _bounded(s: Body, position: Scalar, extent: int) -> tuple[Scalar, Scalar]:
    """A run-time position counted from the start, 0 if it lies outside, and whether it does not."""
    at = s.cast(position, "index")
    at = s.select(at < 0, at + extent, at)
    inside = (at >= 0) & (at < extent)
    return s.select(inside, at, 0), inside


def _blocks(x: Value, updates: Value, count: int) -> int:
    """Blocks of neighbours that data is copied in, with `count` runs of updates; 1: their looking
    through the updates would take long.
    """
    most = min(_MOST, int((x.size + updates.size) / (_LOOK * count)))
    return next((n for n in range(most, 1, -1) if x.size % n == 0), 1)


def _in_neighbours(
    ctx: Context,
    x: Value,
    updates: Value,
    start: Callable[[Body, list[Scalar]], Scalar],
    combine: Combine | None,
    blocks: int,
) -> Value:
    """``x`` in `blocks` blocks of neighbours, with what each of the updates writes of them.

    updates: the last dim is a run of neighbours. start: of a run, its place in the flat data; one
    behind the data for a run that is outside.
    """
    *lead, length = updates.shape
    size = x.size // blocks

    def body(s: Body, where: list[Scalar], tensor: Value) -> Value:
        block, *at = where
        first = start(s, at) - block * size

        def element(i: Scalar, t: Value) -> list[Value]:
            new = s.extract(updates, [*at, i - first])
            return [_write(s, t, [block, i], None, new, combine)]

        low, high = s.maximum(first, 0), s.minimum(first + length, size)
        out: Value = s.for_(low, high, [tensor], element, expected=length / blocks)[0]
        return out

    flat = ctx.b.reshape(x, [blocks, size])
    return ctx.b.reshape(ctx.b.nest([blocks, *lead], flat, body), x.shape)


def _flat(coordinates: Sequence[Scalar], shape: Sequence[int]) -> Scalar:
    """The row-major number of a place."""
    total, *rest = coordinates
    for coordinate, extent in zip(rest, shape[1:], strict=True):
        total = total * extent + coordinate
    return total


def _slab_dim(sizes: Sequence[int], dims: Sequence[int]) -> int | None:
    """Which of ``dims`` the slabs lie along that updates stay in: the longest; the last of all dims
    only where there is no other, and in whole blocks. None: there is none.
    """
    outer = [d for d in dims if d < len(sizes) - 1 and sizes[d] > 1]
    if outer:
        return max(outer, key=sizes.__getitem__)
    columns = sizes[-1] if len(sizes) - 1 in dims else 0
    return len(sizes) - 1 if _block(columns) else None


def _block(columns: int) -> int:
    """Columns of a block; 0 where they cannot be shared out."""
    return next((n for n in _BLOCKS if columns > n and columns % n == 0), 0)


def _in_blocks(b: Builder, value: Value) -> Value:
    """Blocks of the last dim as a dim of their own in front of it."""
    *outer, columns = value.shape
    size = _block(columns)
    return b.reshape(value, [*outer, columns // size, size])


def _need_equal(sizes: Sequence[Size], others: Sequence[Size]) -> None:
    """Raises SizeAtRunTime unless sizes with the same bounds are known to be the same."""
    for one, other in zip(sizes, others, strict=True):
        if one != other:
            raise SizeAtRunTime(f"{one} positions are given {other} updates")


def _targets(b: Builder, at: Value) -> Value:
    """Positions of updates; of those that are not there, outside of all that is."""
    return b.masked(at, number=dtypes.limits(at.dtype)[1])


@lowering("ScatterElements", "Scatter")
def _scatter_elements(ctx: Context) -> Value:
    """``out[at[i, j], j] = updates[i, j]`` for axis 0, and so on."""
    x, updates = ctx.input(0), ctx.input(2)
    axis = ctx.axis(ctx.attr("axis", 0), x.rank)
    at = positions(ctx, 1, [x.sizes[axis]], axis)
    fits = at.rank == x.rank and all(
        i == axis or at_most(n, d) for i, (n, d) in enumerate(zip(at.sizes, x.sizes, strict=True))
    )
    if not fits or at.shape != updates.shape or updates.dtype != x.dtype:
        raise ctx.shape_error("the indices, updates and data do not fit together")
    if not at.size or not x.size:
        return x
    _need_equal(at.sizes, updates.sizes)
    made = _elements_scattered(ctx, bare(x), _targets(ctx.b, at), bare(updates), axis)
    return ctx.b.sized(made, x.extents)


def _elements_scattered(ctx: Context, x: Value, at: Value, updates: Value, axis: int) -> Value:
    combine = _combine(ctx, x.dtype)
    here = ctx.updates_state()  # whose elements nobody copies
    if at.const is not None and combine is None and not here:
        grid = list(np.indices(at.shape))
        grid[axis] = at.const
        flat = np.ravel_multi_index([g.reshape(-1) for g in grid], x.shape)
        return _from_constant(ctx, x, updates, flat, x.rank)

    whole = [d for d, n in enumerate(x.shape) if d != axis and at.shape[d] == n]
    first, shape = _slab_dim(x.shape, whole), x.shape
    blocks = 1 if here else _blocks(x, updates, at.size)
    if blocks > 1 and first != 0:

        def start(s: Body, where: list[Scalar]) -> Scalar:
            target, inside = _bounded(s, s.extract(at, where), x.shape[axis])
            where = [target if i == axis else w for i, w in enumerate(where)]
            return s.select(inside, _flat(where, shape), x.size)

        runs = ctx.b.reshape(updates, [*updates.shape, 1])
        return _in_neighbours(ctx, x, runs, start, combine, blocks)
    if first == x.rank - 1 and not here:
        x, at, updates = (_in_blocks(ctx.b, v) for v in (x, at, updates))

    def body(s: Body, where: list[Scalar], tensor: Value) -> Value:
        position, new = s.extract(at, where), s.extract(updates, where)
        target, inside = _bounded(s, position, x.shape[axis])
        where = [target if i == axis else w for i, w in enumerate(where)]
        return _write(s, tensor, where, None if at.const is not None else inside, new, combine)

    return ctx.b.reshape(ctx.b.nest(at.shape, x, body, first or 0), shape)


@lowering("ScatterND")
def _scatter_nd(ctx: Context) -> Value:
    """``out[at[i]] = updates[i]`` where ``at[i]`` holds the first coordinates."""
    x, updates = ctx.input(0), ctx.input(2)
    count = ctx.input(1).shape[-1] if ctx.input(1).rank else 0
    if not 1 <= count <= x.rank:
        raise ctx.shape_error("the indices do not fit the data")
    at = positions(ctx, 1, x.sizes[:count], 0)
    if updates.shape != at.shape[:-1] + x.shape[count:] or updates.dtype != x.dtype:
        raise ctx.shape_error("the updates do not fit the indices and the data")
    if not updates.size or not x.size:
        return x
    _need_equal(at.sizes[:-1] + x.sizes[count:], updates.sizes)
    made = _slices_scattered(ctx, bare(x), _targets(ctx.b, at), bare(updates))
    return ctx.b.sized(made, x.extents)


def _slices_scattered(ctx: Context, x: Value, at: Value, updates: Value) -> Value:
    """The coordinates are the last axis of ``at``."""
    count = at.shape[-1]
    combine = _combine(ctx, x.dtype)
    here = ctx.updates_state()  # whose elements nobody copies
    if at.const is not None and combine is None and not here:
        rows = np.ravel_multi_index(
            [c.reshape(-1) for c in np.moveaxis(at.const, -1, 0)], x.shape[:count]
        )
        return _from_constant(ctx, x, updates, rows, count)
    if (
        not here
        and combine is None
        and math.prod(at.shape[:-1]) <= _FEW * math.prod(x.shape[count:])
    ):
        return _replaced(ctx.b, x, updates, _last_updates(ctx.b, at, x.shape[:count]))
    lead, shape = at.rank - 1, x.shape
    blocks = 1 if here else _blocks(x, updates, math.prod(at.shape[:-1]))
    if blocks > 1:
        length = math.prod(x.shape[count:])

        def start(s: Body, where: list[Scalar]) -> Scalar:
            row, inside = _row(s, at, where, shape[:count])
            return s.select(inside, row * length, x.size)

        runs = ctx.b.reshape(updates, [*at.shape[:-1], length])
        return _in_neighbours(ctx, x, runs, start, combine, blocks)
    first = _slab_dim(updates.shape, range(lead, updates.rank))
    if first == updates.rank - 1 and not here:
        x, updates = _in_blocks(ctx.b, x), _in_blocks(ctx.b, updates)

    def body(s: Body, where: list[Scalar], tensor: Value) -> Value:
        target, inside = _place(s, at, where[:lead], x.shape[:count])
        where = where[: updates.rank]
        return _write(
            s,
            tensor,
            target + where[lead:],
            None if at.const is not None else inside,
            s.extract(updates, where),
            combine,
        )

    return ctx.b.reshape(ctx.b.nest(updates.shape, x, body, first or 0), shape)


def _row(s: Body, at: Value, where: list[Scalar], shape: Sequence[int]) -> tuple[Scalar, Scalar]:
    """The row-major number of the place that ``at[where]`` names, and whether there is one."""
    coordinates, inside = _place(s, at, where, shape)
    return _flat(coordinates, shape), inside


def _place(
    s: Body, at: Value, where: list[Scalar], shape: Sequence[int]
) -> tuple[list[Scalar], Scalar]:
    """The place that ``at[where]`` names, and whether there is one."""
    coordinates, inside = [], s.const(True, "bool")
    for d, extent in enumerate(shape):
        coordinate, good = _bounded(s, s.extract(at, [*where, d]), extent)
        coordinates.append(coordinate)
        inside = inside & good
    return coordinates, inside


def _last_updates(b: Builder, at: Value, shape: Sequence[int]) -> Value:
    """int32 ``shape``: the number of the last update of each row, -1 for none; positions outside
    name no row. Every row asks all updates.
    """
    count, rows = len(shape), math.prod(at.shape[:-1])
    flat = b.reshape(at, [rows, count])

    def target(s: Body) -> Scalar:
        row, inside = _row(s, flat, [s.index(0)], shape)
        return s.select(inside, s.cast(row, "int64"), -1)

    def last(s: Body, row: Scalar, _: Scalar, found: Scalar) -> Scalar:
        mine = row.eq(s.cast(s.index(0), "int64"))
        return s.maximum(found, s.select(mine, s.cast(s.index(1), "int32"), -1))

    size = [math.prod(shape)]
    reads = [(b.tabulate([rows], "int64", target), "d1"), (b.empty(size, "int32"), "d0")]
    return b.reshape(b.fold(reads, size, "int32", -1, "pr", last), shape)


def _from_constant(ctx: Context, x: Value, updates: Value, rows: np.ndarray, count: int) -> Value:
    """Replace rows of ``x`` (over its first ``count`` dimensions) by rows of ``updates``.

    ``rows[i]``: flat position that row ``i`` of the updates goes to; the last one wins.
    """
    b = ctx.b
    source = np.full(math.prod(x.shape[:count]), -1, np.int64)
    source[rows] = np.arange(rows.size)
    box = _box(source.reshape(x.shape[:count]))
    if box is not None:
        starts, sizes = box
        part = b.reshape(updates, [*sizes, *x.shape[count:]])
        return b.insert_slice(part, x, starts + [0] * (x.rank - count))
    return _replaced(b, x, updates, b.constant(source.reshape(x.shape[:count])))


def _replaced(b: Builder, x: Value, updates: Value, taken: Value) -> Value:
    """``x`` with the row of the updates that ``taken`` names for each of its rows, -1 for none."""
    count = taken.rank
    flat = b.reshape(updates, [updates.size // math.prod(x.shape[count:]), *x.shape[count:]])

    def body(s: Body, old: Scalar, row: Scalar) -> Scalar:
        rest = [s.index(i) for i in range(count, x.rank)]
        new = s.extract(flat, [s.cast(s.maximum(row, 0), "index"), *rest])
        return s.select(row >= 0, new, old)

    reads = [(x, ", ".join(dims(x.rank))), (taken, ", ".join(dims(count)))]
    return b.tabulate(x.shape, x.dtype, body, *reads)


def _box(source: np.ndarray) -> tuple[list[int], list[int]] | None:
    """(starts, sizes) when the updates, in order, fill a box of the result."""
    where = np.nonzero(source >= 0)
    starts = [int(w.min()) for w in where]
    sizes = [int(w.max()) - a + 1 for w, a in zip(where, starts, strict=True)]
    inner = source[tuple(slice(a, a + n) for a, n in zip(starts, sizes, strict=True))]
    in_order = np.array_equal(inner.reshape(-1), np.arange(inner.size))
    return (starts, sizes) if in_order else None
