"""Buffer planner: bytes of temp values, re-used over the happens-before of the schedule.

Two values may share bytes only if all accesses of one come before all writes of the other in every
execution, or if an operator turns one into the other in place. Program order of the graph is not
enough: EUs run apart.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from rcompiler.rammer.graph import Graph, Operator
from rcompiler.rammer.layout import (
    Layout,
    aligned,
    constant_layout,
    external_layout,
    place_programs,
    plain_layout,
    temp_roots,
)
from rcompiler.rammer.order import happens_before
from rcompiler.rammer.placement import Placement, place_runs
from rcompiler.rammer.program import Program
from rcompiler.rammer.regions import Ints, disjoint
from rcompiler.rammer.reuse import Lives, lives


@dataclass(frozen=True)
class MemoryPlan:
    """Bytes of the temp arena.

    peak: of this plan; bound: live at some moment of one execution of the schedule, so no plan for
    it can be smaller; plain: without any re-use; in_place: operators that write over their operand;
    constants: bytes of the constant arena.
    """

    peak: int
    bound: int
    plain: int
    in_place: int
    constants: int


def plan_memory(
    graph: Graph, programs: Sequence[Program]
) -> tuple[tuple[Program, ...], MemoryPlan]:
    """The same programs with their temp values re-using bytes, aligned to 64.

    Raises ScheduleError if the programs do not run the graph's operators.
    """
    order = happens_before(programs)
    placement = place_runs(programs, graph, order)
    use = lives(placement, [r for r in temp_roots(graph) if r in placement.place])
    blocks, merged = _blocks(placement, use)
    packing = _Packing(graph, use, blocks)
    bound = _live_bound(placement, packing)
    offsets, peak = packing.best(bound)
    constant, constants = constant_layout(graph)
    offset = {name: offsets[packing.block[i]] for i, name in enumerate(use.names)}
    for root in temp_roots(graph):
        offset.setdefault(root, 0)  # no run touches it
        peak = max(peak, aligned(offset[root] + graph.value[root].bytes))
    layout = Layout({**external_layout(graph), **constant, **offset}, peak, constants)
    plain = plain_layout(graph).arena
    return place_programs(graph, layout, programs), MemoryPlan(
        peak, bound, plain, merged, constants
    )


def _blocks(placement: Placement, use: Lives) -> tuple[Ints, int]:
    """(n,) block of each value: values that in-place operators turn into each other share one."""
    index = {name: i for i, name in enumerate(use.names)}
    block = np.arange(len(use.names))
    taken: set[str] = set()  # operands already written over
    merged = 0
    for op in placement.graph.operators:
        kernel = placement.runs[op.name].kernel
        done: set[int] = set()
        for read, write in kernel.in_place:
            source, target = op.inputs[read], op.outputs[write]
            if source in taken or write in done or source not in index or target not in index:
                continue
            if _may_overwrite(placement, use, op, (read, write), (index[source], index[target])):
                block[block == block[index[target]]] = block[index[source]]
                taken.add(source)
                done.add(write)
                merged += 1
    return block, merged


def _may_overwrite(
    placement: Placement, use: Lives, op: Operator, pair: tuple[int, int], ids: tuple[int, int]
) -> bool:
    """Whether the operand dies in `op` and each rTask writes exactly the box it reads."""
    graph, kernel = placement.graph, placement.runs[op.name].kernel
    source, target = op.inputs[pair[0]], op.outputs[pair[1]]
    if len(graph.views[source]) > 1 or len(graph.views[target]) > 1:
        return False
    if op.inputs.count(source) > 1 or kernel.reads[pair[0]] != kernel.writes[pair[1]]:
        return False
    if not disjoint(kernel.grid, kernel.writes[pair[1]]):
        return False
    start = use.starts[ids[1]]
    others = [reader for reader, _ in graph.readers[source] if reader != op.name]
    return all((placement.order.ends(placement.runs[o].which) <= start).all() for o in others)


class _Packing:
    """Blocks with their sizes and conflicts, and ways to put them into one arena."""

    def __init__(self, graph: Graph, use: Lives, blocks: Ints) -> None:
        self.use = use
        names, self.block = np.unique(blocks, return_inverse=True)
        self.n = len(names)
        value = np.array([graph.value[name].bytes for name in use.names], np.int64)
        self.bytes = np.zeros(self.n, np.int64)
        np.maximum.at(self.bytes, self.block, value)
        self.size = -(-self.bytes // 64) * 64
        eus = use.ends.shape[1]
        self.ends = np.zeros((self.n, eus), np.int32)
        self.starts = np.full((self.n, eus), np.iinfo(np.int32).max, np.int32)
        self.last = np.zeros(self.n, np.int64)
        np.maximum.at(self.ends, self.block, use.ends)
        np.minimum.at(self.starts, self.block, use.starts)
        np.maximum.at(self.last, self.block, use.last)

    @cached_property
    def conflicts(self) -> list[Ints]:
        """For each block those that must not share bytes with it."""
        order = np.argsort(self.last, kind="stable")
        sorted_lives = Lives([""] * self.n, self.ends[order], self.starts[order], self.last[order])
        left: list[Ints] = []
        right: list[Ints] = []
        for i, settled in enumerate(sorted_lives.settled()):
            ends, starts = sorted_lives.ends[settled:i], sorted_lives.starts[settled:i]
            apart = (ends <= sorted_lives.starts[i]).all(axis=1)
            apart |= (sorted_lives.ends[i] <= starts).all(axis=1)
            hit = np.flatnonzero(~apart) + settled
            left.append(np.full(len(hit), i))
            right.append(hit)
        if not left:
            return []
        one, two = order[np.concatenate(left)], order[np.concatenate(right)]
        a, b = np.r_[one, two], np.r_[two, one]
        sort = np.argsort(a, kind="stable")
        return np.split(b[sort], np.cumsum(np.bincount(a, minlength=self.n))[:-1])

    def best(self, bound: int) -> tuple[list[int], int]:
        """Offsets of the blocks and the bytes in use: the best of some orders and fits."""
        first = self.starts.astype(np.int64).sum(axis=1)
        life = self.last - first
        orders = [
            np.lexsort((first, -self.size)),
            np.lexsort((-self.size, first)),
            np.lexsort((first, -(self.size * np.maximum(life - life.min(initial=0) + 1, 1)))),
        ]
        best: tuple[list[int], int] | None = None
        for order in orders:
            for choose in (_first_fit, _best_fit):
                found = self._pack(order.tolist(), choose)
                if best is None or found[1] < best[1]:
                    best = found
                if best[1] <= aligned(bound):
                    return best
        assert best is not None
        return best

    def _pack(self, order: list[int], choose: "Choose") -> tuple[list[int], int]:
        offset = np.full(self.n, -1, np.int64)
        peak = 0
        for i in order:
            others = self.conflicts[i]
            others = others[offset[others] >= 0]
            size = int(self.size[i])
            if not len(others) or not size:
                place = 0
            else:
                start = offset[others]
                sort = np.argsort(start, kind="stable")
                ends = np.r_[0, np.maximum.accumulate((start + self.size[others])[sort])]
                gaps = np.r_[start[sort], np.iinfo(np.int64).max] - ends
                fits = np.flatnonzero(gaps >= size)
                place = int(ends[choose(fits, gaps)])
            offset[i] = place
            peak = max(peak, place + size)
        return offset.tolist(), peak


Choose = Callable[[Ints, Ints], int]


def _first_fit(fits: Ints, gaps: Ints) -> int:
    return int(fits[0])


def _best_fit(fits: Ints, gaps: Ints) -> int:
    return int(fits[np.argmin(gaps[fits])])


def _live_bound(placement: Placement, packing: _Packing) -> int:
    """Most bytes live at once in the execution that `Order.turn` tells."""
    order = placement.order
    first = np.full(packing.n, len(order.runs), np.int64)
    turns: NDArray[np.int64] = np.array(
        [
            min(
                int(order.turn[placement.runs[op].which].min(initial=len(order.runs)))
                for op, _ in placement.graph.writers[name]
            )
            for name in packing.use.names
        ],
        np.int64,
    )
    np.minimum.at(first, packing.block, turns)
    change = np.zeros(len(order.runs) + 2, np.int64)
    np.add.at(change, first, packing.bytes)
    np.add.at(change, packing.last + 1, -packing.bytes)
    return int(np.cumsum(change).max(initial=0))
