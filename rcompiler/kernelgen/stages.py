"""Stages: values of a body whose tile a task computes into on-chip memory before it goes on.

    %s = contraction %q, %k          a task keeps 32 rows of %s,
    %p = softmax(rtask.stage(%s))    then of %p,
    %o = contraction rtask.stage(%p), %v    and writes 32 rows of %o

Every execution unit has one workspace for that, which the stages of a kernel share: a tile is given
up when no later stage and no result reads it any more. A stage that reads an earlier one element by
element is written over it. Of several heads a task goes through all stages of one before the next.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import takewhile

from torch_mlir import ir

from rcompiler.dialects.rtask import is_task_body
from rcompiler.kernelgen.tiling import Tiling
from rcompiler.linalg.element_types import item_bytes
from rcompiler.linalg.generic import Generic
from rcompiler.linalg.kept_stages import (
    ALIGNMENT,
    kept_bytes,
    kept_shape,
    sources_of,
    stages_inside,
)
from rcompiler.linalg.values import STAGE, element_of, integers, shape_of


@dataclass(frozen=True)
class Stage:
    """One rtask.stage of a kernel.

    `axes`: as there. `tiling`: along the dims of the value; its `tile` is the largest one that a
    task keeps. `offset`: of the kept tile in the workspace, in bytes. `sources`: the stages that
    its value is computed from.
    """

    op: ir.Operation
    axes: tuple[int, ...]
    tiling: Tiling
    offset: int
    sources: tuple[Stage, ...] = ()

    @property
    def value(self) -> ir.Value:
        """What the stage computes."""
        return self.op.operands[0]

    @property
    def result(self) -> ir.Value:
        """What later ops read."""
        return self.op.results[0]

    @property
    def shape(self) -> tuple[int, ...]:
        """The tile as it lies in memory."""
        return kept_shape(self.tiling.tile, element_of(self.result))

    @property
    def end(self) -> int:
        """Byte of the workspace behind the tile."""
        size = math.prod(self.shape) * item_bytes(element_of(self.result))
        return self.offset + -(-size // ALIGNMENT) * ALIGNMENT

    def waits_for(self, other: Stage) -> bool:
        """Whether it cannot be computed while `other`, an earlier stage, is: it reads that, or is
        kept where that is or where that reads.
        """
        if any(source.op == other.op for source in self.sources):
            return True
        return any(map(self._overlaps, (other, *other.sources)))

    def replaces(self, other: Stage) -> bool:
        """Whether it is kept where `other` is, which it is computed from."""
        return self._overlaps(other)

    def _overlaps(self, other: Stage) -> bool:
        return self.offset < other.end and other.offset < self.end


def computed_together(dim: int, tiling: Tiling, stages: Sequence[Stage]) -> bool:
    """Whether several coordinates of an axis are computed together, in the result or in a stage."""
    if tiling.register_tile[dim] > 1 or dim == tiling.vector_dim:
        return True
    return any(
        axis == dim and (s.tiling.register_tile[d] > 1 or d == s.tiling.vector_dim)
        for s in stages
        for d, axis in enumerate(s.axes)
    )


def walked_dims(kernel: ir.Operation) -> list[int]:
    """Result dims that a task walks step by step, through all stages at each: the outermost loops
    of all stages and of the result, with register tiles of one step.
    """
    ops = _stage_ops(kernel)
    loops = [_outer_loops(op, integers(op, "axes")) for op in ops]
    if not ops:
        return []
    loops.append(_outer_loops(kernel, tuple(range(len(integers(kernel, "grid"))))))
    found = []
    for dims in zip(*loops, strict=False):
        if len(set(dims)) > 1:
            break
        found.append(dims[0])
    return found


def _outer_loops(op: ir.Operation, axes: tuple[int, ...]) -> list[int]:
    """The axes of the loops around register tiles of more than one step, outermost first."""
    register, order = integers(op, "register_tile"), integers(op, "order")
    vector = ir.IntegerAttr(op.attributes["vector_dim"]).value
    single = takewhile(lambda d: register[d] == 1 and d != vector and axes[d] >= 0, order)
    return [axes[d] for d in single]


def _stage_ops(kernel: ir.Operation) -> list[ir.Operation]:
    """Of the body of a whole operator; that of a task has its loops around them already."""
    block = kernel.regions[0].blocks[0]
    if is_task_body(block):
        return []
    return [v.operation for v in block.operations if v.operation.name == STAGE]


def stages_of(kernel: ir.Operation, tile: tuple[int, ...]) -> list[Stage]:
    """The stages of a kernel in order; `tile`: of one task, along the dims of the first result."""
    ops, walked = _stage_ops(kernel), walked_dims(kernel)
    tile = tuple(1 if d in walked else size for d, size in enumerate(tile))
    ends = [_last_reader(op, ops) for op in ops]
    stages: list[Stage] = []
    for number, op in enumerate(ops):
        axes = integers(op, "axes")
        cut = zip(shape_of(op.results[0]), axes, strict=True)
        extents = tuple(size if axis < 0 else min(tile[axis], size) for size, axis in cut)
        alone = Stage(op, axes, Tiling.of_loops(op, (), extents), 0)
        live = [s for s, end in zip(stages, ends, strict=False) if end >= number]
        over = [s for s in live if ends[ops.index(s.op)] == number and _replaces(alone, s)]
        taken = [(s.offset, s.end) for s in live]
        offset = over[0].offset if over else _first_fit(taken, alone.end)
        sources = tuple(stage for stage in stages if stage.op in sources_of(op))
        stages.append(replace(alone, offset=offset, sources=sources))
    return stages


def workspace_bytes(kernel: ir.Operation, tile: tuple[int, ...]) -> int:
    """Bytes of on-chip memory that a task of the kernel needs for its stages."""
    block = kernel.regions[0].blocks[0]
    if is_task_body(block):
        return max((kept_bytes(op)[1] for op in stages_inside(block)), default=0)
    return max((stage.end for stage in stages_of(kernel, tile)), default=0)


def _last_reader(op: ir.Operation, stages: list[ir.Operation]) -> int:
    """Number of the last stage whose computation reads `op`; len(stages): the results do."""
    seen, pending, last = {op}, [op], -1
    while pending:
        for user in _users(pending.pop()) - seen:
            seen.add(user)
            if user.name == "rtask.yield":
                return len(stages)
            if user.name == STAGE:
                last = max(last, stages.index(user))
            else:
                pending.append(user)
    return last


def _users(op: ir.Operation) -> set[ir.Operation]:
    """The ops beside an op that use it, also from within a region of theirs."""
    found = set()
    for use in (use for result in op.results for use in result.uses):
        user = use.owner.operation
        while user.block != op.block:
            user = user.parent.operation
        found.add(user)
    return found


def _replaces(stage: Stage, kept: Stage) -> bool:
    """Whether each element of `stage` can be written over that of `kept` it is computed from."""
    element = element_of(stage.result)
    if (stage.shape, stage.axes, element) != (kept.shape, kept.axes, element_of(kept.result)):
        return False
    block = stage.op.operands[0].owner.operation.parent
    if any(use.owner.operation.parent != block for use in kept.result.uses):
        return False  # read at some position inside of another op
    pending, seen = [(stage.value, True)], set()
    while pending:
        value, same = pending.pop()
        if value == kept.result and not same:
            return False
        if isinstance(value.owner, ir.Block) or (value, same) in seen:
            continue
        seen.add((value, same))
        op = value.owner.operation
        if op.name != STAGE:
            pending += [(v, same and _same_place(op, k)) for k, v in enumerate(op.operands)]
    return True


def _same_place(op: ir.Operation, operand: int) -> bool:
    """Whether an op reads an operand only to compute the element of the same coordinates."""
    if op.name != "linalg.generic":
        return False
    generic = Generic(op)
    identity = ir.AffineMap.get_identity(len(generic.sizes))
    return not generic.reduction_dims and generic.maps[operand] == generic.maps[-1] == identity


def _first_fit(taken: list[tuple[int, int]], size: int) -> int:
    """The lowest offset at which `size` bytes overlap no taken range."""
    offset = 0
    for start, end in sorted(taken):
        if offset + size <= start:
            break
        offset = max(offset, end)
    return offset
