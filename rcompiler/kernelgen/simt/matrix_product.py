"""Products by matrix units: mma.sync of a warp, 16 rows by 8 columns (PTX ISA, "mma").

The first factor's positions are rows and the second's are columns; each warp has a part of both.
Products are exact in f32 and add in f32, 16 steps of the reduction (tf32: 8) at a time from its
first step on, whatever the tile: no tile changes a bit. Products of bytes, each factor with a sign
or without, add in i32, 32 steps at a time; sums wrap, as those of a CPU do.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial

from rcompiler.kernelgen.simt.emitter import SimtEmitter
from rcompiler.kernelgen.simt.evaluator import SimtEvaluator
from rcompiler.kernelgen.simt.fragments import COLUMNS, ROWS, STORED, Fragments
from rcompiler.kernelgen.simt.operand import Side, is_by_steps, odd_pitch
from rcompiler.kernelgen.simt.operand_ring import OperandRing, Starts
from rcompiler.kernelgen.simt.product import Element, Product, halve, places_of_sums, types_of
from rcompiler.kernelgen.simt.source import Reading
from rcompiler.kernelgen.simt.workspace import Workspace, no_room
from rcompiler.kernelgen.tiling import Tiling
from rcompiler.kernelgen.value import Val
from rcompiler.linalg.affine import Coordinates, Linear
from rcompiler.linalg.product import Form
from rcompiler.roller.matrix_unit import by_warps
from rcompiler.roller.thread_tiles import MOST_SUMS

_STEPS = {"f16": 16, "bf16": 16, "tf32": 8, "i8": 32}  # of one instruction
_PARTS = (64, 32, 16, 8)  # steps in one part, the most first
_LONG = 32  # steps of a part, or two of an instruction if that is more
_MOST_FETCHED = 80  # elements of the smallest part, of a thread


class MatrixProducts:
    """Plans and writes products for the matrix units."""

    def __init__(
        self, evaluator: SimtEvaluator, emitter: SimtEmitter, workspace: Workspace
    ) -> None:
        self._evaluator, self._e, self._workspace = evaluator, emitter, workspace

    def box(self, form: Form, extents: Sequence[int], tiling: Tiling) -> list[int]:
        """The part of a tile that is computed at once: one matrix product."""
        batch = form.batch(len(extents))
        found = [1 if d in batch else n for d, n in enumerate(extents)]
        most = MOST_SUMS * self._e.threads
        while self._padded(form, found) > most or not self._fits(form, found, tiling):
            if not halve(found):
                break
        return found

    def _padded(self, form: Form, extents: Sequence[int]) -> int:
        """Sums of a block, those that hang over included."""
        shares = self._shares(form, extents)
        return (
            math.prod(shares)
            * self._tiles(form, extents, shares, 0)
            * ROWS
            * (self._tiles(form, extents, shares, 1) * COLUMNS)
        )

    def _shares(self, form: Form, extents: Sequence[int]) -> tuple[int, int]:
        """Warps along rows and columns: the least that hangs over, then the least that is read."""
        positions = [math.prod(extents[d] for d in form.used[factor]) for factor in (0, 1)]
        return by_warps(self._e.threads // self._e.warp, positions, (ROWS, COLUMNS)).groups

    @staticmethod
    def _tiles(form: Form, extents: Sequence[int], shares: Sequence[int], factor: int) -> int:
        """Tiles of one instruction that a warp has along the positions of a factor."""
        positions = math.prod(extents[d] for d in form.used[factor])
        return -(-positions // (shares[factor] * (ROWS, COLUMNS)[factor]))

    def plan(self, reading: Reading, extents: Sequence[int], tiling: Tiling) -> Product:
        """Of a `box`. CompilerError if not even the smallest part fits the shared memory:
        multiply-adds instead would give other bits than they do under another tile.
        """
        form, product = reading.form, None
        shares, sides = self._sides(form, extents, tiling)
        tiles = self._tiles(form, extents, shares, 0), self._tiles(form, extents, shares, 1)
        for steps in _parts(form):
            pitches = [_pitch(side, steps) for side in sides]
            found = self._workspace.operands(self._evaluator, reading, sides, pitches, steps)
            if found is None:
                continue
            product = Product(form, found, steps, shares, tiles)
            if product.is_light(4 * math.prod(tiles), self._e.block):
                break
        if product is None:
            raise no_room(self._workspace)
        return product

    def _fits(self, form: Form, extents: Sequence[int], tiling: Tiling) -> bool:
        """Whether parts of both factors fit the shared memory, and registers if threads fetch them
        so.
        """
        _, sides = self._sides(form, extents, tiling)
        most = _MOST_FETCHED * self._e.threads // sum(side.filled for side in sides)
        return any(
            self._workspace.fits(form, sides, [_pitch(side, steps) for side in sides], steps)
            for steps in _parts(form)
            if steps <= most
        )

    def _sides(
        self, form: Form, extents: Sequence[int], tiling: Tiling
    ) -> tuple[tuple[int, int], tuple[Side, Side]]:
        """The warps along rows and columns, and both factors of a tile."""
        shares = self._shares(form, extents)
        first, second = (self._side(form, k, extents, tiling, shares) for k in (0, 1))
        return shares, (first, second)

    def _side(
        self,
        form: Form,
        factor: int,
        extents: Sequence[int],
        tiling: Tiling,
        shares: Sequence[int],
    ) -> Side:
        assert form.unit is not None
        number = form.factors[factor]
        dims = tuple(sorted(form.used[factor], key=lambda d: (d == tiling.vector_dim, d)))
        sizes = tuple(extents[d] for d in dims)
        side = (ROWS, COLUMNS)[factor]
        covered = shares[factor] * self._tiles(form, extents, shares, factor) * side
        by_steps, element = is_by_steps(form.root, number), STORED[form.unit]
        step_lines = by_steps or element == "i8"
        return Side(number, element, dims, sizes, covered, by_steps, step_lines)

    # -- code
    def elements(self, product: Product, rank: int) -> list[Element]:
        """Every sum of a thread."""
        rows, columns = product.tiles
        places = places_of_sums(range(0, rows * ROWS, ROWS), range(0, columns * COLUMNS, COLUMNS))
        return [partial(self._element, product, rank, *place) for place in places]

    def _element(
        self, product: Product, rank: int, row: int, column: int
    ) -> tuple[Coordinates, str | None]:
        """The element that lane 0 of a warp has at `row` and `column` of what the warp computes."""
        lane, warp = self._thread()
        quad, inside = self._evaluator.split(lane, 4)
        first = self._corner(product, warp, 0) + row + quad
        second = self._corner(product, warp, 1) + column + inside * 2
        at, conditions = [Linear()] * rank, []
        for operand, position in zip(product.operands, (first, second), strict=True):
            position, active = self._e.at_most(position, operand.positions, operand.filled)
            conditions.append(active)
            for d, inner in operand.coordinates(position, self._evaluator.split).items():
                at[d] = inner
        return at, self._e.all_of(conditions)

    def _thread(self) -> tuple[Linear, Linear]:
        """Lane and warp of this thread."""
        warp, lane = self._evaluator.split(Linear.of(self._e.thread), self._e.warp)
        return lane, warp

    def _corner(self, product: Product, warp: Linear, factor: int) -> Linear:
        """The first position of an operand that this warp multiplies."""
        parts = self._evaluator.split(warp, product.shares[1])
        return parts[factor] * (product.tiles[factor] * (ROWS, COLUMNS)[factor])

    def sums(self, product: Product, reading: Reading, begin: Sequence[Val]) -> list[Val]:
        """The sums of this thread; begin: what they start with."""
        unit = product.form.unit
        assert unit is not None
        granule, types = _STEPS[unit], types_of(product.form)
        ring = OperandRing(
            self._evaluator, self._e, product, reading, granule, lambda v: self._stored(v, unit)
        )
        fragments = Fragments(self._evaluator, self._e, product, ring)
        lane, warp = self._thread()
        corners = [self._corner(product, warp, k) for k in (0, 1)]

        def multiply(sums: list[Val], steps: int, starts: Starts) -> list[Val]:
            rows, columns = product.tiles
            for first in range(0, steps, granule):
                a = fragments.rows(lane, corners[0], rows, first, starts[0])
                b = fragments.columns(lane, corners[1], columns, first, starts[1])
                for i in range(rows):
                    for j in range(columns):
                        here = slice(4 * (i * columns + j), 4 * (i * columns + j) + 4)
                        sums[here] = self._mma(types, granule, a[i], b[j], sums[here])
            return sums

        return ring.run(list(begin), multiply)

    def _stored(self, value: Val, unit: str) -> Val:
        """An element as the unit multiplies it, floats rounded to nearest."""
        e, element = self._e, STORED[unit]
        if unit != "tf32" and value.element == element:
            return value
        wide = self._evaluator.body.widen(value)
        if unit != "tf32":
            return e.convert("truncf", wide, element)
        return e.bitcast(e.tf32(wide), "f32", dialect="llvm")

    def _mma(
        self,
        types: tuple[str, str],
        steps: int,
        a: Sequence[str],
        b: Sequence[str],
        sums: Sequence[Val],
    ) -> list[Val]:
        """The four sums of this thread after one instruction, which has so many steps; types: of
        both factors, as PTX names them.
        """
        e, total = self._e, sums[0].element
        kind = "vector<2xf16>" if types[0] == "f16" else "i32"
        named = "".join(
            f"multiplicand{side}PtxType = #nvvm.mma_type<{type_}>, "
            for side, type_ in zip("AB", types, strict=True)
            if type_ != "f16"
        )
        wraps = "intOverflowBehavior = #nvvm.mma_int_overflow<wrapped>, " * (total == "i32")
        attributes = (
            f"{wraps}layoutA = #nvvm.mma_layout<row>, layoutB = #nvvm.mma_layout<col>, {named}"
            f"shape = #nvvm.shape<m = {ROWS}, n = {COLUMNS}, k = {steps}>"
        )
        result = f"!llvm.struct<({', '.join([total] * 4)})>"
        c = ", ".join(value.name for value in sums)
        name = e.define(e.fresh("m"))
        e.line(
            f"{name} = nvvm.mma.sync A[{', '.join(a)}] B[{', '.join(b)}] C[{c}] {{{attributes}}} "
            f": ({kind}, {kind}, {total}) -> {result}"
        )
        return [Val(e.part(name, k, result), total) for k in range(4)]


def _parts(form: Form) -> list[int]:
    """Steps that a part may have, the most first."""
    assert form.unit is not None
    granule = _STEPS[form.unit]
    return [n for n in _PARTS if n % granule == 0 and n <= max(_LONG, 2 * granule)]


def _pitch(side: Side, steps: int) -> int:
    """Elements of a line without bank conflicts: of lines of steps, and all that ldmatrix reads,
    eight neighbouring lines are read at a time; of positions of tf32, 4 lines x 8 elements.
    """
    if side.step_lines or side.element != "f32":
        return odd_pitch(steps if side.step_lines else side.filled, side.item)
    return side.filled + (8 - side.filled) % 16
