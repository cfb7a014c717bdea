"""Reductions by the threads of a block.

A thread adds up the results it needs by itself, with one exception: a reduction along contiguous
memory, whose results lie apart (the rows of a softmax, a product with a matrix stored by rows). Of
that the lanes of a warp take a few neighbours each in turn, so that they touch consecutive memory,
and combine what they have by exchange. Who shares in a sum depends on the operator only, never on
the tile, so every tiling gives the same bits. The body of one task says which sums these are
(`rtask.lanes`).
"""

from __future__ import annotations

from collections.abc import Callable

from rcompiler.kernelgen.accumulators import LANE_CHAINS, Accumulators
from rcompiler.kernelgen.reader import Reader
from rcompiler.kernelgen.reduction import Reducer
from rcompiler.kernelgen.simt.emitter import SimtEmitter
from rcompiler.kernelgen.value import Val
from rcompiler.linalg.affine import Linear
from rcompiler.linalg.element_types import identity_of
from rcompiler.linalg.generic import Generic
from rcompiler.linalg.shared_sums import by_warps
from rcompiler.linalg.values import element_of

_AT_ONCE = 8  # results of a warp: they share what they read, and have several sums in each lane


def warp_reducer(
    reader: Reader, emitter: SimtEmitter, shares: Callable[[Generic], bool] = by_warps
) -> Reducer:
    """What computes reductions by all threads of a block, each thread those of its own results.
    Dot groups are for the vectors of CPUs: a thread takes their steps one by one.

    shares: whether the lanes of a warp share in the sums of a reduction.
    """
    accumulators = Accumulators(reader, None)
    return Reducer(reader, accumulators, WarpSums(reader, emitter, accumulators, shares))


class WarpSums:
    """Sums that the lanes of a warp share in."""

    def __init__(
        self,
        reader: Reader,
        emitter: SimtEmitter,
        accumulators: Accumulators,
        shares: Callable[[Generic], bool],
    ) -> None:
        self._reader, self._simt, self._accumulators = reader, emitter, accumulators
        self._shares = shares

    def shares(self, generic: Generic) -> bool:
        """As the whole operator says, or its tile."""
        return self._shares(generic)

    def results(
        self, generic: Generic, positions: list[list[Linear]], lanes: int
    ) -> list[list[Val]]:
        """For each position the result, some of them together."""
        if any(self._asked(generic, position) for position in positions):
            return [[self._by_warp(generic, position)] for position in positions]
        found = []
        for first in range(0, len(positions), _AT_ONCE):
            found += self._together(generic, positions[first : first + _AT_ONCE])
        return [[value] for value in found]

    def _asked(self, generic: Generic, position: list[Linear]) -> list[str]:
        """What tells the result that this thread asks for from those of the others."""
        places = [*position, *self._reader.around(generic.op)]
        return sorted({s for c in places for s, _ in c.terms if self._simt.varies(s)})

    def _by_warp(self, generic: Generic, position: list[Linear]) -> Val:
        """The result at `position`, for all threads that ask: they may ask for different ones."""
        e = self._simt
        symbols = self._asked(generic, position)
        if not symbols:
            return self._together(generic, [position])[0]
        own = e.number(e.lane_number)
        element = element_of(generic.inits[0])

        def turn(lane: Linear, kept: list[Val]) -> list[Val]:
            """The result that the thread in `lane` asks for."""
            asked = {s: e.broadcast(Val(s, "i64"), lane).name for s in symbols}
            for symbol, name in asked.items():
                if symbol in e.ranges:
                    e.ranges[name] = e.ranges[symbol]
            with self._reader.moved(asked):
                [value] = self._together(generic, [[c.renamed(asked) for c in position]])
            return [e.select(e.compare("eq", own, lane), value, kept[0])]

        nothing = e.constant(0, element)
        [value] = e.loop(Linear(0), Linear(e.warp), 1, [nothing], turn)
        return value

    def _together(self, generic: Generic, positions: list[list[Linear]]) -> list[Val]:
        """The results at positions that all threads of the warp ask for."""
        e, combiner = self._simt, generic.combiner
        combined = self._accumulators.combined
        assert combiner is not None
        element = element_of(generic.inits[0])
        starts = [self._reader.read(generic.inits[0], at, 0) for at in positions]
        totals = [self._accumulators.start(generic, start, element, 0) for start in starts]
        found = []
        for total, value in zip(totals, self._of_lane(generic, positions, totals), strict=True):
            distance = e.warp // 2
            while distance:
                value = combined(combiner, value, e.exchange(value, distance))
                distance //= 2
            found.append(self._accumulators.rounded(combined(combiner, total, value), element))
        return found

    def _of_lane(
        self, generic: Generic, positions: list[list[Linear]], totals: list[Val]
    ) -> list[Val]:
        """What this lane contributes to each: several sums of its own, of every so many neighbours
        one, then one fixed tree. totals: of the type of the sums.
        """
        e, combiner, dim = self._simt, generic.combiner, generic.lane_dim
        assert combiner is not None and dim is not None
        points = [generic.loop_dims(position) for position in positions]
        size, chains = generic.sizes[dim], LANE_CHAINS
        rounds = size // (e.warp * chains)

        def step(where: Linear, values: list[Val]) -> list[Val]:
            """One element more of each."""
            return [
                self._accumulators.over_other_dims(
                    generic, dim, [*dims[:dim], where, *dims[dim + 1 :]], v, 0
                )
                for dims, v in zip(points, values, strict=True)
            ]

        def body(i: Linear, carried: list[Val]) -> list[Val]:
            first = i * (e.warp * chains) + e.lane_number * chains
            for k in range(chains):
                carried[k::chains] = step(first + k, carried[k::chains])
            return carried

        neutrals = [
            e.constant(identity_of(combiner, total.element), total.element) for total in totals
        ]
        sums = [neutral for neutral in neutrals for _ in range(chains)]
        sums = list(e.loop(Linear(0), Linear(rounds), 1, sums, body)) if rounds else sums
        done = rounds * e.warp * chains
        for start in range(done, size - size % e.warp, e.warp):
            k = (start - done) // e.warp
            sums[k::chains] = step(e.lane_number + start, sums[k::chains])
        if rest := size % e.warp:
            active = e.is_active(rest)
            assert active is not None
            beyond = step(e.active_lane(rest) + (size - rest), sums[::chains])
            sums[::chains] = [
                e.select(active, new, old) for new, old in zip(beyond, sums[::chains], strict=True)
            ]
        return [
            self._accumulators.joined(combiner, sums[k : k + chains])
            for k in range(0, len(sums), chains)
        ]
