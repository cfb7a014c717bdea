"""What is expected of a schedule on a device, whoever asks: reports, pictures, calibration."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Protocol

from rcompiler.device.model import Device
from rcompiler.rammer.graph import Graph, Kernel
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

    recalls: what caches keep, from empty ones; else by the figures of the device, if it is
    calibrated (`Device.recall`). Then EUs share the bandwidth of memory. Of other devices every
    rTask takes its estimate; contention: slowed down where all of them ask for more than the shared
    level has. Raises ScheduleError for programs that would wait for ever.
    """
    if recalls is None and device.recall is not None:
        recalls = Recalls(graph, device, device.recall)
    if recalls is None:
        shared = device.shared_bandwidth if contention else None
        return simulate(programs, graph, device.costs, shared)
    recalls.warm(programs)
    memory = device.memory[-1].shared_bandwidth
    return simulate(programs, graph, device.costs, memory, recalls)
