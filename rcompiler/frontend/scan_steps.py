"""The positions of a Scan as calls of one function, see `recurrence`: all before the schedule is
done with one, however many there are.

A body that needs to know while compiling what is carried, that checks an index or that counts is
written out instead. Rows that are no whole lines of memory are filled up to such.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from onnx import GraphProto

from rcompiler.errors import ShapeError, UnsupportedOp

from .builder import Value
from .frame import Call
from .recurrence import Collected, Step
from .whole_lines import in_lines, out_of_lines

LEAST_STEPS = 16


@dataclass(frozen=True)
class Scanned:
    """What a Scan reads and where its results go. Axes and directions are those of the operator."""

    carried: Sequence[Any]
    xs: Sequence[Any]
    axes: Sequence[int]
    directions: Sequence[int]
    out_axes: Sequence[int]
    out_directions: Sequence[int]

    @property
    def backward(self) -> bool | None:
        """The direction of all; None where they differ."""
        both = {bool(d) for d in (*self.directions, *self.out_directions)}
        return both.pop() if len(both) == 1 else None


def scanned_as_steps(call: Call, scan: Scanned, trips: int) -> list[Any] | None:
    """What the operator gives; None for one that is to be written out."""
    b, backward = call.b, scan.backward
    values = [*scan.carried, *scan.xs]
    tensors = all(isinstance(v, Value) and v.size and not any(v.extents) for v in values)
    if trips < LEAST_STEPS or b.in_step or call.it.gaps is not None:
        return None
    if backward is None or not tensors:
        return None
    b.at(call.name, call.node.op_type)
    rows = [_first(call, x, axis) for x, axis in zip(scan.xs, scan.axes, strict=True)]
    shapes = [x.shape[1:] for x in rows]
    rows = [in_lines(b, x, 1) for x in rows]
    found = _step(call, rows, shapes, scan.carried)
    if found is None:
        return None
    once, made = found
    states = len(scan.carried)
    into = [b.empty([trips, 1, *v.shape], v.dtype) for v in once.results[states:]]
    collected = [Collected(states + k, v) for k, v in enumerate(into)]
    last, kept = b.repeat(once, rows, scan.carried, collected, backward)
    shown = [
        _last(call, out_of_lines(b, v, shape), axis)
        for v, shape, axis in zip(kept, made, scan.out_axes, strict=True)
    ]
    return [*last, *shown]


def _first(call: Call, x: Value, axis: int) -> Value:
    """The scanned axis in front."""
    if not axis:
        return x
    return call.b.transpose(x, [axis, *(d for d in range(x.rank) if d != axis)])


def _last(call: Call, x: Value, axis: int) -> Value:
    """The first axis where a scan output has it."""
    axis = axis % x.rank
    if not axis:
        return x
    perm = [*range(1, axis + 1), 0, *range(axis + 1, x.rank)]
    return call.b.transpose(x, perm)


def _step(
    call: Call, rows: Sequence[Value], shapes: Sequence[Sequence[int]], inits: Sequence[Value]
) -> tuple[Step, list[Sequence[int]]] | None:
    """The function of a position, and the shapes of its rows of results; None of a body that is
    none. shapes: those of the rows that the body reads.
    """
    b, body = call.b, call.attr("body")
    checks, counts, fits = len(b.expected), dict(b.counts), True
    made_shapes: list[Sequence[int]] = []

    def step(items: Sequence[Value], before: Sequence[Value]) -> list[Value]:
        nonlocal fits
        parts = [
            b.reshape(out_of_lines(b, item, shape), shape)
            for item, shape in zip(items, shapes, strict=True)
        ]
        made = _made(call, body, [*before, *parts])
        after, scans = made[: len(inits)], made[len(inits) :]
        pairs = zip(after, inits, strict=True)
        fits = all(v.shape == i.shape and v.dtype == i.dtype for v, i in pairs)
        made_shapes.extend(v.shape for v in scans)
        return [*after, *(in_lines(b, v) for v in scans)]

    try:
        once = b.step(rows, inits, step)
    except (UnsupportedOp, ShapeError):
        fits = False
    fits = fits and len(b.expected) == checks and len(b.counts) == len(counts)
    del b.expected[checks:]
    b.counts = counts
    return (once, made_shapes) if fits else None


def _made(call: Call, body: GraphProto, given: Sequence[Value]) -> list[Value]:
    """What the body makes of what is carried and of a row of each tensor."""
    made = call.run(body, dict(zip([v.name for v in body.input], given, strict=True)), "step")
    call.b.at(call.name, call.node.op_type)
    if any(not isinstance(v, Value) or not v.size or any(v.extents) for v in made):
        raise call.refuse("a body that makes no tensors of one size is written out")
    return made
