"""Tensors of a session as onnxruntime has them: OrtValue, and the names of element types."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from rcompiler.errors import DeviceError, ShapeError
from rcompiler.runtime.memory import address, aligned_empty
from rcompiler.runtime.program import Tensor
from rcompiler.session.absent import KnowsAbsent

# By numpy's or ml_dtypes' name: onnxruntime's, and the number of ONNX.
_TYPES: dict[str, tuple[str, int]] = {
    "float32": ("float", 1),
    "uint8": ("uint8", 2),
    "int8": ("int8", 3),
    "uint16": ("uint16", 4),
    "int16": ("int16", 5),
    "int32": ("int32", 6),
    "int64": ("int64", 7),
    "string": ("string", 8),
    "bool": ("bool", 9),
    "float16": ("float16", 10),
    "float64": ("double", 11),
    "uint32": ("uint32", 12),
    "uint64": ("uint64", 13),
    "complex64": ("complex64", 14),
    "complex128": ("complex128", 15),
    "bfloat16": ("bfloat16", 16),
    "float8_e4m3fn": ("float8e4m3fn", 17),
    "float8_e4m3fnuz": ("float8e4m3fnuz", 18),
    "float8_e5m2": ("float8e5m2", 19),
    "float8_e5m2fnuz": ("float8e5m2fnuz", 20),
    "uint4": ("uint4", 21),
    "int4": ("int4", 22),
    "float4_e2m1fn": ("float4e2m1", 23),
    "float8_e8m0fnu": ("float8e8m0", 24),
    "uint2": ("uint2", 25),
    "int2": ("int2", 26),
}
_NAMES = {number: name for name, (_, number) in _TYPES.items()}
_NUMBERS = {text: number for text, number in _TYPES.values()}


def type_text(dtype: str) -> str:
    """onnxruntime's name of the type of tensors, as "tensor(float)" for "float32"."""
    return f"tensor({_TYPES[dtype][0]})" if dtype in _TYPES else f"tensor({dtype})"


def dtype_named(text: str) -> np.dtype:
    """The element type of "tensor(float)" and the like.

    Raises:
        ShapeError: it is none that there are arrays of.
        DeviceError: it needs ml_dtypes, which is not installed.
    """
    return dtype_of(_NUMBERS.get(text.removeprefix("tensor(").removesuffix(")"), 0))


def dtype_of(element_type: Any) -> np.dtype:
    """The element type that a caller means: one of numpy, or the number of ONNX.

    Raises:
        ShapeError: it is none that there are arrays of.
        DeviceError: it needs ml_dtypes, which is not installed.
    """
    if isinstance(element_type, int | np.integer) and int(element_type) in _NAMES:
        name = _NAMES[int(element_type)]
        if name not in ("string", "complex64", "complex128"):
            return Tensor("OrtValue", (), name).numpy_dtype()
    elif not isinstance(element_type, int | np.integer):
        try:
            return np.dtype(element_type)
        except TypeError:
            pass
    raise ShapeError(
        f"element type {element_type!r}: give a type of numpy, or the number of one of ONNX"
    )


def check_device(device_type: str) -> None:
    """Raises DeviceError for a device that values do not lie on: all are in the host's memory."""
    if device_type not in ("cpu", "cuda_pinned"):
        raise DeviceError(
            f"a value of a session lies in memory of the host, not on '{device_type}'; models for "
            "a GPU take arrays there by their own bind (docs/gpu.md)"
        )


class OrtValue(KnowsAbsent):
    """A tensor in memory of the host: a numpy array, which it keeps and does not copy."""

    def __init__(self, array: np.ndarray) -> None:
        """Keep an array.

        Args:
            array: its numbers.
        """
        self._array = array

    @staticmethod
    def ortvalue_from_numpy(
        numpy_obj: np.ndarray, device_type: str = "cpu", device_id: int = 0
    ) -> OrtValue:
        """A value that shares the memory of an array.

        Args:
            numpy_obj: any array, also of types of ml_dtypes.
            device_type: "cpu".
            device_id: 0.

        Raises:
            DeviceError: another device.
        """
        check_device(device_type)
        return OrtValue(np.asarray(numpy_obj))

    @staticmethod
    def ortvalue_from_numpy_with_onnx_type(data: np.ndarray, onnx_element_type: int) -> OrtValue:
        """A value with the bytes of an array, as another type of as many bytes.

        Args:
            data: such as uint16 for bfloat16.
            onnx_element_type: number of the type in ONNX.

        Raises:
            ShapeError: there is no such type, or it has other bytes.
            DeviceError: the type needs ml_dtypes, which is not installed.
        """
        dtype = dtype_of(onnx_element_type)
        if dtype.itemsize != data.dtype.itemsize:
            raise ShapeError(
                f"{data.dtype} has {data.dtype.itemsize} bytes an element, {dtype} has "
                f"{dtype.itemsize}; give an array with as many"
            )
        return OrtValue(data.view(dtype))

    @staticmethod
    def ortvalue_from_shape_and_type(
        shape: Sequence[int], element_type: Any, device_type: str = "cpu", device_id: int = 0
    ) -> OrtValue:
        """A new value of zeros.

        Args:
            shape: numbers that are not negative.
            element_type: a type of numpy, or the number of one in ONNX.
            device_type, device_id: as of `ortvalue_from_numpy`.

        Raises:
            ShapeError: there is no such type.
            DeviceError: another device, or the type needs ml_dtypes, which is not installed.
        """
        check_device(device_type)
        dtype = dtype_of(element_type)
        array = aligned_empty(tuple(shape), dtype)
        array[...] = np.zeros((), dtype)
        return OrtValue(array)

    @staticmethod
    def from_dlpack(data: Any) -> OrtValue:
        """A value that shares the memory of a tensor of another library.

        Args:
            data: with `__dlpack__` and `__dlpack_device__`, as arrays and tensors have them.

        Raises:
            ShapeError: it has no such methods, or elements that numpy does not know.
            DeviceError: it does not lie in memory of the host.
        """
        try:
            return OrtValue(np.from_dlpack(data))
        except (AttributeError, TypeError) as error:
            raise ShapeError(f"{type(data).__name__}: {error}; give an array or tensor") from error
        except (BufferError, RuntimeError, ValueError) as error:
            raise DeviceError(f"{error}; copy it to memory of the host before") from error

    def __dlpack__(self, **how: Any) -> Any:
        """For other libraries, which share the memory.

        Args:
            **how: as of numpy.
        """
        return self._array.__dlpack__(**how)

    def __dlpack_device__(self) -> tuple[int, int]:
        """The host."""
        kind, number = self._array.__dlpack_device__()
        return int(kind), int(number)

    def numpy(self) -> np.ndarray:
        """The numbers. The array is that of the value: what is written to it is seen here."""
        return self._array

    def shape(self) -> list[int]:
        """The sizes of its axes."""
        return list(self._array.shape)

    def data_type(self) -> str:
        """The type, as "tensor(float)"."""
        return type_text(self._array.dtype.name)

    def element_type(self) -> int:
        """The number of the element type in ONNX."""
        return _TYPES[self._array.dtype.name][1]

    def device_name(self) -> str:
        """The device that it lies on: "cpu"."""
        return "cpu"

    def data_ptr(self) -> int:
        """The address of the first element."""
        return address(self._array)

    def tensor_size_in_bytes(self) -> int:
        """The bytes of all elements."""
        return self._array.nbytes

    def has_value(self) -> bool:
        """Whether it holds something: it does."""
        return True

    def is_tensor(self) -> bool:
        """Whether it is a dense tensor: it is."""
        return True

    def is_sparse_tensor(self) -> bool:
        """Whether it is a sparse tensor: it is not."""
        return False

    def is_tensor_sequence(self) -> bool:
        """Whether it is a sequence: it is not."""
        return False

    def update_inplace(self, np_arr: np.ndarray) -> None:
        """Overwrite the numbers.

        Args:
            np_arr: of the same shape and type.

        Raises:
            ShapeError: it is of another shape or type.
        """
        array = self._array
        if np_arr.shape != array.shape or np_arr.dtype != array.dtype:
            raise ShapeError(
                f"the value is {array.dtype}{list(array.shape)}, the array {np_arr.dtype}"
                f"{list(np_arr.shape)}; give one of the same shape and type"
            )
        array[...] = np_arr

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        """For numpy."""
        return np.array(self._array, dtype, copy=copy)


def array_of(value: Any) -> Any:
    """The array of an OrtValue, ours or onnxruntime's; all else as it is."""
    if isinstance(value, OrtValue):
        return value.numpy()
    return value.numpy() if type(value).__name__ == "OrtValue" else value
