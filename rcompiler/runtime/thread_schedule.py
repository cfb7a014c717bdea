"""From the programs of a model to the streams that its threads walk.

All launches of a model run in one foreign call: the programs are put behind each other, separated
by a barrier. A model compiled for more EUs than this process has CPUs keeps its results: several
EUs are folded onto one thread, in an order that some execution of the original could have had.

The queues of a dynamic program lie behind the streams of the threads, all in one block of words,
with a table of where each begins. A TAKE in every stream runs the next of them until none is left.
Its counter is one more event, that each queue and, when none is left, each thread counts up.
"""

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from rcompiler.errors import ArtifactError
from rcompiler.runtime import tables
from rcompiler.runtime.control import LINE
from rcompiler.runtime.loops import Item, Line, Loop, lines, parse
from rcompiler.runtime.program import Program


@dataclass(frozen=True)
class Stream:
    """The stream of a thread, or a queue.

    Attributes:
        start: its first word in the block of all words.
        stream: its words there.
        operators: the operator of its i-th RUN.
        event: of a queue the counter of those that are taken, else -1.
        queue: number of the queue in its program.
    """

    start: int
    stream: np.ndarray
    operators: Sequence[str]
    event: int = -1
    queue: int = -1


@dataclass
class ThreadSchedule:
    """What `runtime.threads` runs.

    Attributes:
        words: of all streams and queues.
        threads: their streams.
        queues: of all dynamic programs.
        events: "program: event" by event number.
        totals: signals per launch, by event number.
        operands: most operands of any RUN, at least 1.
    """

    words: np.ndarray
    threads: list[Stream]
    queues: list[Stream]
    events: list[str]
    totals: list[int]
    operands: int

    @property
    def streams(self) -> list[np.ndarray]:
        """One per thread."""
        return [piece.stream for piece in self.threads]

    def find(self, thread: int, position: int) -> tuple[Stream, int]:
        """What stands at a position, counted from the start of a thread's stream, and the position
        in it."""
        word = self.threads[thread].start + position
        number = bisect_right(self.queues, word, key=lambda queue: queue.start)
        piece = self.queues[number - 1] if number else self.threads[thread]
        return piece, word - piece.start


@dataclass
class _Thread:
    """What a thread does, and the operator of each RUN that it executes."""

    items: list[Item] = field(default_factory=list)
    operators: list[str] = field(default_factory=list)

    def stream(self) -> np.ndarray:
        """int64[words]."""
        stream = tables.Stream()
        stream.items(self.items)
        return stream.end()


@dataclass(frozen=True)
class _Taken:
    """A dynamic program: its queues and the event that counts those that are taken."""

    queues: list[_Thread]
    event: int


@dataclass(frozen=True)
class _Step:
    eu: int | None  # None: a barrier, which all threads meet
    line: Line
    operator: str = ""


_BARRIER = Line(0, tables.BARRIER, ())


def combine(programs: Sequence[Program], threads: int) -> ThreadSchedule:
    """Programs in order, as `threads` streams.

    Programs must have passed `check_program`. A program with fewer EUs leaves threads idle; one
    thread alone needs no synchronisation, so it gets none. Loops stay loops, unless EUs are folded.

    Raises:
        ArtifactError: EUs have to be folded and the program cannot run in any order (deadlock).
    """
    result = [_Thread() for _ in range(threads)]
    taken: list[_Taken] = []
    events: list[str] = []
    totals: list[int] = []
    for number, program in enumerate(programs):
        first = len(events)
        events += [f"{program.name}: {event}" for event in program.events]
        totals += program.signals() if threads > 1 else [0] * len(program.events)
        if program.taken_by and threads > 1:
            queues = [
                _Thread(_renumbered(parse(stream)[:-1], first), list(names))
                for stream, names in zip(program.streams, program.operators, strict=True)
            ]
            take = Line(0, tables.TAKE, (len(events), len(queues), 0))
            parts = [_Thread([take]) for _ in range(threads)]
            taken.append(_Taken(queues, len(events)))
            events.append(f"{program.name}: queues taken")
            totals.append(len(queues) + threads)
        else:
            parts = [
                _Thread(_renumbered(part.items, first), part.operators)
                for part in _parts(program, threads)
            ]
        for home, part in zip(result, parts, strict=True):
            if number and threads > 1:
                home.items.append(_BARRIER)
            home.items += part.items
            home.operators += part.operators
    everything = [*result, *(queue for one in taken for queue in one.queues)]
    runs = [line for t in everything for line in lines(t.items) if line.opcode == tables.RUN]
    operands = max((line.operands[4] for line in runs), default=1)
    return ThreadSchedule(*_placed(result, taken), events, totals, max(1, operands))


def _placed(
    threads: Sequence[_Thread], taken: Sequence[_Taken]
) -> tuple[np.ndarray, list[Stream], list[Stream]]:
    """One block of words, and where the threads and the queues are in it."""
    streams = [thread.stream() for thread in threads]
    queued = [[queue.stream() for queue in one.queues] for one in taken]
    # Whole cache lines for each thread: it counts the iterations of its loops in its stream.
    parts = [np.append(stream, np.zeros(-len(stream) % LINE, np.int64)) for stream in streams]
    for queues in queued:
        starts = np.cumsum([len(queues), *map(len, queues)])
        parts += [starts[:-1].astype(np.int64), *queues]
    words = np.concatenate(parts)
    starts_at = iter(np.cumsum([0, *map(len, parts)]).tolist())

    def piece(stream: np.ndarray, names: Sequence[str], event: int = -1, queue: int = -1) -> Stream:
        start = next(starts_at)
        return Stream(start, words[start : start + len(stream)], names, event, queue)

    own = [piece(stream, thread.operators) for stream, thread in zip(streams, threads, strict=True)]
    behind: list[Stream] = []
    for one, queues in zip(taken, queued, strict=True):
        _aim(own, one.event, next(starts_at))
        pairs = zip(queues, one.queues, strict=True)
        behind += [piece(q, t.operators, one.event, i) for i, (q, t) in enumerate(pairs)]
    return words, own, behind


def _aim(threads: Sequence[Stream], event: int, table: int) -> None:
    """Let the TAKE of each thread that counts with this event find the table of its queues."""
    for piece in threads:
        for line in lines(parse(piece.stream)):
            if line.opcode == tables.TAKE and line.operands[0] == event:
                piece.stream[line.position + 3] = table - piece.start


def _parts(program: Program, threads: int) -> list[_Thread]:
    """What each thread does of a program, events numbered as in the program."""
    eus = len(program.streams)
    if threads == 1 or eus > threads:
        order = _order(program)  # finds deadlocks
        if eus > 1:
            return _folded(order, threads)
    queues = [parse(stream)[:-1] for stream in program.streams]
    if threads == 1:
        queues = [_runs(queue) for queue in queues]
    found = [_Thread(q, list(names)) for q, names in zip(queues, program.operators, strict=True)]
    meetings = sum(line.times for line in lines(queues[0]) if line.opcode == tables.BARRIER)
    return found + [_Thread([_BARRIER] * meetings) for _ in range(threads - eus)]


def _folded(order: Sequence[_Step], threads: int) -> list[_Thread]:
    """The steps in this order, EU e on thread e modulo `threads`."""
    result = [_Thread() for _ in range(threads)]
    for step in order:
        if threads == 1 and step.line.opcode != tables.RUN:
            continue
        for home in result if step.eu is None else [result[step.eu % threads]]:
            home.items.append(step.line)
            if step.line.opcode == tables.RUN:
                home.operators.append(step.operator)
    return result


def _runs(items: Iterable[Item]) -> list[Item]:
    """The RUNs alone, in their loops."""
    kept: list[Item] = []
    for item in items:
        if isinstance(item, Line):
            kept += [item] * (item.opcode == tables.RUN)
        elif body := _runs(item.body):
            kept.append(replace(item, body=tuple(body)))
    return kept


def _renumbered(items: Iterable[Item], first_event: int) -> list[Item]:
    """The same with `first_event` added to the number of each event."""
    if not first_event:
        return list(items)
    found: list[Item] = []
    for item in items:
        if isinstance(item, Loop):
            found.append(replace(item, body=tuple(_renumbered(item.body, first_event))))
        elif item.opcode in (tables.WAIT, tables.SIGNAL):
            event, *rest = item.operands
            found.append(item._replace(operands=(event + first_event, *rest)))
        else:
            found.append(item)
    return found


def _order(program: Program) -> list[_Step]:
    """The instructions in one possible order: EU by EU as far as each can go, round after round."""
    queues = [_steps(program, eu) for eu in range(len(program.streams))]
    at = [0] * len(queues)
    signalled = [0] * len(program.events)
    order: list[_Step] = []

    def may_go(line: Line) -> bool:
        if line.opcode == tables.WAIT:
            return signalled[line.operands[0]] >= line.operands[1]
        return line.opcode != tables.BARRIER

    while any(done < len(queue) for done, queue in zip(at, queues, strict=True)):
        before = len(order)
        for eu, queue in enumerate(queues):
            while at[eu] < len(queue) and may_go(queue[at[eu]].line):
                step = queue[at[eu]]
                if step.line.opcode == tables.SIGNAL:
                    signalled[step.line.operands[0]] += 1
                order.append(step)
                at[eu] += 1
        heads = [queue[done] for done, queue in zip(at, queues, strict=True) if done < len(queue)]
        if len(heads) == len(queues) and all(s.line.opcode == tables.BARRIER for s in heads):
            order.append(_Step(None, _BARRIER))
            at = [done + 1 for done in at]
        elif heads and len(order) == before:
            raise _deadlock(program, heads)
    return order


def _steps(program: Program, eu: int) -> list[_Step]:
    names = iter(program.operators[eu])
    return [
        _Step(eu, Line(position, opcode, operands), next(names) if opcode == tables.RUN else "")
        for position, opcode, operands in tables.instructions(program.streams[eu])
        if opcode != tables.END
    ]


def _deadlock(program: Program, heads: Sequence[_Step]) -> ArtifactError:
    waits = ", ".join(
        f"EU {step.eu} for "
        + (
            f"signal {step.line.operands[1]} of '{program.events[step.line.operands[0]]}'"
            if step.line.opcode == tables.WAIT
            else "a barrier"
        )
        for step in heads[:8]
    )
    return ArtifactError(
        f"program '{program.name}': its EUs wait for each other for ever: {waits}; "
        "compile the model again"
    )
