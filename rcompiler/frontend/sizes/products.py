"""Sums of products: zeros in the place of what is not there along contracted axes."""

from __future__ import annotations

from rcompiler.frontend.builder import Value
from rcompiler.frontend.ops.conv_transpose import transposed_sizes
from rcompiler.frontend.registry import Context, Lowering
from rcompiler.frontend.scalar import Number
from rcompiler.frontend.value import Extents, SizeAtRunTime, extent_of
from rcompiler.support.extent import Extent, lowest

from .agreement import mismatch
from .rules import Results, as_usual, need_along, need_whole, of_whole, rule, with_extents
from .windows import seen, windows


def _contracted(ctx: Context, a: Value, i: int, b: Value, j: int) -> tuple[Value, Value]:
    """Both operands with zeros where nothing is along the axes that are contracted."""
    if a.extents[i] != b.extents[j]:
        own, other = a.sizes[i], b.sizes[j]
        raise mismatch(ctx, own, other, f"{own} elements are contracted with {other}")
    return ctx.b.masked(a, [i]), ctx.b.masked(b, [j])


def broadcast(*operands: Value, rank: int, skip: int = 0) -> Extents:
    """The extents of operands that are broadcast to a rank, without their last ``skip`` axes."""
    found: list[Extent | None] = [None] * rank
    whole = [1] * rank
    for value in operands:
        sizes = value.sizes[: value.rank - skip]
        for d, size in enumerate(sizes, rank - len(sizes)):
            if size == 1:
                continue
            if whole[d] != 1 and size != (found[d] or whole[d]):
                raise SizeAtRunTime(f"{found[d] or whole[d]} elements meet {size}")
            found[d], whole[d] = extent_of(size), size if isinstance(size, int) else 0
    return tuple(found)


@rule("MatMul")
def _matmul(ctx: Context, lower: Lowering) -> Results:
    a, b = ctx.input(0), ctx.input(1)
    batch = broadcast(a, b, rank=max(a.rank, b.rank, 2) - 2, skip=2)
    extents = [*batch, *a.extents[-2:-1], *(b.extents[-1:] if b.rank > 1 else ())]
    a, b = _contracted(ctx, a, a.rank - 1, b, max(b.rank - 2, 0))
    return with_extents(ctx, of_whole(ctx, lower, {0: a, 1: b}), tuple(extents))


@rule("Gemm")
def _gemm(ctx: Context, lower: Lowering) -> Results:
    a, b, c = ctx.input(0), ctx.input(1), ctx.optional(2)
    i, j = (0 if ctx.attr("transA", 0) else 1), (1 if ctx.attr("transB", 0) else 0)
    extents = a.extents[1 - i], b.extents[1 - j]
    if c is not None:
        sizes = [1] * (2 - c.rank) + list(c.sizes)
        for size, own, bound in zip(sizes, extents, (a.shape[1 - i], b.shape[1 - j]), strict=True):
            if size not in (1, own or bound):
                raise SizeAtRunTime(f"{size} elements are added to {own or bound}")
    a, b = _contracted(ctx, a, i, b, j)
    return with_extents(ctx, of_whole(ctx, lower, {0: a, 1: b}), extents)


# All that they are made of are sums of products, and copies.
rule("Einsum")(as_usual)


@rule("Conv")
def _conv(ctx: Context, lower: Lowering) -> Results:
    x, w = ctx.input(0), ctx.input(1)
    need_whole(ctx, 1, 2)
    need_along(ctx, x, [1])
    extents = windows(ctx, x, w.shape[2:], (x.extents[0], None))
    image = seen(ctx, x, w.shape[2:])
    return with_extents(ctx, of_whole(image.ctx, lower, {0: image.image}), extents)


@rule("ConvInteger", "QLinearConv")
def _integer_conv(ctx: Context, lower: Lowering) -> Results:
    """What is not there holds the zero point, as padding does."""
    need_whole(ctx, *range(1, len(ctx.inputs)))
    x, (weights, zero) = ctx.input(0), (3, 2) if ctx.op == "QLinearConv" else (1, 2)
    need_along(ctx, x, [1])
    kernel = ctx.input(weights).shape[2:]
    extents = windows(ctx, x, kernel, (x.extents[0], None))
    number: Number | Value = 0
    if ctx.has(zero):
        number = ctx.b.reshape(ctx.input(zero), [])
    image = seen(ctx, x, kernel, number)
    return with_extents(ctx, of_whole(image.ctx, lower, {0: image.image}), extents)


@rule("ConvTranspose")
def _conv_transpose(ctx: Context, lower: Lowering) -> Results:
    """Each element is spread over its window: zeros are spread over nothing."""
    need_whole(ctx, *range(1, len(ctx.inputs)))
    x, w = ctx.input(0), ctx.input(1)
    need_along(ctx, x, [1])
    cut = [axis for axis in range(2, x.rank) if x.extents[axis] is not None]
    if cut and ctx.attr("output_shape") is not None:
        raise SizeAtRunTime("the attribute output_shape gives one size of the result")
    sizes = transposed_sizes(ctx, x, w) if x.rank == w.rank else []
    for axis, size in enumerate(sizes, 2):
        if lowest(size) < 0:
            raise SizeAtRunTime(f"nothing may be left along axis {axis}, of {size} elements")
    made = of_whole(ctx, lower, {0: ctx.b.masked(x, cut)})
    return with_extents(ctx, made, (x.extents[0], None, *map(extent_of, sizes)))


@rule("MatMulNBits", "MatMulBnb4", domain="com.microsoft")
def _few_bits(ctx: Context, lower: Lowering) -> Results:
    """Rows times weights."""
    need_whole(ctx, *range(1, len(ctx.inputs)))
    x = ctx.input(0)
    need_along(ctx, x, [x.rank - 1])
    return with_extents(ctx, of_whole(ctx, lower), x.extents)


@rule("MatMulInteger", "QLinearMatMul")
def _of_rows(ctx: Context, lower: Lowering) -> Results:
    """Only the left operand may be of any size, not along the contracted axis."""
    need_whole(ctx, *range(1, len(ctx.inputs)))
    a, right = ctx.input(0), ctx.input(3 if ctx.op == "QLinearMatMul" else 1)
    need_along(ctx, a, [a.rank - 1])
    batch = broadcast(a, right, rank=max(a.rank, right.rank, 2) - 2, skip=2)
    columns = [None] * (right.rank > 1)
    made = of_whole(ctx, lower)
    return with_extents(ctx, made, (*batch, *a.extents[-2:-1], *columns))
