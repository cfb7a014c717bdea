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

StepBody = Callable[[Sequence[Value], Sequence[Value], Sequence[Value]], Sequence[Value]]


@dataclass(frozen=True)
class Collected:
    """Where a loop puts what a step has made, a value of the shape ``into.shape[2:]``.

    carried: the number of that value among those that the step hands on. into: a tensor of steps;
    column: the position along its second axis.
    """

    carried: int
    into: Value
    column: int


@dataclass(frozen=True)
class Step:
    """The function of one step."""

    arguments: Sequence[Value]
    results: Sequence[Value]
    scope: Scope


class RecurrenceOps(ContractionOps):
    """The part of Builder that repeats a step."""

    def __init__(self) -> None:
        super().__init__()
        self.steps: dict[str, Step] = {}

    def recurrence(
        self,
        scanned: Sequence[Value],
        inits: Sequence[Value],
        fixed: Sequence[Value],
        collected: Sequence[Collected],
        body: StepBody,
        backward: bool = False,
    ) -> tuple[list[Value], list[Value]]:
        """A step for each position along the first axis of tensors, in order, or backward.

        Args:
            scanned: tensors of all steps; a step gets one row, with a first axis of 1.
            inits: what the first step is handed on.
            fixed: what else a step reads that is no constant.
            collected: what is kept of every step.
            body: makes, of the rows, of what the step before has handed on and of ``fixed``, what
                the step hands on: values of the types of ``inits``.
            backward: from the last row to the first.

        Returns:
            What the last step hands on, and the tensors of ``collected``.
        """
        steps = scanned[0].shape[0]
        rows = [self._parameter("x", k, (1, *v.shape[1:]), v.dtype) for k, v in enumerate(scanned)]
        before = [self._parameter("h", k, v.shape, v.dtype) for k, v in enumerate(inits)]
        brought = [v for v in fixed if v.const is None]
        known = {id(v): self._parameter("w", k, v.shape, v.dtype) for k, v in enumerate(brought)}
        scope = Scope()
        with self._written_to(scope):
            after = body(rows, before, [known.get(id(v), v) for v in fixed])
        symbol = self._fresh(f"{self.hint}_step")[1:]
        self.steps[symbol] = Step([*rows, *before, *known.values()], after, scope)
        return self._loop(symbol, steps, scanned, inits, brought, collected, backward)

    def step_records(self, step: Step) -> list[Record]:
        """The ops of a step that its results need, and the constants that it uses in front."""
        names = [value.name for value in step.results]
        live = needed(step.scope.records, names)
        own = [record for record in step.scope.records if record[0] in live]
        used = live.union(*(NAME.findall(text) for _, text, _ in own))
        return [record for record in self._main.records if record[0] in used] + own

    def _parameter(self, kind: str, number: int, shape: Sequence[int], dtype: str) -> Value:
        return self.local(f"%_step_{kind}{number}", shape, dtype)

    def _loop(
        self,
        symbol: str,
        steps: int,
        scanned: Sequence[Value],
        inits: Sequence[Value],
        brought: Sequence[Value],
        collected: Sequence[Collected],
        backward: bool,
    ) -> tuple[list[Value], list[Value]]:
        """The loop that calls a step."""
        first, end, one = (self._index(n) for n in (0, steps, 1))
        at, lines = "%_t", list[str]()
        if backward:
            at = "%_at"
            lines.append(f"{at} = arith.subi {self._index(steps - 1)}, %_t : index")
        rows = []
        for k, value in enumerate(scanned):
            row = self.local(f"%_x{k}", (1, *value.shape[1:]), value.dtype)
            box = _box(at, [0] * (value.rank - 1), row.shape)
            lines.append(
                f"{row.name} = tensor.extract_slice {self.ref(value)}{box} : {value.type} to "
                f"{row.type}"
            )
            rows.append(row)
        before = [self.local(f"%_h{k}", v.shape, v.dtype) for k, v in enumerate(inits)]
        operands = [*rows, *before, *brought]
        types = ", ".join(v.type for v in inits)
        lines.append(
            f"%_s{_count(inits)} = func.call @{symbol}({', '.join(self.ref(v) for v in operands)}) "
            f": ({', '.join(v.type for v in operands)}) -> ({types})"
        )
        after = _results("%_s", len(inits))
        kept = [self.local(f"%_y{k}", c.into.shape, c.into.dtype) for k, c in enumerate(collected)]
        for k, each in enumerate(collected):
            value, into = inits[each.carried], each.into
            shape = (1, 1, *into.shape[2:])
            box = _box(at, [each.column, *[0] * (into.rank - 2)], shape)
            lines.append(
                f"%_o{k} = tensor.insert_slice {after[each.carried]} into {kept[k].name}{box} : "
                f"{value.type} into {into.type}"
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
