"""Element types as numpy has them: signless integers as signed ones, i1 as bool, index as int64."""

from collections.abc import Mapping

import ml_dtypes
import numpy as np
from torch_mlir import ir

from rcompiler.linalg.dense import dense_array

_DTYPES = {
    "i1": np.dtype(np.bool_),
    "i8": np.dtype(np.int8),
    "i16": np.dtype(np.int16),
    "i32": np.dtype(np.int32),
    "i64": np.dtype(np.int64),
    "index": np.dtype(np.int64),
    "f16": np.dtype(np.float16),
    "bf16": np.dtype(ml_dtypes.bfloat16),
    "f32": np.dtype(np.float32),
    "f64": np.dtype(np.float64),
}
BF16 = _DTYPES["bf16"]
SMALL = (_DTYPES["f16"], BF16)  # floats that are computed in f32


def dtype_of(element: ir.Type) -> np.dtype:
    """The dtype that holds an element type."""
    if str(element) not in _DTYPES:
        raise NotImplementedError(f"elements of type {element}")
    return _DTYPES[str(element)]


def tensor_dtype(type_: ir.Type) -> np.dtype:
    """The dtype of the elements of a tensor type."""
    return dtype_of(ir.RankedTensorType(type_).element_type)


def is_float(dtype: np.dtype) -> bool:
    """Whether elements are floats, bf16 among them, which numpy does not count as one."""
    return dtype.kind == "f" or dtype in SMALL


def has_shape(array: np.ndarray, type_: ir.RankedTensorType) -> bool:
    """Whether an array has the rank and the static sizes of a type."""
    dynamic = ir.ShapedType.get_dynamic_size()
    return len(type_.shape) == array.ndim and all(
        size in (n, dynamic) for n, size in zip(array.shape, type_.shape, strict=True)
    )


def stored(array: np.ndarray, type_: ir.Type) -> np.ndarray:
    """A user's array as a tensor of `type_`: uint8 and the like as the signed type of equal bytes.

    Raises ValueError for another shape, or elements of another size.
    """
    array, dtype = np.asarray(array), tensor_dtype(type_)
    if not has_shape(array, ir.RankedTensorType(type_)) or array.itemsize != dtype.itemsize:
        raise ValueError(f"{array.dtype} of shape {array.shape} is no {type_}")
    return np.ascontiguousarray(array).view(dtype).reshape(array.shape)


def unwritten(shape: list[int], dtype: np.dtype) -> np.ndarray:
    """Elements that were never written: NaN, and integers that nobody expects."""
    if is_float(dtype):
        return np.full(shape, np.nan, np.float32).astype(dtype)
    if dtype == np.bool_:
        return np.ones(shape, dtype)
    return np.full(shape, int.from_bytes(b"\xa5" * dtype.itemsize, signed=True), dtype)


def constant(value: ir.Attribute, type_: ir.Type, named: Mapping[str, np.ndarray]) -> np.ndarray:
    """The value of an arith.constant; named: those of dense_resource by key."""
    if not isinstance(type_, ir.RankedTensorType):
        return _scalar(value, dtype_of(type_))
    if isinstance(value, ir.DenseElementsAttr):
        return dense_array(value).view(tensor_dtype(type_)).reshape(type_.shape)
    key = str(value).partition("<")[2].partition(">")[0]
    return stored(named[key], type_)


def _scalar(value: ir.Attribute, dtype: np.dtype) -> np.ndarray:
    number = value.value
    if is_float(dtype):
        return np.asarray(number, np.float64).astype(dtype)
    if dtype == np.bool_:
        return np.asarray(bool(number))
    bits = 8 * dtype.itemsize
    return np.asarray(int(number) % (1 << bits), f"u{dtype.itemsize}").view(dtype)
