"""The device that a module is compiled for: the attribute `vdevice.device` of the module.

module attributes {vdevice.device = {figures = {eus = 2 : i64, kind = "cpu", ...},
                                     precision = "f32", target = "cpu:v3"}} {...}

figures: what the device record says of the machine. precision: how matrix units multiply factors
of f32; "f32": they do not. target: what code is generated for. `vdevice-attach-device` writes it,
and every pass that decides by a device reads it here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, get_args

from torch_mlir import ir

from rcompiler.device.model import Device
from rcompiler.device.record import figures, from_plain
from rcompiler.dialects.attributes import to_attribute, to_python
from rcompiler.errors import DeviceError
from rcompiler.options import Precision
from rcompiler.support.lru_cache import LruCache

ATTRIBUTE = "vdevice.device"
_FIELDS = ("figures", "precision", "target")


@dataclass(frozen=True)
class Attached:
    """What a module says of the device that it is compiled for."""

    device: Device
    precision: Precision
    target: str

    def attribute(self) -> ir.Attribute:
        """In the context of the current location."""
        return to_attribute(
            {
                "figures": figures(self.device),
                "precision": self.precision,
                "target": self.target,
            }
        )


def attribute_of(module: ir.Operation) -> ir.Attribute:
    """The attribute of a builtin.module. Raises DeviceError where there is none."""
    if ATTRIBUTE not in module.attributes:
        raise DeviceError(
            f"the module does not say which device it is for: it has no attribute {ATTRIBUTE}; "
            "run vdevice-attach-device{device=...} first"
        )
    return module.attributes[ATTRIBUTE]


def attached(module: ir.Operation) -> Attached:
    """What a builtin.module is compiled for.

    Raises DeviceError where it does not say, or what it says is no device.
    """
    attribute = attribute_of(module)
    text = str(attribute)
    known = _READ.get(text)
    if known is None:
        known = _read(attribute)
        _READ.put(text, known, len(text))
    return known


def device_of(module: ir.Operation) -> Device:
    """The device that a builtin.module is compiled for. Raises as `attached`."""
    return attached(module).device


def _read(attribute: ir.Attribute) -> Attached:
    found: Any = to_python(attribute)
    if not isinstance(found, dict) or sorted(found) != sorted(_FIELDS):
        raise DeviceError(f"{ATTRIBUTE}: not a dictionary of {', '.join(_FIELDS)}; {_REMEDY}")
    if found["precision"] not in get_args(Precision):
        known = ", ".join(get_args(Precision))
        raise DeviceError(f"{ATTRIBUTE}: precision {found['precision']!r} is none of {known}")
    if not isinstance(found["target"], str) or not found["target"]:
        raise DeviceError(f"{ATTRIBUTE}: target {found['target']!r} is no name of a target")
    device = from_plain(found["figures"], f"{ATTRIBUTE}: figures")
    return Attached(device, found["precision"], found["target"])


_REMEDY = "write it with vdevice-attach-device"
# By its text: a dozen passes of a compilation read the same one.
_READ: LruCache[Attached] = LruCache(1 << 18)  # characters
