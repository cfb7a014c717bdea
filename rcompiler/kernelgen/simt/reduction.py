"""Reductions by the threads of a block.

A thread adds up the results it needs by itself, with one exception: a reduction along contiguous
memory, whose results lie apart (the rows of a softmax, a product with a matrix stored by rows). Of
that the lanes of a warp take every 32nd element each, so that they touch consecutive memory, and
combine what they have by exchange. Who shares in a sum depends on the operator only, never on the
tile, so every tiling gives the same bits.
"""

from __future__ import annotations

from torch_mlir import ir

from rcompiler.kernelgen.affine import Linear
from rcompiler.kernelgen.evaluate import Evaluator
from rcompiler.kernelgen.reduction import LANE_CHAINS, Reducer
from rcompiler.kernelgen.region import COMBINERS, Generic, element_of
from rcompiler.kernelgen.simt.emitter import SimtEmitter
from rcompiler.kernelgen.simt.product import is_product
from rcompiler.kernelgen.stages import STAGE
from rcompiler.kernelgen.value import Val

# Only some threads read what is behind these: no warp may meet there.
_GUARDS = frozenset({"tensor.pad", "tensor.concat", "tensor.insert_slice"})


def by_warps(generic: Generic) -> bool:
    """Whether the lanes of a warp share in each sum of a reduction: not in those of products, whose
    operands threads had better share.
    """
    return generic.lane_dim is not None and not is_product(generic) and not _guarded(generic.op)


def _guarded(op: ir.Operation) -> bool:
    """Whether some user computes only some elements of it; stages compute all of theirs."""
    pending, seen = [op], {op}
    while pending:
        for result in pending.pop().results:
            for use in result.uses:
                user = use.owner.operation
                if user.name in _GUARDS or user.name.startswith("scf."):
                    return True
                # read at some position from within another op
                if user.name == "tensor.extract":
                    return True
                if user not in seen and user.name != STAGE:
                    seen.add(user)
                    pending.append(user)
    return False


class WarpReducer(Reducer):
    """Computes reduction generics at given result coordinates, each thread those of its own."""

    def __init__(self, evaluator: Evaluator, emitter: SimtEmitter) -> None:
        super().__init__(evaluator)
        self._simt = emitter

    def _compute(
        self, generic: Generic, positions: list[list[Linear]], lanes: int
    ) -> list[list[Val]]:
        if not by_warps(generic):
            return self._register_tile(generic, positions, lanes)
        return [[self._by_warp(generic, position)] for position in positions]

    def _by_warp(self, generic: Generic, position: list[Linear]) -> Val:
        """The result at `position`, for all threads that ask: they may ask for different ones."""
        e = self._simt
        symbols = sorted({s for c in position for s, _ in c.terms if e.varies(s)})
        if not symbols:
            return self._together(generic, position)
        own = e.index(e.lane_number)
        element = element_of(generic.inits[0])

        def turn(lane: Linear, kept: list[Val]) -> list[Val]:
            """The result that the thread in `lane` asks for."""
            asked = {s: e.broadcast(Val(s, "i64"), lane).name for s in symbols}
            for symbol, name in asked.items():
                if symbol in e.ranges:
                    e.ranges[name] = e.ranges[symbol]
            there = [
                Linear(c.constant, tuple(sorted((asked.get(s, s), k) for s, k in c.terms)))
                for c in position
            ]
            value = self._together(generic, there)
            number = e.index(lane)
            mine = e.pure(f"arith.cmpi eq, {own}, {number} : i64", [own, number])
            return [e.select(mine, value, kept[0])]

        nothing = e.constant(0, element)
        [value] = e.loop(Linear(0), Linear(e.warp), 1, [nothing], turn)
        return value

    def _together(self, generic: Generic, position: list[Linear]) -> Val:
        """The result at a position that all threads of the warp ask for."""
        e, dim, combiner = self._simt, generic.lane_dim, generic.combiner
        assert dim is not None and combiner is not None
        element = element_of(generic.inits[0])
        start = self._evaluator.read(generic.inits[0], position, 0)
        total = self._accumulator(generic, start, element, 0)
        value = self._of_lane(generic, position, dim, total.element)
        distance = e.warp // 2
        while distance:
            value = self._combine(combiner, value, e.exchange(value, distance))
            distance //= 2
        return self._round(e, self._combine(combiner, total, value), element)

    def _of_lane(self, generic: Generic, position: list[Linear], dim: int, element: str) -> Val:
        """What this lane contributes: several sums of their own, then one fixed tree."""
        e, combiner = self._simt, generic.combiner
        assert combiner is not None
        dims, others = generic.loop_dims(position), []
        others = [d for d in generic.reduction_dims if d != dim]
        count, rest = divmod(generic.sizes[dim], e.warp)
        chains = min(LANE_CHAINS, count) or 1

        def step(where: Linear, value: Val) -> Val:
            at = [where if d == dim else c for d, c in enumerate(dims)]
            return self._others(generic, others, at, [value], 0)[0]

        def body(i: Linear, carried: list[Val]) -> list[Val]:
            first = i * (e.warp * chains) + e.lane_number
            return [step(first + e.warp * k, value) for k, value in enumerate(carried)]

        neutral = e.constant(COMBINERS[combiner][1], element)
        values = e.loop(Linear(0), Linear(count // chains), 1, [neutral] * chains, body)
        for extra in range(count // chains * chains, count):
            values[0] = step(e.lane_number + extra * e.warp, values[0])
        if rest:
            beyond = step(e.active_lane(rest) + count * e.warp, values[0])
            active = e.is_active(rest)
            assert active is not None
            values[0] = e.select(active, beyond, values[0])
        while len(values) > 1:
            pairs = [values[k : k + 2] for k in range(0, len(values), 2)]
            values = [self._combine(combiner, *p) if len(p) == 2 else p[0] for p in pairs]
        return values[0]
