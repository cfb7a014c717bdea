"""The tile of one task, its register tiles shared out to the groups of threads of a block."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

from torch_mlir import ir

from rcompiler.kernelgen.buffer import Buffer
from rcompiler.kernelgen.covers import step_cover
from rcompiler.kernelgen.evaluate import Evaluator
from rcompiler.kernelgen.simt.emitter import ACCESS, SimtEmitter
from rcompiler.kernelgen.simt.product import Element
from rcompiler.kernelgen.simt.products import Planned, Products
from rcompiler.kernelgen.simt.scalar_product import MOST_SUMS, halved
from rcompiler.kernelgen.simt.source import is_multiple
from rcompiler.kernelgen.tile import Leaf, Source, TileWriter
from rcompiler.kernelgen.tiling import Range, Tiling
from rcompiler.kernelgen.value import Val
from rcompiler.linalg.affine import LANE, Linear
from rcompiler.linalg.element_types import item_bytes
from rcompiler.linalg.pieces import Piece
from rcompiler.linalg.product import Form
from rcompiler.linalg.roots import product_root

_IN_FLIGHT = 16  # elements that a thread reads, and keeps in registers, before it stores the first
_AT_ONCE = 8  # sums whose epilogues may run at the same time: more of them take too many registers


@dataclass(frozen=True)
class _Steps:
    """Equal steps along one dim: `count` of them, or up to the SSA bound of it, from `start`."""

    start: Linear
    size: int
    count: int | Linear


@dataclass(frozen=True)
class _Result:
    """An element of a result: where it is stored, and an i1 whether it is, None: it is."""

    offset: Linear
    active: str | None
    value: Val


class SimtTileWriter(TileWriter):
    """Writes boxes of results: each group of threads its register tiles, one after the other."""

    def __init__(
        self,
        name: str,
        tiling: Tiling,
        evaluator: Evaluator,
        emitter: SimtEmitter,
        products: Products,
    ) -> None:
        # A thread's sums stay in its registers, and every thread reads what it needs: cutting the
        # reduction would only store the sums in between.
        lanes = min(max(tiling.lanes, 1), emitter.width) if tiling.vector_dim >= 0 else 1
        registers = tuple(halved(tiling.register_tile, tiling.vector_dim, lanes, MOST_SUMS * lanes))
        alone = replace(tiling, reduction_tile=None, lanes=lanes, register_tile=registers)
        super().__init__(name, alone, evaluator, None)
        self._simt, self._products = emitter, products
        self._multiplied: Source | None = None  # what is computed from the product

    def write(
        self, piece: Piece, ranges: list[Range], results: list[ir.Value], outputs: list[Buffer]
    ) -> None:
        """As `TileWriter.write`; a product by all threads together, if that is worth it."""
        values = [piece.value] if len(results) == 1 else results
        sources = [(value, piece) for value in values]
        form = self._form(sources, ranges)
        if form is None:
            self._write_alone(piece, ranges, results, outputs)
            return

        def box(own: list[Range]) -> None:
            extents = [span.extent or 0 for span in own]
            sizes = self._products.box(form, extents, self._tiling)
            if sizes != extents:  # what is left at the end of a tile may need smaller ones again
                self._in_boxes(own, sizes, [], box)
                return
            starts = [span.start for span in own]
            plan = self._products.plan(form, starts, extents, self._tiling)
            if plan is None:
                self._write_alone(piece, own, results, outputs)
            else:
                self._write_product(plan, sources, own, outputs)

        box(ranges)

    def _in_boxes(
        self,
        ranges: list[Range],
        sizes: Sequence[int],
        done: list[Range],
        write: Callable[[list[Range]], None],
    ) -> None:
        """One box of at most `sizes` after the other."""
        if len(done) == len(ranges):
            write(done)
            return
        span, size = ranges[len(done)], sizes[len(done)]
        count, rest = divmod(span.extent or 0, size)

        def box(number: Linear, _: list[Val], extent: int = size) -> None:
            start = span.start + number * size
            own = Range(start, extent, start + extent)
            self._in_boxes(ranges, sizes, [*done, own], write)

        self._simt.loop(Linear(0), Linear(count), 1, [], box)
        if rest:
            box(Linear(count), [], rest)

    # -- products
    def _form(self, sources: Sequence[Source], ranges: list[Range]) -> Form | None:
        """The product that values may be computed from by all threads together."""
        self._root = self._multiplied = None
        for source in sources:
            root = None if source[0] is None else product_root(source[0])
            if root is not None:
                self._root, self._multiplied = root, source
                break
        if self._multiplied is None or self._root is None or any(not s.extent for s in ranges):
            return None
        symbols = [f"<{d}>" for d in range(len(ranges))]
        [at] = self._root_positions(self._multiplied, [[Linear.of(s) for s in symbols]], 0)
        return self._products.form(self._evaluator.generic(self._root), at, symbols)

    def _write_product(
        self,
        plan: Planned,
        sources: Sequence[Source],
        ranges: list[Range],
        outputs: Sequence[Buffer],
    ) -> None:
        starts, source = [span.start for span in ranges], self._multiplied
        assert source is not None  # there is a plan
        self._simt.sharing = self._simt.groups
        elements = self._products.elements(plan, len(ranges))
        with self._simt.renewed():
            positions = [_plus(starts, element()[0]) for element in elements]
            root_at = self._root_positions(source, positions, 0)
            sums = self._products.sums(plan, starts, root_at)
        for first in range(0, len(sums), _AT_ONCE):
            some = slice(first, first + _AT_ONCE)
            with self._simt.renewed():
                self._write_sums(plan, starts, sources, elements[some], sums[some], outputs)

    def _write_sums(
        self,
        plan: Planned,
        starts: list[Linear],
        sources: Sequence[Source],
        elements: Sequence[Element],
        sums: Sequence[Val],
        outputs: Sequence[Buffer],
    ) -> None:
        """The epilogue of each sum, then the stores, of neighbours as one."""
        assert self._multiplied is not None  # there is a plan
        e, found = self._simt, [list[_Result]() for _ in outputs]
        for element, value in zip(elements, sums, strict=True):
            relative, active = element()
            at = _plus(starts, relative)
            [there] = self._root_positions(self._multiplied, [at], 0)
            self._evaluator.reducer.finish(plan.form.root, there, value)
            results = self._values(list(sources), at, 0)
            for own, output, result in zip(found, outputs, results, strict=True):
                own.append(_Result(output.offset(at), active, result))
        for own, output in zip(found, outputs, strict=True):
            for run in _neighbours(own):
                first, values = run[0], [result.value for result in run]
                vector = e.gather_lanes(values) if len(values) > 1 else values[0]
                offset = first.offset + Linear.of(LANE, min(vector.lanes, 1))
                e.only(first.active, partial(self._store, vector, output, offset, vector.lanes))

    # -- everything else, each group for itself
    def _write_alone(
        self, piece: Piece, ranges: list[Range], results: list[ir.Value], outputs: list[Buffer]
    ) -> None:
        """With register tiles so small that no group is idle while another has more than one."""
        tiling, e = self._tiling, self._simt
        extents = [span.extent or 0 for span in ranges]
        if all(extents) and len(extents) == len(tiling.register_tile):
            lanes = tiling.lanes if tiling.vector_dim >= 0 else 1
            sizes = list(map(min, tiling.register_tile, extents))
            share = max(math.prod(extents) // e.groups, lanes)
            registers = tuple(halved(sizes, tiling.vector_dim, lanes, share))
            self._tiling = replace(tiling, register_tile=registers)
        try:
            super().write(piece, ranges, results, outputs)
        finally:
            self._tiling = tiling

    def _loops(
        self,
        order: list[int],
        ranges: list[Range],
        base: list[Linear],
        steps: list[int],
        leaf: Leaf,
    ) -> None:
        for choice in itertools.product(*(self._cover(d, ranges[d]) for d in order)):
            self._share_out(dict(zip(order, choice, strict=True)), base, steps, leaf)

    def _cover(self, dim: int, span: Range) -> list[_Steps]:
        """The register tiles along one dim."""
        if span.extent is None:
            return [_Steps(span.start, 1, self._length(span))]
        registers = self._tiling.register_tile
        size = registers[dim] if dim < len(registers) else 1
        if dim == self._tiling.vector_dim:
            lanes = self._tiling.lanes
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
        e = self._simt
        length, zero = e.index(span.end + span.start * -1), e.index(Linear())
        return Linear.of(e.pure(f"arith.maxsi {length}, {zero} : i64", [length, zero]))

    def _share_out(
        self, parts: dict[int, _Steps], base: list[Linear], steps: list[int], leaf: Leaf
    ) -> None:
        """All combinations of the steps of each dim; the last dim of `parts` changes fastest."""
        e = self._simt
        sizes = [parts[d].size for d in range(len(base))]
        total = self._product([part.count for part in parts.values()])

        def place(number: Linear) -> list[Linear]:
            if total.is_constant:
                e.ranges.update((symbol, total.constant) for symbol, _ in number.terms)
            at = list(base)
            for d, part in reversed(parts.items()):
                number, position = self._divide(number, part.count)
                at[d] = position * part.size + part.start
            return at

        def tile(number: Linear, _: list[Val]) -> None:
            guard = e.guard
            if idle:
                e.guard = e.depth
            leaf([place(number)], sizes)
            e.guard = guard

        def tiles(number: Linear, _: list[Val]) -> None:
            leaf([place(number + k * e.groups) for k in range(together)], sizes)

        # What all groups load in front of the loop, the one that has the element may have stored.
        idle = e.in_place and not (total.is_constant and total.constant >= e.groups)
        first = e.next_group(total.constant if total.is_constant else e.groups)
        together = self._together(sizes)
        turns = total.constant // (e.groups * together) if total.is_constant else 0
        if together > 1 and turns:
            done = Linear(turns * e.groups * together)
            e.loop(first, done, e.groups * together, [], tiles)
            first = first + done
        else:
            turns = 0
        if not total.is_constant or total.constant > turns * e.groups * together:
            e.loop(first, total, e.groups, [], tile)

    def _together(self, sizes: Sequence[int]) -> int:
        """How many register tiles a group reads before it writes the first of them.

        One load of a thread at a time has the latency of memory to itself, and no compiler moves a
        load above a store that may be to the same place. Sums have loads enough in their loops.
        """
        vector, lanes = self._tiling.vector_dim, self._tiling.lanes
        if self._sums or (vector >= 0 and sizes[vector] % lanes):
            return 1
        accesses = math.prod(sizes) // (lanes if vector >= 0 else 1)
        return max(_IN_FLIGHT // max(accesses, 1), 1)

    def _product(self, counts: list[int | Linear]) -> Linear:
        fixed = math.prod(count for count in counts if isinstance(count, int))
        e, total = self._simt, Linear(fixed)
        for count in counts:
            if isinstance(count, Linear):
                a, b = e.index(total), e.index(count)
                total = Linear.of(e.pure(f"arith.muli {a}, {b} : i64", [a, b]))
        return total

    def _divide(self, number: Linear, by: int | Linear) -> tuple[Linear, Linear]:
        """Quotient and remainder."""
        if isinstance(by, int):
            return self._evaluator.split(number, by)
        e = self._simt
        a, b = e.index(number), e.index(by)
        parts = (e.pure(f"arith.{op} {a}, {b} : i64", [a, b]) for op in ("divui", "remui"))
        quotient, remainder = parts
        return Linear.of(quotient), Linear.of(remainder)

    def register_tiles(
        self,
        bases: Sequence[list[Linear]],
        steps: list[int],
        sources: list[Source],
        outputs: list[Buffer],
    ) -> None:
        """All positions of some register tiles: reductions together, then the elementwise rest,
        then the stores.
        """
        e, placed = self._simt, [at for base in bases for at in self._placed(base, steps)]
        self._prepared.clear()
        for value, piece in sources:
            if value is not None:
                shifted = [
                    [c + -s for c, s in zip(at, piece.shift, strict=True)] for at, _ in placed
                ]
                self._prepare(value, shifted, 0)
        at_once = 1 if self._sums else _IN_FLIGHT
        for first in range(0, len(placed), at_once):
            some = placed[first : first + at_once]
            # Threads without an element compute the last one, too, but not where it may be stored
            # before they have read it.
            early = [not e.in_place or e.is_active(lanes) is None for _, lanes in some]
            found = [
                self._values(sources, at, 0) if own else None
                for (at, _), own in zip(some, early, strict=True)
            ]
            for (at, lanes), values in zip(some, found, strict=True):

                def store(at: list[Linear] = at, values: list[Val] | None = values) -> None:
                    own = self._values(sources, at, 0) if values is None else values
                    for value, output in zip(own, outputs, strict=True):
                        self._store(value, output, output.offset(at), 0)

                e.only(e.is_active(lanes), store)

    def _placed(self, base: list[Linear], steps: list[int]) -> list[tuple[list[Linear], int]]:
        """The coordinates of this thread's elements, and how many lanes have one there."""
        e, vector, lanes = self._simt, self._tiling.vector_dim, self._tiling.lanes
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


def _neighbours(results: Sequence[_Result]) -> Iterator[list[_Result]]:
    """Runs of results that one access stores."""
    k = 0
    while k < len(results):
        first = results[k]
        for count in (4, 2, 1):
            run = list(results[k : k + count])
            whole = ACCESS % (count * item_bytes(first.value.element)) == 0
            wanted = [(first.offset + n, first.active) for n in range(count)]
            if count == 1 or (
                whole
                and first.value.element != "i1"
                and [(result.offset, result.active) for result in run] == wanted
                and is_multiple(first.offset, count)
            ):
                yield run
                k += count
                break


def _plus(a: list[Linear], b: list[Linear]) -> list[Linear]:
    return [x + y for x, y in zip(a, b, strict=True)]
