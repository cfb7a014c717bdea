"""Iterations that have slabs of the results of their own (`independent_loops`), some of them.

How those who compute a task share the iterations out is the target's: `Target.write_slabs`.
"""

from __future__ import annotations

from collections.abc import Sequence

from torch_mlir import ir

from rcompiler.kernelgen.buffer import Buffer
from rcompiler.kernelgen.evaluate import Evaluator
from rcompiler.kernelgen.sequential import SequentialWriter, starts_empty
from rcompiler.kernelgen.tiling import Range, Tiling
from rcompiler.linalg.affine import Linear
from rcompiler.linalg.independent_loops import Apart, in_lockstep, leading


class Slabs:
    """The iterations of one kernel's loops.

    emitter: where they are written; nest: the loops; lockstep: whether iterations of the innermost
    one take the same way, and start from nothing; contiguous: how many of the outermost loops have
    slabs in one piece, which is copied at once where the loop starts from something.
    """

    def __init__(
        self,
        evaluator: Evaluator,
        results: list[ir.Value],
        nest: Sequence[Apart],
        outputs: list[Buffer],
    ) -> None:
        self.emitter, self.nest = evaluator.emitter, nest
        self.lockstep = starts_empty(nest[0].loop) and in_lockstep(nest[-1].loop)
        self.contiguous = leading(nest, outputs[0].shape)
        self._evaluator, self._results, self._outputs = evaluator, results, outputs

    def of_task(self, tiling: Tiling, grid: Sequence[Linear]) -> list[Range]:
        """The iterations of each loop that the task at `grid` does."""
        e, ranges = self.emitter, []
        for apart in self.nest:
            size = self._outputs[0].shape[apart.dim]
            tile = min(tiling.tile[apart.dim], size)
            start = grid[apart.dim] * tile
            own = Range(start, tile, start + tile)
            if size % tile:
                own = Range(start, None, e.min_signed(own.end, size).symbol)
            ranges.append(own)
        return ranges

    def copy(self, at: Sequence[Linear], inner: Sequence[Range] = ()) -> None:
        """What the iterations of the loops inside start from, where the outer ones are at `at`."""
        ranges = [*(Range(place, 1, place + 1) for place in at), *inner]
        dims = [apart.dim for apart in self.nest]
        self._writer(0).copy(self._results, dict(zip(dims, ranges, strict=True)))

    def write(self, members: Sequence[Sequence[Linear]], lanes: int = 0) -> None:
        """One iteration of each loop for each of the members, which are where these are; lanes: so
        many iterations of each, in a vector.
        """
        self._writer(lanes).write_slabs(self._results, self.nest, members)

    def _writer(self, lanes: int) -> SequentialWriter:
        return SequentialWriter(self.emitter, self._evaluator, self._outputs, lanes)
