"""The tile of one task: loops over register tiles, with reductions, epilogue and stores in each."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from functools import partial

from torch_mlir import ir

from rcompiler.errors import CompilerError
from rcompiler.kernelgen.buffer import Buffer
from rcompiler.kernelgen.elements import Elements, Source, sources_of
from rcompiler.kernelgen.evaluate import Evaluator
from rcompiler.kernelgen.in_turn import abreast
from rcompiler.kernelgen.reader import NeedsScalars
from rcompiler.kernelgen.tiling import Range, Tiling
from rcompiler.kernelgen.turned_blocks import TurnedBlocks
from rcompiler.kernelgen.waiting_rows import WaitingRows
from rcompiler.linalg.affine import LANE, Linear
from rcompiler.linalg.pieces import Piece

# Vectors of a register tile that are computed abreast; accumulators of more fill the registers,
# where they do not wait in memory.
_ABREAST = 4
_ROWS = 2  # from so many groups of these on, what becomes of sums that wait is a loop

# Writes the register tile of some steps from its first coordinates on.
_Leaf = Callable[[list[Linear], list[int]], None]


class VectorTileWriter:
    """Writes boxes of results as loops over register tiles, in the vectors of a core."""

    def __init__(self, name: str, tiling: Tiling, evaluator: Evaluator) -> None:
        """Raises CompilerError for reductions that are to run in parts: such a body has loops for
        that.
        """
        if tiling.reduction_tile is not None:
            raise CompilerError(
                f"kernel {name} has a reduction_tile, which is of no use to code generation; run "
                "rc-tile-kernels, which cuts reductions of kernels into parts, or remove the "
                "attribute"
            )
        self._tiling = tiling
        self._evaluator = evaluator
        self._e = evaluator.emitter
        self._elements = Elements(name, evaluator)
        self._turned = TurnedBlocks(evaluator)
        self._sums = False  # of what is being written

    def write(
        self, piece: Piece, ranges: list[Range], results: list[ir.Value], outputs: list[Buffer]
    ) -> None:
        """The coordinates `ranges` of `results`, which lie in `piece`."""
        rank = len(ranges)
        order = self._tiling.nested(rank)
        sources = sources_of(piece, results)
        self._sums = any(v is not None and self._elements.reduces(v) for v, _ in sources)

        def whole(base: list[Linear], steps: list[int]) -> None:
            self.register_tile(base, steps, sources, outputs)

        self._loops(order, ranges, [Linear()] * rank, [1] * rank, whole)

    # -- loops over register tiles
    def _loops(
        self,
        order: list[int],
        ranges: list[Range],
        base: list[Linear],
        steps: list[int],
        leaf: _Leaf,
    ) -> None:
        if not order:
            leaf(base, steps)
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

    def register_tile(
        self, base: list[Linear], steps: list[int], sources: list[Source], outputs: list[Buffer]
    ) -> None:
        """All positions of a register tile from `base` on: reductions together, then the
        elementwise rest, then the stores.
        """
        positions, lanes = self._positions(base, steps)
        turned = self._turned.count
        waiting = self._elements.prepare(sources, positions, lanes, self._turned.prepare)
        if waiting and self._turned.count == turned:
            if self._in_rows(base, steps, sources, outputs):
                return
        self._store(positions, lanes, sources, outputs, waiting=waiting)

    def _in_rows(
        self, base: list[Linear], steps: list[int], sources: list[Source], outputs: list[Buffer]
    ) -> bool:
        """Write what becomes of sums that wait in memory as a loop over the rows of a register
        tile; False, and nothing is written, where the rows differ in more than their place.
        """
        positions, lanes = self._positions(base, steps)
        dim = next((d for d, step in enumerate(steps) if step > 1), -1)
        if dim in (-1, self._tiling.vector_dim) or len(positions) < _ROWS * _ABREAST:
            return False
        rows, inner = steps[dim], [1 if d == dim else step for d, step in enumerate(steps)]
        width = len(positions) // rows
        cut = [positions[k : k + width] for k in range(0, len(positions), width)]
        reducer = self._evaluator.reducer
        found = WaitingRows.of(self._elements, reducer, sources, cut, lanes)
        if found is None:
            return False

        def row(number: Linear, _: list) -> None:
            at = [c + number if d == dim else c for d, c in enumerate(base)]
            own = self._positions(at, inner)[0]
            found.begin(self._elements, reducer, sources, own, lanes, number)
            self._store(own, lanes, sources, outputs, waiting=True)

        try:
            self._e.loop(Linear(0), Linear(rows), 1, [], row)
        except NeedsScalars:
            return False
        return True

    def _store(
        self,
        positions: list[list[Linear]],
        lanes: int,
        sources: list[Source],
        outputs: list[Buffer],
        *,
        waiting: bool,
    ) -> None:
        """The elementwise rest of some positions, and their stores."""
        most = _ABREAST if waiting or len(positions) <= _ABREAST else 1
        for start in range(0, len(positions), most):
            group = positions[start : start + most]
            parts = [partial(self._elements.values, sources, at, lanes) for at in group]
            found = list(abreast(self._e, parts))
            for number, output in enumerate(outputs):
                places = [output.offset(at) for at in group]
                self._elements.store_all([v[number] for v in found], output, places, lanes)

    def _positions(self, base: list[Linear], steps: list[int]) -> tuple[list[list[Linear]], int]:
        """Coordinates of the vectors (or elements) of a register tile, and their lanes."""
        tiling = self._tiling
        # of a tensor with fewer dims that says of none that vectors go along it: numbers one by one
        vector = tiling.vector_dim if tiling.vector_dim < len(steps) else -1
        lanes = math.gcd(tiling.lanes, steps[vector]) if vector >= 0 else 0  # no vector is cut
        lanes = 0 if lanes <= 1 else lanes
        widths = [1] * len(steps)
        if lanes:
            widths[vector], base = lanes, list(base)
            base[vector] = base[vector] + Linear.of(LANE)
        axes = zip(base, steps, widths, strict=True)
        along = [[c + offset for offset in range(0, step, width)] for c, step, width in axes]
        return list(map(list, itertools.product(*along))), lanes
