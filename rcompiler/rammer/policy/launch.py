"""One launch in the making, for who writes a policy: the paper's Append and Wait.

    launch = Launch(graph, eus)
    tasks = launch.append(op, kernel, eu, first, count)
    launch.wait(tasks, launch.producers(tasks))
    program = launch.program("main_0")

Rammer (OSDI'20), section 3.3: a policy appends rTasks to the lists of EUs, and says which rTasks
must be over before another one begins. Here both speak of ranges of rTasks. What a policy forgets
to wait for is not added: the proof of the schedule refuses such a program, and names the race.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from rcompiler.errors import ScheduleError
from rcompiler.rammer.graph import Graph, Operator
from rcompiler.rammer.kernel import Kernel
from rcompiler.rammer.layout import make_program, plain_layout
from rcompiler.rammer.overlap import Bools
from rcompiler.rammer.policy.dependences import Dependences, Split
from rcompiler.rammer.policy.events import Events
from rcompiler.rammer.program import Instruction, Program, Run


@dataclass(frozen=True, eq=False)
class Tasks:
    """The rTasks `first` to `first + count` of an operator, which `eu` runs one after the other.

    Each is equal to itself alone.

    Attributes:
        operator: its name.
        kernel: the rKernel that it runs.
        eu: number of the EU.
        first: number of the first rTask.
        count: how many rTasks.
        number: how many ranges of the operator its launch got before.
        place: how many ranges the EU got before.
    """

    operator: str
    kernel: Kernel
    eu: int
    first: int
    count: int
    number: int
    place: int


class Launch:
    """What the EUs of one launch run; see the module."""

    def __init__(self, graph: Graph, eus: int) -> None:
        """An empty list for each EU.

        Args:
            graph: whose operators are appended; those that other launches run, too.
            eus: how many EUs the launch has.

        Raises:
            ScheduleError: there is no EU.
        """
        if eus < 1:
            raise ScheduleError(f"cannot schedule for {eus} EUs: give one or more")
        self.graph = graph
        self._dependences = Dependences(graph)
        self._lists: list[list[Tasks]] = [[] for _ in range(eus)]
        self._ranges: dict[str, list[Tasks]] = {}
        self._waits: dict[Tasks, dict[Tasks, None]] = {}

    def append(
        self, op: Operator, kernel: Kernel, eu: int, first: int = 0, count: int | None = None
    ) -> Tasks:
        """Let an EU run rTasks of an operator after all that it got before (Append).

        Args:
            op: one of `graph.operators`.
            kernel: which of its rKernels, `graph.kernel[name]` of a name in `op.kernels`; the same
                for all ranges of the operator.
            eu: its number, from 0.
            first: the first rTask.
            count: how many rTasks; None for all from `first` on.

        Returns:
            The range, to wait with and to wait for.

        Raises:
            ScheduleError: the EU, the rKernel or one of the rTasks does not exist, or the operator
                runs another rKernel already.
        """
        count = kernel.tasks - first if count is None else count
        before = self._ranges.get(op.name, [])
        self._check(op, kernel, eu, before)
        if first < 0 or count < 1 or first + count > kernel.tasks:
            raise ScheduleError(
                f"operator {op.name}: no {count} rTasks from {first} on, rKernel {kernel.name} has "
                f"{kernel.tasks}: append 1 or more, from 0 on"
            )
        place = len(self._lists[eu])
        tasks = Tasks(op.name, kernel, eu, first, count, len(before), place)
        self._ranges.setdefault(op.name, []).append(tasks)
        self._lists[eu].append(tasks)
        self._waits[tasks] = {}
        return tasks

    def wait(self, tasks: Tasks, others: Iterable[Tasks]) -> None:
        """Let rTasks begin only when others are over (Wait).

        What the same EU runs before is over anyway, and costs nothing.

        Args:
            tasks: a range that `append` returned.
            others: ranges of this launch, appended before or after it.

        Raises:
            ScheduleError: a range is not of this launch.
        """
        for each in (tasks, *(others := list(others))):
            if each not in self._waits:
                raise ScheduleError(
                    f"rTasks {each.first} to {each.first + each.count} of {each.operator} are not "
                    "of this launch: launches run one after the other, and need no wait"
                )
        own = (o for o in others if o.eu != tasks.eu or o.place >= tasks.place)
        self._waits[tasks] |= dict.fromkeys(own)

    def producers(self, tasks: Tasks) -> list[Tasks]:
        """The ranges appended so far that write bytes which a range reads: no more, as the boxes of
        the rKernels say which rTask touches what.

        Args:
            tasks: a range that `append` returned.

        Returns:
            Ranges of this launch in the order of operators, then of `append`.
        """
        target = _split([tasks])
        found: list[Tasks] = []
        for name in self.graph.predecessors[tasks.operator]:
            ranges = self._ranges.get(name, [])
            if ranges:
                [need] = self._dependences.needs(name, _split(ranges), tasks.operator, target)
                found += [each for each, needed in zip(ranges, need, strict=True) if needed]
        return found

    def program(self, name: str) -> Program:
        """The launch written down, with the events that its waits need.

        Args:
            name: one that no other launch of the schedule has.

        Returns:
            A program, each value at bytes of its own; the compiler places values later.
        """
        events = Events({op: len(ranges) for op, ranges in self._ranges.items()})
        waits = {tasks: self._events(tasks, events) for tasks in self._waits}
        queues: list[list[Instruction]] = []
        for ranges in self._lists:
            queues.append([])
            for tasks in ranges:
                op = self.graph.operator[tasks.operator]
                buffers = (*op.inputs, *op.outputs)
                run = Run(tasks.kernel.name, op.name, tasks.first, tasks.count, 1, buffers)
                queues[-1] += [*waits[tasks], run, *events.signals[op.name][tasks.number]]
        return make_program(name, self.graph, plain_layout(self.graph), queues)

    def _check(self, op: Operator, kernel: Kernel, eu: int, before: list[Tasks]) -> None:
        if self.graph.operator.get(op.name) != op:
            raise ScheduleError(f"operator {op.name} is not of the graph that is scheduled")
        if not 0 <= eu < len(self._lists):
            raise ScheduleError(
                f"operator {op.name}: no EU {eu}, the launch has {len(self._lists)}, from 0 on"
            )
        if kernel.name not in op.kernels or self.graph.kernel[kernel.name] != kernel:
            raise ScheduleError(
                f"operator {op.name} has no rKernel {kernel.name}; it has {', '.join(op.kernels)}"
            )
        if before and before[0].kernel != kernel:
            raise ScheduleError(
                f"operator {op.name} runs rKernel {before[0].kernel.name} already: append all of "
                f"its rTasks with that one, not {kernel.name}"
            )

    def _events(self, tasks: Tasks, events: Events) -> list[Instruction]:
        """The waits of a range, producer by producer."""
        members: dict[str, Bools] = {}
        for other in self._waits[tasks]:
            size = len(self._ranges[other.operator])
            members.setdefault(other.operator, np.zeros(size, bool))[other.number] = True
        found: list[Instruction] = []
        for producer, which in members.items():
            found += events.waits(producer, which, full=bool(which.all()))
        return found


def _split(ranges: list[Tasks]) -> Split:
    first, count = ([getattr(each, key) for each in ranges] for key in ("first", "count"))
    return ranges[0].kernel, np.array(first), np.array(count)
