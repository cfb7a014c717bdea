"""Estimated times: what the policies compare and the simulator adds up. All in nanoseconds.

The prices of launch, barrier, hand-off and of one more run are those of the device record.
"""

import numpy as np
from numpy.typing import NDArray

from rcompiler.device.model import Costs
from rcompiler.rammer.kernel import Kernel

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

SHORTEST_NS = 1e-3  # of an rTask: an estimate of zero must not put all tasks on one EU


def task_ns(kernel: Kernel) -> float:
    """Time of one rTask of the mean size on one EU."""
    return max(kernel.estimated_ns, SHORTEST_NS)


def size_of(kernel: Kernel, first: int, count: int, stride: int = 1) -> float:
    """How many rTasks of the mean size are as much work as these."""
    progress = kernel.progress
    if progress is None:
        return count
    if stride == 1:
        return float(progress[first + count] - progress[first])
    which = first + stride * np.arange(count)
    return float((progress[which + 1] - progress[which]).sum())


def run_ns(kernel: Kernel, size: float, costs: Costs) -> float:
    """Time of a run of so many rTasks of the mean size."""
    return costs.task_ns + size * task_ns(kernel)


def balanced(kernel: Kernel, counts: Ints) -> Ints:
    """Ranges of rTasks, in task order, of as much work as so many of the mean size are.

    counts: (n,) rTasks in each range. Returns the like, each end at the rTask nearest to it.
    """
    if kernel.progress is None:
        return counts
    want = np.cumsum(counts)
    after = np.searchsorted(kernel.progress, want * (1 - 1e-12))
    before = np.maximum(after - 1, 0)
    nearer = want - kernel.progress[before] < kernel.progress[after] - want
    return np.diff(np.where(nearer, before, after), prepend=0)


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


def alone_ns(kernel: Kernel, eus: int) -> float:
    """Time of an operator that has the device for itself, without its launch."""
    if kernel.progress is None:
        return -(-kernel.tasks // eus) * task_ns(kernel)
    even = earliest_finish(kernel.tasks, task_ns(kernel), np.zeros(eus))
    ends = (np.cumsum(counts) for counts in (even, balanced(kernel, even)))
    longest = min(np.diff(kernel.progress[end], prepend=0).max() for end in ends)
    return float(longest) * task_ns(kernel)
