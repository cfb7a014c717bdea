"""What the two lowerings of a model share: the options that change code, and the three stages."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Literal

from rcompiler.device.model import Device
from rcompiler.options import Kernels, PolicyChoice, RollerPolicy, Roots
from rcompiler.passes import Element, Pipeline
from rcompiler.passes.roller_tile import RollerTile

Stage = Literal["rtask", "rkernel", "vdevice"]


@dataclass(frozen=True)
class Lowering(Pipeline):
    """A lowering from S1 to a later stage, in three lists.

    device, target: as `vdevice-attach-device` has them. to: the last stage. The others are those of
    `CompileOptions`.
    """

    device: Device
    target: str = ""
    to: Stage = "vdevice"
    fusion: bool = True
    normalise: bool = True
    roots: Roots = "auto"
    roller_policy: RollerPolicy = "roller"
    eus: int = 0
    policy: PolicyChoice = "rammer"
    kernels: Kernels = "auto"

    def passes(self) -> list[Element]:
        found = self.to_rtask()
        if self.to != "rtask":
            found += self.to_rkernel()
        if self.to == "vdevice":
            found += self.to_vdevice()
        return found

    @abstractmethod
    def to_rtask(self) -> list[Element]:
        """S1 -> S2: the model says for which device it is, and becomes rOperators."""

    def to_rkernel(self) -> list[Element]:
        """S2 -> S3: the rKernels of each rOperator."""
        return [RollerTile(policy=self.roller_policy, eus=self.eus)]

    @abstractmethod
    def to_vdevice(self) -> list[Element]:
        """S3 -> S4: one schedule of all rTasks."""
