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


class Scalar:
    """One SSA scalar: its name in the text, its element type, the body it belongs to."""

    __slots__ = ("body", "dtype", "name")

    def __init__(self, body: Arithmetic, name: str, dtype: str):
        self.body, self.name, self.dtype = body, name, dtype

    def __add__(self, other: Scalar | Number) -> Scalar:
        return self.body.add(self, other)

    def __radd__(self, other: Number) -> Scalar:
        return self.body.add(other, self)

    def __sub__(self, other: Scalar | Number) -> Scalar:
        return self.body.sub(self, other)

    def __rsub__(self, other: Number) -> Scalar:
        return self.body.sub(other, self)

    def __mul__(self, other: Scalar | Number) -> Scalar:
        return self.body.mul(self, other)

    def __rmul__(self, other: Number) -> Scalar:
        return self.body.mul(other, self)

    def __truediv__(self, other: Scalar | Number) -> Scalar:
        return self.body.div(self, other)

    def __rtruediv__(self, other: Number) -> Scalar:
        return self.body.div(other, self)

    def __neg__(self) -> Scalar:
        return self.body.neg(self)

    def __and__(self, other: Scalar | Number) -> Scalar:
        return self.body.binary("arith.andi", self, other)

    def __or__(self, other: Scalar | Number) -> Scalar:
        return self.body.binary("arith.ori", self, other)

    def __xor__(self, other: Scalar | Number) -> Scalar:
        return self.body.binary("arith.xori", self, other)

    def __invert__(self) -> Scalar:
        return self.body.binary("arith.xori", self, True if self.dtype == "bool" else -1)

    def __lt__(self, other: Scalar | Number) -> Scalar:
        return self.body.compare("lt", self, other)

    def __le__(self, other: Scalar | Number) -> Scalar:
        return self.body.compare("le", self, other)

    def __gt__(self, other: Scalar | Number) -> Scalar:
        return self.body.compare("gt", self, other)

    def __ge__(self, other: Scalar | Number) -> Scalar:
        return self.body.compare("ge", self, other)

    def eq(self, other: Scalar | Number) -> Scalar:
        return self.body.compare("eq", self, other)

    def ne(self, other: Scalar | Number) -> Scalar:
        return self.body.compare("ne", self, other)


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


class Arithmetic:
    """Text of one region under construction, as far as scalars make it.

    ``head`` holds the constants (so that they dominate nested regions), ``lines`` the rest.
    """

    def __init__(self) -> None:
        self.head: list[str] = []
        self.lines: list[str] = []
        self._count = 0
        self._constants: dict[tuple[str, str], Scalar] = {}

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
        found = self._constants.get(key)
        if found is None:
            name = self.fresh("c")
            text = key[0] if key[1] == "i1" else f"{key[0]} : {key[1]}"
            self.head.append(f"{name} = arith.constant {text}")
            found = self._constants[key] = Scalar(self, name, dtype)
        return found if found.dtype == dtype else Scalar(self, found.name, dtype)

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

    def unary(self, op: str, a: Scalar) -> Scalar:
        return self.op(f"{op} {a.name} : {dtypes.mlir_type(a.dtype)}", a.dtype)

    def _by_kind(self, a: Operand, b: Operand, floats: str, signed: str, unsigned: str) -> Scalar:
        x, y = self.pair(a, b)
        if dtypes.is_float(x.dtype):
            return self.binary("arith." + floats, x, y)
        signed_type = dtypes.is_signed(x.dtype) or x.dtype == "index"
        return self.binary("arith." + (signed if signed_type else unsigned), x, y)

    # -- arithmetic -------------------------------------------------------------------------
    def add(self, a: Operand, b: Operand) -> Scalar:
        return self._by_kind(a, b, "addf", "addi", "addi")

    def sub(self, a: Operand, b: Operand) -> Scalar:
        return self._by_kind(a, b, "subf", "subi", "subi")

    def mul(self, a: Operand, b: Operand) -> Scalar:
        return self._by_kind(a, b, "mulf", "muli", "muli")

    def div(self, a: Operand, b: Operand) -> Scalar:
        """Quotient; integers truncate towards zero. The caller guards a zero divisor."""
        return self._by_kind(a, b, "divf", "divsi", "divui")

    def rem(self, a: Operand, b: Operand) -> Scalar:
        """C remainder (sign of the dividend)."""
        return self._by_kind(a, b, "remf", "remsi", "remui")

    def maximum(self, a: Operand, b: Operand) -> Scalar:
        """Larger operand; NaN wins, as in numpy."""
        return self._by_kind(a, b, "maximumf", "maxsi", "maxui")

    def maximum_number(self, a: Operand, b: Operand) -> Scalar:
        """Larger operand; a NaN loses."""
        return self._by_kind(a, b, "maxnumf", "maxsi", "maxui")

    def minimum(self, a: Operand, b: Operand) -> Scalar:
        return self._by_kind(a, b, "minimumf", "minsi", "minui")

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
            signed = dtypes.is_signed(x.dtype) or x.dtype == "index"
            predicate = ("s" if signed else "u") + predicate
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

    def bitcast(self, a: Scalar, dtype: str) -> Scalar:
        """The same bits as another type of equal width."""
        if dtypes.mlir_type(a.dtype) == dtypes.mlir_type(dtype):
            return self.as_type(a, dtype)
        return self.convert("arith.bitcast", a, dtype)
