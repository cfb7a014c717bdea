"""Loop: a body that is run once per iteration, its results handed on.

How many iterations there are may be known only at run time, by the trip count or by what the body
says of going on. Then the body stands as often as it may run at most, and what an iteration makes
is taken only if that iteration runs; or many iterations are calls of it (`loop_steps`). What is
refused says how to give a bound.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from onnx import GraphProto

from rcompiler.errors import UnsupportedOp

from . import dtypes
from .builder import Value
from .conditional import Truth, both, run_under, select, truth
from .control import MAX_STEPS, MAX_TRIPS, handles, stack
from .frame import Call, Unknown
from .likely import most_of
from .loop_steps import Steps, run_as_steps
from .sized import bare, sized

_ENDLESS = 1 << 31  # a trip count that is there because the operator wants one


@dataclass(frozen=True)
class _Count:
    """How often a loop runs at most, if its condition never ends it.

    given: the operand, where it is not known. least, most: bounds of it; most is None without any.
    allowed: what a caller says it is at most, or what is likely.
    """

    given: Value | None
    least: int
    most: int | None
    allowed: int | None

    @staticmethod
    def of(call: Call) -> _Count:
        value, allowed = call.optional(0), call.bound()
        if value is None:
            return _Count(None, MAX_STEPS + 1, None, allowed)
        if isinstance(value, Value) and value.const is None:
            if value.size != 1:
                raise call.refuse(f"its trip count has {value.size} elements, not one")
            low, high = value.bounds or (0, MAX_STEPS + 1)
            if allowed is None and high > MAX_TRIPS:
                allowed = most_of(value, MAX_TRIPS)
            return _Count(call.b.reshape(value, []), low, high, allowed)
        known = int(call.known(value, "the trip count").reshape(()))
        return _Count(None, known, known, allowed)

    def reached(self, call: Call, trip: int) -> Truth:
        """Whether the trip count allows iteration number ``trip``."""
        if trip < self.least:
            return True
        if self.given is None or self.most is not None and trip >= self.most:
            return False
        return call.b.elementwise(lambda s, n: s.const(trip, n.dtype) < n, self.given, dtype="bool")

    def follows(self, call: Call, number: Value) -> Truth:
        """Whether the trip count allows an iteration behind that of a number which a run knows."""
        if self.given is None:
            return True
        return call.b.elementwise(
            lambda s, i, n: i + 1 < s.cast(n, i.dtype), number, self.given, dtype="bool"
        )

    def certain(self) -> int:
        """Iterations that all run, if their condition does not end them; 0: that is not known."""
        known = self.given is None and self.most is not None and self.most <= MAX_STEPS
        return self.least if known else 0

    def limit(self, call: Call, condition: Value) -> int:
        """Iterations that are written where only a condition says which of them run.

        Raises UnsupportedOp where nothing says how many that may be.
        """
        least = min((n for n in (self.most, self.allowed) if n is not None), default=None)
        if least is not None and least <= MAX_STEPS:
            return least
        name = call.node.name or call.name
        most = "any number of" if least is None or least >= _ENDLESS else str(least)
        raise call.refuse(
            f"how often it runs is known only at run time: up to {most} times, and {MAX_STEPS} are "
            "the most that are compiled",
            f"Pass compile_onnx the most iterations that it may have: bounds={{'{name}': ...}}",
            tuple(sorted(condition.inputs)),
            (name,) if self.allowed is None else (),
        )


@handles("Loop")
def _loop(call: Call) -> list[Any]:
    body: GraphProto = call.attr("body")
    call.b.at(call.name, call.node.op_type)
    names = [v.name for v in body.input]
    count, condition = _Count.of(call), call.optional(1)
    carried = list(call.inputs[2:])  # as the next iteration reads them
    after = list(carried)  # as they are behind the loop
    scans: list[list[Any]] = [[] for _ in body.output[1 + len(carried) :]]
    going = True if condition is None else truth(call, condition)
    going = both(call.b, going, count.reached(call, 0))
    trip, first_unsure, unsure = 0, 0, None
    wanted = any(call.node.output[len(carried) :])  # scan outputs
    ran: list[Truth] = []
    steps: Steps | None = None
    while going is not False:
        if isinstance(going, Value):
            end = count.limit(call, going)
            first_unsure = trip if unsure is None else first_unsure
            if trip == end:
                break
        else:
            end = count.certain()
        many = end > MAX_TRIPS
        # the first iteration may hand on other types than it got, and the others the same
        if trip <= first_unsure + 1 and (many or isinstance(going, Value) and not wanted):
            follows = partial(count.follows, call)
            steps = run_as_steps(call, going, after, trip, end, follows, wanted)
            if steps is not None:
                unsure = going if isinstance(going, Value) else unsure
                trip, after = end, steps.carried
                going = both(call.b, steps.going, count.reached(call, trip))
                break
        if isinstance(going, Value):
            unsure = going
        if trip >= MAX_TRIPS or many and isinstance(going, Value) and trip > first_unsure:
            raise _too_many(call, end)
        first = [call.b.constant(trip, "int64"), call.b.constant(True, "bool")]
        bind = dict(zip(names, first + carried, strict=False))
        out = run_under(call, going, body, bind, trip)
        call.b.at(call.name, call.node.op_type)
        carried, after = _handed_on(call, going, out[1 : 1 + len(carried)], after)
        for scan, item in zip(scans, out[1 + len(carried) :], strict=True):
            scan.append(item)
        ran.append(going)
        trip += 1
        going = both(call.b, going, truth(call, out[0]))
        going = both(call.b, going, count.reached(call, trip))
    call.b.at(call.name, call.node.op_type)
    if steps is not None and wanted:
        rows = _rows_of_steps(call, ran, scans, steps)
    else:
        rows = [] if unsure is None else _rows_that_ran(call, unsure, ran, scans)
    if isinstance(going, Value):
        _expect_end(call, count, trip, going, [*after, *rows])
    if unsure is not None or steps is not None:
        return after + rows + [None] * (len(scans) - len(rows))
    if trip == 0 and scans:
        shapes = [v.type.tensor_type for v in body.output[1 + len(carried) :]]
        return after + [_empty_scan(call, t) for t in shapes]
    return after + [stack(call.it, scan, 0) for scan in scans]


def _too_many(call: Call, trips: int) -> UnsupportedOp:
    """trips: how many there are, if that is known; else 0."""
    return call.refuse(
        f"{trips or f'more than {MAX_TRIPS}'} iterations; at most {MAX_STEPS} are compiled, and "
        f"{MAX_TRIPS} of a body that is written out for each: of one that needs the number of its "
        "iteration while compiling, or hands on other types than it gets",
        "Lower the trip count, or let the body compute with the number of its iteration only",
    )


def _handed_on(
    call: Call, going: Truth, made: Sequence[Any], before: Sequence[Any]
) -> tuple[list[Any], list[Any]]:
    """What the next iteration reads, and what is right behind the loop if there is none.

    made: by an iteration that runs if ``going``. The next one runs only if it does, so that what is
    a constant in it stays one.
    """
    if not isinstance(going, Value):
        return list(made), list(made)
    after = [
        select(call, going, new, old, f"carried value {number}")
        for number, (new, old) in enumerate(zip(made, before, strict=True))
    ]
    constant = [isinstance(new, Value) and new.const is not None for new in made]
    pairs = zip(made, after, constant, strict=True)
    return [new if known else kept for new, kept, known in pairs], after


def _expect_end(call: Call, count: _Count, trips: int, going: Value, after: Sequence[Any]) -> None:
    """Say at run time that a loop goes on after all the iterations that it was compiled for."""
    b, name = call.b, call.node.name or call.name
    given = b.constant(trips + 1, "int64") if count.given is None else count.given
    over = b.elementwise(
        lambda s, g, n: s.select(g, s.cast(n, "int64"), 0), going, given, dtype="int64"
    )
    tensors = [bare(v) for v in after if isinstance(v, Value)]
    results = {v.name.partition("#")[0] for v in tensors if v.name}
    b.expect_iterations(over, trips, f"{call.node.op_type} '{name}'", name, results)


def _rows_that_ran(
    call: Call, condition: Value, ran: Sequence[Truth], scans: Sequence[Sequence[Any]]
) -> list[Any]:
    """The scan outputs: a row for each iteration that runs, of which a run says how many there are.

    ran: whether each of those that are written does; condition: why that is not known. What is no
    tensor of one static shape in all iterations matters only when it is read.
    """
    b, made = call.b, list[Any]()
    certain = sum(going is True for going in ran)
    unsure = [going for going in ran if isinstance(going, Value)]
    for number, scan in enumerate(scans):
        fits = all(isinstance(item, Value) and not sized(item) for item in scan)
        if not scan or not fits or len({(item.dtype, item.shape) for item in scan}) > 1:
            made.append(_unknown_length(call, condition, number))
            continue
        count = b.elementwise(
            lambda s, *flags: sum((s.cast(flag, "int64") for flag in flags), certain),
            *unsure,
            dtype="int64",
        )
        extent = b.count(call.node.name or call.name, count, len(ran))
        whole = stack(call.it, scan, 0)
        made.append(b.sized(whole, [extent, *[None] * (whole.rank - 1)]))
    return made


def _rows_of_steps(
    call: Call, ran: Sequence[Truth], scans: Sequence[Sequence[Any]], steps: Steps
) -> list[Any]:
    """The scan outputs where most iterations are calls of a function: rows of those that are
    written out, and behind them theirs.

    ran: whether each of those that are written out does.
    """
    b, made = call.b, list[Any]()
    sure = sum(going is True for going in ran)
    flags = [going for going in ran if isinstance(going, Value)]
    for scan, rows in zip(scans, steps.rows, strict=True):
        whole = b.concat([stack(call.it, scan, 0), rows], 0) if scan else rows
        if steps.ran is not None:
            count = b.elementwise(
                lambda s, n, *more: sum((s.cast(flag, "int64") for flag in more), n + sure),
                steps.ran,
                *flags,
            )
            extent = b.count(call.node.name or call.name, count, whole.shape[0])
            whole = b.sized(whole, [extent, *[None] * (whole.rank - 1)])
        made.append(whole)
    return made


def _unknown_length(call: Call, condition: Value, number: int) -> Unknown:
    return Unknown(
        call.gap(
            f"how many rows its scan output {number} has is known only at run time, and they have "
            "not one static shape",
            "Give what each iteration adds one shape, or make what ends the loop a constant",
            tuple(sorted(condition.inputs)),
        )
    )


def _empty_scan(call: Call, kind: Any) -> Value:
    dims = [d.dim_value for d in kind.shape.dim if d.HasField("dim_value")]
    dtype = dtypes.from_onnx(kind.elem_type)
    if len(dims) != len(kind.shape.dim) or not dtypes.is_supported(dtype):
        reason = "a loop without iterations whose scan output has no static shape"
        raise call.refuse(reason, "Remove the loop")
    return call.b.constant(np.zeros([0, *dims], dtypes.numpy_dtype(dtype)), dtype)
