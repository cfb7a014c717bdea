"""Arrays of other libraries on a GPU, by DLPack (version 0) or the CUDA array interface.

Only numbers are read from the objects; their memory stays where it is, and theirs.
"""

from __future__ import annotations

import ctypes
import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from rcompiler.errors import ShapeError

_CUDA, _CUDA_MANAGED = 2, 13  # DLDeviceType
_DEFAULT_STREAM = 1  # the legacy default stream, in both interfaces
# DLDataTypeCode: those whose names follow from their bits, then the others with their bits.
_FAMILIES = {0: "int", 1: "uint", 2: "float", 5: "complex"}
_TYPES = {
    (4, 16): "bfloat16",
    (6, 8): "bool",
    (10, 8): "float8_e4m3fn",
    (11, 8): "float8_e4m3fnuz",
    (12, 8): "float8_e5m2",
    (13, 8): "float8_e5m2fnuz",
}


class _Tensor(ctypes.Structure):
    """DLTensor."""

    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


@dataclass(frozen=True)
class ForeignArray:
    """An array of another library.

    dtype: name of the type. stream: whose work makes the values, None where they are there, or
    will be before anything that the default stream of the process does later. owner, capsule: the
    object, and what keeps its memory.
    """

    address: int
    shape: tuple[int, ...]
    dtype: str
    contiguous: bool
    stream: int | None
    owner: Any
    capsule: Any = None


def foreign_array(value: Any) -> ForeignArray | None:
    """What lies on a GPU, or None for everything else, such as numpy arrays.

    Raises ShapeError for an array whose library refuses to show it, and for types without a name.
    """
    if isinstance(value, np.ndarray | np.generic):
        return None
    try:
        if hasattr(value, "__dlpack_device__"):
            on_gpu = int(value.__dlpack_device__()[0]) in (_CUDA, _CUDA_MANAGED)
            return _from_dlpack(value) if on_gpu else None
        interface = getattr(value, "__cuda_array_interface__", None)
        return None if interface is None else _from_interface(value, interface)
    except (BufferError, RuntimeError, TypeError, ValueError, KeyError) as error:
        raise ShapeError(
            f"a {type(value).__name__} on a GPU cannot be read: {error}; give an array without "
            "gradients, of one piece of memory"
        ) from None


def _from_interface(value: Any, interface: dict[str, Any]) -> ForeignArray:
    shape = tuple(int(size) for size in interface["shape"])
    dtype = np.dtype(interface["typestr"])
    stream = interface.get("stream")
    strides = interface.get("strides")
    dense = strides is None or _dense(shape, [step / dtype.itemsize for step in strides])
    return ForeignArray(int(interface["data"][0]), shape, dtype.name, dense, stream, value)


def _from_dlpack(value: Any) -> ForeignArray:
    """The capsule is not consumed: its library gives the memory back with the capsule."""
    capsule = value.__dlpack__(stream=_DEFAULT_STREAM)
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    tensor = _Tensor.from_address(pointer(capsule, b"dltensor"))
    kind = tensor.code, tensor.bits
    name = _TYPES.get(kind) or f"{_FAMILIES[tensor.code]}{tensor.bits}"
    if tensor.lanes != 1:
        raise ValueError(f"its elements are vectors of {tensor.lanes}")
    shape = tuple(tensor.shape[: tensor.ndim])
    dense = not tensor.strides or _dense(shape, tensor.strides[: tensor.ndim])
    address = (tensor.data or 0) + tensor.byte_offset
    return ForeignArray(address, shape, name, dense, None, value, capsule)


def _dense(shape: tuple[int, ...], strides: Any) -> bool:
    """Whether strides, in elements, are those of one C-contiguous piece."""
    if not math.prod(shape):
        return True
    wanted = 1
    for size, step in zip(reversed(shape), reversed(tuple(strides)), strict=True):
        if size != 1 and step != wanted:
            return False
        wanted *= size
    return True
