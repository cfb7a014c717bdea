"""Cost model: what one rTask takes (Roller §3.3: Load, Compute per memory level).

    T(task) = max(compute, traffic(level) / bandwidth(next level) for every level) + start

Traffic hides behind those register tiles only that load: one that finds its operands in the level
has nothing to wait for. Register tiles and tasks that are cut off at the end of an axis count for
what they are. All candidates of one operator are evaluated at once, as numpy arrays.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from rcompiler.device.model import Device
from rcompiler.roller.expr import TensorExpr
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


@dataclass(frozen=True)
class ReductionParts:
    """The loop over parts of a reduction: `around`: how many loops of a task are around it.
    `possible`: of which candidates, bool [candidates].
    """

    around: int
    possible: Array


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
    model: RegisterModel,
    register: RegisterTile,
    tiles: Array,
    order: Sequence[int],
    parts: ReductionParts | None = None,
) -> TaskCosts:
    """Costs of the rTask tiles `tiles` (int64, [candidates, parallel axes])."""
    expr, line = model.expr, model.device.first_level.line
    tasks = (-(-np.array(expr.extents, np.int64) // tiles)).prod(axis=1)
    least = peak_ns(expr, model.device) / tasks
    passes = register_tiles(model, register, tiles) / tasks
    nest = Nest(expr, line, register, tiles, order)
    fill = passes * register.fill / model.device.compute.ghz
    ns, times, serial, names = _one_task(model, passes * register.cycles, nest, tasks, fill)
    chosen = np.zeros(len(tiles), bool)
    if parts is not None and parts.possible.any():
        nest = Nest(expr, line, register, tiles, order, parts.around)
        other = _one_task(model, passes * register.part_cycles, nest, tasks, 0.0)
        chosen = parts.possible & (other[0] < _PARTS * ns)
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
    times, serial, names, later = [compute], [0.0], ["compute"], 0.0
    for level, outer in device.transfers:
        capacity = level.capacity * FIT
        if outer is device.main_memory and nest.whole <= capacity:
            break  # the operator before left its results in the last cache
        times.append(nest.traffic(capacity) / outer.bandwidth / tasks)
        serial.append(compute * (1 - nest.loading(capacity)))
        names.append(outer.name)
        if model.expr.sweeps > 1:  # later sweeps wait for what they load again
            later += nest.traffic(capacity, again=True) / outer.bandwidth / tasks - times[-1]
    alone, rest = (np.stack([np.broadcast_to(t, tasks.shape) for t in x]) for x in (times, serial))
    counted = np.minimum(fill, alone[1]) if len(alone) > 1 else 0.0
    return blended(alone, rest, device) - EXPOSED * counted + later, alone, rest, tuple(names)


def side_by_side(parts: Iterable[float]) -> float:
    """ns of the parts of an rTask: the slowest hides the others, but not perfectly."""
    times = [*parts]
    return (1 - EXPOSED) * max(times, default=0.0) + EXPOSED * sum(times)


def blended(times: Array, serial: Array, device: Device) -> Array:
    """ns of one rTask of these parts: the slowest hides the others, but not perfectly."""
    slowest = (times + serial).max(axis=0)
    return (1 - EXPOSED) * slowest + EXPOSED * times.sum(axis=0) + device.costs.step_ns


def register_tiles(model: RegisterModel, register: RegisterTile, tiles: Array) -> Array:
    """How many whole register tiles take as long as those of all tasks, per candidate."""
    total = np.ones(len(tiles))
    for position, axis in enumerate(model.expr.parallel):
        size = max(1, model.expr.axes[axis].size)
        tile = np.minimum(tiles[:, position], size)
        step, shares = register.sizes[position], model.shares(register, position)

        def count(length: Array, step: int = step, shares: Array = shares) -> Array:
            return length // step + shares[length % step]

        total = total * (size // tile * count(tile) + count(size % tile))
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
    total: Array = 0.0
    for count in eus:
        total = total + count * makespan(tasks, ns, count, hand_off, uneven)
    return total / len(eus)


def makespan(
    tasks: Array, ns: Array, eus: int, hand_off: float, uneven: Array | float = 1.0
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
