"""Which run of the streams executes which tasks of which operator, each of them once."""

import numpy as np

from rcompiler.checker.boxes import KernelOperands
from rcompiler.checker.facts import MOST_AT_ONCE, Bools, Facts, Ints, forbid, ramp, spans, within
from rcompiler.checker.order import Order
from rcompiler.checker.streams import Instructions


class Work:
    """operator: (runs,) of each run; kernel: (operators,) of each operator; first, count, stride:
    (runs,) its tasks. Tasks of all operators are numbered one behind the other: begin: (operators,)
    the first of each; run, place: (tasks,) the run of each task and its place in one execution.
    value, base, offset: (uses,) of each operand of each operator, `uses` of each; used: the ones of
    all runs, one behind the other.
    """

    def __init__(self, facts: Facts, steps: Instructions, order: Order) -> None:
        self.order, self.kernels = order, KernelOperands(facts)
        self.accesses = self.kernels.accesses
        self.thread = steps.thread[order.runs]
        self._name_runs(facts, steps, steps.begin[order.runs])
        self._number_tasks()

    def over(self, one: Ints, two: Ints) -> Bools:
        """Whether tasks are over, always, before others start."""
        a, b = self.run[one], self.run[two]
        return self.order.before(a, b) | ((a == b) & (self.place[one] < self.place[two]))

    def _name_runs(self, facts: Facts, steps: Instructions, begin: Ints) -> None:
        """Runs are of operators, with the kernels and on the operands that the notes name. begin:
        where their words are."""
        self.operator, self.uses, self.kernel = facts.runs, facts.uses, facts.kernels
        forbid(len(facts.runs) != len(begin), "notes", "the operators do not match the runs")
        within(self.operator, len(self.uses), "notes", "a run is of no operator")
        kernel, self.first, self.count, self.stride, sizes = steps.words[begin + np.c_[1:6]]
        counts = self.kernels.counts
        within(self.kernel, len(counts), "notes", "an operator is of no kernel")
        other = self.kernel[self.operator] != kernel
        forbid(other, "notes", "a run is not of the kernel that is noted")
        forbid(counts[self.kernel] != self.uses, "buffer", "an operator has other operands or more")
        self.value, self.base, self.offset = facts.operands.T.copy()
        within(self.value, MOST_AT_ONCE, "notes", "the values of operands are not numbered")
        self.user = np.repeat(np.arange(len(self.uses)), self.uses)
        self.access = spans((np.cumsum(counts) - counts)[self.kernel], self.uses)
        forbid(sizes != self.uses[self.operator], "buffer", "a run is not on the operands noted")
        pair = np.repeat(begin + 6, sizes) + 2 * ramp(sizes)
        self.used = spans((np.cumsum(self.uses) - self.uses)[self.operator], sizes)
        bases, offsets = steps.words[pair], steps.words[pair + 1]
        other = (bases != self.base[self.used]) | (offsets != self.offset[self.used])
        forbid(other, "buffer", "a run is not on the operands noted")

    def _number_tasks(self) -> None:
        """Each task of an operator runs exactly once."""
        total = self.kernels.tasks[self.kernel]
        first, count, stride, most = self.first, self.count, self.stride, total[self.operator]
        step = np.where(count > 1, stride, 1)
        wrong = (first < 0) | (np.minimum(count, stride) < 1) | (np.maximum(count, step) > most)
        wrong |= first + (count - 1) * step >= most
        forbid(wrong, "task", "a run is of tasks that are not there")
        self.begin = np.cumsum(total) - total
        number, run = ramp(count), np.repeat(np.arange(len(count)), count)
        task = self.begin[self.operator[run]] + first[run] + number * step[run]
        times = np.bincount(task, minlength=total.sum())
        forbid(times != 1, "task", "an operator does not run each of its tasks once")
        self.run, self.place = np.empty_like(task), np.empty_like(task)
        self.run[task] = run
        turns = [column[run] for column in (self.order.place, self.order.turn, self.order.program)]
        self.place[task[np.lexsort((number, *turns))]] = np.arange(len(task))
