"""Who touched each cell of a memory last, and whether the next one is behind them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from rcompiler.emulator.checks.clocks import NEVER_DONE
from rcompiler.emulator.checks.observed import Observed
from rcompiler.emulator.lanes import Array

_MANY = -1  # readers: not one thread


@dataclass(frozen=True)
class Race:
    """The place among the accesses given, the thread on the other side and its instruction."""

    place: int
    other: int
    at: int
    pending: bool = False
    read_only: bool = False
    unfenced: bool = False


class _Readers:
    """The last reads of cells by one block: moment, thread + 1 or _MANY, its warps, instruction.

    What belongs to a cell lies together: of a large memory each block touches but a part.
    """

    def __init__(self, cells: int) -> None:
        fields = [("warps", "u8"), ("time", "i4"), ("thread", "i4"), ("at", "i4")]
        data = np.zeros(cells, np.dtype(fields, align=True))
        self.warps, self.time = data["warps"], data["time"]
        self.thread, self.at = data["thread"], data["at"]


class Shadow:
    """Of `cells` cells. private: every cell belongs to one block, so blocks need no telling apart.
    bulk: of every instruction of the kernel, whether it is a bulk copy.

    Cells, lanes of a cohort and moments are arrays of one length in all methods; each returns the
    first race, or None.
    """

    def __init__(self, cells: int, private: bool, bulk: Array) -> None:
        self.cells, self.private, self._bulk = cells, private, bulk
        # Last writers: thread + 1 (0: nobody in this launch), moment, instruction.
        writes = np.zeros(cells, [("thread", "i4"), ("time", "i4"), ("at", "i4")])
        self._writer, self._wrote = writes["thread"], writes["time"]
        self._writer_at = writes["at"]
        # Of every cell the block + 1 that read it first, whose reads are in `_first`; further
        # blocks, which `_many` tells of, have rows of their own. Most cells have one reader.
        self._first = _Readers(cells)
        self._owner = np.zeros(0 if private else cells, np.int32)
        self._many = np.zeros(0 if private else cells, bool)
        self._others: dict[int, _Readers] = {}
        self._atomic: Shadow | None = None  # strong accesses: races with weak ones only
        self._read_only = np.zeros(0, bool)

    # -- accesses

    def read(self, c: Observed, at: int, lanes: Array, cells: Array, nc: bool) -> Race | None:
        race = self._after_writers(c, lanes, cells, nc)
        if race is None and self._atomic is not None:
            race = self._atomic._after_writers(c, lanes, cells, False)
        if race is not None:
            return race
        if nc:
            if not len(self._read_only):
                self._read_only = np.zeros(self.cells, bool)
            self._read_only[cells] = True
        for number, part in self._by_block(c, lanes):
            self._keep_read(c, at, lanes[part], cells[part], number, c.launch.now)
        return None

    def write(
        self, c: Observed, at: int, lanes: Array, cells: Array, pending: bool = False,
        engine: bool = False,
    ) -> Race | None:  # fmt: skip
        """pending: by an asynchronous copy that begins now. engine: that needs proxy fences."""
        if len(self._read_only) and self._read_only[cells].any():
            place = int(np.flatnonzero(self._read_only[cells])[0])
            return Race(place, int(c.threads_of(lanes[place])), at, read_only=True)
        race = self._after_writers(c, lanes, cells, False) or self._after_readers(c, lanes, cells)
        if race is None and self._atomic is not None:
            race = self._atomic._after_writers(c, lanes, cells, False)
        if race is None and engine:
            race = self._behind_fences(c, lanes, cells)
        if race is None:
            self._record_write(c, at, lanes, cells, NEVER_DONE if pending else c.launch.now)
        return race

    def update(self, c: Observed, at: int, lanes: Array, cells: Array, writes: bool) -> Race | None:
        """A strong access: races with weak ones alone."""
        race = self._after_writers(c, lanes, cells, False)
        if race is None and writes:
            race = self._after_readers(c, lanes, cells)
        if race is None and writes:
            if self._atomic is None:
                self._atomic = Shadow(self.cells, self.private, self._bulk)
            self._atomic._record_write(c, at, lanes, cells, c.launch.now)
        return race

    def finish_write(self, c: Observed, at: int, lanes: Array, cells: Array) -> None:
        """An asynchronous copy is done, as far as its waiting thread is concerned."""
        self._record_write(c, at, lanes, cells, c.launch.now)

    def begin_read(
        self, c: Observed, at: int, lanes: Array, cells: Array, engine: bool
    ) -> Race | None:
        """A read goes on from now until finish_read. engine: by one that needs proxy fences."""
        race = self._after_writers(c, lanes, cells, False)
        if race is None and engine:
            race = self._behind_fences(c, lanes, cells)
        if race is None:
            for number, part in self._by_block(c, lanes):
                self._keep_read(c, at, lanes[part], cells[part], number, NEVER_DONE)
        return race

    def _behind_fences(self, c: Observed, lanes: Array, cells: Array) -> Race | None:
        """What threads stored must lie before a proxy fence of theirs, or of the lanes."""
        written = np.flatnonzero(self._writer[cells])
        at = self._writer_at[cells[written]]
        written = written[~self._bulk[at]]
        if not len(written):
            return None
        space, writer = "shared" if self.private else "global", self._writer[cells[written]] - 1
        last = c.launch.proxies.fenced(space, writer, c.threads_of(lanes[written]))
        bare = written[self._wrote[cells[written]] > last]
        if not len(bare):
            return None
        place = int(bare[0])
        cell = cells[place]
        return Race(place, int(self._writer[cell]) - 1, int(self._writer_at[cell]), unfenced=True)

    def finish_read(self, c: Observed, lanes: Array, cells: Array) -> None:
        for number, part in self._by_block(c, lanes):
            for row, places in self._rows(number, cells[part]):
                read = cells[part][places]
                row.time[read[row.time[read] == NEVER_DONE]] = c.launch.now

    def same_instruction(self, c: Observed, lanes: Array, cells: Array) -> Array:
        """Places whose cell another thread wrote by the same instruction as its last writer."""
        return self._writer[cells] != c.threads_of(lanes) + 1

    def last_writes(self, cells: Array) -> tuple[Array, Array]:
        """Threads that last wrote cells, -1 where nobody did in this launch, and when."""
        return self._writer[cells].astype(np.int64) - 1, self._wrote[cells]

    # -- checks

    def _after_writers(self, c: Observed, lanes: Array, cells: Array, nc: bool) -> Race | None:
        writer = self._writer[cells]
        touched = np.flatnonzero(writer)
        if not len(touched):
            return None
        when = self._wrote[cells[touched]]
        if not nc:
            mine = c.clocks.floor[lanes[touched]]
            far = (writer[touched] - 1) // c.threads != c.clocks.block[lanes[touched]]
            touched = touched[(when > mine) | far]
            if not len(touched):
                return None
            when = self._wrote[cells[touched]]
            right = c.clocks.behind(lanes[touched], writer[touched].astype(np.int64) - 1, when)
            touched, when = touched[~right], when[~right]
        if not len(touched):
            return None
        place = int(touched[0])
        cell = cells[place]
        pending = bool(when[0] == NEVER_DONE)
        return Race(place, int(writer[place]) - 1, int(self._writer_at[cell]), pending, nc)

    def _after_readers(self, c: Observed, lanes: Array, cells: Array) -> Race | None:
        for number, part in self._by_block(c, lanes):
            everything = np.arange(len(lanes))[part]
            groups = [(self._first, everything, -1)]
            if not self.private:
                owner = self._owner[cells[part]]
                groups = [
                    (self._first, everything[owner == block + 1], -1 if block == number else block)
                    for block in (np.unique(owner[owner != 0]) - 1).tolist()
                ]
                many = everything[self._many[cells[part]]]
                if len(many):
                    groups += [
                        (row, many, -1 if block == number else block)
                        for block, row in self._others.items()
                    ]
            for row, places, block in groups:
                race = self._unknown_reader(c, row, lanes, cells, places, block)
                if race is not None:
                    return race
        return None

    def _unknown_reader(
        self, c: Observed, row: _Readers, lanes: Array, cells: Array, places: Array, block: int
    ) -> Race | None:
        """A reader of one block (-1: the lanes' own) that the lanes are not behind."""
        when = row.time[cells[places]]
        late = when > 0 if block >= 0 else when > c.clocks.floor[lanes[places]]
        if not late.any():
            return None
        places = places[late]
        thread, when = row.thread[cells[places]], when[late]
        # A thread may write what it has read itself, but not what an engine still reads for it.
        right = (thread == c.threads_of(lanes[places]) + 1) & (when != NEVER_DONE)
        right |= c.clocks.covers(lanes[places], row.warps[cells[places]], when, block)
        wrong = np.flatnonzero(~right)
        if not len(wrong):
            return None
        place = int(places[wrong[0]])
        reader = int(thread[wrong[0]]) - 1
        if reader < 0:  # several: name the first lane of one of their warps
            bits = int(row.warps[cells[place]])
            warp = (bits.bit_length() - 1) % c.clocks.warps
            reader = (c.clocks.block[lanes[place]] if block < 0 else block) * c.threads + 32 * warp
        return Race(place, int(reader), int(row.at[cells[place]]))

    # -- records

    def _by_block(self, c: Observed, lanes: Array) -> list[tuple[int, slice]]:
        """Runs of lanes of one block each; lanes come in order."""
        if self.private or len(c.clocks.numbers) == 1:
            return [(0 if self.private else c.clocks.numbers[0], slice(0, len(lanes)))]
        blocks = lanes // c.threads
        cuts = [0, *(np.flatnonzero(np.diff(blocks)) + 1).tolist(), len(lanes)]
        return [
            (c.clocks.numbers[int(blocks[a])], slice(a, b))
            for a, b in zip(cuts, cuts[1:], strict=False)
            if b > a
        ]

    def _rows(self, number: int, cells: Array) -> list[tuple[_Readers, Array]]:
        """Where the reads of a block are kept, and for which places among the cells."""
        everything = np.arange(len(cells))
        if self.private:
            return [(self._first, everything)]
        owner = self._owner[cells]
        mine = (owner == 0) | (owner == number + 1)
        if mine.all():
            return [(self._first, everything)]
        if number not in self._others:
            self._others[number] = _Readers(self.cells)
        return [(self._first, everything[mine]), (self._others[number], everything[~mine])]

    def _keep_read(
        self, c: Observed, at: int, lanes: Array, cells: Array, number: int, when: Any
    ) -> None:
        for row, places in self._rows(number, cells):
            read = cells[places]
            if not self.private and row is self._first:
                self._owner[read] = number + 1
            elif not self.private:
                self._many[read] = True
            self._record_read(c, row, at, lanes[places], read, when)

    def _record_read(
        self, c: Observed, row: _Readers, at: int, lanes: Array, cells: Array, when: Any
    ) -> None:
        """The last reader alone is kept if it is behind the readers before it."""
        threads, bits = c.threads_of(lanes) + 1, c.clocks.bit[lanes]
        before = row.time[cells]
        alone = before <= c.clocks.floor[lanes]
        if alone.all():
            warps = bits
        else:
            alone |= row.thread[cells] == threads
            rest = np.flatnonzero(~alone)
            alone[rest] = c.clocks.covers(lanes[rest], row.warps[cells[rest]], before[rest])
            threads = np.where(alone, threads, _MANY)
            warps = np.where(alone, bits, row.warps[cells] | bits)
        row.time[cells] = np.where(before == NEVER_DONE, before, when)
        row.thread[cells], row.at[cells] = threads, at
        row.warps[cells] = warps
        shared = row.thread[cells] != threads  # several lanes of this instruction read the cell
        if shared.any():
            row.thread[cells[shared]] = _MANY
            missing = np.flatnonzero((row.warps[cells] & bits) != bits)
            while len(missing):
                row.warps[cells[missing]] |= bits[missing]
                missing = missing[(row.warps[cells[missing]] & bits[missing]) != bits[missing]]

    def _record_write(self, c: Observed, at: int, lanes: Array, cells: Array, when: Any) -> None:
        self._writer[cells] = c.threads_of(lanes) + 1
        self._wrote[cells] = when
        self._writer_at[cells] = at
