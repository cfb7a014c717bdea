"""A streaming multiprocessor as the target of a kernel: a device function that all threads of a
block call together.

    func.func private @k(%words: !llvm.ptr<1>, %bases: !llvm.ptr<1>, %boxes: !llvm.ptr<1>,
                         %first: i64, %count: i64, %stride: i64, %workspace: !llvm.ptr<3>,
                         %control: !llvm.ptr<1>)

`words` points to a pair (base, byte offset) for each operand and then for each result, as in the
stream of the schedule; `bases` to the memories that bases number; `boxes` to the tensor maps of the
kernel (`tensor_maps`); `workspace` is shared memory for the stages of a task, which
code for GPUs of NVIDIA knows by the symbol of all shared memory (`vendor`); `control`
are the words of `runtime.gpu.control`, for a wait that takes too long. In front of the workspace is
what the block keeps from task to task: of a pinned operand or result, the byte offset is where the
box of the first task lies there. What earlier tasks wrote is there when the function is called;
what it writes is there for other threads after the next barrier.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from torch_mlir import ir

from rcompiler.dialects.rtask import is_task_body
from rcompiler.errors import CompilerError
from rcompiler.kernelgen.buffer import Buffer
from rcompiler.kernelgen.lane_sums import vector_reducer
from rcompiler.kernelgen.reader import Reader
from rcompiler.kernelgen.reduction import Reducer
from rcompiler.kernelgen.simt.emitter import GLOBAL, SHARED, WHOLE, SimtEmitter
from rcompiler.kernelgen.simt.evaluator import SimtEvaluator
from rcompiler.kernelgen.simt.meeting import BlockMeeting
from rcompiler.kernelgen.simt.move_grid import ThreadBlock
from rcompiler.kernelgen.simt.products import Products
from rcompiler.kernelgen.simt.reduction import warp_reducer
from rcompiler.kernelgen.simt.slabs import share_out_slabs
from rcompiler.kernelgen.simt.tensor_maps import TensorMaps
from rcompiler.kernelgen.simt.thread_task import ThreadTaskEvaluator, ThreadTaskWriter
from rcompiler.kernelgen.simt.tile import SimtTileWriter
from rcompiler.kernelgen.simt.units import Units
from rcompiler.kernelgen.simt.vendor import NVIDIA, Vendor
from rcompiler.kernelgen.simt.workspace import Workspace
from rcompiler.kernelgen.slabs import Slabs
from rcompiler.kernelgen.stages import workspace_bytes
from rcompiler.kernelgen.tiling import Range, Tiling
from rcompiler.linalg.affine import Linear
from rcompiler.linalg.shared_sums import LANES
from rcompiler.linalg.thread_groups import group_lanes
from rcompiler.linalg.values import element_of, shape_of
from rcompiler.roller.thread_tiles import group_width
from rcompiler.runtime.gpu.tensor_maps import TensorMapBox

SIGNATURE = (
    f"%words: {GLOBAL}, %bases: {GLOBAL}, %boxes: {GLOBAL}, %first: i64, %count: i64, "
    f"%stride: i64, %workspace: {SHARED}, %control: {GLOBAL}"
)


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


class SimtTarget:
    """A multiprocessor, for the code of one kernel; see `Target`.

    shared: bytes of shared memory that a task needs; boxes: tensor maps that the kernel does; both
    are known when it is written.
    """

    shares_products = True

    def __init__(self, kernel: ir.Operation, features: SimtFeatures) -> None:
        warp, tiled = features.block.warp, is_task_body(kernel.regions[0].blocks[0])
        width = group_width(group_lanes(kernel, warp, tiled=tiled), warp)
        e = SimtEmitter(features.block, width, features.vendor)
        e.in_place = "in_place" in kernel.attributes
        e.share_memory(features.pinned)
        e.shared = workspace_bytes(kernel, Tiling.of(kernel).tile)
        alone = ir.StringAttr(kernel.attributes["kind"]).value == "sequential"
        self._e, self._pinned_bytes = e, features.pinned
        new_reducer = vector_reducer if alone else partial(warp_reducer, emitter=e)
        self.evaluator = SimtEvaluator(e, {}, new_reducer=new_reducer)
        self.meeting = BlockMeeting(e)
        self._maps = TensorMaps(e, self._word) if features.boxes else None
        workspace = Workspace(e.shared, features.shared, features.asynchronous)
        self._products = Products(self.evaluator, e, workspace, features.multipliers, self._maps)

    @property
    def shared(self) -> int:
        return self._e.shared

    @property
    def boxes(self) -> list[TensorMapBox]:
        return self._maps.boxes if self._maps else []

    def head(self, name: str, *, vectorise: bool) -> str:
        """A call of its own: registers are allocated, and reported, for each rKernel by itself."""
        return f"func.func private @{name}({SIGNATURE}) attributes {{no_inline}} "

    def body(self, lines: list[str]) -> list[str]:
        """The lines, by the threads that have anything to do."""
        return self._e.shared_out(lines)

    def guarded(self, guards: Sequence[tuple[int, bool]], lines: list[str]) -> list[str]:
        """As `Target.guarded`; raises CompilerError, see rtask-guard, which is not of rc-gpu."""
        raise CompilerError("rKernels for GPUs have no guards; leave rtask-guard out")

    def operand(self, index: int, value: ir.Value, *, readonly: bool, pinned: bool) -> Buffer:
        """As `Target.operand`."""
        buffer = self._pinned(index, value) if pinned else self._global(index, value, readonly)
        if readonly and self._maps is not None:
            self._maps.note(buffer, index)
        return buffer

    def _pinned(self, index: int, value: ir.Value) -> Buffer:
        """In front of the workspace."""
        e, offset = self._e, self._word(2 * index + 1)
        place = e.add(Linear.of(offset), -self._pinned_bytes).name
        pointer = e.pointer(e.behind(e.workspace, SHARED, "i8", place), SHARED)
        return Buffer(pointer, shape_of(value), element_of(value), readonly=False)

    def _global(self, index: int, value: ir.Value, readonly: bool) -> Buffer:
        """In one of the memories of the schedule."""
        e = self._e
        base = self._word(2 * index)
        offset = self._word(2 * index + 1)
        slot = e.behind("%bases", GLOBAL, "i64", base)
        memory = e.pure(f"llvm.load {slot} {WHOLE} : {GLOBAL} -> {GLOBAL}", [slot], "p")
        pointer = e.pointer(e.behind(memory, GLOBAL, "i8", offset), GLOBAL)
        buffer = Buffer(pointer, shape_of(value), element_of(value), readonly)
        e.sized(pointer, buffer.bytes)
        return buffer

    def _word(self, number: int) -> str:
        """A word of the instruction, an i64."""
        e = self._e
        slot = e.behind("%words", GLOBAL, "i64", number)
        return e.pure(f"llvm.load {slot} {WHOLE} : {GLOBAL} -> i64", [slot])

    def task_number(self, number: Linear, tasks: int) -> Linear:
        """A number that is known to be small."""
        return self._e.bounded(number, tasks)

    def in_order(self, write: Callable[[], None]) -> None:
        """One thread does it all."""
        self._e.only(self._e.is_first(), write)

    def write_slabs(self, slabs: Slabs, ranges: Sequence[Range]) -> None:
        """Each thread does some."""
        share_out_slabs(self._e, slabs, ranges)

    def task_writer(
        self, kernel: ir.Operation, outputs: Sequence[Buffer], operands: Sequence[Buffer]
    ) -> ThreadTaskWriter:
        """As `Target.task_writer`; raises CompilerError for a body without a share for threads."""
        evaluator = ThreadTaskEvaluator(self._e, {}, new_reducer=self._task_reducer)
        return ThreadTaskWriter(kernel, self._e, evaluator, outputs, operands)

    def _task_reducer(self, reader: Reader) -> Reducer:
        """Of the body of one task, which says what the lanes of a warp share in."""
        return warp_reducer(reader, self._e, lambda generic: LANES in generic.op.attributes)

    def tile_writer(self, name: str, tiling: Tiling) -> SimtTileWriter:
        """As `Target.tile_writer`; no reduction runs in parts."""
        return SimtTileWriter(name, tiling, self.evaluator, self._e, self._products)
