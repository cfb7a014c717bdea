"""Fences between the ways in which memory is accessed: ordinary accesses, engines, tensor maps.

PTX manual, sections "Proxies", "membar/fence" and "Async proxy": ordinary loads and stores go
through the generic proxy, bulk copies and the operands of wgmma through the async proxy, and the
engine reads tensor maps through one more. What one of them wrote is there for another one behind a
fence for both of them, which holds for one memory space, or for one map and one scope.
"""

from __future__ import annotations

import numpy as np

from rcompiler.emulator.lanes import Array

SCOPES = ("cta", "cluster", "gpu", "sys")


class Proxies:
    """Of a launch: the moments of each thread's last fences; 0 where it made none."""

    def __init__(self, threads: int) -> None:
        self._async = {space: np.zeros(threads, np.int32) for space in ("global", "shared")}
        self._published = np.zeros(threads, np.int32)
        self._released = np.zeros((len(SCOPES), threads), np.int32)
        self._acquired: dict[int, dict[int, list[int]]] = {}  # address of a map -> thread -> scope

    def fence(self, threads: Array, spaces: tuple[str, ...], now: int) -> None:
        """Between the generic and the async proxy."""
        for space in spaces:
            self._async[space][threads] = now

    def fenced(self, space: str, first: Array, second: Array) -> Array:
        """The later ones of two threads' last such fences."""
        moments = self._async[space]
        return np.maximum(moments[first], moments[second])

    def publish_mbarriers(self, threads: Array, now: int) -> None:
        """What the threads have initialised is there at the scope of the cluster."""
        self._published[threads] = now

    def published(self, thread: int) -> int:
        return int(self._published[thread])

    def release_maps(self, threads: Array, scope: str, now: int) -> None:
        """What the threads have written is there for whoever acquires it as a map."""
        self._released[: SCOPES.index(scope) + 1, threads] = now

    def released(self, threads: Array, scope: str) -> Array:
        """Moments of the last such fences of at least that scope."""
        return self._released[SCOPES.index(scope), threads]

    def acquire_map(self, thread: int, address: int, scope: str, now: int) -> None:
        moments = self._acquired.setdefault(address, {}).setdefault(thread, [0] * len(SCOPES))
        for k in range(SCOPES.index(scope) + 1):
            moments[k] = now

    def acquired(self, address: int, scope: str) -> tuple[Array, Array]:
        """Threads that have acquired a map at such a scope at least, and when."""
        found = self._acquired.get(address, {})
        moments = [found[thread][SCOPES.index(scope)] for thread in found]
        return np.array(list(found), np.int64), np.array(moments, np.int32)
