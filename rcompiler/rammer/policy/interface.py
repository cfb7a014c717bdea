"""What a scheduling policy is: a function from a graph to programs."""

from typing import Protocol

from rcompiler.device.model import Costs
from rcompiler.rammer.graph import Graph
from rcompiler.rammer.program import Program


class Policy(Protocol):
    """Decides which rKernel each operator runs, which EU each rTask, and what waits for what.

    It must be deterministic: the same arguments, the same programs. Nobody trusts its result: no
    schedule runs that is not proved, whoever wrote it.
    """

    def __call__(
        self, graph: Graph, eus: int, costs: Costs, *, kernels: str = ..., name: str = ...
    ) -> list[Program]:
        """Schedule a graph (Rammer, OSDI'20, section 3.3 and Algorithm 1).

        Args:
            graph: `graph.operators`, each after those whose results it reads; each with the names
                of the values it reads and writes and of the rKernels it may run, all of which
                compute the same bits. `graph.kernel[name]` has its number of rTasks (`tasks`) and
                the time of one of them alone on an EU (`estimated_ns`).
                `graph.predecessors[name]` are the operators that one reads from.
            eus: execution units to schedule for, as many as a launch may have.
            costs: what launches, barriers, signals and starts of rTasks cost on the device, in ns,
                and whether one EU can wait for another at all (`signals`).
            kernels: which rKernels are asked for: "fast", those of the least time where an operator
                has all EUs for itself (`fastest`); "efficient", of the least work
                (`most_efficient`); "select", as the paper's policy chooses (`select_kernels`).
                Where nobody asks, it is left out: the default is the policy's own.
            name: of the schedule; programs are called after it, `f"{name}_0"` and so on.

        Returns:
            The launches, one after the other: what one writes, all later ones may read. Together
            they run each rTask of each operator once. An operator without rTasks runs nowhere.

        Raises:
            ScheduleError: the policy cannot schedule this graph, or not on such a device.
        """
        ...
