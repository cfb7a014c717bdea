"""What is decided while compiling: control flow, sequences, optionals, constants.

Bodies are run once per iteration. Sequences and optionals exist only as Python objects and leave no
trace in the IR.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from onnx import NodeProto, helper

from . import bounds, dtypes, load
from .builder import Value
from .frame import Call, Runner

Handler = Callable[[Call], list[Any]]
MAX_TRIPS = 4096

_TABLE: dict[str, Handler] = {}


def handles(*ops: str) -> Callable[[Handler], Handler]:
    """Register ``fn(call)``, which returns the results of a node, for one or more operators."""

    def register(fn: Handler) -> Handler:
        _TABLE.update(dict.fromkeys(ops, fn))
        return fn

    return register


def find(node: NodeProto) -> Handler | None:
    """The handler of a node that is not an op on tensors."""
    return _TABLE.get(node.op_type) if node.domain in ("", "ai.onnx") else None


# -- constants and identity -----------------------------------------------------------------
@handles("Constant")
def _constant(call: Call) -> list[Any]:
    if len(call.node.attribute) != 1:
        raise call.refuse("a constant needs one value attribute")
    item = call.node.attribute[0]
    value = helper.get_attribute_value(item)
    if item.name in ("value", "sparse_value"):
        array = load.array_of(value)
    elif item.name in ("value_float", "value_floats"):
        array = np.array(value, np.float32)
    elif item.name in ("value_int", "value_ints"):
        array = np.array(value, np.int64)
    else:
        raise call.refuse(*load.untranslated("string")[:2])
    return [call.b.constant_view(array, dtypes.name_of(array))]


@handles("Identity")
def _identity(call: Call) -> list[Any]:
    return call.inputs[:1]


# -- control flow; If and Loop: `conditional`, `loop` ------------------------------------------
def stack(it: Runner, values: Sequence[Value], axis: int) -> Value:
    """Concatenate along a new axis."""
    rank = values[0].rank + 1
    axis = axis % rank
    parts = [it.b.reshape(v, [*v.shape[:axis], 1, *v.shape[axis:]]) for v in values]
    out = it.b.concat(parts, axis)
    if out.known is None:
        out.known = bounds.union(*(v.bounds for v in values))
    return out


@handles("Scan")
def _scan(call: Call) -> list[Any]:
    if call.version >= 9:
        return _scanned(call, call.inputs, "scan_input_directions")
    # Opset 8: a batch axis in front, and optional sequence lengths.
    lengths, *inputs = call.inputs
    if lengths is not None:
        raise call.refuse("sequence_lens is not translated", "Use opset 9 or later")
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
    trips = xs[0].shape[axes[0]]
    if trips > MAX_TRIPS or trips == 0:
        reason = f"{trips} iterations; 1 to {MAX_TRIPS} are unrolled"
        raise call.refuse(reason, "Shorten the scanned axis")
    scans: list[list[Any]] = [[] for _ in range(outs)]
    for trip in range(trips):
        items = [
            _take(it, x, trips - 1 - trip if backward else trip, a)
            for x, a, backward in zip(xs, axes, directions, strict=True)
        ]
        bind = dict(zip([v.name for v in body.input], carried + items, strict=True))
        out = call.run(body, bind, trip)
        carried = out[: len(carried)]
        for scan, item in zip(scans, out[len(carried) :], strict=True):
            scan.append(item)
    call.b.at(call.name, call.node.op_type)
    return carried + [
        stack(it, scan[::-1] if backward else scan, a)
        for scan, a, backward in zip(scans, out_axes, out_directions, strict=True)
    ]


def _take(it: Runner, value: Value, index: int, axis: int) -> Value:
    """``value[..., index, ...]`` without the axis."""
    part = it.b.slice_along(value, axis, index, 1)
    if part.known is None:
        part.known = value.bounds
    return it.b.reshape(part, [d for i, d in enumerate(value.shape) if i != axis])
