"""Scalar code inside ``linalg.generic`` bodies and loops, written as MLIR text.

``Arithmetic`` collects one line per op; ``Scalar`` is an SSA name with its ONNX element type, with
Python's operators defined on it, so that a lowering reads like the formula of the standard.
The element type's signedness picks the op (``divsi`` or ``divui``, ``maxsi`` or ``maxui``).
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from . import dtypes

Number = int | float | bool


def _operator(
    method: str, *first: str, turned: bool = False
) -> Callable[[Scalar, Operand], Scalar]:
    """An operator of Python as a method of the body, which gets `first` in front of the operands.

    turned: the scalar is the right one of the two.
    """

    def apply(own: Scalar, other: Operand) -> Scalar:
        operands = (other, own) if turned else (own, other)
        made: Scalar = getattr(own.body, method)(*first, *operands)
        return made

    return apply


class Scalar:
    """One SSA scalar: its name in the text, its element type, the body it belongs to."""

    __slots__ = ("body", "dtype", "name")

    def __init__(self, body: Arithmetic, name: str, dtype: str):
        self.body, self.name, self.dtype = body, name, dtype

    __add__, __radd__ = _operator("add"), _operator("add", turned=True)
    __sub__, __rsub__ = _operator("sub"), _operator("sub", turned=True)
    __mul__, __rmul__ = _operator("mul"), _operator("mul", turned=True)
    __truediv__, __rtruediv__ = _operator("div"), _operator("div", turned=True)
    __and__, __or__ = _operator("binary", "arith.andi"), _operator("binary", "arith.ori")
    __xor__ = _operator("binary", "arith.xori")
    __lt__, __le__ = _operator("compare", "lt"), _operator("compare", "le")
    __gt__, __ge__ = _operator("compare", "gt"), _operator("compare", "ge")
    eq, ne = _operator("compare", "eq"), _operator("compare", "ne")

    def __neg__(self) -> Scalar:
        return self.body.neg(self)

    def __invert__(self) -> Scalar:
        return self ^ (True if self.dtype == "bool" else -1)


Operand = Scalar | Number

_UNARY_MATH = (
    "exp exp2 expm1 log log1p log2 log10 sqrt rsqrt sin cos tan asin acos atan sinh cosh tanh "
    "asinh acosh atanh erf erfc ceil floor round roundeven trunc cbrt"
).split()


def literal(value: Number | np.generic, dtype: str) -> str:
    """MLIR literal of a number in an element type: exact, also for NaN and infinities."""
    kind = dtypes.mlir_type(dtype)
    if dtypes.is_float(dtype):
        number = float(value)
        if math.isfinite(number):
            text = repr(number)
            mantissa, _, exponent = text.partition("e")
            mantissa += "" if "." in mantissa else ".0"
            return mantissa + ("e" + exponent if exponent else "")
        array = np.array(number, dtypes.numpy_dtype(dtype))
        return hex(int(array.view(f"uint{dtypes.bits(dtype)}")))
    if kind == "i1":
        return "true" if value else "false"
    if kind == "index":
        return str(int(value))
    width = dtypes.bits(dtype)
    number = int(value) & ((1 << width) - 1)
    return str(number - (1 << width) if number >> (width - 1) else number)


def _by_kind(
    floats: str, signed: str, unsigned: str
) -> Callable[[Arithmetic, Operand, Operand], Scalar]:
    """An operation of two operands of one type, which decides on the op of ``arith``."""

    def apply(body: Arithmetic, a: Operand, b: Operand) -> Scalar:
        x, y = body.pair(a, b)
        if dtypes.is_float(x.dtype):
            return body.binary("arith." + floats, x, y)
        return body.binary("arith." + (signed if _is_signed(x) else unsigned), x, y)

    return apply


def _is_signed(a: Scalar) -> bool:
    return dtypes.is_signed(a.dtype) or a.dtype == "index"


class Arithmetic:
    """Text of one region under construction, as far as scalars make it.

    ``head`` holds the constants (so that they dominate nested regions), ``lines`` the rest.
    """

    def __init__(self) -> None:
        self.head: list[str] = []
        self.lines: list[str] = []
        self._count = 0
        self._constants: dict[tuple[str, str], str] = {}  # names by text and type

    # -- emission ---------------------------------------------------------------------------
    def fresh(self, prefix: str = "") -> str:
        """A new SSA name local to the region."""
        self._count += 1
        return f"%_{prefix}{self._count}"

    def op(self, text: str, dtype: str) -> Scalar:
        """Append ``%new = text`` and return the scalar."""
        name = self.fresh()
        self.lines.append(f"{name} = {text}")
        return Scalar(self, name, dtype)

    def const(self, value: Number | np.generic, dtype: str) -> Scalar:
        """A constant of the given element type (small types: their stored byte)."""
        key = (literal(value, dtype), dtypes.mlir_type(dtype))
        name = self._constants.get(key)
        if name is None:
            name = self._constants[key] = self.fresh("c")
            text = key[0] if key[1] == "i1" else f"{key[0]} : {key[1]}"
            self.head.append(f"{name} = arith.constant {text}")
        return Scalar(self, name, dtype)

    def as_type(self, scalar: Scalar, dtype: str) -> Scalar:
        """The same bits under another name of the same width (``uint8`` as ``int8``)."""
        return Scalar(self, scalar.name, dtype)

    def pair(self, a: Operand, b: Operand) -> tuple[Scalar, Scalar]:
        """Both operands as scalars; a Python number takes the other's type."""
        if not isinstance(a, Scalar):
            assert isinstance(b, Scalar)
            a = self.const(a, b.dtype)
        if not isinstance(b, Scalar):
            b = self.const(b, a.dtype)
        return a, b

    def binary(self, op: str, a: Operand, b: Operand) -> Scalar:
        """``op a, b`` of one type (``arith.addf``, ``math.powf`` ...)."""
        x, y = self.pair(a, b)
        return self.op(f"{op} {x.name}, {y.name} : {dtypes.mlir_type(x.dtype)}", x.dtype)

    def fma(self, a: Scalar, b: Scalar, c: Scalar) -> Scalar:
        """``a * b + c`` of floats, rounded once where the target can."""
        names = f"{a.name}, {b.name}, {c.name}"
        return self.op(f"math.fma {names} : {dtypes.mlir_type(a.dtype)}", a.dtype)

    def unary(self, op: str, a: Scalar) -> Scalar:
        return self.op(f"{op} {a.name} : {dtypes.mlir_type(a.dtype)}", a.dtype)

    # -- arithmetic -------------------------------------------------------------------------
    add = _by_kind("addf", "addi", "addi")
    sub = _by_kind("subf", "subi", "subi")
    mul = _by_kind("mulf", "muli", "muli")
    # Quotients of integers truncate towards zero; the caller guards a zero divisor.
    div = _by_kind("divf", "divsi", "divui")
    rem = _by_kind("remf", "remsi", "remui")  # C's, with the sign of the dividend
    # A NaN wins, as in numpy; of the `_number` it loses.
    maximum = _by_kind("maximumf", "maxsi", "maxui")
    minimum = _by_kind("minimumf", "minsi", "minui")
    maximum_number = _by_kind("maxnumf", "maxsi", "maxui")

    def neg(self, a: Scalar) -> Scalar:
        return self.unary("arith.negf", a) if dtypes.is_float(a.dtype) else self.sub(0, a)

    def abs(self, a: Scalar) -> Scalar:
        if dtypes.is_float(a.dtype):
            return self.unary("math.absf", a)
        return self.unary("math.absi", a) if dtypes.is_signed(a.dtype) else a

    def pow(self, a: Operand, b: Operand) -> Scalar:
        return self.binary("math.powf", a, b)

    def shift_left(self, a: Operand, b: Operand) -> Scalar:
        return self.binary("arith.shli", a, b)

    def shift_right(self, a: Operand, b: Operand) -> Scalar:
        """Arithmetic for signed types, logical for unsigned ones."""
        x, y = self.pair(a, b)
        return self.binary("arith.shrsi" if dtypes.is_signed(x.dtype) else "arith.shrui", x, y)

    def math(self, name: str, a: Scalar) -> Scalar:
        """One-operand function of the ``math`` dialect, e.g. ``math("exp", x)``."""
        return self.unary("math." + name, a)

    def __getattr__(self, name: str) -> Callable[[Scalar], Scalar]:
        if name in _UNARY_MATH:
            return lambda a: self.unary("math." + name, a)
        raise AttributeError(name)

    def convert(self, op: str, a: Scalar, dtype: str) -> Scalar:
        """``op a`` of another type (``arith.extf``, ``arith.fptosi`` ...); ``Body.cast`` chooses
        the op itself.
        """
        source, target = dtypes.mlir_type(a.dtype), dtypes.mlir_type(dtype)
        return self.op(f"{op} {a.name} : {source} to {target}", dtype)

    # -- comparison and choice --------------------------------------------------------------
    def compare(self, predicate: str, a: Operand, b: Operand) -> Scalar:
        """``lt le gt ge eq ne`` with numpy's meaning for NaN (only ``ne`` is true)."""
        x, y = self.pair(a, b)
        kind = dtypes.mlir_type(x.dtype)
        if dtypes.is_float(x.dtype):
            code = ("u" if predicate == "ne" else "o") + predicate
            return self.op(f"arith.cmpf {code}, {x.name}, {y.name} : {kind}", "bool")
        if predicate not in ("eq", "ne"):
            predicate = ("s" if _is_signed(x) else "u") + predicate
        return self.op(f"arith.cmpi {predicate}, {x.name}, {y.name} : {kind}", "bool")

    def is_nan(self, a: Scalar) -> Scalar:
        kind = dtypes.mlir_type(a.dtype)
        return self.op(f"arith.cmpf uno, {a.name}, {a.name} : {kind}", "bool")

    def select(self, condition: Scalar, a: Operand, b: Operand) -> Scalar:
        x, y = self.pair(a, b)
        kind = dtypes.mlir_type(x.dtype)
        return self.op(f"arith.select {condition.name}, {x.name}, {y.name} : {kind}", x.dtype)

    def clamp(self, a: Scalar, low: Operand, high: Operand) -> Scalar:
        return self.minimum(self.maximum(a, low), high)

    def bounded(self, a: Scalar, low: Operand, high: Operand) -> Scalar:
        """The same of floats; NaN becomes ``low``."""
        a = self.select(a > low, a, low)
        return self.select(a < high, a, high)

    def bitcast(self, a: Scalar, dtype: str) -> Scalar:
        """The same bits as another type of equal width."""
        if dtypes.mlir_type(a.dtype) == dtypes.mlir_type(dtype):
            return self.as_type(a, dtype)
        return self.convert("arith.bitcast", a, dtype)
