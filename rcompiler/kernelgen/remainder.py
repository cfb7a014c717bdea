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
from rcompiler.kernelgen.typed_ops import TypedOps
from rcompiler.kernelgen.value import Val

_LIMIT = 2.0**29


def remainder(e: Emitter, x: Val, y: Val, called: Callable[[], Val]) -> Val:
    """fmod(x, y) of vectors of f32; `called` writes the calls of the library's function, which also
    get what is undefined, and NaNs.
    """
    key = "remainder", x.name, y.name
    if (known := e.recall(key)) is None:
        ops = e.guarded
        a, b = ops.convert("extf", x, "f64"), ops.convert("extf", y, "f64")
        quotient = ops.div(a, b)
        beyond = ops.compare("uge", ops.abs(quotient), _LIMIT)
        some = e.across("or", beyond).name
        [known] = e.branch(some, lambda: [called()], lambda: [_exact(e.guarded, x, a, b, quotient)])
        e.remember(key, known)
    return known


def _exact(ops: TypedOps, x: Val, a: Val, b: Val, quotient: Val) -> Val:
    """Of a and b, which are x and y in f64, where every quotient is below the limit; not in front
    of the branch that it stands in, since what is too large has no integer.
    """
    whole = ops.convert("sitofp", ops.convert("fptosi", quotient, "i32"), "f64")
    left = ops.sub(a, ops.mul(whole, b))
    signed = ops.copysign(ops.convert("truncf", left, "f32"), x)
    # The product of zero and infinity is none.
    below = ops.compare("olt", ops.abs(a), ops.abs(b))
    return ops.select(below, x, signed)
