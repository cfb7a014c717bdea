"""Names of compile targets -> devices."""

from __future__ import annotations

from pathlib import Path

from rcompiler.device.cpu import LEVELS, detect_cpu
from rcompiler.device.model import Device
from rcompiler.device.record import builtin_device, builtin_names, load_device
from rcompiler.errors import DeviceError


def find_device(target: str) -> Device:
    """The device of a target: "cpu" (this host), "cpu:v3" (this host, only that feature level), a
    record's name or a file.

    Raises DeviceError for an unknown name, with the names that exist.
    """
    if target == "cpu":
        return detect_cpu()
    kind, _, level = target.partition(":")
    if kind == "cpu" and level in LEVELS:
        return detect_cpu(level=level)
    if target in builtin_names():
        return builtin_device(target)
    if Path(target).suffix == ".json" or Path(target).exists():
        return load_device(target)
    known = ", ".join(["cpu", *(f"cpu:{name}" for name in LEVELS), *builtin_names()])
    raise DeviceError(
        f"unknown target {target!r}: give one of {known}, or the path of a device file (.json)"
    )
