"""Products by fused multiply-adds: each group of threads has register tiles of the block's tile.

Sums add in the order of the reduction, as those of a thread alone do: no tile changes a bit.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from functools import partial

from rcompiler.kernelgen.affine import Linear
from rcompiler.kernelgen.evaluate import Evaluator
from rcompiler.kernelgen.region import element_of
from rcompiler.kernelgen.simt.emitter import SimtEmitter
from rcompiler.kernelgen.simt.product import (
    Coordinates,
    Element,
    Form,
    Operand,
    Product,
    is_by_steps,
)
from rcompiler.kernelgen.simt.staging import Staging
from rcompiler.kernelgen.tiling import Tiling
from rcompiler.kernelgen.value import Val

_STEPS = (32, 16, 8, 4)  # of the reduction in one part, the most first
_LEAST_REUSE = 4  # of each element in shared memory
MOST_SUMS = 64  # of a thread: with what it fetches ahead they stay in 255 registers
MOST_VALUES = 80  # sums of a thread, and what it fetches for the part that comes next
_UNROLLED = 256  # updates in the body of the loop over the steps of a part
_PAD = 4  # elements between the rows of an operand: steps that are stored together share few banks


class ScalarProducts:
    """Plans and writes products for the multiply-add units."""

    def __init__(self, evaluator: Evaluator, emitter: SimtEmitter, start: int, room: int) -> None:
        """start: first byte of the workspace that is free; room: bytes of all of it."""
        self._evaluator, self._e = evaluator, emitter
        self._start, self._room = start, room

    def box(self, form: Form, extents: Sequence[int], tiling: Tiling) -> list[int]:
        """The part of a tile that is computed at once."""
        return halved(extents, tiling.vector_dim, tiling.lanes, MOST_SUMS * self._e.threads)

    def plan(self, form: Form, extents: Sequence[int], tiling: Tiling) -> Product | None:
        """None if the threads of a block had better compute the tile one by one."""
        together = math.prod(extents[d] for d in {*form.used[0], *form.used[1]})
        reuse = [together // max(math.prod(extents[d] for d in dims), 1) for dims in form.used]
        shares = self._shares(extents, tiling)
        sums = self._rounds(extents, shares) * math.prod(shares) // tiling.lanes
        if min(reuse) < _LEAST_REUSE or sums > MOST_SUMS * 3 // 2:
            return None
        for steps in (s for s in _STEPS if s <= form.steps):
            first = self._operand(form, 0, extents, tiling, self._start)
            second = self._operand(form, 1, extents, tiling, self._start + first.bytes(steps))
            product = Product(form, (first, second), steps, shares)
            values = sums + product.fetched(self._e.threads)
            few = values <= MOST_VALUES or steps == _STEPS[-1]
            if product.end <= self._room and few:
                return product
        return None

    def _operand(
        self, form: Form, factor: int, extents: Sequence[int], tiling: Tiling, offset: int
    ) -> Operand:
        number = form.factors[factor]
        dims = tuple(sorted(form.used[factor], key=lambda d: (d == tiling.vector_dim, d)))
        sizes = tuple(extents[d] for d in dims)
        element = element_of(form.root.operands[number])
        count, by_steps = math.prod(sizes), is_by_steps(form.root, number)
        return Operand(number, element, dims, sizes, count, count + _PAD, by_steps, offset)

    def _shares(self, extents: Sequence[int], tiling: Tiling) -> tuple[int, ...]:
        """The register tile of the tiling, smaller where groups would have none."""
        units = [tiling.lanes if d == tiling.vector_dim else 1 for d in range(len(extents))]
        counts = [
            max(min(tiling.register_tile[d], extents[d]) // unit, 1) for d, unit in enumerate(units)
        ]
        while max(counts, default=1) > 1:
            sizes = tuple(c * u for c, u in zip(counts, units, strict=True))
            if math.prod(_counts(extents, sizes)) >= self._e.groups:
                break
            largest = counts.index(max(counts))
            counts[largest] //= 2
        return tuple(c * u for c, u in zip(counts, units, strict=True))

    def _rounds(self, extents: Sequence[int], shares: Sequence[int]) -> int:
        """Register tiles of each group."""
        return -(-math.prod(_counts(extents, shares)) // self._e.groups)

    # -- code
    def elements(self, product: Product, extents: Sequence[int], tiling: Tiling) -> list[Element]:
        """Every sum of a thread."""
        shares, vector = product.shares, tiling.vector_dim
        steps = [range(0, n, tiling.lanes if d == vector else 1) for d, n in enumerate(shares)]
        return [
            partial(self._element, product, extents, tiling, turn, inner)
            for turn in range(self._rounds(extents, shares))
            for inner in itertools.product(*steps)
        ]

    def _element(
        self,
        product: Product,
        extents: Sequence[int],
        tiling: Tiling,
        turn: int,
        inner: Sequence[int],
    ) -> tuple[Coordinates, str | None]:
        """The element `inner` of register tile number `turn` of this thread."""
        e, shares = self._e, product.shares
        counts, end = _counts(extents, shares), (turn + 1) * e.groups
        number, active = e.at_most(e.group + turn * e.groups, math.prod(counts), end)
        at, conditions = [Linear()] * len(extents), [active]
        for d in reversed(range(len(extents))):
            number, position = self._evaluator.split(number, counts[d])
            where = position * shares[d] + inner[d]
            if d == tiling.vector_dim:
                where = where + e.active_lane(tiling.lanes)
                conditions.append(e.is_active(tiling.lanes))
            at[d], inside = e.at_most(where, extents[d], counts[d] * shares[d])
            conditions.append(inside)
        return at, e.all_of(conditions)

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
        staging = Staging(self._evaluator, self._e, product, starts, 1, lambda value: value)
        places = [[operand.position(at) for at in relative] for operand in product.operands]

        def multiply(sums: list[Val], steps: int, half: Linear) -> list[Val]:
            return self._multiply(product, staging, places, sums, steps, half)

        return staging.run(list(begin), multiply)

    def _multiply(
        self,
        product: Product,
        staging: Staging,
        places: Sequence[Sequence[Linear]],
        sums: list[Val],
        steps: int,
        half: Linear,
    ) -> list[Val]:
        """The sums after the steps of one part."""
        e = self._e
        unroll = max(min(_UNROLLED // max(len(sums), 1), steps), 1)
        while steps % unroll:
            unroll -= 1

        def several(i: Linear, carried: list[Val]) -> list[Val]:
            for k in range(unroll):
                factors = [
                    self._factor(product, staging, operand, where, i * unroll + k, half)
                    for operand, where in zip(product.operands, places, strict=True)
                ]
                carried = [
                    e.fma(a, b, total) for a, b, total in zip(*factors, carried, strict=True)
                ]
            return carried

        return e.loop(Linear(0), Linear(steps // unroll), 1, sums, several)

    def _factor(
        self,
        product: Product,
        staging: Staging,
        operand: Operand,
        places: Sequence[Linear],
        step: Linear,
        half: Linear,
    ) -> list[Val]:
        """The element of an operand for each sum, at one step."""
        e, widen = self._e, self._evaluator.body._widen
        row = half * operand.half(product.steps) + step * operand.row
        pointer = staging.pointer(operand)
        loaded = {
            place: widen(e.load(pointer, operand.element, row + place, 0, readonly=False))
            for place in dict.fromkeys(places)
        }
        return [loaded[place] for place in places]


def halved(sizes: Sequence[int], vector: int, lanes: int, most: int) -> list[int]:
    """Extents of a box of at most `most` elements, the largest halved first; that of the dim
    `vector` is a multiple of `lanes` if it is not whole.
    """
    found = list(sizes)
    while math.prod(found) > most:
        units = [-(-n // (lanes if d == vector else 1)) for d, n in enumerate(found)]
        largest = units.index(max(units))
        if units[largest] == 1:
            break
        found[largest] = -(-units[largest] // 2) * (lanes if largest == vector else 1)
    return found


def _counts(extents: Sequence[int], shares: Sequence[int]) -> list[int]:
    """Register tiles along each dim; the last ones may hang over."""
    return [-(-n // r) for n, r in zip(extents, shares, strict=True)]
