"""One rKernel as a function: task loop, result tile, register tiles, stores.

    func.func @k(%operands: !llvm.ptr, %first: i64, %count: i64, %stride: i64)

`operands` points to one pointer per region argument and then one per result. Every task writes its
tile of each result; `tile`, `grid` and `register_tile` count along the dims of the first result.
"""

from __future__ import annotations

import contextlib
import itertools
import math
from dataclasses import dataclass

from torch_mlir import ir

from rcompiler.errors import CompilerError
from rcompiler.kernelgen.affine import LANE, Linear
from rcompiler.kernelgen.boxes import lane_cover
from rcompiler.kernelgen.emitter import Emitter
from rcompiler.kernelgen.evaluate import Buffer, Evaluator, NeedsScalars
from rcompiler.kernelgen.region import Piece, element_of, integers, pieces_of, shape_of, yielded
from rcompiler.kernelgen.sequential import SequentialWriter
from rcompiler.kernelgen.value import Val
from rcompiler.kernelgen.views import VIEWS


@dataclass(frozen=True)
class CpuFeatures:
    """What code generation must know of the target: f32 lanes of a vector register, fused
    multiply-add.
    """

    lanes: int
    has_fma: bool


@dataclass(frozen=True)
class Tiling:
    """The rTile of a kernel over the dims of its first result."""

    grid: tuple[int, ...]
    tile: tuple[int, ...]
    register_tile: tuple[int, ...]
    order: tuple[int, ...]
    vector_dim: int
    lanes: int

    @staticmethod
    def of(kernel: ir.Operation) -> Tiling:
        vector_dim, lanes = (
            ir.IntegerAttr(kernel.attributes[n]).value for n in ("vector_dim", "lanes")
        )
        grid, tile, register_tile, order = (
            integers(kernel, n) for n in ("grid", "tile", "register_tile", "order")
        )
        return Tiling(grid, tile, register_tile, order, vector_dim, lanes)


@dataclass(frozen=True)
class _Range:
    """Coordinates [start, start + extent) of one result dim; extent None: up to the SSA bound
    `end`.
    """

    start: Linear
    extent: int | None
    end: Linear


# What a piece of a result is read from: a value of the region, or None for the piece's fill.
_Source = tuple[ir.Value | None, Piece]


class KernelWriter:
    """Writes the function of one rtask.kernel."""

    def __init__(self, kernel: ir.Operation, features: CpuFeatures) -> None:
        self._block = kernel.regions[0].blocks[0]
        self._name = ir.StringAttr(kernel.attributes["sym_name"]).value
        self._sequential = ir.StringAttr(kernel.attributes["kind"]).value == "sequential"
        self._tiling = Tiling.of(kernel)
        self._e = Emitter(features.lanes, has_fma=features.has_fma)
        self._results = yielded(self._block)
        self._buffers: dict[ir.Value, Buffer] = {}
        self._reducing: dict[ir.Value, bool] = {}
        self._prepared: set[tuple[ir.Value, tuple[tuple[Linear, ...], ...]]] = set()

    def write(self) -> tuple[str, dict[str, str]]:
        """The function's text and the declarations of the external functions it calls."""
        e, tiling = self._e, self._tiling
        for k, argument in enumerate(self._block.arguments):
            self._buffers[argument] = self._buffer(k, argument, readonly=True)
        base = len(list(self._block.arguments))
        outputs = [self._buffer(base + k, r, readonly=False) for k, r in enumerate(self._results)]
        self._evaluator = Evaluator(e, self._buffers)

        def task(i: Linear, _: list) -> None:
            position = e.pure(
                f"arith.muli {e.index(i)}, %stride overflow<nsw> : i64", [e.index(i), "%stride"]
            )
            number = e.pure(
                f"arith.addi {position}, %first overflow<nsw> : i64", [position, "%first"]
            )
            self._tile(self._grid_position(Linear.of(number)), outputs)

        e.define("%count_end")
        e.line("%count_end = arith.addi %count, %zero : i64")
        if self._sequential:
            SequentialWriter(e, self._evaluator, outputs).write(self._results)
        elif all(g == 1 for g in tiling.grid):
            self._tile([Linear()] * len(tiling.grid), outputs)
        else:
            e.loop(Linear(0), Linear.of("%count_end"), 1, [], task)
        lines = "\n".join("  " + text for text in e.text())
        signature = "%operands: !llvm.ptr, %first: i64, %count: i64, %stride: i64"
        head = f"func.func @{self._name}({signature}) {{\n  %zero = arith.constant 0 : i64"
        return f"{head}\n{lines}\n  return\n}}", e.externals

    def _buffer(self, index: int, value: ir.Value, *, readonly: bool) -> Buffer:
        e = self._e
        slot = e.pure(
            f"llvm.getelementptr %operands[{index}] : (!llvm.ptr) -> !llvm.ptr, !llvm.ptr", [], "p"
        )
        pointer = e.pure(f"llvm.load {slot} : !llvm.ptr -> !llvm.ptr", [slot], "p")
        return Buffer(pointer, shape_of(value), element_of(value), readonly)

    def _grid_position(self, number: Linear) -> list[Linear]:
        """Row-major coordinates of a task in the grid."""
        position = [Linear()] * len(self._tiling.grid)
        for d in reversed(range(len(position))):
            extent = self._tiling.grid[d]
            if extent == 1:
                continue
            if all(g == 1 for g in self._tiling.grid[:d]):
                position[d] = number
                break
            number, position[d] = self._evaluator.split(number, extent)
        return position

    # -- the tile of one task ----------------------------------------------------------------------
    def _tile(self, grid: list[Linear], outputs: list[Buffer]) -> None:
        """Split dims whose last tile is partial and that need a static extent, then write every
        piece.
        """
        self._partial(0, grid, [], outputs)

    def _partial(
        self, dim: int, grid: list[Linear], ranges: list[_Range], outputs: list[Buffer]
    ) -> None:
        e, tiling = self._e, self._tiling
        if dim == len(tiling.tile):
            self._write_results(ranges, outputs)
            return
        size, tile = outputs[0].shape[dim], min(tiling.tile[dim], outputs[0].shape[dim])
        start = grid[dim] * tile

        def go(extent: int | None, end: Linear) -> None:
            self._partial(dim + 1, grid, [*ranges, _Range(start, extent, end)], outputs)

        last = size - (tiling.grid[dim] - 1) * tile
        if last == tile:
            go(tile, start + tile)
        elif tiling.register_tile[dim] == 1 and dim != tiling.vector_dim:
            limit, bound = e.index(start + tile), e.index(Linear(size))
            go(None, Linear.of(e.pure(f"arith.minsi {limit}, {bound} : i64", [limit, bound])))
        else:
            number, final = e.index(grid[dim]), e.index(Linear(tiling.grid[dim] - 1))
            is_last = e.pure(f"arith.cmpi eq, {number}, {final} : i64", [number, final])

            def side(extent: int) -> list:
                go(extent, start + extent)
                return []

            e.branch(is_last, lambda: side(last), lambda: side(tile))

    def _write_results(self, ranges: list[_Range], outputs: list[Buffer]) -> None:
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
                ranges[d] if d < len(ranges) and first[d] == n else _Range(Linear(), n, Linear(n))
                for d, n in enumerate(shape)
            ]
            for piece in pieces_of(result):
                self._write_piece(piece, own, [result], [output])

    def _write_piece(
        self, piece: Piece, ranges: list[_Range], results: list[ir.Value], outputs: list[Buffer]
    ) -> None:
        """The part of the tile that lies in `piece`."""
        rank = len(ranges)
        clipped = [self._clip(piece, d, ranges[d]) for d in range(rank)]
        if any(r.extent is not None and r.extent <= 0 for r in clipped):
            return
        order = [d for d in self._tiling.order if d < rank]
        order += [d for d in range(rank) if d not in order]
        values = [piece.value] if len(results) == 1 else results
        sources = [(v, piece) for v in values]
        self._loops(order, clipped, [Linear()] * rank, [1] * rank, sources, outputs)

    def _clip(self, piece: Piece, dim: int, tile: _Range) -> _Range:
        low, high = piece.low[dim], piece.high[dim]
        if tile.start.is_constant and tile.extent is not None:
            start = max(tile.start.constant, low)
            end = min(tile.start.constant + tile.extent, high)
            return _Range(Linear(start), end - start, Linear(end))
        if low == 0 and high == self._full(dim, high):
            return tile
        e = self._e
        bounds = []
        for value, limit, op in ((tile.start, low, "maxsi"), (tile.end, high, "minsi")):
            a, b = e.index(value), e.index(Linear(limit))
            bounds.append(Linear.of(e.pure(f"arith.{op} {a}, {b} : i64", [a, b])))
        return _Range(bounds[0], None, bounds[1])

    def _full(self, dim: int, high: int) -> int:
        shape = shape_of(self._results[0])
        return shape[dim] if dim < len(shape) else high

    # -- loops over register tiles
    def _loops(
        self,
        order: list[int],
        ranges: list[_Range],
        base: list[Linear],
        steps: list[int],
        sources: list[_Source],
        outputs: list[Buffer],
    ) -> None:
        if not order:
            self._register_tile(base, steps, sources, outputs)
            return
        dim, rest = order[0], order[1:]
        span = ranges[dim]
        vector = self._tiling.vector_dim

        def go(at: Linear, step: int) -> None:
            self._loops(
                rest,
                ranges,
                [at if d == dim else c for d, c in enumerate(base)],
                [step if d == dim else s for d, s in enumerate(steps)],
                sources,
                outputs,
            )

        if span.extent is None:
            self._e.loop(span.start, span.end, 1, [], lambda i, _: go(i, 1))
            return
        position = 0
        for step in self._chunks(span.extent, dim, dim == vector):
            count = (span.extent - position) // step
            start = span.start + position

            def body(i: Linear, _: list, *, step: int = step, start: Linear = start) -> None:
                go(i * step + start, step)

            self._e.loop(Linear(0), Linear(count), 1, [], body)
            position += count * step

    def _chunks(self, extent: int, dim: int, is_vector: bool) -> list[int]:
        """Register-tile steps that cover `extent`: the full step, then remainders."""
        registers = self._tiling.register_tile
        if not is_vector:
            step = max(min(registers[dim] if dim < len(registers) else 1, extent), 1)
            return [step] + ([extent % step] if extent % step else [])
        lanes = max(self._tiling.lanes, 1)
        step = registers[dim] // lanes * lanes  # whole vectors
        chunks, left = [], extent
        if step and extent >= step:
            chunks.append(step)
            left %= step
        if left >= lanes:
            chunks.append(left // lanes * lanes)
            left %= lanes
        return chunks + lane_cover(left, lanes // 2 or 1)

    def _register_tile(
        self,
        base: list[Linear],
        steps: list[int],
        sources: list[_Source],
        outputs: list[Buffer],
    ) -> None:
        """All positions of one register tile: reductions together, then the elementwise rest, then
        the stores.
        """
        e, tiling = self._e, self._tiling
        vector = self._tiling.vector_dim
        lanes = min(tiling.lanes, steps[vector]) if vector >= 0 else 0
        lanes = 0 if lanes <= 1 else lanes
        offsets = [
            range(0, step, lanes) if d == vector and lanes else range(step)
            for d, step in enumerate(steps)
        ]
        positions = []
        for steps_in in itertools.product(*offsets):
            at = [c + o for c, o in zip(base, steps_in, strict=True)]
            if lanes:
                at[vector] = at[vector] + Linear.of(LANE)
            positions.append(at)
        self._prepared.clear()
        for value, piece in sources:
            if value is not None:
                shifted = [[c + -s for c, s in zip(p, piece.shift, strict=True)] for p in positions]
                with contextlib.suppress(NeedsScalars):  # then each lane is prepared on its own
                    self._prepare(value, shifted, lanes)
        for at in positions:
            values = []
            for value, piece in sources:
                if value is None:
                    values.append(self._evaluator.body.scalar(piece.fill))
                else:
                    inner = [c + -s for c, s in zip(at, piece.shift, strict=True)]
                    values.append(self._evaluator.read(value, inner, lanes))
            for value, output in zip(values, outputs, strict=True):
                offset = output.offset(at)
                self._store(e.splat(value, lanes), output, offset, lanes)

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
                self._prepare(op.operands[0], inner, lanes)
            return
        generic = self._evaluator.generic(op)
        if generic.reduction_dims:
            unique = list({tuple(p): p for p in positions}.values())
            self._evaluator.reducer.reduce(generic, unique, lanes)
            return
        for k, operand in enumerate(generic.op.operands):
            if k < len(generic.inputs) or generic.init_used[k - len(generic.inputs)]:
                inner = [
                    self._evaluator.coordinates(generic, k, generic.loop_dims(p), lanes)
                    for p in positions
                ]
                self._prepare(operand, inner, lanes)

    def _reduces(self, value: ir.Value) -> bool:
        """Whether there is a reduction below `value`, as far as `_prepare` looks."""
        if value not in self._reducing:
            owner = value.owner
            found = False
            if not isinstance(owner, ir.Block) and value not in self._buffers:
                op = owner.operation
                if op.name == "linalg.generic":
                    reduces = bool(self._evaluator.generic(op).reduction_dims)
                    found = reduces or any(self._reduces(v) for v in op.operands)
                elif op.name in VIEWS:
                    found = self._reduces(op.operands[0])
            self._reducing[value] = found
        return self._reducing[value]
