"""The iterations of a Loop as calls of one function, see `recurrence`: all before the schedule is
done with one, however many there are.

A body that needs the number of its iteration while compiling, that counts, or whose indices have to
be looked at, is written out instead.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from onnx import GraphProto

from rcompiler.errors import ShapeError, UnsupportedOp

from .builder import Value
from .conditional import Truth, both, run_under, select, truth
from .frame import Call

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

    going: whether the first of them does. carried: what it reads. follows: whether the trip count
    allows an iteration behind that of a number, which only a run knows.

    Returns:
        What is carried out of the loop, and whether it would go on; None for a body that is to be
        written out.
    """
    b, body = call.b, call.attr("body")
    tensors = all(isinstance(v, Value) and v.size for v in carried)
    if b.in_step or end - first < LEAST_STEPS or not tensors or call.it.gaps is not None:
        return None
    inits = [b.constant(first, "int64"), *carried, going]
    expected, counts = len(b.expected), dict(b.counts)

    def step(rows: Sequence[Value], before: Sequence[Value]) -> list[Value]:
        number, *others = before
        number.known = first, end - 1
        b.at(call.name, call.node.op_type)
        after = b.elementwise(lambda s, i: i + 1, number)
        return [after, *_step(call, body, number, others, follows)]

    try:
        once = b.step([], inits, step)
    except (UnsupportedOp, ShapeError, _Unfit):
        once = None
    if once is None or len(b.expected) > expected or len(b.counts) > len(counts):
        del b.expected[expected:]
        b.counts = counts
        return None
    last, _ = b.repeat(once, [], inits, [], steps=end - first)
    return last[1:-1], last[-1]


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
