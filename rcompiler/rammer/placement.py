"""Where the values of a graph lie according to the buffers that the runs use."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from rcompiler.errors import ScheduleError
from rcompiler.rammer.graph import Graph, Operator, Value
from rcompiler.rammer.kernel import Kernel
from rcompiler.rammer.order import NEVER, Order
from rcompiler.rammer.overlap import Overlaps, Shares
from rcompiler.rammer.program import Buffer, Program, Run
from rcompiler.rammer.regions import Ints, counted

Space = tuple[str, int]
KEPT = 1 << 10  # operands whose shares are kept: values near one another are compared in turn
_AT_ONCE = 1 << 12  # operators whose clocks are joined at once: bounds the memory


def derive_graph(programs: Sequence[Program], kernels: Sequence[Kernel]) -> Graph:
    """The graph that programs describe by themselves: one value per buffer name.

    Operators are those the runs name. Raises ScheduleError when runs of one operator disagree.
    """
    known = {kernel.name: kernel for kernel in kernels}
    buffers: dict[str, Buffer] = {}
    runs: dict[str, Run] = {}
    for program in programs:
        for buffer in program.buffers:
            if buffers.setdefault(buffer.name, buffer) != buffer:
                raise ScheduleError(
                    f"buffer {buffer.name} differs from program to program", "buffer"
                )
        for queue in program.queues:
            for step in queue:
                if isinstance(step, Run):
                    other = runs.setdefault(step.operator, step)
                    if (other.kernel, other.buffers) != (step.kernel, step.buffers):
                        raise ScheduleError(
                            f"runs of operator {step.operator} differ in kernel or buffers", "task"
                        )
    operators = []
    for name, run in runs.items():
        kernel = known.get(run.kernel)
        if kernel is None:
            raise ScheduleError(f"operator {name} runs the unknown rKernel {run.kernel!r}", "task")
        cut = len(kernel.reads)
        operators.append(Operator(name, (run.kernel,), run.buffers[:cut], run.buffers[cut:]))
    used = {name for run in runs.values() for name in run.buffers}
    for name in [*used]:
        while name in buffers and (parent := buffers[name].alias_of) is not None:
            used.add(parent)
            name = parent
    values = tuple(_value(b, buffers) for b in buffers.values() if b.name in used)
    return Graph(tuple(operators), values, tuple(known.values()))


def _value(buffer: Buffer, buffers: dict[str, Buffer]) -> Value:
    if buffer.alias_of is not None:
        offset = buffer.offset - buffers[buffer.alias_of].offset
        return Value(buffer.name, buffer.bytes, "temp", buffer.alias_of, -1, offset)
    return Value(buffer.name, buffer.bytes, buffer.kind, None, buffer.index, 0, buffer.key)


@dataclass(frozen=True)
class OperatorRuns:
    """All runs of one operator: indices into the order, and their task ranges (n,)."""

    operator: Operator
    kernel: Kernel
    which: Ints
    first: Ints
    count: Ints
    stride: Ints


@dataclass(frozen=True)
class Times:
    """When the n operators of a graph run, in its order.

    ends: (n, eus), per EU the number of its instructions up to the last run; starts: (n, eus), per
    EU how many instructions are over before any run starts, in every execution; first, last: (n,)
    turn of the first and of the last run. Of an operator without runs, that it is over before all
    and starts after all.
    """

    ends: NDArray[np.int32]
    starts: NDArray[np.int32]
    first: Ints
    last: Ints


@dataclass(frozen=True)
class Placement:
    """Runs per operator, and the space and byte address of each root value."""

    graph: Graph
    order: Order
    runs: dict[str, OperatorRuns]
    place: dict[str, tuple[Space, int]]
    touching: Overlaps = field(default_factory=Overlaps)
    _shares: dict[tuple[str, int], Shares] = field(default_factory=dict, init=False, repr=False)

    @cached_property
    def row(self) -> dict[str, int]:
        """Row of each operator in `times`."""
        return {name: number for number, name in enumerate(self.runs)}

    @cached_property
    def times(self) -> Times:
        """Of all operators at once, which takes much less than one by one."""
        order, groups = self.order, [runs.which for runs in self.runs.values()]
        sizes = np.array([len(which) for which in groups], np.int64)
        ends = np.zeros((len(groups), order.eus), np.int32)
        starts = np.full((len(groups), order.eus), NEVER, np.int32)
        first, last = np.full(len(groups), len(order.runs)), np.full(len(groups), -1)
        for low in range(0, len(groups), _AT_ONCE):
            some = low + np.flatnonzero(sizes[low : low + _AT_ONCE])
            if not len(some):
                continue
            which = np.concatenate(groups[low : low + _AT_ONCE])
            begin = np.cumsum(sizes[some]) - sizes[some]
            rows = np.repeat(some, sizes[some])
            np.maximum.at(ends, (rows, order.eu[which]), (order.place[which] + 1).astype(np.int32))
            starts[some] = np.minimum.reduceat(order.clock(which), begin, axis=0)
            first[some] = np.minimum.reduceat(order.turn[which], begin)
            last[some] = np.maximum.reduceat(order.turn[which], begin)
        return Times(ends, starts, first, last)

    def shares(self, operator: str, operand: int, which: Ints | None = None) -> Shares:
        """Bytes touched through an operand (inputs, then outputs) by the runs of an operator."""
        found = self._shares.get((operator, operand))
        if found is None:
            if len(self._shares) == KEPT:
                self._shares.clear()
            found = self._shares[operator, operand] = self._made(operator, operand)
        return found if which is None else found.pick(which)

    def _made(self, operator: str, operand: int) -> Shares:
        mine = self.runs[operator]
        op = mine.operator
        name = (*op.inputs, *op.outputs)[operand]
        root, offset = self.graph.root(name)
        access = (*mine.kernel.reads, *mine.kernel.writes)[operand]
        return Shares(
            mine.kernel.grid,
            access,
            self.place[root][1] + offset,
            mine.first,
            mine.count,
            mine.stride,
        )


def place_runs(
    programs: Sequence[Program], graph: Graph, order: Order, derived: bool = False
) -> Placement:
    """Group the runs by operator and check that buffers and task ranges fit the graph.

    derived: the graph comes from the programs, whose buffers may be parts of outer tensors.
    """
    grouped: dict[str, list[int]] = {}
    for number, run in enumerate(order.runs):
        grouped.setdefault(run.operator, []).append(number)
    unknown = [name for name in grouped if name not in graph.operator]
    if unknown:
        raise ScheduleError(f"operator {unknown[0]} is not in the graph", "task")
    runs: dict[str, OperatorRuns] = {}
    place: dict[str, tuple[Space, int]] = {}
    program = order.program.tolist()
    for op in graph.operators:
        which = grouped.get(op.name, [])
        runs[op.name] = _operator_runs(op, graph, order, which)
        for number, buffers in dict.fromkeys((program[i], order.runs[i].buffers) for i in which):
            _check_buffers(programs[number], graph, op, buffers, place)
    if not derived:
        _check_external(graph, place)
    return Placement(graph, order, runs, place)


def _operator_runs(op: Operator, graph: Graph, order: Order, which: list[int]) -> OperatorRuns:
    mine = [order.runs[i] for i in which]
    names = {run.kernel for run in mine} or {op.kernels[0]}
    if len(names) > 1 or not names <= set(op.kernels):
        raise ScheduleError(
            f"operator {op.name} runs rKernels {', '.join(sorted(names))}: it must run exactly one "
            f"of {', '.join(op.kernels)}",
            "task",
        )
    kernel = graph.kernel[next(iter(names))]
    first, count, stride = (
        np.array(column, np.int64)
        for column in ([r.first for r in mine], [r.count for r in mine], [r.stride for r in mine])
    )
    found = OperatorRuns(op, kernel, np.array(which, np.int64), first, count, stride)
    _check_tasks(found, order)
    return found


def describe(order: Order, number: int) -> str:
    """One run, for a message."""
    run = order.runs[number]
    last = run.first + (run.count - 1) * run.stride
    step = f" step {run.stride}" if run.stride != 1 and run.count > 1 else ""
    where = (
        f"in queue {order.queue[number]}"
        if order.queue[number] >= 0
        else f"on EU {order.eu[number]}, instruction {order.place[number]}"
    )
    return (
        f"operator {run.operator} (rKernel {run.kernel}), rTasks {run.first}..{last}{step} {where}"
    )


def _check_tasks(runs: OperatorRuns, order: Order) -> None:
    """Each task of the operator exactly once."""
    total = runs.kernel.tasks
    if len(runs.which) == 1 and (runs.first[0], runs.count[0], runs.stride[0]) == (0, total, 1):
        return
    ends = runs.first + runs.count
    # in order and side by side, as all policies write them: the rest is for text of any kind
    if len(ends) and runs.first[0] == 0 and ends[-1] == total and (ends > runs.first).all():
        if (runs.first[1:] == ends[:-1]).all() and (runs.stride == 1).all():
            return
    last = runs.first + (runs.count - 1) * runs.stride
    bad = (runs.count < 1) | (runs.first < 0) | (runs.stride < 1) | (last >= total)
    # The product may overflow; the stride of a single task means nothing.
    bad |= (runs.count > total) | ((runs.count > 1) & (runs.stride > total))
    if bad.any():
        number = int(runs.which[np.flatnonzero(bad)[0]])
        raise ScheduleError(
            f"{describe(order, number)}: outside of its {total} tasks, or an empty range", "task"
        )
    sort = np.argsort(runs.first, kind="stable")
    first, count = runs.first[sort], runs.count[sort]
    if (runs.stride[runs.count > 1] == 1).all():
        ends = np.cumsum(count)
        if len(ends) and ends[-1] == total and first[0] == 0 and (first[1:] == ends[:-1]).all():
            return
    if int(runs.count.sum()) > 2 * total:
        raise ScheduleError(
            f"operator {runs.operator.name} has {total} tasks and runs {runs.count.sum()}", "task"
        )
    owner = np.repeat(np.arange(len(first)), runs.count)
    tasks = runs.first[owner] + counted(runs.count) * runs.stride[owner]
    times = np.bincount(tasks, minlength=total)
    wrong = np.flatnonzero(times != 1)
    if len(wrong):
        raise ScheduleError(
            f"operator {runs.operator.name} (rKernel {runs.kernel.name}): rTask {wrong[0]} of "
            f"{total} is run {times[wrong[0]]} times ({len(wrong)} such rTasks): each must run "
            "exactly once",
            "task",
        )


def _check_buffers(
    program: Program,
    graph: Graph,
    op: Operator,
    buffers: tuple[str, ...],
    place: dict[str, tuple[Space, int]],
) -> None:
    """The buffers of a run hold the operator's values, everywhere at the same bytes."""
    names = (*op.inputs, *op.outputs)
    where = f"program {program.name}, operator {op.name}"
    if len(names) != len(buffers):
        raise ScheduleError(
            f"{where}: {len(buffers)} buffers for {len(names)} operands and results", "buffer"
        )
    for name, buffer_name in zip(names, buffers, strict=True):
        buffer = program.buffer.get(buffer_name)
        if buffer is None:
            raise ScheduleError(f"{where}: buffer {buffer_name!r} does not exist", "buffer")
        value = graph.value[name]
        root_name, offset = graph.root(name)
        if buffer.bytes != value.bytes:
            raise ScheduleError(
                f"{where}: value {name} has {value.bytes} bytes, its buffer {buffer_name} "
                f"{buffer.bytes}",
                "buffer",
            )
        kind, index = graph.homes[root_name]
        if (buffer.kind, buffer.index) != (kind, index):
            raise ScheduleError(
                f"{where}: value {name} belongs in {kind} memory {index}, its buffer "
                f"{buffer_name} is in {buffer.kind} memory {buffer.index}",
                "buffer",
            )
        here = (buffer.space, buffer.offset - offset)
        if place.setdefault(root_name, here) != here:
            space, start = place[root_name]
            raise ScheduleError(
                f"{where}: buffer {buffer_name} puts value {name} at byte {buffer.offset} of "
                f"{buffer.space}, other runs have it at byte {start + offset} of {space}",
                "buffer",
            )


def _check_external(graph: Graph, place: dict[str, tuple[Space, int]]) -> None:
    """An input or output value is the whole outer tensor: it starts at its first byte."""
    for root, (space, start) in place.items():
        if space[0] in ("input", "output"):
            for name in graph.views[root]:
                value = graph.value[name]
                if value.kind in ("input", "output") and start + graph.root(name)[1] != 0:
                    raise ScheduleError(
                        f"{value.kind} {name} must start at byte 0 of its tensor, its buffer "
                        f"starts at {start + graph.root(name)[1]}",
                        "buffer",
                    )
