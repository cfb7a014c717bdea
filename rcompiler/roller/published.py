"""The published search as a policy: its rTiles as decisions of this compiler.

On a GPU a decision is the rProgram itself: the shared tile of an rTask, the register tile of a
thread, or of a warp where a matrix unit multiplies. On a CPU an rTask runs on one core, whose
vector lanes are the threads: the register tile of the vectors is that of one lane, times the lanes
along the vector axis. No operand is staged, so the steps of the reduction are only noted.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from rcompiler.device.model import Device
from rcompiler.errors import CompilerError, DeviceError
from rcompiler.roller.construct import decision_of
from rcompiler.roller.decision import Decision
from rcompiler.roller.expr import ExpressionError, TensorExpr
from rcompiler.roller.osdi22 import Options, RProgram, Score, emit
from rcompiler.roller.osdi22.expression import Expression, expression_of
from rcompiler.roller.osdi22.hal import hal_of
from rcompiler.roller.osdi22.implicit import Groups, implicit_product
from rcompiler.roller.register import RegisterModel
from rcompiler.roller.vectors import choose_vector_axis

_VISITS = 20_000  # tiles per round: beyond what any published operator took


@dataclass(frozen=True)
class Variant:
    """What the paper has and its published runs leave out.

    score: how much a larger tile gains, "intensity" as in the artifact or "paper" by its formula
    (Roller §3.2). pad_banks: whether the rows of tiles in shared memory count with what is added to
    them against bank conflicts (§3.1). tensor_core: whether tiles consist of fragments of 16x16x16,
    one for each warp, where a matrix unit computes the sums.
    """

    score: Score = "intensity"
    pad_banks: bool = False
    tensor_core: bool = False


AS_PUBLISHED = Variant()


class NoTile(CompilerError):
    """The published search has no tile for an operator; the message is the reason."""


def published(
    expr: TensorExpr,
    device: Device,
    count: int = 1,
    eus: int | None = None,
    variant: Variant = AS_PUBLISHED,
) -> list[Decision]:
    """The first `count` rPrograms of the published search, in its order.

    eus: of how many execution units none should be idle; by default all. Raises NoTile for what it
    cannot express, DeviceError for fragments on a device without matrix units.
    """
    if variant.tensor_core and not device.compute.matrix_units:
        raise DeviceError(
            f"device {device.name} has no matrix units that products are written for; leave "
            "tensor-core out"
        )
    if expr.kind == "sequential":
        raise NoTile("its steps depend on each other")
    if any(axis.kind == "whole" for axis in expr.axes):
        raise NoTile("it is a small linear map, which the search has no axes for")
    try:
        found = implicit_product(expr) or _as_it_is(expr)
    except ExpressionError as error:
        raise NoTile(str(error)) from None
    ordered, groups = found
    ordered = replace(ordered, tensor_core=variant.tensor_core and expr.unit is not None)
    options = Options(score=variant.score, pad_banks=variant.pad_banks, visits=_VISITS)
    programs = emit(ordered, hal_of(device), options, units=eus)[:count]
    if not programs:
        raise NoTile("no tile of it is aligned and fits")
    model = RegisterModel(expr, device, choose_vector_axis(expr, device))
    holder = "warp" if ordered.tensor_core else "lane" if device.is_cpu else "thread"
    return [_decision(model, program, groups, holder) for program in programs]


def _as_it_is(expr: TensorExpr) -> tuple[Expression, Groups]:
    ordered, order = expression_of(expr)
    return ordered, tuple((axis,) if axis >= 0 else () for axis in order)


def _decision(model: RegisterModel, program: RProgram, groups: Groups, holder: str) -> Decision:
    """holder: what the register tile is that of."""
    expr, vector = model.expr, model.vector
    tile, thread, vectors = dict[int, int](), dict[int, int](), dict[int, int]()
    for group, shared, register in zip(groups, program.shared, program.register, strict=True):
        tile |= _spread(expr, group, shared)
        thread |= _spread(expr, group, register)
        wide = vector.axis in group
        vectors |= _spread(expr, group, register * (vector.lanes if wide else 1))
        if wide:  # whole vectors, no more than the task has
            most = min(vectors[vector.axis], tile[vector.axis])
            vectors[vector.axis] = math.ceil(most / vector.lanes) * vector.lanes
    for axis in expr.parallel:  # what is padded is cut in whole, or not at all
        if tile[axis] >= expr.axes[axis].size or not expr.axes[axis].divisible(vectors[axis]):
            tile[axis] = expr.axes[axis].extent
    registers = model.tile([vectors[axis] for axis in expr.parallel])
    made = decision_of(model, registers, [tile[axis] for axis in expr.parallel])
    assert made.explanation is not None
    note = (
        f"published search: shared tile {_text(program.shared)}, register tile "
        f"{_text(program.register)} of a {holder}, "
        f"padding up to {program.eps:.1f}"
    )
    steps = tuple(tile[axis] for axis in expr.reduction)
    made = replace(
        made,
        reduction_unroll=steps,
        reduction_tile=(),
        source="osdi22",
        explanation=replace(made.explanation, note=note),
    )
    if model.device.is_cpu:
        return made
    own = tuple(thread[axis] for axis in expr.parallel)
    return replace(made, register_tile=own, vector_dim=-1, vector_reduction=-1, lanes=1)


def _spread(expr: TensorExpr, group: Sequence[int], size: int) -> dict[int, int]:
    """A tile of `size` points of fused axes as a box of at most as many, innermost axis first."""
    sizes = {}
    for axis in reversed(group):
        sizes[axis] = max(1, min(size, expr.axes[axis].size))
        size //= sizes[axis]
    return sizes


def _text(tile: Sequence[int]) -> str:
    return "x".join(map(str, tile))
