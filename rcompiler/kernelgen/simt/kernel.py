"""One rKernel as a device function that all threads of a block call together.

    func.func private @k(%words: !llvm.ptr<1>, %bases: !llvm.ptr<1>, %boxes: !llvm.ptr<1>,
                         %first: i64, %count: i64, %stride: i64, %workspace: !llvm.ptr<3>,
                         %control: !llvm.ptr<1>)

`words` points to a pair (base, byte offset) for each operand and then for each result, as in the
stream of the schedule; `bases` to the memories that bases number; `boxes` to the tensor maps of the
kernel (`tensor_maps`); `workspace` is shared memory for the stages of a task; `control`
are the words of `runtime.gpu.control`, for a wait that takes too long. In front of the workspace is
what the block keeps from task to task: of a pinned operand or result, the byte offset is where the
box of the first task lies there. What earlier tasks wrote is there when the function is called;
what it writes is there for other threads after the next barrier.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

from torch_mlir import ir

from rcompiler.dialects.rtask import is_task_body
from rcompiler.errors import CompilerError
from rcompiler.kernelgen.buffer import Buffer
from rcompiler.kernelgen.kernel import KernelWriter
from rcompiler.kernelgen.sequential import SequentialWriter
from rcompiler.kernelgen.simt.clipping import Case, by_extent, cases
from rcompiler.kernelgen.simt.emitter import GLOBAL, SHARED, WHOLE, SimtEmitter
from rcompiler.kernelgen.simt.evaluator import SimtEvaluator
from rcompiler.kernelgen.simt.products import Products
from rcompiler.kernelgen.simt.reduction import by_warps
from rcompiler.kernelgen.simt.tensor_maps import TensorMaps
from rcompiler.kernelgen.simt.thread_block import ThreadBlock
from rcompiler.kernelgen.simt.tile import SimtTileWriter
from rcompiler.kernelgen.simt.units import Units
from rcompiler.kernelgen.simt.vendor import NVIDIA, Vendor
from rcompiler.kernelgen.simt.workspace import Workspace
from rcompiler.kernelgen.stages import Stage, stages_of
from rcompiler.kernelgen.tiling import Range, Tiling
from rcompiler.linalg.affine import Linear
from rcompiler.linalg.element_types import item_bytes
from rcompiler.linalg.generic import Generic
from rcompiler.linalg.pieces import Piece
from rcompiler.linalg.product import is_product
from rcompiler.linalg.values import element_of, integers, shape_of
from rcompiler.runtime.gpu.tensor_maps import Box


@dataclass(frozen=True)
class SimtFeatures:
    """What code generation must know: the block of threads; bytes of shared memory
    that a task may have, and of what is `pinned` in front of them; element types that the device
    has matrix units for, and how factors of f32 are multiplied; whether threads copy to shared
    memory without waiting for it, and whether warpgroups multiply boxes of tensors (TMA and wgmma);
    whose GPU it is.
    """

    block: ThreadBlock
    shared: int
    units: frozenset[str] = frozenset()
    precision: str = "f32"
    asynchronous: bool = False
    boxes: bool = False
    vendor: Vendor = NVIDIA
    pinned: int = 0

    @property
    def multipliers(self) -> Units:
        """What multiplies the factors of products."""
        return Units(self.units, self.precision, self.boxes, self.block.threads)


class SimtKernelWriter(KernelWriter):
    """Writes the function of one rtask.kernel."""

    SIGNATURE = (
        f"%words: {GLOBAL}, %bases: {GLOBAL}, %boxes: {GLOBAL}, %first: i64, %count: i64, "
        f"%stride: i64, %workspace: {SHARED}, %control: {GLOBAL}"
    )
    VISIBILITY = "private "

    def __init__(self, kernel: ir.Operation, features: SimtFeatures) -> None:
        """Raises CompilerError for the body of one task: it does not say what each thread does."""
        if is_task_body(kernel.regions[0].blocks[0]):
            name = ir.StringAttr(kernel.attributes["sym_name"]).value
            raise CompilerError(
                f"kernel {name}: its body is that of one task, and code for GPUs is generated from "
                "that of the whole operator; leave rc-tile-kernels out"
            )
        self._features = features
        generics = _generics(kernel)
        self._multiplies = any(map(is_product, generics))
        width = _width(kernel, generics, features.block.warp)
        self._simt = SimtEmitter(features.block, width, features.vendor)
        self._simt.in_place = "in_place" in kernel.attributes
        self._maps: TensorMaps | None = None
        self._pinned = _pinned_boxes(kernel)
        self._apart: list[Stage] = []  # those that were written since the last barrier
        super().__init__(kernel, self._simt)
        self._simt.pointer("%workspace", SHARED)

    def _new_evaluator(self) -> SimtEvaluator:
        evaluator = SimtEvaluator(self._simt, self._buffers, alone=self._sequential)
        features = self._features
        kept = max((stage.end for stage in self._stages), default=0)
        self._simt.shared = kept
        workspace = Workspace(kept, features.shared, features.asynchronous)
        if features.boxes:
            self._maps = TensorMaps(self._simt, lambda number: self._word(number, "i64"))
            for k, argument in enumerate(self._block.arguments):
                self._maps.note(self._buffers[argument], k)
        self._products = Products(
            evaluator, self._simt, workspace, features.multipliers, self._maps
        )
        return evaluator

    def _body(self, lines: list[str]) -> list[str]:
        return self._simt.shared_out(lines)

    def _attributes(self) -> str:
        """A call of its own: registers are allocated, and reported, for each rKernel by itself."""
        return "attributes {no_inline} "

    @property
    def shared(self) -> int:
        """Bytes of shared memory that a task needs, when it is written."""
        return self._simt.shared

    @property
    def boxes(self) -> list[Box]:
        """Tensor maps that it needs, when it is written."""
        return self._maps.boxes if self._maps else []

    def _tile_writer(self, name: str, tiling: Tiling, root: ir.Operation | None) -> SimtTileWriter:
        return SimtTileWriter(name, tiling, self._evaluator, self._simt, self._products)

    def _needs_extent(self, dim: int) -> bool:
        """Also of every product: all threads compute it together, by matrix units perhaps, whatever
        the tile.
        """
        return self._multiplies or super()._needs_extent(dim)

    def _hangs_over(self) -> bool:
        """Products are cut off together with what lies beside their piece: see `_in_cases`."""
        whole = not self._stages and not self._walked
        rank = len(self._tiling.tile)
        return self._multiplies and whole and all(len(shape_of(r)) == rank for r in self._results)

    def _grid_position(self, number: Linear) -> list[Linear]:
        """As `KernelWriter._grid_position`, of a number that is known to be small."""
        tasks = math.prod(self._tiling.grid)
        return super()._grid_position(self._simt.bounded(number, tasks))

    def _in_order(self, outputs: list[Buffer]) -> None:
        """One thread does it all."""
        e = self._simt
        thread, zero = e.thread, e.index(Linear())
        first = e.pure(f"arith.cmpi eq, {thread}, {zero} : i64", [thread, zero])
        e.only(first, lambda: super(SimtKernelWriter, self)._in_order(outputs))

    def _slabs(self, ranges: list[Range], outputs: list[Buffer]) -> None:
        """Each thread does some."""
        e = self._simt
        counts = [r.end + r.start * -1 if r.extent is None else Linear(r.extent) for r in ranges]

        def slab(number: Linear, _: list) -> None:
            at: list[Linear] = []
            for own, count in zip(reversed(ranges[1:]), reversed(counts[1:]), strict=True):
                names = [e.index(number), e.index(count)]
                inner = e.pure(f"arith.remui {names[0]}, {names[1]} : i64", names)
                number = Linear.of(e.pure(f"arith.divui {names[0]}, {names[1]} : i64", names))
                at.insert(0, own.start + Linear.of(inner))
            at.insert(0, ranges[0].start + number)
            self._copy_slabs(at, [], outputs)
            writer = SequentialWriter(e, self._evaluator, outputs)
            writer.write_slabs(self._results, self._nest, [at])

        total = counts[0]
        for count in counts[1:]:
            names = [e.index(total), e.index(count)]
            total = Linear.of(e.pure(f"arith.muli {names[0]}, {names[1]} : i64", names))
        e.loop(Linear.of(e.thread), total, self._features.block.threads, [], slab)

    def _tile(self, grid: list[Linear], outputs: list[Buffer]) -> None:
        """Of pinned tensors the boxes of the run are there, and nothing else."""
        arguments = list(self._block.arguments)
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
        super()._tile(grid, outputs)

    def _buffer(self, index: int, value: ir.Value, *, readonly: bool) -> Buffer:
        e = self._e
        if index in self._pinned:
            offset = self._word(2 * index + 1, "i64")
            front = e.index(Linear(-self._features.pinned))
            place = e.pure(f"arith.addi {offset}, {front} : i64", [offset, front])
            text = f"llvm.getelementptr %workspace[{place}] : ({SHARED}, i64) -> {SHARED}, i8"
            own = e.pointer(e.pure(text, [place], "p"), SHARED)
            return Buffer(own, shape_of(value), element_of(value), readonly=False)
        base = self._word(2 * index, "i64")
        offset = self._word(2 * index + 1, "i64")
        text = f"llvm.getelementptr %bases[{base}] : ({GLOBAL}, i64) -> {GLOBAL}, i64"
        slot = e.pure(text, [base], "p")
        memory = e.pure(f"llvm.load {slot} {WHOLE} : {GLOBAL} -> {GLOBAL}", [slot], "p")
        text = f"llvm.getelementptr {memory}[{offset}] : ({GLOBAL}, i64) -> {GLOBAL}, i8"
        pointer = e.pointer(e.pure(text, [memory, offset], "p"), GLOBAL)
        shape, element = shape_of(value), element_of(value)
        self._simt.sized(pointer, math.prod(shape) * item_bytes(element))
        return Buffer(pointer, shape, element, readonly)

    def _word(self, number: int, type_: str) -> str:
        """A word of the instruction."""
        e = self._e
        text = f"llvm.getelementptr %words[{number}] : ({GLOBAL}) -> {GLOBAL}, i64"
        slot = e.pure(text, [], "p")
        return e.pure(f"llvm.load {slot} {WHOLE} : {GLOBAL} -> {type_}", [slot])

    def _in_stages(self, ranges: list[Range], outputs: list[Buffer]) -> None:
        e = self._simt
        if not self._stages:
            super()._in_stages(ranges, outputs)
            return
        e.barrier()  # who still reads the tiles of the step or task before
        e.taken, self._apart = 0, []
        super()._in_stages(ranges, outputs)
        e.taken = None

    def _stage(self, stage: Stage, ranges: list[Range]) -> Buffer:
        """Stages that do not depend on each other are computed side by side."""
        if any(stage.waits_for(other) for other in self._apart):
            self._meet()
        self._apart.append(stage)
        return super()._stage(stage, ranges)

    def _write_results(self, ranges: list[Range], outputs: list[Buffer]) -> None:
        if self._stages:
            self._meet()
        super()._write_results(ranges, outputs)

    def _meet(self) -> None:
        """What stages have kept so far is there for all threads."""
        self._simt.barrier()
        self._apart = []

    def _write_piece(
        self, piece: Piece, ranges: list[Range], results: list[ir.Value], outputs: list[Buffer]
    ) -> None:
        if not self._multiplies or len(ranges) != len(self._tiling.tile):
            super()._write_piece(piece, ranges, results, outputs)
            return

        def write(clipped: list[Range]) -> None:
            self._tiles.write(piece, clipped, results, outputs)

        self._in_cases(piece, ranges, [], outputs[0].shape, write)

    def _in_cases(
        self,
        piece: Piece,
        ranges: list[Range],
        done: list[Range],
        shape: tuple[int, ...],
        write: Callable[[list[Range]], None],
    ) -> None:
        """One after the other, the ways in which the piece cuts tiles."""
        e, d = self._simt, len(done)
        if d == len(ranges):
            write(done)
            return
        own, tile = ranges[d], min(self._tiling.tile[d], shape[d])
        extent = own.extent
        if own.start.is_constant or extent is None:
            clipped = self._clip(piece, d, own)
            if clipped.extent is None or clipped.extent > 0:
                self._in_cases(piece, ranges, [*done, clipped], shape, write)
            return
        step, size = 1 if d in self._walked else tile, shape[d]
        found, is_last = list(cases(step, size, piece.low[d], piece.high[d])), extent < step
        if size % step and not self._hangs_over():  # the last tile is written apart from the others
            last = size - size % step
            found = [c for c in found if (c.end > last if is_last else c.begin < last)]
        for group in by_extent(found):

            def within(group: list[Case] = group) -> None:
                start, extent = own.start + self._skipped(group, own.start), group[0].extent
                span = Range(start, extent, start + extent)
                self._in_cases(piece, ranges, [*done, span], shape, write)

            e.only(None if is_last else self._is_in(group, own.start, size), within)

    def _is_in(self, group: list[Case], start: Linear, size: int) -> str | None:
        """An i1: is the tile at `start` one of these cases? None: it always is."""
        e, total = self._simt, ""
        for case in group:
            above = self._compared("sge", start, case.begin) if case.begin > 0 else None
            below = self._compared("slt", start, case.end) if case.end < size else None
            own = e.all_of([above, below])
            if own is None:
                return None
            total = e.pure(f"arith.ori {total}, {own} : i1", [total, own]) if total else own
        return total

    def _skipped(self, group: list[Case], start: Linear) -> Linear:
        """Coordinates of the tile in front of the piece, in one of these cases."""
        e, [*others, last] = self._simt, group
        unit = math.gcd(*(case.skipped for case in group))
        if all(case.skipped == last.skipped for case in others):
            return Linear(last.skipped)
        name = e.index(Linear(last.skipped // unit))
        for case in reversed(others):
            own, here = (
                e.index(Linear(case.skipped // unit)),
                self._compared("slt", start, case.end),
            )
            name = e.pure(f"arith.select {here}, {own}, {name} : i64", [here, own, name])
        e.ranges[name] = max(case.skipped for case in group) // unit + 1
        return Linear.of(name, unit)

    def _compared(self, how: str, value: Linear, bound: int) -> str:
        e = self._simt
        a, b = e.index(value), e.index(Linear(bound))
        return e.pure(f"arith.cmpi {how}, {a}, {b} : i64", [a, b])


def _pinned_boxes(kernel: ir.Operation) -> dict[int, list[tuple[int, int, int]]]:
    """By pinned operand or result, of the box of a task axis, scale and offset in each dim."""
    accesses = [
        *ir.ArrayAttr(kernel.attributes["reads"]),
        *ir.ArrayAttr(kernel.attributes["writes"]),
    ]
    pinned = integers(kernel, "pinned") if "pinned" in kernel.attributes else ()
    boxes = {n: [ir.DenseI64ArrayAttr(d) for d in ir.ArrayAttr(accesses[n])] for n in pinned}
    return {n: [(d[0], d[1], d[2]) for d in dims] for n, dims in boxes.items()}


def _generics(kernel: ir.Operation) -> list[Generic]:
    block = kernel.regions[0].blocks[0]
    ops = (view.operation for view in block.operations)
    return [Generic(op) for op in ops if op.name == "linalg.generic"]


def _width(kernel: ir.Operation, generics: list[Generic], warp: int) -> int:
    """Threads that work on one register tile: a whole warp where its lanes share in sums, else as
    many as the widest vector has lanes.
    """
    if any(map(by_warps, generics)):
        return warp
    tiling = Tiling.of(kernel)
    tilings = [tiling, *(stage.tiling for stage in stages_of(kernel, tiling.tile))]
    lanes = max(t.lanes if t.vector_dim >= 0 else 1 for t in tilings)
    return min(1 << (max(lanes, 1).bit_length() - 1), warp)
