"""rKernels of several stages: a task keeps tiles of the values in between on chip.

The tile graph of Welder (OSDI'23 §3) for a chain: the tile of the last expression decides the tiles
of all before it. A stage is cut along the axes that it shares with the result and whole along the
others; result axes that some stage does not have are never cut, so that nothing is computed twice.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from rcompiler.device.model import Device
from rcompiler.roller.choice import efficient, faster
from rcompiler.roller.construct import decide, eus_of, loop_order, task_tiles
from rcompiler.roller.cost import TaskCosts
from rcompiler.roller.decision import Decision
from rcompiler.roller.expr import TensorExpr
from rcompiler.roller.nest import Array
from rcompiler.roller.register import RegisterModel, RegisterTile
from rcompiler.roller.unit_cost import costs_of
from rcompiler.roller.vectors import choose_vector_axis

_ROOM = 0.5  # of the largest private level is for kept tiles: the operands pass through it too


@dataclass(frozen=True)
class StageExpr:
    """One stage: `axes` holds for each of its parallel axes the position among the parallel axes of
    the last expression, or -1. Its output is `kept`.
    """

    expr: TensorExpr
    axes: tuple[int, ...]


def construct_staged(
    stages: Sequence[StageExpr], last: TensorExpr, device: Device, eus: int | None = None
) -> list[Decision]:
    """Decisions for `last` with those of its stages: the efficient one first, then faster ones.

    eus: as for `construct`. [] if no tile lets the kept tiles fit. Deterministic.
    """
    model = RegisterModel(last, device, choose_vector_axis(last, device))
    register = model.candidates()[0]
    order = loop_order(model, register)
    tiles = _tiles(model, register, stages)
    plans = [_StagePlan.of(stage, device) for stage in stages]
    allowed = sum(plan.kept_bytes(tiles) for plan in plans) <= kept_room(device)
    if not np.any(allowed):
        return []
    costs = costs_of(model, register, tiles, order)
    parts = [plan.costs(tiles) for plan in plans]
    total = _together([costs, *parts])
    first, scores = efficient(last, device, tiles, total, allowed)

    def made(i: int) -> Decision:
        own = (plan.decision(tiles[i], part, i) for plan, part in zip(plans, parts, strict=True))
        found = replace(decide(model, register, order, tiles[i], total, i), stages=tuple(own))
        return _explained(found, last, plans, device)

    least, scores[first] = max(float(scores[first]), 1e-9), np.inf
    second = int(scores.argmin())
    behind = None
    if np.isfinite(scores[second]):
        behind = made(second).as_runner_up("EU time", float(scores[second]) / least)
    wider = faster(last, device, total, first, eus_of(device, eus), allowed)
    return [made(first).compared(behind), *map(made, wider)]


def _together(costs: Sequence[TaskCosts]) -> TaskCosts:
    """One task that does all of these, one after the other."""
    names = tuple(dict.fromkeys(name for one in costs for name in one.parts))

    def rows(field: str) -> Array:
        each = [dict(zip(one.parts, getattr(one, field), strict=True)) for one in costs]
        return np.stack([sum(named[name] for named in each if name in named) for name in names])

    times, apart = rows("times"), rows("apart")
    ns, limit = sum(one.ns for one in costs), (times + apart).argmax(axis=0)
    return replace(costs[0], ns=ns, limit=limit, parts=names, times=times, apart=apart)


def _explained(
    made: Decision, last: TensorExpr, plans: Sequence["_StagePlan"], device: Device
) -> Decision:
    """The decision with an explanation that counts the stages too."""
    assert made.explanation is not None
    operations = last.flops(made.tile)
    for plan, stage in zip(plans, made.stages, strict=True):
        operations += plan.stage.expr.flops(stage.tile)
    peak = device.compute.peak(last.compute_bytes)
    explanation = replace(
        made.explanation,
        saturation=round(operations / max(made.estimated_ns, 1e-9) / peak, 4),
        note=f"after {len(plans)} stage(s), which stay on chip",
    )
    return replace(made, explanation=explanation)


@dataclass(frozen=True)
class _StagePlan:
    """One stage with its register tile."""

    stage: StageExpr
    model: RegisterModel
    register: RegisterTile
    order: tuple[int, ...]

    @staticmethod
    def of(stage: StageExpr, device: Device) -> "_StagePlan":
        model = RegisterModel(stage.expr, device, choose_vector_axis(stage.expr, device))
        register = model.candidates()[0]
        return _StagePlan(stage, model, register, loop_order(model, register))

    def tiles(self, tiles: Array) -> Array:
        """Tiles of this stage, int64 [candidates, its parallel axes], from those of the result."""
        expr = self.stage.expr
        columns = [
            np.full(len(tiles), expr.axes[p].size) if axis < 0 else tiles[:, axis]
            for p, axis in zip(expr.parallel, self.stage.axes, strict=True)
        ]
        return np.stack(columns, axis=1).reshape(len(tiles), -1)

    def kept_bytes(self, tiles: Array) -> Array:
        """Bytes of the kept tile, per candidate."""
        own, expr = self.tiles(tiles), self.stage.expr
        [output] = expr.outputs
        points = math.prod(output.shape) / max(math.prod(expr.sizes[p] for p in expr.parallel), 1)
        return own.prod(axis=1) * points * output.itemsize

    def costs(self, tiles: Array) -> TaskCosts:
        """Of this stage; what is kept is read again at once, so no sums wait for another part."""
        return costs_of(self.model, self.register, self.tiles(tiles), self.order)

    def decision(self, tile: Array, costs: TaskCosts, number: int) -> Decision:
        [own] = self.tiles(tile[np.newaxis])
        return decide(self.model, self.register, self.order, own, costs, number)


def kept_room(device: Device) -> float:
    """Bytes that a task may keep: a share of the largest level that an execution unit has for
    itself.
    """
    return _ROOM * max((level.capacity for level in device.private), default=0)


def _tiles(model: RegisterModel, register: RegisterTile, stages: Sequence[StageExpr]) -> Array:
    """Task tiles of the last expression that cut only axes of all stages."""
    expr = model.expr
    found = task_tiles(expr, model.device, model.vector, register)
    sizes = np.array([max(1, expr.axes[p].size) for p in expr.parallel], np.int64)
    shared = [all(p in stage.axes for stage in stages) for p in range(len(sizes))]
    uncut = np.array([not s for s in shared], bool)
    return found[(found[:, uncut] == sizes[uncut]).all(axis=1)]
