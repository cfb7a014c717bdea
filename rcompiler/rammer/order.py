"""What happens before what, in every execution of a list of programs.

Vector clocks over EUs. The clock of an instruction says, for each EU, how many instructions of that
EU are over whenever this one starts, in every execution. Instructions are numbered per EU through
all programs: a launch starts when the one before it is over.

Nothing but waits orders the queues of a dynamic program; `lines` says which EUs stand for theirs.

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
from rcompiler.rammer.lines import Lined, in_lines
from rcompiler.rammer.program import Barrier, Instruction, Program, Run, Signal, Wait
from rcompiler.rammer.regions import Ints, counted

NEVER = np.iinfo(np.int32).max  # instructions of an EU before what does not run at all


@dataclass(frozen=True)
class Order:
    """Runs of all programs with their place and clock.

    runs: the Run objects; program, eu, place: (n,) the program, the EU and the number of the
    instruction in that EU's sequence over all programs; turn: (n,) their place in one possible
    execution; row: (n,) row of `clocks` (rows, eus) that holds the run's clock. queue: (n,) of a
    dynamic program the number of the run's queue, whose EU is a line (see `lines`); else -1.
    passed: (4, m) program, EU, place and row of clocks behind it, of each wait and each EU at a
    barrier, in the order of that execution; those that meet have one row. bases: (programs,) row of
    the clocks when a program starts.
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
    queue: Ints
    passed: Ints
    bases: Ints

    def clock(self, which: Ints) -> NDArray[np.int32]:
        """(n, eus): clocks of runs; a run's own EU counts all instructions before it."""
        clocks = self.clocks[self.row[which]]
        clocks[np.arange(len(which)), self.eu[which]] = self.place[which]
        return clocks

    def before(self, first: Ints, second: Ints) -> NDArray[np.bool_]:
        """(n, m): whether run first[i] is over before run second[j] starts, always."""
        clocks = self.clock(second)
        return clocks[:, self.eu[first]].T > self.place[first][:, None]

    def precedes(self, first: Ints, second: Ints) -> NDArray[np.bool_]:
        """(n,): whether run first[i] is over before run second[i] starts, always."""
        eu = self.eu[first]
        clocks = self.clocks[self.row[second], eu]
        return np.where(eu == self.eu[second], self.place[second], clocks) > self.place[first]


@dataclass(slots=True)
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
    """One greedy execution of one program: finds deadlocks and lists the syncs in order.

    syncs: per EU the places of its waits, signals and barriers; what lies between are runs, which
    block nobody. heard: the events that somebody waits for. stretches: (EU, place of the first run,
    number of runs, row of their clock).
    """

    def __init__(self, program: Program, base: Sequence[int], row: int) -> None:
        self.program, self.base, self.rows = program, base, row + 1
        self.syncs, self.heard = _syncs(program)
        self.at = [0] * program.eus
        self.sync = [0] * program.eus  # syncs that are over
        self.row = [row] * program.eus
        self.signals: dict[str, int] = {}
        self.blocked: dict[str, list[int]] = {}
        self.arrived: list[_Sync] = []
        self.trace: list[_Sync] = []
        self.stretches: list[tuple[int, int, int, int]] = []

    def execute(self) -> None:
        ready = list(range(self.program.eus))
        while ready:
            for eu in ready:
                self._advance(eu)
            ready = self._released()
        if any(at < len(q) for at, q in zip(self.at, self.program.queues, strict=True)):
            raise _deadlock(self)

    def _advance(self, eu: int) -> None:
        queue, syncs, base = self.program.queues[eu], self.syncs[eu], self.base[eu]
        while True:
            number = self.sync[eu]
            place = syncs[number] if number < len(syncs) else len(queue)
            if self.at[eu] < place:
                self.stretches.append((eu, self.at[eu], place - self.at[eu], self.row[eu]))
                self.at[eu] = place
            if place == len(queue):
                return
            step: Instruction = queue[place]
            if type(step) is Signal:
                self.signals[step.event] = self.signals.get(step.event, 0) + 1
                if step.event in self.heard:
                    self.trace.append(_Sync(eu, base + place, self.row[eu], step.event))
            elif type(step) is Wait:
                if self.signals.get(step.event, 0) < step.count:
                    self.blocked.setdefault(step.event, []).append(eu)
                    return
                row = self.row[eu]
                self.trace.append(_Sync(eu, base + place, row, step.event, step.count, self.rows))
                self._enter(eu)
            else:
                self.arrived.append(_Sync(eu, base + place, self.row[eu]))
                return
            self._pass(eu)

    def _pass(self, eu: int) -> None:
        self.at[eu] += 1
        self.sync[eu] += 1

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
                self._pass(eu)
            self.rows += 1
            ready = list(range(self.program.eus))
        return sorted(ready)


def _clocks(trace: Sequence[_Sync], totals: dict[str, int], clocks: NDArray[np.int32]) -> None:
    """Fill the rows of `clocks` that the trace opens."""
    partial = {s.event for s in trace if s.after >= 0 and 0 < s.count < totals.get(s.event, 0)}
    # (m, eus) of all signals of such an event: a wait for n takes the n-th smallest of each EU.
    eus = clocks.shape[1]
    parts = {event: np.full((totals[event], eus), NEVER, np.int32) for event in partial}
    while True:
        changed = False
        signals: dict[str, list[_Sync]] = {}
        joined: dict[str, NDArray[np.int32]] = {}
        for sync in trace:
            if sync.after < 0 and not sync.meets:
                before = signals.setdefault(sync.event, [])
                if sync.event in partial:
                    parts[sync.event][len(before)] = clocks[sync.row]
                    parts[sync.event][len(before), sync.eu] = sync.place
                before.append(sync)
                continue
            if sync.meets:
                new = _joined(sync.meets, clocks)
            else:
                new = clocks[sync.row].copy()
                new[sync.eu] = sync.place
                if sync.event in partial and sync.count > 0:
                    common = np.sort(parts[sync.event], axis=0)[sync.count - 1]
                    np.maximum(new, common, out=new)
                elif sync.count > 0:
                    if sync.event not in joined:
                        joined[sync.event] = _joined(signals[sync.event], clocks)
                    np.maximum(new, joined[sync.event], out=new)
            if partial and not np.array_equal(clocks[sync.after], new):
                changed = True
            clocks[sync.after] = new
        if not changed:
            return


def _joined(syncs: Sequence[_Sync], clocks: NDArray[np.int32]) -> NDArray[np.int32]:
    """(eus,): what is over once all of these are."""
    if len(syncs) == 1:
        new = clocks[syncs[0].row].copy()
    else:
        new = clocks[[s.row for s in syncs]].max(axis=0)
    for sync in syncs:
        new[sync.eu] = max(new[sync.eu], sync.place)
    return new


def happens_before(programs: Sequence[Program]) -> Order:
    """Execute the programs once and compute the clocks of all runs.

    Raises ScheduleError (rule "deadlock") that names who waits for whom.
    """
    lined = {i: in_lines(program) for i, program in enumerate(programs) if program.dynamic}
    programs = [lined[i].program if i in lined else p for i, p in enumerate(programs)]
    eus = max((p.eus for p in programs), default=1)
    base = np.zeros(eus, np.int64)
    tables: list[NDArray[np.int32]] = []
    runs: list[Run] = []
    columns: list[Ints] = []  # (5, n): program, EU, place, row, queue
    passed: list[tuple[int, int, int, int]] = []
    bases: list[int] = []
    rows = waits = 0
    for number, program in enumerate(programs):
        execution = _Execution(program, base.tolist(), rows)
        execution.execute()
        table = np.zeros((execution.rows - rows, eus), np.int32)
        table[0] = base
        bases.append(rows)
        for sync in execution.trace:
            for one in sync.meets or (sync,) * (sync.after >= 0):
                passed.append((number, one.eu, one.place, sync.after))
        shifted = [_shifted(sync, rows) for sync in execution.trace]
        _clocks(shifted, execution.signals, table)
        waits += sum(s.after >= 0 for s in execution.trace)
        tables.append(table)
        for eu, start, count, _ in execution.stretches:
            runs += program.queues[eu][start : start + count]  # type: ignore[arg-type]
        columns.append(_columns(number, execution.stretches, base, lined.get(number)))
        rows = execution.rows
        base[: program.eus] += [len(queue) for queue in program.queues]
    placed = np.concatenate(columns, axis=1) if columns else np.zeros((5, 0), np.int64)
    return Order(
        eus,
        tuple(runs),
        placed[0],
        placed[1],
        placed[2],
        np.arange(len(runs)),
        placed[3],
        np.concatenate(tables) if tables else np.zeros((0, eus), np.int32),
        waits,
        placed[4],
        np.array(passed, np.int64).reshape(-1, 4).T,
        np.array(bases, np.int64),
    )


def _columns(
    number: int,
    stretches: Sequence[tuple[int, int, int, int]],
    base: Ints,
    lined: Lined | None,
) -> Ints:
    """(5, n) program, EU, place, row and queue of the runs of stretches."""
    eu, start, count, row = np.array(stretches, np.int64).reshape(-1, 4).T
    place = np.repeat(base[eu] + start, count) + counted(count)
    program = np.full(len(place), number)
    queue = np.full(len(eu), -1) if lined is None else lined.queues(eu, start)
    eu, row, queue = (np.repeat(column, count) for column in (eu, row, queue))
    return np.stack([program, eu, place, row, queue])


def _shifted(sync: _Sync, rows: int) -> _Sync:
    """The same sync with rows counted from the first row of its program."""
    sync.row -= rows
    if sync.after >= 0:
        sync.after -= rows
    for arrival in sync.meets:
        arrival.row -= rows
    return sync


def _syncs(program: Program) -> tuple[list[list[int]], set[str]]:
    """Per EU the places of all that is no run, and the events that are waited for.

    Refuses waits for more signals than there are.
    """
    totals: dict[str, int] = {}
    waits: list[tuple[int, int, Wait]] = []
    syncs = [
        [place for place, step in enumerate(queue) if type(step) is not Run]
        for queue in program.queues
    ]
    for eu, (queue, places) in enumerate(zip(program.queues, syncs, strict=True)):
        for place in places:
            step = queue[place]
            if type(step) is Signal:
                totals[step.event] = totals.get(step.event, 0) + 1
            elif type(step) is Wait:
                waits.append((eu, place, step))
            elif type(step) is not Barrier:
                raise ScheduleError(f"program {program.name}: {step!r} is no instruction", "task")
    for eu, place, wait in waits:
        if wait.count > totals.get(wait.event, 0):
            raise ScheduleError(
                f"program {program.name}: EU {eu} waits at place {place} until event "
                f"{wait.event} was signalled {wait.count} times, but it is signalled only "
                f"{totals.get(wait.event, 0)} times: it would wait for ever",
                "deadlock",
            )
    return syncs, {wait.event for _, _, wait in waits}


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
