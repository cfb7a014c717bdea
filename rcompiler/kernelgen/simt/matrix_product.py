"""Products by matrix units: mma.sync of a warp, 16 rows by 8 columns (PTX ISA, "mma").

The first factor's positions are rows and the second's are columns; each warp has a part of both.
Products are exact in f32 and add in f32, 16 steps of the reduction (tf32: 8) at a time from its
first step on, whatever the tile: no tile changes a bit.

Operands lie as (step, position), so the 8x8 blocks that ldmatrix moves are turned on the way
(`.trans`), those of both factors alike.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from functools import partial

from rcompiler.kernelgen.affine import Linear
from rcompiler.kernelgen.evaluate import Evaluator
from rcompiler.kernelgen.simt.emitter import SHARED, SimtEmitter
from rcompiler.kernelgen.simt.product import (
    Coordinates,
    Element,
    Form,
    Operand,
    Product,
    is_by_steps,
)
from rcompiler.kernelgen.simt.scalar_product import MOST_SUMS, MOST_VALUES
from rcompiler.kernelgen.simt.staging import Staging
from rcompiler.kernelgen.tiling import Tiling
from rcompiler.kernelgen.value import Val

ROWS, COLUMNS = 16, 8  # of one instruction
_STEPS = {"f16": 16, "bf16": 16, "tf32": 8}  # of one instruction
_STORED = {"f16": "f16", "bf16": "bf16", "tf32": "f32"}
_PARTS = (32, 16, 8)  # steps in one part, the most first
# Elements between the rows of an operand: 16 bytes, as ldmatrix reads them, and no two of the eight
# rows of a block in one bank; of tf32, which is read by 4 steps x 8 positions, the same.
_PAD = 8


class MatrixProducts:
    """Plans and writes products for the matrix units."""

    def __init__(self, evaluator: Evaluator, emitter: SimtEmitter, start: int, room: int) -> None:
        """start: first byte of the workspace that is free; room: bytes of all of it."""
        self._evaluator, self._e = evaluator, emitter
        self._start, self._room = start, room

    def box(self, form: Form, extents: Sequence[int], tiling: Tiling) -> list[int]:
        """The part of a tile that is computed at once: one matrix product."""
        batch = self._batch(form, len(extents))
        found = [1 if d in batch else n for d, n in enumerate(extents)]
        while self._padded(form, found) > MOST_SUMS * self._e.threads:
            largest = max(range(len(found)), key=lambda d: found[d])
            if found[largest] == 1:
                break
            found[largest] = -(-found[largest] // 2)
        return found

    @staticmethod
    def _batch(form: Form, rank: int) -> set[int]:
        """Result dims that are neither rows nor columns."""
        first, second = (set(dims) for dims in form.used)
        return {d for d in range(rank) if (d in first) == (d in second)}

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
        warps = self._e.threads // self._e.warp
        choices = [(r, warps // r) for r in range(1, warps + 1) if warps % r == 0]

        def cost(shares: tuple[int, int]) -> tuple[int, int]:
            rows, columns = (self._tiles(form, extents, shares, k) for k in (0, 1))
            return rows * columns, rows * ROWS + columns * COLUMNS

        return min(choices, key=cost)

    @staticmethod
    def _tiles(form: Form, extents: Sequence[int], shares: Sequence[int], factor: int) -> int:
        """Tiles of one instruction that a warp has along the positions of a factor."""
        positions = math.prod(extents[d] for d in form.used[factor])
        return -(-positions // (shares[factor] * (ROWS, COLUMNS)[factor]))

    def plan(self, form: Form, extents: Sequence[int], tiling: Tiling) -> Product | None:
        """None if even the smallest part does not fit the shared memory."""
        assert form.unit is not None
        shares = self._shares(form, extents)
        choices = [s for s in _PARTS if s % _STEPS[form.unit] == 0]
        for steps in choices:
            first = self._operand(form, 0, extents, tiling, shares, self._start)
            behind = self._start + first.bytes(steps)
            second = self._operand(form, 1, extents, tiling, shares, behind)
            tiles = self._tiles(form, extents, shares, 0), self._tiles(form, extents, shares, 1)
            product = Product(form, (first, second), steps, shares, tiles)
            values = 4 * math.prod(tiles) + product.fetched(self._e.threads)
            few = values <= MOST_VALUES or steps == choices[-1]
            if product.end <= self._room and few:
                return product
        return None

    def _operand(
        self,
        form: Form,
        factor: int,
        extents: Sequence[int],
        tiling: Tiling,
        shares: Sequence[int],
        offset: int,
    ) -> Operand:
        assert form.unit is not None
        number = form.factors[factor]
        dims = tuple(sorted(form.used[factor], key=lambda d: (d == tiling.vector_dim, d)))
        sizes = tuple(extents[d] for d in dims)
        side = (ROWS, COLUMNS)[factor]
        covered = shares[factor] * self._tiles(form, extents, shares, factor) * side
        by_steps, element = is_by_steps(form.root, number), _STORED[form.unit]
        return Operand(number, element, dims, sizes, covered, covered + _PAD, by_steps, offset)

    # -- code
    def elements(self, product: Product, extents: Sequence[int], tiling: Tiling) -> list[Element]:
        """Every sum of a thread."""
        rows, columns = product.tiles
        order = itertools.product(range(rows), range(columns), (0, 1), (0, 1))
        return [
            partial(self._element, product, len(extents), i * ROWS + 8 * h, j * COLUMNS + c)
            for i, j, h, c in order
        ]

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

    def sums(
        self,
        product: Product,
        starts: Sequence[Linear],
        begin: Sequence[Val],
        relative: Sequence[Coordinates],
    ) -> list[Val]:
        """The sums at `relative` coordinates in the tile that begins at `starts`; begin: what they
        start with.
        """
        unit = product.form.unit
        assert unit is not None
        granule = _STEPS[unit]
        staging = Staging(
            self._evaluator, self._e, product, starts, granule, lambda v: self._stored(v, unit)
        )
        fragments = Fragments(self._evaluator, self._e, product, staging)
        lane, warp = self._thread()
        corners = [self._corner(product, warp, k) for k in (0, 1)]

        def multiply(sums: list[Val], steps: int, half: Linear) -> list[Val]:
            rows, columns = product.tiles
            for first in range(0, steps, granule):
                a = fragments.rows(lane, corners[0], rows, first, half)
                b = fragments.columns(lane, corners[1], columns, first, half)
                for i in range(rows):
                    for j in range(columns):
                        here = slice(4 * (i * columns + j), 4 * (i * columns + j) + 4)
                        sums[here] = self._mma(unit, a[i], b[j], sums[here])
            return sums

        return staging.run(list(begin), multiply)

    def _stored(self, value: Val, unit: str) -> Val:
        """An element as the unit multiplies it, rounded to nearest."""
        e, element = self._e, _STORED[unit]
        if unit != "tf32" and value.element == element:
            return value
        wide = self._evaluator.body._widen(value)
        if unit != "tf32":
            return e.op(f"arith.truncf {wide.name} : f32 to {element}", [wide], element)
        # cvt.rna.tf32.f32: 13 bits of the fraction go, half of them away from zero
        bits = e.op(f"arith.bitcast {wide.name} : f32 to i32", [wide], "i32")
        half, kept = e.constant(1 << 12, "i32"), e.constant(-1 << 13, "i32")
        up = e.op(f"arith.addi {bits.name}, {half.name} : i32", [bits, half], "i32")
        cut = e.op(f"arith.andi {up.name}, {kept.name} : i32", [up, kept], "i32")
        return e.op(f"arith.bitcast {cut.name} : i32 to f32", [cut], "f32")

    def _mma(self, unit: str, a: Sequence[str], b: Sequence[str], sums: Sequence[Val]) -> list[Val]:
        """The four sums of this thread after one instruction."""
        e, steps = self._e, _STEPS[unit]
        kind = "vector<2xf16>" if unit == "f16" else "i32"
        types = ", ".join(
            f"multiplicand{side}PtxType = #nvvm.mma_type<{unit}>" for side in "AB" if unit != "f16"
        )
        attributes = ", ".join(
            part
            for part in (
                "layoutA = #nvvm.mma_layout<row>, layoutB = #nvvm.mma_layout<col>",
                types,
                f"shape = #nvvm.shape<m = {ROWS}, n = {COLUMNS}, k = {steps}>",
            )
            if part
        )
        result = "!llvm.struct<(f32, f32, f32, f32)>"
        c = ", ".join(total.name for total in sums)
        name = e.define(e.fresh("m"))
        e.line(
            f"{name} = nvvm.mma.sync A[{', '.join(a)}] B[{', '.join(b)}] C[{c}] {{{attributes}}} "
            f": ({kind}, {kind}, f32) -> {result}"
        )
        return [Val(e.part(name, k, result), "f32") for k in range(4)]


class Fragments:
    """What the threads of a warp hold of the operands of one instruction."""

    def __init__(
        self, evaluator: Evaluator, emitter: SimtEmitter, product: Product, staging: Staging
    ) -> None:
        self._evaluator, self._e = evaluator, emitter
        self._product, self._staging = product, staging

    def rows(
        self, lane: Linear, corner: Linear, count: int, first: int, half: Linear
    ) -> list[list[str]]:
        """Four registers of 16 rows each, from step `first` of the part on."""
        operand, split = self._product.operands[0], self._evaluator.split
        start = self._start(operand, first, half) + corner
        if operand.element == "f32":
            quad, inside = split(lane, 4)
            base = start + inside * operand.row + quad
            return [
                [self._word(operand, base + (i * ROWS + 8 * r + 4 * s * operand.row))
                 for s in (0, 1) for r in (0, 1)]
                for i in range(count)
            ]  # fmt: skip
        block, line = split(lane, 8)
        later, lower = split(block, 2)
        base = start + (later * 8 + line) * operand.row + lower * 8
        return [self._blocks(operand, base + i * ROWS, 4) for i in range(count)]

    def columns(
        self, lane: Linear, corner: Linear, count: int, first: int, half: Linear
    ) -> list[list[str]]:
        """Two registers of 8 columns each, from step `first` of the part on."""
        operand, split = self._product.operands[1], self._evaluator.split
        start = self._start(operand, first, half) + corner
        if operand.element == "f32":
            quad, inside = split(lane, 4)
            base = start + inside * operand.row + quad
            return [
                [self._word(operand, base + (j * COLUMNS + 4 * s * operand.row)) for s in (0, 1)]
                for j in range(count)
            ]
        block, line = split(lane, 8)
        right, later = split(block, 2)
        base = start + (later * 8 + line) * operand.row
        found: list[list[str]] = []
        for j in range(0, count - 1, 2):  # two at a time
            four = self._blocks(operand, base + right * 8 + j * COLUMNS, 4)
            found += [four[:2], four[2:]]
        if count % 2:
            found.append(self._blocks(operand, base + (count - 1) * COLUMNS, 2))
        return found

    def _start(self, operand: Operand, first: int, half: Linear) -> Linear:
        return half * operand.half(self._product.steps) + first * operand.row

    def _word(self, operand: Operand, place: Linear) -> str:
        """An element of f32 as an i32."""
        e, pointer = self._e, self._staging.pointer(operand)
        value = e.load(pointer, operand.element, place, 0, readonly=False)
        return e.op(f"arith.bitcast {value.name} : f32 to i32", [value], "i32").name

    def _blocks(self, operand: Operand, place: Linear, count: int) -> list[str]:
        """A register of each of `count` blocks of 8 x 8; each lane names a line of one of them."""
        e, pointer = self._e, self._staging.pointer(operand)
        address = e.address(pointer, operand.element, place)
        result = f"!llvm.struct<({', '.join(['i32'] * count)})>"
        name = e.define(e.fresh("f"))
        e.line(
            f"{name} = nvvm.ldmatrix {address} {{num = {count} : i32, "
            "layout = #nvvm.mma_layout<col>, shape = #nvvm.ld_st_matrix_shape<m = 8, n = 8>, "
            f"eltType = #nvvm.ld_st_matrix_elt_type<b16>}} : ({SHARED}) -> {result}"
        )
        words = [e.part(name, k, result) for k in range(count)]
        if operand.element == "bf16":
            return words
        halves = [Val(word, "i32") for word in words]
        return [
            e.op(f"llvm.bitcast {word.name} : i32 to vector<2xf16>", [word], "f16", 2).name
            for word in halves
        ]
