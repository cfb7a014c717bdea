"""Executes programs, EU by EU and phase by phase, and refuses the first thing that goes wrong."""

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from oracles.interpret.adversary import Adversary
from oracles.interpret.bodies import (
    Body,
    compute,
    content,
    digest,
    outer_bytes,
    reference,
)
from oracles.interpret.races import Clock, Races
from oracles.interpret.tasks import Bytes, Ints, Task, TouchedBox, box_bytes
from oracles.interpret.weak_memory import Memory
from rcompiler.errors import ScheduleError
from rcompiler.rammer.graph import Graph, Operator
from rcompiler.rammer.kernel import Access
from rcompiler.rammer.program import Barrier, Instruction, Program, Run, Signal, Wait

Space = tuple[str, int]
# An EU at work: it stops after each phase, and says for what it waits where it cannot go on.
Walk = Generator[Wait | Barrier | None, None, None]


@dataclass(frozen=True)
class Execution:
    """Results of one execution. outputs: output number -> its bytes; steps: phases executed."""

    outputs: Mapping[int, Bytes]
    steps: int


class ScheduleInterpreter:
    """The launches of `programs`, ready to be executed in any order that they allow.

    bodies: what the rTasks of an operator compute, `digest` for the others. Raises ScheduleError
    for operators or buffers that do not fit the graph.
    """

    def __init__(
        self, programs: Sequence[Program], graph: Graph, bodies: Mapping[str, Body] | None = None
    ) -> None:
        self.programs, self.graph, self.bodies = tuple(programs), graph, bodies or {}
        chosen = {s.operator: s.kernel for p in programs for q in p.queues for s in q
                  if isinstance(s, Run)}  # fmt: skip
        self.kernels = {}
        for op in graph.operators:
            name = chosen.get(op.name, op.kernels[0])
            if name not in op.kernels:
                raise ScheduleError(f"operator {op.name} has no rKernel {name!r}", "task")
            self.kernels[op.name] = graph.kernel[name]
        self.right = reference(graph, self.kernels, self.bodies)
        self.base: dict[Space, int] = {}
        self.initial = self._initial()
        self._tasks: dict[tuple[int, str, tuple[str, ...], int], Task] = {}

    @property
    def eus(self) -> int:
        """EUs of the widest program."""
        return max((program.eus for program in self.programs), default=1)

    def execute(self, adversary: Adversary, *, find_races: bool = True) -> Execution:
        """One execution.

        find_races: also refuse accesses in no order that do no harm this time. Raises ScheduleError
        (rules "deadlock", "race", "task", and "clobber" for wrong bytes).
        """
        launches = _Launches(self, adversary, find_races)
        for number in range(len(self.programs)):
            launches.launch(number)
        return Execution(launches.outputs(), launches.steps)

    def task(self, program: int, run: Run, number: int) -> Task:
        """One rTask with its bytes."""
        key = (program, run.operator, run.buffers, number)
        found = self._tasks.get(key)
        if found is None:
            found = self._tasks[key] = self._task(self.programs[program], run, number)
        return found

    def _task(self, program: Program, run: Run, number: int) -> Task:
        op = self.graph.operator.get(run.operator)
        if op is None or self.graph.kernel.get(run.kernel) != self.kernels[op.name]:
            raise ScheduleError(f"operator {run.operator}: unknown, or another rKernel", "task")
        kernel = self.kernels[op.name]
        if not 0 <= number < kernel.tasks:
            raise ScheduleError(f"operator {op.name} has no rTask {number}", "task")
        cut = len(op.inputs)
        if len(run.buffers) != cut + len(op.outputs):
            raise ScheduleError(f"operator {op.name}: {len(run.buffers)} buffers", "buffer")
        parts = [
            self._part(program, op, number, value, buffer, access)
            for value, buffer, access in zip(
                (*op.inputs, *op.outputs), run.buffers, (*kernel.reads, *kernel.writes), strict=True
            )
        ]
        return Task(op.name, number, kernel, tuple(parts[:cut]), tuple(parts[cut:]))

    def _part(
        self,
        program: Program,
        op: Operator,
        number: int,
        value: str,
        buffer_name: str,
        access: Access,
    ) -> TouchedBox:
        buffer = program.buffer.get(buffer_name)
        if buffer is None or buffer.bytes != access.bytes:
            raise ScheduleError(
                f"operator {op.name}: value {value} has no buffer of {access.bytes} bytes", "buffer"
            )
        at, shape = box_bytes(self.kernels[op.name].grid, access, number)
        root, offset = self.graph.root(value)
        place = self.base[buffer.space] + buffer.offset
        return TouchedBox(value, at + place, shape, self.right[root][at + offset])

    def _initial(self) -> Bytes:
        """The flat memory: all spaces in a row, outer tensors and constants filled."""
        size: dict[Space, int] = {}
        for program in self.programs:
            for buffer in program.buffers:
                end = buffer.offset + buffer.bytes
                size[buffer.space] = max(size.get(buffer.space, 0), end)
        total = 0
        for space in sorted(size):
            self.base[space] = total
            total += size[space]
        memory = content("memory that nobody has written", total)
        for program in self.programs:
            for buffer in program.buffers:
                value = self.graph.value.get(buffer.name)
                if buffer.kind in ("input", "constant") and value is not None:
                    root, offset = self.graph.root(value.name)
                    start = self.base[buffer.space] + buffer.offset
                    data = outer_bytes(self.graph, root)[offset : offset + buffer.bytes]
                    memory[start : start + buffer.bytes] = data
        return memory


@dataclass
class _Event:
    """Signals of one launch, and who is blocked."""

    count: int = 0
    clock: Clock | None = None
    waiting: list[int] = field(default_factory=list)


class _Launches:
    """The state of one execution."""

    def __init__(self, plan: ScheduleInterpreter, adversary: Adversary, find_races: bool) -> None:
        self.plan, self.adversary, self.find_races = plan, adversary, find_races
        self.memory = Memory(plan.initial, plan.eus)
        self.races: Races  # of the launch
        self.steps = 0
        self.done: set[tuple[str, int]] = set()
        self.number = 0
        self.events: dict[str, _Event] = {}
        self.ready: list[int] = []
        self.at: list[int] = []  # of each queue
        self.taken = 0  # queues of a dynamic program

    def launch(self, number: int) -> None:
        """Execute one program; after it, all EUs meet."""
        self.number, self.events, self.taken = number, {}, 0
        program = self.plan.programs[number]
        queues = program.queues
        self.adversary.launch(program.eus)
        # What came before is over. Two queues have no order because one EU happens to run both.
        self.races = Races(len(self.plan.initial), len(queues))
        self.at = [0] * len(queues)
        if program.dynamic:
            self._advance([self._take(eu, queues) for eu in range(program.eus)])
            queues = queues[: self.taken]
        else:
            self._advance([self._walk(eu, eu, queue) for eu, queue in enumerate(queues)])
        stuck = {i: q[self.at[i]] for i, q in enumerate(queues) if self.at[i] < len(q)}
        if stuck:
            raise self._deadlock(program, stuck)
        self.memory.meet(self.plan.eus)

    def _advance(self, walks: Sequence[Walk]) -> None:
        """Go on until nobody can."""
        self.ready = list(range(len(walks)))
        arrived: list[int] = []
        while self.ready:
            eu = self.adversary.pick(self.ready)
            self.steps += 1
            try:
                stop = next(walks[eu])
            except StopIteration:
                self.ready.remove(eu)
                continue
            self.adversary.leak(self.memory, eu)
            if stop is None:
                continue
            self.ready.remove(eu)
            if isinstance(stop, Wait):
                self.events[stop.event].waiting.append(eu)
                continue
            arrived.append(eu)
            if len(arrived) == len(walks):
                self.memory.meet(len(arrived))
                self.races.meet(len(arrived))
                self.ready, arrived = arrived, []

    def outputs(self) -> dict[int, Bytes]:
        """The output tensors, once all rTasks ran. Raises ScheduleError where one did not."""
        graph = self.plan.graph
        for op in graph.operators:
            for task in range(self.plan.kernels[op.name].tasks):
                if (op.name, task) not in self.done:
                    raise ScheduleError(f"operator {op.name}: rTask {task} is not run", "task")
        found = {}
        for value in graph.values:
            if value.kind != "output":
                continue
            root, offset = graph.root(value.name)
            start = self.plan.base.get(("output", value.index), 0)
            data = self.memory.shared[start : start + value.bytes].copy()
            if not np.array_equal(data, self.plan.right[root][offset : offset + value.bytes]):
                raise ScheduleError(f"output {value.name} ends with wrong bytes", "clobber")
            found[value.index] = data
        return found

    def _take(self, eu: int, queues: Sequence[Sequence[Instruction]]) -> Walk:
        while self.taken < len(queues):
            number = self.taken
            self.taken += 1
            yield None  # others may take and run the next ones before this one begins
            yield from self._walk(eu, number, queues[number])

    def _walk(self, eu: int, number: int, queue: Sequence[Instruction]) -> Walk:
        """An EU runs queue `number`."""
        for step in queue:
            if type(step) is Run:
                for i in range(step.count):
                    yield from self._run(eu, number, step, step.first + i * step.stride)
            elif type(step) is Signal:
                self._signal(eu, number, self.events.setdefault(step.event, _Event()))
                yield None
            elif type(step) is Wait:
                event = self.events.setdefault(step.event, _Event())
                while event.count < step.count:
                    yield step
                if event.clock is not None:
                    self.races.learn(number, event.clock)
                self.memory.refresh(eu)
                yield None
            else:
                assert isinstance(step, Barrier)
                yield step
            self.at[number] += 1

    def _signal(self, eu: int, number: int, event: _Event) -> None:
        self.memory.release(eu)
        clock = self.races.clock(number)
        event.clock = clock if event.clock is None else np.maximum(event.clock, clock)
        event.count += 1
        self.ready += event.waiting  # each looks again at the count
        event.waiting = []

    def _run(self, eu: int, queue: int, run: Run, number: int) -> Walk:
        task = self.plan.task(self.number, run, number)
        if (task.operator, number) in self.done:
            raise ScheduleError(f"{task} {self._where(queue)} is run for the second time", "task")
        self.done.add((task.operator, number))
        self.races.start(queue, task)
        operands = []
        for part in task.reads:
            operands.append(self._read(eu, queue, task, part).reshape(part.shape))
            yield None
        body = self.plan.bodies.get(task.operator, digest)
        shapes = [part.shape for part in task.writes]
        results = compute(body, task.operator, number, operands, shapes)
        for part, result in zip(task.writes, results, strict=True):
            self._write(eu, queue, task, part, result)
            yield None

    def _read(self, eu: int, queue: int, task: Task, part: TouchedBox) -> Bytes:
        other, at, who = self.races.read(queue, part)
        if other is not None and self.find_races:
            raise self._race(queue, task, "reads", part, other, who, "writes", at)
        data = self.memory.read(eu, part.at)
        wrong = part.at[data != part.right]
        if len(wrong):
            raise ScheduleError(
                f"{task} {self._where(queue)} reads {part.value} and finds other bytes than were "
                f"to be written, at {self._bytes(wrong)}",
                "clobber",
            )
        return data

    def _write(self, eu: int, queue: int, task: Task, part: TouchedBox, data: Bytes) -> None:
        other, at, who = self.races.write(queue, part)
        if other is not None and self.find_races:
            raise self._race(queue, task, "writes", part, other, who, "touches", at)
        self.memory.write(eu, part.at, data)

    def _race(
        self, queue: int, task: Task, verb: str, part: TouchedBox, other: Task, who: int, did: str,
        at: Ints,
    ) -> ScheduleError:  # fmt: skip
        return ScheduleError(
            f"{task} {self._where(queue)} {verb} {part.value} at {self._bytes(at)}, which {other} "
            f"{self._where(who)} {did} in no order",
            "race",
        )

    def _where(self, queue: int) -> str:
        """For a message."""
        return f"in queue {queue}" if self.plan.programs[self.number].dynamic else f"on EU {queue}"

    def _bytes(self, at: Ints) -> str:
        """The first and last of some addresses, for a message."""
        start, space = max((b, s) for s, b in self.plan.base.items() if b <= at.min())
        memory = space[0] if space[1] < 0 else f"{space[0]} {space[1]}"
        return f"bytes {at.min() - start}..{at.max() - start} of {memory} memory"

    def _deadlock(self, program: Program, stuck: Mapping[int, Instruction]) -> ScheduleError:
        """stuck: queues that are begun and not over, and where they stand."""
        unit = "queue" if program.dynamic else "EU"
        parts = []
        for number, step in stuck.items():
            if isinstance(step, Wait):
                rest = {other: q[self.at[other] :] for other, q in enumerate(program.queues)}
                late = [other for other in rest if Signal(step.event) in rest[other]]
                have = self.events[step.event].count
                what = f"for event {step.event} ({have} of {step.count} signals)"
            else:
                met = [other for other in stuck if isinstance(stuck[other], Barrier)]
                late = [other for other in range(len(program.queues)) if other not in met]
                what = "at a barrier"
            who = f"of {unit} {', '.join(map(str, late))}" if late else "of nobody"
            parts.append(f"{unit} {number} waits at place {self.at[number]} {what} {who}")
        return ScheduleError(f"program {program.name} deadlocks: {'; '.join(parts)}", "deadlock")
