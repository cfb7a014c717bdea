"""Proxy fences of a cohort's threads, and what its engines need of them (`checks/proxies.py`).

An mbarrier is initialised by the generic proxy as well, and counted down by an engine, at the scope
of the cluster; `Checks.published_mbarriers` says what that asks for.
"""

from __future__ import annotations

import numpy as np

from rcompiler.emulator.checks.proxies import SCOPES
from rcompiler.emulator.lanes import Array
from rcompiler.emulator.machine.access import MemoryUnit
from rcompiler.emulator.machine.counters import Counter
from rcompiler.emulator.machine.threads import Threads
from rcompiler.runtime.gpu.tensor_maps import MAP_BYTES


class ProxyFences:
    """The fences of one cohort, and what its engines need of them."""

    def __init__(self, c: Threads, memory: MemoryUnit) -> None:
        self.c, self._memory = c, memory

    # -- what generated code calls

    def fence(self, mask: Array, spaces: tuple[str, ...]) -> None:
        if (threads := self._threads(mask)) is not None:
            self.c.launch.proxies.fence(threads, spaces, self.c.launch.now)

    def publish_mbarriers(self, mask: Array) -> None:
        if (threads := self._threads(mask)) is not None:
            self.c.launch.proxies.publish_mbarriers(threads, self.c.launch.now)

    def release_maps(self, mask: Array, scope: str) -> None:
        if (threads := self._threads(mask)) is not None:
            self.c.launch.proxies.release_maps(threads, scope, self.c.launch.now)

    def acquire_map(self, at: int, mask: Array, address: Array, scope: str) -> None:
        c = self.c
        if self._threads(mask) is None:
            return
        for lane, place in zip(np.flatnonzero(mask).tolist(), address[mask].tolist(), strict=True):
            if self._is_released(at, lane, place, scope):
                me = int(c.threads_of(np.array([lane]))[0])
                c.launch.proxies.acquire_map(me, place, scope, c.launch.now)

    def _is_released(self, at: int, lane: int, address: int, scope: str) -> bool:
        """Whether the lane is behind releases of all that threads have written to a map."""
        c = self.c
        writers, wrote = self._last_writes(at, lane, address)
        made = writers >= 0
        writers, wrote = writers[made], wrote[made]
        moments = c.launch.proxies.released(writers, scope)
        behind = c.clocks.behind(np.full(len(writers), lane), writers, moments)
        return bool((behind & (moments > wrote)).all())

    def _last_writes(self, at: int, lane: int, address: int) -> tuple[Array, Array]:
        """Threads that wrote a map in global memory, -1: the host, and when."""
        globe, lanes = self._memory.spaces["global"], np.array([lane])
        assert globe.shadow is not None
        places = globe.place(self.c, at, lanes, np.array([address], np.uint64), MAP_BYTES)
        return globe.shadow.last_writes(globe.cells(lanes, places, MAP_BYTES)[1])

    def _threads(self, mask: Array) -> Array | None:
        """Those that make a fence now; None if nobody asks."""
        if not self.c.launch.checks.races:
            return None
        self.c.launch.now += 1
        return self.c.threads_of(np.flatnonzero(mask))

    # -- what engines ask

    def check_map(self, at: int, lane: int, address: int) -> None:
        """Raise unless the map in global memory is there for an engine that the lane starts."""
        c, globe = self.c, self._memory.spaces["global"]
        if globe.shadow is None:
            return
        lanes = np.array([lane])
        places = globe.place(c, at, lanes, np.array([address], np.uint64), MAP_BYTES)
        self._memory.observe(at, globe, lanes, places, MAP_BYTES)
        me = int(c.threads_of(lanes)[0])
        writers, wrote = self._last_writes(at, lane, address)
        scope = "sys" if (writers < 0).any() else "cta"
        if (writers // c.threads != me // c.threads).any():
            scope = max(scope, "gpu", key=SCOPES.index)
        threads, moments = c.launch.proxies.acquired(address, scope)
        known = (threads == me) | c.clocks.behind(np.full(len(threads), lane), threads, moments)
        if not (known & (moments > wrote.max(initial=0))).any():
            raise c.fault(
                "missing-map-fence",
                at,
                lane,
                "use of a tensor map in global memory that was not acquired by fence.proxy."
                f"tensormap at scope {scope}, or not released by those who wrote it",
                address=address,
                allocation=globe.describe(c, address),
            )

    def check_published(self, at: int, lane: int, counter: Counter, offset: int) -> None:
        """Raise unless an engine that the lane starts may count an mbarrier down."""
        c = self.c
        if not (c.launch.checks.races and c.launch.checks.published_mbarriers):
            return
        me = int(c.threads_of(np.array([lane]))[0])
        published = c.launch.proxies.published
        if max(published(counter.creator), published(me)) < counter.made:
            raise c.fault(
                "missing-init-fence",
                at,
                lane,
                "a bulk copy counts on an mbarrier that was initialised without "
                "fence.mbarrier_init or a release at the scope of the cluster",
                address=offset,
                other=c.launch.site(counter.made_at, counter.creator),
            )
