"""fmod of f32 vectors, exactly: in f64, where the quotient is below 2^29.

    x - trunc(x / y) y

x and y have 24 bits, and where x is not the smaller one both are multiples of the last place of y.
So a quotient that is no integer is 2^-24 away from one at least, and f64 rounds it by less: its
integer part is that of the exact quotient, of 29 bits at most. The product with y fits into f64
then, and so does the difference. Vectors with other lanes are left to the library's function.
"""

from __future__ import annotations

from collections.abc import Callable

from rcompiler.kernelgen.emitter import Emitter
from rcompiler.kernelgen.value import Val

_LIMIT = 2.0**29


def remainder(e: Emitter, x: Val, y: Val, called: Callable[[], Val]) -> Val:
    """fmod(x, y) of vectors of f32; `called` writes the calls of the library's function, which also
    get what is undefined, and NaNs.
    """
    key = "remainder", x.name, y.name
    if (known := e.recall(key)) is None:
        a, b = _cast(e, "extf", x, "f64"), _cast(e, "extf", y, "f64")
        quotient = _op(e, "arith.divf", a, b)
        size, limit = _op(e, "math.absf", quotient), e.constant(_LIMIT, "f64", x.lanes)
        beyond = _compare(e, "uge", size, limit)
        text = f"vector.reduction <or>, {beyond.name} : {beyond.type} into i1"
        some = e.op(text, [beyond], "i1", 0)
        [known] = e.branch(some.name, lambda: [called()], lambda: [_exact(e, x, a, b, quotient)])
        e.remember(key, known)
    return known


def _exact(e: Emitter, x: Val, a: Val, b: Val, quotient: Val) -> Val:
    """Of a and b, which are x and y in f64, where every quotient is below the limit."""
    whole = _cast(e, "sitofp", _cast(e, "fptosi", quotient, "i32"), "f64")
    left = _op(e, "arith.subf", a, _op(e, "arith.mulf", whole, b))
    signed = _op(e, "math.copysign", _cast(e, "truncf", left, "f32"), x)
    # The product of zero and infinity is none.
    below = _compare(e, "olt", _op(e, "math.absf", a), _op(e, "math.absf", b))
    names = f"{below.name}, {x.name}, {signed.name}"
    return _guarded(e, f"arith.select {names} : {below.type}, {x.type}", "f32", below, x, signed)


def _op(e: Emitter, name: str, *operands: Val) -> Val:
    names = ", ".join(v.name for v in operands)
    return _guarded(e, f"{name} {names} : {operands[0].type}", operands[0].element, *operands)


def _cast(e: Emitter, name: str, value: Val, element: str) -> Val:
    kind = Val("", element, value.lanes).type
    return _guarded(e, f"arith.{name} {value.name} : {value.type} to {kind}", element, value)


def _compare(e: Emitter, predicate: str, a: Val, b: Val) -> Val:
    return _guarded(e, f"arith.cmpf {predicate}, {a.name}, {b.name} : {a.type}", "i1", a, b)


def _guarded(e: Emitter, text: str, element: str, *operands: Val) -> Val:
    """Not in front of the branch that it stands in: what is too large has no integer."""
    name = e.pure(text, [v.name for v in operands], least_depth=e.guard)
    return Val(name, element, operands[0].lanes)
