"""Buffer planner: bytes of temp values, re-used over the happens-before of the schedule.

Two values may share bytes only if all accesses of one come before all writes of the other in every
execution, or if an operator turns one into the other in place. Program order of the graph is not
enough: EUs run apart.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

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
from rcompiler.rammer.live_bytes import live_bytes, live_values
from rcompiler.rammer.order import happens_before
from rcompiler.rammer.packing import Packing
from rcompiler.rammer.placement import Placement, place_runs
from rcompiler.rammer.program import Program
from rcompiler.rammer.regions import Ints, disjoint
from rcompiler.rammer.regular import Regular
from rcompiler.rammer.reuse import LiveRanges, live_ranges


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


Planned = tuple[tuple[Program, ...], MemoryPlan]


def plan_memory(graph: Graph, programs: Sequence[Program]) -> Planned:
    """The same programs with their temp values re-using bytes, aligned to 64.

    Raises ScheduleError if the programs do not run the graph's operators.
    """
    planned = plan_within(graph, programs, math.inf)
    assert planned is not None
    return planned


def plan_within(graph: Graph, programs: Sequence[Program], most: float) -> Planned | None:
    """The same; None if the values in use at once take more than `most` bytes, which is known
    before a plan is made. A plan that is made may take more.
    """
    order = happens_before(programs)
    placement = place_runs(programs, graph, order)
    use = live_ranges(placement, [r for r in temp_roots(graph) if r in placement.place])
    blocks, merged = _blocks(placement, use)
    packing = Packing(placement, use, blocks)
    bound = live_values(placement, packing)
    if bound > most:
        return None
    block = dict(zip(use.names, packing.block.tolist(), strict=True))
    regular = Regular(graph, programs, packing, block)
    if regular.has_loops:  # of which other plans follow, which may take a little more
        offsets, peak = regular.best(packing.first(bound))
    else:
        offsets, peak = packing.best(bound)
    constant, constants = constant_layout(graph)
    offset = {name: offsets[number] for name, number in block.items()}
    for root in temp_roots(graph):
        offset.setdefault(root, 0)  # no run touches it
        peak = max(peak, aligned(offset[root] + graph.value[root].bytes))
    layout = Layout({**external_layout(graph), **constant, **offset}, peak, constants)
    if peak < bound:  # values share bytes part by part
        bound = live_bytes(placement, packing)
    plain = plain_layout(graph).arena
    return place_programs(graph, layout, programs), MemoryPlan(
        peak, bound, plain, merged, constants
    )


def _blocks(placement: Placement, use: LiveRanges) -> tuple[Ints, int]:
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
    placement: Placement, use: LiveRanges, op: Operator, pair: tuple[int, int], ids: tuple[int, int]
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
    others = [placement.row[reader] for reader, _ in graph.readers[source] if reader != op.name]
    return bool((placement.times.ends[others] <= use.starts[ids[1]]).all())
