"""The loops of an operator over its register tiles, and what they move between memory levels.

The loops of a task, and around them the loop over tasks, form one nest. For every level, the
largest inner part of the nest whose data fits is found; loops outside of it load their operands
again, except operands that do not move with the loops directly around it. All candidates of one
operator are evaluated at once, as numpy arrays.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from rcompiler.roller.expr import Access, TensorExpr
from rcompiler.roller.register import RegisterTile
from rcompiler.roller.runs import inside, runs

Array = Any  # numpy array with one entry per candidate

# Lines that a run of neighbouring bytes costs besides its own: where it ends, the prefetcher has
# asked for more, and where the next one begins, for nothing yet.
_RUN_LINES = 1.0


@dataclass(frozen=True)
class _Loop:
    """`axis`: position in `expr.axes`, or None for the sweeps over a task. `times`: how often it
    runs; `steps`: the same, where a last step that is cut off counts for what it is.
    """

    axis: int | None
    times: Array
    steps: Array


class Nest:
    """Register-tile loops of a task, then the loops over tasks, innermost first."""

    def __init__(
        self,
        expr: TensorExpr,
        line: int,
        register: RegisterTile,
        tiles: Array,
        order: Sequence[int],
        around: int | None = None,
    ) -> None:
        """tiles: int64 [candidates, parallel axes]. order: of the loops of a task. around: how many
        of them are around the loop over parts of the reduction; None: there are no parts.
        """
        self.expr = expr
        self._line = line
        self._count = len(tiles)
        self._shares = [inside(access, expr.sizes) for access in expr.accesses]
        sizes = [max(1, expr.axes[p].size) for p in expr.parallel]
        current = [self._all(axis.size) for axis in expr.axes]
        for position, axis in enumerate(expr.parallel):
            current[axis] = self._all(min(register.sizes[position], sizes[position]))
        if around is not None:
            current[expr.reduction[0]] = self._all(register.part)
        self._loops: list[_Loop] = []
        self._boxes = [self._box(current)]
        for number in reversed(range(len(order) + 1)):
            if number == around:
                self._add(expr.reduction[0], self._all(expr.axes[expr.reduction[0]].size), current)
            if number:
                position = order[number - 1]
                covered = np.minimum(tiles[:, position], sizes[position])
                self._add(expr.parallel[position], covered, current)
        if expr.sweeps > 1:
            self._loops.append(_Loop(None, self._all(expr.sweeps), self._all(expr.sweeps)))
            self._boxes.append(self._boxes[-1])
        for position in reversed(range(len(sizes))):
            self._add(expr.parallel[position], self._all(sizes[position]), current)

    def _all(self, size: int) -> Array:
        return np.full(self._count, size, np.int64)

    def _add(self, axis: int, size: Array, current: list[Array]) -> None:
        """One more loop, around the nest so far, which covers `current` per axis: to `size`."""
        inner, current[axis] = current[axis], size
        times = -(-size // np.maximum(inner, 1))
        if (times > 1).any():
            self._loops.append(_Loop(axis, times, np.maximum(size / np.maximum(inner, 1), 1.0)))
            pairs = zip(self.expr.accesses, self._shares, self._boxes[-1], strict=True)
            self._boxes.append(
                [
                    self._runs(access, current, shares)
                    if axis in access.axes() or access.data_dependent
                    else before
                    for access, shares, before in pairs
                ]
            )

    def _box(self, sizes: list[Array]) -> list[tuple[Array, Array]]:
        """Per access: in how many runs its data lies, and the bytes of each."""
        pairs = zip(self.expr.accesses, self._shares, strict=True)
        return [self._runs(access, sizes, shares) for access, shares in pairs]

    def _runs(
        self, access: Access, sizes: list[Array], shares: Sequence[float]
    ) -> tuple[Array, Array]:
        pieces, length = runs(access, sizes, self._line, shares)
        shape = (self._count,)
        return np.broadcast_to(pieces, shape), np.broadcast_to(length, shape)

    @cached_property
    def _bytes(self) -> list[list[Array]]:
        """Per depth and access, what the nest up to that depth touches."""
        return [[pieces * length for pieces, length in box] for box in self._boxes]

    @property
    def whole(self) -> float:
        """Bytes of all operands."""
        return float(np.sum(self._bytes[-1], axis=0)[0])

    def _deepest(self, capacity: float) -> Array:
        """The loops up to which everything fits in `capacity` bytes; -1: not one register tile."""
        inputs, sweeps = len(self.expr.inputs), self.expr.sweeps
        # one result is written in each sweep
        fits = np.stack([sum(b[:inputs]) + sum(b[inputs:]) / sweeps for b in self._bytes])
        return (fits <= capacity).sum(axis=0) - 1  # footprints grow outwards

    def traffic(self, capacity: float, *, again: bool = False) -> Array:
        """Bytes that all tasks together load into a level of `capacity` bytes.

        again: in all sweeps of a task; else in the first one.
        """
        deepest = self._deepest(capacity)
        total = self._begun(deepest) * _RUN_LINES * self._line
        for depth, chosen in self._depths(deepest):
            moved = sum(self._moved(number, depth, again) for number in self._traffic)
            total = np.where(chosen, total + moved, total)
        return total

    def loading(self, capacity: float) -> Array:
        """Share of the register tiles that wait for what `traffic` counts, the mean over its bytes:
        one that is not the first to use its operands finds them in the level.
        """
        share = np.ones(self._count)
        for depth, chosen in self._depths(self._deepest(capacity)):
            moved = [self._moved(number, depth, False) for number in self._traffic]
            first = [m / self._uses(n, depth) for n, m in zip(self._traffic, moved, strict=True)]
            share = np.where(chosen, sum(first) / np.maximum(sum(moved), 1.0), share)
        return share

    @cached_property
    def _traffic(self) -> list[int]:
        """The accesses that are not to a workspace."""
        return [number for number, access in enumerate(self.expr.accesses) if not access.kept]

    def _depths(self, deepest: Array) -> Iterator[tuple[int, Array]]:
        """The depths up to which the nest fits (-1: not at all), and for which candidates."""
        for depth in range(-1, len(self._boxes)):
            chosen = deepest == depth
            if chosen.any():
                yield depth, chosen

    def _reach(self, access: Access, depth: int) -> tuple[int, int]:
        """The depth that is loaded at once when the nest up to `depth` fits, and that up to which
        it stays.

        What fits is still there when the loop around it takes its next step: that loop loads
        only what is new, and loops that do not move an operand load nothing of it.
        """
        if depth < 0:
            return 0, 0
        outer = depth
        while outer < len(self._loops) and not _moves(access, self._loops[outer]):
            outer += 1
        if outer == depth < len(self._loops):  # a sliding window: the overlap is loaded once
            return depth + 1, depth + 1
        return depth, outer

    def _moved(self, number: int, depth: int, again: bool) -> Array:
        """Bytes of an access that are loaded when the nest up to `depth` fits."""
        inner, outer = self._reach(self.expr.accesses[number], depth)
        return self._bytes[inner][number] * self._outside(number, outer, again)

    def _uses(self, number: int, depth: int) -> Array:
        """How many register tiles use what is loaded once when the nest up to `depth` fits."""
        access, total = self.expr.accesses[number], np.ones(self._count)
        for loop in self._loops[: self._reach(access, depth)[1]]:
            if loop.axis is not None and not _moves(access, loop):
                total = total * loop.steps
        return total

    def _outside(self, number: int, depth: int, again: bool) -> Array:
        """How often the data of an access in the nest up to `depth` is taken from outside."""
        access, total = self.expr.accesses[number], np.ones(self._count)
        for loop in self._loops[depth:]:
            if loop.axis is None:
                if again and number < len(self.expr.inputs):
                    total = total * loop.times
            else:
                total = total * (loop.steps if _moves(access, loop) else loop.times)
        return total

    def _begun(self, deepest: Array) -> Array:
        """How often all tasks together begin a run that is not at hand, and does not go on where
        the register tile before ended. A loop whose data fits begins none that it began before.
        """
        total = np.zeros(self._count)
        for number, access in enumerate(self.expr.accesses):
            if access.kept or access.dims is None:
                continue
            first = self._boxes[0][number][0]
            found, single = first, np.ones(self._count, bool)
            for depth, loop in enumerate(self._loops):
                if _moves(access, loop):
                    # one run after the other is followed from end to end
                    single = single & (self._boxes[depth + 1][number][0] <= first)
                    found = np.where(single, found, found * loop.times)
                elif loop.axis is not None:
                    found = np.where(deepest >= depth, found, found * loop.times)
            total = total + found
        return total


def _moves(access: Access, loop: _Loop) -> bool:
    return loop.axis is not None and access.moves_with(loop.axis)
