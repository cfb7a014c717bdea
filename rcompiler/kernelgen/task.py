"""One rKernel whose body is that of one rTask, as a function: loops and slices as the IR has them.

The body says which box is computed where (`passes.tiles`); what is chosen here is how: vectors,
registers, what waits in them. An op is computed where its elements are stored, loaded or added up,
at positions of its own tile; slices lead from there to the operands.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from torch_mlir import ir

from rcompiler.dialects.task_body import BARRIER, MEMORY, PUT, THREADS, VECTOR_DIM, stores_in
from rcompiler.errors import CompilerError
from rcompiler.kernelgen.buffer import Buffer, in_workspace
from rcompiler.kernelgen.emitter import Emitter
from rcompiler.kernelgen.evaluate import Evaluator
from rcompiler.kernelgen.overwritten import check_overwritten
from rcompiler.kernelgen.same_boxes import SameBoxes
from rcompiler.kernelgen.stack import STACK_LIMIT, stack_memory
from rcompiler.kernelgen.task_vectors import TaskVectors
from rcompiler.kernelgen.tile import VectorTileWriter
from rcompiler.kernelgen.tiling import Tiling
from rcompiler.kernelgen.value import Val
from rcompiler.linalg.affine import Linear
from rcompiler.linalg.element_types import item_bytes
from rcompiler.linalg.kept_stages import kept_shape, stages_inside
from rcompiler.linalg.pieces import Piece
from rcompiler.linalg.values import (
    STAGE,
    defining,
    element_of,
    integer,
    integers,
    last_of,
    shape_of,
)
from rcompiler.linalg.views import kept_dims

DYNAMIC = ir.ShapedType.get_dynamic_size()
_LIMITS = ("affine.min", "affine.max")
_MANY = 32  # limits of a block that are computed where they are needed: registers hold no more
_AROUND = ("scf.for", "scf.if", STAGE)  # ops whose results are there when others have stored them


@dataclass(frozen=True)
class _Slice:
    """A tensor.extract_slice. dims: of each dim of the source the dim of the slice that runs along
    it, -1 for none, the stride, and where the slice begins.
    """

    source: ir.Value
    dims: Sequence[tuple[int, int, Linear]]

    def place(self, at: list[Linear]) -> list[Linear]:
        """Where an element of the slice is in the source."""
        return [
            offset if dim < 0 else (at[dim] if stride == 1 else at[dim] * stride) + offset
            for dim, stride, offset in self.dims
        ]


class TaskEvaluator(Evaluator):
    """Reads elements of tiles: slices are where the loops around them are."""

    def __init__(self, emitter: Emitter, buffers: dict[ir.Value, Buffer], **how: Any) -> None:
        """how: as the evaluator below has it."""
        super().__init__(emitter, buffers, **how)
        self._positions: dict[ir.Value, Linear] = {}
        self._depths: dict[ir.Block, int] = {}
        self._slices: dict[ir.Value, _Slice | None] = {}
        self._shown: dict[ir.Value, list[_Slice]] = {}
        self.apart = False  # whether limits of positions stay where they are asked for

    def enter(self, block: ir.Block) -> None:
        """Note that the ops of a block are computed where the code is written now."""
        self._depths[block] = self.emitter.depth

    def depth(self, op: ir.Operation) -> int:
        return self._depths[op.block]

    def put(self, value: ir.Value, place: Linear) -> None:
        """Note what an index value is."""
        self._positions[value] = place

    def position_of(self, value: ir.Value) -> Linear:
        """An index value as a linear expression."""
        found = self._positions.get(value)
        if found is None:
            found = self._positions[value] = self._position(value)
        return found

    def _position(self, value: ir.Value) -> Linear:
        op = defining(value)
        if op is None:
            raise CompilerError(f"{value}: no position of a task")
        if op.name == "arith.constant":
            return Linear(ir.IntegerAttr(op.attributes["value"]).value)
        if op.name not in ("affine.apply", *_LIMITS):
            raise CompilerError(f"{op.location}: {op.name} cannot give a position of a task")
        dims = [self.position_of(v) for v in op.operands]
        found, *others = [expression(dims, self.split) for expression in self.map_of(op)]
        for other in others:
            found = self._extreme("minsi" if op.name == "affine.min" else "maxsi", found, other)
        return found

    def _extreme(self, name: str, a: Linear, b: Linear) -> Linear:
        if a.is_constant and b.is_constant:
            return Linear((min if name == "minsi" else max)(a.constant, b.constant))
        ops = self.emitter.guarded if self.apart else self.emitter
        return ops.elementwise(f"arith.{name}", a, b).symbol

    def offsets(self, op: ir.Operation) -> list[Linear]:
        """The offsets of a slice."""
        front = 2 if op.name in PUT else 1
        dynamic = iter(list(op.operands)[front:])
        return [
            self.position_of(next(dynamic)) if n == DYNAMIC else Linear(n)
            for n in integers(op, "static_offsets")
        ]

    def view_coordinates(self, op: ir.Operation, at: list[Linear], lanes: int) -> list[Linear]:
        if op.name != "tensor.extract_slice":
            return super().view_coordinates(op, at, lanes)
        found = self._slice_of(op.result)
        assert found is not None
        return found.place(at)

    def read(self, value: ir.Value, at: list[Linear], lanes: int) -> Val:
        # through slices at once: what they show is known by its place in the source
        shown = self._shown.get(value)
        if shown is None:
            shown = self._shown[value] = self._slices_in_front(value)
        for found in shown:
            value, at = found.source, found.place(at)
        return super().read(value, at, lanes)

    def _slices_in_front(self, value: ir.Value) -> list[_Slice]:
        """Those that lead from a value to what it shows a part of."""
        slices = []
        while (found := self._slice_of(value)) is not None:
            slices.append(found)
            value = found.source
        return slices

    def _slice_of(self, value: ir.Value) -> _Slice | None:
        """What is known of a slice, None of any other value. The loops around a slice are open, and
        stay so, when its elements are read.
        """
        if value not in self._slices:
            op, found = defining(value), None
            if op is not None and op.name == "tensor.extract_slice":
                found = self._new_slice(op)
            self._slices[value] = found
        return self._slices[value]

    def _new_slice(self, op: ir.Operation) -> _Slice:
        offsets, strides = self.offsets(op), integers(op, "static_strides")
        rank = len(offsets)
        kept = list(range(rank))
        if ir.RankedTensorType(op.result.type).rank < rank:
            kept = sorted(kept_dims(integers(op, "static_sizes"), shape_of(op.result)))
        dims = [kept.index(d) if d in kept else -1 for d in range(rank)]
        return _Slice(op.operands[0], list(zip(dims, strides, offsets, strict=True)))


class TaskWriter:
    """Writes the tasks of one kernel: of each, the loops of its body and what they store."""

    def __init__(
        self,
        kernel: ir.Operation,
        evaluator: TaskEvaluator,
        outputs: Sequence[Buffer],
        operands: Sequence[Buffer],
    ) -> None:
        """evaluator: one of its own; `operands`, `outputs`: the memory of the operands and of the
        results.

        Raises CompilerError for a body that puts tiles over what is still read.
        """
        self._block = kernel.regions[0].blocks[0]
        self._name = ir.StringAttr(kernel.attributes["sym_name"]).value
        self._stores = stores_in(self._block)  # other insertions are computed where they are read
        check_overwritten(self._block, self._stores, self._name)
        self._e, self._evaluator = evaluator.emitter, evaluator
        arguments = list(self._block.arguments)
        self._task = arguments.pop()
        self._buffers = evaluator.buffers
        self._buffers.update(zip(arguments, [*operands, *outputs], strict=True))
        self._vectors = TaskVectors(self._evaluator)
        self._tiling = replace(Tiling.of(kernel), reduction_tile=None)
        self._written: set[ir.Operation] = set()
        self._kept = _kept_tensors(self._block)
        self._begun: dict[ir.Value, ir.Value] = {}  # of tensors, see `_begun_as`

    def write(self, number: Linear) -> None:
        """The task of this number."""
        self._evaluator.put(self._task, number)
        self._written.clear()
        self.ops(self._block)

    # -- control flow
    def ops(self, block: ir.Block) -> None:
        """What a block stores."""
        e = self._e
        guard = e.guard
        self._evaluator.enter(block)
        ops = [view.operation for view in block.operations]
        stores = [op for op in ops if op in self._stores and op.name == "tensor.insert_slice"]
        boxes = SameBoxes(stores, self._kept, self._evaluator.offsets)
        many = sum(op.name in _LIMITS for op in ops) > _MANY
        apart, self._evaluator.apart = self._evaluator.apart, many or self._evaluator.apart
        if many or any(op.name == STAGE for op in ops):
            # what reads a stage must not move in front of the loops that compute it
            e.guard = e.depth
        for op in ops:
            if op.name == "scf.for":
                self._loop(op)
            elif op.name == THREADS:
                self.share_out(op)
            elif op.name == "scf.if":
                self._branch(op)
            elif op.name == "tensor.insert_slice":
                if op in self._stores and op not in self._written:
                    same = boxes.of(op)
                    self.store([o for o in same if o == op or self._may_join(o, op)])
            elif op.name == "vector.transfer_write":
                self._store_vector(op)
            elif op.name in _LIMITS or self._is_of_grid(op):
                self._evaluator.position_of(op.result)  # here, and not where it is first read
            elif op.name == BARRIER:
                self.meet(op)
            elif op.name == STAGE:
                self._buffers[op.result] = self._buffer(op.operands[0])
        e.guard, self._evaluator.apart = guard, apart

    def _loop(self, op: ir.Operation) -> None:
        start, end, step, *inits = op.operands
        bounds = [self._evaluator.position_of(v) for v in (start, end, step)]
        block = op.regions[0].blocks[0]
        variable, *carried = block.arguments
        following = list(last_of(block).operands)
        numbers = []  # what it carries beside tensors
        for number, init in enumerate(inits):
            if isinstance(init.type, ir.RankedTensorType):
                result = op.results[number]
                self._buffers[carried[number]] = self.memory(result, init)
                self._buffers[result] = self._buffers[carried[number]]
            else:
                numbers.append(number)

        def turn(at: Linear, values: list[Val]) -> list[Val]:
            self._evaluator.put(variable, at)
            for number, value in zip(numbers, values, strict=True):
                self._vectors.put(carried[number], value)
            self.ops(block)
            return [self._vectors.value(following[number]) for number in numbers]

        starts = [self._vectors.value(inits[number]) for number in numbers]
        values = self._turns(op, bounds, starts, turn)
        for number, value in zip(numbers, values, strict=True):
            self._vectors.put(op.results[number], value)

    def share_out(self, op: ir.Operation) -> None:
        """What threads do side by side. Raises CompilerError: a core has one."""
        raise CompilerError(
            f"{op.location}: the threads of a block share in this task, and a core has one; make "
            "its body with rc-tile-kernels"
        )

    def meet(self, op: ir.Operation) -> None:
        """Where the threads of a block meet. Raises CompilerError: a core has one."""
        raise CompilerError(f"{op.location}: the threads of a block meet here, and a core has one")

    def _turns(
        self,
        op: ir.Operation,
        bounds: Sequence[Linear],
        starts: list[Val],
        turn: Callable[[Linear, list[Val]], list[Val]],
    ) -> list[Val]:
        """The turns of a loop, from its start to its end in steps, with the numbers it carries."""
        start, end, step = bounds
        width, count = step.constant, end + start * -1
        if count.is_constant:
            turns = Linear(-(-count.constant // width))
            if start.is_constant:
                return self._e.loop(
                    Linear(), turns, 1, starts, lambda i, values: turn(i * width + start, values)
                )
        if width != 1:
            raise CompilerError(f"{op.location}: a loop of run-time bounds needs steps of 1")
        return self._e.loop(start, end, 1, starts, turn)

    def _branch(self, op: ir.Operation) -> None:
        test = op.operands[0].owner.operation
        if test.name != "arith.cmpi" or ir.IntegerAttr(test.attributes["predicate"]).value != 0:
            raise CompilerError(
                f"{op.location}: a task branches where two positions are equal only"
            )
        a, b = (self._e.number(self._evaluator.position_of(v)) for v in test.operands)
        condition = self._e.compare("eq", a, b).name

        def side(region: ir.Region) -> list:
            self.ops(region.blocks[0])
            return []

        then, otherwise = op.regions
        self._e.branch(condition, lambda: side(then), lambda: side(otherwise))
        last = last_of(then.blocks[0])
        for result, value in zip(op.results, last.operands, strict=True):
            self._buffers[result] = self._buffer(value)

    def _is_of_grid(self, op: ir.Operation) -> bool:
        """Whether an op gives a coordinate of the task in its grid."""
        if op.name != "affine.apply" or op.block != self._block:
            return False
        [expression] = ir.AffineMapAttr(op.attributes["map"]).value.results
        return isinstance(expression.maybe_downcast(), ir.AffineFloorDivExpr | ir.AffineModExpr)

    # -- tensors in memory
    def memory(self, value: ir.Value, before: ir.Value) -> Buffer:
        """The memory of a tensor that was `before` without its last tiles."""
        stage = self._kept.get(value)
        if stage is None or before in self._kept:
            return self._buffer(before)
        return self._memory_of(stage)

    def _buffer(self, value: ir.Value) -> Buffer:
        """The memory of a tensor that tiles are put into."""
        if value not in self._buffers:
            op = defining(value)
            if op is not None and op.name == "tensor.insert_slice":
                self._buffers[value] = self.memory(value, op.operands[1])
            elif op is not None and op.name in ("tensor.empty", MEMORY):
                self._buffers[value] = self._new(value)
            else:
                raise CompilerError(f"{value}: no tensor that a task can put tiles into")
        return self._buffers[value]

    def _new(self, value: ir.Value) -> Buffer:
        """Memory of sums on the stack. Raises CompilerError where they do not fit there."""
        shape, element = shape_of(value), element_of(value)
        size = math.prod(shape) * item_bytes(element)
        if size > STACK_LIMIT:
            raise CompilerError(
                f"{value.owner.operation.location}: the running sums of a task need {size} bytes "
                f"of stack, at most {STACK_LIMIT} are there; take a smaller tile or no "
                "reduction_tile"
            )
        return Buffer(stack_memory(self._e, math.prod(shape), element), shape, element, False)

    def _memory_of(self, stage: ir.Operation) -> Buffer:
        """Memory of what a task keeps of a stage, in the workspace of its EU."""
        element = element_of(stage.result)
        offset = ir.IntegerAttr(stage.attributes["offset"]).value
        shape = kept_shape(integers(stage, "kept"), element)
        return Buffer(in_workspace(self._e, offset), shape, element, False)

    # -- register tiles
    def _may_join(self, op: ir.Operation, first: ir.Operation) -> bool:
        """Whether an insertion can be written where an earlier one of its block is: it needs none
        of what that one stores, or what is stored between them.
        """
        order = {view.operation: n for n, view in enumerate(first.block.operations)}
        pending, seen = list(op.operands), set[ir.Value]()
        while pending:
            value = pending.pop()
            made = defining(value)
            if value in seen or made is None or order.get(made, -1) < order[first]:
                continue  # of a loop around the block, or stored already
            seen.add(value)
            stores = made in self._stores or made.name in _AROUND
            if stores and (made == first or made not in self._written):
                return False
            pending += made.operands
        return True

    def store(self, ops: list[ir.Operation]) -> None:
        """The register tiles that some insertions at the same place put into tensors."""
        self._written.update(ops)
        offsets = self._evaluator.offsets(ops[0])
        steps = list(integers(ops[0], "static_sizes"))
        if DYNAMIC in steps:
            raise CompilerError(
                f"kernel {self._name}: a tile of run-time size is stored at once; put a loop over "
                "its elements around it (roller-tile-registers)"
            )
        rank = len(steps)
        sources, outputs = [], []
        for op in ops:
            tile, into = op.operands[0], op.operands[1]
            buffer = self._buffers[op.result] = self.memory(op.result, into)
            origin = buffer.origin or (Linear(),) * rank
            moved = tuple(s + o * -1 for s, o in zip(origin, offsets, strict=True))
            outputs.append(replace(buffer, origin=moved))
            sources.append((tile, Piece((0,) * rank, tuple(steps), tile, (0,) * rank)))
        writer = VectorTileWriter(self._name, self._tiling_of(ops[0]), self._evaluator)
        writer.register_tile([Linear()] * rank, steps, sources, outputs)

    def _tiling_of(self, op: ir.Operation) -> Tiling:
        """That of an insertion, along the dims of the tensor it puts a tile into."""
        stage = self._kept.get(op.result)
        if stage is not None:
            return Tiling.of_loops(stage, (), integers(op, "static_sizes"))
        memory = defining(self._begun_as(op.result))
        if memory is None or VECTOR_DIM not in memory.attributes:
            return self._tiling
        return replace(self._tiling, vector_dim=integer(memory, VECTOR_DIM))

    def _begun_as(self, value: ir.Value) -> ir.Value:
        """What a tensor was before any tile was put into it."""
        later = []  # of a chain of insertions each asks: all that was walked is known for the next
        while value not in self._begun and (before := _before(value)):
            later.append(value)
            value = before[0]
        found = self._begun.get(value, value)
        self._begun.update(dict.fromkeys(later, found))
        return found

    def _store_vector(self, op: ir.Operation) -> None:
        """What a body that computes with vectors of its own puts into a tensor."""
        value, into, *indices = op.operands
        buffer = self._buffers[op.result] = self.memory(op.result, into)
        place = buffer.offset(self._vectors.positions(indices, 0))
        self._e.store(self._vectors.value(value), buffer.pointer, place)


def _kept_tensors(block: ir.Block) -> dict[ir.Value, ir.Operation]:
    """The tensors that the tiles of stages are put into, and the rtask.stage that each becomes.

    What they begin as is none of them: CSE lets several stages begin as the same tensor.empty.
    """
    found: dict[ir.Value, ir.Operation] = {}
    for stage in stages_inside(block):
        pending = list(stage.operands)
        while pending:
            value = pending.pop()
            before = _before(value) if value not in found else ()
            if before:
                found[value] = stage
                pending += before
    return found


def _before(value: ir.Value) -> Sequence[ir.Value]:
    """What a tensor was before the last tiles, or loop or branch with tiles, were put into it; ()
    of another one than such a tensor.
    """
    owner = value.owner
    if isinstance(owner, ir.Block):
        loop = owner.owner.operation
        return [loop.operands[2 + value.arg_number]] if loop.name == "scf.for" else ()
    op = owner.operation
    if op.name == THREADS:
        return [list(op.operands)[value.result_number - len(op.results)]]
    if op.name in ("tensor.insert_slice", "vector.transfer_write"):
        return [op.operands[1]]
    if op.name not in ("scf.for", "scf.if"):
        return ()
    number = value.result_number
    last = [last_of(region.blocks[0]) for region in op.regions]
    return [*(each.operands[number] for each in last), *list(op.operands)[3 + number :][:1]]
