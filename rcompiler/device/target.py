"""Names of compile targets -> devices."""

from __future__ import annotations

from pathlib import Path

from rcompiler.device.cpu import detect_cpu
from rcompiler.device.gpu import GPU_KINDS, gpu_device
from rcompiler.device.host_flags import LEVELS
from rcompiler.device.model import Device
from rcompiler.device.record import builtin_device, builtin_names, from_json, load_device
from rcompiler.errors import DeviceError


def find_device(target: str) -> Device:
    """The device of a target: "cpu" (this host), "cpu:v3" (this host, only that feature level), a
    record's name, "cuda:h200" or "cuda:sm_90a" (a GPU by name or architecture, "rocm:gfx90a" one of
    AMD, "cuda:emulated" none at all), a file, or a record itself as text (`record.to_option`).

    Raises DeviceError for an unknown name, with the names that exist.
    """
    if is_host(target):
        return detect_cpu(level=target.partition(":")[2] or None)
    kind, colon, name = target.partition(":")
    if colon and kind in GPU_KINDS:
        return gpu_device(name, kind)
    if target.startswith("{"):
        return from_json(target)
    if target in builtin_names():
        return builtin_device(target)
    if Path(target).suffix == ".json" or Path(target).exists():
        return load_device(target)
    known = ", ".join(["cpu", *(f"cpu:{name}" for name in LEVELS), *builtin_names()])
    raise DeviceError(
        f"unknown target {target!r}: give one of {known}, or the path of a device file (.json)"
    )


def name_of(target: str, device: Device) -> str:
    """The name of a target whose device that is: of a file, or a record as text, that of its kind
    and instruction set ("cuda:sm_80"), which says the same on every machine; others stay.
    """
    named = target.partition(":")[0] in GPU_KINDS or target in builtin_names()
    return target if named or is_host(target) else kind_name(device)


def kind_name(device: Device) -> str:
    """The kind and instruction set of a device: "cpu:v3", "cuda:sm_80"."""
    return f"{device.kind}:{device.level_name}" if device.level_name else device.kind


def is_host(target: str) -> bool:
    """Whether a target is this machine: "cpu", "cpu:v3" and the like."""
    kind, colon, level = target.partition(":")
    return kind == "cpu" and (not colon or level in LEVELS)
