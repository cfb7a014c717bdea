"""cp.async: copies of a thread from global to shared memory, done as late as the program allows.

Between the issue and the wait of the issuing thread the target holds poison, and whoever looks at
it is reported. The source is read at the wait.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rcompiler.emulator.checks.shadow import Shadow
from rcompiler.emulator.lanes import Array
from rcompiler.emulator.machine.access import MemoryUnit
from rcompiler.emulator.machine.counters import Counters
from rcompiler.emulator.machine.groups import Groups
from rcompiler.emulator.machine.threads import Threads

_POISON = np.uint32(0xFFFFFFFF)


@dataclass
class _Copy:
    """One instruction's copies: by lane their places, the bytes that are no padding, the group."""

    at: int
    mask: Array
    target: Array
    source: Array
    size: int
    filled: Array
    group: Array


class Copies:
    def __init__(self, c: Threads, memory: MemoryUnit, counters: Counters) -> None:
        self.c, self._memory, self._counters = c, memory, counters
        self._groups = Groups(c.count)
        self._pending: list[_Copy] = []

    def issue(
        self, at: int, mask: Array, target: Array, source: Array, size: int, filled: Array | None
    ) -> None:
        c = self.c
        lanes = np.flatnonzero(mask)
        if not len(lanes):
            return
        shared, globe = self._memory.spaces["shared"], self._memory.spaces["global"]
        copy = _Copy(
            at,
            mask.copy(),
            np.zeros(c.count, np.int64),
            np.zeros(c.count, np.int64),
            size,
            np.full(c.count, size, np.uint32) if filled is None else filled,
            self._groups.current.copy(),
        )
        into = self._memory.shared_offsets(target[lanes])
        copy.target[lanes] = shared.place(c, at, lanes, into, size)
        reading = lanes[copy.filled[lanes] > 0]
        if len(reading):
            copy.source[reading] = globe.place(c, at, reading, source[reading], size)
        verb = "an asynchronous copy"
        shared.check(c, at, lanes, copy.target[lanes], size, verb, Shadow.write, pending=True)
        if len(reading):
            places = copy.source[reading]
            globe.check(c, at, reading, places, size, verb, Shadow.begin_read, engine=False)
        for k in range(0, size, 4):
            shared.view(4)[(copy.target[lanes] + k) // 4] = _POISON
        shared.mark_written(copy.target[lanes], size, False)
        self._pending.append(copy)

    def commit(self, mask: Array) -> None:
        self._groups.commit(mask)

    def wait(self, at: int, mask: Array, pending: int) -> None:
        for copy in self._pending:
            self._finish(copy, self._groups.finished(copy.group, mask & copy.mask, pending))
        self._pending = [copy for copy in self._pending if copy.mask.any()]

    def wait_all(self, at: int, mask: Array) -> None:
        self.commit(mask)
        self.wait(at, mask, 0)

    def arrive(self, at: int, mask: Array, address: Array, counted: bool) -> None:
        """Arrive at an mbarrier when the copies so far are done: when somebody asks it."""
        earlier = list(self._pending)

        def done(here: Array) -> None:
            for copy in earlier:
                self._finish(copy, here & copy.mask)
            self._pending = [copy for copy in self._pending if copy.mask.any()]

        self._counters.arrive_later(at, mask, address, done, counted)

    def _finish(self, copy: _Copy, mask: Array) -> None:
        lanes = np.flatnonzero(mask)
        if not len(lanes):
            return
        c = self.c
        shared, globe = self._memory.spaces["shared"], self._memory.spaces["global"]
        target, source = copy.target[lanes], copy.source[lanes]
        filled = copy.filled[lanes].astype(np.int64)
        reading = filled > 0
        c.launch.now += 1
        if len(lanes[reading]):
            globe.check_written(c, copy.at, lanes[reading], source[reading], copy.size)
        into, of = shared.view(1), globe.view(1)
        if (filled == copy.size).all():
            into, of = shared.view(4), globe.view(4)
            for k in range(0, copy.size, 4):
                into[(target + k) // 4] = of[(source + k) // 4]
        else:
            for k in range(copy.size):
                into[target + k] = np.where(k < filled, of[source + k], 0)
        shared.mark_written(target, copy.size)
        copy.mask &= ~mask
        if shared.shadow is not None:
            shared.shadow.finish_write(c, copy.at, *shared.cells(lanes, target, copy.size))
        if globe.shadow is not None and reading.any():
            part = globe.cells(lanes[reading], source[reading], copy.size)
            globe.shadow.finish_read(c, *part)
