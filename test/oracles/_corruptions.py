"""What a checker of certificates is given of a small program, and ways to spoil it."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from rcompiler.checker import Facts
from rcompiler.driver.artifact_notes import describe
from rcompiler.driver.certified import CheckedLaunch, boxes, flat, resolved, unpacked
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
Operand = tuple[int, int, int]


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
    inputs = len(sizes["input"])
    names, operators = resolved(
        {**notes, "programs": describe(noted or programs, kernels, witness.lines)["programs"]},
        inputs,
    )
    launches = [
        CheckedLaunch(
            encode(program, numbers, inputs),
            [[names[s.operator] for s in q if isinstance(s, Run)] for q in program.queues],
            data.get("lines", range(len(program.queues))),
            program.dynamic,
        )
        for program, data in zip(programs, notes["programs"], strict=True)
    ]
    return Facts(
        boxes=boxes(notes),
        sizes=[(k.tasks, k.operand_bytes, len(k.writes), k.pinned) for k in kernels],
        **operators,
        **flat(launches),
        arena=max(p.arena for p in programs),
        constants=max(p.constants for p in programs),
        inputs=sizes["input"],
        outputs=sizes["output"],
        pinned=0,
        clocks=unpacked(witness.clocks, [launch.lines for launch in launches]),
    )


def launches_of(facts: Facts) -> list[CheckedLaunch]:
    """The launches of facts; raises ArtifactError for words that are no streams."""
    end, launch, line = facts.streams.T
    streams = np.split(facts.words, end[:-1])
    runs = [sum(code == tables.RUN for _, code, _ in tables.instructions(s)) for s in streams]
    names = [own.tolist() for own in np.split(facts.runs, np.cumsum(runs)[:-1])]
    found = []
    for number, dynamic in enumerate(facts.dynamic.tolist()):
        own = np.flatnonzero(launch == number).tolist()
        each = [streams[n] for n in own], [names[n] for n in own], line[own].tolist()
        found.append(CheckedLaunch(*each, dynamic))
    return found


def with_launch(facts: Facts, number: int, **changes: Any) -> Facts:
    """Facts of which one launch is another."""
    launches = launches_of(facts)
    launches[number] = replace(launches[number], **changes)
    return replace(facts, **flat(launches))


def operands_of(facts: Facts) -> list[list[Operand]]:
    """(value, base, offset) of each operand of each operator."""
    rows = [(value, base, offset) for value, base, offset in facts.operands.tolist()]
    ends = np.cumsum(facts.uses).tolist()
    return [rows[end - size : end] for end, size in zip(ends, facts.uses.tolist(), strict=True)]


def with_operands(facts: Facts, operands: Sequence[Sequence[Operand]]) -> Facts:
    """Facts of which the operators are on other operands, in the notes."""
    rows = np.array([row for own in operands for row in own], np.int64).reshape(-1, 3)
    return replace(facts, operands=rows, uses=np.array([*map(len, operands)], np.int64))


def _sizes(graph: Graph, kind: str) -> list[int]:
    found = {v.index: v.bytes for v in graph.values if v.kind == kind}
    return [found.get(i, 0) for i in range(max(found, default=-1) + 1)]


def programs_of(facts: Facts, graph: Graph) -> tuple[Program, ...]:
    """What the words of facts do, for the oracle: read by the runtime's reader of streams.

    Raises what that reader and `Program` raise.
    """
    found = []
    for launch in launches_of(facts):
        buffers: dict[tuple[int, int, int], Buffer] = {}
        queues = []
        for stream, operators in zip(launch.streams, launch.operators, strict=True):
            names, queue = iter(operators), list[Instruction]()
            for _, opcode, operands in tables.instructions(stream):
                if opcode == tables.RUN:
                    kernel = graph.kernels[operands[0]]
                    places = zip(operands[5::2], operands[6::2], strict=True)
                    sizes = zip(places, kernel.operand_bytes, strict=True)
                    own = [_buffer(facts, buffers, *place, size) for place, size in sizes]
                    name = facts.names[next(names)]
                    first, count, stride = operands[1:4]
                    queue.append(Run(kernel.name, name, first, count, stride, tuple(own)))
                elif opcode == tables.WAIT:
                    queue.append(Wait(str(operands[0]), operands[1]))
                elif opcode == tables.SIGNAL:
                    queue.append(Signal(str(operands[0])))
                elif opcode == tables.BARRIER:
                    queue.append(Barrier())
            queues.append(tuple(queue))
        memory = facts.arena, facts.constants
        found.append(
            Program(
                "p", len(queues), tuple(buffers.values()), tuple(queues), *memory, launch.dynamic
            )
        )
    return tuple(found)


def _buffer(
    facts: Facts, known: dict[tuple[int, int, int], Buffer], base: int, offset: int, size: int
) -> str:
    """The buffer of so many bytes at a place. Raises IndexError for one outside of its memory."""
    inputs = len(facts.inputs)
    memories = [facts.arena, facts.constants, *facts.inputs, *facts.outputs]
    if not 0 <= base < len(memories) or not 0 <= offset <= memories[base] - size:
        raise IndexError(f"{size} bytes from byte {offset} of memory {base} on")
    if base < tables.EXTERNAL:
        kind, index = ("temp", "constant")[base], -1
    elif base < tables.EXTERNAL + inputs:
        kind, index = "input", base - tables.EXTERNAL
    else:
        kind, index = "output", base - tables.EXTERNAL - inputs
    name = f"{base}+{offset}:{size}"
    return known.setdefault((base, offset, size), Buffer(name, kind, offset, size, index)).name


# -- streams ------------------------------------------------------------------------------------
def _word(rng: random.Random, facts: Facts) -> Facts | None:
    """A word of a stream: an offset, a threshold, an event, a task, a kernel, anything."""
    number = rng.randrange(len(facts.dynamic))
    launch = launches_of(facts)[number]
    streams = [stream.copy() for stream in launch.streams]
    for _ in range(rng.choice((1, 1, 1, 2))):
        stream = rng.choice(streams)
        at = rng.randrange(len(stream))
        near = (1, -1, 1, -1, 2, 64, -64, rng.choice(stream.tolist()) - stream[at])
        stream[at] += rng.choice(near)
    return with_launch(facts, number, streams=streams)


def _field(code: int, place: int) -> Change:
    """One operand of one instruction of a kind, by a little."""

    def change(rng: random.Random, facts: Facts) -> Facts | None:
        number = rng.randrange(len(facts.dynamic))
        streams = [stream.copy() for stream in launches_of(facts)[number].streams]
        places = [(s, p) for s, stream in enumerate(streams)
                  for p, c, _ in tables.instructions(stream) if c == code]  # fmt: skip
        if not places:
            return None
        which, at = rng.choice(places)
        streams[which][at + place] += rng.choice((-1, 1, -1, 1, -2, 2))
        return with_launch(facts, number, streams=streams)

    return change


def _offset(rng: random.Random, facts: Facts) -> Facts | None:
    """A value, and what views it, at other bytes, in the notes or the runs or both.

    (A view alone in both would be another model, of which nobody can say that it is not meant.)
    """
    temps = [o for own in operands_of(facts) for o in own if o[1] == tables.ARENA]
    if not temps:
        return None
    where = rng.choice(("both", "both", "both", "notes", "streams"))
    value = rng.choice(temps)[0]
    low = min(o[2] for o in temps if o[0] == value)
    by = rng.choice((rng.choice(temps)[2], rng.choice(temps)[2], low + 32, low + 1, low - 1)) - low
    operands = [[(v, base, at + by * (v == value and base == tables.ARENA)) for v, base, at in own]
                for own in operands_of(facts)]  # fmt: skip
    moved = with_operands(replace(facts, arena=facts.arena + max(by, 0)), operands)
    return moved if where == "notes" else _followed(moved, facts, keep=where == "streams")


def _followed(moved: Facts, facts: Facts, keep: bool) -> Facts | None:
    """All runs are on the operands that the notes name now. keep: the notes are the old ones."""
    operands = operands_of(moved)
    for number, launch in enumerate(launches_of(facts)):
        streams = [stream.copy() for stream in launch.streams]
        for stream, operators in zip(streams, launch.operators, strict=True):
            runs = [p for p, c, _ in tables.instructions(stream) if c == tables.RUN]
            if len(runs) != len(set(runs)):
                return None  # in a loop
            for at, operator in zip(runs, operators, strict=True):
                for k, (_, _, offset) in enumerate(operands[operator]):
                    stream[at + 7 + 2 * k] = offset
        moved = with_launch(moved, number, streams=streams)
    return replace(moved, operands=facts.operands) if keep else moved


# -- notes --------------------------------------------------------------------------------------
def _operand(rng: random.Random, facts: Facts) -> Facts | None:
    """A field of the note of an operand, or all of it, or a value everywhere."""
    operands = [[*own] for own in operands_of(facts)]
    own = rng.choice(operands)
    if not own:
        return None
    which, other = rng.randrange(len(own)), rng.choice([o for each in operands for o in each])
    field = rng.choice((0, 0, 0, 1, 2, 3, 4))
    if field == 3:
        own[which] = other
    elif field == 4:  # two values are one
        one = own[which][0]
        operands = [
            [(one if v == other[0] else v, base, at) for v, base, at in own] for own in operands
        ]
    else:
        changed = [*own[which]]
        changed[field] = other[field] + rng.choice((0, 0, 0, 1, -1, 8))
        own[which] = (changed[0], changed[1], changed[2])
    return with_operands(facts, operands)


def _names(rng: random.Random, facts: Facts) -> Facts | None:
    """The operator of a run is another one."""
    number = rng.randrange(len(facts.dynamic))
    operators = [[*names] for names in launches_of(facts)[number].operators]
    names = rng.choice(operators)
    if not names:
        return None
    names[rng.randrange(len(names))] = rng.randrange(len(facts.uses))
    return with_launch(facts, number, operators=operators)


# -- the certificate ----------------------------------------------------------------------------
def _clock(rng: random.Random, facts: Facts) -> Facts | None:
    """Some entries of the certificate claim more, or less; or a turn is another one."""
    table = facts.clocks.astype(np.int64)
    if not len(table):
        return None
    for _ in range(rng.choice((1, 1, 2, 4))):
        row, column = rng.randrange(len(table)), rng.randrange(table.shape[1])
        table[row, column] += rng.choice((1, 1, 2, 5, 100, -1))
    return replace(facts, clocks=table)


def _forged(rng: random.Random, facts: Facts) -> Facts | None:
    """All clocks claim everything: what proves races away if it is believed."""
    table = facts.clocks.astype(np.int64)
    table[:, 1:] = rng.choice((1 << 20, table[:, 1:].max(initial=0)))
    return replace(facts, clocks=table)


def _rows(rng: random.Random, facts: Facts) -> Facts | None:
    """Two rows of the certificate are exchanged, or one stands for another."""
    table = facts.clocks.astype(np.int64)
    if len(table) < 2:
        return None
    one, two = rng.sample(range(len(table)), 2)
    table[one] = table[two]
    return replace(facts, clocks=table)


def _other_lines(rng: random.Random, facts: Facts) -> Facts | None:
    """Queues of a dynamic program stand in other lines."""
    numbers = [n for n, launch in enumerate(launches_of(facts))
               if launch.dynamic and len(launch.lines) > 1]  # fmt: skip
    if not numbers:
        return None
    number = rng.choice(numbers)
    lines = [*launches_of(facts)[number].lines]
    lines[rng.randrange(len(lines))] = rng.choice(lines)
    return with_launch(facts, number, lines=lines)


CORRUPTIONS: dict[str, Change] = {
    "word": _word,
    "threshold": _field(tables.WAIT, 2),
    "awaited-event": _field(tables.WAIT, 1),
    "signalled-event": _field(tables.SIGNAL, 1),
    "first-task": _field(tables.RUN, 2),
    "task-count": _field(tables.RUN, 3),
    "operand-offset": _field(tables.RUN, 7),
    "offset": _offset,
    "operand-note": _operand,
    "names": _names,
    "clock": _clock,
    "forged-clocks": _forged,
    "rows": _rows,
    "lines": _other_lines,
}
