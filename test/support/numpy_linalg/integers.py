"""arith and math ops on integers. Signless: an op says whether it takes them as signed."""

from collections.abc import Callable

import numpy as np

Function = Callable[..., np.ndarray]


def as_signed(a: np.ndarray) -> np.ndarray:
    """For signed arithmetic: of one bit, 1 is -1."""
    return -a.astype(np.int8) if a.dtype == np.bool_ else a


def as_unsigned(a: np.ndarray) -> np.ndarray:
    """For unsigned arithmetic."""
    return a.astype(np.uint8) if a.dtype == np.bool_ else a.view(f"u{a.dtype.itemsize}")


def low_bits(a: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """The low bits of integers, as many as `dtype` has."""
    return (a & 1).astype(np.bool_) if dtype == np.bool_ else a.astype(dtype)


def _wrapping(function: Function, read: Function = as_signed) -> Function:
    """On integers read in one way; the result has their type."""
    return lambda *v: low_bits(np.asarray(function(*map(read, v))), v[0].dtype)


def _quotient(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Towards zero; without a trap: a / 0 = a / 1, and the least number by -1 wraps."""
    b = np.where(b == 0, b.dtype.type(1), b)
    if b.dtype.kind == "u":
        return a // b
    rest = np.fmod(a, np.where(b == -1, b.dtype.type(1), b))
    return np.where(b == -1, 0 - a, (a - rest) // np.where(b == -1, b.dtype.type(1), b))


def _remainder(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Of `_quotient`: 0 for a divisor of 0 or -1."""
    small = (b == 0) | (b == -1) if b.dtype.kind == "i" else b == 0
    return np.fmod(a, np.where(small, b.dtype.type(1), b))


def _floor_quotient(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return _quotient(a, b) - ((_remainder(a, b) != 0) & ((a < 0) != (b < 0)))


def _ceil_quotient(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return _quotient(a, b) + ((_remainder(a, b) != 0) & ((a < 0) == (b < 0)))


def _leading_zeros(a: np.ndarray) -> np.ndarray:
    bits = 8 * a.dtype.itemsize
    for shift in (1, 2, 4, 8, 16, 32):  # all bits below the first one
        if shift < bits:
            a = a | a >> a.dtype.type(shift)
    return bits - np.bitwise_count(a)


def _trailing_zeros(a: np.ndarray) -> np.ndarray:
    return np.bitwise_count(~a & (a - a.dtype.type(1)))


INTEGERS: dict[str, Function] = {
    "arith.addi": _wrapping(np.add),
    "arith.subi": _wrapping(np.subtract),
    "arith.muli": _wrapping(np.multiply),
    "arith.andi": np.bitwise_and,
    "arith.ori": np.bitwise_or,
    "arith.xori": np.bitwise_xor,
    "arith.shli": _wrapping(np.left_shift),
    "arith.shrsi": _wrapping(np.right_shift),
    "arith.shrui": _wrapping(np.right_shift, as_unsigned),
    "arith.divsi": _wrapping(_quotient),
    "arith.divui": _wrapping(_quotient, as_unsigned),
    "arith.remsi": _wrapping(_remainder),
    "arith.remui": _wrapping(_remainder, as_unsigned),
    "arith.floordivsi": _wrapping(_floor_quotient),
    "arith.ceildivsi": _wrapping(_ceil_quotient),
    "arith.ceildivui": _wrapping(_ceil_quotient, as_unsigned),
    "arith.maxsi": _wrapping(np.maximum),
    "arith.minsi": _wrapping(np.minimum),
    "arith.maxui": _wrapping(np.maximum, as_unsigned),
    "arith.minui": _wrapping(np.minimum, as_unsigned),
    "math.absi": _wrapping(np.abs),
    "math.ctpop": _wrapping(np.bitwise_count, as_unsigned),
    "math.ctlz": _wrapping(_leading_zeros, as_unsigned),
    "math.cttz": _wrapping(_trailing_zeros, as_unsigned),
}
# by the number of the predicate
COMPARISONS: tuple[Function, ...] = (
    np.equal,
    np.not_equal,
    *(lambda a, b, f=f: f(as_signed(a), as_signed(b)) for f in (np.less, np.less_equal)),
    *(lambda a, b, f=f: f(as_signed(a), as_signed(b)) for f in (np.greater, np.greater_equal)),
    *(lambda a, b, f=f: f(as_unsigned(a), as_unsigned(b)) for f in (np.less, np.less_equal)),
    *(lambda a, b, f=f: f(as_unsigned(a), as_unsigned(b)) for f in (np.greater, np.greater_equal)),
)
