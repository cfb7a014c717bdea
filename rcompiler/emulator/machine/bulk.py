"""Bulk copies (TMA): of rows of bytes and of boxes of tensors, done as late as the program allows.

A copy to shared memory is done when somebody asks the mbarrier that counts it, one to global memory
when its group is waited for. Until then the target holds poison.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from rcompiler.emulator.checks.shadow import Shadow
from rcompiler.emulator.lanes import Array
from rcompiler.emulator.machine.access import MemoryUnit
from rcompiler.emulator.machine.counters import Counters
from rcompiler.emulator.machine.groups import Groups
from rcompiler.emulator.machine.proxy_fences import ProxyFences
from rcompiler.emulator.machine.tensor_map import swizzled, unpack
from rcompiler.emulator.machine.threads import Threads
from rcompiler.emulator.translate.layout import GLOBAL, PARAM
from rcompiler.runtime.gpu.driver import TensorTile
from rcompiler.runtime.gpu.tensor_maps import MAP_BYTES

_COPY = "a bulk copy"


@dataclass
class _Store:
    lane: int
    group: int
    finish: Callable[[], None]


class BulkCopies:
    def __init__(
        self, c: Threads, memory: MemoryUnit, counters: Counters, proxies: ProxyFences
    ) -> None:
        self.c, self._memory = c, memory
        self._counters, self._proxies = counters, proxies
        self._groups = Groups(c.count)
        self._stores: list[_Store] = []

    # -- what generated code calls

    def load(
        self, at: int, mask: Array, target: Array, source: Array, size: Array, barrier: Array
    ) -> None:
        for lane in np.flatnonzero(mask).tolist():
            step = np.arange(0, self._bytes_of(at, lane, size), 16, dtype=np.int64)
            globe = self._global(at, lane, int(source[lane]) + step, 16)
            shared = self._shared(at, lane, int(target[lane]), step, 16, 16)
            inside = np.ones(len(step), bool)
            self._load(at, lane, shared, globe, inside, 16, int(barrier[lane]))

    def load_tile(
        self, at: int, mask: Array, target: Array, descriptor: Array, places: tuple[Array, ...],
        barrier: Array,
    ) -> None:  # fmt: skip
        for lane in np.flatnonzero(mask).tolist():
            tile = self._tile(at, lane, int(descriptor[lane]), len(places))
            globe, inside = self._box(at, lane, tile, [int(p[lane]) for p in places])
            shared = self._tile_places(at, lane, tile, int(target[lane]))
            self._load(at, lane, shared, globe, inside, tile.element_bytes, int(barrier[lane]))

    def store(self, at: int, mask: Array, target: Array, source: Array, size: Array) -> None:
        for lane in np.flatnonzero(mask).tolist():
            step = np.arange(0, self._bytes_of(at, lane, size), 16, dtype=np.int64)
            globe = self._global(at, lane, int(target[lane]) + step, 16)
            shared = self._shared(at, lane, int(source[lane]), step, 16, 16)
            self._store(at, lane, shared, globe, 16)

    def store_tile(
        self, at: int, mask: Array, descriptor: Array, places: tuple[Array, ...], source: Array
    ) -> None:
        for lane in np.flatnonzero(mask).tolist():
            tile = self._tile(at, lane, int(descriptor[lane]), len(places))
            globe, inside = self._box(at, lane, tile, [int(p[lane]) for p in places])
            shared = self._tile_places(at, lane, tile, int(source[lane]))
            self._store(at, lane, shared[inside], globe[inside], tile.element_bytes)

    def commit(self, mask: Array) -> None:
        self._groups.commit(mask)

    def wait(self, at: int, mask: Array, pending: int) -> None:
        for store in list(self._stores):
            if mask[store.lane] and store.group < self._groups.current[store.lane] - pending:
                self._stores.remove(store)
                store.finish()

    def finish(self) -> None:
        """The kernel ends: what nobody waited for is done."""
        while self._stores:
            self._stores.pop(0).finish()

    # -- places

    def _bytes_of(self, at: int, lane: int, size: Array) -> int:
        count = int(size[lane])
        if count % 16:
            raise self.c.fault("misaligned", at, lane, f"a bulk copy of {count} bytes")
        return count

    def _tile(self, at: int, lane: int, address: int, rank: int) -> TensorTile:
        """The map at an address: a parameter of the kernel, or in constant or global memory."""
        c, data = self.c, b""
        if address >> 44 == PARAM >> 44:
            start = address - PARAM
            data = c.launch.arguments[start : start + MAP_BYTES]
        else:
            found = c.launch.memory.find(address)
            if found is not None:
                start = address - GLOBAL
                data = c.launch.memory.bytes[start : start + MAP_BYTES].tobytes()
                if not found.constant:
                    self._proxies.check_map(at, lane, address)
        tile = unpack(data)
        if tile is None or len(tile.dims) != rank:
            raise c.fault("out-of-bounds", at, lane, "no tensor map of that rank", address=address)
        return tile

    def _box(self, at: int, lane: int, tile: TensorTile, corner: list[int]) -> tuple[Array, Array]:
        """Places in global memory of the box's elements, innermost first; which are inside."""
        where, inside = np.zeros(1, np.int64), np.ones(1, bool)
        strides = (tile.element_bytes, *tile.strides)
        for first, count, extent, stride in zip(corner, tile.box, tile.dims, strides, strict=True):
            index = np.arange(first, first + count, dtype=np.int64)
            valid = (index >= 0) & (index < extent)
            where = (np.clip(index, 0, extent - 1)[:, None] * stride + where).ravel()
            inside = (valid[:, None] & inside).ravel()
        return self._global(at, lane, tile.address + where, tile.element_bytes), inside

    def _global(self, at: int, lane: int, addresses: Array, width: int) -> Array:
        globe = self._memory.spaces["global"]
        lanes = np.full(len(addresses), lane)
        return globe.place(self.c, at, lanes, addresses.astype(np.uint64), width)

    def _tile_places(self, at: int, lane: int, tile: TensorTile, address: int) -> Array:
        count = int(np.prod(tile.box))
        step = np.arange(count, dtype=np.int64) * tile.element_bytes
        start = address & ((1 << 44) - 1)
        step = swizzled(start + step, tile.swizzle) - start
        return self._shared(at, lane, address, step, tile.element_bytes, 128)

    def _shared(
        self, at: int, lane: int, address: int, step: Array, width: int, align: int
    ) -> Array:
        shared, start = self._memory.spaces["shared"], address & ((1 << 44) - 1)
        lanes = np.full(len(step), lane)
        shared.check_aligned(self.c, at, lanes[:1], np.array([start], np.uint64), align)
        return shared.place(self.c, at, lanes, (start + step).astype(np.uint64), width)

    # -- copies

    def _load(
        self, at: int, lane: int, shared_at: Array, global_at: Array, inside: Array, width: int,
        barrier: int,
    ) -> None:  # fmt: skip
        c = self.c
        shared, globe = self._memory.spaces["shared"], self._memory.spaces["global"]
        offset = barrier & ((1 << 44) - 1)
        counter = self._counters.find(at, lane, offset)
        self._proxies.check_published(at, lane, counter, offset)
        lanes, first = np.full(len(shared_at), lane), lane // 32 * 32
        # What the engine writes counts as written by the first lane of the issuing warp.
        writers = np.full(len(shared_at), first)
        shared.check(c, at, lanes, shared_at, width, _COPY, Shadow.write, pending=True, engine=True)
        sources = globe.check(
            c, at, lanes[inside], global_at[inside], width, _COPY, Shadow.begin_read, engine=True
        )
        _poison(shared.bytes, shared_at, width)
        shared.mark_written(shared_at, width, False)

        def finish() -> None:
            c.launch.now += 1
            globe.check_written(c, at, lanes[inside], global_at[inside], width)
            _copy(shared.bytes, shared_at, globe.view(1), global_at, width, inside)
            shared.mark_written(shared_at, width)
            known = None
            if shared.shadow is not None and globe.shadow is not None and sources is not None:
                written = shared.cells(writers, shared_at, width)
                shared.shadow.finish_write(c, at, *written)
                globe.shadow.finish_read(c, *sources)
                known = c.clocks.vector(np.array([first]), c.live, c.launch.now)
            self._counters.complete(counter, len(shared_at) * width, known)

        counter.later.append(finish)

    def _store(self, at: int, lane: int, shared_at: Array, global_at: Array, width: int) -> None:
        c = self.c
        shared, globe = self._memory.spaces["shared"], self._memory.spaces["global"]
        lanes = np.full(len(shared_at), lane)
        globe.writable(c, at, lanes, global_at)
        sources = shared.check(
            c, at, lanes, shared_at, width, _COPY, Shadow.begin_read, engine=True
        )
        targets = globe.check(
            c, at, lanes, global_at, width, _COPY, Shadow.write, pending=True, engine=True
        )
        shared.check_written(c, at, lanes, shared_at, width)

        def finish() -> None:
            c.launch.now += 1
            c.launch.progress += 1
            everything = np.ones(len(shared_at), bool)
            _copy(globe.view(1), global_at, shared.bytes, shared_at, width, everything)
            globe.mark_written(global_at, width)
            if shared.shadow is not None and sources is not None:
                shared.shadow.finish_read(c, *sources)
            if globe.shadow is not None and targets is not None:
                globe.shadow.finish_write(c, at, *targets)

        self._stores.append(_Store(lane, int(self._groups.current[lane]), finish))


def _copy(into: Array, target: Array, of: Array, source: Array, width: int, inside: Array) -> None:
    for k in range(width):
        into[target + k] = np.where(inside, of[source + k], 0)


def _poison(memory: Array, target: Array, width: int) -> None:
    for k in range(width):
        memory[target + k] = 0xFF
