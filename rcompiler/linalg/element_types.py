"""The element types of tensors, by their names in MLIR: numpy types, bits, bytes in memory; and the
ops that reductions combine elements with.
"""

from __future__ import annotations

import ml_dtypes
import numpy as np
from torch_mlir import ir

from rcompiler.errors import CompilerError

_DTYPES = {  # that store an element
    "i1": np.dtype(np.bool_),
    "i8": np.dtype(np.int8),
    "i16": np.dtype(np.int16),
    "i32": np.dtype(np.int32),
    "i64": np.dtype(np.int64),
    "f16": np.dtype(np.float16),
    "bf16": np.dtype(ml_dtypes.bfloat16),
    "f32": np.dtype(np.float32),
    "f64": np.dtype(np.float64),
}
BITS = {name: 1 if name == "i1" else 8 * dtype.itemsize for name, dtype in _DTYPES.items()}

# To print a type takes ten times as long as to look at its class.
_FLOATS = {ir.F16Type: "f16", ir.BF16Type: "bf16", ir.F32Type: "f32", ir.F64Type: "f64"}


def element_name(type_: ir.Type) -> str:
    """Element type as this package names it, of a vector that of its elements; `index` counts as
    i64.
    """
    kind = type(type_)
    if kind in _FLOATS:
        return _FLOATS[kind]
    if isinstance(type_, ir.IntegerType) and type_.is_signless:
        return f"i{type_.width}"
    name = str(type_)
    if name.startswith("vector<"):
        name = name[:-1].rpartition("x")[2]
    return "i64" if name == "index" else name


def item_bytes(element: str) -> int:
    """Bytes of one element in memory; i1 takes a whole byte."""
    return _DTYPES[element].itemsize


def numpy_type(element: ir.Type) -> np.dtype | None:
    """The numpy dtype that stores an element type; None for a type that tensors here never have."""
    return _DTYPES.get(str(element))


def dtype_of(element: str) -> np.dtype:
    """The numpy dtype that stores an element type. Raises CompilerError if there is none."""
    if element not in _DTYPES:
        raise CompilerError(f"there are no arrays of element type {element}")
    return _DTYPES[element]


# combining op -> (vector.reduction kind, identity); None: see `identity_of`
COMBINERS: dict[str, tuple[str, float | None]] = {
    "arith.addf": ("add", 0.0),
    "arith.mulf": ("mul", 1.0),
    "arith.maximumf": ("maximumf", float("-inf")),
    "arith.minimumf": ("minimumf", float("inf")),
    "arith.maxnumf": ("maxnumf", float("-inf")),
    "arith.minnumf": ("minnumf", float("inf")),
    "arith.addi": ("add", 0),
    "arith.muli": ("mul", 1),
    "arith.maxsi": ("maxsi", None),
    "arith.minsi": ("minsi", None),
    "arith.maxui": ("maxui", 0),
    "arith.minui": ("minui", -1),
    "arith.ori": ("or", 0),
    "arith.andi": ("and", -1),
    "arith.xori": ("xor", 0),
}


def identity_of(combiner: str, element: str) -> float:
    """The number that `combiner` leaves any other number of this element type as it is with."""
    number = COMBINERS[combiner][1]
    if number is not None:
        return number
    half = 1 << (BITS[element] - 1)
    return -half if combiner == "arith.maxsi" else half - 1
