"""Where operators read and write: bytes of one space of addresses, all memories side by side."""

import numpy as np

from rcompiler.checker.facts import MOST, MOST_AT_ONCE, Facts, Ints, forbid, ramp, refuse, within
from rcompiler.checker.work import Work

_MOST_MEMORIES, _MOST_PINNED = 1 << 14, 1 << 32  # so that addresses stay exact in int64
_CONSTANTS, _INPUTS, _PINNED = 1, 2, -1  # bases; inputs and outputs follow one another


class Uses:
    """Operands of operators, and behind them pinned ones run by run: a box in the memory of an EU
    is a value that the other EUs never see.

    operator, access: (n,) of each use the operator, and which of `accesses`; low, high, value,
    writes, fixed: its bytes, what is there, and whether it is written there or never changes;
    place: of its first task, in one execution; run: -1 for all runs.
    """

    def __init__(self, facts: Facts, work: Work) -> None:
        each = [(a.bytes, a.task_bytes, a.pinned, a.result, a.disjoint) for a in work.accesses]
        size, box, own, writes, disjoint = np.array(each, np.int64).reshape(-1, 5).T[:, work.access]
        base, pinned = work.base, work.base == _PINNED
        forbid(own != pinned, "buffer", "an operand is pinned, and not for its kernel, or reverse")
        memory = np.array([facts.arena, facts.constants, *facts.inputs, *facts.outputs, MOST])
        starts = np.cumsum(memory) - memory
        within(base + 1, len(memory), "buffer", "an operand lies in no memory")
        within(work.offset, MOST, "buffer", "an operand lies in front of its memory")
        if (work.offset + size > memory[base]).any() or len(memory) > _MOST_MEMORIES:
            refuse("buffer", "an operand leaves its memory")
        self.outputs = starts[[_INPUTS + len(facts.inputs), -1]].tolist()
        fixed = (_CONSTANTS <= base) & (base < _INPUTS + len(facts.inputs))
        forbid(fixed & (writes > 0), "buffer", "an operator writes what is only read")
        # all uses of all runs, of which the pinned ones count
        sizes = work.uses[work.operator]
        use = np.repeat((np.cumsum(work.uses) - work.uses)[work.operator], sizes) + ramp(sizes)
        run = np.repeat(np.arange(len(sizes)), sizes)[pinned[use]]
        use = np.append(np.flatnonzero(~pinned), use[pinned[use]])
        self.run = np.append(np.full(len(use) - len(run), -1), run)
        self.operator, self.access = work.user[use], work.access[use]
        self.writes, self.disjoint, self.fixed = writes[use] > 0, disjoint[use] > 0, fixed[use]
        self.value, self.low = work.value[use], starts[base[use]] + work.offset[use]
        self.high = self.low + size[use]
        first = np.minimum.reduceat(work.place, work.begin) if len(work.begin) else work.begin
        self.place = first[self.operator]
        self._pin(facts, work, box[use])

    def _pin(self, facts: Facts, work: Work, size: Ints) -> None:
        """Lay the boxes of runs into the memory of their EUs, each as a value of its own."""
        own = self.run >= 0
        for number in np.unique(self.access[own]).tolist():
            forbid(not work.accesses[number].side_by_side, "buffer", "pinned boxes lie in pieces")
        run, size, low = self.run[own], size[own], self.low[own]
        first, count = work.first[run], work.count[run]
        dynamic = np.array([launch.dynamic for launch in facts.launches], bool)
        if (dynamic[work.order.program[run]] | ((count > 1) & (work.stride[run] != 1))).any():
            refuse("buffer", "which EU has a pinned box is not known")
        over = low - self.outputs[1] + count * size > facts.pinned
        if over.any() or facts.pinned > _MOST_PINNED:
            refuse("buffer", "a pinned box leaves the memory of its EU")
        ends = np.minimum((first + count) * size, self.high[own] - low)
        boxes = zip(*(x.tolist() for x in (self.value[own], first * size, ends)), strict=True)
        numbers: dict[tuple[int, ...], int] = {}
        self.value[own] = [MOST_AT_ONCE + numbers.setdefault(box, len(numbers)) for box in boxes]
        self.low[own] = low + work.thread[run] * facts.pinned
        self.high[own] = self.low[own] + count * size
        self.place[own] = work.place[work.begin[self.operator[own]] + first]
