"""Arithmetic, functions, activations, logic, choice, conversions."""

from __future__ import annotations

import numpy as np

from fuzz.catalog import generator
from fuzz.maker import FLOATS, INTS, NUMBERS, Maker, Reject, Value
from rcompiler.frontend import dtypes

# Functions of one float tensor, and between which numbers they are defined and of moderate size.
UNARY: dict[str, tuple[float | None, float | None]] = {
    "Acos": (-0.95, 0.95), "Acosh": (1.1, 20), "Asin": (-0.95, 0.95), "Asinh": (None, None),
    "Atan": (None, None), "Atanh": (-0.95, 0.95), "Ceil": (None, None), "Cos": (-8, 8),
    "Cosh": (-5, 5), "Erf": (None, None), "Exp": (-8, 6), "Floor": (None, None),
    "HardSwish": (None, None), "Log": (0.05, 100), "Mish": (None, None),
    "Reciprocal": (0.1, 50), "Round": (None, None), "Sigmoid": (None, None), "Sin": (-8, 8),
    "Sinh": (-5, 5), "Softplus": (None, None), "Softsign": (None, None), "Sqrt": (0, 1000),
    "Tan": (-1.4, 1.4), "Tanh": (None, None),
}  # fmt: skip


def in_range(g: Maker, types: tuple[str, ...], low: float | None, high: float | None) -> Value:
    """A tensor of floats between two numbers; sometimes one that there is, cut to them."""
    if low is not None and g.chance(0.4):
        x = g.value(types, fresh=0.05)
        if x.dtype in FLOATS and not x.constant:
            bounds = [g.fixed(np.float64(b), x.dtype) for b in (low, high)]
            return g.node("Clip", [x, *bounds])[0]
    return g.value(types, low=low, high=high)


@generator(*UNARY)
def unary(g: Maker, op: str) -> None:
    low, high = UNARY[op]
    g.node(op, [in_range(g, g.types(op), low, high)])


@generator("Abs", "Neg", "Sign", "Relu")
def numeric(g: Maker, op: str) -> None:
    g.node(op, [g.value(g.types(op))])


@generator("Not")
def negation(g: Maker, op: str) -> None:
    g.node(op, [g.value(["bool"])])


@generator("IsNaN", "IsInf")
def test(g: Maker, op: str) -> None:
    found = {}
    if op == "IsInf":
        found = {f"detect_{s}": g.int(0, 1) for s in ("negative", "positive") if g.chance(0.5)}
    g.node(op, [g.value(g.types(op, "T1"))], **found)


# Attributes of activations: (smallest, largest) of each.
ACTIVATIONS: dict[str, dict[str, tuple[float, float]]] = {
    "Celu": {"alpha": (0.3, 2)}, "Elu": {"alpha": (0.1, 2)},
    "HardSigmoid": {"alpha": (0.1, 1), "beta": (0, 1)}, "LeakyRelu": {"alpha": (0, 0.9)},
    "Selu": {"alpha": (0.5, 2), "gamma": (0.5, 2)}, "Shrink": {"bias": (0, 1), "lambd": (0, 1)},
    "Swish": {"alpha": (0.5, 2)}, "ThresholdedRelu": {"alpha": (-1, 1)},
}  # fmt: skip


@generator(*(op for op in ACTIVATIONS if op != "Swish"))
def activation(g: Maker, op: str) -> None:
    given = {n: g.random.uniform(*b) for n, b in ACTIVATIONS[op].items() if g.chance(0.6)}
    g.node(op, [g.value(g.types(op))], **given)


@generator("Swish", opsets=range(24, 29))
def swish(g: Maker, op: str) -> None:
    activation(g, op)


@generator("Gelu")
def gelu(g: Maker, op: str) -> None:
    g.node(op, [g.value(g.types(op))], approximate=g.pick([None, "none", "tanh"]))


def pair(g: Maker, types: tuple[str, ...], **how: object) -> list[Value]:
    """Two tensors of one type that broadcast; either may be the larger one."""
    x = g.value(types)
    both = [x, g.partner(x, **how)]
    if not how:
        g.random.shuffle(both)
    return both


@generator("Add", "Sub", "Mul")
def arithmetic(g: Maker, op: str) -> None:
    g.node(op, pair(g, g.types(op)))


@generator("Div", "Mod")
def division(g: Maker, op: str) -> None:
    """By positive numbers: what dividing by zero gives, nobody says."""
    x, y = pair(g, tuple(g.among(g.types(op), NUMBERS)), low=1, high=20)
    floats = dtypes.is_float(x.dtype)
    if op == "Mod":
        g.node(op, [x, y], fmod=1 if floats else g.pick([None, 0, 1]))
    else:
        g.node(op, [x, y])


@generator("Pow")
def power(g: Maker, op: str) -> None:
    base = g.value(g.types(op), low=0.1, high=4)
    kinds = [t for t in g.types(op, "T1") if t in NUMBERS]
    if dtypes.is_integer(base.dtype):
        kinds = [t for t in kinds if t in INTS]
    first = (*base.shape[:1], *(1 for _ in base.shape[1:]))
    exponent = g.value(kinds, shape=g.pick([(), base.shape, (1,), first]), low=0, high=3)
    g.node(op, [base, exponent])


@generator("Max", "Min", "Sum", "Mean")
def variadic(g: Maker, op: str) -> None:
    x = g.value(g.types(op))
    g.node(op, [x, *(g.partner(x) for _ in range(g.pick([0, 1, 1, 1, 2, 3])))])


@generator("Equal", "Less", "LessOrEqual", "Greater", "GreaterOrEqual")
def comparison(g: Maker, op: str) -> None:
    types = g.types(op, "T")
    g.node(op, pair(g, types))


@generator("And", "Or", "Xor", "BitwiseAnd", "BitwiseOr", "BitwiseXor")
def logic(g: Maker, op: str) -> None:
    types = g.types(op) if op.startswith("Bitwise") else ("bool",)
    g.node(op, pair(g, types))


@generator("BitwiseNot")
def bitwise_not(g: Maker, op: str) -> None:
    g.node(op, [g.value(g.types(op))])


@generator("BitShift")
def shift(g: Maker, op: str) -> None:
    x = g.value(g.types(op))
    g.node(op, [x, g.partner(x, low=0, high=7)], direction=g.pick(["LEFT", "RIGHT"]))


@generator("Where")
def where(g: Maker, op: str) -> None:
    x = g.value(g.types(op))
    y = g.partner(x)
    shape = [1 if g.chance(0.3) else d for d in g.pick([x, y]).shape]
    g.node(op, [g.value(["bool"], shape=shape), x, y])


@generator("Clip")
def clip(g: Maker, op: str) -> None:
    x = g.value(g.types(op))
    low = g.value([x.dtype], shape=(), low=-1, high=1) if g.chance(0.7) else None
    high = g.value([x.dtype], shape=(), low=1, high=3) if g.chance(0.7) else None
    g.node(op, [x, low, high])


@generator("PRelu")
def prelu(g: Maker, op: str) -> None:
    x = g.value(g.types(op))
    shape = [1 if g.chance(0.5) else d for d in x.shape]
    g.node(op, [x, g.value([x.dtype], shape=shape)])


@generator("Dropout")
def dropout(g: Maker, op: str) -> None:
    x = g.value(g.types(op))
    seed = g.pick([None, None, 3])  # of what is not drawn
    ratio = g.fixed(np.float64(0.3), "float32") if g.chance(0.5) else None
    training = g.fixed(np.bool_(False), "bool") if ratio is not None and g.chance(0.5) else None
    g.node(op, [x, ratio, training], 1 if g.chance(0.5) else 2, seed=seed)


def _castable(x: Value, to: str) -> bool:
    """Whether every number has a value in the other type that all agree on."""
    if to == "bool" or dtypes.is_float(to) or not x.array.size:
        return True
    numbers = x.array.astype(np.float64)
    if dtypes.is_integer(to):
        low, high = dtypes.limits(to)
        return bool(numbers.min() >= low and numbers.max() <= high)
    return bool(abs(numbers).max() <= 6)


def _rounding(g: Maker, to: str) -> dict[str, object]:
    """What becomes of numbers that the type does not hold."""
    if to == "float8_e8m0fnu":
        return {
            "round_mode": g.pick([None, "up", "down", "nearest"]),
            "saturate": g.pick([None, 0]),
        }
    return {"saturate": g.pick([None, 0, 1])} if to.startswith("float8") else {}


@generator("Cast")
def cast(g: Maker, op: str) -> None:
    x = g.value(g.types(op, "T1"))
    to = g.dtype([t for t in g.types(op, "T2") if _castable(x, t)])
    g.node(op, [x], to=dtypes.to_onnx(to), **_rounding(g, to))


@generator("CastLike")
def cast_like(g: Maker, op: str) -> None:
    x = g.value(g.types(op, "T1"))
    y = g.value([t for t in g.types(op, "T2") if _castable(x, t)])
    g.node(op, [x, y], **_rounding(g, y.dtype))


def _width(dtype: str) -> int:
    """Bits of an element as ONNX counts them; a byte holds each of those of fewer than 8."""
    for bits in (2, 4):
        if dtype in (f"int{bits}", f"uint{bits}", f"float{bits}_e2m1fn"):
            return bits
    return 8 if dtype == "bool" else dtypes.bits(dtype)


@generator("BitCast", opsets=range(26, 29))
def bit_cast(g: Maker, op: str) -> None:
    """To integers, of whose bits each element is a number."""
    x = g.value(g.among(g.types(op, "T1"), INTS))
    same = [t for t in g.types(op, "T2") if _width(t) == _width(x.dtype)]
    to = g.pick([t for t in same if dtypes.is_integer(t)])
    if to == x.dtype and g.chance(0.8):
        raise Reject
    g.node(op, [x], to=dtypes.to_onnx(to))
