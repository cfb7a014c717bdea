"""rc-rtask-to-vdevice: S2 -> S4."""

from dataclasses import dataclass

from rcompiler.options import Kernels, PolicyChoice, RollerPolicy
from rcompiler.passes import Element, Pipeline
from rcompiler.passes.rammer_schedule import RammerSchedule
from rcompiler.passes.roller_tile import RollerTile


@dataclass(frozen=True)
class RcRtaskToVdevice(Pipeline):
    """Construct rKernels and schedule their rTasks on the device of the module.

    Attributes:
        policy: who schedules.
        roller_policy: who decides tiles.
        eus: how many EUs there are; 0: all of the device.
        kernels: which rKernels of an operator run.
    """

    policy: PolicyChoice = "rammer"
    roller_policy: RollerPolicy = "roller"
    eus: int = 0
    kernels: Kernels = "auto"

    def passes(self) -> list[Element]:
        return [
            RollerTile(policy=self.roller_policy, eus=self.eus),
            RammerSchedule(self.policy, self.eus, self.kernels),
        ]
