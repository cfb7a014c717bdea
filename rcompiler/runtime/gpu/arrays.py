"""Arrays on the device: what a model leaves there, and what it reads there in place."""

from __future__ import annotations

import weakref
from typing import Any

import numpy as np

from rcompiler.errors import ShapeError
from rcompiler.runtime.arguments import Parameter
from rcompiler.runtime.closing import Staying
from rcompiler.runtime.gpu.dlpack import ForeignArray, foreign_array
from rcompiler.runtime.gpu.driver import Bytes, Driver
from rcompiler.runtime.gpu.image import ALIGNMENT


class DeviceArray(Staying):
    """A C-contiguous array in memory of a device, given back when the object is collected.

    Other libraries read it in place by `__cuda_array_interface__`; its values are complete.

    Attributes:
        shape, dtype: as of a numpy array.
        address: of the first element, on the device.
    """

    instead = "copy or pickle what its numpy() gives"

    def __init__(self, driver: Driver, shape: tuple[int, ...], dtype: np.dtype) -> None:
        """Reserve memory, undefined. Raises DeviceError where there is none."""
        self.shape, self.dtype = shape, dtype
        self._driver, self._bytes = driver, int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
        self.address = driver.allocate(max(self._bytes, 1))
        weakref.finalize(self, driver.free, self.address)

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return {
            "shape": self.shape,
            "typestr": self.dtype.str,
            "data": (self.address, False),
            "strides": None,
            "stream": None,
            "version": 3,
        }

    def numpy(self) -> np.ndarray:
        """A copy on the host, after all launches so far.

        Raises:
            DeviceError: the device has failed.
        """
        return self._driver.read(self.address, self._bytes).view(self.dtype).reshape(self.shape)

    def clear(self) -> None:
        """Set all bytes to 0."""
        if self._bytes:
            self._driver.fill(self.address, self._bytes, 0)

    def write(self, values: Any) -> None:
        """Copy values to the device.

        Args:
            values: of exactly this shape and dtype.

        Raises:
            ShapeError: they are of another.
        """
        array = np.asarray(values)
        if (array.shape, array.dtype) != (self.shape, self.dtype):
            raise ShapeError(
                f"a device array of {self.dtype}{list(self.shape)} takes no "
                f"{array.dtype}{list(array.shape)}; convert or reshape the values"
            )
        self._driver.write(self.address, raw(array))


def raw(array: np.ndarray) -> Bytes:
    """The bytes of an array, in C order."""
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)


def check_range(driver: Driver, parameter: Parameter, address: int) -> None:
    """Raise RangeError for an index at this place that leads out of its tensor."""
    if parameter.indices is not None and parameter.tensor.nbytes:
        parameter.check_range(driver.read(address, parameter.tensor.nbytes).view(parameter.dtype))


def on_device(parameter: Parameter, value: object) -> ForeignArray | None:
    """An argument that lies on a GPU, checked against what is declared; None for all others.

    Raises:
        ShapeError: another shape or dtype, or memory that kernels cannot use as it is.
    """
    if isinstance(value, DeviceArray):
        found = ForeignArray(value.address, value.shape, value.dtype.name, True, None, value)
    else:
        other = foreign_array(value)
        if other is None:
            return None
        found = other
    what, tensor = f"argument '{parameter.tensor.name}'", parameter.tensor
    wrong = ""
    if found.shape != parameter.shape:
        wrong = f"has shape {list(found.shape)}, the model wants {list(parameter.shape)}"
    elif found.dtype != parameter.dtype.name:
        wrong = f"is {found.dtype}, the model wants {parameter.dtype.name}"
    elif parameter.filled is not None:
        wrong = "is of a type of less than 8 bits, which is prepared on the host"
    elif not found.contiguous:
        wrong = "is not C-contiguous"
    elif tensor.nbytes and found.address % ALIGNMENT:
        wrong = f"does not start at a multiple of {ALIGNMENT} bytes"
    if wrong:
        raise ShapeError(f"{what}, on the device, {wrong}; copy it to an array that does, or numpy")
    return found
