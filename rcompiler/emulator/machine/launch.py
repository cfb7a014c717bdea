"""One launch of a kernel."""

from __future__ import annotations

from rcompiler.emulator.checks.proxies import Proxies
from rcompiler.emulator.checks.shadow import Shadow
from rcompiler.emulator.checks.words import Words
from rcompiler.emulator.faults import Coordinates, Site
from rcompiler.emulator.lanes import WARP
from rcompiler.emulator.machine.memory import DeviceMemory
from rcompiler.emulator.numbers.tensor_core import TensorCore
from rcompiler.emulator.settings import Checks, Limits
from rcompiler.emulator.translate.kernel import Kernel

_STEP_NS = 10  # of emulated time that a basic block takes
_FIRST_LEAP_NS, _LONGEST_LEAP_NS = 1000, 1 << 30


def _coordinates(number: int, of: Coordinates) -> Coordinates:
    return number % of[0], number // of[0] % of[1], number // (of[0] * of[1])


class Launch:
    """What all blocks of a launch share.

    unit: threads of a warp, or of a warpgroup where the kernel uses them. threads: of a block,
    rounded up to whole units. shared_bytes: of a block, the static ones included. now: the moment
    of the access at hand. progress: grows whenever something happens that a spinning thread could
    notice. idle: rounds since then in which all only spun. clock: ns. words: what releases left
    there. proxies: which fences threads have made between what accesses memory in other ways.
    """

    def __init__(
        self,
        kernel: Kernel,
        memory: DeviceMemory,
        grid: Coordinates,
        block: Coordinates,
        shared_bytes: int,
        arguments: bytes,
        checks: Checks,
        limits: Limits,
        multiprocessors: int,
        tensor_core: TensorCore,
        clock: int = 0,
    ) -> None:
        self.kernel, self.memory, self.grid, self.block = kernel, memory, grid, block
        self.dynamic_bytes = shared_bytes
        self.shared_bytes = kernel.layout.static_shared + shared_bytes
        self.arguments, self.checks, self.limits = arguments, checks, limits
        self.multiprocessors, self.tensor_core = multiprocessors, tensor_core
        self.alive = block[0] * block[1] * block[2]
        self.unit = max(WARP, *kernel.together)
        self.threads = -(-self.alive // self.unit) * self.unit
        self.blocks = grid[0] * grid[1] * grid[2]
        self.now = self.progress = self.steps = self.idle = 0
        self.clock = clock
        self.words = Words()
        self.proxies = Proxies(self.blocks * self.threads if checks.races else 0)
        self.shadow: Shadow | None = None
        if checks.races:
            self.shadow = Shadow(-(-memory.end // kernel.unit), private=False, bulk=kernel.bulk)

    def tick(self) -> None:
        self.steps += 1
        self.clock += _STEP_NS

    def leap(self) -> None:
        """All threads only spin: let time pass, so that a kernel's own bound runs out."""
        self.clock += min(_FIRST_LEAP_NS << min(self.idle, 30), _LONGEST_LEAP_NS)
        self.idle += 1

    def block_of(self, number: int) -> Coordinates:
        return _coordinates(number, self.grid)

    def site(self, at: int, thread: int) -> Site:
        """Instruction `at` of a thread by its number in the launch."""
        instruction = self.kernel.instructions[at]
        return Site(
            self.block_of(thread // self.threads),
            _coordinates(thread % self.threads, self.block),
            instruction.text,
            instruction.line,
        )
