"""The code of a model onto a device."""

from __future__ import annotations

import warnings
from typing import Any

from rcompiler.errors import DeviceError
from rcompiler.runtime.gpu.driver import Driver
from rcompiler.runtime.gpu.image import GpuImage


class MachineCodeWarning(UserWarning):
    """The driver refused machine code and compiled PTX instead: same results, slower start."""


def load_kernel(driver: Driver, image: GpuImage, blocks: int) -> Any:
    """The kernel on the device, which can run so many blocks of it at the same time.

    Raises DeviceError where it cannot.
    """
    have = driver.capability
    if have < image.capability or (image.exact and have != image.capability):
        raise DeviceError(
            f"the code is for {image.chip} and {driver.name} has compute capability "
            f"{have[0]}.{have[1]}; compile the model for this device"
        )
    function = driver.function(_module(driver, image), image.entry)
    room = driver.multiprocessors * driver.occupancy(function, image.threads, image.shared)
    if room < blocks:
        remedy = f"compile the model with eus={room} or policy='wave'"
        raise DeviceError(
            f"the schedule needs {blocks} blocks at the same time, and {driver.name} runs {room} "
            f"blocks of {image.threads} threads and {image.shared} bytes of shared memory; "
            f"{remedy if room else 'compile the model for this device'}"
        )
    return function


def _module(driver: Driver, image: GpuImage) -> Any:
    """Of machine code where there is some for this device, else, or if it is refused, of PTX."""
    # Machine code runs on its own generation only, and the emulated device reads none.
    ready = driver.real and image.cubin and driver.capability[0] == image.capability[0]
    if not ready:
        return driver.load(image.ptx)
    try:
        return driver.load(image.cubin)
    except DeviceError as error:
        refused = error
    try:
        module = driver.load(image.ptx)
    except DeviceError as error:
        raise DeviceError(f"{error}; and of the machine code: {refused}") from refused
    warnings.warn(
        f"the machine code of the model was refused, and the driver compiled its PTX, as it will "
        f"each time that the model is loaded: {refused}",
        MachineCodeWarning,
        stacklevel=2,
    )
    return module
