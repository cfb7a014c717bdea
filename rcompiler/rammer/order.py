"""What happens before what, in every execution of a list of programs.

Vector clocks over EUs. The clock of an instruction says, for each EU, how many instructions of that
EU are over whenever this one starts, in every execution. Instructions are numbered per EU through
all programs: a launch starts when the one before it is over.

A wait for all m signals of an event is ordered after all of them. A wait for n < m is ordered only
after what any n signals have in common: of each EU, the n-th smallest progress that one of the m
signals needs. Counters only grow and never disable anything, so this least fixed point is exact: an
instruction x precedes y in every execution if and only if y cannot be reached with x held back.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rcompiler.errors import ScheduleError
from rcompiler.rammer.program import Barrier, Instruction, Program, Run, Signal, Wait

Ints = NDArray[np.int64]
_NEVER = np.iinfo(np.int32).max


@dataclass(frozen=True)
class Order:
    """Runs of all programs with their place and clock.

    runs: the Run objects; program, eu, place: (n,) the program, the EU and the number of the
    instruction in that EU's sequence over all programs; turn: (n,) their place in one possible
    execution; row: (n,) row of `clocks` (rows, eus) that holds the run's clock.
    """

    eus: int
    runs: tuple[Run, ...]
    program: Ints
    eu: Ints
    place: Ints
    turn: Ints
    row: Ints
    clocks: NDArray[np.int32]
    waits: int

    def clock(self, which: Ints) -> NDArray[np.int32]:
        """(n, eus): clocks of runs; a run's own EU counts all instructions before it."""
        clocks = self.clocks[self.row[which]]
        clocks[np.arange(len(which)), self.eu[which]] = self.place[which]
        return clocks

    def before(self, first: Ints, second: Ints) -> NDArray[np.bool_]:
        """(n, m): whether run first[i] is over before run second[j] starts, always."""
        clocks = self.clock(second)
        return clocks[:, self.eu[first]].T > self.place[first][:, None]

    def ends(self, which: Ints) -> NDArray[np.int32]:
        """(eus,): per EU the number of its instructions up to the last of these runs."""
        ends = np.zeros(self.eus, np.int32)
        np.maximum.at(ends, self.eu[which], self.place[which].astype(np.int32) + 1)
        return ends

    def starts(self, which: Ints) -> NDArray[np.int32]:
        """(eus,): per EU how many instructions are over before any of these runs starts."""
        if not len(which):
            return np.full(self.eus, _NEVER, np.int32)
        return self.clock(which).min(axis=0)


@dataclass
class _Sync:
    """A point of the execution at which clocks meet."""

    eu: int
    place: int
    row: int  # of the instruction itself, before it takes effect
    event: str = ""
    count: int = 0
    after: int = -1  # row of what follows; -1 for a signal
    meets: tuple["_Sync", ...] = ()  # a barrier: all arrivals


class _Execution:
    """One greedy execution of one program: finds deadlocks and lists the syncs in order."""

    def __init__(self, program: Program, base: Ints, row: int, rows: int) -> None:
        self.program, self.base, self.rows = program, base, rows
        self.at = [0] * program.eus
        self.row = [row] * program.eus
        self.signals: dict[str, int] = {}
        self.blocked: dict[str, list[int]] = {}
        self.arrived: list[_Sync] = []
        self.trace: list[_Sync] = []
        self.runs: list[tuple[Run, int, int, int]] = []  # run, EU, place, row

    def execute(self) -> None:
        ready = list(range(self.program.eus))
        while ready:
            for eu in ready:
                self._advance(eu)
            ready = self._released()
        if any(at < len(q) for at, q in zip(self.at, self.program.queues, strict=True)):
            raise _deadlock(self)

    def _advance(self, eu: int) -> None:
        queue = self.program.queues[eu]
        while self.at[eu] < len(queue):
            step: Instruction = queue[self.at[eu]]
            place = int(self.base[eu]) + self.at[eu]
            if type(step) is Run:
                self.runs.append((step, eu, place, self.row[eu]))
            elif type(step) is Signal:
                self.signals[step.event] = self.signals.get(step.event, 0) + 1
                self.trace.append(_Sync(eu, place, self.row[eu], step.event))
            elif type(step) is Wait:
                if self.signals.get(step.event, 0) < step.count:
                    self.blocked.setdefault(step.event, []).append(eu)
                    return
                sync = _Sync(eu, place, self.row[eu], step.event, step.count, self.rows)
                self.trace.append(sync)
                self._enter(eu)
            else:
                self.arrived.append(_Sync(eu, place, self.row[eu]))
                return
            self.at[eu] += 1

    def _enter(self, eu: int) -> None:
        self.row[eu] = self.rows
        self.rows += 1

    def _released(self) -> list[int]:
        ready: list[int] = []
        for event in [e for e in self.blocked if self.signals.get(e, 0)]:
            have = self.signals[event]
            stay: list[int] = []
            for eu in self.blocked[event]:
                step = self.program.queues[eu][self.at[eu]]
                assert isinstance(step, Wait)
                (ready if step.count <= have else stay).append(eu)
            if stay:
                self.blocked[event] = stay
            else:
                del self.blocked[event]
        if not ready and len(self.arrived) == self.program.eus:
            meets = tuple(self.arrived)
            self.arrived = []
            self.trace.append(_Sync(-1, -1, -1, after=self.rows, meets=meets))
            for eu in range(self.program.eus):
                self.row[eu] = self.rows
                self.at[eu] += 1
            self.rows += 1
            ready = list(range(self.program.eus))
        return sorted(ready)


def _clocks(trace: Sequence[_Sync], totals: dict[str, int], clocks: NDArray[np.int32]) -> None:
    """Fill the rows of `clocks` that the trace opens."""
    signals: dict[str, NDArray[np.int32]] = {}  # event -> (m, eus), only where counts are partial
    joined: dict[str, NDArray[np.int32]] = {}
    partial = {s.event for s in trace if s.after >= 0 and 0 < s.count < totals.get(s.event, 0)}
    for event in partial:
        signals[event] = np.full((totals[event], clocks.shape[1]), _NEVER, np.int32)
    while True:
        changed = False
        seen: dict[str, int] = {}
        for sync in trace:
            if sync.meets:
                new = clocks[[s.row for s in sync.meets]].max(axis=0)
                for arrival in sync.meets:
                    new[arrival.eu] = arrival.place
            elif sync.after < 0:
                _signal(sync, clocks, joined, signals, seen)
                continue
            else:
                new = clocks[sync.row].copy()
                new[sync.eu] = sync.place
                if sync.event in signals and sync.count > 0:
                    common = np.sort(signals[sync.event], axis=0)[sync.count - 1]
                    new = np.maximum(new, common)
                elif sync.count > 0:
                    new = np.maximum(new, joined[sync.event])
            if partial and not np.array_equal(clocks[sync.after], new):
                changed = True
            clocks[sync.after] = new
        if not changed:
            return
        joined.clear()


def _signal(
    sync: _Sync,
    clocks: NDArray[np.int32],
    joined: dict[str, NDArray[np.int32]],
    signals: dict[str, NDArray[np.int32]],
    seen: dict[str, int],
) -> None:
    event = sync.event
    if event in signals:
        number = seen.get(event, 0)
        seen[event] = number + 1
        signals[event][number] = clocks[sync.row]
        signals[event][number, sync.eu] = sync.place
        return
    known = joined.get(event)
    if known is None:
        joined[event] = known = clocks[sync.row].copy()
    else:
        np.maximum(known, clocks[sync.row], out=known)
    known[sync.eu] = max(known[sync.eu], sync.place)


def happens_before(programs: Sequence[Program]) -> Order:
    """Execute the programs once and compute the clocks of all runs.

    Raises ScheduleError (rule "deadlock") that names who waits for whom.
    """
    eus = max((p.eus for p in programs), default=1)
    base = np.zeros(eus, np.int64)
    tables: list[NDArray[np.int32]] = []
    found: list[tuple[Run, int, int, int]] = []
    owner: list[int] = []
    rows = waits = 0
    for number, program in enumerate(programs):
        _check_events(program)
        execution = _Execution(program, base, rows, rows + 1)
        execution.execute()
        table = np.zeros((execution.rows - rows, eus), np.int32)
        table[0] = base
        shifted = [_shifted(sync, rows) for sync in execution.trace]
        _clocks(shifted, execution.signals, table)
        waits += sum(s.after >= 0 for s in execution.trace)
        tables.append(table)
        found += execution.runs
        owner += [number] * len(execution.runs)
        rows = execution.rows
        base[: program.eus] += [len(queue) for queue in program.queues]
    columns = np.array([f[1:] for f in found], np.int64).reshape(-1, 3)
    return Order(
        eus,
        tuple(f[0] for f in found),
        np.array(owner, np.int64),
        columns[:, 0],
        columns[:, 1],
        np.arange(len(found)),
        columns[:, 2],
        np.concatenate(tables) if tables else np.zeros((0, eus), np.int32),
        waits,
    )


def _shifted(sync: _Sync, rows: int) -> _Sync:
    """The same sync with rows counted from the first row of its program."""
    sync.row -= rows
    if sync.after >= 0:
        sync.after -= rows
    for arrival in sync.meets:
        arrival.row -= rows
    return sync


def _check_events(program: Program) -> None:
    totals: dict[str, int] = {}
    for queue in program.queues:
        for step in queue:
            if type(step) is Signal:
                totals[step.event] = totals.get(step.event, 0) + 1
            elif type(step) not in (Run, Wait, Barrier):
                raise ScheduleError(f"program {program.name}: {step!r} is no instruction", "task")
    for eu, queue in enumerate(program.queues):
        for place, step in enumerate(queue):
            if type(step) is Wait and step.count > totals.get(step.event, 0):
                raise ScheduleError(
                    f"program {program.name}: EU {eu} waits at place {place} until event "
                    f"{step.event} was signalled {step.count} times, but it is signalled only "
                    f"{totals.get(step.event, 0)} times: it would wait for ever",
                    "deadlock",
                )


def _deadlock(execution: _Execution) -> ScheduleError:
    """Follow who waits for whom until an EU comes up twice."""
    program, at = execution.program, execution.at
    stuck = [eu for eu in range(program.eus) if at[eu] < len(program.queues[eu])]

    def needs(eu: int) -> tuple[int, str]:
        step = program.queues[eu][at[eu]]
        place = f"EU {eu} at place {at[eu]} waits"
        if isinstance(step, Wait):
            have = execution.signals.get(step.event, 0)
            text = f"{place} for event {step.event} ({have} of {step.count} signals)"
            for other in stuck:
                rest = program.queues[other][at[other] :]
                if any(type(s) is Signal and s.event == step.event for s in rest):
                    return other, f"{text}, which EU {other} signals later"
            return -1, text
        for other in range(program.eus):
            if other not in stuck:
                return -1, f"{place} at a barrier that EU {other} has not"
        late = next(o for o in stuck if not isinstance(program.queues[o][at[o]], Barrier))
        return late, f"{place} at a barrier that EU {late} has not reached"

    chain: list[str] = []
    seen: list[int] = []
    eu = stuck[0]
    while eu >= 0 and eu not in seen:
        seen.append(eu)
        eu, text = needs(eu)
        chain.append(text)
    if eu >= 0:
        chain = chain[seen.index(eu) :]
    return ScheduleError(f"program {program.name} deadlocks: " + "; ".join(chain), "deadlock")
