"""Where operators read and write: bytes of one space of addresses, all memories side by side."""

import numpy as np

from rcompiler.checker.facts import MOST, MOST_AT_ONCE, Facts, Ints, forbid, within
from rcompiler.checker.work import Work

_MOST_MEMORIES, _MOST_PINNED = 1 << 14, 1 << 32  # so that addresses stay exact in int64
_CONSTANTS, _INPUTS, _PINNED = 1, 2, -1  # bases; inputs and outputs follow one another


def _updated(facts: Facts) -> Ints:
    """(n, 2) bases of the last and the next values of states that are updated in place."""
    pairs, last, new = facts.updates, [*facts.inputs], [*facts.outputs]
    right = all(0 <= i < len(last) and 0 <= j < len(new) and last[i] == new[j] for i, j in pairs)
    right &= all(len({*own}) == len(pairs) for own in zip(*pairs, strict=True))
    forbid(not right, "notes", "a state has not two values of one size")
    first = np.array([_INPUTS, _INPUTS + len(last)], np.int64)
    return np.array(pairs, np.int64).reshape(-1, 2) + first


class Uses:
    """Operands of operators, and behind them pinned ones run by run: what lies in the memory of an
    EU the others never see.

    operator, access: (n,) of each use the operator, and which of `accesses`; low, high, value,
    writes: its bytes, what is there, and whether it is written there; place: of its first task, in
    one execution; run: -1 for all runs. What never changes is no use: whoever comes reads it. What
    lies in the place of a state that is updated there has one more use each, the last ones: a write
    in front of all, of no operator (-1).
    """

    def __init__(self, facts: Facts, work: Work) -> None:
        self.work, self.names = work, facts.names
        each = [(a.bytes, a.task_bytes, a.pinned, a.result, a.disjoint) for a in work.accesses]
        size, box, own, writes, disjoint = np.array(each, np.int64).reshape(-1, 5).T[:, work.access]
        base, pinned = work.base, work.base == _PINNED
        forbid(own != pinned, "buffer", "an operand is pinned, and not for its kernel, or reverse")
        memory = np.array([facts.arena, facts.constants, *facts.inputs, *facts.outputs, MOST])
        starts = np.cumsum(memory) - memory
        updated = _updated(facts)
        starts[updated[:, 0]] = starts[updated[:, 1]]  # one place
        forbid(len(memory) > _MOST_MEMORIES, "buffer", "there are too many inputs and outputs")
        within(base + 1, len(memory), "buffer", "an operand lies in no memory")
        within(work.offset, MOST, "buffer", "an operand lies in front of its memory")
        forbid(work.offset + size > memory[base], "buffer", "an operand leaves its memory")
        self.outputs = starts[[_INPUTS + len(facts.inputs), -1]].tolist()
        fixed = (_CONSTANTS <= base) & (base < _INPUTS + len(facts.inputs))
        forbid(fixed & (writes > 0), "buffer", "an operator writes what is only read")
        fixed &= ~np.isin(base, updated[:, 0])
        low, own = starts[base] + work.offset, np.flatnonzero(fixed & (size > 0))
        for read, written in work.kernels.updates:
            apart = low[work.access == read] != low[work.access == written]
            forbid(apart, "buffer", "a part of a result is written, and the rest lies elsewhere")
        own = own[np.argsort(low[own])]
        last = np.maximum.accumulate((low + size)[own])[:-1]
        meets = (low[own[1:]] < last) & (np.diff(work.value[own]) != 0)
        forbid(meets, "buffer", "two constants lie on the same bytes")
        # all uses of all runs, of which the pinned ones count
        use, sizes = work.used, work.uses[work.operator]
        run = np.repeat(np.arange(len(sizes)), sizes)[pinned[use]]
        use = np.append(np.flatnonzero(~pinned & ~fixed), use[pinned[use]])
        self.run = np.append(np.full(len(use) - len(run), -1), run)
        self.operator, self.access = work.user[use], work.access[use]
        self.writes, self.disjoint = writes[use] > 0, disjoint[use] > 0
        self.value, self.low, self.high = work.value[use], low[use], low[use] + size[use]
        self.place = np.minimum.reduceat(work.place, work.begin)[self.operator]
        self._pin(facts, work, box[use])
        self._begin(updated[:, 0], base[use], starts, memory)

    def _begin(self, updated: Ints, base: Ints, starts: Ints, memory: Ints) -> None:
        """What lies in the place of states before the first run. base: of the uses."""
        new = self.value.max(initial=0) + 1 + np.arange(len(updated))  # values like no others
        for value, own in zip(new.tolist(), updated.tolist(), strict=True):
            self.value[base == own] = value
        none, yes = np.full(len(updated), -1), np.ones(len(updated), bool)
        self.operator, self.access = np.append(self.operator, none), np.append(self.access, none)
        self.place, self.run = np.append(self.place, none), np.append(self.run, none)
        self.writes, self.disjoint = np.append(self.writes, yes), np.append(self.disjoint, yes)
        self.value, self.low = np.append(self.value, new), np.append(self.low, starts[updated])
        self.high = np.append(self.high, starts[updated] + memory[updated])

    def _pin(self, facts: Facts, work: Work, size: Ints) -> None:
        """Lay the boxes of runs into the memory of their EUs, as values that are only there."""
        own = self.run >= 0
        pieces = not all(work.accesses[a].side_by_side for a in {*self.access[own].tolist()})
        forbid(pieces, "buffer", "the pinned boxes of a kernel do not lie side by side")
        run, size, low = self.run[own], size[own], self.low[own] - self.outputs[1]
        first, count = work.first[run], work.count[run]
        apart = facts.dynamic[work.order.program[run]] | ((count > 1) & (work.stride[run] != 1))
        forbid(apart, "buffer", "which EU has a pinned box is not known")
        room = np.minimum(facts.pinned, _MOST_PINNED - first * size)
        small = (facts.pinned <= _MOST_PINNED) & (low + count * size <= room)
        forbid(~small, "buffer", "a pinned box leaves the memory of its EU")
        # a byte of a value is known by where in the memory the first one of the value would be
        names = self.value[own] * 4 * _MOST_PINNED + low - first * size
        self.value[own] = MOST_AT_ONCE + np.unique(names, return_inverse=True)[1]
        bytes_left = self.high[own] - self.low[own] - first * size
        self.low[own] += work.thread[run] * facts.pinned
        self.high[own] = self.low[own] + np.minimum(count * size, bytes_left)
        self.place[own] = work.place[work.begin[self.operator[own]] + first]
