"""Accumulators of reductions: how they start, what a step makes of them, how they are joined."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from torch_mlir import ir

from rcompiler.kernelgen.dot_step import DotStep
from rcompiler.kernelgen.emitter import Emitter
from rcompiler.kernelgen.extremes import EXTREMES, extreme
from rcompiler.kernelgen.reader import Reader
from rcompiler.kernelgen.value import Val
from rcompiler.linalg.affine import Linear
from rcompiler.linalg.dot_group import DotGroup, NarrowFactors
from rcompiler.linalg.generic import Generic
from rcompiler.linalg.product import factors_of
from rcompiler.linalg.values import element_of

# Independent partial sums of a reduction whose sums lanes share in: FMA latency 4 x 2 ports, halved
# for the loads. A choice for every device, not `ComputeUnit.accumulators`: the order of additions,
# and so the bits of results, must not depend on the figures of a record.
LANE_CHAINS = 4

# The accumulators after one step: from the coordinates of the reduction dims and their values.
Update = Callable[[dict[int, Linear], list[Val]], list[Val]]

# Of each reduction dim, outermost first: where its loop starts, and how many steps it takes.
Spans = dict[int, tuple[Linear, int]]


class _Kind(NamedTuple):
    """What the steps of a reduction are made of, see `DotStep` and `_factors`."""

    group: DotGroup | None
    narrow: NarrowFactors | None
    factors: tuple[int, int] | None


class Accumulators:
    """Writes what reductions do with their accumulators."""

    def __init__(self, reader: Reader, dots: DotStep | None) -> None:
        """dots: adds the dot groups of products; None: their steps are taken one by one."""
        self._reader, self._dots = reader, dots
        self._kinds: dict[ir.Operation, _Kind] = {}

    @property
    def _e(self) -> Emitter:
        return self._reader.emitter

    def group(self, generic: Generic) -> DotGroup | None:
        """The dot groups that `generic` is computed by, if it has some."""
        return None if self._dots is None else self._dots.group(generic)

    def start(self, generic: Generic, value: Val, element: str, lanes: int) -> Val:
        """An accumulator before the first step, of an initial value. Sums of f16 and bf16 are
        accumulated in f32 and rounded once.
        """
        if element in ("f16", "bf16") and generic.combiner is not None:
            value = self._reader.body.widen(value)
        return self._e.splat(value, lanes)

    def rounded(self, value: Val, element: str) -> Val:
        """The result that a finished accumulator is."""
        return self._reader.body.narrow(value, element) if value.element != element else value

    def step(
        self, generic: Generic, dims: list[Linear], values: list[Val], lanes: int
    ) -> list[Val]:
        """One update of the accumulators of one position; dims: of the loops of the op."""
        e, reader = self._e, self._reader
        group, narrow, factors = self._kind(generic)
        if group is not None and self._dots is not None:
            return [self._dots.step(generic, group, dims, values[0], lanes)]
        arguments = [reader.operand(generic, k, dims, lanes) for k in range(len(generic.inputs))]
        if lanes and narrow is not None and self._dots is not None:
            return [self._dots.product(narrow, arguments, values[0], lanes)]
        wide = values[0].element
        if factors is not None and wide in ("f32", "f64"):
            a, b = (reader.body.widen(arguments[k]) for k in factors)
            return [e.fma(a, b, values[0])]
        widened = generic.elements[len(generic.inputs)] != wide
        if generic.combiner is not None and (widened or generic.combiner in EXTREMES):
            wanted = [generic.combined]
            [value] = reader.body.values(generic.block, arguments + values, dims, lanes, wanted)
            value = reader.body.widen(value) if widened else value
            return [self.combined(generic.combiner, values[0], e.splat(value, lanes))]
        results = reader.body.run(generic.block, arguments + values, dims, lanes)
        return [e.splat(r, lanes) for r in results]

    def _kind(self, generic: Generic) -> _Kind:
        found = self._kinds.get(generic.op)
        if found is None:
            dots = self._dots
            narrow = None if dots is None else dots.narrow(generic)
            found = _Kind(self.group(generic), narrow, _factors(generic))
            self._kinds[generic.op] = found
        return found

    def over_other_dims(
        self, generic: Generic, dim: int, dims: list[Linear], value: Val, lanes: int
    ) -> Val:
        """An accumulator after the steps of all reduction dims but `dim`, which is where `dims` is,
        as the dims of the result are.
        """
        others = [d for d in generic.reduction_dims if d != dim]

        def update(point: dict[int, Linear], carried: list[Val]) -> list[Val]:
            return self.step(generic, [point.get(d, c) for d, c in enumerate(dims)], carried, lanes)

        spans = {d: (Linear(), generic.sizes[d]) for d in others}
        [value] = self.looped(spans, dict.fromkeys(others, 1), [value], update)
        return value

    def looped(
        self,
        spans: Spans,
        unroll: Mapping[int, int],
        values: list[Val],
        update: Update,
        point: Mapping[int, Linear] | None = None,
    ) -> list[Val]:
        """Accumulators after the loops over `spans`, the first one outermost: the order of the op's
        dims. unroll: steps in the body of each; point: where the loops around these are.
        """
        point = dict(point or {})
        if len(point) == len(spans):
            return update(point, values)
        dim = list(spans)[len(point)]
        (start, size), step = spans[dim], unroll[dim]

        def body(i: Linear, carried: list[Val]) -> list[Val]:
            for j in range(step):
                at = {**point, dim: start + i * step + j}
                carried = self.looped(spans, unroll, carried, update, at)
            return carried

        values = self._e.loop(Linear(0), Linear(size // step), 1, values, body)
        for j in range(size // step * step, size):
            values = self.looped(spans, unroll, values, update, {**point, dim: start + j})
        return values

    def combined(self, combiner: str, a: Val, b: Val) -> Val:
        """Two accumulators as one."""
        if combiner in EXTREMES:
            return extreme(self._e, combiner, a, b)
        return self._e.elementwise(combiner, a, b)

    def joined(self, combiner: str, values: Sequence[Val]) -> Val:
        """All of them as one, by a fixed tree."""
        values = list(values)
        while len(values) > 1:
            pairs = [values[k : k + 2] for k in range(0, len(values), 2)]
            values = [self.combined(combiner, *p) if len(p) == 2 else p[0] for p in pairs]
        return values[0]


def _factors(generic: Generic) -> tuple[int, int] | None:
    """The operands whose product each step adds; also of f16 that the body extends, as their
    products are exact: to fuse the addition changes no bit.
    """
    narrow = {element_of(v) for v in generic.inputs} <= {"f16", "f32"}
    return factors_of(generic) if generic.factors is None and narrow else generic.factors
