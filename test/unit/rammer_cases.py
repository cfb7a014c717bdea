"""Graphs for the scheduling tests, and a naive oracle that tries every interleaving."""

import random
from collections.abc import Sequence

import numpy as np
import pytest

from rcompiler.errors import ScheduleError
from rcompiler.rammer.graph import Graph, Operator, Value
from rcompiler.rammer.kernel import WHOLE, Access, DimAccess, Kernel
from rcompiler.rammer.layout import make_program, plain_layout
from rcompiler.rammer.program import Barrier, Program, Run, Signal, Wait
from rcompiler.rammer.regions import byte_ranges, range_boxes
from rcompiler.rammer.timeline import NO_EVENTS
from rcompiler.rammer.validate import validate


def tiled(shape: Sequence[int], grid: Sequence[int], itemsize: int = 4, halo: int = 0) -> Access:
    """Each task touches its own tile, and `halo` elements around it."""
    dims = []
    for axis, (size, tiles) in enumerate(zip(shape, grid, strict=True)):
        step = -(-size // tiles)
        dims.append(DimAccess(axis, step, -halo, step + 2 * halo))
    return Access(tuple(shape), itemsize, tuple(dims))


def rows(shape: Sequence[int], grid: Sequence[int], itemsize: int = 4) -> Access:
    """Each task touches the full rows of its tile, as the left operand of a product."""
    own = tiled(shape, grid, itemsize)
    return Access(own.shape, itemsize, (own.dims[0], *(DimAccess(WHOLE),) * (len(shape) - 1)))


def kernel(name: str, shape: Sequence[int], grid: Sequence[int], reads: str, **more) -> Kernel:
    """reads: one letter per operand: t own tile, h tile with halo, r rows, w the whole tensor."""
    size = more.pop("itemsize", 4)
    make = {
        "t": lambda: tiled(shape, grid, size),
        "h": lambda: tiled(shape, grid, size, halo=1),
        "r": lambda: rows(shape, grid, size),
        "w": lambda: Access.whole(tuple(shape), size),
    }
    more.setdefault("estimated_ns", 1000.0)
    write = (tiled(shape, grid, size),)
    return Kernel(name, tuple(grid), tuple(make[r]() for r in reads), write, **more)


def chain(kernels: Sequence[Kernel], inputs: Sequence[Sequence[int]]) -> Graph:
    """Operator i runs kernel i; inputs[i]: the operators it reads, -1 the graph's input."""
    size = kernels[0].writes[0].bytes
    values = [Value("x", size, "input", index=0)]
    operators = []
    names = ["x"]
    last = len(kernels) - 1
    for i, (k, reads) in enumerate(zip(kernels, inputs, strict=True)):
        kind, index = ("output", 0) if i == last else ("temp", -1)
        values.append(Value(f"v{i}", size, kind, index=index))
        sources = tuple(names[r + 1] for r in reads)
        operators.append(Operator(f"o{i}", (k.name,), sources, (f"v{i}",)))
        names.append(f"v{i}")
    return Graph(tuple(operators), tuple(values), tuple({k.name: k for k in kernels}.values()))


def random_graph(
    rng: random.Random, operators: int, shape: Sequence[int] = (4, 4), itemsize: int = 4
) -> Graph:
    """A random graph over values of one shape with tiles, halos, rows and whole operands."""
    kernels, inputs = [], []
    for i in range(operators):
        grid = tuple(rng.choice([1, 2, size]) for size in shape)
        reads = "".join(rng.choice("thrw") for _ in range(rng.randint(1, 2)))
        name = f"{reads}_{'x'.join(map(str, grid))}"
        place = ((0, 0),) if reads[0] == "t" else ()
        kernels.append(kernel(name, shape, grid, reads, itemsize=itemsize, in_place=place))
        inputs.append([rng.randint(max(-1, i - 4), i - 1) for _ in reads])
    return chain(kernels, inputs)


def recurrent(steps: int) -> Graph:
    """A recurrence written out: each step is a product of the state and an update of the state."""
    product = kernel("product", (8, 8), (4, 1), "wr")
    update = kernel("update", (8, 8), (2, 1), "tt")
    states = [-1, *(2 * step + 1 for step in range(steps - 1))]
    inputs = [reads for state in states for reads in ([state, -1], [state + 1, state])]
    return chain([product, update] * steps, inputs)


def repeated(rng: random.Random, steps: int, operators: int = 6) -> Graph:
    """A random step, written out so often: each hands its last value on to the next."""
    shapes = [(8, rng.choice([2, 4, 8, 16])) for _ in range(operators)]
    grids = [(rng.choice([1, 2]), 1) for _ in shapes]
    # of each operator: those of its step that it reads, -1 what the step is given
    reads = [sorted({i - 1, *rng.choices(range(-1, i), k=2)}) for i in range(operators)]
    kernels: dict[str, Kernel] = {}
    values = [Value("x", 512, "input", index=0)]
    found = []
    given, size = "x", (8, 16)
    for step in range(steps):
        names = [*(f"v{step}_{i}" for i in range(operators)), given]
        for i, (shape, grid) in enumerate(zip(shapes, grids, strict=True)):
            whole = tuple(Access.whole([*shapes, size][r], 4) for r in reads[i])
            kernel_name = f"k{i}_{size[1]}"
            write = (tiled(shape, grid),)
            kernels[kernel_name] = Kernel(kernel_name, grid, whole, write, 1000.0)
            last = (step, i) == (steps - 1, operators - 1)
            kind, index = ("output", 0) if last else ("temp", -1)
            values.append(Value(names[i], write[0].bytes, kind, index=index))
            sources = tuple(names[r] for r in reads[i])
            found.append(Operator(f"o{step}_{i}", (kernel_name,), sources, (names[i],)))
        given, size = names[operators - 1], shapes[-1]
    return Graph(tuple(found), tuple(values), tuple(kernels.values()))


def hand_made(graph, *queues, takers=None):
    """A program from short forms: (operator, first, count) runs, ("+", e), ("-", e, n), "|".

    takers: EUs of a dynamic one.
    """
    layout = plain_layout(graph)

    def step(s):
        if s == "|":
            return Barrier()
        if s[0] == "+":
            return Signal(s[1])
        if s[0] == "-":
            return Wait(s[1], s[2])
        op = graph.operator[s[0]]
        return Run(op.kernels[0], op.name, s[1], s[2], 1, (*op.inputs, *op.outputs))

    return make_program("p", graph, layout, [[step(s) for s in q] for q in queues], takers)


class Wrong(Exception):
    """An execution that goes wrong."""


class NaiveOracle:
    """Runs every interleaving of small programs, task by task, on memory that knows its content.

    What the oracle of the mutants is held against: without its reduction. A task is two steps, so
    that tasks of different EUs overlap in time; tasks that then touch a common byte, one of them
    writing, are an error, and so are a read of anything but the bytes that the producer wrote and
    a state in which nothing can go on. The queues of a dynamic program count as EUs that begin once
    one of so many EUs is free for them, for any number of these.
    """

    def __init__(self, programs: Sequence[Program], graph: Graph) -> None:
        self.programs, self.graph = programs, graph
        self.states = 0
        self.touched: dict[tuple, tuple] = {}

    def check(self) -> None:
        memories = {()}
        for program in self.programs:
            queues = len(program.queues)
            following: set[tuple] = set()
            for self.eus in range(queues, 0 if program.dynamic else queues - 1, -1):
                for memory in memories:
                    following |= self._explore(program, dict(memory))
            memories = following

    def _explore(self, program: Program, memory: dict) -> set[tuple]:
        nowhere = (0,) * len(program.queues)
        start = (nowhere, nowhere, (), tuple(sorted(memory.items())))
        seen, stack, ends = {start}, [start], set()
        while stack:
            state = stack.pop()
            self.states += 1
            if self.states > 4000:
                raise TimeoutError
            following = self._successors(program, state)
            if not following:
                if any(a < len(q) for a, q in zip(state[0], program.queues, strict=True)):
                    raise Wrong("deadlock")
                ends.add(state[3])
            for new in following:
                if new not in seen:
                    seen.add(new)
                    stack.append(new)
        return ends

    def _successors(self, program: Program, state: tuple) -> list[tuple]:
        at, phase, events, memory = state
        found = []
        blocked = []
        busy = 0
        for eu, queue in enumerate(program.queues):
            if busy == self.eus:
                break  # nobody is left to take it
            if at[eu] >= len(queue):
                continue
            busy += 1
            step = queue[at[eu]]
            on = (*at[:eu], at[eu] + 1, *at[eu + 1 :])
            if isinstance(step, Signal):
                found.append((on, phase, tuple(sorted((*events, step.event))), memory))
            elif isinstance(step, Wait):
                if events.count(step.event) >= step.count:
                    found.append((on, phase, events, memory))
            elif isinstance(step, Barrier):
                if program.dynamic:
                    raise Wrong("a barrier")
                blocked.append(eu)
            else:
                found.append(self._run(program, state, eu, step))
        if blocked and len(blocked) == len(program.queues):
            found.append((tuple(a + 1 for a in at), phase, events, memory))
        return found

    def _run(self, program: Program, state: tuple, eu: int, run: Run) -> tuple:
        at, phase, events, memory = state
        task, ending = divmod(phase[eu], 2)
        reads, writes = self._bytes(program, run, run.first + task * run.stride)
        if not ending:
            self._begin(program, state, eu, run, reads, writes)
            phase = (*phase[:eu], phase[eu] + 1, *phase[eu + 1 :])
            return at, phase, events, memory
        content = dict(memory)
        content.update(writes)
        done = task + 1 == run.count
        phase = (*phase[:eu], 0 if done else phase[eu] + 1, *phase[eu + 1 :])
        at = (*at[:eu], at[eu] + 1, *at[eu + 1 :]) if done else at
        return at, phase, events, tuple(sorted(content.items()))

    def _begin(self, program, state, eu, run, reads, writes) -> None:
        at, phase, _, memory = state
        content = dict(memory)
        for place, token in reads.items():
            if place[0][0] not in ("input", "constant") and content.get(place) != token:
                raise Wrong(f"{run} reads {content.get(place)} instead of {token}")
        for other, queue in enumerate(program.queues):
            if other != eu and at[other] < len(queue) and phase[other] % 2:
                step = queue[at[other]]
                theirs = self._bytes(program, step, step.first + phase[other] // 2 * step.stride)
                mine = writes.keys() & (theirs[0].keys() | theirs[1].keys())
                if mine or reads.keys() & theirs[1].keys():
                    raise Wrong(f"{run} and {step} at the same time")

    def _bytes(self, program: Program, run: Run, task: int) -> tuple[dict, dict]:
        key = (program.name, run.operator, run.buffers, task)
        if key not in self.touched:
            op, k = self.graph.operator[run.operator], self.graph.kernel[run.kernel]
            operands = list(
                zip((*op.inputs, *op.outputs), (*k.reads, *k.writes), run.buffers, strict=True)
            )
            parts: list[dict] = []
            for name, access, buffer_name in operands:
                buffer = program.buffer[buffer_name]
                root, offset = self.graph.root(name)
                boxes = range_boxes(k.grid, access, np.array([task]), np.array([1]))[1]
                parts.append({})
                for low, high in byte_ranges(access, boxes).tolist():
                    for b in range(low, high):
                        parts[-1][(buffer.space, buffer.offset + b)] = (root, offset + b)
            self._check_in_place(k, parts)
            places = [
                p
                for part in parts[: len(k.reads)]
                for p in part.items()
                if p[0][0][0] != "constant"
            ]
            if len({p for p, _ in set(places)}) < len(set(places)):
                raise Wrong("two values are read at one place")
            cut = len(k.reads)
            self.touched[key] = tuple(
                {p: t for part in side for p, t in part.items()}
                for side in (parts[:cut], parts[cut:])
            )
        return self.touched[key]

    def _check_in_place(self, k: Kernel, parts: list[dict]) -> None:
        for i, read in enumerate(parts[: len(k.reads)]):
            for j, write in enumerate(parts[len(k.reads) :]):
                if read.keys() & write.keys():
                    same = k.reads[i] == k.writes[j] and list(read) == list(write)
                    if not same or (i, j) not in k.in_place:
                        raise Wrong("a task reads what it overwrites")


def refused(program, graph, rule, *words):
    """The validator refuses a program by this rule, with these words."""
    with pytest.raises(ScheduleError) as error:
        validate([program], graph)
    assert error.value.rule == rule, error.value
    for word in words:
        assert word in str(error.value), (word, str(error.value))


def idle_by_reason(line):
    """ns of EUs without work, summed up by what was waited for; events count as "wait"."""
    found = {}
    for gap in line.gaps:
        reason = gap.reason if gap.reason in NO_EVENTS else "wait"
        found[reason] = found.get(reason, 0.0) + gap.end - gap.start
    return found
