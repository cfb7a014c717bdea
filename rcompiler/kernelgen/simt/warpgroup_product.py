"""Products by warpgroups: wgmma of 128 threads, 64 rows by up to 256 columns (PTX ISA, "wgmma").

The first factor's positions are rows and the second's are columns; each of the block's warpgroups
has a part of either. Both factors come in boxes by TMA (`boxed`), which one thread asks for:

    ask for the first parts of the reduction
    for each part:                                  (as many buffers as parts are under way)
        every thread waits until the part is there  (mbarrier `full`)
        warpgroups start to multiply it
        warpgroups wait until the part before is multiplied, and say so  (mbarrier `free`)
        one thread waits until all have said so, and asks for the next part into that buffer

Products are exact in f32 and add in f32, 16 steps at a time in an order that the operator decides
(`boxed.Chunks`): no tile changes a bit. Those of bytes add in i32, 32 steps at a time.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

from rcompiler.kernelgen.simt.box_ring import BoxRing
from rcompiler.kernelgen.simt.boxed import ATOM, Boxed, Chunks, boxed, chunks_of
from rcompiler.kernelgen.simt.emitter import GLOBAL, SimtEmitter
from rcompiler.kernelgen.simt.evaluator import SimtEvaluator
from rcompiler.kernelgen.simt.product import Element, halve, places_of_sums, types_of
from rcompiler.kernelgen.simt.source import Reading
from rcompiler.kernelgen.simt.strides import Strides, strides_of
from rcompiler.kernelgen.simt.tensor_maps import TensorMaps
from rcompiler.kernelgen.simt.units import chunks_in_boxes
from rcompiler.kernelgen.simt.warpgroup import THREADS, Accumulators, descriptor
from rcompiler.kernelgen.simt.workspace import Workspace, no_room
from rcompiler.kernelgen.tiling import Tiling
from rcompiler.kernelgen.value import Val
from rcompiler.linalg.affine import Coordinates, Linear
from rcompiler.linalg.product import Form
from rcompiler.roller.matrix_unit import MOST_SIDE, Cover, by_lines, lines_of

ROWS, STEP_BYTES = 64, 32  # of one instruction, whose steps are bytes of a position
_COLUMNS, _MOST_COLUMNS = 8, 256
_PART = 128  # bytes of a position that one part should have
# Small tiles have parts of more steps: to meet over a part takes a third of a microsecond.
_PART_BYTES = 48 << 10
_LEAST_PARTS = 3  # there are so many all the same: while one is multiplied the next ones come
_MOST_SLOTS = 4  # parts under way at a time, the one that is multiplied included


@dataclass(frozen=True)
class WarpgroupProduct:
    """How a block computes a tile of a product.

    sides: the factors; groups: warpgroups along rows and columns; tiles: of `ROWS` rows that each
    has; columns: that each has. chunks: in one part; slots: buffers of a part, the first of which
    begins at byte `offset` of the workspace.
    """

    form: Form
    sides: tuple[Boxed, Boxed]
    groups: tuple[int, int]
    tiles: int
    columns: int
    chunks: int
    slots: int
    offset: int

    @property
    def part(self) -> int:
        """Bytes of a part."""
        return self.chunks * sum(side.bytes for side in self.sides)

    @property
    def parts(self) -> int:
        return _chunk_count(self.form, self.sides[0].chunks) // self.chunks

    @property
    def end(self) -> int:
        """Byte of the workspace behind all buffers, and their counters."""
        return self.offset + self.slots * (self.part + BoxRing.COUNTERS)


class WarpgroupProducts:
    """Plans and writes products for warpgroups."""

    def __init__(
        self,
        evaluator: SimtEvaluator,
        emitter: SimtEmitter,
        workspace: Workspace,
        maps: TensorMaps,
    ) -> None:
        self._evaluator, self._e, self._maps = evaluator, emitter, maps
        self._start = -(-workspace.start // ATOM) * ATOM
        self._workspace = workspace
        self._strides: dict[tuple[object, int], Strides | None] = {}

    def multiplies(self, form: Form) -> bool:
        """Whether boxes can bring both factors, by the operator alone."""
        found = [self._strides_of(form, factor) for factor in (0, 1)]
        return chunks_in_boxes(form, found, self._e.threads) is not None

    def _strides_of(self, form: Form, factor: int) -> Strides | None:
        key = form.root.op.result, factor
        if key not in self._strides:
            e = self._e
            self._strides[key] = strides_of(
                form,
                factor,
                self._evaluator.buffers,
                lambda buffer: e.pointer_type(buffer.pointer) == GLOBAL,
            )
        return self._strides[key]

    # -- plans
    def box(self, form: Form, extents: Sequence[int], tiling: Tiling) -> list[int]:
        """The part of a tile that is computed at once: one matrix product."""
        batch = form.batch(len(extents))
        found = [1 if d in batch else n for d, n in enumerate(extents)]
        while self._planned(form, found) is None:
            sides = self._sides(form, found)
            crowded = [side for side in sides if not side.fits]
            if crowded:  # a box has few dims: the outermost one is walked
                d = next(d for d in crowded[0].dims if found[d] > 1)
                found[d] = 1 if found[d] <= MOST_SIDE else MOST_SIDE
                continue
            if not halve(found):
                break
        return found

    def plan(self, reading: Reading, extents: Sequence[int], tiling: Tiling) -> WarpgroupProduct:
        """Of a `box`. CompilerError if not even two parts of one row and column fit the shared
        memory: see `MatrixProducts.plan`.
        """
        found = self._planned(reading.form, extents)
        if found is None:
            raise no_room(self._workspace)
        return found

    def _planned(self, form: Form, extents: Sequence[int]) -> WarpgroupProduct | None:
        sides = self._sides(form, extents)
        if not all(side.fits for side in sides):
            return None
        cover = self._cover(sides[0], sides[1:])
        if cover is None:
            return None
        groups, tiles, columns = cover.groups, cover.tiles[0], cover.each[1]
        first, second = (replace(s, filled=n) for s, n in zip(sides, cover.covered, strict=True))
        count = _chunk_count(form, first.chunks)
        steps = max(_PART // first.item, first.chunks.size)
        most = steps, _PART_BYTES // (first.bytes + second.bytes)
        chunks = max(
            n
            for n in (4, 2, 1)
            if count % n == 0
            and (n * first.chunks.size <= most[0] or n <= min(most[1], count // _LEAST_PARTS))
        )
        for slots in range(_MOST_SLOTS, 1, -1):
            slots = min(slots, max(count // chunks, 1))
            found = WarpgroupProduct(
                form, (first, second), groups, tiles, columns, chunks, slots, self._start
            )
            if found.end <= self._workspace.room:
                return found
        return None

    def _sides(self, form: Form, extents: Sequence[int]) -> tuple[Boxed, Boxed]:
        strides = [side for k in (0, 1) if (side := self._strides_of(form, k)) is not None]
        chunks = chunks_of(form, strides)
        assert chunks is not None  # multiplies
        first, second = (boxed(form, k, strides[k], chunks, extents) for k in (0, 1))
        if second.unit:  # warpgroups share whole lines: shorter ones where some would have none
            choices = [replace(second, unit=n) for n in lines_of(second.extents[-1])]
            cover = self._cover(first, choices)
            second = replace(second, unit=cover.granules[1]) if cover else second
        return first, second

    def _cover(self, first: Boxed, seconds: Sequence[Boxed]) -> Cover | None:
        """How the warpgroups share rows and columns, where the second factor may come in several
        ways; None if threads have no registers for that.
        """
        columns = [(side.positions, side.unit or _granule(side)) for side in seconds]
        count = self._e.threads // THREADS
        return by_lines(count, first.positions, columns, ROWS, _MOST_COLUMNS)

    # -- code
    def elements(self, product: WarpgroupProduct, rank: int) -> list[Element]:
        """Every sum of a thread."""
        rows = range(0, product.tiles * ROWS, ROWS)
        places = places_of_sums(rows, range(0, product.columns, _COLUMNS))
        return [partial(self._element, product, rank, *place) for place in places]

    def _element(
        self, product: WarpgroupProduct, rank: int, row: int, column: int
    ) -> tuple[Coordinates, str | None]:
        """The element that a warpgroup's thread 0 has at `row` and `column` of what it computes."""
        split, e = self._evaluator.split, self._e
        group, thread = split(Linear.of(e.thread), THREADS)
        warp, lane = split(thread, e.warp)
        quad, inside = split(lane, 4)
        down, across = self._place(product, group)
        first = down * (product.tiles * ROWS) + warp * 16 + quad + row
        second = across * product.columns + inside * 2 + column
        at, conditions = [Linear()] * rank, []
        for side, position in zip(product.sides, (first, second), strict=True):
            position, active = e.at_most(position, side.positions, side.filled)
            conditions.append(active)
            for d, where in side.coordinates(position, split).items():
                at[d] = where
            if side.unit:
                d, extent = side.dims[-1], side.extents[-1]
                at[d], active = e.at_most(at[d], extent, side.units * side.unit)
                conditions.append(active)
        return at, e.all_of(conditions)

    def _place(self, product: WarpgroupProduct, group: Linear) -> tuple[Linear, Linear]:
        """Where a warpgroup is, along rows and columns."""
        if product.groups[1] == 1:
            return group, Linear()
        if product.groups[0] == 1:
            return Linear(), group
        return self._evaluator.split(group, product.groups[1])

    def sums(self, product: WarpgroupProduct, reading: Reading, begin: Sequence[Val]) -> list[Val]:
        """The sums of a thread; begin: what they start with."""
        e, split = self._e, self._evaluator.split
        ring = BoxRing(
            self._evaluator,
            e,
            product.sides,
            product.chunks,
            product.slots,
            product.offset,
            self._maps,
        )
        each = product.columns // 2
        sums = Accumulators(e, types_of(product.form), product.columns)
        group, _ = split(Linear.of(e.thread), THREADS)
        corners = self._corners(product, group)
        carried = [sums.pack(begin[i * each : (i + 1) * each]) for i in range(product.tiles)]

        def multiply(carried: list[Val], start: str) -> list[Val]:
            sums.fence()
            place = Linear()
            for _ in range(product.chunks):
                carried = self._multiply(product, sums, carried, start, place, corners)
                place = place + sum(side.bytes for side in product.sides)
            sums.commit()
            return carried

        carried = ring.run(reading.starts, product.parts, carried, multiply, sums.wait)
        return [value for packed in carried for value in sums.unpack(packed)]

    def _corners(self, product: WarpgroupProduct, group: Linear) -> tuple[Linear, Linear]:
        """Bytes in front of what a warpgroup multiplies of a chunk of either factor."""
        down, across = self._place(product, group)
        first, second = (_line_bytes(side) for side in product.sides)
        return down * (product.tiles * ROWS * first), across * (product.columns * second)

    def _multiply(
        self,
        product: WarpgroupProduct,
        sums: Accumulators,
        carried: list[Val],
        start: str,
        place: Linear,
        corners: tuple[Linear, Linear],
    ) -> list[Val]:
        """The sums after a chunk, whose bytes begin at `place` behind `start`."""
        first, second = product.sides
        behind = place + first.bytes
        for k in range(0, first.chunks.size, STEP_BYTES // first.item):
            right = descriptor(self._e, second, start, behind + corners[1] + _step_bytes(second, k))
            for i in range(product.tiles):
                at = place + corners[0] + i * ROWS * _line_bytes(first) + _step_bytes(first, k)
                left = descriptor(self._e, first, start, at)
                turned = bool(first.unit), bool(second.unit)
                carried[i] = sums.multiply(carried[i], left, right, *turned)
        return carried


def _line_bytes(side: Boxed) -> int:
    """Of a chunk, of one position: all its steps."""
    return side.chunks.size * side.item if side.unit else side.line


def _step_bytes(side: Boxed, step: int) -> int:
    """Bytes in front of a step of a chunk."""
    return step * (side.line if side.unit else side.item)


def _granule(side: Boxed) -> int:
    """What the columns of one instruction are a multiple of: of bytes there are not all of 8."""
    return 2 * _COLUMNS if side.item == 1 else _COLUMNS


def _chunk_count(form: Form, chunks: Chunks) -> int:
    sizes = form.root.sizes
    return -(-sizes[chunks.loop] // chunks.size) * math.prod(sizes[j] for j in chunks.outer)
