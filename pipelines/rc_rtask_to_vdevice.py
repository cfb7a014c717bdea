"""rc-rtask-to-vdevice: S2 -> S4."""

from dataclasses import dataclass

from rcompiler.passes import Pipeline


@dataclass(frozen=True)
class RcRtaskToVdevice(Pipeline):
    """Construct rKernels and schedule their rTasks on a device."""

    device: str = "cpu"
    policy: str = "rammer"
    eus: int = 0

    def text(self) -> str:
        return (
            f"roller-tile{{device={self.device}}},"
            f"rammer-schedule{{policy={self.policy} eus={self.eus} device={self.device}}}"
        )
