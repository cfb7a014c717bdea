"""Sums of bf16 by vectors, in the order in which tile registers add them up (AMX).

    even, odd = 0, 0
    for each word of a step:
      even += a[2 word] * b[2 word]
      odd  += a[2 word + 1] * b[2 word + 1]        each fused
    sum += even + odd

So it does not show in the results which of both computes a register tile: with tile registers all
products of bf16 are added in this order. Results below the normal numbers are 0, as theirs are.

Source: Intel, Architecture Instruction Set Extensions, TDPBF16PS.
"""

from __future__ import annotations

from collections.abc import Sequence

from rcompiler.device.matrix_unit import AMX_HALVES
from rcompiler.kernelgen.accumulators import Accumulators, Spans
from rcompiler.kernelgen.dot_step import DotStep
from rcompiler.kernelgen.emitter import Emitter
from rcompiler.kernelgen.reader import Reader
from rcompiler.kernelgen.value import Val
from rcompiler.linalg.affine import Linear
from rcompiler.linalg.dot_group import DotGroup
from rcompiler.linalg.generic import Generic
from rcompiler.roller.tile_cover import words_of_step

_LEAST_NORMAL = 2.0**-126


def step_of(generic: Generic, group: DotGroup, depth: int) -> tuple[int, int]:
    """The reduction dim that steps of tile registers go along, and the words of a step; no words
    where they do not multiply the product. By its reduction alone, which all of its tiles share.

    depth: elements of a step at most.
    """
    dims = [d for d in generic.reduction_dims if d != group.dim and generic.sizes[d] > 1]
    words = words_of_step(generic.sizes[dims[-1]], depth // group.steps) if dims else 0
    return dims[-1] if dims else -1, words


class TileOrder:
    """Writes sums of bf16 by vectors that tile registers would compute."""

    def __init__(self, reader: Reader, accumulators: Accumulators, dots: DotStep) -> None:
        self._reader, self._accumulators, self._dots = reader, accumulators, dots

    @property
    def _e(self) -> Emitter:
        return self._reader.emitter

    def holds(self, generic: Generic) -> bool:
        """Whether a reduction is added up in this order."""
        group = self._dots.group(generic)
        if group is None or group.element != AMX_HALVES.element:
            return False
        return group.element in self._e.tiles and step_of(generic, group, AMX_HALVES.depth)[1] > 0

    def summed(
        self,
        generic: Generic,
        points: Sequence[list[Linear]],
        lanes: int,
        values: list[Val],
        unroll: int,
    ) -> list[Val]:
        """The accumulators of all positions after all steps.

        points: loop coordinates of each position. unroll: words in the body of the innermost loop.
        """
        group = self._dots.group(generic)
        assert group is not None
        last, words = step_of(generic, group, AMX_HALVES.depth)
        dims = [d for d in generic.reduction_dims if d != group.dim]
        turns = {d: generic.sizes[d] // (words if d == last else 1) for d in dims}
        spans: Spans = {d: (Linear(), count) for d, count in turns.items()}

        def step(point: dict[int, Linear], sums: list[Val]) -> list[Val]:
            return self._step(generic, points, lanes, point, sums, last, words, unroll)

        return self._accumulators.looped(spans, dict.fromkeys(dims, 1), values, step)

    def _step(
        self,
        generic: Generic,
        points: Sequence[list[Linear]],
        lanes: int,
        around: dict[int, Linear],
        sums: list[Val],
        last: int,
        words: int,
        unroll: int,
    ) -> list[Val]:
        """The accumulators after one step; around: where the loops over the steps are."""
        e, group = self._e, self._dots.group(generic)
        assert group is not None
        outer = {d: c for d, c in around.items() if d != last}

        def word(point: dict[int, Linear], parts: list[Val]) -> list[Val]:
            at = {**outer, **point}
            found = []
            for number, dims in enumerate(points):
                here = [at.get(d, c) for d, c in enumerate(dims)]
                for odd in (False, True):
                    part = parts[2 * number + odd]
                    found.append(self._dots.half_step(generic, group, here, part, lanes, odd))
            return found

        zeros = [e.constant(0.0, "f32", v.lanes) for v in sums for _ in (False, True)]
        span: Spans = {last: (around[last] * words, words)}
        parts = self._accumulators.looped(span, {last: min(unroll, words)}, zeros, word)
        pairs = zip(parts[::2], parts[1::2], strict=True)
        both = [self._flushed(e.add(even, odd)) for even, odd in pairs]
        return [self._flushed(e.add(s, b)) for s, b in zip(sums, both, strict=True)]

    def _flushed(self, value: Val) -> Val:
        """0 in place of numbers below the normal ones."""
        e = self._e
        zero = e.constant(0.0, "f32", value.lanes)
        below = e.compare("olt", e.abs(value), e.constant(_LEAST_NORMAL, "f32", value.lanes))
        return e.select(below, e.copysign(zero, value), value)
