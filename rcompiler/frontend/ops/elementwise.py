"""Elementwise operators on one tensor or several broadcast ones: arithmetic, logic, choice."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rcompiler.frontend import dtypes
from rcompiler.frontend.body import Body
from rcompiler.frontend.builder import Value, broadcast_shapes
from rcompiler.frontend.ops.unary import of_floats
from rcompiler.frontend.registry import Context, lowering
from rcompiler.frontend.scalar import Scalar

Binary = Callable[[Body, Scalar, Scalar], Scalar]


def binary_operands(ctx: Context) -> list[Value]:
    """Both inputs, checked for type and broadcasting; opset < 7 ``axis``/``broadcast`` included."""
    a, b = ctx.input(0), ctx.input(1)
    if ctx.opset < 7 and ctx.attr("broadcast") and b.rank < a.rank:
        axis = ctx.attr("axis", a.rank - b.rank)
        if not 0 <= axis <= a.rank - b.rank:
            raise ctx.shape_error(f"axis {axis} leaves no room for the second input")
        b = ctx.b.reshape(b, [*b.shape, *[1] * (a.rank - axis - b.rank)])
    return check_operands(ctx, [a, b])


def check_operands(ctx: Context, values: Sequence[Value]) -> list[Value]:
    """Refuse mixed types and shapes that do not broadcast."""
    if len({v.dtype for v in values}) > 1:
        raise ctx.shape_error("the inputs have different element types")
    if broadcast_shapes(*(v.shape for v in values)) is None:
        raise ctx.shape_error("the inputs' shapes do not broadcast")
    return list(values)


def need_arithmetic(ctx: Context, values: Sequence[Value]) -> None:
    """Refuse types that have no arithmetic of their own (8-bit floats, 4-bit integers, bool)."""
    for value in values:
        dtype = value.dtype
        if not dtypes.is_number(dtype) or dtype in dtypes.SMALL_INTS:
            raise ctx.refuse(f"element type {dtype} is not translated", "Cast it to float32")


def _binary(op: str, fn: Binary) -> None:
    def lower(ctx: Context) -> Value:
        operands = binary_operands(ctx)
        need_arithmetic(ctx, operands)
        return ctx.b.elementwise(fn, *operands)

    lowering(op)(lower)


_binary("Add", lambda s, a, b: a + b)
_binary("Sub", lambda s, a, b: a - b)


@lowering("Mul")
def _mul(ctx: Context) -> Value:
    operands = binary_operands(ctx)
    need_arithmetic(ctx, operands)
    made = ctx.b.elementwise(lambda s, a, b: a * b, *operands)
    for x, factor in zip(operands, reversed(operands), strict=True):
        if factor.const is not None and factor.size == 1 and x.shape == made.shape:
            made.scaled = (x, factor)
    return made


def guarded(ctx: Context, divisor: Value, fn: Binary, zero: int = 0) -> Binary:
    """Integer division ``fn`` made total: x/0 is ``zero``, and MIN/-1 does not trap.

    Division is evaluated for every element, so the divisor itself is replaced where it would trap.
    """
    if divisor.const is not None and not ((divisor.const == 0) | (divisor.const == -1)).any():
        return fn
    signed = dtypes.is_signed(divisor.dtype)

    def safe(s: Body, a: Scalar, b: Scalar) -> Scalar:
        is_zero = b.eq(0)
        bad = is_zero | b.eq(-1) if signed else is_zero
        result = fn(s, a, s.select(bad, 1, b))
        if signed:
            by_minus_one = -a if zero == 0 and ctx.op == "Div" else s.const(0, a.dtype)
            result = s.select(b.eq(-1), by_minus_one, result)
        return s.select(is_zero, zero, result)

    return safe


@lowering("Div")
def _div(ctx: Context) -> Value:
    a, b = binary_operands(ctx)
    need_arithmetic(ctx, [a])
    fn: Binary = lambda s, x, y: x / y  # noqa: E731
    return ctx.b.elementwise(fn if dtypes.is_float(a.dtype) else guarded(ctx, b, fn), a, b)


@lowering("Mod")
def _mod(ctx: Context) -> Value:
    a, b = binary_operands(ctx)
    need_arithmetic(ctx, [a])
    truncated = bool(ctx.attr("fmod", 0)) or a.dtype in dtypes.UNSIGNED

    def floored(s: Body, x: Scalar, y: Scalar) -> Scalar:
        r = s.rem(x, y)
        wrong = r.ne(0) & (r < 0).ne(y < 0)
        return s.select(wrong, r + y, r)

    fn: Binary = (lambda s, x, y: s.rem(x, y)) if truncated else floored
    return ctx.b.elementwise(fn if dtypes.is_float(a.dtype) else guarded(ctx, b, fn), a, b)


@lowering("Pow")
def _pow(ctx: Context) -> Value:
    """The result has the base's type; integer powers by repeated squaring."""
    a, b = ctx.input(0), ctx.input(1)
    need_arithmetic(ctx, [a, b])
    if ctx.opset < 7:
        a, b = binary_operands(ctx)
    elif broadcast_shapes(a.shape, b.shape) is None:
        raise ctx.shape_error("the inputs' shapes do not broadcast")
    if b.const is not None and b.size == 1 and float(b.const.reshape(-1)[0]) in (0.5, 1, 2, 3):
        return _fixed_power(ctx, a, b, float(b.const.reshape(-1)[0]))
    if dtypes.is_float(a.dtype):
        return ctx.b.elementwise(lambda s, x, y: s.pow(x, s.cast(y, x.dtype)), a, b)
    if dtypes.is_float(b.dtype):
        return ctx.b.elementwise(
            lambda s, x, y: s.cast(s.pow(s.cast(x, "float64"), s.cast(y, "float64")), x.dtype), a, b
        )
    return ctx.b.elementwise(_integer_power, a, b)


def _fixed_power(ctx: Context, a: Value, b: Value, power: float) -> Value:
    shape = broadcast_shapes(a.shape, b.shape)
    assert shape is not None
    a = ctx.b.reshape(a, shape)
    if power == 0.5:
        return ctx.b.elementwise(of_floats(lambda s, x: s.sqrt(x)), a)
    products = {1.0: lambda s, x: x, 2.0: lambda s, x: x * x, 3.0: lambda s, x: x * x * x}
    return ctx.b.elementwise(products[power], a)


def _integer_power(s: Body, x: Scalar, y: Scalar) -> Scalar:
    exponent = s.cast(y, "int64")
    # 64 and more: the parity decides for -1, and any other base has wrapped around or is 0, 1.
    exponent = s.select(exponent > 63, (exponent & 1) | 62, exponent)
    result, power = s.const(1, x.dtype), x
    for bit in range(6):
        taken = (exponent & (1 << bit)).ne(0)
        result = s.select(taken, result * power, result)
        power = power * power
    inverse = s.select(x.eq(1), s.const(1, x.dtype), 0)
    if dtypes.is_signed(x.dtype):
        odd = s.select((exponent & 1).ne(0), s.const(-1, x.dtype), s.const(1, x.dtype))
        inverse = s.select(x.eq(-1), odd, inverse)
    return s.select(exponent < 0, inverse, result)


def _variadic(op: str, fn: Binary, mean: bool = False) -> None:
    def lower(ctx: Context) -> Value:
        values = [ctx.input(i) for i in range(len(ctx.inputs))]
        check_operands(ctx, values)
        need_arithmetic(ctx, values[:1])

        def body(s: Body, *args: Scalar) -> Scalar:
            total = args[0]
            for arg in args[1:]:
                total = fn(s, total, arg)
            return total / len(args) if mean else total

        return ctx.b.elementwise(body, *values)

    lowering(op)(lower)


_variadic("Max", lambda s, a, b: s.maximum(a, b))
_variadic("Min", lambda s, a, b: s.minimum(a, b))
_variadic("Sum", lambda s, a, b: a + b)
_variadic("Mean", lambda s, a, b: a + b, mean=True)


def _comparison(op: str, predicate: str) -> None:
    def lower(ctx: Context) -> Value:
        a, b = binary_operands(ctx)
        if a.dtype in dtypes.SMALL_FLOATS:
            raise ctx.refuse(f"element type {a.dtype} is not translated", "Cast it to float32")
        return ctx.b.elementwise(lambda s, x, y: s.compare(predicate, x, y), a, b, dtype="bool")

    lowering(op)(lower)


_comparison("Equal", "eq")
_comparison("Less", "lt")
_comparison("LessOrEqual", "le")
_comparison("Greater", "gt")
_comparison("GreaterOrEqual", "ge")


def _bitwise(op: str, fn: Binary, logical: bool) -> None:
    def lower(ctx: Context) -> Value:
        a, b = binary_operands(ctx)
        if (a.dtype == "bool") != logical or not (logical or dtypes.is_integer(a.dtype)):
            raise ctx.shape_error(f"element type {a.dtype} is not allowed")
        return ctx.b.elementwise(fn, a, b)

    lowering(op)(lower)


for _name, _fn in {
    "And": lambda s, a, b: a & b,
    "Or": lambda s, a, b: a | b,
    "Xor": lambda s, a, b: a ^ b,
}.items():
    _bitwise(_name, _fn, True)
    _bitwise("Bitwise" + _name, _fn, False)


@lowering("BitShift")
def _bit_shift(ctx: Context) -> Value:
    """Shifts by the width or more give 0 (or the sign, for signed right shifts)."""
    a, b = binary_operands(ctx)
    need_arithmetic(ctx, [a])
    width, left = dtypes.bits(a.dtype), ctx.attr("direction") == "LEFT"

    def shift(s: Body, x: Scalar, y: Scalar) -> Scalar:
        low = s.as_type(y, y.dtype.replace("uint", "int").replace("int", "uint"))
        too_far = s.compare("ge", low, width)
        amount = s.as_type(s.select(too_far, s.const(width - 1, y.dtype), y), x.dtype)
        if left:
            return s.select(too_far, 0, s.shift_left(x, amount))
        moved = s.shift_right(x, amount)
        return moved if dtypes.is_signed(x.dtype) else s.select(too_far, 0, moved)

    return ctx.b.elementwise(shift, a, b)


@lowering("Where")
def _where(ctx: Context) -> Value:
    condition, a, b = ctx.input(0), ctx.input(1), ctx.input(2)
    if condition.dtype != "bool" or a.dtype != b.dtype:
        raise ctx.shape_error("the condition is bool, the others have one type")
    if broadcast_shapes(condition.shape, a.shape, b.shape) is None:
        raise ctx.shape_error("the inputs' shapes do not broadcast")
    return ctx.b.elementwise(lambda s, c, x, y: s.select(c, x, y), condition, a, b, dtype=a.dtype)


@lowering("Clip")
def _clip(ctx: Context) -> Value:
    """``min(max(x, low), high)``; bounds as attributes (opset < 11) or scalar inputs."""
    x = ctx.input(0)
    need_arithmetic(ctx, [x])
    b = ctx.b
    bounds: list[Value | None] = [ctx.optional(1), ctx.optional(2)]
    if ctx.opset < 11:
        given = [ctx.attr("min"), ctx.attr("max")]
        bounds = [None if g is None else b.constant(g, x.dtype) for g in given]
    for bound in bounds:
        if bound is not None and (bound.size != 1 or bound.dtype != x.dtype):
            raise ctx.shape_error("a bound is one number of the input's type")
    low, high = (None if v is None else b.reshape(v, []) for v in bounds)

    def clip(s: Body, a: Scalar, *limits: Scalar) -> Scalar:
        rest = iter(limits)
        if low is not None:
            a = s.maximum(a, next(rest))
        return a if high is None else s.minimum(a, next(rest))

    return b.elementwise(clip, x, *(v for v in (low, high) if v is not None))


@lowering("PRelu")
def _prelu(ctx: Context) -> Value:
    x, slope = ctx.input(0), ctx.input(1)
    need_arithmetic(ctx, [x])
    if slope.rank == 1 and x.rank > 2 and ctx.opset < 7 and slope.shape[0] in (1, x.shape[1]):
        slope = ctx.b.reshape(slope, [slope.shape[0], *[1] * (x.rank - 2)])
    check_operands(ctx, [x, slope])
    return ctx.b.elementwise(lambda s, a, k: s.select(a < 0, a * k, a), x, slope)
