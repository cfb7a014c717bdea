"""Names of compile targets -> devices."""

from __future__ import annotations

from pathlib import Path

from rcompiler.device.cpu import detect_cpu
from rcompiler.device.gpu import GPU_KINDS, gpu_device
from rcompiler.device.instruction_set import InstructionSet, all_names
from rcompiler.device.model import Device
from rcompiler.device.record import builtin_device, builtin_names, from_json, load_device
from rcompiler.errors import DeviceError


def find_device(target: str) -> Device:
    """The device of a target: "cpu" (this host), "cpu:v3" or "cpu:v4+vnni" (a CPU of exactly that
    instruction set, with the cores and caches of this host), a record's name, "cuda:h200" or
    "cuda:sm_90a" (a GPU by name or architecture, "rocm:gfx90a" one of AMD, "cuda:emulated" none at
    all), a file, or a record itself as text (`record.to_option`).

    Raises DeviceError for an unknown name, with the names that exist.
    """
    kind, colon, name = target.partition(":")
    if target == "cpu":
        return detect_cpu()
    if colon and kind == "cpu":
        try:
            return detect_cpu(level=name)
        except DeviceError as error:
            raise DeviceError(f"unknown target {target!r}: {error}") from None
    if colon and kind in GPU_KINDS:
        return gpu_device(name, kind)
    if target.startswith("{"):
        return from_json(target)
    if target in builtin_names():
        return builtin_device(target)
    if Path(target).suffix == ".json" or Path(target).exists():
        return load_device(target)
    known = ", ".join(["cpu", *(f"cpu:{name}" for name in all_names()), *builtin_names()])
    raise DeviceError(
        f"unknown target {target!r}: give one of {known}, or the path of a device file (.json)"
    )


def name_of(target: str, device: Device) -> str:
    """The name of a target whose device that is: of a file, or a record as text, that of its kind
    and instruction set ("cuda:sm_80"), which says the same on every machine; others stay, but for
    the order of features: "cpu:v4+amx+vnni" is "cpu:v4+vnni+amx".
    """
    named = target.partition(":")[0] in GPU_KINDS or target in builtin_names()
    return canonical(target) if named or is_host(target) else kind_name(device)


def canonical(target: str) -> str:
    """The name of a target with its features in their order; others than CPUs' stay as they are."""
    kind, _, name = target.partition(":")
    return f"{kind}:{InstructionSet.named(name).name}" if name and is_host(target) else target


def cpu_targets(target: str) -> list[str]:
    """The targets of one model: of "cpu:v3,cpu:v4+vnni" each, else the one that is named.

    Raises DeviceError where one of several is no CPU by name, or is there twice.
    """
    names = target.split(",")
    if len(names) == 1 or not target.startswith("cpu"):
        return [target]
    for name in names:
        if name == "cpu" or name.partition(":")[0] != "cpu":
            raise DeviceError(
                f"target {target!r}: {name!r} is no CPU by name; several targets of a model are "
                "CPUs, as in 'cpu:v3,cpu:v4+vnni'"
            )
    found = list(map(canonical, names))
    if len(set(found)) < len(found):
        raise DeviceError(f"target {target!r} names a CPU twice; name each once")
    return found


def kind_name(device: Device) -> str:
    """The kind and instruction set of a device: "cpu:v4+vnni", "cuda:sm_80"."""
    level = device.level_name
    if device.is_cpu and level:
        level = InstructionSet.of(level, device.features).name
    return f"{device.kind}:{level}" if level else device.kind


def is_host(target: str) -> bool:
    """Whether a target is this machine, perhaps with another instruction set: "cpu", "cpu:v3" and
    the like."""
    kind, colon, name = target.partition(":")
    if not colon or kind != "cpu":
        return target == "cpu"
    try:
        InstructionSet.named(name)
    except DeviceError:
        return False
    return True
