"""What is expected of a schedule on a device, whoever asks: reports, pictures, calibration."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Protocol

from rcompiler.device.model import Device
from rcompiler.rammer.graph import Graph
from rcompiler.rammer.kernel import Kernel
from rcompiler.rammer.program import Program
from rcompiler.rammer.recall import Recalls
from rcompiler.rammer.simulate import simulate
from rcompiler.rammer.timeline import Timeline


class Told(Protocol):
    """What a report tells of an rKernel.

    task_ns: of one rTask. parts: "compute" and the memory levels that it waits for, ns each.
    """

    @property
    def kernel(self) -> str: ...
    @property
    def task_ns(self) -> float: ...
    @property
    def parts(self) -> tuple[tuple[str, float], ...]: ...


def timed(kernels: Iterable[Kernel], told: Iterable[Told]) -> list[Kernel]:
    """rKernels of a compiled program with the times that it was scheduled by."""
    known = {one.kernel: one for one in told}
    return [
        replace(k, estimated_ns=known[k.name].task_ns, parts=known[k.name].parts)
        if k.name in known
        else k
        for k in kernels
    ]


def expected(
    programs: Sequence[Program],
    graph: Graph,
    device: Device,
    *,
    recalls: Recalls | None = None,
    contention: bool = False,
) -> Timeline:
    """The time line of one of many inferences in a row, in ns.

    By the figures of the device, if it is calibrated (`Device.recall`): then caches are followed
    and EUs share the rate of memory. recalls: of this schedule and these figures, from empty
    caches, if they are known. Of other devices every rTask takes its estimate; contention: slowed
    down where all of them ask for more than the shared level has. Raises ScheduleError for programs
    that would wait for ever.
    """
    if device.recall is None:
        shared = device.shared_bandwidth if contention else None
        return simulate(programs, graph, device.costs, shared)
    recalls = recalls or Recalls(graph, device, device.recall)
    recalls.warm(programs)
    return simulate(programs, graph, device.costs, device.recall.shared_rate, recalls)
