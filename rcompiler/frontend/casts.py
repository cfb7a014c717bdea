"""ONNX ``Cast`` of one element between all types but the small floats, which stand on it."""

from __future__ import annotations

from . import dtypes
from .scalar import Arithmetic, Scalar


def cast(s: Arithmetic, a: Scalar, dtype: str) -> Scalar:
    """Convert ``a`` to ``dtype`` as ONNX Cast-25 does.

    Floats to integers truncate (values out of range are the platform's, as the standard allows,
    but never undefined behaviour for integers of at most 32 bits); anything to bool is ``!= 0``.
    """
    if a.dtype == dtype:
        return a
    if dtype == "index" or a.dtype == "index":
        return _index(s, a, dtype)
    if dtype == "bool":
        return a.ne(0)
    if a.dtype == "bool":
        return _from_bool(s, a, dtype)
    if dtypes.is_float(a.dtype):
        return _float_to_float(s, a, dtype) if dtypes.is_float(dtype) else _to_int(s, a, dtype)
    if dtypes.is_float(dtype):
        op = "arith.sitofp" if dtypes.is_signed(a.dtype) else "arith.uitofp"
        return s.convert(op, a, dtype)
    return _int_to_int(s, a, dtype)


def _index(s: Arithmetic, a: Scalar, dtype: str) -> Scalar:
    if dtype == "index":
        signed = dtypes.is_signed(a.dtype)
        return s.convert("arith.index_cast" if signed else "arith.index_castui", a, dtype)
    if dtypes.is_integer(dtype) and dtype not in dtypes.SMALL_INTS:
        return s.convert("arith.index_cast", a, dtype)
    return cast(s, s.convert("arith.index_cast", a, "int64"), dtype)


def _from_bool(s: Arithmetic, a: Scalar, dtype: str) -> Scalar:
    return s.convert("arith.uitofp" if dtypes.is_float(dtype) else "arith.extui", a, dtype)


def _float_to_float(s: Arithmetic, a: Scalar, dtype: str) -> Scalar:
    have, want = dtypes.bits(a.dtype), dtypes.bits(dtype)
    if have == want:  # f16 <-> bf16: neither holds the other
        return s.convert("arith.truncf", s.convert("arith.extf", a, "float32"), dtype)
    return s.convert("arith.extf" if want > have else "arith.truncf", a, dtype)


def _to_int(s: Arithmetic, a: Scalar, dtype: str) -> Scalar:
    if dtype == "uint64":
        return s.convert("arith.fptoui", a, dtype)
    # Through i64: what numpy's C conversion gives, and no poison for narrow targets.
    wide = s.convert("arith.fptosi", a, "int64")
    return _int_to_int(s, wide, dtype)


def _int_to_int(s: Arithmetic, a: Scalar, dtype: str) -> Scalar:
    have, want = dtypes.bits(a.dtype), dtypes.bits(dtype)
    if want > have:
        out = s.convert("arith.extsi" if dtypes.is_signed(a.dtype) else "arith.extui", a, dtype)
    else:
        out = s.convert("arith.trunci", a, dtype) if want < have else s.as_type(a, dtype)
    return _wrap(s, out, dtype) if dtype in dtypes.SMALL_INTS else out


def _wrap(s: Arithmetic, a: Scalar, dtype: str) -> Scalar:
    """Keep the low 2 or 4 bits of a byte and extend them by sign or zero."""
    shift = 8 - int(dtype.lstrip("uint"))
    signed = "int8" if dtypes.is_signed(dtype) else "uint8"
    moved = s.shift_left(s.as_type(a, signed), shift)
    return s.as_type(s.shift_right(moved, shift), dtype)
