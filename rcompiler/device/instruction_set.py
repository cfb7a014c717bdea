"""Names of instruction sets of x86-64: a feature level, and features beside it.

    v4+vnni+amx       x86-64-v4 of the psABI, AVX512-VNNI and AMX
    v3+vnni           x86-64-v3 and AVX-VNNI

Features have an order, so that equal sets have equal names.
"""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass

from rcompiler.device.host_flags import BESIDE, CPU_FLAGS, LEVEL_FLAGS, LEVELS
from rcompiler.errors import DeviceError


@dataclass(frozen=True)
class InstructionSet:
    """What code for a CPU may use.

    Attributes:
        level: "x86-64", "v3" or "v4".
        beside: names of features beside it, in the order of `BESIDE`.
    """

    level: str
    beside: tuple[str, ...] = ()

    @staticmethod
    def named(name: str) -> InstructionSet:
        """The set of a name, whose features may come in any order.

        Raises:
            DeviceError: there is no such level, or the level has no such feature.
        """
        level, *beside = name.split("+")
        if level not in LEVELS:
            raise DeviceError(
                f"CPU feature level {level!r} is unknown; it is one of: {', '.join(LEVELS)}"
            )
        known = BESIDE[level]
        for feature in beside:
            if feature not in known:
                there = ", ".join(f"+{each}" for each in known) or "none"
                raise DeviceError(
                    f"CPU feature level {level} has no feature {feature!r} beside it; "
                    f"there are: {there}"
                )
        return InstructionSet(level, tuple(each for each in known if each in beside))

    @staticmethod
    def of(level: str, features: Set[str]) -> InstructionSet:
        """The level, with all features beside it that are among those of LLVM.

        Args:
            level: see the attribute.
            features: LLVM's names of them; others than those beside the level do not count.
        """
        known = BESIDE.get(level, {})
        return InstructionSet(level, tuple(each for each in known if known[each] <= features))

    @property
    def name(self) -> str:
        """As people write it."""
        return "+".join((self.level, *self.beside))

    @property
    def added(self) -> frozenset[str]:
        """What is beside the level, as LLVM spells it."""
        return frozenset[str]().union(*(BESIDE[self.level][each] for each in self.beside))

    @property
    def features(self) -> frozenset[str]:
        """All of it, as LLVM spells it: what a device of it has."""
        return LEVELS.get(self.level, frozenset()) | self.added

    @property
    def flags(self) -> frozenset[str]:
        """What /proc/cpuinfo of a machine must list."""
        return LEVEL_FLAGS[self.level] | {CPU_FLAGS[each] for each in self.added}


def all_names() -> list[str]:
    """Each level, and each with one feature beside it: what messages and help list."""
    return [name for level in LEVELS for name in (level, *(f"{level}+{f}" for f in BESIDE[level]))]
