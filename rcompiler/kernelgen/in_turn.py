"""Straight-line code of several independent parts as one, a line of each in turn."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeVar

from rcompiler.kernelgen.emitter import Emitter

_T = TypeVar("_T")

# Steps, one after the other, below which a core meets the next part in time anyway.
_LONG = 10

_NAME = re.compile(r"%[\w#]+")
_VALUE = re.compile(r"(%\w+) = .*[^{]")  # of no region


def abreast(e: Emitter, parts: Sequence[Callable[[], _T]]) -> list[_T]:
    """What `parts` return, their lines in turn: the processor, which looks only so far ahead, then
    meets the next step of every part before the one after that of the first.

    Parts that do more than compute values are written one after the other.
    """
    if len(parts) == 1:
        return [parts[0]()]
    start, results, texts = len(e.lines), [], []
    for part in parts:
        results.append(part())
        texts.append(e.lines[start:])
        del e.lines[start:]
    e.lines.extend(in_turn(texts))
    return results


def in_turn(parts: Sequence[Sequence[str]]) -> list[str]:
    """The lines of `parts`, each part in its own order, one line of every part before the next.

    A line that uses a value of another part waits for it. The parts stay one after the other where
    some line is not a plain definition of a value (a loop, a store), and where they are short.
    """
    one_by_one = [line for lines in parts for line in lines]
    if max(map(len, parts), default=0) < _LONG or not all(map(_VALUE.fullmatch, one_by_one)):
        return one_by_one
    read = [[_Line.of(line) for line in lines] for lines in parts]
    if not any(_steps(lines) >= _LONG for lines in read):
        return one_by_one
    missing = {line.value for lines in read for line in lines}
    pending = [deque(lines) for lines in read]
    merged: list[str] = []
    while len(merged) < len(one_by_one):
        for lines in pending:
            if lines and missing.isdisjoint(lines[0].operands):
                line = lines.popleft()
                merged.append(line.text)
                missing.discard(line.value)
    return merged


class _Line(NamedTuple):
    """The definition of a value: its text, the value, and what it is made of."""

    text: str
    value: str
    operands: list[str]

    @staticmethod
    def of(text: str) -> _Line:
        value, _, made = text.partition(" = ")
        return _Line(text, value, _NAME.findall(made))


def _steps(lines: Sequence[_Line]) -> int:
    """Lines that wait for each other: the longest chain of them."""
    longest: dict[str, int] = {}
    for line in lines:
        before = [longest.get(name, 0) for name in line.operands]
        longest[line.value] = 1 + max(before, default=0)
    return max(longest.values(), default=0)
