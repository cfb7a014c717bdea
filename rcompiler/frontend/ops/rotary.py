"""RotaryEmbedding: pairs of elements turned by the angle of their position."""

from __future__ import annotations

from rcompiler.frontend.body import Body
from rcompiler.frontend.builder import Value
from rcompiler.frontend.registry import Context, lowering
from rcompiler.frontend.scalar import Scalar

from .gather import positions, take


@lowering("RotaryEmbedding")
def _rotary(ctx: Context) -> Value:
    """One pass over the input: each element reads its partner beside itself.

    Of x [batch, steps, heads * size] or [batch, heads, steps, size]; the first elements of each
    head, `rotary_embedding_dim` of them, or all of them where it is 0.
    """
    b, x = ctx.b, ctx.input(0)
    ctx.need_float()
    flat, heads = x.rank == 3, ctx.attr("num_heads", 0)
    if x.rank not in (3, 4) or flat and (heads < 1 or x.shape[2] % heads):
        raise ctx.shape_error("the input is [batch, heads, steps, size], or has num_heads in rows")
    shape = (*x.shape[:2], heads, x.shape[2] // heads) if flat else x.shape
    size, steps = shape[3], shape[1 if flat else 2]
    width = ctx.attr("rotary_embedding_dim", 0) or size
    if not 0 < width <= size or width % 2:
        raise ctx.shape_error(f"{width} elements of a head of {size} are no pairs")
    tables = [_angles(ctx, number, shape[0], steps, width // 2) for number in (1, 2)]
    apart = b.reshape(x, shape)
    turned = b.slice_along(apart, 3, 0, width)
    turned = b.reshape(_turned(ctx, turned, tables, flat), [*shape[:3], width])
    if width < size:
        rest = b.slice_along(apart, 3, width, size - width)
        turned = b.concat([turned, rest], 3)
    return b.reshape(turned, x.shape)


def _angles(ctx: Context, number: int, batch: int, steps: int, half: int) -> Value:
    """Cosines or sines, [batch or 1, steps, half]: of the cache, the rows of all positions."""
    table = ctx.input(number)
    if table.rank == 2 and ctx.has(3):
        at = positions(ctx, 3, [table.shape[0]], 0)
        if at.shape not in ((batch, steps), (1, steps)):
            raise ctx.shape_error("there is one position per step")
        table = take(ctx, table, at, 0)
    fits = table.rank == 3 and table.shape[0] in (1, batch) and table.shape[1] == steps
    if not fits or table.shape[2] < half or table.dtype != ctx.input(0).dtype:
        raise ctx.shape_error(f"the cosines and sines are not those of {half} pairs a step")
    return ctx.b.slice_along(table, 2, 0, half)


def _turned(ctx: Context, x: Value, tables: list[Value], flat: bool) -> Value:
    """x [d0, d1, d2, width] as its pairs: the halves of a head, or with `interleaved` neighbours.

    The first of a pair is `cos * first - sin * second`, the second `sin * first + cos * second`.
    """
    *lead, width = x.shape
    interleaved = bool(ctx.attr("interleaved", 0))
    pairs = ctx.b.reshape(x, [*lead, width // 2, 2] if interleaved else [*lead, 2, width // 2])
    which, number = (4, 3) if interleaved else (3, 4)
    own = [f"d{d}" for d in range(5)]
    partner = [f"1 - d{d}" if d == which else f"d{d}" for d in range(5)]
    read = ["0" if tables[0].shape[0] == 1 else "d0", "d1" if flat else "d2", f"d{number}"]

    def body(s: Body, a: Scalar, other: Scalar, cos: Scalar, sin: Scalar) -> Scalar:
        crossed = other * sin
        return a * cos + s.select(s.index(which).eq(0), -crossed, crossed)

    reads = [(pairs, ", ".join(own)), (pairs, ", ".join(partner))]
    reads += [(table, ", ".join(read)) for table in tables]
    return ctx.b.tabulate(pairs.shape, x.dtype, body, *reads)
