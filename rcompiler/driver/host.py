"""Which device record a compilation uses: the one that is given, else the measured one of this
machine, else the default figures of its feature level.

Of an instruction set that this machine lacks nothing can be measured here: what was measured with
its own says what to expect (`device.cpu.expected`).
"""

from __future__ import annotations

import os
import warnings
from pathlib import Path

from rcompiler.device.cpu import detect_cpu, expected, fitted, lacking
from rcompiler.device.model import Device
from rcompiler.device.record import builtin_device, builtin_names, load_device
from rcompiler.device.store import find_record, recorded
from rcompiler.device.target import find_device, is_host
from rcompiler.errors import CompilerError, DeviceError
from rcompiler.options import DEFAULT, default_device


class DeviceWarning(UserWarning):
    """This machine could not be measured; the default figures are used."""


def target_device(target: str) -> Device:
    """The device that a target names, with default figures if it is this host.

    Raises DeviceError.
    """
    if not isinstance(target, str) or not target:
        raise DeviceError(f"target={target!r}: give the name of a target, such as 'cpu'")
    device = find_device(target)
    if not (device.is_cpu or device.is_gpu):
        raise DeviceError(
            f"target {target!r} is a {device.kind} device; code is generated for CPUs and GPUs"
        )
    if device.is_nvidia:
        # imported here: a finished model of the cache is found without the compiler
        from rcompiler.codegen.ptx import check_chip

        check_chip(device.level_name)
    return device


def given_device(
    target: str, base: Device, device: Device | str | os.PathLike[str] | None
) -> Device | None:
    """The device whose figures are chosen by the caller, $RC_DEVICE or the target; None: by nobody.

    device: a record, its path, or the name of one that comes with the compiler. base:
    `target_device(target)`. Of a record of a CPU with more features than the target has, what does
    not depend on them decides: see `device.cpu.fitted`. Raises DeviceError for a record that
    cannot be read, or is none of a CPU.
    """
    if device is None:
        if not is_host(target):
            return base
        device = default_device()
        if device is None:
            return None
    if isinstance(device, str) and device == DEFAULT:
        return base
    if not base.is_cpu:
        raise DeviceError(
            f"device={device!r} has the figures of a CPU, and target {target!r} is a GPU; leave "
            "device out, or give the path of the GPU's record as target"
        )
    if isinstance(device, str) and device in builtin_names():
        found, where = builtin_device(device), f"device {device}: "
    elif isinstance(device, str | os.PathLike) and str(device):
        found, where = load_device(Path(device)), f"{os.fspath(device)}: "
    elif isinstance(device, Device):
        found, where = device, f"device {device.name}: "
    else:
        raise DeviceError(
            f"device={device!r}: give a device record, the path or name of one, {DEFAULT!r} or None"
        )
    if not found.is_cpu:
        raise DeviceError(f"{where}a {found.kind} device; target {target!r} is a CPU")
    return fitted(found, base)


def measured_device(base: Device, cache: Path | None) -> Device:
    """The measured record of this machine from the folder `cache`, measured now if it has none; for
    an instruction set that it lacks, what is expected by that record.

    `base` itself without a folder, or where it cannot be written or measured.
    """
    if cache is None:
        return base
    if lacking(base):
        here = measured_device(detect_cpu(eus=base.eus), cache)
        return expected(here, base) if here.measured else base
    from rcompiler.codegen.microbench import measure_host

    try:
        return recorded(base, cache, measure_host)
    except (CompilerError, MemoryError, RuntimeError) as error:
        warnings.warn(
            f"this machine cannot be measured, default figures are used: {error}",
            DeviceWarning,
            stacklevel=3,
        )
        return base


def known_device(base: Device, cache: Path) -> Device | None:
    """What `measured_device` returns where it need not measure: None where the folder `cache` has
    no record of this machine.

    Raises CacheError for a folder that others may write to.
    """
    if not lacking(base):
        return find_record(base, cache)
    here = find_record(detect_cpu(eus=base.eus), cache)
    return None if here is None else expected(here, base)
