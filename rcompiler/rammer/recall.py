"""What runs pay for operands that are not where the estimate of their rTasks takes them from.

An rTask is estimated by itself: its operands come from the last cache. Along a schedule some were
touched by the same EU a moment ago, like the weights of a recurrent network by the step before, and
are still in its own cache. Others are touched once an inference, like the weights of most networks
and all code: in between so much else went through the last cache that they come from memory. So
both caches are followed chunk by chunk. The last one keeps the `Recall.kept_bytes` that any EU
touched last: less than its capacity, as other programs on the machine use it, too. What it lacks is
paid for at `Recall.rate`. Arithmetic is `Recall.speed` times as fast as estimated, and what comes
from caches `Recall.cache_speed` times.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from copy import copy
from itertools import zip_longest
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rcompiler.device.measured import Recall
from rcompiler.device.model import Device
from rcompiler.rammer.cost import run_ns, size_of
from rcompiler.rammer.graph import Graph
from rcompiler.rammer.kernel import Access, Kernel
from rcompiler.rammer.overlap import shares_of
from rcompiler.rammer.program import Program, Run
from rcompiler.rammer.regions import counted
from rcompiler.roller.cost import EXPOSED, FIT, side_by_side

CHUNK = 1 << 14  # bytes; also what the code of an rKernel is taken for
_WRITTEN = 2  # times that a line which is written over crosses the bus: it is read before

Numbers = float | NDArray[np.float64]
_Key = tuple[object, int]  # a memory, or the name of an rKernel; the number of a chunk of it
_Span = tuple[int, int, int]  # number of a chunk, bytes touched in it, how often they cross the bus


class Demand(NamedTuple):
    """Of a run, or (runs,) of many, ns as estimated: arithmetic; waiting for the slowest cache, and
    for all of them; the rest. Then bytes from memory, and whether it is too large for any cache, so
    that its estimate, all of it rest, is that of memory.
    """

    compute: Numbers
    slowest: Numbers
    caches: Numbers
    rest: Numbers
    moved: Numbers
    large: bool | NDArray[np.bool_]


def run_times(
    demand: Demand, rate: Numbers, speed: Numbers, cache_speed: Numbers
) -> NDArray[np.float64]:
    """ns of a run; all arguments broadcast. rate, speed, cache_speed: see `Recall`."""
    compute, slowest = demand.compute / speed, demand.slowest / cache_speed
    parts = (1 - EXPOSED) * np.maximum(compute, slowest)
    parts = parts + EXPOSED * (compute + demand.caches / cache_speed)
    alone = parts + demand.rest
    memory = demand.moved / rate
    both = np.maximum(alone, memory) + EXPOSED * np.minimum(alone, memory)
    return np.where(demand.large, alone, both)


class _Cache:
    """The cache of one EU. A new chunk takes the place of any: hardware keeps a part of a loop that
    is somewhat too large, of which least recently used would keep nothing.
    """

    def __init__(self, capacity: int) -> None:
        self._most = max(1, capacity // CHUNK)
        self._place: dict[_Key, int] = {}
        self._chunks: list[_Key] = []
        self._state = 1

    def touch(self, key: _Key) -> bool:
        """Whether a chunk is there; it is then."""
        if key in self._place:
            return True
        if len(self._chunks) >= self._most:
            self._state = self._state * 1103515245 + 12345 & 0x7FFFFFFF
            self.drop(self._chunks[(self._state >> 8) % len(self._chunks)])
        self._place[key] = len(self._chunks)
        self._chunks.append(key)
        return False

    def drop(self, key: _Key) -> None:
        """A chunk that is there or not is no longer."""
        place = self._place.pop(key, None)
        if place is not None:
            last = self._chunks.pop()
            if last != key:
                self._chunks[place] = last
                self._place[last] = place


class Recalls:
    """Follows the last cache along the runs of a schedule, in the order in which they start."""

    def __init__(self, graph: Graph, device: Device, recall: Recall) -> None:
        """device: with two caches or more before its memory, of which the last one is `kept` of."""
        self._graph, self._costs = graph, device.costs
        self._own, self._last = device.cache_before_last, device.last_cache
        self._spans: dict[tuple[str, int, int, int], list[tuple[int, _Span]]] = {}
        self._begin(recall)

    def _begin(self, recall: Recall) -> None:
        self._figures = recall.rate, recall.speed, recall.cache_speed
        self._most = max(1, recall.kept_bytes // CHUNK)
        self._recent: OrderedDict[_Key, None] = OrderedDict()
        self._caches: dict[int, _Cache] = {}

    def again(self, recall: Recall) -> Recalls:
        """The same schedule with other figures, from empty caches."""
        found = copy(self)
        found._begin(recall)
        return found

    def warm(self, programs: Sequence[Program]) -> None:
        """The inference before: what it leaves in the caches."""
        for program in programs:
            queues, eus = program.queues, program.eus
            for first in range(0, len(queues), eus):  # of a dynamic one: in turn
                for steps in zip_longest(*queues[first : first + eus]):
                    for eu, step in enumerate(steps):
                        if isinstance(step, Run):
                            self.run(program, eu, step)

    def run(self, program: Program, eu: int, run: Run) -> tuple[float, float]:
        """ns that the next run takes on an EU alone, and the bytes that it moves from memory."""
        found = self.demand(program, eu, run)
        return float(run_times(found, *self._figures)), float(found.moved)

    def demand(self, program: Program, eu: int, run: Run) -> Demand:
        """What the next run needs, at whatever rate and speeds. What it only asks for is there for
        the runs behind it, and it waits for none of it.
        """
        kernel = self._graph.kernel[run.kernel]
        work = size_of(kernel, run.first, run.count, run.stride)
        whole = run_ns(kernel, work, self._costs)
        if kernel.asks:
            for operand, (chunk, _, _) in self._touched(kernel, run):
                buffer = program.buffer[run.buffers[operand]]
                self._touch((buffer.space, buffer.offset // CHUNK + chunk))
            return Demand(0.0, 0.0, 0.0, whole, 0.0, large=False)
        near, moved = 0.0, 0.0 if self._touch((run.kernel, 0)) else float(CHUNK)
        mine = self._caches.setdefault(eu, _Cache(self._own.capacity))
        for operand, (chunk, size, times) in self._touched(kernel, run):
            buffer = program.buffer[run.buffers[operand]]
            key = (buffer.space, buffer.offset // CHUNK + chunk)
            recent = self._touch(key)
            if mine.touch(key):
                near += size
            elif not recent:
                moved += size * times
            if operand >= len(kernel.reads):
                for cache in self._caches.values():
                    if cache is not mine:
                        cache.drop(key)
        if sum(a.bytes for a in kernel.accesses) > self._last.capacity * FIT:
            return Demand(0.0, 0.0, 0.0, whole, moved, large=True)
        return Demand(*self._parts(kernel, work, whole, near), moved, large=False)

    def _parts(
        self, kernel: Kernel, work: float, whole: float, near: float
    ) -> tuple[float, float, float, float]:
        """The ns of a `Demand`.

        work: rTasks, in those of the mean size. whole: ns of the run as estimated. near: bytes that
        need not come from the last cache.
        """
        parts = {name: ns * work for name, ns in kernel.parts}
        together = side_by_side(parts.values())
        shrunk = min(1.0, whole / together) if together else 1.0  # a measured time is none of them
        rest = whole - shrunk * together
        if self._last.name in parts:
            parts[self._last.name] -= min(near / self._last.bandwidth, parts[self._last.name])
        compute = shrunk * parts.pop("compute", 0.0)
        caches = [shrunk * ns for ns in parts.values()]
        return compute, max(caches, default=0.0), sum(caches), rest

    def _touch(self, key: _Key) -> bool:
        """Whether a chunk is in the last cache; it is then, and another one may have to go."""
        there = key in self._recent
        self._recent[key] = None
        self._recent.move_to_end(key)
        if len(self._recent) > self._most:
            self._recent.popitem(last=False)
        return there

    def _touched(self, kernel: Kernel, run: Run) -> list[tuple[int, _Span]]:
        """By number of the operand, the chunks of it that a run touches."""
        key = (run.kernel, run.first, run.count, run.stride)
        if key not in self._spans:
            accesses = {n: a for n, a in enumerate(kernel.accesses) if n not in kernel.pinned}
            self._spans[key] = [
                (number, (chunk, size, 1 if number < len(kernel.reads) else _WRITTEN))
                for number, access in accesses.items()
                for chunk, size in _chunks(kernel, access, run)
            ]
        return self._spans[key]


def _chunks(kernel: Kernel, access: Access, run: Run) -> list[tuple[int, int]]:
    """Of an operand, the chunks that a run touches and how many bytes of each."""
    tasks = (np.array([n], np.int64) for n in (run.first, run.count, run.stride))
    ranges = shares_of(kernel, access, 0, *tasks).bytes_of(0)
    first, last = ranges[:, 0] // CHUNK, (ranges[:, 1] - 1) // CHUNK
    parts = last - first + 1
    owner = np.repeat(np.arange(len(ranges)), parts)
    chunk = first[owner] + counted(parts)
    low = np.maximum(ranges[owner, 0], chunk * CHUNK)
    high = np.minimum(ranges[owner, 1], (chunk + 1) * CHUNK)
    total = np.bincount(chunk, weights=high - low)
    return [(int(c), int(total[c])) for c in np.flatnonzero(total)]
