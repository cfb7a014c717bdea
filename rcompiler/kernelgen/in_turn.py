"""Straight-line code of several independent parts as one, a line of each in turn."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Sequence

_NAME = re.compile(r"%[\w#]+")
_VALUE = re.compile(r"(%\w+) = .*[^{]")  # of no region


def in_turn(parts: Sequence[Sequence[str]]) -> list[str]:
    """The lines of `parts`, each part in its own order, one line of every part before the next.

    A line that uses a value of another part waits for it. Where some line is not a plain definition
    of a value (a loop, a store) the parts stay one after the other.
    """
    one_by_one = [line for lines in parts for line in lines]
    found = [_VALUE.fullmatch(line) for line in one_by_one]
    if not all(found):
        return one_by_one
    missing = {match[1] for match in found if match}
    pending = [deque(lines) for lines in parts]
    merged: list[str] = []
    while len(merged) < len(one_by_one):
        for lines in pending:
            if lines and not missing.intersection(_operands(lines[0])):
                line = lines.popleft()
                merged.append(line)
                missing.discard(line.partition(" ")[0])
    return merged


def _operands(line: str) -> list[str]:
    return _NAME.findall(line.partition(" = ")[2])
