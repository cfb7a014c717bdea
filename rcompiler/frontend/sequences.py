"""Sequences and optionals: removed while compiling."""

from __future__ import annotations

from typing import Any

import numpy as np

from .builder import Value
from .control import handles, stack
from .frame import Call, OptionalValue, SequenceValue


def _position(call: Call, value: Any, length: int, default: int) -> int:
    """A constant position in a sequence, negative ones counted from the end."""
    if value is None:
        return default
    at = int(call.known(value, "the position").reshape(()))
    at = at + length if at < 0 else at
    if not 0 <= at <= length:
        raise call.refuse(f"position {at} is outside a sequence of {length}")
    return at


def _tensor(call: Call, value: Any) -> Value:
    if not isinstance(value, Value):
        raise call.refuse("only tensors are kept in sequences")
    return value


@handles("SequenceConstruct", "SequenceEmpty")
def _construct(call: Call) -> list[Any]:
    return [SequenceValue(tuple(_tensor(call, value) for value in call.inputs))]


@handles("SequenceInsert", "SequenceErase", "SequenceAt", "SequenceLength")
def _access(call: Call) -> list[Any]:
    op, items = call.node.op_type, list(call.sequence(call.inputs[0]))
    if op == "SequenceLength":
        return [call.b.constant(len(items), "int64")]
    if op == "SequenceInsert":
        at = _position(call, call.optional(2), len(items), len(items))
        items.insert(at, _tensor(call, call.optional(1)))
        return [SequenceValue(tuple(items))]
    at = _position(call, call.optional(1), len(items), len(items) - 1)
    if at >= len(items):
        raise call.refuse("the sequence is empty there")
    if op == "SequenceAt":
        return [items[at]]
    del items[at]
    return [SequenceValue(tuple(items))]


@handles("ConcatFromSequence")
def _concat(call: Call) -> list[Any]:
    items = call.sequence(call.inputs[0])
    if not items:
        raise call.refuse("the sequence is empty")
    new = call.attr("new_axis", 0)
    axis = call.axis(call.attr("axis", 0), items[0].rank + bool(new))
    joined = range(0) if new else (axis,)
    rests = {
        (v.dtype, v.rank, *(n for d, n in enumerate(v.shape) if d not in joined)) for v in items
    }
    if len(rests) > 1:
        raise call.refuse("the tensors differ outside the joined axis")
    call.b.at(call.name, call.node.op_type)
    return [stack(call.it, items, axis) if new else call.b.concat(items, axis)]


@handles("SplitToSequence")
def _split(call: Call) -> list[Any]:
    """Parts along an axis, which `keepdims=0` drops where each of them has one element of it.

    The standard ignores `keepdims` wherever a split is given. Beside a scalar onnxruntime does not,
    and PyTorch's exporter writes a split of 1 and `keepdims=0` for `unbind`. Of longer parts, and
    of those in a list, both say nothing else than the standard.
    """
    b, value = call.b, call.inputs[0]
    axis = call.axis(call.attr("axis", 0), value.rank)
    keep, length = call.attr("keepdims", 1), value.shape[axis]
    sizes = [1] * length
    if call.optional(1) is not None:
        split = call.known(call.inputs[1], "the split")
        sizes = [int(x) for x in split.reshape(-1)]
        if split.ndim == 0:
            step = max(sizes[0], 1)
            sizes = [min(step, length - at) for at in range(0, length, step)]
        keep = keep or split.ndim > 0 or max(sizes, default=1) > 1
    if sum(sizes) != length or min(sizes, default=0) < 0:
        raise call.refuse(f"parts {sizes} do not add up to {length}")
    b.at(call.name, call.node.op_type)
    rest = [*value.shape[:axis], *value.shape[axis + 1 :]]
    parts = b.split(value, axis, sizes)
    return [SequenceValue(tuple(part if keep else b.reshape(part, rest) for part in parts))]


@handles("SequenceMap")
def _map(call: Call) -> list[Any]:
    body, inputs = call.attr("body"), call.inputs
    names = [v.name for v in body.input]
    lengths = {len(v.items) for v in inputs if isinstance(v, SequenceValue)}
    if len(lengths) != 1 or len(names) != len(inputs):
        raise call.refuse("its sequences or its body do not match")
    [length] = lengths
    results = []
    for i in range(length):
        items = [v.items[i] if isinstance(v, SequenceValue) else v for v in inputs]
        results.append(call.run(body, dict(zip(names, items, strict=True)), i))
    return [SequenceValue(tuple(column)) for column in zip(*results, strict=True)]


@handles("Optional", "OptionalHasElement", "OptionalGetElement")
def _optional(call: Call) -> list[Any]:
    value = call.optional(0)
    if call.node.op_type == "Optional":
        return [OptionalValue(value)]
    held = value.item if isinstance(value, OptionalValue) else value
    if call.node.op_type == "OptionalHasElement":
        return [call.b.constant(np.array(held is not None), "bool")]
    if held is None:
        raise call.refuse("the optional is empty")
    return [held]
