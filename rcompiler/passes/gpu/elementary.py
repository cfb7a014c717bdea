"""Elementary functions of f32 scalars as functions of the device: no GPU brings a math library.

exp, exp2, expm1, log, tanh and erf are those of CPU kernels, written by the same emitter; the
others are computed in f64 (`doubles`). All of them are made of operations that round as IEEE 754
demands, so that every device gives the same bits.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from rcompiler.kernelgen.emitter import Emitter
from rcompiler.kernelgen.value import Val
from rcompiler.kernelgen.vector_math import VectorMath
from rcompiler.passes.gpu.doubles import LOG2E, Doubles

_AS_ON_CPUS = ("exp", "exp2", "expm1", "log", "tanh", "erf")
# One step of a remainder: quotients below this are exact to one in f64.
_REMAINDER_BITS = 28


def symbol(name: str) -> str:
    """The name of the device function."""
    return f"__rc_{name}"


def available(name: str) -> bool:
    """Whether there is a device function of this name."""
    return name in _AS_ON_CPUS or name in _FUNCTIONS


def device_function(name: str) -> str:
    """The function as a func.func of f32 that is always inlined."""
    emitter = Emitter(1, has_fma=True)
    operands = [Val(f"%x{k}", "f32") for k in range(2 if name in _BINARY else 1)]
    result = (
        VectorMath(emitter).apply(name, operands[0])
        if name in _AS_ON_CPUS
        else _in_f64(name, emitter, operands)
    )
    assert result is not None
    arguments = ", ".join(f"{v.name}: {v.type}" for v in operands)
    head = f"func.func private @{symbol(name)}({arguments}) -> f32 attributes {{always_inline}} {{"
    return "\n".join([head, *emitter.text(), f"return {result.name} : f32", "}"])


def _in_f64(name: str, emitter: Emitter, operands: list[Val]) -> Val:
    d = Doubles(emitter)
    wide = [d.cast("extf", v, "f64") for v in operands]
    result = _FUNCTIONS[name](d, *wide)
    if name in _ODD:  # keeps the sign of zero
        result = d.select(d.compare("oeq", wide[0], d.c(0.0)), wide[0], result)
    return d.cast("truncf", result, "f32")


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
    both = d.add(grown, d.div(grown, d.add(grown, d.c(1.0))))
    return d.copysign(d.mul(both, d.c(0.5)), x)


def _cosh(d: Doubles, x: Val) -> Val:
    power = d.exp(d.abs(x))
    return d.mul(d.add(power, d.div(d.c(1.0), power)), d.c(0.5))


def _asinh(d: Doubles, x: Val) -> Val:
    a, one = d.abs(x), d.c(1.0)
    square = d.mul(a, a)
    more = d.div(square, d.add(one, d.sqrt(d.add(square, one))))
    finite = d.compare("olt", a, d.c(math.inf))
    return d.copysign(d.log1p(d.select(finite, d.add(a, more), a)), x)


def _acosh(d: Doubles, x: Val) -> Val:
    t = d.sub(x, d.c(1.0))
    root = d.sqrt(d.mul(t, d.add(t, d.c(2.0))))
    inside = d.compare("uge", x, d.c(1.0))
    return d.select(inside, d.log1p(d.add(t, root)), d.c(math.nan))


def _atanh(d: Doubles, x: Val) -> Val:
    ratio = d.div(d.add(x, x), d.sub(d.c(1.0), x))
    return d.mul(d.log1p(ratio), d.c(0.5))


def _powf(d: Doubles, x: Val, y: Val) -> Val:
    """As C99 defines it, also at the ends."""
    zero, one, infinity = d.c(0.0), d.c(1.0), d.c(math.inf)
    a = d.abs(x)
    # (+-1)^(+-infinity) is 1, but 0 * infinity is NaN
    level = d.op("arith.andi", d.compare("oeq", a, one), d.compare("ord", y, y))
    power = d.exp(d.select(level, zero, d.mul(y, d.log(a))))
    whole = d.compare("oeq", d.truncated(y), y)
    half = d.mul(y, d.c(0.5))
    odd = d.op("arith.andi", whole, d.compare("one", d.truncated(half), half))
    signed = d.select(odd, d.copysign(power, x), power)
    below = d.op("arith.andi", d.compare("olt", x, zero), d.compare("olt", a, infinity))
    broken = d.op("arith.andi", below, d.compare("one", d.truncated(y), y))
    result = d.select(broken, d.c(math.nan), signed)
    always = d.op("arith.ori", d.compare("oeq", x, one), d.compare("oeq", y, zero))
    return d.select(always, one, result)


def _remf(d: Doubles, x: Val, y: Val) -> Val:
    """x - trunc(x / y) y, exactly: a few bits of the quotient at a time."""
    a, b = d.abs(x), d.abs(y)
    exponents = [d.op("arith.shrui", d.cast("bitcast", v, "i64"), d.i(52)) for v in (a, b)]
    apart = d.op("arith.maxsi", d.op("arith.subi", *exponents), d.i(0))
    steps = d.op("arith.divui", apart, d.i(_REMAINDER_BITS))
    raised = d.op("arith.shli", d.op("arith.muli", steps, d.i(_REMAINDER_BITS)), d.i(52))
    first = d.op("arith.addi", d.cast("bitcast", b, "i64"), raised)
    last = d.op("arith.addi", steps, d.i(1))
    r = _remainder_steps(d, last, a, d.cast("bitcast", first, "f64"))
    result = d.select(d.compare("oeq", b, d.c(math.inf)), x, d.copysign(r, x))
    defined = d.op("arith.andi", d.compare("olt", a, d.c(math.inf)), d.compare("ogt", b, d.c(0.0)))
    return d.select(defined, result, d.c(math.nan))


def _remainder_steps(d: Doubles, steps: Val, value: Val, divisor: Val) -> Val:
    """`value` modulo `divisor`, and modulo smaller ones down to the last of `steps`."""
    e = d.e
    zero, one = d.i(0), d.i(1)
    e.open()
    rest, by = (Val(e.define(name), "f64") for name in ("%rest", "%by"))
    quotient = d.truncated(d.div(rest, by))
    left = d.fma(d.neg(quotient), by, rest)  # the quotient may be one too large or too small
    left = d.select(d.compare("olt", left, d.c(0.0)), d.add(left, by), left)
    left = d.select(d.compare("oge", left, by), d.sub(left, by), left)
    smaller = d.mul(by, d.c(2.0**-_REMAINDER_BITS))
    lines = e.close()
    name = e.fresh("r")
    for text in (
        f"{name}:2 = scf.for %step = {zero.name} to {steps.name} step {one.name} "
        f"iter_args(%rest = {value.name}, %by = {divisor.name}) -> (f64, f64) : i64 {{",
        *("  " + line for line in lines),
        f"  scf.yield {left.name}, {smaller.name} : f64, f64",
        "}",
    ):
        e.line(text)
    return Val(e.define(f"{name}#0"), "f64")


_FUNCTIONS: dict[str, Callable[..., Val]] = {
    "sin": lambda d, x: d.sine_cosine(x)[0],
    "cos": lambda d, x: d.sine_cosine(x)[1],
    "tan": _tan,
    "asin": _asin,
    "acos": _acos,
    "atan": Doubles.atan,
    "sinh": _sinh,
    "cosh": _cosh,
    "asinh": _asinh,
    "acosh": _acosh,
    "atanh": _atanh,
    "log1p": Doubles.log1p,
    "log2": lambda d, x: d.mul(d.log(x), d.c(LOG2E)),
    "log10": lambda d, x: d.mul(d.log(x), d.c(1 / math.log(10))),
    "powf": _powf,
    "remf": _remf,
}
_ODD = ("sin", "tan", "asin", "atan", "sinh", "asinh", "atanh", "log1p")
_BINARY = ("powf", "remf")
