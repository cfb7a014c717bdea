"""Task tiles of products on matrix units, and what they take.

    T(task) = max(compute, traffic(level) / bandwidth(level) for every level) + start

compute: rows x columns x steps with their padding, at the rate that the unit reaches, and then the
operations beside the product. The unit reads its factors from shared memory (the first level),
where every box of a tile brings them anew; loops over boxes and tasks move the rest as in `cost`.
"""

import math
from collections.abc import Sequence
from itertools import product

import numpy as np

from rcompiler.device.model import Device
from rcompiler.roller.cost import (
    FIT,
    Candidates,
    TaskCosts,
    all_task_costs,
    blended,
    peak_ns,
    unevenness,
)
from rcompiler.roller.expr import TensorExpr
from rcompiler.roller.matrix_unit import LINES, BlockWork, Cover, UnitProduct, box_of, work_of
from rcompiler.roller.nest import Array, Nest
from rcompiler.roller.register import RegisterModel, RegisterTile
from rcompiler.roller.rtile import combinations, splits

_PARTS = 64  # tiles along one axis
_SPACE = 1024  # task tiles that are evaluated
_TASKS = 256  # tasks of one operator, or 4 per EU on a wider device


def unit_tiles(expr: TensorExpr, device: Device, register: RegisterTile) -> Array:
    """Aligned task tiles, int64 [candidates, parallel axes]; the first is the whole operator.

    The last axis of the rows and that of the columns are cut into multiples of the unit's rows and
    columns (Roller §3.1: execution unit), so that what hangs over is at the end of the axis; the
    others, which multiply these, are cut anywhere into near-equal parts.
    """
    padded = [axis for axis in expr.parallel if expr.axes[axis].padding]
    choices = []
    for position, axis in enumerate(expr.parallel):
        size = expr.extents[position]
        divisible = expr.axes[axis].divisible(register.sizes[position])
        if axis in padded[:1]:  # each way in which the border cuts a tile is code of its own
            divisible = not expr.axes[axis].uncut
        found = splits(size, _granule(expr, device, axis), _PARTS) if divisible else (size,)
        choices.append(found)
    longest = sorted(range(len(choices)), key=lambda p: (-len(choices[p]), p))
    most = max(_TASKS, 4 * device.eus)
    for several in (len(choices), 3, 2, 1):
        anywhere = longest[:several]
        few = [c if p in anywhere else (c[0], c[-1])[: len(c)] for p, c in enumerate(choices)]
        tiles = combinations(few)
        tasks = (-(-np.array(expr.extents, np.int64) // tiles)).prod(axis=1)
        tiles = tiles[tasks <= most]
        if len(tiles) <= _SPACE:
            break
    return tiles


def _granule(expr: TensorExpr, device: Device, axis: int) -> int:
    """What tiles are cut into multiples of along an axis."""
    unit = expr.unit
    assert unit is not None
    granule = 1
    sides = zip((unit.rows, unit.columns), (unit.unit.rows, unit.unit.columns), strict=True)
    for factor, (axes, own) in enumerate(sides):
        long = [a for a in axes if expr.axes[a].size > 1]
        if long and axis == max(long):
            line = LINES[0] if axis == unit.lines[factor] and unit.unit.warpgroups else 1
            granule = math.lcm(own, line)
    output = expr.outputs[0]
    if granule > 1 and output.dims and output.stride(axis, 2, expr.axes[axis].size) == 1:
        granule = math.lcm(granule, device.main_memory.line // output.itemsize or 1)
    return granule


def costs_of(
    model: RegisterModel, register: RegisterTile, tiles: Array, order: Sequence[int]
) -> TaskCosts:
    """Costs of the rTask tiles `tiles` (int64, [candidates, parallel axes])."""
    return all_costs_of(model, [Candidates(register, tiles, tuple(order))])[0]


def all_costs_of(model: RegisterModel, several: Sequence[Candidates]) -> list[TaskCosts]:
    """What rTasks take, on the unit that computes their sums if there is one; see `task_costs`."""
    if model.expr.unit is None:
        return all_task_costs(model, several)
    return [unit_costs(model.expr, model.device, each.tiles, each.order) for each in several]


def least_ns(expr: TensorExpr, device: Device) -> float:
    """What an rTask takes at least to be worth placing: on a matrix unit, whose rTasks are short
    because it is fast and not because there is little to do, as long as it takes to start.
    """
    costs = device.costs
    return costs.min_task_ns if expr.unit is None else min(costs.min_task_ns, costs.task_ns)


def unit_costs(expr: TensorExpr, device: Device, tiles: Array, order: Sequence[int]) -> TaskCosts:
    """Costs of the rTask tiles `tiles` (int64, [candidates, parallel axes])."""
    unit = expr.unit
    assert unit is not None
    tasks = (-(-np.array(expr.extents, np.int64) // tiles)).prod(axis=1)
    works = [work_of_tasks(expr, unit, tile) for tile in tiles.tolist()]
    padded, shared = (np.array([getattr(w, n) for w in works]) for n in ("padded", "shared"))
    points = math.prod(max(1, expr.axes[p].size) for p in expr.parallel)
    epilogue = points * expr.epilogue_ops / device.compute.peak(expr.compute_bytes)
    compute = 2 * unit.steps * padded / device.compute.matrix_rate(unit.unit) + epilogue
    first = device.first_level
    times = [compute / tasks, shared * unit.steps * unit.unit.item / first.bandwidth / tasks]
    names, transaction = ["compute", first.name], device.main_memory.line
    nest = Nest(expr, transaction, _boxes(expr, unit, tiles), tiles, order)
    for level, outer in device.transfers:
        capacity = level.capacity * FIT if level is not first else 0.0
        if outer is device.main_memory and nest.whole <= capacity:
            break  # the operator before left its results in the last cache
        times.append(nest.traffic(capacity) / outer.bandwidth / tasks)
        names.append(outer.name)
    alone = np.stack([np.broadcast_to(t, tasks.shape) for t in times])
    serial = np.zeros_like(alone)
    ns = np.maximum(blended(alone, serial, device), peak_ns(expr, device) / tasks)
    none = np.zeros(len(tiles), bool)
    uneven = unevenness(expr, tiles)
    return TaskCosts(ns, tasks, alone.argmax(axis=0), tuple(names), alone, serial, uneven, none)


def work_of_tasks(expr: TensorExpr, unit: UnitProduct, tile: Sequence[int]) -> BlockWork:
    """What the rTasks of `tile` do together; those at the end of an axis count for what they are.

    Tiles count along the padding of results too, of which nothing is multiplied.
    """
    choices = []
    for axis, step in zip(expr.parallel, tile, strict=True):
        size = max(1, expr.axes[axis].size)
        step = min(step, size)
        choices.append([end for end in ((step, size // step), (size % step, 1)) if all(end)])
    total = BlockWork()
    for choice in product(*choices):
        times = math.prod(count for _, count in choice)
        total = total.plus(work_of(unit, _all_axes(expr, [n for n, _ in choice])), times)
    return total


def cover_of(expr: TensorExpr, unit: UnitProduct, tile: Sequence[int]) -> Cover:
    """How a block covers the largest box of an rTask."""
    pairs = zip(expr.parallel, tile, strict=True)
    inside = [min(step, max(1, expr.axes[axis].size)) for axis, step in pairs]
    return box_of(unit, _all_axes(expr, inside))[1]


def _boxes(expr: TensorExpr, unit: UnitProduct, tiles: Array) -> list[Array]:
    """The part of each tile that is multiplied at once: per parallel axis its sizes."""
    sizes = [max(1, expr.axes[p].size) for p in expr.parallel]
    parts = [
        [box_of(unit, _all_axes(expr, tile))[0][axis] for axis in expr.parallel]
        for tile in np.minimum(tiles, np.array(sizes, np.int64)).tolist()
    ]
    return list(np.array(parts, np.int64).reshape(len(tiles), -1).T)


def _all_axes(expr: TensorExpr, tile: Sequence[int]) -> tuple[int, ...]:
    """A size for every axis from a tile of the parallel ones; axes of results that no task cuts are
    whole.
    """
    unit = expr.unit
    assert unit is not None
    own = dict(zip(expr.parallel, tile, strict=True))
    kept = {*unit.rows, *unit.columns}
    return tuple(
        own[a] if a in own else max(1, axis.size) if a in kept else 1
        for a, axis in enumerate(expr.axes)
    )
