"""The rules, one after the other: what must hold of a file that may run."""

from collections.abc import Sequence

import numpy as np

from rcompiler.checker.boxes import Access
from rcompiler.checker.facts import MOST, Facts, ramp, refuse, whole, wholes
from rcompiler.checker.memory import Uses, matches
from rcompiler.checker.order import Order
from rcompiler.checker.pinned import check_pinned
from rcompiler.checker.reuse import check_reuse
from rcompiler.checker.streams import RUN, Steps

_DEEPEST = 64  # views of views
_KINDS = ("temp", "constant", "input", "output", "pinned")
_TEMP, _CONSTANT, _INPUT, _OUTPUT = range(4)
_PINNED = -1  # base of operands in the memory of the EU


def check(facts: Facts) -> None:
    """Raises Refused for a file of which it is not certain that it may run."""
    Check(facts).all()


class Check:
    def __init__(self, facts: Facts) -> None:
        self.facts = facts

    def all(self) -> None:
        """Every rule."""
        self._kernels()
        self._buffers()
        self._constants()
        streams = [stream for launch in self.facts.launches for stream in launch.streams]
        self.steps = Steps(streams)
        self.order = Order(self.facts.launches, self.steps, self.facts.clocks)
        self._runs()
        self._tasks()
        self._operands()
        self._values()
        self._complete()
        self._reads()
        self._own_writes()
        check_reuse(self)
        check_pinned(self)

    def _kernels(self) -> None:
        """What the kernels touch is what the code was given."""
        self.accesses: list[list[Access]] = []
        self.reads: list[int] = []
        self.in_place: list[set[tuple[int, int]]] = []
        if len(self.facts.boxes) != len(self.facts.sizes):
            refuse("notes", "not every kernel has boxes")
        for (grid, reads, writes, pairs), (tasks, sizes, results, pinned) in zip(
            self.facts.boxes, self.facts.sizes, strict=True
        ):
            grid = [whole(size) for size in grid]
            own = [Access(grid, data) for data in (*reads, *writes)]
            asked = [a.task_bytes if n in pinned else a.bytes for n, a in enumerate(own)]
            product = int(np.prod(np.array(grid, object))) if grid else 1
            fits = (min(grid, default=1) >= 0, product == tasks, asked == list(sizes))
            if not all(fits) or len(writes) != results:
                refuse("notes", "a kernel has other tasks or operands than its code")
            if not all(access.covered() for access in own[len(reads) :]):
                refuse("task", "a kernel leaves a part of a result unwritten")
            self.accesses.append(own)
            self.reads.append(len(reads))
            same = {(whole(r), whole(w) + len(reads)) for r, w in pairs}
            if not all(0 <= r < len(reads) <= w < len(own) for r, w in same):
                refuse("notes", "a kernel works in place on operands that it does not have")
            self.in_place.append(same)

    def _buffers(self) -> None:
        """Buffers lie in their memories, and views in what they view."""
        facts = self.facts
        names, kinds, *numbers, parents, self.content = (
            list(column) for column in zip(*facts.buffers, strict=True)
        ) if facts.buffers else [[] for _ in range(7)]  # fmt: skip
        offset, self.size, index = (wholes(column) for column in numbers)
        place = {name: number for number, name in enumerate(names)}
        if len(place) != len(names) or not set(kinds) <= set(_KINDS):
            refuse("notes", "two buffers have one name, or one is of no kind")
        self.low, self.kind = offset, np.array([_KINDS.index(kind) for kind in kinds], np.int64)
        self.temp = self.kind == _TEMP
        inner = (self.kind != _INPUT) & (self.kind != _OUTPUT)
        index = np.where(inner, 0, index)
        begins = np.array([0, 1, 2, 2 + len(facts.inputs), _PINNED])
        self.base = begins[self.kind] + index
        have = np.array([facts.arena, facts.constants, *facts.inputs, *facts.outputs, MOST])
        count = np.array([1, 1, len(facts.inputs), len(facts.outputs), 1])[self.kind]
        if ((index < 0) | (index >= count) | (offset < 0) | (self.size < 0)).any():
            refuse("buffer", "a buffer is impossible")
        if (offset + self.size > have[self.base]).any():
            refuse("buffer", "a buffer leaves its memory")
        parents = [
            name if view is None else view for name, view in zip(names, parents, strict=True)
        ]
        above = np.array([place.get(parent, -1) for parent in parents], np.int64)
        if (above < 0).any():
            refuse("buffer", "a buffer views nothing that is there")
        ends = offset + self.size
        inside = (offset[above] <= offset) & (ends <= ends[above]) & (self.kind == self.kind[above])
        if not (inside & (self.base == self.base[above])).all():
            refuse("buffer", "a buffer does not lie in what it views")
        self.root = above
        for _ in names[:_DEEPEST]:
            self.root = above[self.root]
        if (above[self.root] != self.root).any():
            refuse("buffer", "buffers view one another")

    def _constants(self) -> None:
        """Different constants have different bytes."""
        some = (self.kind == _CONSTANT) & (self.root == np.arange(len(self.root))) & (self.size > 0)
        own = [(int(self.low[b]), int(self.low[b] + self.size[b]), self.content[b])
               for b in np.flatnonzero(some).tolist()]  # fmt: skip
        end, key = 0, None
        for low, high, content in sorted(own, key=lambda entry: entry[:2]):
            if low < end and not (content and content == key):
                refuse("buffer", f"two constants lie at byte {low}")
            if high > end:
                end, key = high, content

    def _runs(self) -> None:
        """The operators of the runs, each with one kernel and the same operands everywhere."""
        steps, launches = self.steps, self.facts.launches
        operands: dict[str, Sequence[int]] = {}
        for launch in launches:
            for name, own in launch.operands.items():
                if operands.setdefault(name, own) != own:
                    refuse("notes", f"operator '{name}' has other operands in other programs")
        self.names = {name: number for number, name in enumerate(operands)}
        self.operands = np.array([len(own) for own in operands.values()], np.int64)
        self.buffer = wholes([b for own in operands.values() for b in own])
        if ((self.buffer < 0) | (self.buffer >= len(self.root))).any():
            refuse("notes", "an operator has an operand that is no buffer")
        self.run = np.flatnonzero(steps.opcode == RUN)
        named = [names for launch in launches for names in launch.operators]
        streams = sum(len(launch.streams) for launch in launches)
        have = np.bincount(steps.thread[self.run], minlength=streams)
        if [len(names) for names in named] != have.tolist():
            refuse("notes", "the names of operators do not match the runs")
        numbers = [self.names.get(name, -1) for names in named for name in names]
        if min(numbers, default=0) < 0:
            refuse("notes", "an operator has no operands")
        self.operator = np.array(numbers, np.int64)
        kernel = steps.word(1, self.run)
        if ((kernel < 0) | (kernel >= len(self.accesses))).any():
            refuse("notes", "a run is of no kernel")
        self.kernel = np.full(len(self.names), -1)
        self.kernel[self.operator] = kernel
        if (self.kernel < 0).any():
            refuse("task", "an operator does not run")
        if (self.kernel[self.operator] != kernel).any():
            refuse("task", "runs of one operator are of different kernels")

    def _tasks(self) -> None:
        """Each task of an operator runs exactly once."""
        self.tasks = np.stack([self.steps.word(n, self.run) for n in (2, 3, 4)], axis=1)
        total = np.array([tasks for tasks, _, _, _ in self.facts.sizes], np.int64)
        most = total[self.kernel[self.operator]]
        first, count, stride = self.tasks.T
        last = first + (np.minimum(count, most + 1) - 1) * np.minimum(stride, most + 1)
        if ((first < 0) | (count < 1) | (stride < 1) | (first >= most) | (last >= most)).any():
            refuse("task", "a run is of tasks that are not there")
        # all tasks of all operators, one behind the other
        total = total[self.kernel]
        ran = ramp(count)
        ran = np.repeat(first, count) + ran * np.repeat(stride, count)
        ran += np.repeat((np.cumsum(total) - total)[self.operator], count)
        if len(ran) != total.sum() or (np.bincount(ran) != 1).any():
            refuse("task", "an operator does not run each of its tasks once")

    def _operands(self) -> None:
        """Runs are on the buffers that the notes name."""
        steps = self.steps
        sizes = self.operands
        words = np.stack([self.base[self.buffer], self.low[self.buffer]], axis=1).ravel()
        begin = 2 * (np.cumsum(sizes) - sizes)
        n = steps.word(5, self.run)
        if (n != sizes[self.operator]).any():
            refuse("buffer", "a run has other operands than its operator")
        have = np.repeat(steps.at[self.run] + 6, 2 * n) + ramp(2 * n)
        want = np.repeat(begin[self.operator], 2 * n) + ramp(2 * n)
        if (steps.words[have] != words[want]).any():
            refuse("buffer", "a run is not on the buffers that the notes name")

    def _values(self) -> None:
        """Uses, of the sizes that the kernels expect; what is written may be, and only once."""
        sizes = self.operands
        counts = np.array([len(own) for own in self.accesses], np.int64)
        if (sizes != counts[self.kernel]).any():
            refuse("buffer", "an operator has other operands than its kernel")
        operator, number = np.repeat(np.arange(len(sizes)), sizes), ramp(sizes)
        kernel, buffer = self.kernel[operator], self.buffer
        access = (np.cumsum(counts) - counts)[kernel] + number
        writes = number >= np.array(self.reads, np.int64)[kernel]
        flat = [access for own in self.accesses for access in own]
        if (wholes([a.bytes for a in flat])[access] != self.size[buffer]).any():
            refuse("buffer", "an operand has another size than its kernel expects")
        fixed = (self.kind[buffer] == _INPUT) | (self.kind[buffer] == _CONSTANT)
        if (writes & fixed).any():
            refuse("buffer", "an operator writes what is only read")
        low = self.low[buffer]
        columns = operator, kernel, number, access, self.root[buffer], low, low + self.size[buffer]
        self.uses = Uses(
            *(self.order, flat, (*columns, writes), (self.run, self.operator, self.tasks)),
            (list(self.names), [buffer[0] for buffer in self.facts.buffers]),
        )
        # all values one behind the other
        begin = np.cumsum(self.size) - self.size - self.low
        low, high = self.uses.low + begin[self.uses.root], self.uses.high + begin[self.uses.root]
        some = np.flatnonzero(writes & (low < high))
        some = some[np.argsort(low[some], kind="stable")]
        if (low[some[1:]] < high[some[:-1]]).any():
            refuse("task", "a byte is the result of two operators")
        values = self.uses.root[some]
        apart = (low[some[1:]] > high[some[:-1]]) | (values[1:] != values[:-1])
        begins, ends = np.append(True, apart), np.append(apart, True)
        first, last = some[begins[: len(some)]], some[ends[: len(some)]]
        reads = np.flatnonzero(~writes & ~fixed & (low < high))
        at = np.searchsorted(low[first], low[reads], side="right") - 1
        if (at < 0).any() or (high[reads] > high[last][at]).any():
            refuse("task", "an operator reads what no operator writes")
        # (value, first byte, end) of what is written, side by side
        self.spans = np.stack([self.uses.root[first], self.uses.low[first], self.uses.high[last]])

    def _complete(self) -> None:
        """Each byte of each output is written, for one value."""
        root, low, high = self.spans
        for index, size in enumerate(self.facts.outputs):
            own = (self.kind[root] == _OUTPUT) & (
                self.base[root] == 2 + len(self.facts.inputs) + index
            )
            sort = np.argsort(low[own])
            ends = np.append(0, high[own][sort])
            if not np.array_equal(ends, np.append(low[own][sort], size)):
                refuse("task", f"output {index} is not written once, all of it")

    def _reads(self) -> None:
        """What is read has been written."""
        uses = self.uses
        reads, writes = (np.flatnonzero(uses.writes == w) for w in (False, True))
        reads = reads[np.argsort(uses.root[reads], kind="stable")]
        one, two = matches(uses.root[reads], uses.root[writes])
        one, two = writes[one], reads[two]
        common = (uses.low[one] < uses.high[two]) & (uses.low[two] < uses.high[one])
        uses.check(one[common], two[common], "race")

    def _own_writes(self) -> None:
        """Runs of one operator write different bytes, or one after the other."""
        writes = np.flatnonzero(self.uses.writes)
        apart = np.array([access.disjoint for access in self.uses.accesses], bool)
        some = writes[~apart[self.uses.access[writes]]]
        self.uses.check(some, some, "race", either=True)
