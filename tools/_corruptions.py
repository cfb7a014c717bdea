"""What a checker of certificates is given of a small program, and ways to spoil it."""

from __future__ import annotations

import random
import zlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from rcompiler.checker import Facts, Launch
from rcompiler.proof import describe
from rcompiler.rammer.certificate import certificate
from rcompiler.rammer.encode import encode
from rcompiler.rammer.graph import Graph
from rcompiler.rammer.program import (
    Barrier,
    Buffer,
    Instruction,
    Program,
    Run,
    Signal,
    Wait,
)
from rcompiler.runtime import tables

Change = Callable[[random.Random, Facts], Facts | None]


def facts_of(
    programs: Sequence[Program], graph: Graph, noted: Sequence[Program] | None = None
) -> Facts:
    """All that a file with these programs says to the checker. Raises ScheduleError.

    noted: programs whose operators and operands the notes name, if not those of these.
    """
    kernels = [*graph.kernels]
    numbers = {kernel.name: n for n, kernel in enumerate(kernels)}
    sizes = {kind: _sizes(graph, kind) for kind in ("input", "output")}
    witness = certificate(programs)
    notes = describe(programs, kernels, witness.lines)
    operators = describe(noted or programs, kernels, witness.lines)["programs"]
    launches = [
        Launch(
            program.name,
            encode(program, numbers, len(sizes["input"])),
            [[s.operator for s in q if isinstance(s, Run)] for q in program.queues],
            program.eus if program.dynamic else 0,
            names["operands"],
            data.get("lines", ()),
        )
        for program, data, names in zip(programs, notes["programs"], operators, strict=True)
    ]
    return Facts(
        boxes=notes["kernels"],
        names=[*numbers],
        sizes=[(k.tasks, k.operand_bytes, len(k.writes), k.pinned) for k in kernels],
        buffers=notes["buffers"],
        launches=launches,
        arena=max(p.arena for p in programs),
        constants=max(p.constants for p in programs),
        inputs=sizes["input"],
        outputs=sizes["output"],
        pinned=0,
        clocks=witness.clocks,
    )


def _sizes(graph: Graph, kind: str) -> list[int]:
    found = {v.index: v.bytes for v in graph.values if v.kind == kind}
    return [found.get(i, 0) for i in range(max(found, default=-1) + 1)]


def programs_of(facts: Facts) -> tuple[Program, ...]:
    """What the words of facts do, for the oracle: read by the runtime's reader of streams.

    Raises what that reader and `Program` raise.
    """
    buffers = [Buffer(b[0], b[1], b[2], b[3], b[4], b[5], b[6]) for b in facts.buffers]
    found = []
    for launch in facts.launches:
        queues = []
        for stream, operators in zip(launch.streams, launch.operators, strict=True):
            names, queue = iter(operators), list[Instruction]()
            for _, opcode, operands in tables.instructions(stream):
                if opcode == tables.RUN:
                    kernel, first, count, stride = operands[:4]
                    name = next(names)
                    own = tuple(buffers[b].name for b in launch.operands[name])
                    queue.append(Run(facts.names[kernel], name, first, count, stride, own))
                elif opcode == tables.WAIT:
                    queue.append(Wait(str(operands[0]), operands[1]))
                elif opcode == tables.SIGNAL:
                    queue.append(Signal(str(operands[0])))
                elif opcode == tables.BARRIER:
                    queue.append(Barrier())
            queues.append(tuple(queue))
        eus, dynamic = launch.taken_by or len(queues), launch.taken_by > 0
        memory = facts.arena, facts.constants
        found.append(Program(launch.name, eus, tuple(buffers), tuple(queues), *memory, dynamic))
    return tuple(found)


# -- streams ------------------------------------------------------------------------------------
def _word(rng: random.Random, facts: Facts) -> Facts | None:
    """A word of a stream: an offset, a threshold, an event, a task, a kernel, anything."""
    number = rng.randrange(len(facts.launches))
    launch = facts.launches[number]
    streams = [stream.copy() for stream in launch.streams]
    for _ in range(rng.choice((1, 1, 1, 2))):
        stream = rng.choice(streams)
        at = rng.randrange(len(stream))
        near = (1, -1, 1, -1, 2, 64, -64, rng.choice(stream.tolist()) - stream[at])
        stream[at] += rng.choice(near)
    return _with(facts, number, streams=streams)


def _field(code: int, place: int) -> Change:
    """One operand of one instruction of a kind, by a little."""

    def change(rng: random.Random, facts: Facts) -> Facts | None:
        number = rng.randrange(len(facts.launches))
        streams = [stream.copy() for stream in facts.launches[number].streams]
        places = [(s, p) for s, stream in enumerate(streams)
                  for p, c, _ in tables.instructions(stream) if c == code]  # fmt: skip
        if not places:
            return None
        which, at = rng.choice(places)
        streams[which][at + place] += rng.choice((-1, 1, -1, 1, -2, 2))
        return _with(facts, number, streams=streams)

    return change


def _with(facts: Facts, number: int, **changes: Any) -> Facts:
    launches = [*facts.launches]
    launches[number] = replace(launches[number], **changes)
    return replace(facts, launches=launches)


def _offset(rng: random.Random, facts: Facts) -> Facts | None:
    """A value, and what views it, at other bytes; or a buffer in the notes or the runs alone.

    (A view alone in both would be another model, of which nobody can say that it is not meant.)
    """
    temps = [n for n, b in enumerate(facts.buffers) if b[1] == "temp"]
    where = rng.choice(("both", "both", "both", "notes", "streams"))
    some = [n for n in temps if where != "both" or facts.buffers[n][5] is None]
    if not some:
        return None
    which, other = rng.choice(some), facts.buffers[rng.choice(temps)]
    low = facts.buffers[which][2]
    by = rng.choice((other[2], other[2], other[2] + other[3] // 2, low + 1, low - 1)) - low
    moved = [n for n in temps if n == which or (where == "both" and _root(facts, n) == which)]
    buffers = [
        [*b[:2], b[2] + by, *b[3:]] if n in moved else b for n, b in enumerate(facts.buffers)
    ]
    facts = replace(facts, arena=max(facts.arena, *(buffers[n][2] + buffers[n][3] for n in moved)))
    if where != "streams":
        facts = replace(facts, buffers=buffers)
    return facts if where == "notes" else _shifted(facts, moved, by)


def _root(facts: Facts, number: int) -> int:
    names = {b[0]: n for n, b in enumerate(facts.buffers)}
    while (parent := facts.buffers[number][5]) is not None:
        number = names[parent]
    return number


def _shifted(facts: Facts, buffers: Sequence[int], by: int) -> Facts | None:
    """All runs on some buffers use bytes so much further."""
    for number, launch in enumerate(facts.launches):
        streams = [stream.copy() for stream in launch.streams]
        for stream, names in zip(streams, launch.operators, strict=True):
            runs = [p for p, c, _ in tables.instructions(stream) if c == tables.RUN]
            if len(runs) != len(set(runs)):
                return None  # in a loop
            for at, name in zip(runs, names, strict=True):
                for k, b in enumerate(launch.operands[name]):
                    stream[at + 7 + 2 * k] += by if b in buffers else 0
        facts = _with(facts, number, streams=streams)
    return facts


# -- notes --------------------------------------------------------------------------------------
def _buffer(rng: random.Random, facts: Facts) -> Facts | None:
    """A field of the note of a buffer."""
    buffers = [[*b] for b in facts.buffers]
    one, two = rng.choice(buffers), rng.choice(buffers)
    field = rng.choice((1, 2, 3, 4, 5, 5))
    one[field] = rng.choice((two[field], two[0] if field == 5 else two[field]))
    if field in (2, 3) and rng.random() < 0.5:
        one[field] += rng.choice((-1, 1, 8))
    return replace(facts, buffers=buffers)


def _names(rng: random.Random, facts: Facts) -> Facts | None:
    """The operator of a run, or the buffer of an operand, is another one."""
    number = rng.randrange(len(facts.launches))
    launch = facts.launches[number]
    if rng.random() < 0.5 and launch.operands:
        operands = {name: [*own] for name, own in launch.operands.items()}
        own = rng.choice([*operands.values()])
        if not own:
            return None
        own[rng.randrange(len(own))] = rng.randrange(len(facts.buffers))
        return _with(facts, number, operands=operands)
    operators = [[*names] for names in launch.operators]
    names = rng.choice(operators)
    if not names:
        return None
    names[rng.randrange(len(names))] = rng.choice([*launch.operands])
    return _with(facts, number, operators=operators)


# -- the certificate ----------------------------------------------------------------------------
def _table(facts: Facts) -> np.ndarray:
    """(segments, 1 + lines) turns and clocks."""
    raw = np.frombuffer(zlib.decompress(facts.clocks), "<i4")
    lines = _lines(facts)
    return np.cumsum(raw.reshape(lines + 1, -1), axis=1).T


def _lines(facts: Facts) -> int:
    own = (max([*x.lines, -1]) + 1 if x.taken_by else len(x.streams) for x in facts.launches)
    return max(own, default=0)


def _certified(facts: Facts, table: np.ndarray) -> Facts:
    steps = np.diff(table.T.astype("<i4"), axis=1, prepend=np.int32(0)).astype("<i4")
    return replace(facts, clocks=zlib.compress(steps.tobytes()))


def _clock(rng: random.Random, facts: Facts) -> Facts | None:
    """Some entries of the certificate claim more, or less; or a turn is another one."""
    table = _table(facts)
    if not table.size:
        return None
    for _ in range(rng.choice((1, 1, 2, 4))):
        row, column = rng.randrange(len(table)), rng.randrange(table.shape[1])
        table[row, column] += rng.choice((1, 1, 2, 5, 100, -1))
    return _certified(facts, table)


def _forged(rng: random.Random, facts: Facts) -> Facts | None:
    """All clocks claim everything: what proves races away if it is believed."""
    table = _table(facts)
    table[:, 1:] = rng.choice((1 << 20, table[:, 1:].max(initial=0)))
    return _certified(facts, table)


def _rows(rng: random.Random, facts: Facts) -> Facts | None:
    """Two rows of the certificate are exchanged, or one stands for another."""
    table = _table(facts)
    if len(table) < 2:
        return None
    one, two = rng.sample(range(len(table)), 2)
    table[one] = table[two]
    return _certified(facts, table)


def _other_lines(rng: random.Random, facts: Facts) -> Facts | None:
    """Queues of a dynamic program stand in other lines."""
    numbers = [n for n, launch in enumerate(facts.launches) if len(launch.lines) > 1]
    if not numbers:
        return None
    number = rng.choice(numbers)
    lines = [*facts.launches[number].lines]
    lines[rng.randrange(len(lines))] = rng.choice(lines)
    return _with(facts, number, lines=lines)


CORRUPTIONS: dict[str, Change] = {
    "word": _word,
    "threshold": _field(tables.WAIT, 2),
    "awaited-event": _field(tables.WAIT, 1),
    "signalled-event": _field(tables.SIGNAL, 1),
    "first-task": _field(tables.RUN, 2),
    "task-count": _field(tables.RUN, 3),
    "operand-offset": _field(tables.RUN, 7),
    "offset": _offset,
    "buffer-note": _buffer,
    "names": _names,
    "clock": _clock,
    "forged-clocks": _forged,
    "rows": _rows,
    "lines": _other_lines,
}
