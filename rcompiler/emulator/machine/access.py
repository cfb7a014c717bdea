"""Weak loads and stores of a cohort's threads."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from rcompiler.emulator.checks.shadow import Shadow
from rcompiler.emulator.lanes import Array
from rcompiler.emulator.machine.spaces import GlobalSpace, Space
from rcompiler.emulator.machine.threads import Threads
from rcompiler.emulator.translate.layout import GLOBAL, LOCAL, PARAM, SHARED

_WINDOWS = {GLOBAL: "global", SHARED: "shared", LOCAL: "local", PARAM: "param"}
_BASES = {"shared": SHARED, "local": LOCAL, "param": PARAM}
_SHIFT = np.uint64(44)


class MemoryUnit:
    """spaces: by name. Addresses are of the space that an instruction names, else generic."""

    def __init__(self, c: Threads) -> None:
        self.c = c
        launch, layout = c.launch, c.launch.kernel.layout
        shared = Space("shared", launch.shared_bytes, c.lanes // c.threads)
        shared.unit = launch.kernel.unit
        if launch.checks.races:
            cells = len(shared.bytes) // shared.unit + 1
            shared.shadow = Shadow(cells, private=True, bulk=launch.kernel.bulk)
        everyone = np.zeros(c.count, np.int64)
        self.spaces: dict[str, Space] = {
            "global": GlobalSpace(c),
            "shared": shared,
            "local": Space("local", layout.local_bytes, c.lanes),
            "param": Space("param", layout.argument_bytes, everyone, launch.arguments),
        }
        self.spaces["const"] = self.spaces["global"]

    # -- what generated code calls

    def load(
        self, at: int, space: str, address: Array, mask: Array | None, width: int, count: int,
        order: str, used: tuple[tuple[int, int], ...] | None = None,
    ) -> list[Array]:  # fmt: skip
        """Per element of the vector the bits, of every lane; 0 where the mask is False.

        order: weak or nc. used: (offset, bytes) of what counts of an access, None: all; whatever
        else it reads may be unset, or written by others.
        """
        used = ((0, width * count),) if used is None else used
        lanes, addresses = self.active(address, mask)
        whole = mask is None and space != "generic"
        results = [] if whole else [np.zeros(self.c.count, f"u{width}") for _ in range(count)]
        for memory, part, where in self.split(at, space, lanes, addresses, width * count):
            for offset, size in used:
                self.observe(at, memory, part, where + offset, size, order == "nc")
            view, index = memory.view(width), where // width
            for k in range(count):
                values = view[index + k] if k else view[index]
                if whole:
                    results.append(values)
                else:
                    results[k][part] = values
        return results

    def store(
        self, at: int, space: str, address: Array, mask: Array | None, width: int,
        values: tuple[Array, ...],
    ) -> None:  # fmt: skip
        lanes, addresses = self.active(address, mask)
        size = width * len(values)
        self.c.launch.progress += 1
        for memory, part, where in self.split(at, space, lanes, addresses, size):
            memory.writable(self.c, at, part, where)
            cells = memory.check(self.c, at, part, where, size, "a store", Shadow.write)
            view, index = memory.view(width), where // width
            for k, value in enumerate(values):
                view[index + k] = value[part]
            memory.mark_written(where, size)
            if cells is not None:
                self._check_collisions(at, memory, part, where, width, values, cells)

    def shared_offsets(self, address: Array) -> Array:
        """Addresses of shared memory, its own or generic ones, as its own."""
        return address & np.uint64((1 << 44) - 1)

    def lies_in(self, address: Array, space: str) -> Array:
        window = _BASES.get(space, GLOBAL)
        return (address >> _SHIFT) == np.uint64(window >> 44)

    # -- parts of them

    def active(self, address: Array, mask: Array | None) -> tuple[Array, Array]:
        if mask is None:
            return self.c.lanes, address
        lanes = np.flatnonzero(mask)
        return lanes, address[lanes]

    def split(
        self, at: int, space: str, lanes: Array, addresses: Array, size: int
    ) -> Iterator[tuple[Space, Array, Array]]:
        """The accesses by space: its memory, the lanes and their places in it."""
        if not len(lanes):
            return
        if space != "generic":
            memory = self.spaces[space]
            yield memory, lanes, memory.place(self.c, at, lanes, addresses, size)
            return
        windows = addresses >> _SHIFT
        for window in np.unique(windows) if (windows != windows[0]).any() else windows[:1]:
            chosen = windows == window
            part, inside = lanes[chosen], addresses[chosen]
            name = _WINDOWS.get(int(window) << 44)
            if name is None:
                raise self.c.fault(
                    "out-of-bounds",
                    at,
                    int(part[0]),
                    f"{size} bytes",
                    address=int(inside[0]),
                    allocation="no memory at all",
                )
            memory = self.spaces[name]
            base = np.uint64(_BASES.get(name, 0))
            yield memory, part, memory.place(self.c, at, part, inside - base, size)

    def observe(
        self, at: int, memory: Space, lanes: Array, where: Array, size: int, nc: bool = False
    ) -> None:
        """Checks of a weak load."""
        memory.check(self.c, at, lanes, where, size, "a load", Shadow.read, nc=nc)
        memory.check_written(self.c, at, lanes, where, size)

    def _check_collisions(
        self, at: int, memory: Space, lanes: Array, where: Array, width: int,
        values: tuple[Array, ...], claimed: tuple[Array, Array],
    ) -> None:  # fmt: skip
        """Threads that store different values to one place by one instruction."""
        assert memory.shadow is not None
        of, cells = claimed
        if not memory.shadow.same_instruction(self.c, of, cells).any():
            return
        view, index = memory.view(width), where // width
        for k, value in enumerate(values):
            lost = np.flatnonzero(view[index + k] != value[lanes])
            if len(lost):
                lane = int(lanes[lost[0]])
                address = int(where[lost[0]]) - int(memory.base[lane]) + memory.window
                raise self.c.fault(
                    "shared-race" if memory.name == "shared" else "global-race",
                    at,
                    lane,
                    "two threads store different values by one instruction",
                    address=address,
                    allocation=memory.describe(self.c, address),
                )

    def keys(self, memory: Space, lanes: Array, where: Array) -> Array:
        """Names of words, different for all words of the launch."""
        if memory.name == "global":
            return where
        block = self.c.clocks.block[lanes]
        return -1 - (block * (1 << 32) + where - memory.base[lanes])
