"""Loops in a list of instructions: `roll` finds them.

A network that was unrolled over time repeats the same instructions, step by step, on events and
bytes that move by constant distances. Rolled, such a list is as long as one step of the network:

    run k (x + 0), wait e0, run k (x + 64), wait e1, run k (x + 128), wait e2
    3 times: run k (x + 64 * i), wait (e0 + i)

What a line means is the caller's: it has a fixed part, and numbers that may move.
"""

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from rcompiler.rammer.loop_search import FEWEST, Flat, Loop, search

LOOP_SIZE = 5  # of a loop beside its body, in numbers: what the tables need for one
MAX_DEPTH = 8  # loops inside of each other, no more than `runtime.loops` reads
STEP_SIZE = 2  # of each number of a body that moves


@dataclass(frozen=True, slots=True)
class Line:
    """One instruction: its fixed part, and the numbers that may move, each within 62 bits."""

    fixed: tuple[Any, ...]
    numbers: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Repeat:
    """`body`, `count` times: in iteration i (0, 1, ...) its numbers are moved by i * `steps`.

    steps: one for each number of the body, in order, those of loops inside of it included.
    """

    count: int
    body: tuple["Item", ...]
    steps: tuple[int, ...]


Item = Line | Repeat


def numbers_of(items: Iterable[Item]) -> tuple[int, ...]:
    """All numbers of items, in order; of a loop those of its first iteration."""
    found: list[int] = []
    for item in items:
        found += item.numbers if isinstance(item, Line) else numbers_of(item.body)
    return tuple(found)


def places(items: Iterable[Item]) -> list[tuple[int, tuple[int, ...]]]:
    """Of each line that items stand for, in order: its number among the lines that are written
    down, and the iteration of each loop around it, outermost first.
    """
    found: list[tuple[int, tuple[int, ...]]] = []
    written = 0
    for item in items:
        if isinstance(item, Line):
            found.append((written, ()))
            written += 1
            continue
        inside = places(item.body)
        for i in range(item.count):
            found += [(written + number, (i, *index)) for number, index in inside]
        written += 1 + max(number for number, _ in inside)
    return found


def roll(lines: Sequence[Line], fewest: int = FEWEST, shortest: int = 1) -> tuple[Item, ...]:
    """Lines with their loops found, smallest total size: items that stand for exactly the lines.

    fewest: iterations of a loop, three or more: any two lie on a line; shortest: items of a body.
    Deterministic.
    """
    entries = [_Entry(line) for line in lines]
    return tuple(entry.item for entry in _roll(entries, fewest, shortest))


def size_of(items: Iterable[Item]) -> int:
    """Numbers it takes to write items down, fixed parts included."""
    size = 0
    for item in items:
        if isinstance(item, Line):
            size += len(item.fixed) + len(item.numbers)
        else:
            moving = sum(step != 0 for step in item.steps)
            size += LOOP_SIZE + STEP_SIZE * moving + size_of(item.body)
    return size


@dataclass(frozen=True, slots=True)
class _Entry:
    """An item on its way: how its numbers move in each of the loops around it, outermost first.

    A loop inside of another is only one if these moves are the same in all of its iterations.
    """

    item: Item
    moves: tuple[tuple[int, ...], ...] = ()


def _roll(entries: list[_Entry], fewest: int, shortest: int) -> list[_Entry]:
    """Entries with loops found, in loops and around them, until there is none left."""
    while True:
        kinds: dict[Hashable, int] = {}
        kind = [kinds.setdefault((_shape(e.item), e.moves), len(kinds)) for e in entries]
        flat = Flat(
            kind, [numbers_of([e.item]) for e in entries], [size_of([e.item]) for e in entries]
        )
        loops = search(flat, LOOP_SIZE, STEP_SIZE, fewest, shortest)
        rolled: list[_Entry] = []
        at = 0
        for loop in loops:
            first = entries[loop.start : loop.start + loop.period]
            found = _repeat(first, loop, fewest, shortest)
            if len(found.moves) + _depth(found.item) <= MAX_DEPTH:
                rolled += [*entries[at : loop.start], found]
                at = loop.start + loop.count * loop.period
        if not rolled:
            return entries
        entries = rolled + entries[at:]


def _repeat(first: list[_Entry], loop: Loop, fewest: int, shortest: int) -> _Entry:
    """The loop whose first iteration is given."""
    inside = []
    at = 0
    for entry in first:
        end = at + len(numbers_of([entry.item]))
        inside.append(_Entry(entry.item, (*entry.moves, loop.steps[at:end])))
        at = end
    body = _roll(inside, fewest, shortest)
    *around, steps = (sum(level, ()) for level in zip(*(e.moves for e in body), strict=True))
    return _Entry(Repeat(loop.count, tuple(e.item for e in body), steps), tuple(around))


def _depth(item: Item) -> int:
    """Loops inside of each other."""
    return 1 + max(map(_depth, item.body)) if isinstance(item, Repeat) else 0


def _shape(item: Item) -> Hashable:
    """What must be equal in all iterations of a loop around it."""
    if isinstance(item, Line):
        return item.fixed, len(item.numbers)
    return item.count, tuple(map(_shape, item.body)), item.steps
