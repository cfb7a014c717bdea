"""The GPU that a tool compiles for where another machine has it."""

from rcompiler.device.model import Device
from rcompiler.device.target import find_device
from rcompiler.errors import DeviceError


def nvidia_gpu(target: str) -> Device:
    """The record of a target. Raises DeviceError where it is none of NVIDIA's GPUs."""
    device = find_device(target)
    if not device.is_nvidia:
        raise DeviceError(f"target {target!r} is none of NVIDIA's GPUs; give cuda:h200, say")
    return device
