"""barrier.cluster of clusters of one block: threads arrive, go on, and wait later for the others.

PTX manual, section "barrier.cluster": what a thread did in front of an arrival, which releases at
the scope of the cluster unless it is relaxed, is there for who waits, which acquires. Every thread
waits between two of its arrivals.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from rcompiler.emulator.lanes import Array, Ints
from rcompiler.emulator.machine.proxy_fences import ProxyFences
from rcompiler.emulator.machine.threads import Threads


@dataclass
class _Phase:
    """arrived: lanes; known: what those that released had done; waiting: where lanes go on."""

    arrived: set[int] = field(default_factory=set)
    known: list[tuple[Ints, Ints | None]] = field(default_factory=list)
    waiting: list[tuple[int, int, Array]] = field(default_factory=list)  # at, block, lanes
    left: int = 0


class ClusterBarriers:
    def __init__(self, c: Threads, proxies: ProxyFences) -> None:
        self.c, self._proxies = c, proxies
        self._phases: dict[int, _Phase] = {}  # by block of the cohort

    # -- what generated code calls

    def arrive(self, at: int, mask: Array, release: bool) -> None:
        c = self.c
        if release:
            self._proxies.publish_mbarriers(mask)
        for block, lanes in self._by_block(mask):
            phase = self._phases.setdefault(block, _Phase())
            twice = phase.arrived.intersection(lanes.tolist())
            if twice:
                raise c.fault("barrier-misuse", at, min(twice), "a second arrival without a wait")
            phase.arrived.update(lanes.tolist())
            if release and c.launch.checks.races:
                c.launch.now += 1
                phase.known.append(c.clocks.summary(lanes, c.live, c.launch.now))
            c.launch.progress += 1
            if len(phase.arrived) == c.launch.alive:
                waiting, phase.waiting = phase.waiting, []
                for _, following, part in waiting:
                    self._leave(block, phase, following, part)

    def wait(self, at: int, following: int, mask: Array) -> None:
        for block, lanes in self._by_block(mask):
            phase = self._phases.get(block)
            if phase is None or not phase.arrived.issuperset(lanes.tolist()):
                raise self.c.fault("barrier-misuse", at, int(lanes[0]), "a wait without an arrival")
            if len(phase.arrived) == self.c.launch.alive:
                self._leave(block, phase, following, lanes)
            else:
                phase.waiting.append((at, following, lanes))

    # -- parts of them

    def _by_block(self, mask: Array) -> list[tuple[int, Array]]:
        lanes = np.flatnonzero(mask)
        blocks = lanes // self.c.threads
        return [(block, lanes[blocks == block]) for block in np.unique(blocks).tolist()]

    def _leave(self, block: int, phase: _Phase, following: int, lanes: Array) -> None:
        c = self.c
        for own, far in phase.known:
            c.clocks.learn(lanes, own, far)
        phase.left += len(lanes)
        if phase.left == c.launch.alive:
            del self._phases[block]
        c.go_on(following, lanes)

    def check_all_left(self) -> None:
        """Raise if threads wait and nobody can come any more."""
        for phase in self._phases.values():
            for at, _, lanes in phase.waiting:
                raise self.c.fault(
                    "barrier-deadlock",
                    at,
                    int(lanes[0]),
                    f"{len(phase.arrived)} of {self.c.launch.alive} threads are at the barrier of "
                    "the cluster, and the others have exited or wait elsewhere",
                )
