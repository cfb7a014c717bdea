"""Cost model: what one rTask takes (Roller §3.3: Load, Compute per memory level).

    T(task) = max(compute, traffic(level) / bandwidth(next level) for every level) + start

The loops of a task, and around them the loop over tasks, form one nest. For every level, the
largest inner part of the nest whose data fits is found; loops outside of it load their operands
again, except operands that do not move with the loops directly around it. All candidates of one
operator are evaluated at once, as numpy arrays.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rcompiler.device.model import Device
from rcompiler.roller.expr import TensorExpr
from rcompiler.roller.register import RegisterTile

Array = Any  # numpy array with one entry per candidate

_FIT = 0.75  # of a level's capacity is used: the rest holds stacks, code and what comes next


@dataclass(frozen=True)
class TaskCosts:
    """Per candidate: `ns` of one rTask, `tasks`, and the index of the slowest part in `parts`.

    `parts` names "compute" and then the levels data comes from; `times`: ns of each of them alone,
    [parts, candidates].
    """

    ns: Array
    tasks: Array
    limit: Array
    parts: tuple[str, ...]
    times: Array


def task_costs(
    expr: TensorExpr,
    device: Device,
    register: RegisterTile,
    tiles: Array,
    order: Sequence[int],
) -> TaskCosts:
    """Costs of the rTask tiles `tiles` (int64, [candidates, parallel axes])."""
    sizes = np.maximum(np.array([expr.axes[p].size for p in expr.parallel], np.int64), 1)
    grid = -(-np.array(expr.extents, np.int64) // tiles)
    trips = -(-np.minimum(tiles, sizes) // np.array(register.sizes, np.int64))
    tasks = grid.prod(axis=1)
    compute = trips.prod(axis=1) * register.cycles / device.compute.ghz
    parts = [compute]
    names = ["compute"]
    nest = _Nest(expr, device, register, tiles, grid, trips, order)
    for level, outer in zip(device.memory, device.memory[1:], strict=False):
        capacity = level.capacity * _FIT
        if outer is device.memory[-1] and nest.whole <= capacity:
            break  # the operator before left its results in the last cache
        moved = nest.traffic(capacity) / tasks
        parts.append(moved / outer.bandwidth)
        names.append(outer.name)
    times = np.stack([np.broadcast_to(part, tasks.shape) for part in parts])
    return TaskCosts(_task_ns(times, device), tasks, times.argmax(axis=0), tuple(names), times)


def _task_ns(times: Array, device: Device) -> Array:
    """One rTask of these parts: the slowest hides the others, but not perfectly."""
    return 0.8 * times.max(axis=0) + 0.2 * times.sum(axis=0) + device.costs.task_ns


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
    ns = costs.ns + _task_ns(times, device) - _task_ns(costs.times, device)
    return makespan(costs.tasks, ns, eus, device.costs.hand_off_ns)


class _Nest:
    """Register-tile loops of a task, then the loops over tasks, innermost first."""

    def __init__(
        self,
        expr: TensorExpr,
        device: Device,
        register: RegisterTile,
        tiles: Array,
        grid: Array,
        trips: Array,
        order: Sequence[int],
    ) -> None:
        self.expr = expr
        count = len(tiles)
        full = [axis.size for axis in expr.axes]
        current = [np.full(count, size, np.int64) for size in full]
        limits = [expr.axes[p].size for p in expr.parallel]
        for position, axis in enumerate(expr.parallel):
            step = min(register.sizes[position], limits[position])
            current[axis] = np.full(count, step, np.int64)
        self.loops: list[tuple[int, Array]] = []
        self.bytes: list[list[Array]] = [self._bytes(current, device)]
        for position in reversed(order):
            self._loop(position, trips[:, position], tiles[:, position], current, device)
        for position in reversed(range(len(limits))):
            whole = np.full(count, limits[position], np.int64)
            self._loop(position, grid[:, position], whole, current, device)
        line = device.memory[0].line
        self.whole = sum(int(a.traffic(expr.sizes, line)) for a in expr.accesses)
        self.outside = [np.ones(count)]
        for _, times in reversed(self.loops):
            self.outside.append(self.outside[-1] * times)
        self.outside.reverse()

    def _loop(
        self, position: int, times: Array, size: Array, current: list[Array], device: Device
    ) -> None:
        if (times == 1).all():
            return
        axis = self.expr.parallel[position]
        current[axis] = np.minimum(size, self.expr.axes[axis].size)
        self.loops.append((axis, times))
        self.bytes.append(self._bytes(current, device))

    def _bytes(self, sizes: list[Array], device: Device) -> list[Array]:
        line = device.memory[0].line
        return [access.traffic(sizes, line) for access in self.expr.accesses]

    def traffic(self, capacity: float) -> Array:
        """Bytes that all tasks together load into a level of `capacity` bytes."""
        depths = len(self.bytes)
        fits = np.stack([np.broadcast_to(sum(b), self.outside[0].shape) for b in self.bytes])
        deepest = (fits <= capacity).sum(axis=0) - 1  # footprints grow outwards
        total = np.zeros(self.outside[0].shape)
        for depth in range(-1, depths):
            chosen = deepest == depth
            if chosen.any():
                total = np.where(chosen, self._at(max(depth, 0), retained=depth >= 0), total)
        return total

    def _at(self, depth: int, retained: bool) -> Array:
        """Bytes when the nest up to `depth` fits (`retained`), or when nothing does.

        What fits is still there when the loop around it takes its next step: that loop loads
        only what is new, and loops that do not move an operand load nothing of it.
        """
        total: Array = 0.0
        for number, access in enumerate(self.expr.accesses):
            inner = outer = depth
            while retained and outer < len(self.loops):
                if access.moves_with(self.loops[outer][0]):
                    if outer == depth:  # a sliding window: the overlap is loaded once
                        inner = outer = depth + 1
                    break
                outer += 1
            if not access.kept:
                total = total + self.bytes[inner][number] * self.outside[outer]
        return total


def balance(tasks: Array, ns: Array, eus: Sequence[int], hand_off: float) -> Array:
    """EU time an operator takes, mean over numbers of EUs: idle EUs at the end count.

    With E EUs the last one finishes after ceil(tasks / E) tasks, and E * that time is spent.
    """
    total: Array = 0.0
    for count in eus:
        total = total + np.ceil(tasks / count) * count * (ns + hand_off)
    return total / len(eus)


def makespan(tasks: Array, ns: Array, eus: int, hand_off: float) -> Array:
    """Time until the last of `eus` EUs is done."""
    return np.ceil(tasks / eus) * (ns + hand_off)


def cuts(expr: TensorExpr, tiles: Array) -> Array:
    """How many axes a tile cuts, per candidate; three for a window axis inside of another.

    Every cut makes dependences more; cutting rows of pixels also makes the rows short.
    """
    sizes = np.array(expr.extents, np.int64)
    windows = [i for i, p in enumerate(expr.parallel) if sizes[i] > 1 and expr.windowed(p)]
    weights = np.ones(len(sizes), np.int64)
    weights[windows[1:]] = 3
    return (tiles < sizes) @ weights
