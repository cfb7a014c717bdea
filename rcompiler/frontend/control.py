"""What is decided while compiling: control flow, sequences, optionals, constants.

Trip counts and conditions have to be known; bodies are run once per iteration. Sequences and
optionals exist only as Python objects and leave no trace in the IR.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from onnx import AttributeProto, GraphProto, NodeProto, helper

from rcompiler.errors import Gap, UnsupportedOp

from . import bounds, dtypes, load, registry
from .builder import Value
from .frame import Frame, Runner
from .nodes import opset_of

Handler = Callable[[Runner, NodeProto, list[Any], str, Frame], list[Any]]
MAX_TRIPS = 4096


@dataclass(frozen=True)
class SequenceValue:
    """A sequence of known length."""

    items: tuple[Value, ...]


@dataclass(frozen=True)
class OptionalValue:
    """An optional that is known to hold a value (tensor or sequence) or nothing."""

    item: Any


@dataclass(frozen=True)
class Unknown:
    """A value about which nothing is known: what follows a gap that is listed already, or with
    ``gap``, a result that its node's translation does not make, which matters only when read."""

    gap: Gap | None = None


_TABLE: dict[str, Handler] = {}


def _handles(*ops: str) -> Callable[[Handler], Handler]:
    def register(fn: Handler) -> Handler:
        _TABLE.update(dict.fromkeys(ops, fn))
        return fn

    return register


def find(node: NodeProto) -> Handler | None:
    """The handler of a node that is not an op on tensors."""
    return _TABLE.get(node.op_type) if node.domain in ("", "ai.onnx") else None


def attribute(node: NodeProto, name: str, default: Any = None) -> Any:
    """Value of a node's attribute."""
    for item in node.attribute:
        if item.name == name:
            return item.g if item.type == AttributeProto.GRAPH else helper.get_attribute_value(item)
    return default


def _refuse(
    name: str, node: NodeProto, reason: str, remedy: str, needs: tuple[str, ...] = ()
) -> UnsupportedOp:
    return UnsupportedOp(Gap(name, node.op_type, reason, remedy, needs=needs))


def _known(name: str, node: NodeProto, value: Any, what: str) -> np.ndarray:
    if not isinstance(value, Value) or value.const is None:
        raise _refuse(name, node, *registry.run_time_value(what, value))
    return value.const


def _sequence(name: str, node: NodeProto, value: Any) -> tuple[Value, ...]:
    if isinstance(value, OptionalValue):
        value = value.item
    if not isinstance(value, SequenceValue):
        raise _refuse(name, node, "the operand is no sequence", "Build one with SequenceConstruct")
    return value.items


def _axis(name: str, node: NodeProto, axis: int, rank: int) -> int:
    if not -rank <= axis < rank:
        raise _refuse(name, node, f"axis {axis} is outside rank {rank}", "Check the model")
    return axis % rank


# -- constants and identity -----------------------------------------------------------------
@_handles("Constant")
def _constant(it: Runner, node: NodeProto, inputs: list[Any], name: str, frame: Frame) -> list[Any]:
    if len(node.attribute) != 1:
        raise _refuse(name, node, "a constant needs one value attribute", "Check the model")
    item = node.attribute[0]
    value = helper.get_attribute_value(item)
    if item.name in ("value", "sparse_value"):
        array = load.array_of(value)
    elif item.name in ("value_float", "value_floats"):
        array = np.array(value, np.float32)
    elif item.name in ("value_int", "value_ints"):
        array = np.array(value, np.int64)
    else:
        raise _refuse(name, node, *load.untranslated("string")[:2])
    return [it.b.constant_view(array, dtypes.name_of(array))]


@_handles("Identity")
def _identity(it: Runner, node: NodeProto, inputs: list[Any], name: str, frame: Frame) -> list[Any]:
    return inputs[:1]


# -- control flow ---------------------------------------------------------------------------
@_handles("If")
def _if(it: Runner, node: NodeProto, inputs: list[Any], name: str, frame: Frame) -> list[Any]:
    condition = _known(name, node, inputs[0], "the condition")
    branch = "then_branch" if bool(np.all(condition)) else "else_branch"
    return it.graph(attribute(node, branch), {}, frame, f"{name}/")


@_handles("Loop")
def _loop(it: Runner, node: NodeProto, inputs: list[Any], name: str, frame: Frame) -> list[Any]:
    body: GraphProto = attribute(node, "body")
    count, condition = (inputs + [None, None])[:2]
    trips = None if count is None else int(_known(name, node, count, "the trip count").reshape(()))
    go_on = condition is None or bool(np.all(_known(name, node, condition, "the condition")))
    carried = list(inputs[2:])
    scans: list[list[Any]] = [[] for _ in body.output[1 + len(carried) :]]
    trip = 0
    while go_on and (trips is None or trip < trips):
        if trip >= MAX_TRIPS:
            raise _refuse(name, node, f"more than {MAX_TRIPS} iterations", "Lower the trip count")
        first = [it.b.constant(trip, "int64"), it.b.constant(True, "bool")]
        bind = dict(zip([v.name for v in body.input], first + carried, strict=False))
        out = it.graph(body, bind, frame, f"{name}/{trip}/")
        go_on = bool(np.all(_known(name, node, out[0], "the loop's condition")))
        carried = out[1 : 1 + len(carried)]
        for scan, item in zip(scans, out[1 + len(carried) :], strict=True):
            scan.append(item)
        trip += 1
    it.b.at(name, node.op_type)
    if trip == 0 and scans:
        shapes = [v.type.tensor_type for v in body.output[1 + len(carried) :]]
        return carried + [_empty_scan(it, name, node, t) for t in shapes]
    return carried + [_stack(it, scan, 0) for scan in scans]


def _empty_scan(it: Runner, name: str, node: NodeProto, kind: Any) -> Value:
    dims = [d.dim_value for d in kind.shape.dim if d.HasField("dim_value")]
    dtype = dtypes.from_onnx(kind.elem_type)
    if len(dims) != len(kind.shape.dim) or not dtypes.is_supported(dtype):
        raise _refuse(
            name,
            node,
            "a loop without iterations whose scan output has no static shape",
            "Remove the loop",
        )
    return it.b.constant(np.zeros([0, *dims], dtypes.numpy_dtype(dtype)), dtype)


def _stack(it: Runner, values: Sequence[Value], axis: int) -> Value:
    """Concatenate along a new axis."""
    rank = values[0].rank + 1
    axis = axis % rank
    parts = [it.b.reshape(v, [*v.shape[:axis], 1, *v.shape[axis:]]) for v in values]
    out = it.b.concat(parts, axis)
    if out.known is None:
        out.known = bounds.union(*(v.bounds for v in values))
    return out


@_handles("Scan")
def _scan(it: Runner, node: NodeProto, inputs: list[Any], name: str, frame: Frame) -> list[Any]:
    if opset_of(frame.opsets, "") >= 9:
        return _scanned(it, node, inputs, name, frame, "scan_input_directions")
    # Opset 8: a batch axis in front, and optional sequence lengths.
    if inputs[0] is not None:
        raise _refuse(name, node, "sequence_lens is not translated", "Use opset 9 or later")
    batches = [
        _scanned(it, node, [_take(it, v, n, 0) for v in inputs[1:]], name, frame, "directions")
        for n in range(inputs[1].shape[0])
    ]
    return [_stack(it, column, 0) for column in zip(*batches, strict=True)]


def _scanned(
    it: Runner,
    node: NodeProto,
    inputs: list[Any],
    name: str,
    frame: Frame,
    directions_name: str,
) -> list[Any]:
    """The body once per position of the scanned axes."""
    body: GraphProto = attribute(node, "body")
    count = attribute(node, "num_scan_inputs")
    carried, xs = list(inputs[: len(inputs) - count]), inputs[len(inputs) - count :]
    outs = len(body.output) - len(carried)
    axes = list(attribute(node, "scan_input_axes", [0] * count))
    directions = list(attribute(node, directions_name, [0] * count))
    out_axes = list(attribute(node, "scan_output_axes", [0] * outs))
    out_directions = list(attribute(node, "scan_output_directions", [0] * outs))
    axes = [_axis(name, node, a, x.rank) for a, x in zip(axes, xs, strict=True)]
    trips = xs[0].shape[axes[0]]
    if trips > MAX_TRIPS or trips == 0:
        raise _refuse(
            name,
            node,
            f"{trips} iterations; 1 to {MAX_TRIPS} are unrolled",
            "Shorten the scanned axis",
        )
    scans: list[list[Any]] = [[] for _ in range(outs)]
    for trip in range(trips):
        items = [
            _take(it, x, trips - 1 - trip if backward else trip, a)
            for x, a, backward in zip(xs, axes, directions, strict=True)
        ]
        bind = dict(zip([v.name for v in body.input], carried + items, strict=True))
        out = it.graph(body, bind, frame, f"{name}/{trip}/")
        carried = out[: len(carried)]
        for scan, item in zip(scans, out[len(carried) :], strict=True):
            scan.append(item)
    it.b.at(name, node.op_type)
    return carried + [
        _stack(it, scan[::-1] if backward else scan, a)
        for scan, a, backward in zip(scans, out_axes, out_directions, strict=True)
    ]


def _take(it: Runner, value: Value, index: int, axis: int) -> Value:
    """``value[..., index, ...]`` without the axis."""
    starts = [index if i == axis else 0 for i in range(value.rank)]
    sizes = [1 if i == axis else d for i, d in enumerate(value.shape)]
    part = it.b.slice(value, starts, sizes)
    if part.known is None:
        part.known = value.bounds
    return it.b.reshape(part, [d for i, d in enumerate(value.shape) if i != axis])
