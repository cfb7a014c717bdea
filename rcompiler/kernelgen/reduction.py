"""Reductions: a register tile of accumulators over the reduction loops of one linalg.generic.

All positions of a register tile share the loops, so an operand that does not depend on a position's
row or column is loaded once (the emitter's CSE): this is the outer-product micro-kernel for
contractions and convolutions, the strip kernel for depthwise ones and a plain loop for everything
else. The order of accumulation of one result element depends on the operator only, never on the
tile, so every tiling gives the same bits.
"""

from __future__ import annotations

from collections.abc import Callable

from rcompiler.kernelgen.dot_step import DotStep
from rcompiler.kernelgen.emitter import Emitter
from rcompiler.kernelgen.extremes import EXTREMES, extreme, extreme_across
from rcompiler.kernelgen.reader import NeedsScalars, Reader
from rcompiler.kernelgen.value import Val
from rcompiler.linalg.affine import LANE, Linear
from rcompiler.linalg.combiners import COMBINERS, identity_of
from rcompiler.linalg.dot_group import DotGroup
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
# Independent partial sums of a reduction that runs along the lanes: FMA latency 4 x 2 ports, halved
# for the loads. A choice for every device, not `ComputeUnit.accumulators`: the order of additions,
# and so the bits of results, must not depend on the figures of a record.
LANE_CHAINS = 4

# The accumulators after one step: from the coordinates of the reduction dims and their values.
_Update = Callable[[dict[int, Linear], list[Val]], list[Val]]

# Of each reduction dim, outermost first: where its loop starts, and how many steps it takes.
_Spans = dict[int, tuple[Linear, int]]


class Reducer:
    """Computes reduction generics at given result coordinates."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._dots = DotStep(reader)

    @property
    def _e(self) -> Emitter:
        return self._reader.emitter

    def _group(self, generic: Generic) -> DotGroup | None:
        """The dot groups that `generic` is computed by, if it has some."""
        return self._dots.group(generic)

    def reduce(
        self, generic: Generic, positions: list[list[Linear]], lanes: int
    ) -> list[list[Val]]:
        """For each position (result coordinates) the results of `generic`; computed together,
        remembered one by one.
        """
        e = self._e
        lanes = lanes if any(map(_varies, positions)) else 0
        keys = [_key(generic, p, lanes) for p in positions]
        missing = [k for k, key in enumerate(keys) if e.recall(key) is None]
        if missing:
            symbols = {s for k in missing for c in positions[k] for s, _ in c.terms}
            depth = max(e.depth_of(*symbols), e.guard, self._reader.depth(generic.op))
            wanted = [positions[k] for k in missing]
            found = e.at_depth(depth, lambda: self._compute(generic, wanted, lanes))
            for k, values in zip(missing, found, strict=True):
                e.remember(keys[k], values, depth)
        return [e.recall(key) for key in keys]

    def preset(self, generic: Generic, position: list[Linear], lanes: int, value: Val) -> None:
        """Make the result at `position` known in the open scope."""
        self._e.remember(_key(generic, position, lanes), [value])

    def finish(self, generic: Generic, position: list[Linear], value: Val) -> None:
        """Make the result at `position` known in the open scope, from its finished sum."""
        self.preset(generic, position, 0, self._round(self._e, value, element_of(generic.inits[0])))

    def _compute(
        self, generic: Generic, positions: list[list[Linear]], lanes: int
    ) -> list[list[Val]]:
        e = self._e
        dim = generic.lane_dim
        if dim is None or self._group(generic) is not None:
            return self._register_tile(generic, positions, lanes)
        if not lanes:
            return [[self._along_lanes(generic, p, dim)] for p in positions]
        results = []
        for p in positions:
            each = [[c.at_lane(k) for c in p] for k in range(lanes)]
            results.append([e.gather_lanes([self._along_lanes(generic, at, dim) for at in each])])
        return results

    # -- accumulators over parallel positions -----------------------------------------------------
    def _register_tile(
        self, generic: Generic, positions: list[list[Linear]], lanes: int
    ) -> list[list[Val]]:
        values = self.begin(generic, positions, lanes)
        values = self.advance(generic, positions, lanes, values)
        count, inits = generic.outputs, generic.inits
        return [
            [
                self._round(self._e, value, element_of(init))
                for value, init in zip(values[k : k + count], inits, strict=True)
            ]
            for k in range(0, len(values), count)
        ]

    def begin(self, generic: Generic, positions: list[list[Linear]], lanes: int) -> list[Val]:
        """The accumulators of all positions before the first step, position after position."""
        return [
            self._accumulator(generic, self._reader.read(init, at, lanes), element_of(init), lanes)
            for at in positions
            for init in generic.inits
        ]

    def advance(
        self,
        generic: Generic,
        positions: list[list[Linear]],
        lanes: int,
        values: list[Val],
        part: tuple[Linear, int] | None = None,
    ) -> list[Val]:
        """The accumulators after all steps, or after those of `part`: start and number of steps of
        the outermost reduction dim.
        """
        count = generic.outputs
        points = [generic.loop_dims(p) for p in positions]
        visit, broadcasts, vectors = self._visiting_order(generic, points, lanes)
        taps = generic.windowed and vectors > 0 and not broadcasts

        def update(point: dict[int, Linear], values: list[Val]) -> list[Val]:
            out = list(values)
            for k in visit:
                dims = [point.get(d, c) for d, c in enumerate(points[k])]
                mine = slice(k * count, (k + 1) * count)
                out[mine] = self._step(generic, dims, values[mine], lanes)
            return out

        group = self._group(generic)
        inside = None if group is None else group.dim
        spans = {d: (Linear(), generic.sizes[d]) for d in generic.reduction_dims if d != inside}
        if part is not None:
            spans[generic.reduction_dims[0]] = part
        updates = UNROLLED_SCALARS if not lanes else UNROLLED_TAPS if taps else UNROLLED_UPDATES
        unroll = _unrolls(spans, max(updates // max(len(positions) * count, 1), 1))
        streamed = (group is not None or generic.factors is not None) and not taps
        streams = vectors if streamed else 0
        with self._reader.prefetcher.reduction(generic, lanes, streams):
            return self._nest(spans, unroll, {}, values, update)

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
            wide = [any(c.coefficient(LANE) for c in w) for w in where]
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

    def _accumulator(self, generic: Generic, value: Val, element: str, lanes: int) -> Val:
        """Sums of f16 and bf16 are accumulated in f32 and rounded once."""
        if element in ("f16", "bf16") and generic.combiner is not None:
            value = self._reader.body._widen(value)
        return self._e.splat(value, lanes)

    def _round(self, e: Emitter, value: Val, element: str) -> Val:
        return self._reader.body._narrow(value, element) if value.element != element else value

    def _step(
        self, generic: Generic, dims: list[Linear], values: list[Val], lanes: int
    ) -> list[Val]:
        """One update of the accumulators of one position."""
        e, reader = self._e, self._reader
        group = self._group(generic)
        if group is not None:
            return [self._dots.step(generic, group, dims, values[0], lanes)]
        arguments = [reader.operand(generic, k, dims, lanes) for k in range(len(generic.inputs))]
        wide = values[0].element
        if generic.factors is not None and wide in ("f32", "f64"):
            a, b = (reader.body._widen(arguments[k]) for k in generic.factors)
            return [e.fma(a, b, values[0])]
        widened = element_of(generic.inits[0]) != wide
        if generic.combiner is not None and (widened or generic.combiner in EXTREMES):
            wanted = [generic.combined]
            [value] = reader.body.values(generic.block, arguments + values, dims, lanes, wanted)
            value = reader.body._widen(value) if widened else value
            return [self._combine(generic.combiner, values[0], e.splat(value, lanes))]
        results = reader.body.run(generic.block, arguments + values, dims, lanes)
        return [e.splat(r, lanes) for r in results]

    def _nest(
        self,
        spans: _Spans,
        unroll: dict[int, int],
        point: dict[int, Linear],
        values: list[Val],
        update: _Update,
    ) -> list[Val]:
        """The reduction loops over `spans`, the first one outermost: the order of the op's dims."""
        if len(point) == len(spans):
            return update(point, values)
        dim = list(spans)[len(point)]
        (start, size), step = spans[dim], unroll[dim]

        def body(i: Linear, carried: list[Val]) -> list[Val]:
            for j in range(step):
                at = {**point, dim: start + i * step + j}
                carried = self._nest(spans, unroll, at, carried, update)
            return carried

        values = self._e.loop(Linear(0), Linear(size // step), 1, values, body)
        for j in range(size // step * step, size):
            values = self._nest(spans, unroll, {**point, dim: start + j}, values, update)
        return values

    # -- lanes along a reduction dim --------------------------------------------------------------
    def _along_lanes(self, generic: Generic, at: list[Linear], dim: int) -> Val:
        """Partial results in LANE_CHAINS vectors, then one fixed tree, then the tail with narrower
        vectors.
        """
        assert generic.combiner is not None
        element = element_of(generic.inits[0])
        dims = generic.loop_dims(at)
        total = self._accumulator(generic, self._reader.read(generic.inits[0], at, 0), element, 0)
        start, size, width = 0, generic.sizes[dim], self._e.native_lanes
        while start < size:
            while width > size - start:
                width //= 2
            end = start + (size - start) // width * width
            part = self._span(generic, dims, dim, range(start, end, width), total.element)
            total = self._combine(generic.combiner, total, part)
            start = end
        return self._round(self._e, total, element)

    def _span(
        self, generic: Generic, base: list[Linear], dim: int, span: range, element: str
    ) -> Val:
        """The coordinates of `span` along `dim` combined: vectors of `span.step` lanes."""
        e, width, count = self._e, span.step, len(span)
        assert generic.combiner is not None
        lanes = width if width > 1 else 0
        chains = min(LANE_CHAINS, count) if width == e.native_lanes else 1
        others = [d for d in generic.reduction_dims if d != dim]

        def step(where: Linear, value: Val) -> Val:
            dims = list(base)
            dims[dim] = where + Linear.of(LANE) if lanes else where
            return self._others(generic, others, dims, [value], lanes)[0]

        def body(i: Linear, carried: list[Val]) -> list[Val]:
            return [
                step(i * (width * chains) + (span.start + chain * width), value)
                for chain, value in enumerate(carried)
            ]

        neutral = e.constant(identity_of(generic.combiner, element), element, lanes)
        values = e.loop(Linear(0), Linear(count // chains), 1, [neutral] * chains, body)
        for extra in range(count // chains * chains, count):
            values[0] = step(Linear(span.start + extra * width), values[0])
        while len(values) > 1:
            values = [
                self._combine(generic.combiner, values[k], values[k + 1])
                if k + 1 < len(values)
                else values[k]
                for k in range(0, len(values), 2)
            ]
        return self._across(generic.combiner, values[0])

    def _across(self, combiner: str, value: Val) -> Val:
        """The lanes of a vector combined."""
        if not value.lanes:
            return value
        if combiner in EXTREMES:
            return extreme_across(self._e, combiner, value)
        kind, _ = COMBINERS[combiner]
        free = value.element[0] == "f" and kind in ("add", "mul")
        flags = " fastmath<reassoc>" if free else ""
        text = f"vector.reduction <{kind}>, {value.name}{flags} : {value.type} into {value.element}"
        return self._e.op(text, [value], value.element, 0)

    def _others(
        self,
        generic: Generic,
        others: list[int],
        dims: list[Linear],
        values: list[Val],
        lanes: int,
    ) -> list[Val]:
        """The remaining reduction loops around one lane-wise update."""

        def update(point: dict[int, Linear], carried: list[Val]) -> list[Val]:
            return self._step(
                generic, [point.get(d, c) for d, c in enumerate(dims)], carried, lanes
            )

        def nest(level: int, point: dict[int, Linear], carried: list[Val]) -> list[Val]:
            if level == len(others):
                return update(point, carried)
            size = generic.sizes[others[level]]
            return self._e.loop(
                Linear(0),
                Linear(size),
                1,
                carried,
                lambda i, c: nest(level + 1, {**point, others[level]: i}, c),
            )

        return nest(0, {}, values)

    def _combine(self, name: str, a: Val, b: Val) -> Val:
        if name in EXTREMES:
            return extreme(self._e, name, a, b)
        return self._e.op(f"{name} {a.name}, {b.name} : {a.type}", [a, b], a.element)


def _varies(position: list[Linear]) -> bool:
    """Whether each lane is at coordinates of its own."""
    return any(c.coefficient(LANE) for c in position)


def _key(generic: Generic, position: list[Linear], lanes: int) -> tuple[object, ...]:
    """Under which a result is remembered: one that all lanes share is a scalar."""
    return ("reduce", generic.op, tuple(position), lanes if _varies(position) else 0)


def _unrolls(spans: _Spans, budget: int) -> dict[int, int]:
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
