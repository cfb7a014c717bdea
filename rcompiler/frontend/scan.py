"""Scan: a body that is run once per position of the axes that it scans, as calls of one function
(`scan_steps`), or written out.

How many positions there are may be known only at run time. Then the body stands as often as there
are at most; of a position that is not there nothing is handed on, and its row is not there.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rcompiler.support.extent import Extent, Size, highest, lowest

from .builder import Builder, Value
from .conditional import Truth, run_under, select
from .control import MAX_TRIPS, handles, stack
from .frame import Call, Runner
from .scan_steps import Scanned, scanned_as_steps
from .sized import bare
from .value import SizeAtRunTime


@handles("Scan")
def _scan(call: Call) -> list[Any]:
    if call.version >= 9:
        return _scanned(call, call.inputs, "scan_input_directions")
    # Opset 8: a batch axis in front, and optional sequence lengths.
    lengths, *inputs = call.inputs
    if lengths is not None:
        raise call.refuse("sequence_lens is not translated", "Use opset 9 or later")
    if isinstance(inputs[0].sizes[0], Extent):
        raise SizeAtRunTime(f"a batch of {inputs[0].sizes[0]} elements in front, of opset 8")
    batches = [
        _scanned(call, [_take(call.it, v, n, 0) for v in inputs], "directions")
        for n in range(inputs[0].shape[0])
    ]
    return [stack(call.it, column, 0) for column in zip(*batches, strict=True)]


def _scanned(call: Call, inputs: list[Any], directions_name: str) -> list[Any]:
    """The body once per position of the scanned axes."""
    it, body, count = call.it, call.attr("body"), call.attr("num_scan_inputs")
    carried, xs = list(inputs[: len(inputs) - count]), inputs[len(inputs) - count :]
    outs = len(body.output) - len(carried)
    axes = list(call.attr("scan_input_axes", [0] * count))
    directions = list(call.attr(directions_name, [0] * count))
    out_axes = list(call.attr("scan_output_axes", [0] * outs))
    out_directions = list(call.attr("scan_output_directions", [0] * outs))
    axes = [call.axis(a, x.rank) for a, x in zip(axes, xs, strict=True)]
    size = _size(xs, axes)
    trips = highest(size)
    if trips > MAX_TRIPS or trips == 0:
        reason = f"{trips} iterations; 1 to {MAX_TRIPS} are unrolled"
        raise call.refuse(reason, "Shorten the scanned axis")
    if not isinstance(size, Extent):
        whole = Scanned(carried, xs, axes, directions, out_axes, out_directions)
        if (made := scanned_as_steps(call, whole, trips)) is not None:
            return made
    scans: list[list[Any]] = [[] for _ in range(outs)]
    if isinstance(size, Extent):
        call.b.at(call.name, call.node.op_type)
    for trip in range(trips):
        there = _is_there(call.b, trip, size)
        items = [
            _item(it, x, trip, size, a, bool(backward))
            for x, a, backward in zip(xs, axes, directions, strict=True)
        ]
        bind = dict(zip([v.name for v in body.input], carried + items, strict=True))
        out = run_under(call, there, body, bind, trip)
        before, carried = carried, out[: len(carried)]
        if not isinstance(there, bool):
            call.b.at(call.name, call.node.op_type)
            carried = [
                select(call, there, new, old, f"carried value {number}")
                for number, (new, old) in enumerate(zip(carried, before, strict=True))
            ]
        for scan, item in zip(scans, out[len(carried) :], strict=True):
            scan.append(item)
    call.b.at(call.name, call.node.op_type)
    return carried + [
        _rows(it, scan, a, size, bool(backward))
        for scan, a, backward in zip(scans, out_axes, out_directions, strict=True)
    ]


def _size(xs: Sequence[Value], axes: Sequence[int]) -> Size:
    """How many positions there are."""
    sizes = [x.sizes[a] for x, a in zip(xs, axes, strict=True)]
    for size in sizes:
        if size != sizes[0] and any(isinstance(each, Extent) for each in sizes):
            raise SizeAtRunTime(f"it scans {sizes[0]} and {size} elements")
    return sizes[0]


def _is_there(b: Builder, trip: int, size: Size) -> Truth:
    """Whether there is such a position in a call."""
    if trip < lowest(size):
        return True
    return b.elementwise(lambda s, n: s.const(trip, n.dtype) < n, b.number(size), dtype="bool")


def _item(it: Runner, x: Value, trip: int, size: Size, axis: int, backward: bool) -> Value:
    """What the body gets of a tensor: where it is not there, anything."""
    if not isinstance(size, Extent):
        return _take(it, x, size - 1 - trip if backward else trip, axis)
    if backward:
        return _without(it, it.b.picked(x, axis, size - 1 - trip, 1), axis)
    extents = [None if d == axis else extent for d, extent in enumerate(x.extents)]
    return _take(it, it.b.sized(bare(x), extents), trip, axis)


def _rows(it: Runner, scan: list[Value], axis: int, size: Size, backward: bool) -> Value:
    """A scan output."""
    if not isinstance(size, Extent):
        return stack(it, scan[::-1] if backward else scan, axis)
    made = stack(it, scan, axis)
    axis %= made.rank
    extents = [size if d == axis else extent for d, extent in enumerate(made.extents)]
    rows = it.b.sized(bare(made), extents)
    return it.b.picked(rows, axis, size - 1, size, -1) if backward else rows


def _take(it: Runner, value: Value, index: int, axis: int) -> Value:
    """``value[..., index, ...]`` without the axis."""
    part = it.b.slice_along(value, axis, index, 1)
    if part.known is None:
        part.known = value.bounds
    return _without(it, part, axis)


def _without(it: Runner, part: Value, axis: int) -> Value:
    """A tensor without an axis of one element."""
    shape = [d for i, d in enumerate(part.shape) if i != axis]
    extents = [extent for i, extent in enumerate(part.extents) if i != axis]
    return it.b.reshape(part, shape, extents if any(extents) else None)
