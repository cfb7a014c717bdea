"""The modifiers of an instruction, taken one by one until none is left that nobody knows."""

from __future__ import annotations

from rcompiler.emulator.faults import UnsupportedPtx
from rcompiler.emulator.ptx.syntax import Instruction
from rcompiler.emulator.ptx.types import DTYPES

# Hints to caches: nothing that is computed depends on them.
HINTS = frozenset({
    "L1::no_allocate", "L1::evict_last", "L1::evict_first", "L1::evict_normal",
    "L1::evict_unchanged", "L2::cache_hint", "L2::64B", "L2::128B", "L2::256B", "L2::evict_last",
    "L2::evict_first", "L2::evict_normal", "ca", "cg", "cs", "lu", "cv", "wb", "wt",
})  # fmt: skip


class Form:
    """The modifiers of one instruction."""

    def __init__(self, instruction: Instruction) -> None:
        self.instruction = instruction
        self._left = list(instruction.modifiers)

    def refuse(self, reason: str) -> UnsupportedPtx:
        return self.instruction.refuse(reason)

    def flag(self, *names: str) -> bool:
        """Whether one of the modifiers is there; it is taken."""
        return self.choice(*names) != ""

    def choice(self, *names: str, default: str = "") -> str:
        """Which of the modifiers is there, the first one; it is taken."""
        for name in self._left:
            if name in names:
                self._left.remove(name)
                return name
        return default

    def first(self) -> str:
        """The next modifier, whatever it is."""
        if not self._left:
            raise self.refuse("a modifier is missing")
        return self._left.pop(0)

    def type(self, *allowed: str) -> str:
        """The type, which stands last."""
        if not self._left or (self._left[-1] not in (allowed or (*DTYPES, "pred"))):
            raise self.refuse("unknown or missing type")
        return self._left.pop()

    def hints(self) -> None:
        """Take all hints to caches."""
        self._left = [name for name in self._left if name not in HINTS]

    def skip(self, *names: str) -> None:
        """Take modifiers that change nothing, each once."""
        for name in names:
            self.choice(name)

    def end(self, *operands: int) -> None:
        """Refuse what is left, and another number of operands than these; any without them."""
        if self._left:
            raise self.refuse(f"unknown modifier '.{self._left[0]}'")
        if operands:
            self.operands(*operands)

    def operands(self, *counts: int) -> None:
        """Refuse another number of operands."""
        if len(self.instruction.operands) not in counts:
            raise self.refuse(f"{len(self.instruction.operands)} operands")
