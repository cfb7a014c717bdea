"""A dynamic program in the making: shares that are taken by whoever is free.

Nothing is known of the EU that will take a share, so all that it needs and no other wait settles is
waited for. Which EU takes it is estimated, as the simulator does, to tell how long the program is.
"""

import heapq
from math import ceil

import numpy as np

from rcompiler.device.model import Costs
from rcompiler.rammer.cost import Floats, Ints, run_ns, size_of, task_ns
from rcompiler.rammer.graph import Graph, Operator
from rcompiler.rammer.kernel import Kernel
from rcompiler.rammer.overlap import Bools
from rcompiler.rammer.policy.dependences import Dependences
from rcompiler.rammer.policy.draft import Draft, OperatorShares, unsettled


def sizes(tasks: int, each: float, eus: int, costs: Costs) -> list[int]:
    """How many of an operator's equal rTasks each of its shares has, by factoring (Hummel et al.,
    CACM 1992): the EUs share half of what is left, then half of the rest, and so on.

    each: ns of an rTask. EUs that become free at any time end a round about half a share apart. One
    more round of halves brings that down by a quarter of a share and costs every EU the start of a
    share, so shares are no smaller than twice that price.
    """
    if eus == 1:
        return [tasks]
    least = max(1, ceil(2 * (costs.task_ns + costs.hand_off_ns) / each))
    found: list[int] = []
    rest = tasks
    while rest:
        size = max(least, ceil(rest / (2 * eus)))
        for _ in range(min(eus, ceil(rest / size))):
            found.append(min(size, rest))
            rest -= found[-1]
    if len(found) > 1 and found[-1] < least:
        found[-2:] = [found[-2] + found[-1]]
    return found


class TakenDraft(Draft):
    """A draft without program order.

    The clocks of shares count lines: shares of which each is over before the next one begins, by
    its waits. length: (lines,) shares of each. known: nothing, of any EU.
    """

    dynamic = True

    @classmethod
    def empty(cls, graph: Graph, eus: int, costs: Costs, links: Dependences) -> "TakenDraft":
        """No operators yet, on idle EUs."""
        known = np.zeros((0, 0), np.int32)
        return cls(graph, costs, links, np.zeros(eus), known, np.zeros(0, np.int64))

    def add(self, op: Operator, kernel: Kernel) -> None:
        """Append all rTasks of an operator, to be taken in this order."""
        if not kernel.tasks:
            return
        count = np.array(sizes(kernel.tasks, task_ns(kernel), len(self.free), self.costs))
        first = np.cumsum(count) - count
        needs = []
        for name in self.graph.predecessors[op.name]:
            if name in self.shares:
                source = self.shares[name]
                split = (source.kernel, source.first, source.count)
                needs.append((name, self.links.needs(name, split, op.name, (kernel, first, count))))
        eu, finish = self._take(kernel, count, self._arrivals(needs, len(count)))
        known = np.zeros((len(count), len(self.length)), np.int32)
        kept = unsettled(self.shares, needs, known)
        line, place = self._lines(known)
        clock = np.zeros((len(count), len(self.length)), np.int32)
        clock[:, : known.shape[1]] = known
        clock[np.arange(len(count)), line] = place + 1
        self.shares[op.name] = OperatorShares(
            number=len(self.shares),
            kernel=kernel,
            eu=eu,
            first=first,
            count=count,
            line=line,
            place=place,
            finish=finish,
            clock=clock,
            needs=tuple(kept),
        )

    def _arrivals(self, needs: list[tuple[str, Bools]], shares: int) -> Floats:
        """(shares, eus): when each EU could begin a share, by its needs."""
        done = np.zeros((shares, len(self.free)))  # of what each EU made itself
        for name, need in needs:
            source = self.shares[name]
            order = np.argsort(source.eu, kind="stable")
            eu = source.eu[order]
            starts = np.flatnonzero(np.r_[True, eu[1:] != eu[:-1]])
            finish = np.where(need[:, order], source.finish[order], 0.0)
            last = np.maximum.reduceat(finish, starts, axis=1)
            done[:, eu[starts]] = np.maximum(done[:, eu[starts]], last)
        rows, late = np.arange(shares), done.argmax(axis=1)
        others = np.repeat(done.max(axis=1)[:, None], done.shape[1], axis=1)
        rest = done.copy()
        rest[rows, late] = 0.0
        others[rows, late] = rest.max(axis=1)
        return np.maximum(done, np.where(others > 0, others + self.costs.hand_off_ns, 0.0))

    def _take(self, kernel: Kernel, count: Ints, arrives: Floats) -> tuple[Ints, Floats]:
        """The EU that is free first takes the next share: which one, and when it is done."""
        before = int(next(reversed(self.shares.values())).eu[-1]) if self.shares else -1
        free = [(time, eu) for eu, time in enumerate(self.free.tolist())]
        heapq.heapify(free)
        taken: list[tuple[int, float]] = []
        first = 0
        for number, tasks in enumerate(count.tolist()):
            time, eu = free[0]
            if before not in (-1, eu):
                time += self.costs.hand_off_ns
            before = eu
            start = max(time, float(arrives[number, eu]))
            size = size_of(kernel, first, tasks)
            first += tasks
            taken.append((eu, start + run_ns(kernel, size, self.costs)))
            heapq.heapreplace(free, (taken[-1][1], eu))
        self.free = np.array([time for time, _ in sorted(free, key=lambda one: one[1])])
        return np.array([eu for eu, _ in taken]), np.array([end for _, end in taken])

    def _lines(self, known: np.ndarray) -> tuple[Ints, Ints]:
        """(n,) line of each share, and its place there: behind one that is over by then."""
        over = known >= self.length
        line = np.zeros(len(known), np.int64)
        fresh = 0
        for row, ended in enumerate(over):
            ends = np.flatnonzero(ended)
            if len(ends):
                line[row] = ends[0]
                over[:, ends[0]] = False
            else:
                line[row] = len(self.length) + fresh
                fresh += 1
        self.length = np.append(self.length, np.zeros(fresh, np.int64))
        place = self.length[line]
        self.length[line] += 1
        return line, place
