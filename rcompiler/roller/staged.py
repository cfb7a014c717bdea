"""rKernels of several stages: a task keeps tiles of the values in between on chip.

The tile graph of Welder (OSDI'23 §3) for a chain: the tile of the last expression decides the tiles
of all before it. A stage is cut along the axes that it shares with the result and whole along the
others; result axes that some stage does not have are never cut, so that nothing is computed twice.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from rcompiler.device.model import Device
from rcompiler.roller.choice import efficient, faster, preferred
from rcompiler.roller.construct import (
    decide,
    eus_of,
    loop_order,
    smaller_registers,
    task_tiles,
)
from rcompiler.roller.cost import TaskCosts, peak_ns, spans
from rcompiler.roller.decision import Decision
from rcompiler.roller.expr import TensorExpr
from rcompiler.roller.nest import Array
from rcompiler.roller.register import RegisterModel, RegisterTile
from rcompiler.roller.unit_cost import costs_of
from rcompiler.roller.vectors import choose_vector_axis

_HAND_OFFS = 2  # times the hand-off that a task of several stages takes at least
_SIDE_BY_SIDE = 12  # operators of several stages that have EUs of their own
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
    return _constructed(tuple(stages), last, device, eus_of(device, eus))[:]


@lru_cache(maxsize=128)
def _constructed(
    stages: tuple[StageExpr, ...], last: TensorExpr, device: Device, eus: int
) -> list[Decision]:
    """Kept, since what one pass constructs to see whether operators join, the next one tiles."""
    model = _model(last, device)
    own = {stage.expr: _model(stage.expr, device) for stage in dict.fromkeys(stages)}
    chain = _Chain.of(model, model.candidates()[0], stages, own)
    if not np.any(chain.allowed):
        return []
    first, scores = efficient(last, device, chain.tiles, chain.costs, chain.allowed)
    least, scores[first] = max(float(scores[first]), 1e-9), np.inf
    second = int(scores.argmin())
    behind = None
    if np.isfinite(scores[second]):
        behind = chain.decision(second).as_runner_up("EU time", float(scores[second]) / least)
    span = spans(chain.costs, device, eus)
    wider = faster(last, device, chain.costs, span, first, eus, chain.allowed)
    found = [chain.decision(first).compared(behind), *map(chain.decision, wider)]
    best = float(span[[first, *wider]].min())
    found += _shrunk(chain, stages, own, best, eus)
    horizontal = any(each.space.horizontal for each in (model, *own.values()))
    return preferred(found, eus) if horizontal else found


def _shrunk(
    chain: "_Chain",
    stages: Sequence[StageExpr],
    own: Mapping[TensorExpr, RegisterModel],
    best: float,
    eus: int,
) -> list[Decision]:
    """The decision with smaller register tiles that is clearly faster than `best` ns, if there are
    EUs without a register tile: at most one (Roller §3.2: small operators).

    What is joined because it would wait for hand-offs is cut into rTasks as short as two of them;
    into no more short ones than leave EUs for the like of it: layers of cells run side by side.
    """
    model, found = chain.model, list[Decision]()
    if eus == 1 or model.expr.unit is not None:
        return []
    least, most = _HAND_OFFS * model.device.costs.hand_off_ns, max(eus // _SIDE_BY_SIDE, 2)
    for register in smaller_registers(model, chain.register, eus):
        smaller = _Chain.of(model, register, stages, own, within=True)
        long = smaller.costs.ns >= model.device.costs.min_task_ns
        few = (smaller.costs.ns >= least) & (smaller.costs.tasks <= most)
        eligible = smaller.allowed & (long | few)
        span = np.where(eligible, spans(smaller.costs, model.device, eus), np.inf)
        number = int(span.argmin())
        if span[number] < 0.9 * best:
            best = float(span[number])
            found = [smaller.decision(number)]
    return found


def _model(expr: TensorExpr, device: Device) -> RegisterModel:
    return RegisterModel(expr, device, choose_vector_axis(expr, device))


@dataclass(frozen=True)
class _Chain:
    """The stages and the last expression with their register tiles, and all their task tiles.

    costs: of all of it; allowed: whether the kept tiles fit, bool [candidates].
    """

    model: RegisterModel
    register: RegisterTile
    order: tuple[int, ...]
    plans: "tuple[_StagePlan, ...]"
    tiles: Array
    parts: tuple[TaskCosts, ...]
    costs: TaskCosts
    allowed: Array

    @staticmethod
    def of(
        model: RegisterModel,
        register: RegisterTile,
        stages: Sequence[StageExpr],
        own: Mapping[TensorExpr, RegisterModel],
        *,
        within: bool = False,
    ) -> "_Chain":
        """own: of the stages. within: whether their register tiles are no longer than `register`,
        else they are the best ones.
        """
        order = loop_order(model, register)
        tiles = _tiles(model, register, stages)
        made: dict[StageExpr, tuple[_StagePlan, TaskCosts]] = {}
        for stage in dict.fromkeys(stages):  # the gates of a cell are alike
            plan = _StagePlan.of(stage, own[stage.expr], register if within else None)
            made[stage] = plan, plan.costs(tiles)
        plans = tuple(made[stage][0] for stage in stages)
        parts = tuple(made[stage][1] for stage in stages)
        kept = sum(plan.kept_bytes(tiles) for plan in plans)
        costs = _together([costs_of(model, register, tiles, order), *parts])
        allowed = np.broadcast_to(kept <= kept_room(model.device), len(tiles))
        return _Chain(model, register, order, plans, tiles, parts, costs, allowed)

    def decision(self, number: int) -> Decision:
        """The tiling of this number."""
        parts = zip(self.plans, self.parts, strict=True)
        tile, model = self.tiles[number], self.model
        own = tuple(plan.decision(tile, costs, number) for plan, costs in parts)
        found = decide(model, self.register, self.order, tile, self.costs, number)
        return _explained(replace(found, stages=own), model.expr, self.plans, model.device)


def _together(costs: Sequence[TaskCosts]) -> TaskCosts:
    """One task that does all of these, one after the other."""
    names = tuple(dict.fromkeys(name for one in costs for name in one.parts))

    def rows(field: str) -> Array:
        each = [dict(zip(one.parts, getattr(one, field), strict=True)) for one in costs]
        return np.stack([sum(named[name] for named in each if name in named) for name in names])

    times, serial = rows("times"), rows("serial")
    ns, limit = sum(one.ns for one in costs), (times + serial).argmax(axis=0)
    return replace(costs[0], ns=ns, limit=limit, parts=names, times=times, serial=serial)


def _explained(
    made: Decision, last: TensorExpr, plans: Sequence["_StagePlan"], device: Device
) -> Decision:
    """The decision with an explanation that counts the stages too."""
    assert made.explanation is not None
    least = peak_ns(last, device) / made.tasks
    for plan, stage in zip(plans, made.stages, strict=True):
        least += peak_ns(plan.stage.expr, device) / stage.tasks
    explanation = replace(
        made.explanation,
        saturation=round(least / max(made.estimated_ns, 1e-9), 4),
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
    def of(stage: StageExpr, own: RegisterModel, within: RegisterTile | None) -> "_StagePlan":
        """With the best register tile that is no longer than `within` of the last expression along
        the axes that both have, or than any; the best of all if none is.
        """
        found = own.candidates()
        fits = (t for t in found if within is None or _is_within(t, stage.axes, within))
        chosen = next(fits, found[0])
        return _StagePlan(stage, own, chosen, loop_order(own, chosen))

    def tiles(self, tiles: Array) -> Array:
        """Tiles of this stage, int64 [candidates, its parallel axes], from those of the result."""
        expr = self.stage.expr
        own = np.empty((len(tiles), len(expr.parallel)), np.int64)  # none of a sum over all axes
        for column, (p, axis) in enumerate(zip(expr.parallel, self.stage.axes, strict=True)):
            own[:, column] = expr.axes[p].size if axis < 0 else tiles[:, axis]
        return own

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


def _is_within(tile: RegisterTile, axes: Sequence[int], other: RegisterTile) -> bool:
    pairs = zip(tile.sizes, axes, strict=True)
    return all(axis < 0 or size <= other.sizes[axis] for size, axis in pairs)


def kept_room(device: Device) -> float:
    """Bytes that a task may keep: a share of the largest level that an execution unit has for
    itself.
    """
    return _ROOM * device.private_bytes


def _tiles(model: RegisterModel, register: RegisterTile, stages: Sequence[StageExpr]) -> Array:
    """Task tiles of the last expression that cut only axes of all stages."""
    expr = model.expr
    found = task_tiles(expr, model.device, model.vector, register)
    sizes = np.array([max(1, expr.axes[p].size) for p in expr.parallel], np.int64)
    shared = [all(p in stage.axes for stage in stages) for p in range(len(sizes))]
    uncut = np.array([not s for s in shared], bool)
    return found[(found[:, uncut] == sizes[uncut]).all(axis=1)]
