"""Construction: from a tensor expression to rTiles (Roller §3.2), for the efficient and fast ends.

Scale-up: the register tile with the fewest cycles that fits the registers. Scale-out: the task tile
from the whole aligned space, ranked by the model. Unlike the paper's depth-first search,
the space is enumerated: splits are near-equal, so it is small. A reduction is never split, so
results do not depend on the tile.

The first decision does not depend on the number of EUs of the device: it has the least EU time on
average over 1 to 8 EUs, with tasks long enough to be worth placing. The others have a shorter
makespan on a wide device, and cost more EU time: a Pareto set for the scheduler, up to a budget of
EUs. An operator with fewer register tiles than EUs gets smaller ones there: it shrinks.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from rcompiler.device.model import Device
from rcompiler.roller.choice import FEW_EUS, efficient, faster, least_fast_ns, preferred
from rcompiler.roller.cost import Candidates, TaskCosts, spans
from rcompiler.roller.decision import Decision
from rcompiler.roller.explain import RunnerUp, explain
from rcompiler.roller.expr import TensorExpr
from rcompiler.roller.nest import Array
from rcompiler.roller.register import RegisterModel, RegisterTile
from rcompiler.roller.rtile import combinations, grid_of, line_unit, splits
from rcompiler.roller.unit_cost import all_costs_of, unit_tiles
from rcompiler.roller.vectors import VectorAxis, choose_vector_axis
from rcompiler.support.lru_cache import LruCache

_PARTS = 256  # tiles along one axis
_TASKS = 256  # tasks of one operator, or 4 per EU on a wider device
_SPACE = 8192  # task tiles that are evaluated
_REGISTERS = 4  # register tiles whose task tiles are compared
_NEAR = 1.1  # times the cycles of the best register tile that the others take at most
# Bytes of the running sums of a task in parts, which stay in the first two levels. A choice for
# every device: they lie on the stack of the rKernel, which does not grow with the caches.
_SUMS = 32 << 10


def construct(expr: TensorExpr, device: Device, eus: int | None = None) -> list[Decision]:
    """Decisions for `expr` on `device`: the efficient one first, then ever faster ones.

    eus: how many EUs the operator may get; by default all, and 8 on smaller devices, so that these
    have equal kernels. Deterministic; never empty. A sequential expression is scalar code, in tasks
    of whole slabs of its results where it is a loop whose iterations have nothing to do with each
    other.
    """
    return [decision for decision, _ in paced(expr, device, eus_of(device, eus))]


def paced(expr: TensorExpr, device: Device, eus: int) -> list[tuple[Decision, float]]:
    """The decisions for `eus` EUs, each with its makespan on them in ns."""
    model, plans = _compared(expr, device)
    best = min(range(len(plans)), key=lambda number: plans[number].score)
    plan = plans[best]
    first = plan.decision(model, plan.first).compared(_second(model, plans, best))
    found = _with_faster(model, plan, first, eus)
    return preferred(found, eus) if model.space.horizontal else found


def eus_of(device: Device, eus: int | None) -> int:
    """How many EUs faster decisions are for."""
    return eus or max(max(FEW_EUS), device.eus)


def decision_of(model: RegisterModel, register: RegisterTile, tile: Sequence[int]) -> Decision:
    """The decision for this register tile and this tile of the parallel axes."""
    each = _candidates(model, register, np.array([tile], np.int64))
    [costs] = all_costs_of(model, [each])
    return _decided(model, each, costs, 0)


_Compared = tuple[RegisterModel, "tuple[_Plan, ...]"]
_COMPARED: LruCache[_Compared] = LruCache(64 << 20)  # bytes
_MODEL = 50_000  # of a model of register tiles, about


def _compared(expr: TensorExpr, device: Device) -> _Compared:
    """The register tiles that are compared, with all their task tiles.

    Kept, since what one pass constructs to see whether a form is worth it, the next one tiles.
    """
    key = expr, device
    found = _COMPARED.get(key)
    if found is None:
        model = RegisterModel(expr, device, choose_vector_axis(expr, device))
        found = model, tuple(_plans(model, promising(model)))
        _COMPARED.put(key, found, _MODEL + sum(plan.costs.bytes for plan in found[1]))
    return found


def forget() -> None:
    """Forget what was compared: the next construction takes as long as the first one."""
    _COMPARED.clear()


@dataclass(frozen=True)
class _Plan:
    """Task tiles of one register tile with their costs; `first` has the best of the `scores`."""

    candidates: Candidates
    costs: TaskCosts
    scores: Array
    first: int

    @property
    def score(self) -> float:
        return float(self.scores[self.first])

    def decision(self, model: RegisterModel, number: int) -> Decision:
        """The tiling of this number."""
        return _decided(model, self.candidates, self.costs, number)


def _plans(model: RegisterModel, registers: Sequence[RegisterTile]) -> list[_Plan]:
    """Of each register tile, with all aligned task tiles."""
    expr, device = model.expr, model.device
    several = [_candidates(model, register) for register in registers]
    found = []
    for each, costs in zip(several, all_costs_of(model, several), strict=True):
        first, scores = efficient(expr, device, each.tiles, costs)
        found.append(_Plan(each, costs, scores, first))
    return found


def _candidates(
    model: RegisterModel, register: RegisterTile, tiles: Array | None = None
) -> Candidates:
    order, around = loop_order(model, register), panel_loops(model, register)
    if tiles is None:
        tiles = task_tiles(model.expr, model.device, model.vector, register)
    partable = _partable(model.expr, register, order[around:], tiles)
    return Candidates(register, tiles, order, around, partable)


def promising(model: RegisterModel) -> list[RegisterTile]:
    """The register tiles whose task tiles are compared, best first: those close to the best one,
    of which those with as many instructions of each kind (3x2 pixels after 2x3) count as one. Of a
    matrix unit, which has no use for them, only the best.
    """
    if model.expr.unit is not None:
        return model.candidates()[:1]
    most = _NEAR * model.ranked[0][0]
    found: dict[tuple[float, ...], RegisterTile] = {}
    for total, tile in model.ranked:
        if total <= most:
            found.setdefault((total, tile.loads, tile.macs), tile)
    return list(found.values())[:_REGISTERS]


class TilingSpace:
    """All aligned tilings of an expression: the task tiles of its best register tiles.

    Candidates are numbered. `scores`: what `construct` minimises for its first decision; infinite
    for tasks that are too short.
    """

    def __init__(self, expr: TensorExpr, device: Device, registers: int | None = None) -> None:
        """registers: how many register tiles, best first; by default those that are compared."""
        self._model = model = RegisterModel(expr, device, choose_vector_axis(expr, device))
        tiles = promising(model) if registers is None else model.candidates()[:registers]
        self._plans = _plans(model, tiles)
        self.scores = np.concatenate([p.scores for p in self._plans])
        self._starts = np.cumsum([0, *(len(p.scores) for p in self._plans)])

    def __len__(self) -> int:
        return len(self.scores)

    def decision(self, number: int) -> Decision:
        """The tiling of this number."""
        k = int(np.searchsorted(self._starts, number, side="right")) - 1
        return self._plans[k].decision(self._model, number - int(self._starts[k]))


def loop_order(model: RegisterModel, register: RegisterTile) -> tuple[int, ...]:
    """Positions of the parallel axes, outermost loop first: batch, weight panel, pixels."""
    count = len(model.expr.parallel)
    return tuple(sorted(range(count), key=lambda p: (_rank(model, register, p), p)))


def panel_loops(model: RegisterModel, register: RegisterTile) -> int:
    """How many of the outermost loops move the vector operand (the weight panel)."""
    return sum(_rank(model, register, p) < 2 for p in range(len(model.expr.parallel)))


def _rank(model: RegisterModel, register: RegisterTile, position: int) -> int:
    """An axis every operand moves along comes first, one that moves the vector operand next, then
    pixels, which use a panel again while it is in the cache. Axes that one register tile covers
    come last.
    """
    expr, axis = model.expr, model.vector.axis
    this, streams = expr.parallel[position], model.space.streams
    if register.sizes[position] >= expr.axes[this].size:
        return 3
    if len(streams) < 2 or not expr.reduction:
        return 0
    if all(this in access.axes() for access in streams) and this != axis:
        return 0
    panel = any(this in a.axes() for a in streams if axis in a.axes())
    return 2 if expr.windowed(this) or not panel else 1


def task_tiles(
    expr: TensorExpr, device: Device, vector: VectorAxis, register: RegisterTile
) -> Array:
    """All aligned task tiles, int64 [candidates, parallel axes]; the first is the whole operator.

    Every tile is a multiple of the register tile (see `unit_tiles` for matrix units) or the whole
    axis; along the output also of a line of the first level, of a sector on GPUs where vectors run
    along the sum. Only the longest axes (three, fewer when there are very many axes) are split
    anywhere, the others wholly or not at all.
    """
    sizes = expr.extents
    if not sizes:
        return np.array([sizes], np.int64)
    if expr.kind == "sequential":
        return _slabs(expr, device, vector)
    if expr.unit is not None:
        return unit_tiles(expr, device, register)
    units = list(register.sizes)
    itemsize = min(access.itemsize for access in expr.outputs)
    if vector.axis in expr.parallel:
        position = expr.parallel.index(vector.axis)
        units[position] = line_unit(units[position], device.first_level.line, itemsize)
    elif not device.is_cpu and (contiguous := _contiguous(expr)) is not None:
        # results of sums that vectors run along: whole sectors, which no two blocks write (what
        # CPUs write so is little, and their tiles were measured without)
        units[contiguous] = line_unit(units[contiguous], device.sector_bytes, itemsize)
    loops = [math.ceil(size / unit) for size, unit in zip(sizes, units, strict=True)]
    longest = sorted(range(len(sizes)), key=lambda p: (-loops[p], p))
    for several in (3, 2, 1):
        choices = []
        for position, (size, unit) in enumerate(zip(sizes, units, strict=True)):
            divisible = expr.axes[expr.parallel[position]].divisible(register.sizes[position])
            found = splits(size, unit, _PARTS) if divisible else (size,)
            anywhere = position in longest[:several]
            choices.append(found if anywhere else (found[0], found[-1])[: len(found)])
        if math.prod(map(len, choices)) <= _SPACE:
            break
    tiles = combinations(choices)
    tasks = (-(-np.array(sizes, np.int64) // tiles)).prod(axis=1)
    return tiles[tasks <= max(_TASKS, 4 * device.eus)]


def _slabs(expr: TensorExpr, device: Device, vector: VectorAxis) -> Array:
    """Task tiles of loops: some of their iterations, where they share out an axis of the results;
    whole lines where vectors run along it.
    """
    line = line_unit(vector.lanes, device.first_level.line, min(a.itemsize for a in expr.outputs))
    choices = []
    for position in expr.parallel:
        axis, unit = expr.axes[position], line if position == vector.axis else 1
        choices.append(splits(axis.extent, unit, _PARTS) if axis.divisible(1) else (axis.extent,))
    return combinations(choices)


def _contiguous(expr: TensorExpr) -> int | None:
    """Position of the parallel axis along which neighbours of the first output lie."""
    output, sizes = expr.outputs[0], expr.sizes
    long = [k for k, p in enumerate(expr.parallel) if sizes[p] > 1]
    strides = {k: output.stride(expr.parallel[k], 2, sizes[expr.parallel[k]]) for k in long}
    return next((k for k in long if strides[k] == 1), None)


def _with_faster(
    model: RegisterModel, plan: _Plan, first: Decision, eus: int
) -> list[tuple[Decision, float]]:
    """`first` and the faster decisions, each with its makespan on `eus` EUs and compared by it."""
    device, costs = model.device, plan.costs
    span = spans(costs, device, eus)
    horizontal = bool(model.space.horizontal)
    chosen = faster(model.expr, device, costs, span, plan.first, eus, horizontal=horizontal)
    found = [(plan.decision(model, i), float(span[i])) for i in chosen]
    found += _shrunk(model, plan, float(span[[plan.first, *chosen]].min()), eus)
    by, whole = f"makespan on {eus} EUs", float(span[plan.first])
    compared = [(d.compared(first.as_runner_up(by, whole / max(ns, 1e-9))), ns) for d, ns in found]
    return [(first, whole), *compared]


def _shrunk(
    model: RegisterModel, plan: _Plan, best: float, eus: int
) -> list[tuple[Decision, float]]:
    """The decision with smaller register tiles that is clearly faster than `best`, and its
    makespan, if there are EUs without a register tile: at most one (Roller §3.2: small operators).
    """
    device, found, horizontal = model.device, [], bool(model.space.horizontal)
    if eus == 1 or plan.costs.ns[0] < device.costs.min_task_ns or model.expr.unit is not None:
        return []
    registers = smaller_registers(model, plan.candidates.register, eus)
    several = [_candidates(model, register) for register in registers]
    for each, costs in zip(several, all_costs_of(model, several), strict=True):
        eligible = costs.ns >= least_fast_ns(device, eus, horizontal=horizontal)
        span = np.where(eligible, spans(costs, device, eus), np.inf)
        number = int(span.argmin())
        if span[number] < 0.9 * best:
            best = float(span[number])
            found = [(_decided(model, each, costs, number), best)]
    return found


def smaller_registers(
    model: RegisterModel, register: RegisterTile, eus: int
) -> Iterator[RegisterTile]:
    """Register tiles of which there are ever more, the best first, until all EUs have one."""
    tiles = model.count(register)
    for smaller in model.candidates():
        if tiles >= eus:
            return
        if model.count(smaller) > tiles:  # else as few, and slower
            tiles = model.count(smaller)
            yield smaller


def _decided(model: RegisterModel, each: Candidates, costs: TaskCosts, i: int) -> Decision:
    register = each.register
    parts = (each.around, register.part) if costs.in_parts[i] else ()
    return decide(model, register, each.order, each.tiles[i], costs, i, parts)


def decide(
    model: RegisterModel,
    register: RegisterTile,
    order: tuple[int, ...],
    tiles: Array,
    costs: TaskCosts,
    i: int,
    parts: tuple[int, ...] = (),
) -> Decision:
    """The tiling with task tile `tiles` (int64 [parallel axes]), number `i` of `costs`.

    parts: its `reduction_tile`.
    """
    expr, vector = model.expr, model.vector
    tile = tuple(int(step) for step in tiles)
    grid, register = grid_of(expr.extents, tile), _within(expr, register, tile)
    return Decision(
        tile=tile,
        grid=grid,
        register_tile=register.sizes,
        vector_dim=_position(expr.parallel, vector.axis),
        vector_reduction=_position(expr.reduction, vector.axis),
        lanes=vector.lanes,
        reduction_unroll=register.unroll,
        order=order,
        reduction_tile=parts,
        tasks=math.prod(grid),
        estimated_ns=round(float(costs.ns[i]), 1),
        on_chip_bytes=sum(expr.footprint(tile)),
        registers=register.registers,
        explanation=explain(model, register, tile, costs, i),
    )


def _within(expr: TensorExpr, register: RegisterTile, tile: Sequence[int]) -> RegisterTile:
    """The register tile in a task tile: of matrix units these are no multiples of it."""
    if expr.unit is None:
        return register
    smaller = (min(a, b) for a, b in zip(register.sizes, tile, strict=True))
    return replace(register, sizes=tuple(smaller))


def _second(model: RegisterModel, plans: Sequence[_Plan], best: int) -> RunnerUp | None:
    """The next best tiling by EU time, of all register tiles that were compared."""
    scores = [plan.scores.copy() for plan in plans]
    won = plans[best].first
    least = max(float(scores[best][won]), 1e-9)
    scores[best][won] = np.inf
    k = min(range(len(plans)), key=lambda i: (scores[i].min(), i))
    number = int(scores[k].argmin())
    if not np.isfinite(scores[k][number]):
        return None
    each, costs = plans[k].candidates, plans[k].costs
    tile = tuple(each.tiles[number].tolist())
    return RunnerUp(
        tile=tile,
        register_tile=_within(model.expr, each.register, tile).sizes,
        tasks=int(costs.tasks[number]),
        estimated_ns=round(float(costs.ns[number]), 1),
        by="EU time",
        ratio=round(float(scores[k][number]) / least, 4),
    )


def _partable(
    expr: TensorExpr, register: RegisterTile, inside: Sequence[int], tiles: Array
) -> Array:
    """Whether the reduction may run in parts: several register tiles share a part of the vector
    operand, and their sums fit; bool [candidates].
    """
    if not register.part:
        return np.zeros(len(tiles), bool)
    trips = -(-_core(expr, tiles) // np.array(register.sizes, np.int64))
    shared = trips[:, list(inside)].prod(axis=1)
    return (shared > 1) & (_sums(expr, register, inside, tiles) <= _SUMS)


def _sums(expr: TensorExpr, register: RegisterTile, inside: Sequence[int], tiles: Array) -> Array:
    """Bytes of the running sums of a task: its tile along `inside`, else a register tile. They are
    as wide as what registers hold, of which a result that is quantised is a quarter.
    """
    outside = math.prod(size for p, size in enumerate(register.sizes) if p not in inside)
    covered = _core(expr, tiles)[..., list(inside)].prod(axis=-1)
    return covered * outside * expr.compute_bytes


def _core(expr: TensorExpr, tiles: Array) -> Array:
    """The most that tiles compute of each parallel axis: they may cover padding as well."""
    return np.minimum(tiles, [max(1, expr.axes[p].size) for p in expr.parallel])


def _position(axes: tuple[int, ...], axis: int) -> int:
    return axes.index(axis) if axis in axes else -1
