"""Memory spaces as a cohort sees them: where an address of a thread lies, or what is wrong with it.

A place is an offset in the space's bytes, which hold what all threads of the cohort have there.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from rcompiler.emulator.checks.shadow import Race, Shadow
from rcompiler.emulator.faults import EmulationFault
from rcompiler.emulator.lanes import Array
from rcompiler.emulator.machine.threads import Threads
from rcompiler.emulator.translate.layout import GLOBAL


class Space:
    """name: for messages. stride: bytes of each owner; owner: of every lane, its number.

    bytes, written: of all owners, one after another; written: which bytes have a value, None where
    all have. shadow: of its cells of `unit` bytes, None where races are not looked for.
    """

    window = 0

    def __init__(self, name: str, stride: int, owner: Array, initial: bytes | None = None) -> None:
        self.name, self.stride = name, stride
        self.room = -(-stride // 16) * 16
        self.base = owner.astype(np.int64) * self.room
        total = (int(owner.max()) + 1 if len(owner) else 0) * self.room
        self.bytes = np.zeros(total, np.uint8)
        self.written: Array | None = np.zeros(total, np.uint8)
        if initial is not None:
            self.bytes[: len(initial)] = np.frombuffer(initial, np.uint8)
            self.written = None
        self.shadow: Shadow | None = None
        self.unit = 4

    def view(self, width: int) -> Array:
        return self.bytes.view(f"u{width}")

    def place(self, c: Threads, at: int, lanes: Array, addresses: Array, size: int) -> Array:
        """Places of accesses of `size` bytes; raises EmulationFault."""
        outside = addresses + np.uint64(size) > np.uint64(self.stride)
        outside |= addresses > np.uint64(self.stride)
        self.refuse(c, "out-of-bounds", at, outside, lanes, addresses, size)
        self.check_aligned(c, at, lanes, addresses, size)
        return addresses.astype(np.int64) + self.base[lanes]

    def check_aligned(self, c: Threads, at: int, lanes: Array, addresses: Array, size: int) -> None:
        odd = (addresses & np.uint64(size - 1)) != 0
        if odd.any():
            self.refuse(c, "misaligned", at, odd, lanes, addresses + np.uint64(self.window), size)

    def refuse(
        self, c: Threads, kind: str, at: int, wrong: Array, lanes: Array, addresses: Array,
        size: int, why: str = "",
    ) -> None:  # fmt: skip
        """Raise the fault of the first access of `size` bytes that is wrong, if there is one."""
        if wrong.any():
            k = int(np.flatnonzero(wrong)[0])
            address = int(addresses[k])
            raise c.fault(
                kind,
                at,
                int(lanes[k]),
                f"{size} bytes of {self.name} memory{why}",
                address=address,
                allocation=self.describe(c, address),
            )

    def describe(self, c: Threads, address: int) -> str:
        return f"{self.stride} bytes of {self.name} memory"

    def writable(self, c: Threads, at: int, lanes: Array, places: Array) -> None:
        """Raises EmulationFault for stores where nothing may be stored."""

    def check_written(self, c: Threads, at: int, lanes: Array, places: Array, size: int) -> None:
        """Raises EmulationFault if a byte that is read has no value."""
        if self.written is None or not c.launch.checks.uninitialised:
            return
        width = min(size, 8)
        known = self.written.view(f"u{width}")
        ones = np.frombuffer(b"\1" * width, f"u{width}")[0]
        for k in range(0, size, width):
            missing = known[(places + k) // width] != ones
            if missing.any():
                addresses, why = places - self.base[lanes] + self.window, " that nobody wrote"
                self.refuse(c, "uninitialised-read", at, missing, lanes, addresses, size, why)

    def mark_written(self, places: Array, size: int, value: bool = True) -> None:
        """Bytes have a value now; or have none, until an asynchronous copy is done."""
        if self.written is not None:
            width = min(size, 8)
            known = self.written.view(f"u{width}")
            ones = np.frombuffer((b"\1" if value else b"\0") * width, f"u{width}")[0]
            for k in range(0, size, width):
                known[(places + k) // width] = ones

    # -- races

    def cells(self, lanes: Array, places: Array, size: int) -> tuple[Array, Array]:
        """Every cell that the accesses touch, and the lane that touches it."""
        count = max(size // self.unit, 1)
        first = places // self.unit
        if count == 1:
            return lanes, first
        return np.repeat(lanes, count), (first[:, None] + np.arange(count)).ravel()

    def check(
        self, c: Threads, at: int, lanes: Array, places: Array, size: int, verb: str,
        access: Callable[..., Race | None], **how: bool,
    ) -> tuple[Array, Array] | None:  # fmt: skip
        """Look for races of accesses, each by a method of Shadow.

        Returns:
            The cells that are touched, behind the lanes that touch them; None where nobody looks.
        """
        if self.shadow is None:
            return None
        c.launch.now += 1
        of, cells = self.cells(lanes, places, size)
        race = access(self.shadow, c, at, of, cells, **how)
        if race is not None:
            raise self._fault(c, at, of, cells, race, verb)
        return of, cells

    def _fault(
        self, c: Threads, at: int, lanes: Array, cells: Array, race: Race, verb: str
    ) -> EmulationFault:
        """What a race is."""
        lane = int(lanes[race.place])
        address = int(cells[race.place]) * self.unit - int(self.base[lane]) + self.window
        kind = "shared-race" if self.name == "shared" else "global-race"
        detail = f"{verb} of {self.name} memory that nothing orders behind another access"
        if race.read_only:
            kind, detail = "nc-load", f"{verb} of memory that is read by .nc and written"
        elif race.unfenced:
            kind = "missing-proxy-fence"
            detail = (
                f"{verb} of {self.name} memory that was stored to without fence.proxy.async for it"
            )
        elif race.pending:
            kind = "late-async-copy"
            detail = f"{verb} of {self.name} memory that an asynchronous copy is still filling"
        return c.fault(
            kind,
            at,
            lane,
            detail,
            address=address,
            allocation=self.describe(c, address),
            other=c.launch.site(race.at, race.other),
        )


class GlobalSpace(Space):
    """The device's memory, the same for all cohorts of a launch."""

    window = GLOBAL

    def __init__(self, c: Threads) -> None:
        self.name, self.memory = "global", c.launch.memory
        self.base = np.zeros(c.count, np.int64)
        self.shadow, self.unit = c.launch.shadow, c.launch.kernel.unit
        self.bytes, self.written = self.memory.bytes, self.memory.written

    def view(self, width: int) -> Array:
        return self.memory.view(width)

    def place(self, c: Threads, at: int, lanes: Array, addresses: Array, size: int) -> Array:
        offsets = addresses - np.uint64(GLOBAL)
        outside = self.memory.outside(offsets, size)
        self.refuse(c, "out-of-bounds", at, outside, lanes, addresses, size)
        self.check_aligned(c, at, lanes, offsets, size)
        return offsets.astype(np.int64)

    def describe(self, c: Threads, address: int) -> str:
        near = self.memory.near(address)
        if near is None:
            return "before all allocations"
        beyond = address - GLOBAL - near.start
        return f"byte {beyond} of {near}" if beyond < near.size else f"behind {near}"

    def writable(self, c: Threads, at: int, lanes: Array, places: Array) -> None:
        for end in (int(places.min()), int(places.max())):
            near = self.memory.near(GLOBAL + end)
            if near is not None and near.constant:
                k = int(np.flatnonzero(places == end)[0])
                raise c.fault(
                    "read-only-write",
                    at,
                    int(lanes[k]),
                    "a store to constant memory",
                    address=GLOBAL + end,
                    allocation=str(near),
                )
