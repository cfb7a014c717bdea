"""The iterations of a Loop as calls of one function, see `recurrence`: all before the schedule is
done with one, however many there are.

What is wrong with the indices of an iteration is among what it hands on, and so is how many ran,
where rows are collected. A body that needs the number of its iteration while compiling, or that
counts, is written out instead.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from rcompiler.errors import ShapeError, UnsupportedOp

from .builder import Value
from .conditional import Truth, both, run_under, select, truth
from .core import Expected
from .frame import Call
from .index_checks import outside
from .recurrence import Collected, Step
from .sized import sized
from .whole_lines import in_lines, out_of_lines

LEAST_STEPS = 16


class _Unfit(Exception):
    """The body is none of a function of this kind."""


@dataclass(frozen=True)
class Steps:
    """What iterations leave behind.

    carried: out of the loop. going: whether it would go on. rows: of each scan output, a tensor
    with a row for each iteration that may run; ran: how many did, where only a run knows.
    """

    carried: list[Any]
    going: Truth
    rows: list[Value]
    ran: Value | None


def run_as_steps(
    call: Call,
    going: Truth,
    carried: Sequence[Any],
    first: int,
    end: int,
    follows: Callable[[Value], Truth],
    collects: bool = False,
) -> Steps | None:
    """The iterations from number ``first`` up to ``end``, of which those run that may.

    going: whether the first of them does; True: all do. carried: what it reads. follows: whether
    the trip count allows an iteration behind that of a number, which only a run knows. collects:
    whether scan outputs are wanted.

    Returns:
        What they leave behind; None for a body that is to be written out.
    """
    b = call.b
    tensors = all(isinstance(v, Value) and v.size for v in carried)
    if b.in_step or end - first < LEAST_STEPS or not tensors or call.it.gaps is not None:
        return None
    found = _Steps(call, first, end, follows, collects)
    checks = found.write(carried, going, 0)
    if checks:  # they are handed on, so that how many there are has to be known before
        checks = found.write(carried, going, checks)
    if checks is None:
        return None
    into = [b.empty([end - first, 1, *row.shape], row.dtype) for row in found.rows]
    behind = len(found.inits)
    collected = [Collected(behind + k, each) for k, each in enumerate(into)]
    last, kept = b.repeat(found.once, [], found.inits, collected, steps=end - first)
    name = last[0].name.partition("#")[0]
    for value, each in zip(last[1:], found.expected, strict=False):
        b.expected.append(replace(each, value=value, names=frozenset(), readers={name}, when=()))
    after = last[1 + checks :]
    rows = [out_of_lines(b, k, shape) for k, shape in zip(kept, found.shapes, strict=True)]
    ran = after[len(carried) + 1] if found.counts else None
    unsure = isinstance(going, Value)
    return Steps(after[: len(carried)], after[len(carried)] if unsure else True, rows, ran)


class _Steps:
    """The function of an iteration.

    once, inits: it, and what the first one is handed on: its number, what was found wrong of its
    indices, the carried values, whether it runs, and how many did before, if that is counted.
    expected: of each of its indices. rows, shapes: what is collected of it, padded, and the shapes
    of that.
    """

    def __init__(
        self,
        call: Call,
        first: int,
        end: int,
        follows: Callable[[Value], Truth],
        collects: bool,
    ) -> None:
        self._call, self._first, self._end, self._follows = call, first, end, follows
        self._collects, self.counts = collects, False
        self.once: Step
        self.inits: list[Value] = []
        self.expected: list[Expected] = []
        self.rows: list[Value] = []
        self.shapes: list[tuple[int, ...]] = []

    def write(self, carried: Sequence[Value], going: Truth, checks: int) -> int | None:
        """Write the function for so many indices that are looked at: how many there are; None for a
        body that is to be written out.
        """
        b = self._call.b
        zeros = [b.constant(0, "int64")] * checks
        self.inits = [self._first_number(going), *zeros, *carried]
        if isinstance(going, Value):
            self.counts = self._collects
            self.inits += [going, *[b.constant(0, "int64")] * self.counts]
        before, counts = len(b.expected), dict(b.counts)

        def step(_: Sequence[Value], given: Sequence[Value]) -> list[Value]:
            number, *others = given
            number.known = 0, self._end - 1
            b.at(self._call.name, self._call.node.op_type)
            after = b.elementwise(lambda s, i: i + 1, number)
            made = self._iteration(number, others[checks:], len(carried))
            self.expected = b.expected[before:]
            del b.expected[before:]
            if checks and len(self.expected) != checks:
                raise _Unfit
            wrong = [
                b.elementwise(lambda s, w, n: s.select(w.ne(0), w, n), own, outside(b, each))
                for own, each in zip(others[:checks], self.expected, strict=False)
            ]
            return [after, *wrong, *made, *self.rows]

        try:
            self.once = b.step([], self.inits, step)
        except (UnsupportedOp, ShapeError, _Unfit):
            fits = False
        else:
            fits = len(b.counts) == len(counts)
        del b.expected[before:]
        b.counts = counts
        return len(self.expected) if fits else None

    def _first_number(self, going: Truth) -> Value:
        b, first = self._call.b, self._first
        if isinstance(going, bool):
            return b.constant(first, "int64")
        return b.elementwise(
            lambda s, g: s.select(g, first, s.const(0, "int64")), going, dtype="int64"
        )

    def _iteration(self, number: Value, before: Sequence[Value], count: int) -> list[Value]:
        """What an iteration hands on: the carried values, whether another one follows, and how many
        ran; its rows are noted.
        """
        call, b, body = self._call, self._call.b, self._call.attr("body")
        carried, rest = before[:count], before[count:]
        going: Truth = rest[0] if rest else True
        given = [number, b.constant(True, "bool"), *carried]
        bind = dict(zip([v.name for v in body.input], given, strict=False))
        out = run_under(call, going, body, bind, "step")
        b.at(call.name, call.node.op_type)
        made = out[1 : 1 + count]
        if any(not isinstance(v, Value) for v in made):
            raise _Unfit
        if self._collects:
            self._collect(out[1 + count :])
        if isinstance(going, bool):
            same = all(
                (x.sizes, x.dtype) == (y.sizes, y.dtype) for x, y in zip(made, carried, strict=True)
            )
            if truth(call, out[0]) is not True or not same:
                raise _Unfit
            return made
        after = [
            select(call, going, new, old, f"carried value {k}")
            for k, (new, old) in enumerate(zip(made, carried, strict=True))
        ]
        more = both(b, truth(call, out[0]), self._follows(number))
        again = both(b, going, more)
        ran = [b.elementwise(lambda s, n, g: n + s.cast(g, "int64"), n, going) for n in rest[1:]]
        return [*after, b.constant(again, "bool") if isinstance(again, bool) else again, *ran]

    def _collect(self, rows: Sequence[Any]) -> None:
        """Note the rows of an iteration as whole operands of a kernel."""
        if any(not isinstance(row, Value) or sized(row) or not row.size for row in rows):
            raise _Unfit
        self.shapes = [row.shape for row in rows]
        self.rows = [in_lines(self._call.b, row) for row in rows]
