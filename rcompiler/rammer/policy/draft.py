"""A program in the making, operator by operator, each where it ends first; waits follow from that.

A *share* is the contiguous range of an operator's rTasks that one EU runs. Waits are kept as "share
needs share"; which events carry them is decided when the program is written down (`emit`).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from rcompiler.device.model import Costs
from rcompiler.rammer.cost import Floats, Ints, balanced, earliest_finish, task_ns
from rcompiler.rammer.graph import Graph, Operator
from rcompiler.rammer.kernel import Kernel
from rcompiler.rammer.layout import Layout, make_program
from rcompiler.rammer.overlap import Bools
from rcompiler.rammer.policy.dependences import Dependences
from rcompiler.rammer.policy.events import Events
from rcompiler.rammer.program import Instruction, Program, Run, Signal


@dataclass(frozen=True)
class Needs:
    """Waits of a consumer for one producer.

    shares: (n, m) which producer shares each consumer share must wait for; full: (n,) whether
    waiting for all shares of the producer asks for nothing more than is known anyway.
    """

    producer: str
    shares: Bools
    full: Bools


@dataclass(frozen=True)
class Shares:
    """Where an operator runs: n shares, in task order.

    number: operators that were added to the draft before. eu, first, count: (n,); line: (n,) column
    of the clocks that counts it, in a static program its EU; place: (n,) the number of the share in
    its line; finish: (n,) ns; clock: (n, lines) shares of each line that are over when the share
    is, itself included.
    """

    number: int
    kernel: Kernel
    eu: Ints
    first: Ints
    count: Ints
    line: Ints
    place: Ints
    finish: Floats
    clock: NDArray[np.int32]
    needs: tuple[Needs, ...]


@dataclass
class Draft:
    """State of a program that grows operator by operator.

    free: (eus,) when each EU is done; known: (eus, eus) how many runs of EU f are certainly over
    when EU e goes on; length: (eus,) runs so far. dynamic: whether the shares are to be taken.
    """

    dynamic: ClassVar[bool] = False
    graph: Graph
    costs: Costs
    links: Dependences
    free: Floats
    known: NDArray[np.int32]
    length: Ints
    shares: dict[str, Shares] = field(default_factory=dict)
    _readers: dict[str, list[str]] = field(default_factory=dict)  # of weights, so far

    @classmethod
    def empty(cls, graph: Graph, eus: int, costs: Costs, links: Dependences) -> "Draft":
        """No operators yet, on idle EUs."""
        known = np.zeros((eus, eus), np.int32)
        return cls(graph, costs, links, np.zeros(eus), known, np.zeros(eus, np.int64))

    @property
    def makespan(self) -> float:
        """When the last EU is done, ns after the launch."""
        return float(self.free.max())

    def mark(self) -> tuple:
        """A state to come back to."""
        return self.free.copy(), self.known.copy(), self.length.copy(), len(self.shares)

    def rewind(self, mark: tuple) -> None:
        """Take back all operators added since the mark."""
        self.free, self.known, self.length = mark[0], mark[1], mark[2]
        while len(self.shares) > mark[3]:
            self.shares.popitem()

    def add(self, op: Operator, kernel: Kernel) -> None:
        """Append all rTasks of an operator, each to the EU that finishes it first.

        Beyond the paper: tiles of constants stay with the EU that read them last and may still have
        them in its own memory, like the weights of a recurrent network in the step before, where
        that makes the operator end no more than a hand-off later.
        """
        if not kernel.tasks:
            return
        producers = [p for p in self.graph.predecessors[op.name] if p in self.shares]
        tried = [self._counts(kernel, producers)]
        best = self._try(op, kernel, tried[0], producers)
        for counts in (balanced(kernel, tried[0]), *self._alternatives(kernel, producers)):
            if any(np.array_equal(counts, t) for t in tried):
                continue
            tried.append(counts)
            other = self._try(op, kernel, counts, producers)
            if other.end < best.end * (1 - 1e-9) or (
                other.end <= best.end * (1 + 1e-9) and other.waits < best.waits
            ):
                best = other
        resident = self._resident(op, kernel)
        if resident is not None and not np.array_equal(resident, best.counts(len(self.free))):
            other = self._try(op, kernel, resident, producers)
            if other.end <= best.end + self.costs.hand_off_ns:
                best = other
        self._commit(op, best)

    def _counts(self, kernel: Kernel, producers: list[str]) -> Ints:
        """Earliest finish of equal rTasks, if every share needs all of every producer."""
        eus = len(self.free)
        start = self.free
        if producers:
            done = np.zeros(eus)
            for name in producers:
                shares = self.shares[name]
                done[shares.eu] = np.maximum(done[shares.eu], shares.finish)
            late = int(np.argmax(done))
            elsewhere = np.full(eus, done[late])
            elsewhere[late] = np.delete(done, late).max(initial=0.0)
            elsewhere[elsewhere > 0] += self.costs.hand_off_ns
            start = np.maximum(start, np.maximum(done, elsewhere))
        return earliest_finish(kernel.tasks, task_ns(kernel), start + self.costs.task_ns)

    def _alternatives(self, kernel: Kernel, producers: list[str]) -> list[Ints]:
        """Splits like those of the producers: an EU goes on with what it made itself."""
        if len(self.free) == 1 or kernel.tasks == 1:
            return []
        found: list[Ints] = []
        for name in producers[-2:]:
            shares = self.shares[name]
            ends = np.cumsum(shares.count) * kernel.tasks // shares.kernel.tasks
            counts = np.zeros(len(self.free), np.int64)
            counts[shares.eu] = np.diff(ends, prepend=0)
            found.append(counts)
        return found

    def _resident(self, op: Operator, kernel: Kernel) -> Ints | None:
        """The split of the operator before that read the same weights in the same tiles."""
        if len(self.free) == 1:
            return None
        readers = self._readers.get(self._weights(op), [])
        while readers and readers[-1] not in self.shares:
            readers.pop()  # taken back
        if not readers or self.shares[readers[-1]].kernel is not kernel:
            return None
        shares = self.shares[readers[-1]]
        counts = np.zeros(len(self.free), np.int64)
        counts[shares.eu] = shares.count
        return counts

    def _weights(self, op: Operator) -> str:
        """The largest constant that an operator reads, "" for none.

        Others say nothing of the EU: the zeros that both directions of a layer begin with.
        """
        values = [self.graph.value[self.graph.root(name)[0]] for name in op.inputs]
        constants = [value for value in values if value.kind == "constant"]
        largest = max(constants, key=lambda value: value.bytes, default=None)
        return "" if largest is None else largest.key or largest.name

    def _try(self, op: Operator, kernel: Kernel, counts: Ints, producers: list[str]) -> "_Trial":
        eu = np.flatnonzero(counts)
        count = counts[eu]
        first = np.cumsum(count) - count
        ready = self.free[eu]
        waits = 0
        needs = []
        for name in producers:
            source = self.shares[name]
            split = (source.kernel, source.first, source.count)
            need = self.links.needs(name, split, op.name, (kernel, first, count))
            other = eu[:, None] != source.eu[None, :]
            arrives = np.where(need, source.finish + self.costs.hand_off_ns * other, 0.0)
            ready = np.maximum(ready, arrives.max(axis=1, initial=0.0))
            waits += int((need & other).sum())
            needs.append((name, need))
        size = (
            count
            if kernel.progress is None
            else np.diff(kernel.progress[np.append(first, kernel.tasks)])
        )
        finish = ready + self.costs.task_ns + size * task_ns(kernel)
        return _Trial(kernel, eu, first, count, finish, needs, waits)

    def _commit(self, op: Operator, trial: "_Trial") -> None:
        eu = trial.eu
        known = self.known[eu]
        rows = np.arange(len(eu))
        known[rows, eu] = self.length[eu]
        kept = unsettled(self.shares, trial.needs, known)
        self.known[eu] = known
        clock = known
        place = self.length[eu]
        clock[rows, eu] = place + 1
        self.free[eu] = trial.finish
        self.length[eu] += 1
        if weights := self._weights(op):
            self._readers.setdefault(weights, []).append(op.name)
        self.shares[op.name] = Shares(
            number=len(self.shares),
            kernel=trial.kernel,
            eu=eu,
            first=trial.first,
            count=trial.count,
            line=eu,
            place=place,
            finish=trial.finish,
            clock=clock,
            needs=tuple(kept),
        )


def unsettled(
    placed: Mapping[str, Shares],
    needs: Sequence[tuple[str, Bools]],
    known: NDArray[np.int32],
) -> list[Needs]:
    """What shares must wait for, of all that they need: nothing that follows from the rest.

    needs: producers, and which of their shares. known: (n, lines) what is over anyway; what is,
    once all waits are passed, is added.
    """
    kept = []
    # What a share learns from one that was added earlier, it never learns the other way round, and
    # of shares added together none knows the other: so each need meets all that may settle it.
    for name, need in sorted(needs, key=lambda need: -placed[need[0]].number):
        source = placed[name]
        done = known[:, source.line] > source.place[None, :]
        wait = need & ~done
        if not wait.any():
            continue  # ordered already, through others
        kept.append(Needs(name, wait, np.asarray((wait | done).all(axis=1))))
        learnt = known[:, : source.clock.shape[1]]  # lines that came later are not in its clock
        np.maximum(learnt, _joined(wait, source.clock), out=learnt)
    return kept


Time = Callable[[Draft], float]


def estimated(draft: Draft) -> float:
    """ns of one launch of a draft, by the prices of the device."""
    return draft.costs.launch_ns + draft.makespan


@dataclass(frozen=True)
class _Trial:
    """A possible placement of an operator."""

    kernel: Kernel
    eu: Ints
    first: Ints
    count: Ints
    finish: Floats
    needs: list[tuple[str, Bools]]
    waits: int

    @property
    def end(self) -> float:
        return float(self.finish.max())

    def counts(self, eus: int) -> Ints:
        """(eus,) rTasks of each EU."""
        counts = np.zeros(eus, np.int64)
        counts[self.eu] = self.count
        return counts


def _joined(wait: Bools, clock: NDArray[np.int32]) -> NDArray[np.int32]:
    """(n, eus): what each consumer share learns from the producer shares it waits for."""
    if wait.all():
        return np.broadcast_to(clock.max(axis=0), (len(wait), clock.shape[1]))
    result = np.zeros((len(wait), clock.shape[1]), np.int32)
    row, column = np.nonzero(wait)
    if len(row):
        starts = np.flatnonzero(np.r_[True, row[1:] != row[:-1]])
        result[row[starts]] = np.maximum.reduceat(clock[column], starts, axis=0)
    return result


def emit(draft: Draft, name: str, layout: Layout) -> Program:
    """The program of a draft, its values at the bytes of `layout`."""
    events = Events({name: len(shares.eu) for name, shares in draft.shares.items()})
    queues: list[list[Instruction]]
    steps: list[tuple[int, list[Instruction], Run, list[Signal]]] = []
    for op_name, shares in draft.shares.items():
        op = draft.graph.operator[op_name]
        buffers = (*op.inputs, *op.outputs)
        ranges = zip(shares.eu.tolist(), shares.first.tolist(), shares.count.tolist(), strict=True)
        for row, (eu, first, count) in enumerate(ranges):
            waits: list[Instruction] = []
            for need in shares.needs:
                waits += events.waits(need.producer, need.shares[row], full=bool(need.full[row]))
            run = Run(shares.kernel.name, op_name, first, count, 1, buffers)
            steps.append((eu, waits, run, events.signals[op_name][row]))
    if draft.dynamic:
        queues = [[*waits, run, *signals] for _, waits, run, signals in steps]
        return make_program(name, draft.graph, layout, queues, takers=len(draft.free))
    queues = [[] for _ in draft.length]
    for eu, waits, run, signals in steps:
        queues[eu].extend(waits)
        queues[eu].append(run)
        queues[eu].extend(signals)
    return make_program(name, draft.graph, layout, queues)
