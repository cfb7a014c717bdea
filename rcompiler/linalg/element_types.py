"""The element types of tensors: bits, bytes in memory, numpy types."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
from torch_mlir import ir

BITS = {
    "i1": 1,
    "i8": 8,
    "i16": 16,
    "i32": 32,
    "i64": 64,
    "f16": 16,
    "bf16": 16,
    "f32": 32,
    "f64": 64,
}


_TYPES: dict[str, Any] = {
    "i1": np.bool_,
    "i8": np.int8,
    "i16": np.int16,
    "i32": np.int32,
    "i64": np.int64,
    "f16": np.float16,
    "bf16": ml_dtypes.bfloat16,
    "f32": np.float32,
    "f64": np.float64,
}


def element_name(type_: ir.Type) -> str:
    """Element type as this package names it; `index` counts as i64."""
    name = str(type_)
    return "i64" if name == "index" else name


def item_bytes(element: str) -> int:
    """Bytes of one element in memory; i1 takes a whole byte."""
    return max(8, BITS[element]) // 8


def numpy_type(element: ir.Type) -> np.dtype | None:
    """numpy dtype that stores an element type."""
    found = _TYPES.get(str(element))
    return None if found is None else np.dtype(found)
