"""Sequences and optionals: removed while compiling."""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx import NodeProto

from .builder import Value
from .control import (
    OptionalValue,
    SequenceValue,
    _axis,
    _handles,
    _known,
    _refuse,
    _sequence,
    _stack,
    attribute,
)
from .frame import Frame, Runner


def _position(name: str, node: NodeProto, value: Any, length: int, default: int) -> int:
    """A constant position in a sequence, negative ones counted from the end."""
    if value is None:
        return default
    at = int(_known(name, node, value, "the position").reshape(()))
    at = at + length if at < 0 else at
    if not 0 <= at <= length:
        raise _refuse(
            name, node, f"position {at} is outside a sequence of {length}", "Check the model"
        )
    return at


def _tensor(name: str, node: NodeProto, value: Any) -> Value:
    if not isinstance(value, Value):
        raise _refuse(name, node, "only tensors are kept in sequences", "Check the model")
    return value


@_handles("SequenceConstruct", "SequenceEmpty")
def _construct(
    it: Runner, node: NodeProto, inputs: list[Any], name: str, frame: Frame
) -> list[Any]:
    return [SequenceValue(tuple(_tensor(name, node, value) for value in inputs))]


@_handles("SequenceInsert", "SequenceErase", "SequenceAt", "SequenceLength")
def _access(it: Runner, node: NodeProto, inputs: list[Any], name: str, frame: Frame) -> list[Any]:
    items = list(_sequence(name, node, inputs[0]))
    second = inputs[1] if len(inputs) > 1 else None
    if node.op_type == "SequenceLength":
        return [it.b.constant(len(items), "int64")]
    if node.op_type == "SequenceInsert":
        third = inputs[2] if len(inputs) > 2 else None
        at = _position(name, node, third, len(items), len(items))
        items.insert(at, _tensor(name, node, second))
        return [SequenceValue(tuple(items))]
    at = _position(name, node, second, len(items), len(items) - 1)
    if at >= len(items):
        raise _refuse(name, node, "the sequence is empty there", "Check the model")
    if node.op_type == "SequenceAt":
        return [items[at]]
    del items[at]
    return [SequenceValue(tuple(items))]


@_handles("ConcatFromSequence")
def _concat(it: Runner, node: NodeProto, inputs: list[Any], name: str, frame: Frame) -> list[Any]:
    items = _sequence(name, node, inputs[0])
    if not items:
        raise _refuse(name, node, "the sequence is empty", "Check the model")
    axis, new = attribute(node, "axis", 0), attribute(node, "new_axis", 0)
    axis = _axis(name, node, axis, items[0].rank + bool(new))
    joined = range(0) if new else (axis,)
    rests = {
        (v.dtype, v.rank, *(n for d, n in enumerate(v.shape) if d not in joined)) for v in items
    }
    if len(rests) > 1:
        raise _refuse(name, node, "the tensors differ outside the joined axis", "Check the model")
    it.b.at(name, node.op_type)
    return [_stack(it, items, axis) if new else it.b.concat(items, axis)]


@_handles("SplitToSequence")
def _split(it: Runner, node: NodeProto, inputs: list[Any], name: str, frame: Frame) -> list[Any]:
    value: Value = inputs[0]
    axis = _axis(name, node, attribute(node, "axis", 0), value.rank)
    keep, length = attribute(node, "keepdims", 1), value.shape[axis]
    sizes = [1] * length
    if len(inputs) > 1 and inputs[1] is not None:
        split, keep = _known(name, node, inputs[1], "the split"), 1
        sizes = [int(x) for x in split.reshape(-1)]
        if split.ndim == 0:
            step = max(sizes[0], 1)
            sizes = [min(step, length - at) for at in range(0, length, step)]
    if sum(sizes) != length or min(sizes, default=0) < 0:
        raise _refuse(name, node, f"parts {sizes} do not add up to {length}", "Check the model")
    it.b.at(name, node.op_type)
    parts, at = [], 0
    for size in sizes:
        starts = [at if i == axis else 0 for i in range(value.rank)]
        shape = [size if i == axis else d for i, d in enumerate(value.shape)]
        part = it.b.slice(value, starts, shape)
        parts.append(part if keep else it.b.reshape(part, shape[:axis] + shape[axis + 1 :]))
        at += size
    return [SequenceValue(tuple(parts))]


@_handles("SequenceMap")
def _map(it: Runner, node: NodeProto, inputs: list[Any], name: str, frame: Frame) -> list[Any]:
    body = attribute(node, "body")
    names = [v.name for v in body.input]
    lengths = {len(_sequence(name, node, v)) for v in inputs if isinstance(v, SequenceValue)}
    if len(lengths) != 1 or len(names) != len(inputs):
        raise _refuse(name, node, "its sequences or its body do not match", "Check the model")
    [length] = lengths
    results = []
    for i in range(length):
        items = [_sequence(name, node, v)[i] if isinstance(v, SequenceValue) else v for v in inputs]
        bind = dict(zip(names, items, strict=True))
        results.append(it.graph(body, bind, frame, f"{name}/{i}/"))
    return [SequenceValue(tuple(column)) for column in zip(*results, strict=True)]


@_handles("Optional", "OptionalHasElement", "OptionalGetElement")
def _optional(it: Runner, node: NodeProto, inputs: list[Any], name: str, frame: Frame) -> list[Any]:
    value = inputs[0] if inputs else None
    if node.op_type == "Optional":
        return [OptionalValue(value)]
    held = value.item if isinstance(value, OptionalValue) else value
    if node.op_type == "OptionalHasElement":
        return [it.b.constant(np.array(held is not None), "bool")]
    if held is None:
        raise _refuse(name, node, "the optional is empty", "Check the model")
    return [held]
