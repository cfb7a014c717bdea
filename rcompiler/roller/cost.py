"""Cost model: what one rTask takes (Roller §3.3: Load, Compute per memory level).

    T(task) = max(compute, traffic(level) / bandwidth(next level) for every level) + start

Traffic hides behind those register tiles only that load: one that finds its operands in the level
has nothing to wait for. Register tiles and tasks that are cut off at the end of an axis count for
what they are. All candidates of one operator are evaluated at once, as numpy arrays.
"""

import math
from bisect import bisect_right
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate

import numpy as np

from rcompiler.device.model import Device
from rcompiler.roller.expr import TensorExpr
from rcompiler.roller.index_expr import Number
from rcompiler.roller.nest import Array, Nest
from rcompiler.roller.register import RegisterModel, RegisterTile

FIT = 0.75  # of a level's capacity is used: the rest holds stacks, code and what comes next
EXPOSED = 0.2  # of the parts of a task that its slowest one should hide
_PARTS = 0.95  # of the time without parts that those of a reduction take at most to be worth it


@dataclass(frozen=True)
class TaskCosts:
    """Per candidate: `ns` of one rTask, the mean of all; `tasks`; and the index of the slowest part
    in `parts`.

    `parts` names "compute" and then the levels data comes from; `times`: ns of each of them alone,
    [parts, candidates]; `serial`, alike: ns of arithmetic while none of a part's data is coming.
    `uneven`: a whole rTask relative to the mean of all. `in_parts`: whether the reduction is faster
    part by part.
    """

    ns: Array
    tasks: Array
    limit: Array
    parts: tuple[str, ...]
    times: Array
    serial: Array
    uneven: Array
    in_parts: Array

    @property
    def bytes(self) -> int:
        """Bytes of all numbers, about."""
        return 8 * len(self.ns) * (5 + 2 * len(self.parts))

    def cut(self, begin: int, end: int) -> "TaskCosts":
        """Those of some of the candidates."""
        own = slice(begin, end)
        of_parts = {"times": self.times[:, own], "serial": self.serial[:, own]}
        names = ("ns", "tasks", "limit", "uneven", "in_parts")
        return replace(self, **of_parts, **{name: getattr(self, name)[own] for name in names})


@dataclass(frozen=True)
class Candidates:
    """Task tiles of one register tile: `tiles`: int64 [candidates, parallel axes]. `order`: of the
    loops of a task.

    `around`: how many loops of a task are around the loop over parts of the reduction; `partable`:
    which of them may have one, bool [candidates]; None: none.
    """

    register: RegisterTile
    tiles: Array
    order: tuple[int, ...]
    around: int = 0
    partable: Array | None = None

    @property
    def in_parts(self) -> bool:
        """Whether a reduction may run in parts."""
        return self.partable is not None and bool(self.partable.any())


def peak_ns(expr: TensorExpr, device: Device) -> float:
    """ns of the whole operator on one EU that does nothing but its arithmetic, all of it at the
    highest rate there is: no estimate is below.
    """
    compute = device.compute
    ports = 2.0 * device.lanes(expr.compute_bytes) * compute.fma_ports * compute.ghz
    rate = max(compute.peak(expr.compute_bytes), ports)
    if expr.dot:
        rate *= max(1.0, device.dot_speed(expr.dot))
        if (tiles := compute.matrix_unit("amx", expr.dot)) is not None:
            rate = max(rate, compute.matrix_rate(tiles))
    points = [max(1, expr.axes[p].size) for p in expr.parallel]
    if expr.unit is None:
        return expr.flops(points) / rate
    sums = expr.flops(points) - math.prod(points) * expr.epilogue_ops
    return sums / max(dict(compute.matrix)[expr.unit.unit.element], rate)


def task_costs(
    model: RegisterModel, register: RegisterTile, tiles: Array, order: Sequence[int]
) -> TaskCosts:
    """Costs of the rTask tiles `tiles` (int64, [candidates, parallel axes])."""
    return all_task_costs(model, [Candidates(register, tiles, tuple(order))])[0]


def all_task_costs(model: RegisterModel, several: Sequence[Candidates]) -> list[TaskCosts]:
    """Costs of the task tiles of each of several register tiles.

    numpy takes as long for few candidates as for ten times as many: those whose tasks have the same
    loops are evaluated together.
    """
    found: dict[int, TaskCosts] = {}
    alike: dict[Hashable, list[int]] = {}
    for number, each in enumerate(several):
        alike.setdefault(_loops(model.expr, each), []).append(number)
    for numbers in alike.values():
        group = [several[number] for number in numbers]
        ends = np.cumsum([len(each.tiles) for each in group]).tolist()
        costs = _costs_together(model, group)
        for number, begin, end in zip(numbers, [0, *ends], ends, strict=False):
            found[number] = costs.cut(begin, end)
    return [found[number] for number in range(len(several))]


def _loops(expr: TensorExpr, candidates: Candidates) -> Hashable:
    """Which loops there are around the register tile, for any of the candidates."""
    sizes = np.array([max(1, expr.axes[p].size) for p in expr.parallel], np.int64)
    inner = np.clip(candidates.register.sizes, 1, sizes)
    tiles = np.minimum(candidates.tiles, sizes)
    kinds = (tiles.max(axis=0) > inner).tolist(), (tiles.min(axis=0) < sizes).tolist()
    return candidates.order, candidates.around, candidates.in_parts, *map(tuple, kinds)


def _costs_together(model: RegisterModel, group: Sequence[Candidates]) -> TaskCosts:
    """Costs of the candidates of all, one after the other; of equal `_loops`."""
    expr, line = model.expr, model.device.first_level.line
    counts = [len(each.tiles) for each in group]

    def of_each(numbers: Iterable[float]) -> Number:
        """A number of each register tile, per candidate."""
        found = list(numbers)
        return np.repeat(found, counts) if len(set(found)) > 1 else found[0]

    registers, order = [each.register for each in group], group[0].order
    tiles = np.concatenate([each.tiles for each in group])
    inner = [
        of_each(min(register.sizes[k], max(1, expr.axes[axis].size)) for register in registers)
        for k, axis in enumerate(expr.parallel)
    ]
    tasks = (-(-np.array(expr.extents, np.int64) // tiles)).prod(axis=1)
    least = peak_ns(expr, model.device) / tasks
    passes = register_tiles(model, registers, counts, tiles) / tasks
    nest = Nest(expr, line, inner, tiles, order)
    fill = passes * of_each(r.fill for r in registers) / model.device.compute.ghz
    cycles = passes * of_each(r.cycles for r in registers)
    ns, times, serial, names = _one_task(model, cycles, nest, tasks, fill)
    chosen = np.zeros(len(tiles), bool)
    if group[0].in_parts:
        possible = np.concatenate([each.partable for each in group])
        part = of_each(r.part for r in registers)
        nest = Nest(expr, line, inner, tiles, order, group[0].around, part)
        cycles = passes * of_each(r.part_cycles for r in registers)
        other = _one_task(model, cycles, nest, tasks, 0.0)
        chosen = possible & (other[0] < _PARTS * ns)
        together = zip(other[:3], (ns, times, serial), strict=True)
        ns, times, serial = (np.where(chosen, new, old) for new, old in together)
    uneven = unevenness(expr, tiles)
    limit = (times + serial).argmax(axis=0)
    return TaskCosts(np.maximum(ns, least), tasks, limit, names, times, serial, uneven, chosen)


def unevenness(expr: TensorExpr, tiles: Array) -> Array:
    """A whole rTask of each of `tiles` relative to the mean of all of them."""
    shares = tiles / np.array(expr.extents, np.int64)
    return (np.ceil(1 / shares) * shares).prod(axis=1)


def _one_task(
    model: RegisterModel, cycles: Array, nest: Nest, tasks: Array, fill: Array | float
) -> tuple[Array, Array, Array, tuple[str, ...]]:
    """ns of one rTask; those of each part alone, and of arithmetic apart from it; their names.

    fill: ns of what comes from the second level that `cycles` count already.
    """
    device, compute = model.device, cycles / model.device.compute.ghz
    levels = [(level.capacity * FIT, outer) for level, outer in device.transfers]
    if any(outer is device.main_memory and nest.whole <= most for most, outer in levels):
        levels = levels[:-1]  # the operator before left its results in the last cache
    names = ("compute", *(outer.name for _, outer in levels))
    alone, rest = np.empty((2, len(names), len(tasks)))
    alone[0], rest[0], later = compute, 0.0, 0.0
    if levels:
        capacities = np.array([most for most, _ in levels])
        bandwidths = np.array([[outer.bandwidth] for _, outer in levels])
        alone[1:] = nest.traffic(capacities) / bandwidths / tasks
        rest[1:] = compute * (1 - nest.loading(capacities))
        if model.expr.sweeps > 1:  # later sweeps wait for what they load again
            every = nest.traffic(capacities, again=True) / bandwidths / tasks
            later = (every - alone[1:]).sum(axis=0)
    counted = np.minimum(fill, alone[1]) if levels else 0.0
    return blended(alone, rest, device) - EXPOSED * counted + later, alone, rest, names


def side_by_side(parts: Iterable[float]) -> float:
    """ns of the parts of an rTask: the slowest hides the others, but not perfectly."""
    times = [*parts]
    return (1 - EXPOSED) * max(times, default=0.0) + EXPOSED * sum(times)


def blended(times: Array, serial: Array, device: Device) -> Array:
    """ns of one rTask of these parts: the slowest hides the others, but not perfectly."""
    slowest = (times + serial).max(axis=0)
    return (1 - EXPOSED) * slowest + EXPOSED * times.sum(axis=0) + device.costs.step_ns


def register_tiles(
    model: RegisterModel, registers: Sequence[RegisterTile], counts: Sequence[int], tiles: Array
) -> Array:
    """How many whole register tiles take as long as those of all tasks, per candidate.

    counts: candidates of each of the register tiles.
    """
    total = np.ones(len(tiles))
    for position, axis in enumerate(model.expr.parallel):
        size = max(1, model.expr.axes[axis].size)
        steps = [register.sizes[position] for register in registers]
        if size == 1 and set(steps) == {1}:
            continue
        tile, begins = np.minimum(tiles[:, position], size), [0, *accumulate(steps)]
        begin, step = np.repeat([begins[:-1], steps], counts, axis=1)
        places = [begin + length % step for length in (tile, size % tile)]
        shares = np.zeros(begins[-1])  # of each register tile those of 0, 1, ... steps
        for place in {place for each in places for place in each.tolist()}:
            number = bisect_right(begins, place) - 1
            shares[place] = model.share(registers[number], position, place - begins[number])
        whole, rest = tile // step + shares[places[0]], size % tile // step + shares[places[1]]
        total = total * (size // tile * whole + rest)
    return total


def spans(costs: TaskCosts, device: Device, eus: int) -> Array:
    """Time until the last of `eus` EUs is done with its rTasks, per candidate.

    EUs that run at once share the bandwidth of the levels that several of them have.
    """
    active = np.minimum(costs.tasks, eus)
    times = costs.times.astype(float)
    for number, name in enumerate(costs.parts[1:], 1):
        level = device.level(name)
        share = level.shared_bandwidth / np.clip(active, 1, level.shared_by)
        times[number] *= np.maximum(1, level.bandwidth / share)
    shared, alone = (blended(t, costs.serial, device) for t in (times, costs.times))
    ns = costs.ns + shared - alone
    return makespan(costs.tasks, ns, eus, device.costs.hand_off_ns, costs.uneven)


def balance(
    tasks: Array, ns: Array, eus: Sequence[int], hand_off: float, uneven: Array | float = 1.0
) -> Array:
    """EU time an operator takes, mean over numbers of EUs: idle EUs at the end count.

    With E EUs, E times the time until the last one has finished is spent.
    """
    counts = np.array(eus)[:, np.newaxis]
    spent = counts * makespan(tasks, ns, counts, hand_off, uneven)
    return spent.cumsum(axis=0)[-1] / len(eus)


def makespan(
    tasks: Array, ns: Array, eus: int | Array, hand_off: float, uneven: Array | float = 1.0
) -> Array:
    """Time until the last of `eus` EUs is done: with ceil(tasks / eus) tasks of the mean time `ns`,
    and no earlier than after one whole task, which takes `uneven` times as long.
    """
    turns = np.ceil(tasks / eus)
    return np.maximum(turns * ns, uneven * ns) + turns * hand_off


def cuts(expr: TensorExpr, tiles: Array) -> Array:
    """How many axes a tile cuts, per candidate; three for a window axis inside of another.

    Every cut makes dependences more; cutting rows of pixels also makes the rows short.
    """
    sizes = np.array(expr.extents, np.int64)
    windows = [i for i, p in enumerate(expr.parallel) if sizes[i] > 1 and expr.windowed(p)]
    weights = np.ones(len(sizes), np.int64)
    weights[windows[1:]] = 3
    return (tiles < sizes) @ weights
