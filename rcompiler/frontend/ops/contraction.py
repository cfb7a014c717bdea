"""Sums of products: MatMul, Gemm, Conv, Einsum."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from rcompiler.frontend.builder import Builder, Value, broadcast_shapes
from rcompiler.frontend.ops.dequantised import dequantised_conv, dequantised_matmul
from rcompiler.frontend.ops.operand_shapes import check_matmul, window
from rcompiler.frontend.ops.weight_only import weight_only_matmul
from rcompiler.frontend.registry import Context, lowering


@lowering("MatMul")
def _matmul(ctx: Context) -> Value:
    a, b = ctx.input(0), ctx.input(1)
    ctx.need_numbers(a, b)
    check_matmul(ctx, a, b)
    if a.dtype != b.dtype:
        raise ctx.shape_error("the inputs have different element types")
    for narrow in (dequantised_matmul, weight_only_matmul):
        if (made := narrow(ctx, a, b)) is not None:
            return made
    return ctx.b.matmul(a, b)


def add_channels(b: Builder, x: Value, bias: Value | None, axis: int = 1) -> Value:
    """``x`` plus a vector along ``axis``, in the type of ``x``."""
    if bias is None:
        return x
    column = b.reshape(bias, [bias.size, *[1] * (x.rank - 1 - axis)])
    return b.elementwise(lambda s, a, c: a + s.cast(c, a.dtype), x, column)


@lowering("Gemm")
def _gemm(ctx: Context) -> Value:
    """``alpha * A' B' + beta * C``; A' and B' are read through the maps, not transposed."""
    a, w, c = ctx.input(0), ctx.input(1), ctx.optional(2)
    ctx.need_numbers(a, w)
    if a.rank != 2 or w.rank != 2:
        raise ctx.shape_error("Gemm needs matrices")
    trans_a, trans_b = bool(ctx.attr("transA", 0)), bool(ctx.attr("transB", 0))
    m, k = a.shape[::-1] if trans_a else a.shape
    k2, n = w.shape[::-1] if trans_b else w.shape
    if k != k2 or a.dtype != w.dtype:
        raise ctx.shape_error("the matrices do not fit")
    if c is not None and broadcast_shapes(c.shape, (m, n)) != (m, n):
        raise ctx.shape_error("C does not broadcast to the result")
    alpha, beta = ctx.attr("alpha", 1.0), ctx.attr("beta", 1.0)

    def build(weight: Value, bias: Value | None) -> Value:
        out = ctx.b.contract(
            (a, "d2, d0" if trans_a else "d0, d2"),
            (weight, "d1, d2" if trans_b else "d2, d1"),
            ((m, n), "d0, d1"),
            "ppr",
            wide=True,
        )
        return ctx.b.cast(finish(out, bias), a.dtype)

    def finish(out: Value, bias: Value | None) -> Value:
        b = ctx.b
        if alpha != 1.0:
            out = b.elementwise(lambda s, x: x * s.cast(s.const(alpha, "float32"), x.dtype), out)
        if bias is None or not beta:
            return out
        if beta == 1.0:
            return b.elementwise(lambda s, x, y: x + s.cast(y, x.dtype), out, bias)
        return b.elementwise(
            lambda s, x, y: x + s.cast(y, x.dtype) * s.cast(s.const(beta, "float32"), x.dtype),
            out,
            bias,
        )

    for narrow in () if trans_a else (dequantised_matmul, weight_only_matmul):
        if (made := narrow(ctx, a, w, by_rows=trans_b)) is not None:
            return finish(made, c)
    if beta != 1.0:
        return build(w, c)
    return refoldable(ctx.b, build, w, c, lambda s: s.reshape((n, 1) if trans_b else (1, n)))


def refoldable(
    b: Builder,
    build: Callable[[Value, Value | None], Value],
    w: Value,
    bias: Value | None,
    spread: Callable[[np.ndarray], np.ndarray],
) -> Value:
    """``build(w, bias)``, into whose constants a later scale and shift per channel may go.

    spread: the scale in a shape that broadcasts to that of the weights.
    """
    out = build(w, bias)
    if w.const is not None and (bias is None or bias.const is not None):

        def refold(scale: np.ndarray, shift: np.ndarray) -> Value:
            weight = b.constant((w.array * spread(scale)).astype(w.array.dtype), w.dtype)
            start = 0 if bias is None else bias.const
            return build(weight, b.constant(start * scale + shift, w.dtype))

        out.refold = refold
    return out


@lowering("Conv")
def _conv(ctx: Context) -> Value:
    x, w, bias = ctx.input(0), ctx.input(1), ctx.optional(2)
    ctx.need_numbers(x, w)
    groups = ctx.attr("group", 1)
    if x.rank < 3 or w.rank != x.rank or groups < 1 or x.dtype != w.dtype:
        raise ctx.shape_error("input and weight have one rank (3 or more) and one type")
    if w.shape[1] * groups != x.shape[1] or w.shape[0] % groups:
        raise ctx.shape_error(f"the channels do not fit {groups} groups")
    if bias is not None and bias.size != w.shape[0]:
        raise ctx.shape_error("one bias per output channel is expected")
    strides, dilations, pads = window(ctx, x.shape[2:], w.shape[2:])
    integers = dequantised_conv(ctx, x, w)
    if integers is not None:
        return add_channels(ctx.b, integers, bias)

    def build(weight: Value, shift: Value | None) -> Value:
        out = ctx.b.conv(x, weight, strides, dilations, pads, groups, wide=True)
        return ctx.b.cast(add_channels(ctx.b, out, shift), x.dtype)

    return refoldable(ctx.b, build, w, bias, lambda s: s.reshape([-1, *[1] * (w.rank - 1)]))


@lowering("Einsum")
def _einsum(ctx: Context) -> Value:
    """Pairwise contractions from left to right; indices used once are summed on the way."""
    values = [ctx.input(i) for i in range(len(ctx.inputs))]
    ctx.need_numbers(*values)
    terms, result = _equation(ctx, values)
    sizes: dict[str, int] = {}
    operands = []
    for term, value in zip(terms, values, strict=True):
        for letter, size in zip(term, value.shape, strict=True):
            known = sizes.setdefault(letter, size)
            if known != size:
                if 1 not in (size, known):
                    raise ctx.shape_error(f"index {letter} has two sizes")
                sizes[letter] = size if known == 1 else known  # none, too, is what 1 becomes
        operands.append((value, term))
    left = operands[0]
    for i, right in enumerate(operands[1:]):
        rest = "".join(t for _, t in operands[i + 2 :]) + result
        keep = "".join(dict.fromkeys(c for c in left[1] + right[1] if c in rest))
        final = i + 2 == len(operands)
        left = (
            _pair(ctx.b, left, right, result if final else keep, sizes),
            result if final else keep,
        )
    return left[0] if len(operands) > 1 else _single(ctx.b, left, result, sizes)


def _equation(ctx: Context, values: Sequence[Value]) -> tuple[list[str], str]:
    """Index strings per operand and of the result, with the ellipsis as capital placeholders."""
    text = ctx.attr("equation", "").replace(" ", "")
    inputs, arrow, result = text.partition("->")
    terms = inputs.split(",")
    if len(terms) != len(values):
        raise ctx.shape_error(f"'{text}' names {len(terms)} operands")
    wide = max(
        (
            v.rank - len(t.replace("...", ""))
            for t, v in zip(terms, values, strict=True)
            if "..." in t
        ),
        default=0,
    )
    dots = "".join(chr(0x2460 + i) for i in range(max(wide, 0)))  # letters no equation uses
    full = []
    for term, value in zip(terms, values, strict=True):
        count = value.rank - len(term.replace("...", ""))
        term = term.replace("...", dots[len(dots) - count :] if count > 0 else "")
        if len(term) != value.rank:
            raise ctx.shape_error(f"'{text}' does not fit the ranks")
        full.append(term)
    if not arrow:
        letters = inputs.replace(",", "").replace(".", "")
        result = "..." * ("..." in inputs) + "".join(
            sorted(c for c in set(letters) if letters.count(c) == 1)
        )
    return full, result.replace("...", dots)


def _maps(term: str, order: str, value: Value, sizes: dict[str, int]) -> str:
    return ", ".join(
        "0" if d == 1 and sizes[c] != 1 else f"d{order.index(c)}"
        for c, d in zip(term, value.shape, strict=True)
    )


def _pair(
    b: Builder,
    left: tuple[Value, str],
    right: tuple[Value, str],
    keep: str,
    sizes: dict[str, int],
) -> Value:
    order = keep + "".join(dict.fromkeys(c for c in left[1] + right[1] if c not in keep))
    kinds = "p" * len(keep) + "r" * (len(order) - len(keep))
    write = ", ".join(f"d{i}" for i in range(len(keep)))
    return b.contract(
        (left[0], _maps(left[1], order, left[0], sizes)),
        (right[0], _maps(right[1], order, right[0], sizes)),
        ([sizes[c] for c in keep], write),
        kinds,
    )


def _single(b: Builder, operand: tuple[Value, str], keep: str, sizes: dict[str, int]) -> Value:
    """Diagonal, sum and transposition of one operand."""
    value, term = operand
    order = keep + "".join(dict.fromkeys(c for c in term if c not in keep))
    shape, count = [sizes[c] for c in keep], len(keep)
    read = _maps(term, order, value, sizes)
    if len(order) == count:
        return b.tabulate(shape, value.dtype, lambda s, a: a, (value, read))
    kinds = "p" * count + "r" * (len(order) - count)
    return b.fold([(value, read)], shape, value.dtype, 0, kinds, lambda s, a, acc: acc + a)
