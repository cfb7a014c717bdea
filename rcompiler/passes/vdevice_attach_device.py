"""vdevice-attach-device: the first pass of a lowering, the module says which device it is for.

Before:
    module { ... }
After:
    module attributes {vdevice.device = {figures = {eus = 2 : i64, kind = "cpu", ...},
                                         precision = "f32", target = "cpu:v3"}} { ... }
A module that is for another device is refused: what was decided for that one would stay.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch_mlir import ir

from rcompiler.device.model import Device
from rcompiler.device.target import kind_name
from rcompiler.options import Precision
from rcompiler.passes import Pass, PassFailure
from rcompiler.passes.ir.module_device import ATTRIBUTE, Attached, attached


@dataclass(frozen=True)
class VdeviceAttachDevice(Pass):
    """Write into the module which device it is compiled for.

    Attributes:
        device: a name, a file, or a record as text.
        precision: how the matrix units of a GPU multiply factors of f32; f32: they do not.
        target: what code is generated for, where that is more than the kind and instruction set of
            the device.
    """

    device: Device
    precision: Precision = "f32"
    target: str = ""

    def run(self, module: ir.Operation) -> None:
        made_for = Attached(self.device, self.precision, self.target or kind_name(self.device))
        with module.location:
            attribute = made_for.attribute()
        if ATTRIBUTE in module.attributes and module.attributes[ATTRIBUTE] != attribute:
            there = attached(module)
            raise PassFailure(
                module,
                f"the module is for device {there.device.name}, target '{there.target}' and "
                f"precision {there.precision}, not for device {self.device.name}, target "
                f"'{made_for.target}' and precision {self.precision}; begin with a module that no "
                "pass has seen",
            )
        module.attributes[ATTRIBUTE] = attribute
