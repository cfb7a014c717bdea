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

from rcompiler.roller.expr import TensorExpr
from rcompiler.roller.index_expr import Number
from rcompiler.roller.numerics import maximum, some
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
    times: Number
    steps: Number


class Nest:
    """Register-tile loops of a task, then the loops over tasks, innermost first.

    A level is a capacity in bytes; of several at once, [levels], numbers per candidate are
    [levels, candidates].
    """

    def __init__(
        self,
        expr: TensorExpr,
        line: int,
        inner: Sequence[Number],
        tiles: Array,
        order: Sequence[int],
        around: int | None = None,
        part: Number = 0,
    ) -> None:
        """inner: what is computed at once, a size per parallel axis. tiles: int64 [candidates,
        parallel axes]. order: of the loops of a task. around: how many of them are around the loop
        over parts of the reduction, of `part` steps; None: there are no parts.
        """
        self.expr = expr
        self._line = line
        self._count = len(tiles)
        sizes = [max(1, expr.axes[p].size) for p in expr.parallel]
        current: list[Number] = [axis.size for axis in expr.axes]
        for position, axis in enumerate(expr.parallel):
            current[axis] = inner[position]
        if around is not None:
            current[expr.reduction[0]] = part
        self._loops: list[_Loop] = []
        boxes = [tuple(current)]

        def add(axis: int, size: Number) -> None:
            """One more loop, around the nest so far, which covers `current` per axis: to `size`."""
            inner, current[axis] = maximum(current[axis], 1), size
            times = -(-size // inner)
            if some(times > 1):
                self._loops.append(_Loop(axis, times, maximum(size / inner, 1.0)))
                boxes.append(tuple(current))

        inside = [_clipped(tiles[:, position], size) for position, size in enumerate(sizes)]
        for number in reversed(range(len(order) + 1)):
            if number == around:
                add(expr.reduction[0], expr.axes[expr.reduction[0]].size)
            if number:
                position = order[number - 1]
                add(expr.parallel[position], inside[position])
        if expr.sweeps > 1:
            self._loops.append(_Loop(None, expr.sweeps, expr.sweeps))
            boxes.append(boxes[-1])
        for position in reversed(range(len(sizes))):
            add(expr.parallel[position], sizes[position])
        self._runs, self._bytes = self._touched(boxes)
        self._known: dict[tuple[int, bool], tuple[Array, Array]] = {}

    def _touched(self, boxes: Sequence[Sequence[Number]]) -> tuple[Array, Array]:
        """Per access, in how many runs the data of a box lies, and its bytes: [accesses, depths,
        candidates].

        boxes: per depth the sizes that the nest up to it covers.
        """
        # all depths at once: numpy takes as long for few candidates as for ten times as many
        sizes = [_together(column, self._count) for column in zip(*boxes, strict=True)]
        found = np.empty((2, len(self.expr.accesses), len(boxes), self._count))
        for number, access in enumerate(self.expr.accesses):
            shares = inside(access, self.expr.sizes)
            pieces, length = runs(access, sizes, self._line, shares)
            found[0, number], found[1, number] = pieces, pieces * length
        return found[0], found[1]

    @property
    def whole(self) -> float:
        """Bytes of all operands."""
        return float(sum(each[-1, 0] for each in self._bytes))

    @cached_property
    def _held(self) -> Array:
        """Bytes that the nest up to each depth touches, [depths, candidates]."""
        inputs, sweeps = len(self.expr.inputs), self.expr.sweeps
        # one result is written in each sweep
        held: Array = sum(self._bytes[:inputs]) + sum(self._bytes[inputs:]) / sweeps
        return held

    def _deepest(self, capacity: Array | float) -> Array:
        """The loops up to which everything fits in `capacity` bytes; -1: not one register tile."""
        most = np.asarray(capacity)[..., np.newaxis, np.newaxis]
        return (self._held <= most).sum(axis=-2) - 1  # footprints grow outwards

    def traffic(self, capacity: Array | float, *, again: bool = False) -> Array:
        """Bytes that all tasks together load into a level of `capacity` bytes.

        again: in all sweeps of a task; else in the first one.
        """
        deepest = self._deepest(capacity)
        total = self._begun(deepest) * _RUN_LINES * self._line
        for depth, chosen in self._depths(deepest):
            total = np.where(chosen, total + self._loaded(depth, again)[0], total)
        return total

    def loading(self, capacity: Array | float) -> Array:
        """Share of the register tiles that wait for what `traffic` counts, the mean over its bytes:
        one that is not the first to use its operands finds them in the level.
        """
        deepest = self._deepest(capacity)
        share = np.ones(deepest.shape)
        for depth, chosen in self._depths(deepest):
            share = np.where(chosen, self._loaded(depth)[1], share)
        return share

    def _loaded(self, depth: int, again: bool = False) -> tuple[Array, Array]:
        """Bytes that are loaded when the nest up to `depth` fits, and the share of the register
        tiles that wait for them.
        """
        key = depth, again
        if key not in self._known:
            moved = [self._moved(number, depth, again) for number in self._traffic]
            first = [m / self._uses(n, depth) for n, m in zip(self._traffic, moved, strict=True)]
            total = sum(moved)
            self._known[key] = total, sum(first) / np.maximum(total, 1.0)
        return self._known[key]

    @cached_property
    def _traffic(self) -> list[int]:
        """The accesses that are not to a workspace."""
        return [number for number, access in enumerate(self.expr.accesses) if not access.kept]

    @cached_property
    def _moves(self) -> list[list[bool]]:
        """Per access and loop, whether it moves with the loop."""
        return [
            [loop.axis is not None and access.moves_with(loop.axis) for loop in self._loops]
            for access in self.expr.accesses
        ]

    def _depths(self, deepest: Array) -> Iterator[tuple[int, Array]]:
        """The depths up to which the nest fits (-1: not at all), and for which candidates."""
        for depth in set(deepest.ravel().tolist()):
            yield depth, deepest == depth

    def _reach(self, number: int, depth: int) -> tuple[int, int]:
        """The depth that is loaded at once when the nest up to `depth` fits, and that up to which
        it stays.

        What fits is still there when the loop around it takes its next step: that loop loads
        only what is new, and loops that do not move an operand load nothing of it.
        """
        if depth < 0:
            return 0, 0
        moves = self._moves[number]
        outer = depth
        while outer < len(moves) and not moves[outer]:
            outer += 1
        if outer == depth < len(moves):  # a sliding window: the overlap is loaded once
            return depth + 1, depth + 1
        return depth, outer

    def _swept(self, number: int) -> bool:
        """Whether the loops of a task read an access themselves, all of it once, whichever elements
        of the result are written meanwhile: such are the positions and the updates of a scatter.
        """
        return self.expr.kind == "sequential" and self.expr.accesses[number].data_dependent

    def _moved(self, number: int, depth: int, again: bool) -> Array:
        """Bytes of an access that are loaded when the nest up to `depth` fits."""
        if self._swept(number):
            return self._bytes[number][-1]
        inner, outer = self._reach(number, depth)
        repeated = again and number < len(self.expr.inputs)
        return self._bytes[number][inner] * self._outside(number, outer, repeated)

    def _uses(self, number: int, depth: int) -> Number:
        """How many register tiles use what is loaded once when the nest up to `depth` fits."""
        moves, total = self._moves[number], 1.0
        for position in range(self._reach(number, depth)[1]):
            if not moves[position] and self._loops[position].axis is not None:
                total = total * self._loops[position].steps
        return total

    def _outside(self, number: int, depth: int, again: bool) -> Number:
        """How often the data of an access in the nest up to `depth` is taken from outside.

        again: in all sweeps of a task.
        """
        moves, total = self._moves[number], 1.0
        for position in range(depth, len(moves)):
            loop = self._loops[position]
            if loop.axis is not None or again:
                total = total * (loop.steps if moves[position] else loop.times)
        return total

    def _begun(self, deepest: Array) -> Array:
        """How often all tasks together begin a run that is not at hand, and does not go on where
        the register tile before ended. A loop whose data fits begins none that it began before.
        """
        total: Array = np.zeros(deepest.shape)
        stays = [deepest >= depth for depth in range(len(self._loops))]
        for number in self._traffic:
            access, moves = self.expr.accesses[number], self._moves[number]
            if access.dims is None or self._swept(number):
                continue
            pieces = self._runs[number]
            # one run after the other is followed from end to end
            single = np.logical_and.accumulate(pieces <= pieces[0])
            found = pieces[0]
            for depth, loop in enumerate(self._loops):
                if moves[depth]:
                    found = np.where(single[depth + 1], found, found * loop.times)
                elif loop.axis is not None:
                    found = np.where(stays[depth], found, found * loop.times)
            total = total + found
        return total


def _clipped(tiles: Array, size: int) -> Number:
    """Tiles of an axis, at most its size: one number where all are the same."""
    least, most = int(tiles.min()), int(tiles.max())
    return min(least, size) if least >= min(most, size) else np.minimum(tiles, size)


def _together(column: Sequence[Number], count: int) -> Number:
    """The sizes of one axis at every depth: one number when all are the same, else an array
    [depths, candidates].
    """
    if all(isinstance(size, int) for size in column) and len(set(column)) == 1:
        return column[0]
    found = np.empty((len(column), count), np.int64)
    for depth, size in enumerate(column):
        found[depth] = size
    return found
