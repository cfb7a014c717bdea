"""Sums of dot groups on the tile registers of a core (AMX): whole register tiles at once.

    tilezero 0 ...                                   sums
    loop over the reduction:
      tileloadd 4, 5 (rows), 6, 7 (columns)          16 words of each row; 16 words of 16 columns
      tdpbusd 0, 4, 6 ... 3, 5, 7                    all pairs
    tilestored 0 ...                                 into memory of the task, which vectors read

Products of bytes are exact, as those of vectors are: which of both computes a register tile does
not show in its results. `tdpbf16ps` adds up f32: of each step the products of even and of odd
numbers, both sums, and that to the sum. How a register tile is covered: `tile_cover`; the shapes of
the registers: `tile_shapes`.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise, product

from rcompiler.device.matrix_unit import AMX, MatrixUnit
from rcompiler.kernelgen.accumulators import Accumulators, Spans
from rcompiler.kernelgen.buffer import Buffer
from rcompiler.kernelgen.emitter import Emitter
from rcompiler.kernelgen.reader import NeedsScalars, Reader
from rcompiler.kernelgen.tile_order import step_of
from rcompiler.kernelgen.tile_shapes import COLUMNS, ROWS, SUMS, WORD, TileShapes
from rcompiler.kernelgen.value import Val
from rcompiler.linalg.affine import Linear, lanes_differ
from rcompiler.linalg.constants import scalar_of
from rcompiler.linalg.dot_group import SUMS as SUMS_OF
from rcompiler.linalg.dot_group import DotGroup
from rcompiler.linalg.generic import Generic
from rcompiler.linalg.values import defining
from rcompiler.roller.tile_cover import MOST, TileCover, tile_cover

# by the element, and whether the factor of the rows, and that of the columns, is signed
_PRODUCTS = {
    ("i8", True, True): "tdpbssd",
    ("i8", True, False): "tdpbsud",
    ("i8", False, True): "tdpbusd",
    ("i8", False, False): "tdpbuud",
    ("bf16", True, True): "tdpbf16ps",
}


@dataclass(frozen=True)
class Waiting:
    """Finished sums that wait in memory until they are read, `lanes` of them from `offset` on."""

    buffer: Buffer
    offset: Linear
    lanes: int


@dataclass(frozen=True)
class _Factor:
    """Where a factor lies: elements from `buffer` on, of each row, or of each vector of columns,
    before the first step. `step`: elements from one word of the reduction to the next.
    """

    operand: int
    buffer: Buffer
    starts: tuple[Linear, ...]
    step: int


@dataclass(frozen=True)
class _Product:
    """A register tile on tile registers. `at`: number of the row and of the column of each
    position; `row_step`: elements between the rows of a tile; `words`: of the reduction dim `dim`
    in a step.
    """

    group: DotGroup
    rows: _Factor
    columns: _Factor
    dim: int
    at: tuple[tuple[int, int], ...]
    cover: TileCover
    row_step: int
    words: int

    @property
    def element(self) -> str:
        """Type of the sums."""
        return SUMS_OF[self.group.element]

    @property
    def item(self) -> int:
        """Bytes of an element of the factors."""
        return WORD // self.group.steps

    @property
    def shapes(self) -> TileShapes:
        return TileShapes(self.cover.rows, self.words)

    def sums(self, group: range) -> list[tuple[int, int, int]]:
        """Each tile of sums of some columns of tiles: its register, its row and its column."""
        pairs = product(range(self.cover.down), enumerate(group))
        return [(SUMS[MOST * i + k], i, j) for i, (k, j) in pairs]


class TileProducts:
    """Writes reductions that tile registers compute."""

    def __init__(self, reader: Reader, accumulators: Accumulators) -> None:
        self._reader, self._accumulators = reader, accumulators

    @property
    def _e(self) -> Emitter:
        return self._reader.emitter

    def sums(
        self, generic: Generic, positions: list[list[Linear]], lanes: int
    ) -> list[list[Waiting]] | None:
        """For each position the sum, which waits in memory; None where vectors compute them."""
        group = self._accumulators.group(generic)
        if group is None or group.element not in self._e.tiles:
            return None
        unit = AMX[group.element]
        if lanes != unit.columns:
            return None
        tiles = self._product(generic, group, unit, positions, lanes)
        if tiles is None:
            return None
        cover = tiles.cover
        shape = (cover.rows * cover.down, cover.across, lanes)
        key = ("tile sums", generic.op, tuple(tuple(at) for at in positions))
        buffer = self._reader.slots.take(generic.op, shape, tiles.element, key, self._e.depth)
        if buffer is None:
            return None
        self._e.remember(key, buffer)
        waiting = [
            Waiting(buffer, buffer.offset([Linear(row), Linear(column), Linear()]), lanes)
            for row, column in tiles.at
        ]
        self._e.line(tiles.shapes.mark)
        zeros = self._started(generic, tiles, positions, waiting)
        for columns in cover.groups:
            self._begin(tiles, columns, buffer, zeros=zeros)
            self._multiply(generic, tiles, columns)
            self._move_sums("tilestored64", tiles, columns, buffer)
        return [[each] for each in waiting]

    def loaded(self, sums: Waiting) -> Val:
        """Sums that wait in memory."""
        buffer = sums.buffer
        return self._e.load(buffer.pointer, buffer.element, sums.offset, sums.lanes, readonly=False)

    # -- what is covered
    def _product(
        self,
        generic: Generic,
        group: DotGroup,
        unit: MatrixUnit,
        positions: list[list[Linear]],
        lanes: int,
    ) -> _Product | None:
        dim, words = step_of(generic, group, unit.depth)
        if not words:
            return None
        try:
            factors = [self._factor(generic, k, positions, dim, lanes) for k in group.factors]
        except NeedsScalars:
            return None
        if None in factors:
            return None
        wide = [lanes_differ(f.starts) for f in factors if f is not None]
        if wide.count(True) != 1:
            return None
        rows, columns = sorted(
            (f for f in factors if f is not None), key=lambda f: wide[factors.index(f)]
        )
        signed = group.signed if factors[0] == rows else group.signed[::-1]
        if rows.step != group.steps or any(s.stride != group.steps for s in columns.starts):
            return None
        numbers = [{s: n for n, s in enumerate(dict.fromkeys(f.starts))} for f in (rows, columns)]
        at = tuple(
            (numbers[0][a], numbers[1][b]) for a, b in zip(rows.starts, columns.starts, strict=True)
        )
        if len(set(at)) != len(at) or len(at) != len(numbers[0]) * len(numbers[1]):
            return None
        found = _runs(list(numbers[0]))
        if found is None:
            return None
        run, runs, row_step = found
        cover = tile_cover(run, runs, len(numbers[1]), unit)
        if cover is None:
            return None
        group = DotGroup(
            (rows.operand, columns.operand), (signed[0], signed[1]), group.element, group.dim
        )
        rows, columns = (
            _Factor(f.operand, f.buffer, tuple(n), f.step)
            for f, n in zip((rows, columns), numbers, strict=True)
        )
        return _Product(group, rows, columns, dim, at, cover, row_step, words)

    def _factor(
        self, generic: Generic, operand: int, positions: list[list[Linear]], dim: int, lanes: int
    ) -> _Factor | None:
        """A factor that lies in memory, with its words at equal distances along `dim`."""
        starts, kinds = [], set()
        known: dict[tuple[Linear, ...], tuple[Linear, Buffer, int] | None] = {}
        for position in positions:
            dims = generic.loop_dims(position)
            used = tuple([dims[d] for d in generic.operand_dims[operand]])  # of many positions
            if used not in known:
                known[used] = self._words_of(generic, operand, dims, dim, lanes)
            found = known[used]
            if found is None:
                return None
            start, buffer, step = found
            starts.append(start)
            kinds.add((buffer, step))
        if len(kinds) != 1:
            return None
        [(buffer, step)] = kinds
        return _Factor(operand, buffer, tuple(starts), step)

    def _words_of(
        self, generic: Generic, operand: int, dims: list[Linear], dim: int, lanes: int
    ) -> tuple[Linear, Buffer, int] | None:
        """Where the words of one position begin, the memory they lie in, and their distance along
        `dim`; None if they are not at equal distances in one memory.
        """
        buffers, places = set(), []
        for word in (0, 1, generic.sizes[dim] - 1):
            point = [Linear(word) if d == dim else c for d, c in enumerate(dims)]
            at = self._reader.coordinates(generic, operand, point, lanes)
            buffer, offset = self._reader.place_of(generic.inputs[operand], at, lanes)
            buffers.add(buffer)
            places.append(offset)
        _, second, last = (p + places[0] * -1 for p in places)
        if not second.is_constant or last != second * (generic.sizes[dim] - 1):
            return None
        return (places[0], buffers.pop(), second.constant) if len(buffers) == 1 else None

    # -- code
    def _started(
        self,
        generic: Generic,
        tiles: _Product,
        positions: list[list[Linear]],
        waiting: list[Waiting],
    ) -> bool:
        """Put the sums before the first step into their memory; True: they are zeros, which need
        none.
        """
        init = defining(generic.inits[0])
        if init is not None and init.name == "linalg.fill" and scalar_of(init.operands[0]) == 0:
            return True
        for at, sums in zip(positions, waiting, strict=True):
            value = self._reader.read(generic.inits[0], at, sums.lanes)
            started = self._accumulators.start(generic, value, tiles.element, sums.lanes)
            self._e.store(started, sums.buffer.pointer, sums.offset)
        return False

    def _begin(self, tiles: _Product, columns: range, buffer: Buffer, *, zeros: bool) -> None:
        """The sums before the first step, in their registers."""
        if not zeros:
            self._move_sums("tileloadd64", tiles, columns, buffer)
            return
        for register, *_ in tiles.sums(columns):
            self._call("tilezero", [register], [], [])

    def _multiply(self, generic: Generic, tiles: _Product, columns: range) -> None:
        """All steps of the reduction."""
        dims = [d for d in generic.reduction_dims if d != tiles.group.dim]
        words, last = tiles.words, tiles.dim
        turns = {d: generic.sizes[d] // (words if d == last else 1) for d in dims}
        spans: Spans = {d: (Linear(), count) for d, count in turns.items()}

        def update(point: dict[int, Linear], values: list[Val]) -> list[Val]:
            at = {**point, last: point[last] * words}
            self._step(generic, tiles, columns, at)
            return values

        self._accumulators.looped(spans, dict.fromkeys(dims, 1), [], update)

    def _step(
        self, generic: Generic, tiles: _Product, columns: range, at: dict[int, Linear]
    ) -> None:
        """One step: load both factors, multiply all pairs."""
        cover = tiles.cover
        moved = [self._moved(generic, k, at) for k in tiles.group.factors]
        for i in range(cover.down):
            place = tiles.rows.starts[i * cover.rows] + moved[0]
            stride = tiles.row_step * tiles.item
            self._tile("tileloadd64", ROWS[i], tiles.rows.buffer, place, stride)
        for k, j in enumerate(columns):
            place = tiles.columns.starts[j].first + moved[1]
            stride = tiles.columns.step * tiles.item
            self._tile("tileloadd64", COLUMNS[k], tiles.columns.buffer, place, stride)
        name = _PRODUCTS[tiles.group.element, *tiles.group.signed]
        for sums, i, j in tiles.sums(columns):
            self._call(name, [sums, ROWS[i], COLUMNS[columns.index(j)]], [], [])

    def _moved(self, generic: Generic, operand: int, at: dict[int, Linear]) -> Linear:
        """Elements from where a factor is read in the first step to where it is in another one."""
        none = [Linear()] * len(generic.sizes)
        point = [at.get(d, c) for d, c in enumerate(none)]
        first, other = (
            self._reader.place_of(
                generic.inputs[operand], self._reader.coordinates(generic, operand, dims, 0), 0
            )[1]
            for dims in (none, point)
        )
        return other + first * -1

    def _move_sums(self, name: str, tiles: _Product, columns: range, buffer: Buffer) -> None:
        """Load or store the tiles of sums of some columns of tiles."""
        rows, distance = tiles.cover.rows, buffer.shape[1] * buffer.shape[2] * WORD
        for register, i, j in tiles.sums(columns):
            place = buffer.offset([Linear(i * rows), Linear(j), Linear()])
            self._tile(name, register, buffer, place, distance)

    def _tile(self, name: str, register: int, buffer: Buffer, place: Linear, stride: int) -> None:
        """Load or store a tile register, rows `stride` bytes apart."""
        address = self._e.address(buffer.pointer, buffer.element, place)
        distance = self._e.index(Linear(stride))
        type_ = self._e.pointer_type(buffer.pointer)
        self._call(name, [register], [address, distance], [type_, "i64"])

    def _call(self, name: str, registers: list[int], operands: list[str], types: list[str]) -> None:
        """An instruction on registers, whose numbers must be constants.

        MLIR merges blocks that differ in operands only, and gives them arguments: those of a branch
        with registers 0 and 1 and of one with 0 and 2. An attribute with the numbers tells the
        instructions apart (the driver of patterns in convert-vector-to-llvm simplifies regions).
        """
        numbers = [self._e.constant(n, "i8").name for n in registers]
        text = f'llvm.call_intrinsic "llvm.x86.{name}"({", ".join([*numbers, *operands])})'
        kinds = ", ".join(["i8"] * len(numbers) + types)
        told = f"{{registers = array<i8: {', '.join(map(str, registers))}>}}"
        self._e.line(f"{text} {told} : ({kinds}) -> ()")


def _runs(starts: list[Linear]) -> tuple[int, int, int] | None:
    """(rows in a run, runs, elements between the rows of a run) of rows in their order; None where
    runs differ, or the distances are not known.
    """
    steps = [b + a * -1 for a, b in pairwise(starts)]
    if not steps:
        return 1, 1, 0
    if not steps[0].is_constant:
        return None
    run = 1 + next((n for n, step in enumerate(steps) if step != steps[0]), len(steps))
    if len(starts) % run:
        return None
    inside = [step for n, step in enumerate(steps, 1) if n % run]
    if any(step != steps[0] for step in inside):
        return None
    return run, len(starts) // run, steps[0].constant
