"""Elementwise operators of one tensor: functions, activations, rounding, tests."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rcompiler.frontend import dtypes, load
from rcompiler.frontend.body import Body
from rcompiler.frontend.builder import Value
from rcompiler.frontend.casts import rounded
from rcompiler.frontend.registry import Context, lowering
from rcompiler.frontend.scalar import Scalar
from rcompiler.frontend.small_floats import to_power_of_two

Unary = Callable[[Body, Scalar], Scalar]
Activation = Callable[..., Scalar]


def _float(op: str, fn: Unary) -> None:
    """An op on floats only."""

    def lower(ctx: Context) -> Value:
        ctx.need_float()
        return ctx.b.elementwise(fn, ctx.input(0))

    lowering(op)(lower)


def _function(name: str) -> Unary:
    return lambda s, x: s.math(name, x)


for _op, _name in {
    "Exp": "exp", "Log": "log", "Sqrt": "sqrt", "Sin": "sin", "Cos": "cos", "Tan": "tan",
    "Asin": "asin", "Acos": "acos", "Atan": "atan", "Sinh": "sinh", "Cosh": "cosh",
    "Tanh": "tanh", "Asinh": "asinh", "Acosh": "acosh", "Atanh": "atanh", "Erf": "erf",
    "Floor": "floor", "Ceil": "ceil", "Round": "roundeven",
}.items():  # fmt: skip
    _float(_op, _function(_name))


def _widened(s: Body, function: Unary, x: Scalar) -> Scalar:
    """Of f16 in f32."""
    if x.dtype == "float16":
        return s.cast(function(s, s.cast(x, "float32")), "float16")
    return function(s, x)


def of_floats(fn: Unary) -> Unary:
    """A function of floats, computed in f64 for integers."""

    def applied(s: Body, a: Scalar) -> Scalar:
        if dtypes.is_float(a.dtype):
            return fn(s, a)
        return s.cast(fn(s, s.cast(a, "float64")), a.dtype)

    return applied


def sigmoid(s: Body, x: Scalar) -> Scalar:
    """``1 / (1 + exp(-x))``; of f16 in f32, as exp(-x) leaves f16 where the result does not."""
    return _widened(s, lambda s, x: 1.0 / (s.exp(-x) + 1.0), x)


def softplus(s: Body, x: Scalar) -> Scalar:
    """``log(1 + exp(x))`` without overflow."""
    return s.maximum(x, 0.0) + s.log1p(s.exp(-s.abs(x)))


def mish(s: Body, x: Scalar) -> Scalar:
    """``x * tanh(log(1 + exp(x)))``: with e = exp(x) the tangent is (e² + 2e) / (e² + 2e + 2).

    It is 1 beyond 20, where e² would overflow later; of f16 in f32, as e² leaves f16 from 6 on.
    """

    def of_f32(s: Body, x: Scalar) -> Scalar:
        e = s.exp(s.minimum(x, 20.0))
        n = e * (e + 2.0)
        return x * (n / (n + 2.0))

    return _widened(s, of_f32, x)


_float("Reciprocal", lambda s, x: 1.0 / x)
_float("Sigmoid", sigmoid)
_float("Softplus", softplus)
_float("Softsign", lambda s, x: x / (s.abs(x) + 1.0))
_float("Mish", mish)
_float("HardSwish", lambda s, x: x * s.clamp(x * (1 / 6) + 0.5, 0.0, 1.0))


@lowering("Abs", "Neg", "Sign", "Relu")
def _numeric(ctx: Context) -> Value:
    x = ctx.input(0)
    ctx.need_numbers(x)
    table: dict[str, Unary] = {
        "Abs": lambda s, a: s.abs(a),
        "Neg": lambda s, a: -a,
        "Relu": lambda s, a: s.maximum(a, 0),
        # Zeros and NaN are their own sign.
        "Sign": lambda s, a: s.select(a > 0, 1, s.select(a < 0, -1, a)),
    }
    return ctx.b.elementwise(table[ctx.op], x)


@lowering("Not")
def _not(ctx: Context) -> Value:
    if ctx.input(0).dtype != "bool":
        raise ctx.shape_error("the input is bool")
    return ctx.b.elementwise(lambda s, x: ~x, ctx.input(0))


@lowering("BitwiseNot")
def _bitwise_not(ctx: Context) -> Value:
    if not dtypes.is_integer(ctx.input(0).dtype):
        raise ctx.shape_error("the input is of integers")
    return ctx.b.elementwise(lambda s, x: ~x, ctx.input(0))


def activation(name: str, attr: Callable[[str, Any], Any]) -> Activation:
    """Formula of an activation with attributes; ``attr(name, default)`` reads them."""
    special = {"LeakyRelu": 0.01, "HardSigmoid": 0.2, "Selu": 1.67326319217681884765625}
    alpha = attr("alpha", special.get(name, 1.0))
    gamma, beta = attr("gamma", 1.05070102214813232421875), attr("beta", 0.5)
    table: dict[str, Activation] = {
        "Elu": lambda s, x: s.select(x > 0, x, s.expm1(x) * alpha),
        "Selu": lambda s, x: s.select(x > 0, x, s.expm1(x) * alpha) * gamma,
        "Celu": lambda s, x: s.maximum(x, 0.0) + s.minimum(s.expm1(x / alpha) * alpha, 0.0),
        "LeakyRelu": lambda s, x: s.select(x >= 0, x, x * alpha),
        "ThresholdedRelu": lambda s, x: s.select(x > alpha, x, 0.0),
        "HardSigmoid": lambda s, x: s.clamp(x * alpha + beta, 0.0, 1.0),
        "Swish": lambda s, x: x * sigmoid(s, x * alpha),
    }
    return table[name]


@lowering("Elu", "Selu", "Celu", "LeakyRelu", "ThresholdedRelu", "HardSigmoid", "Swish")
def _activation(ctx: Context) -> Value:
    ctx.need_float()
    return ctx.b.elementwise(activation(ctx.op, ctx.attr), ctx.input(0))


@lowering("Shrink")
def _shrink(ctx: Context) -> Value:
    """Integers are compared and shifted as float64, as numpy does, and converted back."""
    x, bias, lambd = ctx.input(0), ctx.attr("bias", 0.0), ctx.attr("lambd", 0.5)

    def shrink(s: Body, a: Scalar) -> Scalar:
        below, moved = a < -lambd, a + bias
        return s.select(below, moved, s.select(a > lambd, a - bias, s.const(0, a.dtype)))

    return ctx.b.elementwise(of_floats(shrink), x)


@lowering("Gelu")
def _gelu(ctx: Context) -> Value:
    ctx.need_float()
    gelu = _gelu_by_tanh if ctx.attr("approximate", "none") == "tanh" else _gelu_by_erf
    return ctx.b.elementwise(lambda s, x: _widened(s, gelu, x), ctx.input(0))


def _gelu_by_tanh(s: Body, x: Scalar) -> Scalar:
    """(1 + tanh z) / 2 as 1 / (1 + e^-2z): of the former nothing is left far below 0."""
    inner = (x + x * x * x * 0.044715) * 0.7978845608028654  # sqrt(2 / pi)
    return x / (s.exp(inner * -2.0) + 1.0)


def _gelu_by_erf(s: Body, x: Scalar) -> Scalar:
    """Of 1 + erf, as the standard writes it, nothing is left far below 0."""
    return x * 0.5 * s.erfc(x * -0.7071067811865476)


def _need_any_float(ctx: Context) -> None:
    """Also one of 8 bits or fewer."""
    if dtypes.is_integer(ctx.input(0).dtype) or ctx.input(0).dtype == "bool":
        raise ctx.shape_error(f"input 0 is {ctx.input(0).dtype}; a float is expected")


@lowering("IsNaN")
def _is_nan(ctx: Context) -> Value:
    _need_any_float(ctx)
    return ctx.b.elementwise(lambda s, x: s.is_nan(_standard(s, x)), ctx.input(0), dtype="bool")


@lowering("IsInf")
def _is_inf(ctx: Context) -> Value:
    _need_any_float(ctx)
    names = {"detect_positive": float("inf"), "detect_negative": float("-inf")}
    signs = [value for name, value in names.items() if ctx.attr(name, 1)]

    def test(s: Body, x: Scalar) -> Scalar:
        x = _standard(s, x)
        result = s.const(False, "bool")
        for sign in signs:
            result = result | x.eq(sign)
        return result

    return ctx.b.elementwise(test, ctx.input(0), dtype="bool")


def _standard(s: Body, x: Scalar) -> Scalar:
    """8-bit floats widened to f32."""
    return s.cast(x, "float32") if x.dtype in dtypes.SMALL_FLOATS else x


@lowering("Dropout")
def _dropout(ctx: Context) -> list[Value | None]:
    """Inference: the input, and a mask of ones. Training mode is refused."""
    x = ctx.input(0)
    if ctx.has(2) and ctx.scalar(2) and ctx.scalar(1, 0.5):
        raise ctx.refuse("training mode draws random numbers", "Export the model for inference")
    if ctx.opset < 7 and not ctx.attr("is_test", 0):
        raise ctx.refuse("training mode draws random numbers", "Set is_test=1")
    mask = None
    if ctx.wants(1):
        mask = ctx.b.splat(x.shape, "bool" if ctx.opset >= 10 else x.dtype, 1)
    return [x, mask]


@lowering("Cast")
def _cast(ctx: Context) -> Value:
    to = ctx.attr("to")
    if isinstance(to, str):
        target = {"float": "float32", "double": "float64"}.get(to.lower(), to.lower())
    else:
        target = dtypes.from_onnx(to)
    return convert(ctx, target)


@lowering("CastLike")
def _cast_like(ctx: Context) -> Value:
    return convert(ctx, ctx.input(1).dtype)


def convert(ctx: Context, target: str) -> Value:
    """The first input converted to ``target`` with the node's saturate and round_mode."""
    if not dtypes.is_supported(target):
        raise ctx.refuse(*load.untranslated(target)[:2])
    x, saturate = ctx.input(0), bool(ctx.attr("saturate", 1))
    mode = ctx.attr("round_mode", "up")
    if x.dtype == target:
        return x
    if target == "float8_e8m0fnu":
        return ctx.b.elementwise(
            lambda s, a: to_power_of_two(s, s.cast(a, "float32"), saturate, mode), x, dtype=target
        )
    if target in ("float16", "bfloat16") and dtypes.is_float(x.dtype):
        return ctx.b.elementwise(lambda s, a: rounded(s, a, target), x, dtype=target)
    return ctx.b.cast(x, target, saturate)


@lowering("BitCast")
def _bit_cast(ctx: Context) -> Value:
    """The same bytes as another type of the same width."""
    x, target = ctx.input(0), dtypes.from_onnx(ctx.attr("to"))
    if not dtypes.is_supported(target):
        raise ctx.refuse(*load.untranslated(target)[:2])
    widths = [8 if t == "bool" else dtypes.bits(t) for t in (x.dtype, target)]
    if widths[0] != widths[1]:
        raise ctx.shape_error(f"{x.dtype} and {target} differ in width")

    def body(s: Body, a: Scalar) -> Scalar:
        if a.dtype == "bool":
            a = s.cast(a, "uint8")
        if target == "bool":
            return s.as_type(a, "uint8").ne(0)
        return s.bitcast(a, target)

    return ctx.b.elementwise(body, x, dtype=target)
