"""Where control can go in a function of PTX, and what it meets on the way."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from rcompiler.emulator.ptx.syntax import Function, Instruction, Label

_ENDS = frozenset(("ret", "exit", "trap"))
Test = Callable[[Instruction], bool]


class Flow:
    """Instructions by their number; `None` among those before: the function begins there."""

    def __init__(self, function: Function) -> None:
        self.instructions = function.instructions
        self._targets = function.targets
        count = len(self.instructions)
        self.after = [[n for n in self._next(at) if n < count] for at in range(count)]
        self.before: list[list[int | None]] = [[] for _ in range(count)]
        self.before[0].append(None)
        for at, targets in enumerate(self.after):
            for target in targets:
                self.before[target].append(at)

    def _next(self, at: int) -> list[int]:
        op = self.instructions[at]
        if op.name in ("bra", "brx"):
            label = op.operands[-1]
            assert isinstance(label, Label)
            found = [label.target] if op.name == "bra" else list(self._targets[label.name])
            return [*found, at + 1] if op.guard else found
        return [at + 1] if op.guard or op.name not in _ENDS else []

    def where(self, test: Test) -> list[int]:
        """The instructions that pass the test."""
        return [at for at, op in enumerate(self.instructions) if test(op)]

    def reached(self, start: int, end: Test) -> set[int]:
        """What may run behind `start` before an instruction that passes `end`."""
        return {at for at in self._walk(self.after, start, end) if at is not None}

    def leading_to(self, start: int, end: Test) -> set[int | None]:
        """What may have run in front of `start` since an instruction that passes `end`."""
        return self._walk(self.before, start, end)

    def _walk(self, edges: list[list], start: int, end: Test) -> set[int | None]:
        seen: set[int | None] = set()
        pending: list[Iterable[int | None]] = [edges[start]]
        while pending:
            for at in pending.pop():
                if at in seen or (at is not None and end(self.instructions[at])):
                    continue
                seen.add(at)
                if at is not None:
                    pending.append(edges[at])
        return seen
