"""Basic blocks: where they begin, which of them spin, which wait for whole warps."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping

from rcompiler.emulator.ptx.syntax import Function, Instruction

_ENDS = frozenset(
    {"bra", "brx", "ret", "exit", "call", "bar", "barrier", "nanosleep", "trap", "brkpt"}
)
_STRONG = frozenset({"acquire", "relaxed", "volatile"})


def threads_together(instruction: Instruction) -> int:
    """How many threads must execute it together: 32 of a warp, 128 of a warpgroup, or 1."""
    if instruction.name == "wgmma":
        return 128
    if instruction.name in ("mma", "ldmatrix", "stmatrix"):
        return 32
    if instruction.name in ("shfl", "vote", "match", "redux", "elect"):
        return 32
    if instruction.name in ("bar", "barrier") and "warp" in instruction.modifiers:
        return 32
    return 1


def ends_block(instruction: Instruction) -> bool:
    """Whether threads do not simply go on behind it."""
    return instruction.name in _ENDS and "warp" not in instruction.modifiers


def _asks(instruction: Instruction) -> bool:
    """Whether it reads what another thread may change: what spinning threads do."""
    modifiers = instruction.modifiers
    if instruction.name == "mbarrier":
        return modifiers[:1] in (("try_wait",), ("test_wait",))
    if instruction.name == "ld":
        return not _STRONG.isdisjoint(modifiers)
    return instruction.name == "atom"


class Flow:
    """The blocks of one function, numbered from `first` through all functions of the kernel.

    number: of the function. starts: of the instructions that begin a block. targets: of brx.
    known: the flows of all functions so far. accumulators: registers that wgmma may be filling.
    """

    def __init__(
        self,
        function: Function,
        number: int,
        first: int,
        known: Mapping[str, Flow],
        accumulators: frozenset[int],
    ) -> None:
        self.function, self.number, self.first = function, number, first
        self.entry, self.targets = function.entry, function.targets
        self.known, self.accumulators = known, accumulators
        self.starts = self._cut()
        last = len(function.instructions)
        self.blocks = [
            function.instructions[start:end]
            for start, end in zip(self.starts, [*self.starts[1:], last], strict=True)
        ]
        self._asking = [any(_asks(i) for i in block) for block in self.blocks]
        self._barrier = [any(ends_block(i) and i.name in ("bar", "barrier") for i in block)
                         for block in self.blocks]  # fmt: skip

    def _cut(self) -> list[int]:
        """Convergent instructions begin blocks, unless one stands before them in theirs."""
        starts, converged = [0], False
        for at, instruction in enumerate(self.function.instructions):
            convergent = threads_together(instruction) > 1
            previous = self.function.instructions[at - 1] if at else None
            if at and (
                at in self.function.starts
                or (previous is not None and ends_block(previous))
                or (convergent and not converged)
            ):
                starts.append(at)
                converged = False
            converged = converged or convergent
        return starts

    @property
    def functions(self) -> dict[str, Function]:
        return {name: flow.function for name, flow in self.known.items()}

    def start_of(self, name: str) -> int:
        return self.known[name].first

    def number_of(self, name: str) -> int:
        return self.known[name].number

    def block_at(self, instruction: int) -> int:
        """Number of the block that begins at an instruction of this function."""
        return self.first + bisect_right(self.starts, instruction) - 1

    def spins(self, first: int, last: int) -> bool:
        """Whether a loop over these blocks asks for what other threads may change."""
        span = slice(first - self.first, last - self.first + 1)
        return any(self._asking[span]) and not any(self._barrier[span])

    def together(self, block: int) -> int:
        """How many threads the block wants together."""
        return max((threads_together(i) for i in self.blocks[block - self.first]), default=1)
