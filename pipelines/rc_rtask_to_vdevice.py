"""rc-rtask-to-vdevice: S2 -> S4."""

from dataclasses import dataclass
from typing import Literal

from rcompiler.passes import Pipeline
from rcompiler.passes.rammer_schedule import RammerSchedule
from rcompiler.passes.roller_tile import RollerTile


@dataclass(frozen=True)
class RcRtaskToVdevice(Pipeline):
    """Construct rKernels and schedule their rTasks on a device."""

    device: str = "cpu"
    policy: Literal["base", "wave", "rammer"] = "rammer"
    eus: int = 0

    def text(self) -> str:
        return f"{RollerTile(self.device)},{RammerSchedule(self.policy, self.eus, self.device)}"
