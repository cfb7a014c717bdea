"""Which operators of a program read the same constants, and on which EUs their tasks run."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from math import prod

from torch_mlir import ir

from rcompiler.dialects.iterations import moving_integer, name_at
from rcompiler.linalg.values import integer, ops_of, string, symbol, symbols
from rcompiler.rammer.pinning import Places


@dataclass
class Group:
    """Operators that the same vdevice.run ops run: alone, or in the iterations of a loop.

    kernel, buffers: of all of them, as the ops say it. runs: the ops, each with the number of the
    list that it stands in. places: of the tasks, the same for all of them.
    """

    kernel: str
    buffers: tuple[str, ...]
    runs: list[tuple[int, ir.Operation]]
    operators: list[str] = field(default_factory=list)
    places: Places = ()


@dataclass(frozen=True)
class _Run:
    """A vdevice.run of a list, with the counts of the loops around it."""

    unit: int
    op: ir.Operation
    counts: tuple[int, ...]
    kernel: str
    operator: str
    buffers: tuple[str, ...]


@dataclass
class _Tasks:
    """Of one operator: numbers of its runs; by EU its first task and how many, None if there is no
    such range.
    """

    runs: set[int] = field(default_factory=set)
    ranges: dict[int, tuple[int, int] | None] = field(default_factory=dict)

    @property
    def places(self) -> Places | None:
        """In the order of the tasks; None if some EU has no one range."""
        found = [(own[0], eu, own[1]) for eu, own in self.ranges.items() if own is not None]
        if len(found) < len(self.ranges):
            return None
        return tuple((eu, first, count) for first, eu, count in sorted(found))


def groups_of(
    lists: Sequence[ir.Operation],
    constants: Collection[str],
    operands: Mapping[str, Sequence[int]],
) -> list[Group]:
    """Groups of operators that read constants which other operators, or other iterations, read.

    lists: of EUs; constants: names of buffers; operands: by rKernel, those that count. Operators
    whose tasks on some EU are not neighbours, or are others than those of the rest of their group,
    are in none.
    """
    runs = [run for n, unit in enumerate(lists) for run in _runs(n, unit.regions[0].blocks[0], ())]

    def read(run: _Run) -> set[str]:
        return {run.buffers[k] for k in operands[run.kernel]}.intersection(constants)

    readers: dict[str, dict[str, int]] = {}  # of a constant, how often each operator is there
    for run in runs:
        for name in read(run):
            readers.setdefault(name, {})[run.operator] = prod(run.counts)
    several = {name for name, times in readers.items() if sum(times.values()) > 1}
    return list(_grouped(lists, [run for run in runs if read(run) & several], operands))


def _grouped(
    lists: Sequence[ir.Operation], runs: Sequence[_Run], operands: Mapping[str, Sequence[int]]
) -> Iterator[Group]:
    tasks: dict[str, _Tasks] = {}
    for number, run in enumerate(runs):
        first = moving_integer(run.op, "first")
        begin, end = (integer(lists[run.unit], name) for name in ("first", "last"))
        step, count, stride = (integer(run.op, name) for name in ("eu_step", "count", "stride"))
        for index in product(*map(range, run.counts)):
            own = tasks.setdefault(name_at(run.operator, index), _Tasks())
            own.runs.add(number)
            for eu in range(begin, end + 1):
                known = eu in own.ranges or (count > 1 and stride > 1)
                task = first(index) + (eu - begin) * step
                own.ranges[eu] = None if known else (task, count)
    joined = _joined(len(runs), [own.runs for own in tasks.values()])
    members: dict[int, list[str]] = {}
    for operator, own in tasks.items():
        members.setdefault(joined[min(own.runs)], []).append(operator)
    for root, operators in members.items():
        own_runs = [run for number, run in enumerate(runs) if joined[number] == root]
        places, *others = {tasks[operator].places for operator in operators}
        kinds = {(r.kernel, *(r.buffers[k] for k in operands[r.kernel])) for r in own_runs}
        if not others and len(kinds) == 1 and places is not None:
            [run, *_] = own_runs
            units = [(run.unit, run.op) for run in own_runs]
            yield Group(run.kernel, run.buffers, units, operators, places)


def _runs(unit: int, block: ir.Block, counts: tuple[int, ...]) -> Iterator[_Run]:
    """The runs of a block, each once."""
    for op in ops_of(block):
        if op.name == "vdevice.repeat":
            count = integer(op, "count")
            yield from _runs(unit, op.regions[0].blocks[0], (*counts, count))
        elif op.name == "vdevice.run":
            kernel, operator = symbol(op, "kernel"), string(op, "operator")
            yield _Run(unit, op, counts, kernel, operator, symbols(op, "buffers"))


def _joined(count: int, sets: Iterable[Collection[int]]) -> list[int]:
    """Of each number below `count`, the least one that sets join it with."""
    root = list(range(count))

    def find(number: int) -> int:
        while root[number] != number:
            root[number] = root[root[number]]
            number = root[number]
        return number

    for numbers in sets:
        roots = sorted(map(find, numbers))
        for other in roots:
            root[other] = roots[0]
    return [find(number) for number in range(count)]
