"""Loops of instructions written out again."""

from collections.abc import Iterable, Sequence
from itertools import islice

from rcompiler.rammer.loops import Item, Line, Repeat, numbers_of


def unroll(items: Iterable[Item]) -> list[Line]:
    """The lines that items stand for, in order."""
    lines: list[Line] = []
    for item in items:
        if isinstance(item, Line):
            lines.append(item)
            continue
        first = numbers_of(item.body)
        for i in range(item.count):
            now = [n + i * step for n, step in zip(first, item.steps, strict=True)]
            lines += unroll(_moved(item.body, now))
    return lines


def _moved(items: Iterable[Item], numbers: Sequence[int]) -> list[Item]:
    """The same items with other numbers."""
    left = iter(numbers)

    def moved(item: Item) -> Item:
        if isinstance(item, Line):
            return Line(item.fixed, tuple(islice(left, len(item.numbers))))
        return Repeat(item.count, tuple(map(moved, item.body)), item.steps)

    return [moved(item) for item in items]
