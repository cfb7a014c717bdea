"""Recurrences: one step as a function of its own, and a loop over time that calls it.

    %r:3 = scf.for %t = %c0 to %c100 step %c1 iter_args(%h = %h0, %c = %c0, %y = %y0) -> (...) {
      %x = tensor.extract_slice %xs[%t, 0, 0] [1, 1, 256] [1, 1, 1] : ...
      %s:2 = func.call @lstm_step1(%x, %h, %c) : ...
      %o = tensor.insert_slice %s#0 into %y[%t, 0, 0, 0] [1, 1, 1, 256] [1, 1, 1, 1] : ...
      scf.yield %s#0, %s#1, %o : ...
    }

So all that is done with S1 is done with one step, however many there are. Nothing else stands in
such a loop. The function has its own copies of the constants that it uses; what else it reads, its
arguments bring.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from .contraction import ContractionOps
from .core import NAME, Record, Scope
from .value import Value

StepBody = Callable[[Sequence[Value], Sequence[Value]], Sequence[Value]]


@dataclass(frozen=True)
class Collected:
    """Where a loop puts what a step has made, a value of the shape ``into.shape[2:]``.

    result: the number of that value among the results of the step. into: a tensor of steps; column:
    the position along its second axis.
    """

    result: int
    into: Value
    column: int = 0


@dataclass(frozen=True)
class Step:
    """The function of one step.

    rows, before: its first parameters, see `RecurrenceOps.step`; those that bring tensors of @main
    follow. results: what it hands on, and what else it makes.
    """

    symbol: str
    rows: Sequence[Value]
    before: Sequence[Value]
    results: Sequence[Value]
    scope: Scope

    @property
    def arguments(self) -> list[Value]:
        return [*self.rows, *self.before, *(own for _, own in self.scope.brought.values())]


class RecurrenceOps(ContractionOps):
    """The part of Builder that repeats a step."""

    def __init__(self) -> None:
        super().__init__()
        self.steps: dict[str, Step] = {}

    def step(self, scanned: Sequence[Value], inits: Sequence[Value], body: StepBody) -> Step:
        """One step as a function.

        Args:
            scanned: tensors of all steps; a step gets one row, with a first axis of 1.
            inits: what the first step is handed on.
            body: makes, of the rows and of what the step before has handed on, what the step hands
                on, values of the types of ``inits``, and what else is to be collected of it.
        """
        assert not self.in_step
        rows = [self._parameter("x", k, (1, *v.shape[1:]), v.dtype) for k, v in enumerate(scanned)]
        before = [self._parameter("h", k, v.shape, v.dtype) for k, v in enumerate(inits)]
        scope = Scope(names={v.name for v in (*rows, *before)})
        with self._written_to(scope):
            results = body(rows, before)
            for value in results:
                self.ref(value)  # what the step does not compute itself is brought
        return Step(self._fresh(f"{self.hint}_step")[1:], rows, before, results, scope)

    def repeat(
        self,
        step: Step,
        scanned: Sequence[Value],
        inits: Sequence[Value],
        collected: Sequence[Collected],
        backward: bool = False,
        steps: int = 0,
    ) -> tuple[list[Value], list[Value]]:
        """The step for each position along the first axis of tensors, in order, or backward; where
        none are scanned, so many ``steps``.

        Returns:
            What the last step hands on, and the tensors of ``collected``.
        """
        self.steps[step.symbol] = step
        steps = scanned[0].shape[0] if scanned else steps
        first, end, one = (self._index(n) for n in (0, steps, 1))
        at, lines = "%_t", list[str]()
        if backward:
            at = "%_at"
            lines.append(f"{at} = arith.subi {self._index(steps - 1)}, %_t : index")
        rows = [self.local(f"%_x{k}", v.shape, v.dtype) for k, v in enumerate(step.rows)]
        for value, row in zip(scanned, rows, strict=True):
            box = _box(at, [0] * (value.rank - 1), row.shape)
            lines.append(
                f"{row.name} = tensor.extract_slice {self.ref(value)}{box} : {value.type} to "
                f"{row.type}"
            )
        before = [self.local(f"%_h{k}", v.shape, v.dtype) for k, v in enumerate(inits)]
        operands = [*rows, *before, *(value for value, _ in step.scope.brought.values())]
        made, types = step.results, ", ".join(v.type for v in operands)
        names = _results("%_s", len(made))
        lines.append(
            f"%_s{_count(made)} = func.call @{step.symbol}"
            f"({', '.join(self.ref(v) for v in operands)}) "
            f": ({types}) -> ({', '.join(v.type for v in made)})"
        )
        after = names[: len(inits)]
        kept = [self.local(f"%_y{k}", c.into.shape, c.into.dtype) for k, c in enumerate(collected)]
        for k, each in enumerate(collected):
            into = each.into
            box = _box(at, [each.column, *[0] * (into.rank - 2)], (1, 1, *into.shape[2:]))
            lines.append(
                f"%_o{k} = tensor.insert_slice {names[each.result]} into {kept[k].name}{box} : "
                f"{made[each.result].type} into {into.type}"
            )
            after.append(f"%_o{k}")
        begin = [*inits, *(c.into for c in collected)]
        pairs = zip([*before, *kept], begin, strict=True)
        arguments = ", ".join(f"{a.name} = {self.ref(v)}" for a, v in pairs)
        types = ", ".join(v.type for v in begin)
        text = [
            f"scf.for %_t = {first} to {end} step {one} iter_args({arguments}) -> ({types}) {{",
            *lines,
            f"scf.yield {', '.join(after)} : {types}",
            "}",
        ]
        name = self.emit("\n".join(text), len(begin))
        found = [
            Value(own, v.shape, v.dtype, inputs=self._depends[name])
            for own, v in zip(_results(name, len(begin)), begin, strict=True)
        ]
        return found[: len(inits)], found[len(inits) :]

    def step_records(self, step: Step) -> list[Record]:
        """The ops of a step that its results need, and the constants that it uses in front."""
        live = needed(step.scope.records, self.result_names(step))
        own = [record for record in step.scope.records if record[0] in live]
        used = live.union(*(NAME.findall(text) for _, text, _ in own))
        return [record for record in self._main.records if record[0] in used] + own

    def result_names(self, step: Step) -> list[str]:
        """The names that the results of a step have in it."""
        with self._written_to(step.scope):
            return [self.ref(value) for value in step.results]

    def _parameter(self, kind: str, number: int, shape: Sequence[int], dtype: str) -> Value:
        return self.local(f"%_step_{kind}{number}", shape, dtype)

    def _index(self, number: int) -> str:
        return self.emit(f"arith.constant {number} : index", hint="c")


def needed(records: Sequence[Record], names: Iterable[str]) -> set[str]:
    """Names of all that the values of these names are made of."""
    live = {name.partition("#")[0] for name in names}
    for result, text, _ in reversed(records):
        if result in live:
            live.update(NAME.findall(text))
    return live


def _count(values: Sequence[Value]) -> str:
    return f":{len(values)}" if len(values) > 1 else ""


def _results(name: str, count: int) -> list[str]:
    return [name] if count == 1 else [f"{name}#{k}" for k in range(count)]


def _box(first: str, others: Sequence[int], sizes: Sequence[int]) -> str:
    """Offsets, sizes and strides of a slice of one row."""
    return f"[{', '.join([first, *map(str, others)])}] {list(sizes)} {[1] * len(sizes)}"
