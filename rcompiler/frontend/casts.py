"""ONNX ``Cast`` of one element between all types but the small floats, which stand on it."""

from __future__ import annotations

from . import dtypes
from .scalar import Arithmetic, Scalar


def cast(s: Arithmetic, a: Scalar, dtype: str) -> Scalar:
    """Convert ``a`` to ``dtype`` as ONNX Cast-25 does.

    Floats to integers truncate; anything to bool is ``!= 0``. Of numbers that the integer has not,
    and of NaN, the standard says nothing. On each device they are what C makes of them on x86-64,
    and so numpy and onnxruntime: of int32 and int64 the least number, of narrower integers the low
    bits of an int32, of uint32 those of an int64 (numpy's vectors have others); of uint64 negative
    numbers wrap around, those from 2^64 on are 0, NaN and numbers below int64 are 2^63.
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


def rounded(s: Arithmetic, a: Scalar, dtype: str) -> Scalar:
    """Convert a float to one of fewer bits as a model asks for it: by an op with a rounding mode.

    One without is the lowering's own, which a network that computes in f32 does without
    (rtask-widen-halves).
    """
    if dtypes.bits(a.dtype) == dtypes.bits(dtype):
        a = s.convert("arith.extf", a, "float32")
    source, target = dtypes.mlir_type(a.dtype), dtypes.mlir_type(dtype)
    return s.op(f"arith.truncf {a.name} to_nearest_even : {source} to {target}", dtype)


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
    if dtypes.bits(a.dtype) < 32:  # whose largest numbers are below the limits
        a = s.convert("arith.extf", a, "float32")
    if dtype == "uint64":
        return _to_uint64(s, a)
    # of a wider integer the low bits
    wide = "int64" if dtype in ("int64", "uint32") else "int32"
    return _int_to_int(s, _to_signed(s, a, wide), dtype)


def _to_signed(s: Arithmetic, a: Scalar, dtype: str) -> Scalar:
    """Of what is no number of the type the least one: the processors' answer, told in words that
    mean something on each of them.
    """
    end = float(1 << (dtypes.bits(dtype) - 1))
    return s.convert("arith.fptosi", s.select(s.abs(a) < end, a, -end), dtype)


def _to_uint64(s: Arithmetic, a: Scalar) -> Scalar:
    """The numbers that int64 has not are moved below 0, and back as integers."""
    end = float(1 << 63)
    beyond = a >= end
    whole = _to_signed(s, s.select(beyond, a - end, a), "int64")
    least = s.const(-(1 << 63), "int64")
    return s.as_type(s.select(beyond, whole ^ least, whole), "uint64")


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
