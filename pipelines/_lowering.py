"""What the two lowerings of a model share: the options that change code, and the three stages."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Literal

from rcompiler.device.model import Device
from rcompiler.options import Kernels, Memory, PolicyChoice, Precision, RollerPolicy, Roots
from rcompiler.passes import Element, Pipeline
from rcompiler.passes.roller_tile import RollerTile

Stage = Literal["rtask", "rkernel", "vdevice"]


@dataclass(frozen=True)
class Lowering(Pipeline):
    """A lowering from S1 to a later stage, in three lists.

    Attributes:
        device: the device, a name, a file, or a record as text.
        target: what code is generated for, where that is more than the kind and instruction set of
            the device.
        to: the last stage.
        fusion: group ops into rOperators beyond views.
        normalise: join products of one operand, and batch those of the steps of a recurrence.
        roots: algorithm of 3x3 convolutions.
        roller_policy: who decides tiles.
        eus: how many EUs there are; 0: all of the device.
        policy: who schedules.
        kernels: which rKernels of an operator run.
        memory: how temporary tensors get their bytes.
        precision: what the factors of products of f32 are rounded to before they are multiplied;
            f32: they are not.
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
    memory: Memory = "auto"
    precision: Precision = "f32"

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

    def to_vdevice(self) -> list[Element]:
        """S3 -> S4: one schedule of all rTasks."""
        return [*self.to_schedule(), *self.to_tasks()]

    @abstractmethod
    def to_schedule(self) -> list[Element]:
        """The part of it that decides for all rKernels together."""

    def to_tasks(self) -> list[Element]:
        """The part of it after that, which makes of each rKernel what it would make of that one in
        a module of its own, scheduled or not.
        """
        return []
