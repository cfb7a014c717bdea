"""The tile of one task: loops over register tiles, with reductions, epilogue and stores in each."""

from __future__ import annotations

import contextlib
import itertools
import math
from collections.abc import Callable, Sequence
from functools import partial

from torch_mlir import ir

from rcompiler.errors import CompilerError
from rcompiler.kernelgen.buffer import Buffer
from rcompiler.kernelgen.evaluate import Evaluator
from rcompiler.kernelgen.in_turn import abreast
from rcompiler.kernelgen.reader import NeedsScalars
from rcompiler.kernelgen.running_sums import RunningSums
from rcompiler.kernelgen.tiling import Range, Tiling
from rcompiler.kernelgen.turned_blocks import TurnedBlocks
from rcompiler.kernelgen.value import Val
from rcompiler.linalg.affine import LANE, Linear
from rcompiler.linalg.generic import Generic
from rcompiler.linalg.pieces import Piece
from rcompiler.linalg.views import VIEWS

# Vectors of a register tile that are computed abreast; accumulators of more fill the registers.
_ABREAST = 4

# What a piece of a result is read from: a value of the region, or None for the piece's fill.
Source = tuple[ir.Value | None, Piece]
# Writes register tiles of equal steps together, from the first coordinates of each.
Leaf = Callable[[Sequence[list[Linear]], list[int]], None]


class TileWriter:
    """Writes boxes of results as loops over register tiles."""

    def __init__(
        self, name: str, tiling: Tiling, evaluator: Evaluator, root: ir.Operation | None
    ) -> None:
        """`root`: the reduction that may run in parts, see `sums_in_parts`.

        Raises CompilerError when the tiling asks for parts of a body without such a reduction.
        """
        if tiling.reduction_tile is not None and root is None:
            raise CompilerError(
                f"kernel {name} has a reduction_tile, but its body has no product reduction whose "
                "sums are results of its own; remove the attribute"
            )
        self._name = name
        self._tiling = tiling
        self._evaluator = evaluator
        self._e = evaluator.emitter
        self._root = root
        self._turned = TurnedBlocks(evaluator)
        self._reducing: dict[ir.Value, bool] = {}
        self._sums = False  # of what is being written
        self._prepared: set[tuple[ir.Value, tuple[tuple[Linear, ...], ...]]] = set()

    def write(
        self, piece: Piece, ranges: list[Range], results: list[ir.Value], outputs: list[Buffer]
    ) -> None:
        """The coordinates `ranges` of `results`, which lie in `piece`."""
        rank = len(ranges)
        order = self._tiling.nested(rank)
        values = [piece.value] if len(results) == 1 else results
        sources = [(v, piece) for v in values]
        self._sums = any(v is not None and self._reduces(v) for v in values)

        def whole(bases: Sequence[list[Linear]], steps: list[int]) -> None:
            self.register_tiles(bases, steps, sources, outputs)

        start, ones, parts = [Linear()] * rank, [1] * rank, self._tiling.reduction_tile
        if parts is None or piece.value is None:
            self._loops(order, ranges, start, ones, whole)
            return
        outer = [d for d in self._tiling.order[: parts[0]] if d < rank]
        inner = order[len(outer) :]

        def in_parts(bases: Sequence[list[Linear]], steps: list[int]) -> None:
            for base in bases:
                self._in_parts(inner, ranges, base, steps, sources[0], whole)

        self._loops(outer, ranges, start, ones, in_parts)

    def _in_parts(
        self,
        inner: list[int],
        ranges: list[Range],
        base: list[Linear],
        steps: list[int],
        source: Source,
        whole: Leaf,
    ) -> None:
        """The register tiles of `inner` for one part of the reduction after the other."""
        assert self._root is not None and self._tiling.reduction_tile is not None
        e, root = self._e, self._evaluator.generic(self._root)
        origin, extents = list(base), list(steps)
        for d in inner:
            extent = ranges[d].extent
            origin[d] = ranges[d].start
            extents[d] = self._tiling.tile[d] if extent is None else extent
        vector = self._tiling.vector_dim
        sums = RunningSums.of(self._evaluator, root, origin, extents, vector)

        def each(visit: Callable[[list[list[Linear]], list[list[Linear]], int], None]) -> None:
            def leaf(bases: Sequence[list[Linear]], size: list[int]) -> None:
                positions, lanes = self._positions(bases, size)
                visit(positions, self._root_positions(source, positions, lanes), lanes)

            self._loops(inner, ranges, base, steps, leaf)

        size, step = root.sizes[root.reduction_dims[0]], self._tiling.reduction_tile[1]

        def part(start: Linear, count: int) -> None:
            each(lambda at, roots, lanes: sums.advance(at, roots, lanes, (start, count)))

        def body(i: Linear, _: list) -> None:
            part(i * step, step)

        each(sums.begin)
        e.loop(Linear(0), Linear(size // step), 1, [], body)
        if size % step:
            part(Linear(size // step * step), size % step)

        def finish(bases: Sequence[list[Linear]], size: list[int]) -> None:
            positions, lanes = self._positions(bases, size)
            sums.finish(positions, self._root_positions(source, positions, lanes), lanes)
            whole(bases, size)

        self._loops(inner, ranges, base, steps, finish)

    def _root_positions(
        self, source: Source, positions: list[list[Linear]], lanes: int
    ) -> list[list[Linear]]:
        """Which element of the reduction each result element comes from."""
        value, piece = source
        assert value is not None and self._root is not None
        found: list[list[Linear]] = []

        def visit(generic: Generic, at: list[list[Linear]]) -> None:
            found.extend(at)

        shifted = [[c + -s for c, s in zip(p, piece.shift, strict=True)] for p in positions]
        self._prepared.clear()
        self._walk(value, shifted, lanes, visit)
        assert len(found) == len(positions)  # `reduction_root` promises it
        return found

    # -- loops over register tiles
    def _loops(
        self,
        order: list[int],
        ranges: list[Range],
        base: list[Linear],
        steps: list[int],
        leaf: Leaf,
    ) -> None:
        if not order:
            leaf([base], steps)
            return
        dim, rest = order[0], order[1:]
        span = ranges[dim]

        def go(at: Linear, step: int) -> None:
            self._loops(
                rest,
                ranges,
                [at if d == dim else c for d, c in enumerate(base)],
                [step if d == dim else s for d, s in enumerate(steps)],
                leaf,
            )

        if span.extent is None:
            self._e.loop(span.start, span.end, 1, [], lambda i, _: go(i, 1))
            return
        position = 0
        for step, count in self._tiling.cover(span.extent, dim, sums=self._sums):
            start = span.start + position

            def body(i: Linear, _: list, *, step: int = step, start: Linear = start) -> None:
                go(i * step + start, step)

            self._e.loop(Linear(0), Linear(count), 1, [], body)
            position += count * step

    def register_tiles(
        self,
        bases: Sequence[list[Linear]],
        steps: list[int],
        sources: list[Source],
        outputs: list[Buffer],
    ) -> None:
        """All positions of some register tiles: reductions together, then the elementwise rest,
        then the stores.
        """
        positions, lanes = self._positions(bases, steps)
        self._prepared.clear()
        for value, piece in sources:
            if value is not None:
                shifted = [[c + -s for c, s in zip(p, piece.shift, strict=True)] for p in positions]
                with contextlib.suppress(NeedsScalars):  # then each lane is prepared on its own
                    self._prepare(value, shifted, lanes)
                    self._turned.prepare(value, shifted, lanes)
        few = len(positions) <= _ABREAST
        for group in [positions] if few else [[at] for at in positions]:
            parts = [partial(self._values, sources, at, lanes) for at in group]
            for at, values in zip(group, abreast(self._e, parts), strict=True):
                for value, output in zip(values, outputs, strict=True):
                    self._store(value, output, output.offset(at), lanes)

    def _values(self, sources: list[Source], at: list[Linear], lanes: int) -> list[Val]:
        """What each source has at the coordinates `at` of its result."""
        values = []
        for value, piece in sources:
            if value is None:
                values.append(self._evaluator.body.scalar(piece.fill))
            else:
                inner = [c + -s for c, s in zip(at, piece.shift, strict=True)]
                values.append(self._evaluator.read(value, inner, lanes))
        return [self._e.splat(value, lanes) for value in values]

    def _positions(
        self, bases: Sequence[list[Linear]], steps: list[int]
    ) -> tuple[list[list[Linear]], int]:
        """Coordinates of the vectors (or elements) of some register tiles, and their lanes."""
        tiling = self._tiling
        vector = tiling.vector_dim
        lanes = min(tiling.lanes, steps[vector]) if vector >= 0 else 0
        lanes = 0 if lanes <= 1 else lanes
        offsets = [
            range(0, step, lanes) if d == vector and lanes else range(step)
            for d, step in enumerate(steps)
        ]
        positions = []
        for base, steps_in in itertools.product(bases, itertools.product(*offsets)):
            at = [c + o for c, o in zip(base, steps_in, strict=True)]
            if lanes:
                at[vector] = at[vector] + Linear.of(LANE)
            positions.append(at)
        return positions, lanes

    def _store(self, value: Val, output: Buffer, offset: Linear, lanes: int) -> None:
        stride = offset.coefficient(LANE)
        last = offset.highest(self._e.ranges | {LANE: max(lanes, 1)})
        if last is not None and last >= math.prod(output.shape):
            raise CompilerError(
                f"kernel {self._name} would write element {last} of {math.prod(output.shape)}"
            )
        if not lanes or stride == 1:
            self._e.store(value, output.pointer, offset.without(LANE))
            return
        for lane in range(lanes):
            self._e.store(self._e.lane(value, lane), output.pointer, offset.at_lane(lane))

    def _prepare(self, value: ir.Value, positions: list[list[Linear]], lanes: int) -> None:
        """Compute the reductions below `value` for all positions at once, so that they share their
        loops.
        """

        def compute(generic: Generic, at: list[list[Linear]]) -> None:
            unique = list({tuple(p): p for p in at}.values())
            self._evaluator.reducer.reduce(generic, unique, lanes)

        self._walk(value, positions, lanes, compute)

    def _walk(
        self,
        value: ir.Value,
        positions: list[list[Linear]],
        lanes: int,
        visit: Callable[[Generic, list[list[Linear]]], None],
    ) -> None:
        """Visit each reduction below `value` with the elements of it that `positions` need."""
        if not self._reduces(value):
            return
        key = (value, tuple(tuple(p) for p in positions))
        if key in self._prepared:
            return
        self._prepared.add(key)
        op = value.owner.operation
        if op.name != "linalg.generic":
            if op.name in VIEWS:
                inner = [self._evaluator.view_coordinates(op, p, lanes) for p in positions]
                self._walk(op.operands[0], inner, lanes, visit)
            return
        generic = self._evaluator.generic(op)
        if generic.accumulates:
            visit(generic, positions)
            return
        if generic.combination is not None:
            return  # it reads more elements than these positions: what is below waits for that
        for k, operand in enumerate(generic.op.operands):
            used = k < len(generic.inputs) or generic.init_used[k - len(generic.inputs)]
            if used and self._reduces(operand):
                inner = [
                    self._evaluator.coordinates(generic, k, generic.loop_dims(p), lanes)
                    for p in positions
                ]
                self._walk(operand, inner, lanes, visit)

    def _reduces(self, value: ir.Value) -> bool:
        """Whether there is a reduction below `value`, as far as `_prepare` looks."""
        if value not in self._reducing:
            owner = value.owner
            found = False
            if not isinstance(owner, ir.Block) and value not in self._evaluator.buffers:
                op = owner.operation
                if op.name == "linalg.generic":
                    reduces = self._evaluator.generic(op).accumulates
                    found = reduces or any(self._reduces(v) for v in op.operands)
                elif op.name in VIEWS:
                    found = self._reduces(op.operands[0])
            self._reducing[value] = found
        return self._reducing[value]
