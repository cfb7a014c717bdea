"""rc-rtask-to-vdevice: S2 -> S4."""

from dataclasses import dataclass

from rcompiler.options import Kernels, Policy, Precision, RollerPolicy
from rcompiler.passes import Pipeline
from rcompiler.passes.rammer_schedule import RammerSchedule
from rcompiler.passes.roller_tile import RollerTile


@dataclass(frozen=True)
class RcRtaskToVdevice(Pipeline):
    """Construct rKernels and schedule their rTasks on a device."""

    device: str = "cpu"
    policy: Policy = "rammer"
    roller_policy: RollerPolicy = "roller"
    eus: int = 0
    kernels: Kernels = "auto"
    precision: Precision = "f32"

    def text(self) -> str:
        tile = RollerTile(
            self.device, policy=self.roller_policy, eus=self.eus, precision=self.precision
        )
        scheduler = RammerSchedule(self.policy, self.eus, self.device, self.kernels)
        return f"{tile},{scheduler}"
