"""One rKernel as a function: task loop, result tile, stages, pieces.

Every task writes its tile of each result; `tile`, `grid` and `register_tile` count along the dims
of the first result. How a tile is written, and by how many threads, is the `Target`'s.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

from torch_mlir import ir

from rcompiler.dialects.rtask import guards_of, is_task_body, operands_of, pinned_of
from rcompiler.kernelgen.buffer import Buffer, in_workspace
from rcompiler.kernelgen.cutting import ByBounds, ByCases, Cutting
from rcompiler.kernelgen.sequential import SequentialWriter, has_plain_loops
from rcompiler.kernelgen.slabs import Slabs
from rcompiler.kernelgen.stages import Stage, computed_together, stages_of, walked_dims
from rcompiler.kernelgen.target import Target
from rcompiler.kernelgen.tiling import Range, Tiling
from rcompiler.linalg.affine import Linear
from rcompiler.linalg.generic import generics_of
from rcompiler.linalg.independent_loops import independent_loops
from rcompiler.linalg.pieces import Piece, pieces_of
from rcompiler.linalg.product import is_product
from rcompiler.linalg.values import element_of, shape_of, yielded


class KernelWriter:
    """Writes the function of one rtask.kernel."""

    def __init__(self, kernel: ir.Operation, target: Target) -> None:
        """target: one of its own, nothing is written with it yet."""
        self._kernel, self._target = kernel, target
        self._e, self._buffers = target.evaluator.emitter, target.evaluator.buffers
        self._block = kernel.regions[0].blocks[0]
        self._name = ir.StringAttr(kernel.attributes["sym_name"]).value
        self._sequential = ir.StringAttr(kernel.attributes["kind"]).value == "sequential"
        self._tiling = Tiling.of(kernel)
        self._results = yielded(self._block)
        self._pinned = _pinned_boxes(kernel)
        self._stages = stages_of(kernel, self._tiling.tile)
        self._walked = walked_dims(kernel)
        self._cutting = self._new_cutting()

    def _new_cutting(self) -> Cutting:
        tile, shape = self._tiling.tile, shape_of(self._results[0])
        together = [d for d in range(len(tile)) if computed_together(d, self._tiling, self._stages)]
        bounds = ByBounds(self._e, shape, together)
        if not self._target.shares_products or not any(map(is_product, generics_of(self._block))):
            return bounds
        whole = not self._stages and not self._walked
        whole = whole and all(len(shape_of(r)) == len(tile) for r in self._results)
        return ByCases(self._e, bounds, tile, self._walked, hangs_over=whole)

    def write(self) -> tuple[str, dict[str, str]]:
        """The function's text and the declarations of the external functions it calls.

        Raises CompilerError for a body that the target has no code for.
        """
        e, target = self._e, self._target
        operands = operands_of(self._block, len(self._results))
        for k, argument in enumerate(operands):
            pinned = k in self._pinned
            self._buffers[argument] = target.operand(k, argument, readonly=True, pinned=pinned)
        outputs = [
            target.operand(k, r, readonly=False, pinned=k in self._pinned)
            for k, r in enumerate(self._results, len(operands))
        ]
        nest = independent_loops(self._results) if self._sequential else []
        slabs = Slabs(target.evaluator, self._results, nest, outputs) if nest else None
        e.define("%count_end")
        e.line("%count_end = arith.addi %count, %zero : i64")
        if self._sequential and slabs is None:
            writer = SequentialWriter(e, target.evaluator, outputs)
            target.in_order(lambda: writer.write(self._results))
        else:
            self._tasks(self._runner(outputs, slabs))
        found = target.body(e.text())
        if guards := guards_of(self._kernel):
            found = target.guarded(guards, found)
        lines = "\n".join(found)
        vectorise = self._sequential and not (slabs and slabs.lockstep)
        head = target.head(self._name, vectorise=vectorise and has_plain_loops(self._block))
        return f"{head}{{\n  %zero = arith.constant 0 : i64\n{lines}\n  return\n}}", e.externals

    def _tasks(self, run: Callable[[Linear], None]) -> None:
        """All tasks of a run; `run` writes that of a number."""
        e = self._e

        def task(i: Linear, _: list) -> None:
            position = e.exact("muli", e.index(i), "%stride")
            run(Linear.of(e.exact("addi", position, "%first")))

        if all(g == 1 for g in self._tiling.grid):
            run(Linear())
        else:
            e.loop(Linear(0), Linear.of("%count_end"), 1, [], task)

    def _runner(self, outputs: list[Buffer], slabs: Slabs | None) -> Callable[[Linear], None]:
        """What writes the task of a number."""
        if is_task_body(self._block):
            self._place_pinned(outputs)
            operands = list(self._buffers.values())
            return self._target.task_writer(self._kernel, outputs, operands).write
        self._tiles = self._target.tile_writer(self._name, self._tiling)
        if all(points == 1 for points in self._tiling.grid):
            return lambda number: self._tile([Linear()] * len(self._tiling.grid), outputs, slabs)
        return lambda number: self._tile(self._grid_position(number), outputs, slabs)

    def _grid_position(self, number: Linear) -> list[Linear]:
        """Row-major coordinates of a task in the grid."""
        number = self._target.task_number(number, math.prod(self._tiling.grid))
        position = [Linear()] * len(self._tiling.grid)
        for d in reversed(range(len(position))):
            extent = self._tiling.grid[d]
            if extent == 1:
                continue
            if all(g == 1 for g in self._tiling.grid[:d]):
                position[d] = number
                break
            number, position[d] = self._target.evaluator.split(number, extent)
        return position

    # -- the tile of one task ----------------------------------------------------------------------
    def _tile(self, grid: list[Linear], outputs: list[Buffer], slabs: Slabs | None) -> None:
        """Split dims whose last tile is partial and that need a static extent, then write every
        piece; of a loop with iterations apart, the slabs of the tile.
        """
        self._place_pinned(outputs)
        if slabs is None:
            self._partial(0, grid, [], outputs)
        else:
            self._target.write_slabs(slabs, slabs.of_task(self._tiling, grid))

    def _place_pinned(self, outputs: list[Buffer]) -> None:
        """Of pinned tensors the boxes of the run are there, and nothing else."""
        arguments = operands_of(self._block, len(outputs))
        first = self._grid_position(Linear.of("%first")) if self._pinned else []
        for number, box in self._pinned.items():
            start = tuple(
                first[axis] * scale + low if axis >= 0 else Linear() for axis, scale, low in box
            )
            if number < len(arguments):
                whole = self._buffers[arguments[number]]
                self._buffers[arguments[number]] = replace(whole, origin=start)
            else:
                number -= len(arguments)
                outputs[number] = replace(outputs[number], origin=start)

    def _partial(
        self, dim: int, grid: list[Linear], ranges: list[Range], outputs: list[Buffer]
    ) -> None:
        e, tiling = self._e, self._tiling
        if dim == len(tiling.tile):
            self._walk(self._walked, ranges, outputs)
            return
        size, tile = outputs[0].shape[dim], min(tiling.tile[dim], outputs[0].shape[dim])
        start = grid[dim] * tile

        def go(extent: int | None, end: Linear) -> None:
            self._partial(dim + 1, grid, [*ranges, Range(start, extent, end)], outputs)

        last = size - (tiling.grid[dim] - 1) * tile
        if last == tile or self._cutting.hangs_over:
            go(tile, start + tile)
        elif not self._cutting.needs_extent(dim):
            go(None, e.min_signed(start + tile, size).symbol)
        else:
            is_last = e.compare("eq", grid[dim], tiling.grid[dim] - 1).name

            def side(extent: int) -> list:
                go(extent, start + extent)
                return []

            e.branch(is_last, lambda: side(last), lambda: side(tile))

    def _walk(self, dims: list[int], ranges: list[Range], outputs: list[Buffer]) -> None:
        """All stages at each step of the result dims `dims`."""
        if not dims:
            self._in_stages(ranges, outputs)
            return
        dim, *rest = dims

        def step(at: Linear, _: list) -> None:
            inner = [Range(at, 1, at + 1) if d == dim else r for d, r in enumerate(ranges)]
            self._walk(rest, inner, outputs)

        if ranges[dim].extent == 1:
            self._walk(rest, ranges, outputs)
            return
        self._e.loop(ranges[dim].start, ranges[dim].end, 1, [], step)

    def _in_stages(self, ranges: list[Range], outputs: list[Buffer]) -> None:
        """The tile of every stage, then the tiles of the results."""
        if not self._stages:
            self._write_results(ranges, outputs)
            return
        e, meeting = self._e, self._target.meeting
        meeting.begin()
        # what reads a stage must not move in front of the loops that compute it
        guard, e.guard = e.guard, e.depth
        for stage in self._stages:
            meeting.before(stage)
            self._buffers[stage.result] = self._stage(stage, ranges)
        meeting.before_results()
        self._write_results(ranges, outputs)
        e.guard = guard
        meeting.end()

    def _stage(self, stage: Stage, ranges: list[Range]) -> Buffer:
        shape = shape_of(stage.value)
        own = [
            Range(Linear(), size, Linear(size)) if axis < 0 else ranges[axis]
            for size, axis in zip(shape, stage.axes, strict=True)
        ]
        origin = tuple(r.start for r in own)
        buffer = Buffer(
            in_workspace(self._e, stage.offset), stage.shape, element_of(stage.value), False, origin
        )
        name = f"{self._name}, stage {stage.offset}"
        writer = self._target.tile_writer(name, stage.tiling)
        whole = Piece((0,) * len(shape), shape, stage.value, (0,) * len(shape))
        writer.write(whole, own, [stage.value], [buffer])
        return buffer

    def _write_results(self, ranges: list[Range], outputs: list[Buffer]) -> None:
        first = shape_of(self._results[0])
        together = [k for k, r in enumerate(self._results) if shape_of(r) == first]
        if len(together) == len(self._results) and all(
            len(pieces_of(r)) == 1 for r in self._results
        ):
            self._write_piece(pieces_of(self._results[0])[0], ranges, self._results, outputs)
            return
        for result, output in zip(self._results, outputs, strict=True):
            shape = shape_of(result)
            own = [
                ranges[d] if d < len(ranges) and first[d] == n else Range(Linear(), n, Linear(n))
                for d, n in enumerate(shape)
            ]
            for piece in pieces_of(result):
                self._write_piece(piece, own, [result], [output])

    def _write_piece(
        self, piece: Piece, ranges: list[Range], results: list[ir.Value], outputs: list[Buffer]
    ) -> None:
        """The part of the tile that lies in `piece`."""

        def write(clipped: list[Range]) -> None:
            self._tiles.write(piece, clipped, results, outputs)

        self._cutting.cut(piece, ranges, outputs[0].shape, write)


def _pinned_boxes(kernel: ir.Operation) -> dict[int, list[tuple[int, int, int]]]:
    """By pinned operand or result, of the box of a task axis, scale and offset in each dim."""
    accesses = [
        *ir.ArrayAttr(kernel.attributes["reads"]),
        *ir.ArrayAttr(kernel.attributes["writes"]),
    ]
    boxes = {n: map(ir.DenseI64ArrayAttr, ir.ArrayAttr(accesses[n])) for n in pinned_of(kernel)}
    return {n: [(d[0], d[1], d[2]) for d in dims] for n, dims in boxes.items()}
