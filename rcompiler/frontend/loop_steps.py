"""The iterations of a Loop as calls of one function, see `recurrence`: all before the schedule is
done with one, however many there are.

What is wrong with the indices of an iteration is among what it hands on. A body that needs the
number of its iteration while compiling, or that counts, is written out instead.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from onnx import GraphProto

from rcompiler.errors import ShapeError, UnsupportedOp

from .builder import Value
from .conditional import Truth, both, run_under, select, truth
from .core import Expected
from .frame import Call
from .index_checks import outside
from .recurrence import Step

LEAST_STEPS = 16


class _Unfit(Exception):
    """The body is none of a function of this kind."""


def run_as_steps(
    call: Call,
    going: Value,
    carried: Sequence[Any],
    first: int,
    end: int,
    follows: Callable[[Value], Truth],
) -> tuple[list[Any], Value] | None:
    """The iterations from number ``first`` up to ``end``, of which those run that may.

    going: whether the first of them does. carried: what it reads, no constants, which steps have no
    views of. follows: whether the trip count
    allows an iteration behind that of a number, which only a run knows.

    Returns:
        What is carried out of the loop, and whether it would go on; None for a body that is to be
        written out.
    """
    b = call.b
    tensors = all(isinstance(v, Value) and v.size and v.const is None for v in carried)
    if b.in_step or end - first < LEAST_STEPS or not tensors or call.it.gaps is not None:
        return None
    found = _Steps(call, first, end, follows)
    checks = found.write(carried, going, 0)
    if checks:  # they are handed on, so that how many there are has to be known before
        checks = found.write(carried, going, checks)
    if checks is None:
        return None
    last, _ = b.repeat(found.once, [], found.inits, [], steps=end - first)
    name = last[0].name.partition("#")[0]
    for value, each in zip(last[1:], found.expected, strict=False):
        b.expected.append(replace(each, value=value, names=frozenset(), readers={name}, when=()))
    return last[1 + checks : -1], last[-1]


class _Steps:
    """The function of an iteration.

    once, inits: it, and what the first one is handed on: its number, what was found wrong of its
    indices, the carried values, and whether it runs. expected: of each of its indices.
    """

    def __init__(self, call: Call, first: int, end: int, follows: Callable[[Value], Truth]) -> None:
        self._call, self._first, self._end, self._follows = call, first, end, follows
        self.once: Step
        self.inits: list[Value] = []
        self.expected: list[Expected] = []

    def write(self, carried: Sequence[Value], going: Value, checks: int) -> int | None:
        """Write the function for so many indices that are looked at: how many there are; None for a
        body that is to be written out.
        """
        b, call, body = self._call.b, self._call, self._call.attr("body")
        zeros = [b.constant(0, "int64")] * checks
        first = b.elementwise(
            lambda s, g: s.select(g, self._first, s.const(0, "int64")), going, dtype="int64"
        )
        self.inits = [first, *zeros, *carried, going]
        before, counts = len(b.expected), dict(b.counts)

        def step(rows: Sequence[Value], given: Sequence[Value]) -> list[Value]:
            number, *others = given
            number.known = 0, self._end - 1
            b.at(call.name, call.node.op_type)
            after = b.elementwise(lambda s, i: i + 1, number)
            made = _step(call, body, number, others[checks:], self._follows)
            self.expected = b.expected[before:]
            del b.expected[before:]
            if checks and len(self.expected) != checks:
                raise _Unfit
            wrong = [
                b.elementwise(lambda s, w, n: s.select(w.ne(0), w, n), own, outside(b, each))
                for own, each in zip(others[:checks], self.expected, strict=False)
            ]
            return [after, *wrong, *made]

        try:
            self.once = b.step([], self.inits, step)
        except (UnsupportedOp, ShapeError, _Unfit):
            fits = False
        else:
            fits = len(b.counts) == len(counts)
        del b.expected[before:]
        b.counts = counts
        return len(self.expected) if fits else None


def _step(
    call: Call,
    body: GraphProto,
    number: Value,
    before: Sequence[Value],
    follows: Callable[[Value], Truth],
) -> list[Value]:
    """What an iteration hands on: the carried values, and whether another one follows."""
    *carried, going = before
    given = [number, call.b.constant(True, "bool"), *carried]
    bind = dict(zip([v.name for v in body.input], given, strict=False))
    out = run_under(call, going, body, bind, "step")
    call.b.at(call.name, call.node.op_type)
    made = out[1 : 1 + len(carried)]
    if any(not isinstance(v, Value) for v in made):
        raise _Unfit
    after = [
        select(call, going, new, old, f"carried value {k}")
        for k, (new, old) in enumerate(zip(made, carried, strict=True))
    ]
    more = both(call.b, truth(call, out[0]), follows(number))
    again = both(call.b, going, more)
    return [*after, call.b.constant(again, "bool") if isinstance(again, bool) else again]
