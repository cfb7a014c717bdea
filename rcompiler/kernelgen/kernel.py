"""One rKernel as a function: task loop, result tile, register tiles, stores.

    func.func @k(
        %operands: !llvm.ptr, %first: i64, %count: i64, %stride: i64, %workspace: !llvm.ptr)

`operands` points to one pointer per region argument and then one per result; `workspace` is memory
of the execution unit for the stages of a task. Every task writes its tile of each result; `tile`,
`grid` and `register_tile` count along the dims of the first result.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from torch_mlir import ir

from rcompiler.dialects.rtask import is_task_body, operands_of
from rcompiler.kernelgen.buffer import Buffer
from rcompiler.kernelgen.covers import lane_cover
from rcompiler.kernelgen.emitter import Emitter
from rcompiler.kernelgen.evaluate import Evaluator
from rcompiler.kernelgen.sequential import (
    SequentialWriter,
    carried_numbers,
    has_plain_loops,
    starts_empty,
)
from rcompiler.kernelgen.stages import Stage, computed_together, stages_of, walked_dims
from rcompiler.kernelgen.task import TaskWriter
from rcompiler.kernelgen.tile import VectorTileWriter
from rcompiler.kernelgen.tiling import Range, Tiling
from rcompiler.linalg.affine import LANE, Linear
from rcompiler.linalg.independent_loops import in_lockstep, in_vectors, independent_loops, leading
from rcompiler.linalg.pieces import Piece, pieces_of
from rcompiler.linalg.roots import sums_in_parts
from rcompiler.linalg.values import element_of, shape_of, yielded


@dataclass(frozen=True)
class CpuFeatures:
    """What code generation must know of the target: f32 lanes of a vector register, fused
    multiply-add, multiplication of vectors with powers of two (AVX-512), the element types
    ("i8", "bf16") that have a dot-product instruction, and bytes of a cache line.
    """

    lanes: int
    has_fma: bool
    has_scalef: bool = False
    dots: frozenset[str] = frozenset()
    line_bytes: int = 64

    def emitter(self) -> Emitter:
        """What writes code for this target."""
        return Emitter(
            self.lanes,
            has_fma=self.has_fma,
            has_scalef=self.has_scalef,
            dots=self.dots,
            line_bytes=self.line_bytes,
        )


# Numbers that iterations in lockstep, or vectors of them, carry from step to step where they are
# written together: as many as hide how long an addition takes.
ABREAST = 4
OPTIMISED = "optimised-loops"  # as codegen/emit.py calls functions that LLVM is to make vectors of


class KernelWriter:
    """Writes the function of one rtask.kernel."""

    SIGNATURE = (
        "%operands: !llvm.ptr, %first: i64, %count: i64, %stride: i64, %workspace: !llvm.ptr"
    )
    VISIBILITY = ""

    def __init__(self, kernel: ir.Operation, emitter: Emitter) -> None:
        self._kernel = kernel
        self._block = kernel.regions[0].blocks[0]
        self._name = ir.StringAttr(kernel.attributes["sym_name"]).value
        self._sequential = ir.StringAttr(kernel.attributes["kind"]).value == "sequential"
        self._tiling = Tiling.of(kernel)
        self._e = emitter
        self._results = yielded(self._block)
        self._nest = independent_loops(self._results) if self._sequential else []
        self._lockstep = bool(self._nest) and starts_empty(self._nest[0].loop)
        self._lockstep = self._lockstep and in_lockstep(self._nest[-1].loop)
        self._buffers: dict[ir.Value, Buffer] = {}
        self._stages = stages_of(kernel, self._tiling.tile)
        self._walked = walked_dims(kernel)

    def write(self) -> tuple[str, dict[str, str]]:
        """The function's text and the declarations of the external functions it calls."""
        e, tiling = self._e, self._tiling
        operands = operands_of(self._block, len(self._results))
        base = len(operands)
        for k, argument in enumerate(operands):
            self._buffers[argument] = self._buffer(k, argument, readonly=True)
        outputs = [self._buffer(base + k, r, readonly=False) for k, r in enumerate(self._results)]
        self._evaluator = self._new_evaluator()
        run = self._runner(outputs)

        def task(i: Linear, _: list) -> None:
            position = e.pure(
                f"arith.muli {e.index(i)}, %stride overflow<nsw> : i64", [e.index(i), "%stride"]
            )
            number = e.pure(
                f"arith.addi {position}, %first overflow<nsw> : i64", [position, "%first"]
            )
            run(Linear.of(number))

        e.define("%count_end")
        e.line("%count_end = arith.addi %count, %zero : i64")
        if self._sequential and not self._nest:
            self._in_order(outputs)
        elif all(g == 1 for g in tiling.grid):
            run(Linear())
        else:
            e.loop(Linear(0), Linear.of("%count_end"), 1, [], task)
        lines = "\n".join("  " + text for text in self._body(e.text()))
        attributes = self._attributes()
        head = f"func.func {self.VISIBILITY}@{self._name}({self.SIGNATURE}) {attributes}{{"
        return f"{head}\n  %zero = arith.constant 0 : i64\n{lines}\n  return\n}}", e.externals

    def _runner(self, outputs: list[Buffer]) -> Callable[[Linear], None]:
        """What writes the task of a number."""
        if is_task_body(self._block):
            return TaskWriter(self._kernel, self._e, outputs, list(self._buffers.values())).write
        root = sums_in_parts(self._results[0]) if len(self._results) == 1 else None
        self._tiles = self._tile_writer(self._name, self._tiling, root)
        if all(points == 1 for points in self._tiling.grid):
            return lambda number: self._tile([Linear()] * len(self._tiling.grid), outputs)
        return lambda number: self._tile(self._grid_position(number), outputs)

    # -- what another kind of execution unit does in another way
    def _attributes(self) -> str:
        """Of the function, once its body is written."""
        if self._sequential and not self._lockstep and has_plain_loops(self._block):
            return f'attributes {{llvm.passthrough = ["{OPTIMISED}"]}} '
        return ""

    def _body(self, lines: list[str]) -> list[str]:
        """Of the function, from the lines that compute it."""
        return lines

    def _new_evaluator(self) -> Evaluator:
        """What reads elements of this kernel."""
        return Evaluator(self._e, self._buffers)

    def _tile_writer(self, name: str, tiling: Tiling, root: ir.Operation | None) -> VectorTileWriter:
        """What writes the boxes of a task; `root`: see `TileWriter`."""
        return VectorTileWriter(name, tiling, self._evaluator, root)

    def _in_order(self, outputs: list[Buffer]) -> None:
        """The body of a sequential task."""
        SequentialWriter(self._e, self._evaluator, outputs).write(self._results)

    def _slabs(self, ranges: list[Range], outputs: list[Buffer]) -> None:
        """Some iterations of loops whose iterations have slabs of their own, several of the
        innermost abreast where they take the same way.
        """
        e, (*outer, last) = self._e, ranges
        sizes = [(1, 0)]
        if self._lockstep:
            innermost = self._nest[-1].loop
            most = max(ABREAST // max(carried_numbers(innermost), 1), 1)
            several = lane_cover(2 * most - 1, most)  # then half of it, and so on
            width = e.native_lanes if in_vectors(innermost) else 1
            lanes = [n if n > 1 else 0 for n in lane_cover(2 * width - 1, width)]
            sizes = [(n, lanes[0]) for n in several] + [(1, n) for n in lanes[1:]]

        alone = leading(self._nest, outputs[0].shape)

        def nest(ranges: list[Range], at: list[Linear]) -> None:
            if len(at) == alone:
                self._copy_slabs(at, [*ranges, last], outputs)
            if ranges:
                own, *rest = ranges
                e.loop(own.start, own.end, 1, [], lambda i, _: nest(rest, [*at, i]))
                return
            start = last.start
            for count, lanes in sizes:
                start = self._groups(last, start, count, lanes, at, outputs)

        nest(outer, [])

    def _copy_slabs(self, at: list[Linear], inner: list[Range], outputs: list[Buffer]) -> None:
        """What the iterations of the loops inside start from, where the outer ones are at `at`."""
        ranges = [*(Range(place, 1, place + 1) for place in at), *inner]
        dims = [apart.dim for apart in self._nest]
        writer = SequentialWriter(self._e, self._evaluator, outputs)
        writer.copy(self._results, dict(zip(dims, ranges, strict=True)))

    def _groups(
        self,
        own: Range,
        start: Linear,
        count: int,
        lanes: int,
        at: list[Linear],
        outputs: list[Buffer],
    ) -> Linear:
        """The iterations of `own` from `start` on that fill groups of `count` times `lanes`; the
        first that is left.
        """
        e, size = self._e, count * max(lanes, 1)
        if own.extent is not None:
            left = own.start + own.extent + start * -1
            end = start + left.constant // size * size
        elif size == 1:
            end = own.end
        else:
            left = own.end + start * -1
            names = [e.index(left), e.index(Linear(size))]
            whole = e.pure(f"arith.divui {names[0]}, {names[1]} : i64", names)
            end = start + Linear.of(whole, size)

        def group(i: Linear, _: list) -> None:
            first = i + (Linear.of(LANE) if lanes else 0)
            members = [[*at, first + k * max(lanes, 1)] for k in range(count)]
            if leading(self._nest, outputs[0].shape) == len(self._nest):
                for member in members:
                    self._copy_slabs(member, [], outputs)
            writer = SequentialWriter(e, self._evaluator, outputs, lanes)
            writer.write_slabs(self._results, self._nest, members)

        if end != start:
            e.loop(start, end, size, [], group)
        return end

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
        piece; of a loop with iterations apart, the slabs of the tile.
        """
        if not self._nest:
            self._partial(0, grid, [], outputs)
            return
        e, ranges = self._e, []
        for apart in self._nest:
            size = outputs[0].shape[apart.dim]
            tile = min(self._tiling.tile[apart.dim], size)
            start = grid[apart.dim] * tile
            own = Range(start, tile, start + tile)
            if size % tile:
                limit, bound = e.index(own.end), e.index(Linear(size))
                end = e.pure(f"arith.minsi {limit}, {bound} : i64", [limit, bound])
                own = Range(start, None, Linear.of(end))
            ranges.append(own)
        self._slabs(ranges, outputs)

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
        if last == tile or self._hangs_over():
            go(tile, start + tile)
        elif not self._needs_extent(dim):
            limit, bound = e.index(start + tile), e.index(Linear(size))
            go(None, Linear.of(e.pure(f"arith.minsi {limit}, {bound} : i64", [limit, bound])))
        else:
            number, final = e.index(grid[dim]), e.index(Linear(tiling.grid[dim] - 1))
            is_last = e.pure(f"arith.cmpi eq, {number}, {final} : i64", [number, final])

            def side(extent: int) -> list:
                go(extent, start + extent)
                return []

            e.branch(is_last, lambda: side(last), lambda: side(tile))

    def _hangs_over(self) -> bool:
        """Whether the last tile is as large as the others here, and `_write_piece` cuts it off."""
        return False

    def _needs_extent(self, dim: int) -> bool:
        """Whether several coordinates of a result dim are computed together."""
        return computed_together(dim, self._tiling, self._stages)

    def _walk(self, dims: list[int], ranges: list[Range], outputs: list[Buffer]) -> None:
        """All stages at each step of the result dims `dims`."""
        if not dims:
            self._in_stages(ranges, outputs)
            return
        dim, *rest = dims

        def step(at: Linear, _: list) -> None:
            inner = [Range(at, 1, at + 1) if d == dim else r for d, r in enumerate(ranges)]
            self._walk(rest, inner, outputs)

        self._e.loop(ranges[dim].start, ranges[dim].end, 1, [], step)

    def _in_stages(self, ranges: list[Range], outputs: list[Buffer]) -> None:
        """The tile of every stage, then the tiles of the results."""
        if not self._stages:
            self._write_results(ranges, outputs)
            return
        e = self._e
        # what reads a stage must not move in front of the loops that compute it
        guard, e.guard = e.guard, e.depth
        for stage in self._stages:
            self._buffers[stage.result] = self._stage(stage, ranges)
        self._write_results(ranges, outputs)
        e.guard = guard

    def _stage(self, stage: Stage, ranges: list[Range]) -> Buffer:
        shape, e = shape_of(stage.value), self._e
        own = [
            Range(Linear(), size, Linear(size)) if axis < 0 else ranges[axis]
            for size, axis in zip(shape, stage.axes, strict=True)
        ]
        pointer = "%workspace"
        if stage.offset:
            type_ = e.pointer_type("%workspace")
            text = f"llvm.getelementptr %workspace[{stage.offset}] : ({type_}) -> {type_}, i8"
            pointer = e.pointer(e.pure(text, [], "p"), type_)
        origin = tuple(r.start for r in own)
        buffer = Buffer(pointer, stage.shape, element_of(stage.value), False, origin)
        name = f"{self._name}, stage {stage.offset}"
        writer = self._tile_writer(name, stage.tiling, sums_in_parts(stage.value))
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
        clipped = [self._clip(piece, d, r) for d, r in enumerate(ranges)]
        if all(r.extent is None or r.extent > 0 for r in clipped):
            self._tiles.write(piece, clipped, results, outputs)

    def _clip(self, piece: Piece, dim: int, tile: Range) -> Range:
        low, high = piece.low[dim], piece.high[dim]
        if tile.start.is_constant and tile.extent is not None:
            start = max(tile.start.constant, low)
            end = min(tile.start.constant + tile.extent, high)
            return Range(Linear(start), end - start, Linear(end))
        if low == 0 and high == self._full(dim, high):
            return tile
        e = self._e
        bounds = []
        for value, limit, op in ((tile.start, low, "maxsi"), (tile.end, high, "minsi")):
            a, b = e.index(value), e.index(Linear(limit))
            bounds.append(Linear.of(e.pure(f"arith.{op} {a}, {b} : i64", [a, b])))
        return Range(bounds[0], None, bounds[1])

    def _full(self, dim: int, high: int) -> int:
        shape = shape_of(self._results[0])
        return shape[dim] if dim < len(shape) else high
