"""Products by multiply-adds, of floats fused: each thread has sums of the block's tile.

Sums add in the order of the reduction, as those of a thread alone do: no tile changes a bit.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from functools import partial

from rcompiler.kernelgen.simt.emitter import ACCESS, SimtEmitter
from rcompiler.kernelgen.simt.evaluator import SimtEvaluator
from rcompiler.kernelgen.simt.operand import Side, even_pitch, is_by_steps, odd_pitch
from rcompiler.kernelgen.simt.operand_ring import OperandRing, Starts
from rcompiler.kernelgen.simt.product import Element, Product
from rcompiler.kernelgen.simt.source import Reading
from rcompiler.kernelgen.simt.thread_grid import Extent, thread_grid
from rcompiler.kernelgen.simt.workspace import Workspace
from rcompiler.kernelgen.tiling import Tiling
from rcompiler.kernelgen.value import Val
from rcompiler.linalg.affine import Coordinates, Linear
from rcompiler.linalg.product import Form
from rcompiler.linalg.values import element_of
from rcompiler.roller.thread_tiles import MOST_SUMS, halved

_STEPS = (32, 16, 8, 4)  # of the reduction in one part, the most first
_LEAST_REUSE = 4  # of each element in shared memory
_UNROLLED = 256  # updates in the body of the loop over the steps of a part
_TOGETHER = 4  # steps of a line that are read as one
_LOADED = 96  # elements that the body of that loop reads: ptxas reads all of them first

# The first position of each run of an operand that a thread multiplies, by batch and number.
_Runs = dict[tuple[int, int], Linear]


class ScalarProducts:
    """Plans and writes products for the multiply-add units."""

    def __init__(
        self, evaluator: SimtEvaluator, emitter: SimtEmitter, workspace: Workspace
    ) -> None:
        self._evaluator, self._e, self._workspace = evaluator, emitter, workspace

    def box(self, form: Form, extents: Sequence[int], tiling: Tiling) -> list[int]:
        """The part of a tile that is computed at once: dims that no factor has lie apart."""
        used = {*form.used[0], *form.used[1]}
        found = [n if d in used else 1 for d, n in enumerate(extents)]
        return halved(found, tiling.vector_dim, tiling.lanes, MOST_SUMS * self._e.threads)

    def plan(self, reading: Reading, extents: Sequence[int], tiling: Tiling) -> Product | None:
        """None if the threads of a block had better compute the tile one by one."""
        form = reading.form
        together = math.prod(extents[d] for d in {*form.used[0], *form.used[1]})
        reuse = [together // max(math.prod(extents[d] for d in dims), 1) for dims in form.used]
        first, second = (self._side(form, k, extents, tiling) for k in (0, 1))
        batches = math.prod(extents[d] for d in form.batch(len(extents)))
        sides = self._extent(first, batches), self._extent(second, batches)
        grid = thread_grid(self._e.block, batches, sides)
        if min(reuse) < _LEAST_REUSE or grid.sums > MOST_SUMS * 3 // 2:
            return None
        for steps in (s for s in _STEPS if s <= form.steps):
            pitches = [
                odd_pitch(steps, side.item)
                if side.step_lines
                else even_pitch(side.filled, side.item)
                for side in (first, second)
            ]
            found = self._workspace.operands(
                self._evaluator, reading, (first, second), pitches, steps
            )
            if found is None:
                continue
            product = Product(form, found, steps, grid.shares, grid.tiles, grid.runs, grid.lanes)
            light = product.is_light(grid.sums, self._e.block)
            if light or steps == _STEPS[-1]:
                return product
        return None

    @staticmethod
    def _side(form: Form, factor: int, extents: Sequence[int], tiling: Tiling) -> Side:
        number, batch = form.factors[factor], form.batch(len(extents))
        dims = tuple(
            sorted(form.used[factor], key=lambda d: (d not in batch, d == tiling.vector_dim, d))
        )
        sizes = tuple(extents[d] for d in dims)
        element, by_steps = element_of(form.root.operands[number]), is_by_steps(form.root, number)
        return Side(number, element, dims, sizes, math.prod(sizes), by_steps, by_steps)

    @staticmethod
    def _extent(side: Side, batches: int) -> Extent:
        return Extent(side.positions // batches, side.step_lines, side.item)

    # -- code
    def elements(self, product: Product, rank: int) -> list[Element]:
        """Every sum of a thread."""
        return [partial(self._element, product, rank, *numbers) for numbers in _numbers(product)]

    def _element(
        self, product: Product, rank: int, batch: int, row: int, column: int
    ) -> tuple[Coordinates, str | None]:
        """The element of a thread at numbers along batches, rows and columns."""
        at, conditions = [Linear()] * rank, []
        for factor, number in enumerate((row, column)):
            operand, length = product.operands[factor], product.runs[factor]
            first, active = self._run(product, factor, batch, number // length)
            conditions.append(active)
            position = first + number % length
            for d, inner in operand.coordinates(position, self._evaluator.split).items():
                at[d] = inner
        return at, self._e.all_of(conditions)

    def _run(
        self, product: Product, factor: int, batch: int, number: int
    ) -> tuple[Linear, str | None]:
        """The first position of a run of this thread, and an i1 whether there is such a run, None
        if there always is; what there is not is at the last one.
        """
        e, shares, tiles = self._e, product.shares, product.tiles
        length, count = product.runs[factor], product.shares[1 + factor]
        batches = product.operands[factor].positions // self._positions(product, factor)
        own = self._thread(product)
        group, there = e.at_most(own[0] + batch * shares[0], batches, shares[0] * tiles[0])
        positions = self._positions(product, factor)
        run, inside = e.at_most(
            own[1 + factor] + number * count, positions // length, count * tiles[1 + factor]
        )
        return group * positions + run * length, e.all_of([there, inside])

    @staticmethod
    def _positions(product: Product, factor: int) -> int:
        """Of an operand in one batch."""
        operand, used = product.operands[factor], product.form.used
        shared = set(used[0]) & set(used[1])
        pairs = zip(operand.dims, operand.extents, strict=True)
        return math.prod(n for d, n in pairs if d not in shared)

    def _thread(self, product: Product) -> tuple[Linear, Linear, Linear]:
        """Where this thread is in the grid: batch, row, column."""
        split, (_, rows, columns), lanes = self._evaluator.split, product.shares, product.lanes
        batch, inside = split(Linear.of(self._e.thread), rows * columns)
        warp, lane = split(inside, lanes[0] * lanes[1])
        down, across = split(warp, columns // lanes[1])
        row, column = split(lane, lanes[1])
        return batch, down * lanes[0] + row, across * lanes[1] + column

    def sums(self, product: Product, reading: Reading, begin: Sequence[Val]) -> list[Val]:
        """The sums of this thread; begin: what they start with."""
        ring = OperandRing(self._evaluator, self._e, product, reading, 1, lambda value: value)
        numbers = _numbers(product)
        first, second = (self._runs(product, factor) for factor in (0, 1))
        loaded = sum(len(r) * n for r, n in zip((first, second), product.runs, strict=True))

        def together(step: Linear, count: int, sums: list[Val], starts: Starts) -> list[Val]:
            """The sums after some steps, which are read as one where they are neighbours."""
            places = (first, ring.pointer(0), starts[0]), (second, ring.pointer(1), starts[1])
            rows, columns = (
                self._factors(product, factor, *place, step, count)
                for factor, place in enumerate(places)
            )
            for k in range(count):
                sums = [
                    self._multiply_add(rows[k][batch, row], columns[k][batch, column], total)
                    for (batch, row, column), total in zip(numbers, sums, strict=True)
                ]
            return sums

        def multiply(sums: list[Val], steps: int, starts: Starts) -> list[Val]:
            whole = steps // _TOGETHER
            most = min(_UNROLLED // len(sums), _LOADED // loaded) // _TOGETHER
            unroll = max(min(most, whole), 1)
            while whole % unroll:
                unroll -= 1

            def several(i: Linear, carried: list[Val]) -> list[Val]:
                for k in range(unroll):
                    step = i * (unroll * _TOGETHER) + k * _TOGETHER
                    carried = together(step, _TOGETHER, carried, starts)
                return carried

            sums = self._e.loop(Linear(0), Linear(whole // unroll), 1, sums, several)
            for step in range(whole * _TOGETHER, steps):
                sums = together(Linear(step), 1, sums, starts)
            return sums

        return ring.run(list(begin), multiply)

    def _runs(self, product: Product, factor: int) -> _Runs:
        """Where the runs of this thread begin."""
        numbers = itertools.product(range(product.tiles[0]), range(product.tiles[1 + factor]))
        return {(b, k): self._run(product, factor, b, k)[0] for b, k in numbers}

    def _factors(
        self,
        product: Product,
        factor: int,
        runs: _Runs,
        pointer: str,
        start: Linear,
        step: Linear,
        count: int,
    ) -> list[dict[tuple[int, int], Val]]:
        """At each of `count` steps, the elements of an operand by batch and number along it."""
        operand, length = product.operands[factor], product.runs[factor]
        found: list[dict[tuple[int, int], Val]] = [{} for _ in range(count)]
        longest = min(count if operand.step_lines else length, ACCESS // operand.item)
        for (batch, run), position in runs.items():
            steps, neighbours = range(count), range(length)
            if operand.step_lines:
                steps = range(0, count, longest)
            else:
                neighbours = range(0, length, longest)
            for k, n in itertools.product(steps, neighbours):
                place = start + operand.place(step + k, position + n)
                loaded = self._e.load_run(pointer, operand.element, place, longest)
                for j, value in enumerate(loaded):
                    at, along = (k + j, n) if operand.step_lines else (k, n + j)
                    key = batch, run * length + along
                    found[at][key] = self._widened(product.form, factor, value)
        return found

    def _widened(self, form: Form, factor: int, value: Val) -> Val:
        """An element as it is multiplied."""
        if form.signed is None:
            return self._evaluator.body.widen(value)
        return self._e.convert("extsi" if form.signed[factor] else "extui", value, "i32")

    def _multiply_add(self, a: Val, b: Val, total: Val) -> Val:
        e = self._e
        return e.add(total, e.mul(a, b)) if total.element == "i32" else e.fma(a, b, total)


def _numbers(product: Product) -> list[tuple[int, int, int]]:
    """Of each sum of a thread, its number along batches, rows and columns."""
    batches, rows, columns = product.tiles
    down, across = product.runs
    spans = range(batches), range(rows * down), range(columns * across)
    return list(itertools.product(*spans))
