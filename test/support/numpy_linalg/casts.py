"""Conversions of elements."""

from collections.abc import Callable

import numpy as np

from numpy_linalg.elements import BF16, SMALL
from numpy_linalg.integers import as_signed, as_unsigned, low_bits


def _to_float(a: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Rounded to nearest even; bf16 by way of f32, as kernels do."""
    return a.astype(np.float32).astype(dtype) if dtype == BF16 else a.astype(dtype)


def _to_integer(a: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Towards zero, through i64; what it does not hold is poison in the IR, and here the low bits
    of what the processor gives.
    """
    return low_bits(np.trunc(_wide(a)).astype(np.int64), dtype)


def _to_unsigned(a: np.ndarray, dtype: np.dtype) -> np.ndarray:
    whole = np.trunc(_wide(a))
    return low_bits(whole.astype(np.uint64).view(np.int64), dtype)


def _wide(a: np.ndarray) -> np.ndarray:
    return a.astype(np.float32) if a.dtype in SMALL else a


def _sign_extended(a: np.ndarray, dtype: np.dtype) -> np.ndarray:
    return low_bits(as_signed(a), dtype)


def _zero_extended(a: np.ndarray, dtype: np.dtype) -> np.ndarray:
    return low_bits(as_unsigned(a), dtype)


CASTS: dict[str, Callable[[np.ndarray, np.dtype], np.ndarray]] = {
    "arith.bitcast": lambda a, dtype: a.view(dtype),
    "arith.extf": _to_float,
    "arith.extsi": _sign_extended,
    "arith.extui": _zero_extended,
    "arith.fptosi": _to_integer,
    "arith.fptoui": _to_unsigned,
    "arith.index_cast": _sign_extended,
    "arith.index_castui": _zero_extended,
    "arith.sitofp": lambda a, dtype: _to_float(as_signed(a), dtype),
    "arith.truncf": _to_float,
    "arith.trunci": low_bits,
    "arith.uitofp": lambda a, dtype: _to_float(as_unsigned(a), dtype),
}
