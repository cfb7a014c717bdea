"""Whether small programs are legal, decided by trying every execution.

Shares nothing with the validator but the data of graph and program: no clocks, no intervals. The
definition it checks, for all executions of the launches one after the other:

- each rTask of each operator runs exactly once, all by one of the operator's rKernels;
- each value of the graph has one place of its size, in the memory it belongs in;
- no execution ends with an EU that cannot go on;
- no two tasks that touch a common byte, one of them writing, can be the next of two EUs at the same
  time: those are the pairs that nothing orders;
- a dynamic program has no barriers, and all that holds for any number of EUs that take its queues;
- a task that writes over bytes it reads does so element by element, as its rKernel allows, and
  writes no two results, which have no order, to common bytes;
- each byte a task reads holds the byte of that value, written by all tasks that write it and by
  nothing else since; so do the outputs at the end. What an output lies over is there at the start.

Signals and satisfied waits never disable anything and commute with all else, so they are executed
at once, and so are free EUs that take the next queue: a state is the place in each queue, and the
content of the memory. Who has taken a queue does not matter: it is taken once fewer of those before
it are open than there are EUs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

from oracles.interpret.tasks import box_bytes
from rcompiler.rammer.graph import Graph, Operator
from rcompiler.rammer.program import Barrier, Program, Run, Signal, Wait

MOST_STATES = 50_000
Place = tuple[tuple[str, int], int]  # space, byte
Memory = tuple[int, ...]
State = tuple[tuple[int, ...], Memory]


class Illegal(Exception):
    """An execution that goes wrong, or a program that breaks a rule before it starts."""


class TooLarge(Exception):
    """More states than the oracle is ready to visit."""


@dataclass(frozen=True)
class _Task:
    """One rTask. reads, writes: (cell, content) pairs; touched, written: sets of cells."""

    text: str
    reads: tuple[tuple[int, int], ...]
    writes: tuple[tuple[int, int, int], ...]  # cell, first content, number of writers
    touched: frozenset[int]
    written: frozenset[int]


_Atom = _Task | Signal | Wait | Barrier


class Oracle:
    """Every execution of `programs`. states: how many were visited."""

    def __init__(self, programs: Sequence[Program], graph: Graph) -> None:
        self.programs, self.graph = programs, graph
        self.states = 0
        self._cells: dict[Place, int] = {}
        self._contents: dict[tuple[str, int], tuple[int, int]] = {}
        self._next_content = 1  # 0: nobody has written
        self._tasks: dict[tuple[str, tuple[str, ...], int], _Task] = {}
        self._over = {b.index: b.over for p in programs for b in p.buffers if b.over >= 0}

    def check(self) -> None:
        """Raises Illegal with the reason, or TooLarge."""
        self._check_runs()
        self._check_places()
        self._count_writers()
        lists = [
            [self._atoms(program, queue) for queue in program.queues] for program in self.programs
        ]
        memories: set[Memory] = {tuple(map(self._at_start, self._cells))}
        for program, atoms in zip(self.programs, lists, strict=True):
            # An EU more never keeps anything from happening. So an EU for each queue has all the
            # executions that fewer have, and a deadlock of any number of EUs is one of one EU.
            numbers = sorted({len(atoms), 1 if program.dynamic else len(atoms)}, reverse=True)
            ends: set[Memory] = set()
            for memory in memories:
                for eus in numbers:
                    ends |= self._explore(atoms, eus, memory)
            memories = ends
        for memory in memories:
            self._check_outputs(memory)

    def _at_start(self, place: Place) -> int:
        """Content of a byte of memory before the first launch."""
        (kind, index), _ = place
        known = kind == "input" and index in self._over.values()
        return -1 - self._cells[place] if known else 0

    def _runs(self) -> Iterator[tuple[Program, Run]]:
        for program in self.programs:
            for queue in program.queues:
                yield from ((program, step) for step in queue if isinstance(step, Run))

    def _check_runs(self) -> None:
        ran: dict[str, list[int]] = {op.name: [] for op in self.graph.operators}
        kernels: dict[str, set[str]] = {op.name: set() for op in self.graph.operators}
        for _, run in self._runs():
            if (
                run.operator not in ran
                or run.kernel not in self.graph.operator[run.operator].kernels
            ):
                raise Illegal(f"{run}: unknown operator or rKernel")
            if run.count < 1:
                raise Illegal(f"{run}: an empty range")
            ran[run.operator] += [run.first + i * run.stride for i in range(run.count)]
            kernels[run.operator].add(run.kernel)
        for op in self.graph.operators:
            names = kernels[op.name] or {op.kernels[0]}
            total = self.graph.kernel[min(names)].tasks
            if len(names) > 1 or sorted(ran[op.name]) != list(range(total)):
                raise Illegal(f"operator {op.name} runs {sorted(ran[op.name])} of {total} tasks")

    def _check_places(self) -> None:
        self.place: dict[str, tuple[tuple[str, int], int]] = {}
        for program, run in self._runs():
            op = self.graph.operator[run.operator]
            if len(run.buffers) != len(op.inputs) + len(op.outputs):
                raise Illegal(f"{run}: {len(run.buffers)} buffers")
            for name, buffer_name in zip((*op.inputs, *op.outputs), run.buffers, strict=True):
                buffer = program.buffer.get(buffer_name)
                if buffer is None or buffer.bytes != self.graph.value[name].bytes:
                    raise Illegal(f"{run}: no buffer of the size of {name}")
                root, offset = self.graph.root(name)
                here = (buffer.space, buffer.offset - offset)
                if self.place.setdefault(root, here) != here:
                    raise Illegal(f"{run}: {name} has two places")
                if buffer.space != self._home(root):
                    raise Illegal(f"{run}: {name} is in {buffer.space}")

    def _home(self, root: str) -> tuple[str, int]:
        """Where a value belongs: with the output that it is or that views it, else by its kind."""
        for value in self.graph.values:
            if value.kind == "output" and self.graph.root(value.name)[0] == root:
                over = self._over.get(value.index, -1)
                return ("output", value.index) if over < 0 else ("input", over)
        value = self.graph.value[root]
        return (value.kind, value.index if value.kind == "input" else -1)

    def _count_writers(self) -> None:
        """Contents of each written byte: one number per writer that is through."""
        writers: dict[tuple[str, int], int] = {}
        kernels = {run.operator: self.graph.kernel[run.kernel] for _, run in self._runs()}
        for op in self.graph.operators:
            kernel = kernels[op.name]
            for name, access in zip(op.outputs, kernel.writes, strict=True):
                root, offset = self.graph.root(name)
                for task in range(kernel.tasks):
                    for byte in box_bytes(kernel.grid, access, task)[0].tolist():
                        key = (root, offset + byte)
                        writers[key] = writers.get(key, 0) + 1
        for key, number in writers.items():
            self._contents[key] = (self._next_content, number)
            self._next_content += number

    def _atoms(self, program: Program, queue: Sequence) -> list[_Atom]:
        atoms: list[_Atom] = []
        for step in queue:
            if isinstance(step, Barrier) and program.dynamic:
                raise Illegal("a barrier in a dynamic program")
            if isinstance(step, Run):
                atoms += [self._task(step, step.first + i * step.stride) for i in range(step.count)]
            else:
                atoms.append(step)
        return atoms

    def _task(self, run: Run, number: int) -> _Task:
        key = (run.operator, run.buffers, number)
        if key not in self._tasks:
            self._tasks[key] = self._make(self.graph.operator[run.operator], run, number)
        return self._tasks[key]

    def _make(self, op: Operator, run: Run, number: int) -> _Task:
        kernel = self.graph.kernel[run.kernel]
        reads = [
            self._touch(name, box_bytes(kernel.grid, access, number)[0].tolist())
            for name, access in zip(op.inputs, kernel.reads, strict=True)
        ]
        writes = [
            self._touch(name, box_bytes(kernel.grid, access, number)[0].tolist())
            for name, access in zip(op.outputs, kernel.writes, strict=True)
        ]
        for i, read in enumerate(reads):
            for j, write in enumerate(writes):
                common = {cell for cell, _ in read} & {cell for cell, _ in write}
                same = [r[0] for r, w in zip(read, write, strict=False) if r[0] == w[0]]
                if common and ((i, j) not in kernel.in_place or common != set(same)):
                    raise Illegal(f"operator {op.name}, rTask {number} reads what it overwrites")
        if len({cell for write in writes for cell, _ in write}) < sum(map(len, writes)):
            raise Illegal(f"operator {op.name}, rTask {number} writes two results to one byte")
        contents = []
        for cell, byte in (pair for read in reads for pair in read):
            if self.graph.value[byte[0]].kind in ("input", "constant"):
                if self.graph.value[byte[0]].index in self._over.values():
                    contents.append((cell, -1 - cell))
                continue  # else nobody writes there
            if byte not in self._contents:
                raise Illegal(f"operator {op.name} reads {byte}, which nobody writes")
            first, number_of_writers = self._contents[byte]
            contents.append((cell, first + number_of_writers - 1))
        made = tuple((cell, *self._contents[byte]) for write in writes for cell, byte in write)
        written = frozenset(cell for cell, _, _ in made)
        touched = written | {cell for read in reads for cell, _ in read}
        text = f"operator {op.name}, rTask {number}"
        return _Task(text, tuple(contents), made, touched, written)

    def _touch(self, name: str, offsets: list[int]) -> list[tuple[int, tuple[str, int]]]:
        """(cell, byte of the root value) of each byte of a box."""
        root, offset = self.graph.root(name)
        space, start = self.place[root]
        return [
            (
                self._cells.setdefault((space, start + offset + byte), len(self._cells)),
                (root, offset + byte),
            )
            for byte in offsets
        ]

    def _explore(self, atoms: list[list[_Atom]], eus: int, memory: Memory) -> set[Memory]:
        """All contents of the memory at the end of a launch on so many EUs."""
        counts = _Counts(atoms, eus)
        start = (counts.settle((0,) * len(atoms)), memory)
        seen, stack, ends = {start}, [start], set()
        while stack:
            at, memory = stack.pop()
            self.states += 1
            if self.states > MOST_STATES:
                raise TooLarge
            following = [
                (eu, atom)
                for eu in counts.taken(at)
                if at[eu] < len(atoms[eu]) and isinstance(atom := atoms[eu][at[eu]], _Task)
            ]
            if not following:
                if any(a < len(queue) for a, queue in zip(at, atoms, strict=True)):
                    raise Illegal(f"deadlock at {at}")
                ends.add(memory)
            for (_, one), (_, two) in combinations(following, 2):
                if not (
                    one.written.isdisjoint(two.touched) and two.written.isdisjoint(one.touched)
                ):
                    raise Illegal(f"{one.text} and {two.text} at the same time")
            for eu, task in following:
                on = counts.settle((*at[:eu], at[eu] + 1, *at[eu + 1 :]))
                new = (on, self._execute(task, memory))
                if new not in seen:
                    seen.add(new)
                    stack.append(new)
        return ends

    def _execute(self, task: _Task, memory: Memory) -> Memory:
        for cell, content in task.reads:
            if memory[cell] != content:
                raise Illegal(f"{task.text} reads content {memory[cell]} instead of {content}")
        after = list(memory)
        for cell, first, writers in task.writes:
            goes_on = first <= after[cell] < first + writers - 1
            after[cell] = after[cell] + 1 if goes_on else first
        return tuple(after)

    def _check_outputs(self, memory: Memory) -> None:
        for value in self.graph.values:
            if value.kind != "output":
                continue
            root, offset = self.graph.root(value.name)
            for byte in range(offset, offset + value.bytes):
                if (root, byte) not in self._contents:
                    raise Illegal(f"output {value.name} is not written")
                space, start = self.place[root]
                first, writers = self._contents[root, byte]
                if memory[self._cells[space, start + byte]] != first + writers - 1:
                    raise Illegal(f"output {value.name} does not hold its bytes at the end")


class _Counts:
    """Signals, waits and barriers of one launch: all that follows from the places in the queues.

    eus: how many take them.
    """

    def __init__(self, atoms: list[list[_Atom]], eus: int) -> None:
        self.atoms, self.eus = atoms, eus
        # signals[event][eu][place]: how often that EU signals the event before that place
        self.signals: dict[str, list[list[int]]] = {}
        events = {a.event for queue in atoms for a in queue if isinstance(a, Signal | Wait)}
        for event in events:
            self.signals[event] = []
            for queue in atoms:
                sums = [0]
                for atom in queue:
                    sums.append(sums[-1] + (isinstance(atom, Signal) and atom.event == event))
                self.signals[event].append(sums)

    def settle(self, at: tuple[int, ...]) -> tuple[int, ...]:
        """Execute signals, satisfied waits and complete barriers until there are none."""
        places = list(at)
        moved = True
        while moved:
            moved = False
            for eu in self.taken(places):
                queue = self.atoms[eu]
                while places[eu] < len(queue) and self._passes(queue[places[eu]], places):
                    places[eu] += 1
                    moved = True
            if not moved and all(
                place < len(queue) and isinstance(queue[place], Barrier)
                for place, queue in zip(places, self.atoms, strict=True)
            ):
                places = [place + 1 for place in places]
                moved = True
        return tuple(places)

    def taken(self, at: Sequence[int]) -> list[int]:
        """The queues that somebody has taken, done or not."""
        open_ones = 0
        for number, queue in enumerate(self.atoms):
            if open_ones == self.eus:
                return list(range(number))
            open_ones += at[number] < len(queue)
        return list(range(len(self.atoms)))

    def _passes(self, atom: _Atom, places: list[int]) -> bool:
        if isinstance(atom, Signal):
            return True
        if not isinstance(atom, Wait):
            return False
        sums = self.signals[atom.event]
        return sum(s[place] for s, place in zip(sums, places, strict=True)) >= atom.count
