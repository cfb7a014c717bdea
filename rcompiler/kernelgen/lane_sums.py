"""Reductions along contiguous memory on a CPU: the lanes of vectors share in each sum."""

from __future__ import annotations

from rcompiler.kernelgen.accumulators import LANE_CHAINS, Accumulators
from rcompiler.kernelgen.dot_step import DotStep
from rcompiler.kernelgen.extremes import EXTREMES, extreme_across
from rcompiler.kernelgen.reader import Reader
from rcompiler.kernelgen.reduction import Reducer
from rcompiler.kernelgen.tile_order import TileOrder
from rcompiler.kernelgen.tile_registers import TileProducts
from rcompiler.kernelgen.value import Val
from rcompiler.linalg.affine import LANE, Linear
from rcompiler.linalg.element_types import COMBINERS, identity_of
from rcompiler.linalg.generic import Generic
from rcompiler.linalg.values import element_of

# Of the vectors whose lanes share in a sum that is rounded, on every level: cores with narrower
# registers take several, so that the order of additions, and the bits of results, are the same.
LANES = 16


def vector_reducer(reader: Reader) -> Reducer:
    """What computes reductions with the vectors of a core, and with its tile registers."""
    dots = DotStep(reader)
    accumulators = Accumulators(reader, dots)
    sharing = LaneSums(reader, accumulators)
    if not reader.emitter.tiles:
        return Reducer(reader, accumulators, sharing)
    order = TileOrder(reader, accumulators, dots)
    return Reducer(reader, accumulators, sharing, TileProducts(reader, accumulators), order)


class LaneSums:
    """Sums whose elements are in the lanes of vectors."""

    def __init__(self, reader: Reader, accumulators: Accumulators) -> None:
        self._reader, self._accumulators = reader, accumulators
        self._e = reader.emitter

    def shares(self, generic: Generic) -> bool:
        """Not in what dot groups add: those have neighbours in the words of each lane."""
        return generic.lane_dim is not None and self._accumulators.group(generic) is None

    def results(
        self, generic: Generic, positions: list[list[Linear]], lanes: int
    ) -> list[list[Val]]:
        """For each position the result; of a vector of them one after the other."""
        if not lanes:
            return [[self._result(generic, p)] for p in positions]
        results = []
        for p in positions:
            each = [[c.at_lane(k) for c in p] for k in range(lanes)]
            results.append([self._e.gather_lanes([self._result(generic, at) for at in each])])
        return results

    def _result(self, generic: Generic, at: list[Linear]) -> Val:
        """Partial results in LANE_CHAINS vectors, then one fixed tree, then the tail with narrower
        vectors.
        """
        assert generic.combiner is not None and generic.lane_dim is not None
        element = element_of(generic.inits[0])
        dims = generic.loop_dims(at)
        init = self._reader.read(generic.inits[0], at, 0)
        total = self._accumulators.start(generic, init, element, 0)
        start, size, width = 0, generic.sizes[generic.lane_dim], self._widest(generic)
        while start < size:
            while width > size - start:
                width //= 2
            end = start + (size - start) // width * width
            part = self._span(generic, dims, range(start, end, width), total.element)
            total = self._accumulators.combined(generic.combiner, total, part)
            start = end
        return self._accumulators.rounded(total, element)

    def _span(self, generic: Generic, base: list[Linear], span: range, element: str) -> Val:
        """The coordinates of `span` combined: vectors of `span.step` lanes."""
        e, width, count, dim = self._e, span.step, len(span), generic.lane_dim
        assert generic.combiner is not None and dim is not None
        lanes = width if width > 1 else 0
        chains = min(LANE_CHAINS, count) if width == self._widest(generic) else 1

        def step(where: Linear, value: Val) -> Val:
            dims = list(base)
            dims[dim] = where + Linear.of(LANE) if lanes else where
            return self._accumulators.over_other_dims(generic, dim, dims, value, lanes)

        def body(i: Linear, carried: list[Val]) -> list[Val]:
            return [
                step(i * (width * chains) + (span.start + chain * width), value)
                for chain, value in enumerate(carried)
            ]

        neutral = e.constant(identity_of(generic.combiner, element), element, lanes)
        values = e.loop(Linear(0), Linear(count // chains), 1, [neutral] * chains, body)
        for extra in range(count // chains * chains, count):
            values[0] = step(Linear(span.start + extra * width), values[0])
        return self._across(generic.combiner, self._accumulators.joined(generic.combiner, values))

    def _widest(self, generic: Generic) -> int:
        """Lanes of the vectors of a reduction, where it is long enough."""
        free = generic.combiner in EXTREMES or element_of(generic.inits[0])[0] == "i"
        return self._e.native_lanes if free else LANES

    def _across(self, combiner: str, value: Val) -> Val:
        """The lanes of a vector combined."""
        if not value.lanes:
            return value
        if combiner in EXTREMES:
            return extreme_across(self._e, combiner, value)
        kind, _ = COMBINERS[combiner]
        free = value.element[0] == "f" and kind in ("add", "mul")
        return self._e.across(kind, value, fastmath="reassoc" if free else "")
