"""Boxes of results by groups of threads: their register tiles are shared out to the groups."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from rcompiler.kernelgen.buffer import Buffer
from rcompiler.kernelgen.elements import Elements, Source
from rcompiler.kernelgen.evaluate import Evaluator
from rcompiler.kernelgen.simt.emitter import SimtEmitter
from rcompiler.kernelgen.simt.turns import coordinates, in_turns
from rcompiler.kernelgen.tiling import Range, Tiling
from rcompiler.kernelgen.value import Val
from rcompiler.linalg.affine import Linear
from rcompiler.roller.thread_tiles import (
    IN_FLIGHT,
    SUMS_IN_FLIGHT,
    for_all_groups,
    lanes_of,
    most_of_thread,
    step_cover,
)


def for_threads(tiling: Tiling, width: int) -> Tiling:
    """A tiling for groups of `width` threads. A thread's sums stay in its registers, and every
    thread reads what it needs: cutting the reduction would only store the sums in between.
    """
    lanes = lanes_of(tiling.vector_dim, tiling.lanes, width)
    registers = most_of_thread(tiling.register_tile, tiling.vector_dim, lanes)
    return replace(tiling, reduction_tile=None, lanes=lanes, register_tile=registers)


def for_groups(tiling: Tiling, ranges: Sequence[Range], groups: int) -> Tiling:
    """A tiling of a box with register tiles so small that no group is idle while another has more
    than one.
    """
    lanes = tiling.lanes if tiling.vector_dim >= 0 else 1
    extents = [span.extent for span in ranges]
    own = for_all_groups(tiling.register_tile, tiling.vector_dim, lanes, extents, groups)
    return replace(tiling, register_tile=own)


@dataclass(frozen=True)
class _Steps:
    """Equal steps along one dim: `count` of them, or up to the SSA bound of it, from `start`."""

    start: Linear
    size: int
    count: int | Linear


@dataclass(frozen=True)
class GroupTiles:
    """Writes a box of results: each group of threads its register tiles, one after the other.

    tiling: of this box, see `for_groups`.
    """

    emitter: SimtEmitter
    evaluator: Evaluator
    elements: Elements
    tiling: Tiling
    sources: list[Source]
    outputs: list[Buffer]

    @cached_property
    def _sums(self) -> bool:
        values = (value for value, _ in self.sources)
        return any(value is not None and self.elements.reduces(value) for value in values)

    def write(self, ranges: list[Range]) -> None:
        """The coordinates `ranges`."""
        order = self.tiling.nested(len(ranges))
        for choice in itertools.product(*(self._cover(d, ranges[d]) for d in order)):
            self._share_out(dict(zip(order, choice, strict=True)))

    def _cover(self, dim: int, span: Range) -> list[_Steps]:
        """The register tiles along one dim."""
        if span.extent is None:
            return [_Steps(span.start, 1, self._length(span))]
        registers = self.tiling.register_tile
        size = registers[dim] if dim < len(registers) else 1
        if dim == self.tiling.vector_dim:
            lanes = self.tiling.lanes
            size = max(size // lanes, 1) * lanes
            count, rest = divmod(span.extent, size)
            parts = [(size, count), (rest, 1)]
        else:
            parts = step_cover(span.extent, size, even=self._sums)
        found, start = [], span.start
        for size, count in parts:
            if size and count:
                found.append(_Steps(start, size, count))
                start = start + size * count
        return found

    def _length(self, span: Range) -> Linear:
        """Of a range with dynamic ends; it is empty, too, where its end lies before its start: of
        two such dims the product would be positive.
        """
        return self.emitter.max_signed(span.end + span.start * -1, 0).symbol

    def _share_out(self, parts: dict[int, _Steps]) -> None:
        """All combinations of the steps of each dim; the last dim of `parts` changes fastest."""
        sizes = [parts[d].size for d in range(len(parts))]
        counts = [part.count for part in parts.values()]

        def tiles(numbers: list[Linear]) -> None:
            bases = []
            for number in numbers:
                at = [Linear()] * len(parts)
                places = coordinates(self.evaluator, number, counts)
                for (d, part), position in zip(parts.items(), places, strict=True):
                    at[d] = position * part.size + part.start
                bases.append(at)
            self._register_tiles(bases, sizes)

        in_turns(self.emitter, counts, self._together(sizes), tiles)

    def _together(self, sizes: Sequence[int]) -> int:
        """How many register tiles a group reads before it writes the first of them.

        One load of a thread at a time has the latency of memory to itself, and no compiler moves a
        load above a store that may be to the same place. Sums have loads enough in their loops.
        """
        vector, lanes = self.tiling.vector_dim, self.tiling.lanes
        if self._sums or (vector >= 0 and sizes[vector] % lanes):
            return 1
        accesses = math.prod(sizes) // (lanes if vector >= 0 else 1)
        return max(IN_FLIGHT // max(accesses, 1), 1)

    def _register_tiles(self, bases: Sequence[list[Linear]], steps: list[int]) -> None:
        """All positions of some register tiles: reductions together, then the elementwise rest,
        then the stores.
        """
        e, placed = self.emitter, [at for base in bases for at in self._placed(base, steps)]
        self.elements.prepare(self.sources, [at for at, _ in placed], 0)
        at_once = SUMS_IN_FLIGHT if self._sums else IN_FLIGHT
        for first in range(0, len(placed), at_once):
            some = placed[first : first + at_once]
            # Threads without an element compute the last one, too, but not where it may be stored
            # before they have read it.
            early = [not e.in_place or e.is_active(lanes) is None for _, lanes in some]
            found = [
                self.elements.values(self.sources, at, 0) if own else None
                for (at, _), own in zip(some, early, strict=True)
            ]
            for (at, lanes), values in zip(some, found, strict=True):

                def store(at: list[Linear] = at, values: list[Val] | None = values) -> None:
                    own = self.elements.values(self.sources, at, 0) if values is None else values
                    for value, output in zip(own, self.outputs, strict=True):
                        self.elements.store(value, output, output.offset(at), 0)

                e.only(e.is_active(lanes), store)

    def _placed(self, base: list[Linear], steps: list[int]) -> list[tuple[list[Linear], int]]:
        """The coordinates of this thread's elements, and how many lanes have one there."""
        e, vector, lanes = self.emitter, self.tiling.vector_dim, self.tiling.lanes
        offsets = [
            range(0, step, lanes) if d == vector else range(step) for d, step in enumerate(steps)
        ]
        placed = []
        for inner in itertools.product(*offsets):
            at = [c + o for c, o in zip(base, inner, strict=True)]
            active = 1
            if vector >= 0:
                active = min(lanes, steps[vector] - inner[vector])
                at[vector] = at[vector] + e.active_lane(active)
            placed.append((at, active))
        return placed
