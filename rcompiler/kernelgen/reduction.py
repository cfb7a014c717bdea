"""Reductions: a register tile of accumulators over the reduction loops of one linalg.generic.

All positions of a register tile share the loops, so an operand that does not depend on a position's
row or column is loaded once (the emitter's CSE): this is the outer-product micro-kernel for
contractions and convolutions, the strip kernel for depthwise ones and a plain loop for everything
else. The order of accumulation of one result element depends on the operator only, never on the
tile, so every tiling gives the same bits.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from rcompiler.kernelgen.accumulators import Accumulators, Spans
from rcompiler.kernelgen.emitter import Emitter
from rcompiler.kernelgen.reader import NeedsScalars, Reader
from rcompiler.kernelgen.tile_order import TileOrder
from rcompiler.kernelgen.tile_registers import TileProducts, Waiting
from rcompiler.kernelgen.value import Val
from rcompiler.linalg.affine import Linear, lanes_differ
from rcompiler.linalg.bodies import multiply_adds
from rcompiler.linalg.generic import Generic
from rcompiler.linalg.values import element_of

# Unrolled updates per loop body: enough to hide loop overhead. Longer bodies run no faster and take
# longer to compile (256: 1.6 times as long for ResNet-50).
UNROLLED_UPDATES = 64
# Of a window over vectors, whose taps share what they load: nine taps of ten accumulators (3x3
# depthwise, 56x56: 227 GFLOP/s instead of 208).
UNROLLED_TAPS = 96
# Of one element at a time: where vectors are not possible, every lane has such a loop of its own.
UNROLLED_SCALARS = 16


class Sharing(Protocol):
    """Reductions in whose sums the lanes of a vector, or threads, have a share each."""

    def shares(self, generic: Generic) -> bool:
        """Whether a reduction is one of these: by the operator alone, whatever the tile."""

    def results(
        self, generic: Generic, positions: list[list[Linear]], lanes: int
    ) -> list[list[Val]]:
        """For each position (result coordinates) the results of such a reduction."""


class Reducer:
    """Computes reduction generics at given result coordinates."""

    def __init__(
        self,
        reader: Reader,
        accumulators: Accumulators,
        sharing: Sharing,
        tiles: TileProducts | None = None,
        tile_order: TileOrder | None = None,
    ) -> None:
        """tiles: computes whole register tiles on tile registers; tile_order: others in the same
        order; None: there are none.
        """
        self._reader = reader
        self._accumulators = accumulators
        self._sharing = sharing
        self._tiles = tiles
        self._tile_order = tile_order

    @property
    def _e(self) -> Emitter:
        return self._reader.emitter

    def reduce(
        self, generic: Generic, positions: list[list[Linear]], lanes: int
    ) -> list[list[Val]]:
        """For each position (result coordinates) the results of `generic`; computed together,
        remembered one by one.
        """
        keys = self.prepare(generic, positions, lanes)
        return [[self._value(v) for v in self._e.recall(key)] for key in keys]

    def waits(self, keys: list[tuple[object, ...]]) -> bool:
        """Whether results that are remembered wait in memory, and fill no registers until then."""
        return all(isinstance(v, Waiting) for key in keys for v in self._e.recall(key))

    def waiting(self, generic: Generic, position: list[Linear], lanes: int) -> list[Waiting]:
        """The results at a position that is prepared, all of which wait in memory."""
        found: list[Waiting] = self._e.recall(self._key(generic, position, lanes))
        return found

    def wait(
        self, generic: Generic, position: list[Linear], lanes: int, sums: list[Waiting]
    ) -> None:
        """Make known in the open scope where the results at a position wait."""
        self._e.remember(self._key(generic, position, lanes), sums)

    def _value(self, found: Val | Waiting) -> Val:
        if isinstance(found, Val):
            return found
        assert self._tiles is not None  # who else lets sums wait
        return self._tiles.loaded(found)

    def prepare(
        self, generic: Generic, positions: list[list[Linear]], lanes: int
    ) -> list[tuple[object, ...]]:
        """Compute the results for all positions; under which they are remembered."""
        e = self._e
        lanes = lanes if any(map(lanes_differ, positions)) else 0
        keys = [self._key(generic, p, lanes) for p in positions]
        missing = [k for k, key in enumerate(keys) if e.recall(key) is None]
        if missing:
            symbols = {s for k in missing for c in positions[k] for s, _ in c.terms}
            depth = max(e.depth_of(*symbols), e.guard, self._reader.depth(generic.op))
            wanted = [positions[k] for k in missing]
            found = e.at_depth(depth, lambda: self._compute(generic, wanted, lanes))
            for k, values in zip(missing, found, strict=True):
                e.remember(keys[k], values, depth)
        return keys

    def finish(self, generic: Generic, position: list[Linear], value: Val) -> None:
        """Make the result at `position` known in the open scope, from its finished sum."""
        result = self._accumulators.rounded(value, element_of(generic.inits[0]))
        self._e.remember(self._key(generic, position, 0), [result])

    def _key(self, generic: Generic, position: list[Linear], lanes: int) -> tuple[object, ...]:
        """Under which a result is remembered: one that all lanes share is a scalar."""
        lanes = lanes if lanes_differ(position) else 0
        return "reduce", self._reader.point, generic.op, tuple(position), lanes

    def _compute(
        self, generic: Generic, positions: list[list[Linear]], lanes: int
    ) -> Sequence[Sequence[Val | Waiting]]:
        if self._sharing.shares(generic):
            return self._sharing.results(generic, positions, lanes)
        if self._tiles is not None:
            waiting = self._tiles.sums(generic, positions, lanes)
            if waiting is not None:
                return waiting
        return self._register_tile(generic, positions, lanes)

    # -- accumulators over parallel positions -----------------------------------------------------
    def _register_tile(
        self, generic: Generic, positions: list[list[Linear]], lanes: int
    ) -> list[list[Val]]:
        values = self._summed(generic, positions, lanes, self.begin(generic, positions, lanes))
        count, inits = generic.outputs, generic.inits
        return [
            [
                self._accumulators.rounded(value, element_of(init))
                for value, init in zip(values[k : k + count], inits, strict=True)
            ]
            for k in range(0, len(values), count)
        ]

    def begin(self, generic: Generic, positions: list[list[Linear]], lanes: int) -> list[Val]:
        """The accumulators of all positions before the first step, position after position."""
        start = self._accumulators.start
        return [
            start(generic, self._reader.read(init, at, lanes), element_of(init), lanes)
            for at in positions
            for init in generic.inits
        ]

    def _summed(
        self, generic: Generic, positions: list[list[Linear]], lanes: int, values: list[Val]
    ) -> list[Val]:
        """The accumulators after all steps."""
        count, step = generic.outputs, self._accumulators.step
        points = [generic.loop_dims(p) for p in positions]
        visit, broadcasts, vectors = self._visiting_order(generic, points, lanes)
        taps = generic.windowed and vectors > 0 and not broadcasts

        def update(point: dict[int, Linear], values: list[Val]) -> list[Val]:
            out = list(values)
            for k in visit:
                dims = points[k].copy()
                for d, at in point.items():
                    dims[d] = at
                mine = slice(k * count, (k + 1) * count)
                out[mine] = step(generic, dims, values[mine], lanes)
            return out

        group = self._accumulators.group(generic)
        inside = None if group is None else group.dim
        spans = {d: (Linear(), generic.sizes[d]) for d in generic.reduction_dims if d != inside}
        updates = UNROLLED_SCALARS if not lanes else UNROLLED_TAPS if taps else UNROLLED_UPDATES
        chain = multiply_adds(generic)
        unroll = _unrolls(spans, max(updates // max(len(positions) * count * chain, 1), 1))
        streamed = (group is not None or generic.factors is not None or chain > 1) and not taps
        streams = vectors if streamed else 0
        with self._reader.prefetcher.reduction(generic, lanes, streams):
            if self._tile_order is not None and self._tile_order.holds(generic):
                ordered = [points[k] for k in visit]
                begun = [values[k] for k in visit]
                ended = self._tile_order.summed(generic, ordered, lanes, begun, updates)
                return [ended[visit.index(k)] for k in range(len(values))]
            return self._accumulators.looped(spans, unroll, values, update)

    def _visiting_order(
        self, generic: Generic, points: list[list[Linear]], lanes: int
    ) -> tuple[list[int], int, int]:
        """Positions that share an operand one after the other: a broadcast, or a vector where there
        are fewer broadcasts than vectors. And how many different broadcasts and vectors a step
        loads.

        Then one of the many is live at a time beside the few of the other operand; in any other
        order the many stay live and the accumulators spill.
        """
        broadcasts: dict[object, int] = {}
        vectors: dict[object, int] = {}
        numbers = []
        for dims in points:
            try:
                where = [
                    self._reader.coordinates(generic, k, dims, lanes)
                    for k in range(len(generic.inputs))
                ]
            except NeedsScalars:
                return list(range(len(points))), 0, 0
            wide = [lanes_differ(w) for w in where]
            keys = (
                tuple(tuple(w) for w, is_wide in zip(where, wide, strict=True) if is_wide == kind)
                for kind in (False, True)
            )
            numbers.append(
                tuple(
                    known.setdefault(key, len(known))
                    for known, key in zip((broadcasts, vectors), keys, strict=True)
                )
            )
        many = 0 if len(broadcasts) >= len(vectors) else 1
        order = sorted(range(len(points)), key=lambda k: numbers[k][many])
        return order, 0 if () in broadcasts else len(broadcasts), len(vectors)


def _unrolls(spans: Spans, budget: int) -> dict[int, int]:
    """Unroll factor of each reduction dim: innermost first, while they are `budget` steps or
    less.
    """
    unroll = {}
    for dim in reversed(spans):
        size = max(spans[dim][1], 1)  # a sum of nothing has no steps
        factor = min(size, budget)
        if factor < size:
            factor = _power_of_two(size, factor)
            budget = 1
        else:
            budget //= size
        unroll[dim] = max(factor, 1)
    return unroll


def _power_of_two(size: int, most: int) -> int:
    """The unroll factor of a loop of `size` steps: one without a remainder if it is not much less.

    LLVM loads all broadcasts of a body ahead and spills the accumulators where a step of the loop
    counter is three elements (measured: 9 and 10 rows by 32 columns ran at 0.4 of the speed that
    they have with two).
    """
    power = 1 << (most.bit_length() - 1)
    divisor = min(power, size & -size)
    return divisor if 2 * divisor >= power else power
