"""arith and math ops on floats.

f16 and bf16 are widened to f32, and rounded after each op. Elementary functions of f32 are computed
in f64.
"""

import math
from collections.abc import Callable

import numpy as np

from numpy_linalg.elements import SMALL

Function = Callable[..., np.ndarray]


def _rounded(function: Function) -> Function:
    """On f32 where it is given f16 or bf16, whose type its results get."""

    def apply(*values: np.ndarray) -> np.ndarray:
        dtype = values[0].dtype
        if dtype in SMALL:
            values = tuple(v.astype(np.float32) for v in values)
        return np.asarray(function(*values)).astype(dtype, copy=False)

    return apply


def _in_double(function: Function) -> Function:
    """An elementary function, whose results of f32 are those of f64, rounded."""

    def apply(*values: np.ndarray) -> np.ndarray:
        dtype = values[0].dtype
        return np.asarray(function(*(v.astype(np.float64) for v in values))).astype(dtype)

    return apply


def _one_by_one(function: Callable[[float], float]) -> Function:
    """A function that numpy does not have."""
    each = np.frompyfunc(function, 1, 1)
    return lambda a: np.asarray(each(a), np.float64)


def _extreme(function: Function, of_zeros: Function) -> Function:
    """A minimum or maximum, for which -0 is less than +0."""
    return lambda a, b: np.where((a == 0) & (b == 0), of_zeros(a, b), function(a, b))


def _round_half_away(a: np.ndarray) -> np.ndarray:
    whole = np.trunc(a)
    return whole + np.copysign(np.abs(a - whole) >= 0.5, a)


def _round(a: np.ndarray) -> np.ndarray:
    return np.where(np.isinf(a), a, np.copysign(_round_half_away(a), a))


def _multiply_add(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    wide = np.float64 if a.dtype == np.float32 else np.longdouble
    return a.astype(wide) * b.astype(wide) + c.astype(wide)


def _least_of_zeros(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return -(-a + -b)


_IEEE: dict[str, Function] = {
    "arith.addf": np.add,
    "arith.subf": np.subtract,
    "arith.mulf": np.multiply,
    "arith.divf": np.divide,
    "arith.remf": np.fmod,
    "arith.negf": np.negative,
    "arith.maximumf": _extreme(np.maximum, np.add),
    "arith.minimumf": _extreme(np.minimum, _least_of_zeros),
    "arith.maxnumf": _extreme(np.fmax, np.add),
    "arith.minnumf": _extreme(np.fmin, _least_of_zeros),
    "math.absf": np.abs,
    "math.ceil": np.ceil,
    "math.copysign": np.copysign,
    "math.floor": np.floor,
    "math.fma": _multiply_add,
    "math.round": _round,
    "math.roundeven": np.rint,
    "math.sqrt": np.sqrt,
    "math.trunc": np.trunc,
}
_ELEMENTARY: dict[str, Function] = {
    **{
        f"math.{name}": getattr(np, name)
        for name in (
            *("acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "cbrt", "cos", "cosh"),
            *("exp", "exp2", "expm1", "log", "log10", "log1p", "log2", "sin", "sinh", "tan"),
            "tanh",
        )
    },
    "math.erf": _one_by_one(math.erf),
    "math.erfc": _one_by_one(math.erfc),
    "math.powf": np.power,
    "math.rsqrt": lambda a: 1 / np.sqrt(a),
}
FLOATS: dict[str, Function] = {
    **{name: _rounded(function) for name, function in _IEEE.items()},
    **{name: _rounded(_in_double(function)) for name, function in _ELEMENTARY.items()},
}


def _ordered(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return ~(np.isnan(a) | np.isnan(b))


_COMPARED: tuple[Function, ...] = (
    np.equal,
    np.greater,
    np.greater_equal,
    np.less,
    np.less_equal,
    np.not_equal,
)


def _comparison(function: Function, *, ordered: bool) -> Function:
    if ordered:
        return lambda a, b: function(a, b) & _ordered(a, b)
    return lambda a, b: function(a, b) | ~_ordered(a, b)


# by the number of the predicate
COMPARISONS: tuple[Function, ...] = (
    lambda a, b: np.zeros(np.broadcast_shapes(a.shape, b.shape), np.bool_),
    *(_comparison(f, ordered=True) for f in _COMPARED),
    _ordered,
    *(_comparison(f, ordered=False) for f in _COMPARED),
    lambda a, b: ~_ordered(a, b),
    lambda a, b: np.ones(np.broadcast_shapes(a.shape, b.shape), np.bool_),
)
