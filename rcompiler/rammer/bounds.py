"""What no schedule of the same rKernels is shorter than."""

from collections.abc import Mapping

import numpy as np

from rcompiler.rammer.graph import Graph, waves
from rcompiler.rammer.kernel import Kernel
from rcompiler.rammer.regions import task_boxes


def longest_path(graph: Graph, each: Mapping[str, float], chosen: Mapping[str, Kernel]) -> float:
    """ns of the longest chain of rTasks that wait for one another, the shortest of each operator.

    each: ns of the mean rTask of an operator; chosen: its rKernel. Operators without one run none.
    """
    ends: dict[str, float] = {}
    waits = _Waits(graph, chosen)
    for op in (op for wave in waves(graph) for op in wave):
        own = each[op.name] * _shortest(chosen[op.name]) if op.name in chosen else 0.0
        ends[op.name] = own + max((ends[before] for before in waits.of(op.name)), default=0.0)
    return max(ends.values(), default=0.0)


def _shortest(kernel: Kernel) -> float:
    """The shortest rTask of a kernel, relative to the mean of all."""
    return 1.0 if kernel.progress is None else float(np.diff(kernel.progress).min())


class _Waits:
    """Which operators each operator waits for in every one of its rTasks: of one whose rTasks read
    parts of an operand (a concatenation), some may start at once.
    """

    def __init__(self, graph: Graph, chosen: Mapping[str, Kernel]) -> None:
        self._graph, self._chosen = graph, chosen
        self._known: dict[tuple[str, int], tuple[bool, bool]] = {}  # by kernel and operand

    def of(self, name: str) -> list[str]:
        """The operators, in graph order; none for one that runs no rTask."""
        graph, kernel = self._graph, self._chosen.get(name)
        if kernel is None:
            return []
        found: set[str] = set()
        for number, operand in enumerate(graph.operator[name].inputs):
            writers = graph.writers.get(graph.root(operand)[0], ())
            some, all_of_it = self._reads(kernel, number)
            if all_of_it or (some and all(op == writers[0][0] for op, _ in writers)):
                found.update(op for op, _ in graph.writers_of(operand))
        return [before for before in graph.predecessors[name] if before in found]

    def _reads(self, kernel: Kernel, number: int) -> tuple[bool, bool]:
        """Whether every rTask reads something of an operand; whether it reads all of it."""
        key = kernel.name, number
        if key not in self._known:
            access = kernel.reads[number]
            boxes = task_boxes(kernel.grid, access)
            low, high = boxes[:, :, 0], boxes[:, :, 1]
            whole = (low <= 0).all() and (high >= np.array(access.shape, np.int64)).all()
            self._known[key] = bool((low < high).all()), bool(whole)
        return self._known[key]
