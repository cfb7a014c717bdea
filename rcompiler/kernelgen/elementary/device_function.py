"""Elementary functions of scalars as functions of the device: no GPU brings a math library.

Of f32, exp, exp2, expm1, log, tanh, erf and erfc are those of CPU kernels, written by the same
emitter; the others are computed in f64 (`doubles`). Those of f64 are in `full_doubles`. All are
made of operations that round as IEEE 754 demands, so that every device gives the same bits.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from rcompiler.kernelgen.elementary.doubles import LOG2E, Doubles
from rcompiler.kernelgen.elementary.full_doubles import FullDoubles
from rcompiler.kernelgen.emitter import Emitter
from rcompiler.kernelgen.value import Val
from rcompiler.kernelgen.vector_math import VectorMath
from rcompiler.linalg.affine import Linear

_AS_ON_CPUS = ("exp", "exp2", "expm1", "log", "tanh", "erf", "erfc")
# One step of a remainder: quotients below this are exact to one in f64.
_REMAINDER_BITS = 28


def symbol(name: str, element: str) -> str:
    """The name of the device function of f32 or f64."""
    return f"__rc_{name}_{element}"


def available(name: str) -> bool:
    """Whether there are device functions of this name."""
    return name in _AS_ON_CPUS or name in _FUNCTIONS


def device_function(name: str, element: str) -> str:
    """The function as a func.func of f32 or f64 that is always inlined."""
    emitter = Emitter(1, has_fma=True)
    operands = [Val(f"%x{k}", element) for k in range(2 if name in _BINARY else 1)]
    if element == "f64":
        result = _of_f64(name, FullDoubles(emitter), operands, {**_FUNCTIONS, **_FULL})
    elif name in _AS_ON_CPUS:
        found = VectorMath(emitter).apply(name, operands[0])
        assert found is not None
        result = found
    else:
        d = Doubles(emitter)
        wide = [d.convert("extf", v, "f64") for v in operands]
        result = d.convert("truncf", _of_f64(name, d, wide, _FUNCTIONS), element)
    arguments = ", ".join(f"{v.name}: {v.type}" for v in operands)
    named = f"{symbol(name, element)}({arguments})"
    head = f"func.func private @{named} -> {element} attributes {{always_inline}} {{"
    return "\n".join([head, *emitter.text(), f"return {result.name} : {element}", "}"])


def _of_f64(name: str, d: Doubles, operands: list[Val], functions: Mapping[str, Function]) -> Val:
    result = functions[name](d, *operands)
    if name in _ODD:  # keeps the sign of zero
        result = d.select(d.compare("oeq", operands[0], 0.0), operands[0], result)
    return result


def _tan(d: Doubles, x: Val) -> Val:
    return d.div(*d.sine_cosine(x))


def _asin(d: Doubles, x: Val) -> Val:
    one = d.c(1.0)
    return d.atan(d.div(x, d.sqrt(d.mul(d.sub(one, x), d.add(one, x)))))


def _acos(d: Doubles, x: Val) -> Val:
    one = d.c(1.0)
    half = d.atan(d.sqrt(d.div(d.sub(one, x), d.add(one, x))))
    return d.add(half, half)


def _sinh(d: Doubles, x: Val) -> Val:
    grown = d.expm1(d.abs(x))
    both = d.add(grown, d.div(grown, d.add(grown, 1.0)))
    return d.copysign(d.mul(both, 0.5), x)


def _cosh(d: Doubles, x: Val) -> Val:
    power = d.exp(d.abs(x))
    return d.mul(d.add(power, d.div(1.0, power)), 0.5)


def _asinh(d: Doubles, x: Val) -> Val:
    a, one = d.abs(x), d.c(1.0)
    square = d.mul(a, a)
    more = d.div(square, d.add(one, d.sqrt(d.add(square, one))))
    finite = d.compare("olt", a, math.inf)
    return d.copysign(d.log1p(d.select(finite, d.add(a, more), a)), x)


def _acosh(d: Doubles, x: Val) -> Val:
    t = d.sub(x, 1.0)
    root = d.sqrt(d.mul(t, d.add(t, 2.0)))
    inside = d.compare("uge", x, 1.0)
    return d.select(inside, d.log1p(d.add(t, root)), math.nan)


def _atanh(d: Doubles, x: Val) -> Val:
    ratio = d.div(d.add(x, x), d.sub(1.0, x))
    return d.mul(d.log1p(ratio), 0.5)


def _powf(d: Doubles, x: Val, y: Val) -> Val:
    """As C99 defines it, also at the ends."""
    zero, one, infinity = d.c(0.0), d.c(1.0), d.c(math.inf)
    a = d.abs(x)
    power = d.select(d.compare("ord", y, y), d.power(a, y), y)
    whole = d.compare("oeq", d.math("trunc", y), y)
    half = d.mul(y, 0.5)
    odd = d.bit_and(whole, d.compare("one", d.math("trunc", half), half))
    signed = d.select(odd, d.copysign(power, x), power)
    below = d.bit_and(d.compare("olt", x, zero), d.compare("olt", a, infinity))
    broken = d.bit_and(below, d.compare("one", d.math("trunc", y), y))
    result = d.select(broken, math.nan, signed)
    always = d.bit_or(d.compare("oeq", x, one), d.compare("oeq", y, zero))
    return d.select(always, one, result)


def _remf(d: Doubles, x: Val, y: Val) -> Val:
    """x - trunc(x / y) y, exactly: a few bits of the quotient at a time."""
    a, b = d.abs(x), d.abs(y)
    apart = d.sub(d.exponent(a), d.exponent(b))
    steps = d.div_unsigned(d.max_signed(apart, 0), _REMAINDER_BITS)
    first = d.raised(b, d.mul(steps, _REMAINDER_BITS))
    r = _remainder_steps(d, d.add(steps, 1), a, first)
    result = d.select(d.compare("oeq", b, math.inf), x, d.copysign(r, x))
    defined = d.bit_and(d.compare("olt", a, math.inf), d.compare("ogt", b, 0.0))
    return d.select(defined, result, math.nan)


def _remainder_steps(d: Doubles, steps: Val, value: Val, divisor: Val) -> Val:
    """`value` modulo `divisor`, and modulo smaller ones down to the last of `steps`."""

    def step(_: Linear, carried: list[Val]) -> list[Val]:
        rest, by = carried
        quotient = d.math("trunc", d.div(rest, by))
        left = d.fma(d.neg(quotient), by, rest)  # the quotient may be one too large or too small
        left = d.select(d.compare("olt", left, 0.0), d.add(left, by), left)
        left = d.select(d.compare("oge", left, by), d.sub(left, by), left)
        return [left, d.mul(by, 2.0**-_REMAINDER_BITS)]

    return d.e.loop(Linear(), Linear.of(steps.name), 1, [value, divisor], step)[0]


Function = Callable[..., Val]
_FUNCTIONS: dict[str, Function] = {
    "sin": lambda d, x: d.sine_cosine(x)[0],
    "cos": lambda d, x: d.sine_cosine(x)[1],
    "tan": _tan,
    "asin": _asin,
    "acos": _acos,
    "atan": lambda d, x: d.atan(x),
    "sinh": _sinh,
    "cosh": _cosh,
    "asinh": _asinh,
    "acosh": _acosh,
    "atanh": _atanh,
    "log1p": lambda d, x: d.log1p(x),
    "log2": lambda d, x: d.mul(d.log(x), LOG2E),
    "log10": lambda d, x: d.mul(d.log(x), 1 / math.log(10)),
    "powf": _powf,
    "remf": _remf,
}
# What f64 needs a formula of its own for, or has from CPUs in f32.
_FULL: dict[str, Function] = {
    name: getattr(FullDoubles, name)
    for name in "exp exp2 expm1 tanh sinh cosh erf erfc log log2 asinh acosh atanh".split()
}
_ODD = ("sin", "tan", "asin", "atan", "sinh", "asinh", "atanh", "expm1", "log1p")
_BINARY = ("powf", "remf")
