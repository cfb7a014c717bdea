"""What runs only under a condition that is known at run time: all of it, and a choice of results.

    %r = linalg.generic ... ins(%condition, %then, %else) { arith.select }

All ops are pure, so that what is not selected leaves no trace: what a body expects of its indices
counts only under its condition (`Core.under`). Results of different sizes have room for the larger
one, and the size at run time is chosen, too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from onnx import GraphProto

from rcompiler.errors import ShapeError, UnsupportedOp
from rcompiler.support.extent import Extent

from . import bounds
from .builder import Builder, Value
from .control import handles
from .core import Range
from .frame import Call, SequenceValue, Unknown
from .registry import describe
from .sized import bare
from .value import Extents, extent_of

Truth = Value | bool  # a scalar of bool, or what it is known to be


@handles("If")
def _if(call: Call) -> list[Any]:
    call.b.at(call.name, call.node.op_type)
    condition, branches = truth(call, call.inputs[0]), ("then_branch", "else_branch")
    if isinstance(condition, bool):
        return call.run(call.attr(branches[0 if condition else 1]), {})
    ways = (condition, negation(call.b, condition))
    made: list[list[Any] | ShapeError] = []
    for way, branch in zip(ways, branches, strict=True):
        try:
            made.append(_run_branch(call, way, call.attr(branch)))
        except ShapeError as error:
            made.append(error)
    call.b.at(call.name, call.node.op_type)
    first, second = made
    if isinstance(first, ShapeError):
        return _other_branch(call, ways[0], branches[0], first, second)
    if isinstance(second, ShapeError):
        return _other_branch(call, ways[1], branches[1], second, first)
    return [
        select(call, condition, a, b, f"result {number} of its branches", name)
        for number, (a, b, name) in enumerate(zip(first, second, call.node.output, strict=True))
    ]


def _run_branch(call: Call, condition: Value, graph: GraphProto) -> list[Any]:
    """The values of a branch. Raises ShapeError where it does not fit the shapes of this program,
    also where gaps are listed: it may be one that no call takes.
    """
    if call.it.gaps is not None:
        try:
            with call.it.raising():
                return run_under(call, condition, graph, {})
        except UnsupportedOp:
            pass  # to be listed, with all others of the branch
    return run_under(call, condition, graph, {})


def _other_branch(
    call: Call, condition: Value, branch: str, error: ShapeError, others: list[Any] | ShapeError
) -> list[Any]:
    """The results of the branch that fits; a call that takes the one which does not is an error."""
    if isinstance(others, ShapeError):
        raise error
    reader = f"{call.node.op_type} '{call.name}'"
    taken = call.b.elementwise(lambda s, c: s.cast(c, "int64"), condition, dtype="int64")
    says = f"{reader} takes its {branch}, which does not fit the shapes of this call: {error}"
    tensors = [bare(each) if isinstance(each, Value) else None for each in others]
    names = {"" if each is None else each.name.partition("#")[0] for each in tensors}
    call.b.expect_with(names, taken, Range(0, 0, reader, says.replace("{}", "{ }")))
    return others


def truth(call: Call, value: Any) -> Truth:
    """A condition: whether all of it is true where that is known, and else a tensor of shape ()."""
    if not isinstance(value, Value) or value.const is not None:
        return bool(np.all(call.known(value, "the condition")))
    if value.size != 1 or value.dtype != "bool":
        raise call.refuse(f"its condition is {describe(value)}, not one bool")
    return call.b.reshape(value, [])


def both(b: Builder, first: Truth, second: Truth) -> Truth:
    """Whether two conditions hold."""
    if isinstance(first, bool):
        return first and second
    if isinstance(second, bool):
        return second and first
    return b.elementwise(lambda s, x, y: x & y, first, second)


def negation(b: Builder, condition: Value) -> Value:
    """Whether a condition does not hold."""
    return b.elementwise(lambda s, c: ~c, condition)


def run_under(
    call: Call,
    condition: Truth,
    graph: GraphProto,
    bind: Mapping[str, Any],
    step: int | str = "",
) -> list[Any]:
    """The values of a graph's outputs, as `Call.run`, which count only under a condition.

    What is refused there might not be if the condition were known, so that its inputs are needed.
    """
    if isinstance(condition, bool):
        return call.run(graph, bind, step)
    try:
        with call.b.under(condition):
            return call.run(graph, bind, step)
    except (UnsupportedOp, ShapeError) as error:
        gap = error.gap
        if gap is None:
            raise
        needs = tuple(sorted({*gap.needs, *condition.inputs}))
        raise type(error)(replace(gap, needs=needs)) from error


def select(call: Call, condition: Value, yes: Any, no: Any, what: str, name: str = "") -> Any:
    """One of two values by a condition.

    what: both are, for messages. name: of a result whose size at run time may be that of either;
    without one they have to be of one size.

    Raises UnsupportedOp where they have not the same type and shape, or rank with a name.
    """
    b, lists = call.b, isinstance(yes, SequenceValue) and isinstance(no, SequenceValue)
    if yes is no or isinstance(yes, Unknown):
        return yes
    if isinstance(no, Unknown):
        return no
    if lists and len(yes.items) == len(no.items):
        pairs = zip(yes.items, no.items, strict=True)
        return SequenceValue(tuple(select(call, condition, x, y, what, name) for x, y in pairs))
    tensors = isinstance(yes, Value) and isinstance(no, Value)
    if not tensors or yes.dtype != no.dtype or not _may_be_either(yes, no, name):
        raise call.refuse(
            f"{what} is {describe(yes)} or {describe(no)}, which is decided at run time",
            "Give both the same type and shape, or make the condition a constant of the model",
            tuple(sorted(condition.inputs)),
        )
    if yes.name and yes.name == no.name or _same(yes, no):
        return yes
    extents = yes.extents
    known = bounds.union(*(each.bounds for each in (yes, no) if each.size))
    if yes.sizes != no.sizes:
        yes, no, extents = _of_one_size(b, condition, yes, no, name)
    made = _chosen(b, condition, bare(yes), bare(no))
    made.known = known
    return b.sized(made, extents)


def _may_be_either(yes: Value, no: Value, name: str) -> bool:
    return yes.rank == no.rank if name else yes.sizes == no.sizes


def _chosen(b: Builder, condition: Value, yes: Value, no: Value) -> Value:
    return b.elementwise(lambda s, c, x, y: s.select(c, x, y), condition, yes, no, dtype=yes.dtype)


def _of_one_size(
    b: Builder, condition: Value, yes: Value, no: Value, name: str
) -> tuple[Value, Value, Extents]:
    """Both with room for the larger one, and the size of the one that is chosen."""
    shape = [max(pair) for pair in zip(yes.shape, no.shape, strict=True)]
    extents = list[Extent | None]()
    for most, one, other in zip(shape, yes.sizes, no.sizes, strict=True):
        if one == other:
            extents.append(extent_of(one))
        else:
            count = _chosen(b, condition, b.number(one), b.number(other))
            extents.append(b.count(name, count, most))
    wide = [
        b.pad(bare(each), [0] * each.rank, [n - d for n, d in zip(shape, each.shape, strict=True)])
        for each in (yes, no)
    ]
    return wide[0], wide[1], tuple(extents)


def _same(yes: Value, no: Value) -> bool:
    """Whether two constants are the same, bit for bit."""
    if yes.const is None or no.const is None:
        return False
    return yes.const is no.const or yes.const.tobytes() == no.const.tobytes()
