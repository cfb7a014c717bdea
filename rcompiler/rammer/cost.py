"""Estimated times: what the policies compare and the simulator adds up. All in nanoseconds.

The prices of launch, barrier, hand-off and of one more run are those of the device record.
"""

import numpy as np
from numpy.typing import NDArray

from rcompiler.device.model import Costs
from rcompiler.rammer.graph import Kernel

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

SHORTEST_NS = 1e-3  # of an rTask: an estimate of zero must not put all tasks on one EU


def task_ns(kernel: Kernel) -> float:
    """Time of one rTask on one EU."""
    return max(kernel.estimated_ns, SHORTEST_NS)


def run_ns(kernel: Kernel, count: int, costs: Costs) -> float:
    """Time of a run of `count` rTasks."""
    return costs.task_ns + count * task_ns(kernel)


def alone_ns(kernel: Kernel, eus: int) -> float:
    """Time of an operator that has the device for itself, without its launch."""
    return -(-kernel.tasks // eus) * task_ns(kernel)


def earliest_finish(tasks: int, each: float, start: Floats) -> Ints:
    """Give equal rTasks one by one to the EU that finishes them first; ties to the lower EU.

    start: (eus,) when each EU could begin. Returns (eus,) how many each gets. Closed form: the
    time T at which the EUs together have done all but a fraction of a task per EU, then the rest
    by next finish.
    """
    order = np.sort(start)
    # With the k earliest EUs: T = (tasks * each + sum of starts) / k; right where it is least.
    level = ((tasks * each + np.cumsum(order)) / np.arange(1, len(order) + 1)).min()
    counts = np.floor(np.maximum(level - start, 0.0) / each * (1 - 1e-12)).astype(np.int64)
    rest = tasks - int(counts.sum())
    if rest > 0:
        following = start + (counts + 1) * each
        first = np.argsort(following, kind="stable")[:rest]
        counts[first] += 1
        if rest > len(start):  # only by rounding of huge counts
            counts[first[0]] += rest - len(start)
    elif rest < 0:
        counts[int(np.argmax(counts))] += rest
    return counts
