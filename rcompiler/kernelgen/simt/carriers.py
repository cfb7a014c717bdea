"""What brings an operand of a product to shared memory, part by part.

A thread computes elements in its registers, and stores them a part later; or it starts copies of
elements that lie in memory as they are, and goes on while they are made (cp.async).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product

from rcompiler.kernelgen.simt.emitter import SHARED, SimtEmitter
from rcompiler.kernelgen.simt.evaluator import SimtEvaluator
from rcompiler.kernelgen.simt.operand import Operand
from rcompiler.kernelgen.simt.source import Place, Reading
from rcompiler.kernelgen.value import Val
from rcompiler.linalg.affine import Linear

# A fetched element as it is stored.
Stored = Callable[[Val], Val]


@dataclass(frozen=True)
class _Run:
    """Neighbours that a thread moves: step and position of the first one where it is stored, and
    where it is read; active: an i1 whether the thread has this run, None: it has; valid: whether
    these are steps of the reduction.
    """

    step: Linear
    position: Linear
    read_step: Linear
    read_position: Linear
    active: str | None
    valid: str | None


class Carrier:
    """Shares out the elements of an operand to the threads."""

    def __init__(
        self, evaluator: SimtEvaluator, emitter: SimtEmitter, reading: Reading, operand: Operand
    ) -> None:
        self.operand = operand
        self._evaluator, self._e, self._reading = evaluator, emitter, reading

    def pointer(self) -> str:
        """To the first buffer."""
        e = self._e
        return e.pointer(e.behind(e.workspace, SHARED, "i8", self.operand.offset), SHARED)

    def start(self, part: Linear) -> Linear:
        """Elements in front of the buffer of a part."""
        e, slots = self._e, self.operand.slots
        if part.is_constant:
            return Linear(part.constant % slots * self.operand.size)
        slot = e.rem_unsigned(part, slots)
        e.ranges[slot.name] = slots
        return slot.symbol * self.operand.size

    def _runs(self, steps: int, valid: int) -> Iterator[_Run]:
        """What this thread moves of a part of `steps` steps, of which the first `valid` are steps
        of the reduction. What there is not is read where the last one is that there is.
        """
        e, operand = self._e, self.operand
        count, by_steps = operand.width, operand.by_steps
        grid, (along, lines) = operand.grid(e.block), operand.runs(steps)
        own_line, own_run = self._evaluator.split(Linear.of(e.thread), grid.along)
        places, rows = (range(n) for n in grid.rounds(along, lines))
        # what is found of a step is used up before the next one
        order = ((r, p) for p in places for r in rows) if by_steps else product(rows, places)
        for row, place in order:
            line, there = e.at_most(own_line + row * grid.lines, lines, (row + 1) * grid.lines)
            run, inside = e.at_most(own_run + place * grid.along, along, (place + 1) * grid.along)
            active = e.all_of([there, inside])
            if by_steps:
                read, valid_run = e.at_most(run, valid // count, along)
                position, _ = e.at_most(line, operand.positions, operand.filled)
                yield _Run(run * count, line, read * count, position, active, valid_run)
            else:
                read, valid_run = e.at_most(line, valid, steps)
                position, _ = e.at_most(run, operand.positions // count, along)
                yield _Run(line, run * count, read, position * count, active, valid_run)

    def moved(self, steps: int) -> int:
        """Runs of a part that a thread moves, those that hang over included."""
        return self.operand.moved(self._e.block, steps)

    def _source(self, run: _Run, before: Linear) -> tuple[Place, str | None]:
        """Where the elements of a run lie, and an i1 whether they are there, None: they are;
        before: steps in front of the part.
        """
        operand, evaluator = self.operand, self._evaluator
        lanes = evaluator.run_of(operand.width)
        step, position = before + run.read_step, run.read_position
        if operand.by_steps:
            step = step + lanes
        else:
            position = position + lanes
        source = evaluator.place(self._reading, operand, step, position)
        assert source.is_run(operand.width)
        there = evaluator.is_there(source)
        if there is False:
            return source, self._e.constant(False, "i1").name
        return source, None if there is True else there


class RegisterCarrier(Carrier):
    """By way of registers, whatever it is computed from."""

    def __init__(
        self,
        evaluator: SimtEvaluator,
        emitter: SimtEmitter,
        reading: Reading,
        operand: Operand,
        stored: Stored,
    ) -> None:
        super().__init__(evaluator, emitter, reading, operand)
        self._stored = stored

    def fetch(self, part: Linear, steps: int, valid: int) -> list[Val]:
        """The elements of a part that this thread moves, those of a run as one; those of steps from
        `valid` on are 0.
        """
        e, before, values = self._e, part * self.operand.steps, []
        for run in self._runs(steps, valid):
            value = self._several(run, before) if self.operand.width > 1 else self._one(run, before)
            if run.valid is not None:
                value = e.select(run.valid, value, 0)
            values.append(value)
        return values

    def _one(self, run: _Run, before: Linear) -> Val:
        """An element, whatever it is computed from."""
        evaluator, step = self._evaluator, before + run.read_step
        loops = self._reading.loops(self.operand, step, run.read_position, evaluator.split)
        root = self._reading.form.root
        return self._stored(evaluator.operand(root, self.operand.number, loops, 0))

    def _several(self, run: _Run, before: Linear) -> Val:
        """Neighbours that lie in memory."""
        e, count = self._e, self.operand.width
        source, there = self._source(run, before)

        def load() -> list[Val]:
            buffer, first = source.buffer, source.offset.first
            return [e.load(buffer.pointer, buffer.element, first, count, readonly=buffer.readonly)]

        def nothing() -> list[Val]:
            return [e.constant(0, source.buffer.element, count)]

        [value] = load() if there is None else e.branch(there, load, nothing)
        return e.gather_lanes([self._stored(e.lane(value, k)) for k in range(count)])

    def keep(self, fetched: Sequence[Val], part: Linear, steps: int) -> None:
        """Store the fetched elements of a part to its buffer."""
        e, pointer, start = self._e, self.pointer(), self.start(part)
        for value, run in zip(fetched, self._runs(steps, steps), strict=True):
            e.only(run.active, partial(self._store, value, run, pointer, start))

    def _store(self, value: Val, run: _Run, pointer: str, start: Linear) -> None:
        e, operand = self._e, self.operand
        if not operand.turned or not value.lanes:
            e.store(value, pointer, start + operand.place(run.step, run.position))
            return
        for k in range(value.lanes):
            step, position = run.step + k * operand.by_steps, run.position + k * operand.step_lines
            e.store(e.lane(value, k), pointer, start + operand.place(step, position))


class AsynchronousCarrier(Carrier):
    """By copies that go on by themselves."""

    def copy(self, part: Linear, steps: int, valid: int) -> None:
        """Start the copies of a part that this thread makes; steps from `valid` on are 0."""
        e, operand, before = self._e, self.operand, part * self.operand.steps
        pointer, start = self.pointer(), self.start(part)
        for run in self._runs(steps, valid):
            place = start + operand.place(run.step, run.position)
            e.only(run.active, partial(self._copy, run, before, pointer, place))

    def _copy(self, run: _Run, before: Linear, pointer: str, place: Linear) -> None:
        e, operand = self._e, self.operand
        source, there = self._source(run, before)
        e.copy(
            e.address(pointer, operand.element, place),
            e.address(source.buffer.pointer, operand.element, source.offset.first),
            operand.width * operand.item,
            e.all_of([run.valid, there]),
        )
