"""The rules, one after the other: what must hold of a file that may run."""

from collections.abc import Sequence

import numpy as np

from rcompiler.checker.boxes import Access
from rcompiler.checker.facts import MOST, Facts, Ints, ramp, refuse, whole
from rcompiler.checker.memory import Uses, matches
from rcompiler.checker.order import Order
from rcompiler.checker.pinned import check_pinned
from rcompiler.checker.reuse import check_reuse
from rcompiler.checker.streams import RUN, Steps

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
        self.grids, self.reads, self.in_place = [], [], []
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
            self.grids.append(grid)
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
        if {type(x) for column in numbers for x in column} - {int}:
            refuse("notes", "a number of a buffer is none")
        offset, self.size, index = (_bounded(column) for column in numbers)
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
        views = [number for number, parent in enumerate(parents) if parent is not None]
        above = np.arange(len(names))
        try:
            above[views] = [place[parents[number]] for number in views]
        except (KeyError, TypeError):
            refuse("buffer", "a buffer views nothing that is there")
        ends = offset + self.size
        inside = (offset[above] <= offset) & (ends <= ends[above]) & (self.kind == self.kind[above])
        if not (inside & (self.base == self.base[above])).all():
            refuse("buffer", "a buffer does not lie in what it views")
        self.root = above
        while not (self.root[self.root] == self.root).all():
            before, self.root = self.root, self.root[self.root]
            if (self.root == before).all() or (above[self.root] == above).all():
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
        steps = self.steps
        self.names: dict[str, int] = {}
        self.operands: list[list[int]] = []
        numbers: list[int] = []
        thread = 0
        self.run = np.flatnonzero(steps.opcode == RUN)
        have = np.bincount(steps.thread[self.run], minlength=int(steps.thread.max(initial=0)) + 1)
        for launch in self.facts.launches:
            for name, buffers in launch.operands.items():
                number = self.names.setdefault(name, len(self.names))
                buffers = [whole(b) for b in buffers]
                if not all(0 <= b < len(self.root) for b in buffers):
                    refuse("notes", f"operator '{name}' has an operand that is no buffer")
                if number == len(self.operands):
                    self.operands.append(buffers)
                elif self.operands[number] != buffers:
                    refuse("notes", f"operator '{name}' has other operands in other programs")
            for names in launch.operators:
                if len(names) != (have[thread] if thread < len(have) else 0):
                    refuse("notes", "the names of operators do not match the runs")
                thread += 1
                for name in names:
                    if name not in launch.operands:
                        refuse("notes", f"operator '{name}' has no operands")
                    numbers.append(self.names[name])
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
        sort = np.lexsort((first, self.operator))
        operator, first, count = self.operator[sort], first[sort], count[sort]
        new = np.append(True, operator[1:] != operator[:-1])[: len(operator)]
        begins = np.where(new, 0, np.roll(first + count, 1))
        ends = np.append(new[1:], True)[: len(operator)]
        odd = (first != begins) | (ends & (first + count != most[sort])) | (
            (stride[sort] != 1) & (count > 1)
        )  # fmt: skip
        for number in np.unique(operator[odd]).tolist():
            mine = sort[operator == number]
            first, count, stride = self.tasks[mine].T
            all_tasks = int(total[self.kernel[number]])
            if int(count.sum()) != all_tasks:
                refuse("task", f"operator {number} does not run each of its tasks once")
            ran = np.repeat(first, count) + ramp(count) * np.repeat(stride, count)
            if (np.bincount(ran, minlength=all_tasks) != 1).any():
                refuse("task", f"operator {number} does not run each of its tasks once")

    def _operands(self) -> None:
        """Runs are on the buffers that the notes name."""
        steps = self.steps
        sizes = np.array([len(buffers) for buffers in self.operands], np.int64)
        self.buffer = np.array([b for own in self.operands for b in own], np.int64)
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
        sizes = np.array([len(buffers) for buffers in self.operands], np.int64)
        counts = np.array([len(own) for own in self.accesses], np.int64)
        if (sizes != counts[self.kernel]).any():
            refuse("buffer", "an operator has other operands than its kernel")
        operator, number = np.repeat(np.arange(len(sizes)), sizes), ramp(sizes)
        kernel, buffer = self.kernel[operator], self.buffer
        access = (np.cumsum(counts) - counts)[kernel] + number
        writes = number >= np.array(self.reads, np.int64)[kernel]
        flat = [access for own in self.accesses for access in own]
        if (_bounded([a.bytes for a in flat])[access] != self.size[buffer]).any():
            refuse("buffer", "an operand has another size than its kernel expects")
        fixed = (self.kind[buffer] == _INPUT) | (self.kind[buffer] == _CONSTANT)
        if (writes & fixed).any():
            refuse("buffer", "an operator writes what is only read")
        low = self.low[buffer]
        columns = operator, kernel, number, access, self.root[buffer], low, low + self.size[buffer]
        self.uses = Uses(
            *(self.order, flat, (*columns, writes), self.run, self.operator, self.tasks),
            (list(self.names), [buffer[0] for buffer in self.facts.buffers]),
        )
        # all values one behind the other
        begin = np.cumsum(self.size) - self.size - self.low
        low, high = self.uses.low + begin[self.uses.root], self.uses.high + begin[self.uses.root]
        some = np.flatnonzero(writes & (low < high))
        some = some[np.argsort(low[some], kind="stable")]
        if (low[some[1:]] < high[some[:-1]]).any():
            refuse("task", "a byte is the result of two operators")
        joins = (low[some[1:]] == high[some[:-1]]) & (
            self.uses.root[some[1:]] == self.uses.root[some[:-1]]
        )
        first, last = (
            some[np.append(True, ~joins)[: len(some)]],
            some[np.append(~joins, True)[: len(some)]],
        )
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


def _bounded(numbers: Sequence[int]) -> Ints:
    if max(numbers, default=0) > MOST or min(numbers, default=0) < -MOST:
        refuse("notes", "a number is too large")
    return np.array(numbers, np.int64)
