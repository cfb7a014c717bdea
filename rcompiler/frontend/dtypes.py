"""Element types: ONNX numbers, our names (numpy / ml_dtypes), MLIR storage types.

A value is named after the numpy or ml_dtypes type it has in ONNX ("uint8", "bfloat16",
"float8_e4m3fn", "int4"). MLIR sees only signless integers and f16/bf16/f32/f64: types below one
byte and 8-bit floats are stored as ``i8``, one element per byte, and their arithmetic is written
out by the front end.
"""

from functools import lru_cache

import ml_dtypes
import numpy as np
from onnx import TensorProto, helper

STANDARD_FLOATS = ("float16", "bfloat16", "float32", "float64")
SIGNED = ("int8", "int16", "int32", "int64", "int4", "int2")
UNSIGNED = ("uint8", "uint16", "uint32", "uint64", "uint4", "uint2")
SMALL_INTS = ("int4", "uint4", "int2", "uint2")
SMALL_FLOATS = (
    "float8_e4m3fn",
    "float8_e4m3fnuz",
    "float8_e5m2",
    "float8_e5m2fnuz",
    "float8_e8m0fnu",
    "float4_e2m1fn",
)

_MLIR = {
    "float32": "f32",
    "float64": "f64",
    "float16": "f16",
    "bfloat16": "bf16",
    "bool": "i1",
    "index": "index",
    **{t: "i" + t.lstrip("uint") for t in SIGNED[:4] + UNSIGNED[:4]},
    **{t: "i8" for t in SMALL_INTS + SMALL_FLOATS},
}


def from_onnx(number: int) -> str:
    """Name of an ONNX element type number; "undefined" when the number is unknown."""
    if number == TensorProto.STRING:
        return "string"
    try:
        return str(helper.tensor_dtype_to_np_dtype(number).name)
    except KeyError:
        return "undefined"


def to_onnx(name: str) -> int:
    """ONNX element type number of a name of ours."""
    return int(helper.np_dtype_to_tensor_dtype(numpy_dtype(name)))


def is_supported(name: str) -> bool:
    """True when tensors of this type can be compiled (strings and complex numbers cannot)."""
    return name in _MLIR and name != "index"


def mlir_type(name: str) -> str:
    """MLIR element type in which values of this type are stored."""
    return _MLIR[name]


@lru_cache(4096)  # asked for several times per op
def tensor_type(shape: tuple[int, ...], name: str) -> str:
    """MLIR ranked tensor type, e.g. ``tensor<2x3xf32>``."""
    return "tensor<" + "".join(f"{d}x" for d in shape) + _MLIR[name] + ">"


def numpy_dtype(name: str) -> np.dtype:
    """The numpy (or ml_dtypes) dtype of the name."""
    return np.dtype(getattr(ml_dtypes, name)) if hasattr(ml_dtypes, name) else np.dtype(name)


def storage_dtype(name: str) -> np.dtype:
    """The numpy dtype with which the bytes of a tensor of this type are laid out."""
    return np.dtype(np.int8) if name in SMALL_INTS + SMALL_FLOATS else numpy_dtype(name)


def to_storage(array: np.ndarray, name: str) -> np.ndarray:
    """View or convert ``array`` (ONNX values of type ``name``) to its storage layout."""
    array = np.asarray(array)
    if name in SMALL_FLOATS:
        return array.view(np.int8)
    if name in SMALL_INTS:
        return array.astype(np.int8)
    return array


def name_of(array: np.ndarray) -> str:
    """Our name of a numpy array's element type."""
    return array.dtype.name


def is_float(name: str) -> bool:
    """True for the floats that MLIR computes with (f16, bf16, f32, f64)."""
    return name in STANDARD_FLOATS


def wide(name: str) -> str:
    """The float that what is made of floats and integers of this type is computed in."""
    return "float64" if name == "float64" else "float32"


def position_type(count: int) -> str:
    """The integer that holds positions up to ``count``."""
    return "int32" if count <= limits("int32")[1] else "int64"


def is_signed(name: str) -> bool:
    return name in SIGNED


def is_integer(name: str) -> bool:
    return name in SIGNED or name in UNSIGNED


def is_number(name: str) -> bool:
    """True for integers and for floats that MLIR computes with."""
    return is_float(name) or is_integer(name)


def bits(name: str) -> int:
    """Width of the storage type in bits (``bool`` counts as 1)."""
    text = _MLIR[name]
    return 64 if text == "index" else int(text.lstrip("bfi"))


def limits(name: str) -> tuple[int | float, int | float]:
    """Smallest and largest value of an integer type, or (-inf, inf) for floats."""
    if is_float(name):
        return float("-inf"), float("inf")
    if name == "bool":
        return 0, 1
    width = int(name.lstrip("uint"))
    return (-(1 << width - 1), (1 << width - 1) - 1) if is_signed(name) else (0, (1 << width) - 1)
