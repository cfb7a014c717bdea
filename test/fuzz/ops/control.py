"""Control flow, sequences and optionals."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from onnx import GraphProto, NodeProto, helper

from fuzz.catalog import generator
from fuzz.maker import FLOATS, Maker, Value
from rcompiler.frontend import dtypes

NUMBER = (*FLOATS, "int64", "int32")
_BODY = ("Add", "Sub", "Mul", "Max")


def _typed(name: str, dtype: str, shape: tuple[int, ...] | None) -> object:
    return helper.make_tensor_value_info(name, dtypes.to_onnx(dtype), shape)


def _names(g: Maker, count: int) -> list[str]:
    g.count += count
    return [f"b{g.count - i}" for i in range(count)]


def _combined(
    g: Maker, dtype: str, both: Sequence[str], result: str, ops: Sequence[str] = _BODY
) -> NodeProto:
    """A node of a body: of two tensors of a type that no arithmetic of old versions has, one."""
    if dtype in NUMBER:
        return helper.make_node(g.pick(ops), both, [result])
    if dtype == "bool":
        return helper.make_node(g.pick(("And", "Or")), both, [result])
    return helper.make_node("Identity", [g.pick(both)], [result])


def _truth(g: Maker, known: bool) -> Value:
    """A condition: a constant, or what a run says."""
    return g.value(["bool"], shape=()) if g.chance(0.5) else g.fixed(np.bool_(known), "bool")


@generator("If")
def branch(g: Maker, op: str) -> None:
    """Both branches read values from outside."""
    x = g.value(g.among(g.types(op, "V"), NUMBER), empty=False)
    y = g.like(x)

    def body(name: str) -> GraphProto:
        inner, out = _names(g, 2)
        nodes = [_combined(g, x.dtype, [x.name, y.name], inner),
                 _combined(g, x.dtype, [inner, x.name], out)]  # fmt: skip
        return helper.make_graph(nodes, name, [], [_typed(out, x.dtype, x.shape)])

    chosen = _truth(g, g.chance(0.5))
    g.node(op, [chosen], then_branch=body("then"), else_branch=body("else"))


@generator("Loop")
def loop(g: Maker, op: str) -> None:
    """One carried value, and perhaps a value of every step; or as many steps as a run says, up to a
    number that the model has.
    """
    x = g.value(g.among(g.types(op, "V"), NUMBER), low=-2, high=2, empty=False)
    y = g.like(x, low=-2, high=2)
    told, trips = g.chance(0.4), g.int(1, 4)
    shown = not told and g.chance(0.5)
    step, going, state, new, keep, scan = _names(g, 6)
    nodes = [_combined(g, x.dtype, [state, y.name], new, ("Add", "Sub", "Max")),
             helper.make_node("Identity", [going], [keep])]  # fmt: skip
    results = [_typed(keep, "bool", ()), _typed(new, x.dtype, x.shape)]
    if shown:
        nodes.append(_combined(g, x.dtype, [new, y.name], scan))
        results.append(_typed(scan, x.dtype, x.shape))
    inputs = [_typed(step, "int64", ()), _typed(going, "bool", ()), _typed(state, x.dtype, x.shape)]
    body = helper.make_graph(nodes, "body", inputs, results)
    count = g.fixed(np.array(trips))
    flag = g.fixed(np.bool_(True), "bool") if g.chance(0.5) else None
    if told:
        given = g.value(["int64"], shape=(), low=-1, high=5)
        (count,), flag = g.node("Min", [given, count]), _truth(g, True)
    g.node(op, [count, flag, x], 2 if shown else 1, body=body)


@generator("Scan")
def scan(g: Maker, op: str) -> None:
    types = g.among(g.types(op, "V"), NUMBER)
    xs = g.value(types, rank=(1, 3), low=-2, high=2, empty=False)
    axis = g.int(0, xs.rank - 1)
    rest = tuple(d for i, d in enumerate(xs.shape) if i != axis)
    first = g.value([xs.dtype], shape=rest, low=-2, high=2)
    state, item, new, shown = _names(g, 4)
    nodes = [_combined(g, xs.dtype, [state, item], new, ("Add", "Sub", "Min")),
             _combined(g, xs.dtype, [new, item], shown)]  # fmt: skip
    both = [_typed(n, xs.dtype, rest) for n in (state, item)]
    made = [_typed(n, xs.dtype, rest) for n in (new, shown)]
    body = helper.make_graph(nodes, "body", both, made)
    g.node(op, [first, xs], 2, body=body, num_scan_inputs=1,
           scan_input_axes=[axis] if axis or g.chance(0.5) else None,
           scan_input_directions=g.pick([None, [0], [1]]),
           scan_output_axes=g.pick([None, [g.int(0, len(rest))]]),
           scan_output_directions=g.pick([None, [0], [1]]))  # fmt: skip


def _items(g: Maker) -> list[str]:
    """Types of tensors in sequences."""
    return g.among(g.types("SequenceConstruct", "T"), NUMBER)


def _sequence(g: Maker, least: int = 1) -> tuple[Value, list[Value]]:
    """A sequence of tensors of one type and shape, and they. The standard has none of bfloat16."""
    x = g.value(_items(g), rank=(1, 3), empty=False)
    items = [x, *(g.like(x) for _ in range(g.int(least - 1, 2)))]
    return g.node("SequenceConstruct", items)[0], items


@generator("SequenceConstruct", "ConcatFromSequence")
def joined(g: Maker, op: str) -> None:
    sequence, items = _sequence(g)
    new = g.int(0, 1)
    axis = g.int(0, items[0].rank - 1 + new)
    g.node("ConcatFromSequence", [sequence], axis=axis, new_axis=new,
           kind=items[0].dtype)  # fmt: skip


@generator("SequenceAt", "SequenceErase", "SequenceInsert", "SequenceLength")
def accessed(g: Maker, op: str) -> None:
    sequence, items = _sequence(g, least=2)
    place = g.int(0, len(items) - 1) - g.pick([0, len(items)])
    at = g.fixed(np.array(place), g.pick(["int64", "int32"]))
    if op == "SequenceLength":
        g.node(op, [sequence])
        return
    if op == "SequenceErase":
        (sequence,) = g.node(op, [sequence, at])
    elif op == "SequenceInsert":
        (sequence,) = g.node(op, [sequence, g.like(items[0]), at])
    place = at if op == "SequenceAt" else g.fixed(np.array(0))
    g.node("SequenceAt", [sequence, place], kind=items[0].dtype)


@generator("SequenceEmpty")
def empty(g: Maker, op: str) -> None:
    x = g.value(_items(g), rank=(1, 3), empty=False)
    (sequence,) = g.node(op, [], dtype=dtypes.to_onnx(x.dtype))
    (sequence,) = g.node("SequenceInsert", [sequence, x])
    g.node("SequenceAt", [sequence, g.fixed(np.array(0))], kind=x.dtype)


@generator("SplitToSequence")
def parted(g: Maker, op: str) -> None:
    x = g.value(g.among(g.types(op), NUMBER), rank=(1, 3), empty=False)
    axis = g.int(0, x.rank - 1)
    split = g.fixed(np.array(g.int(1, x.shape[axis]))) if g.chance(0.6) else None
    (sequence,) = g.node(op, [x, split], axis=axis, keepdims=g.pick([None, 0, 1]))
    g.node("SequenceAt", [sequence, g.fixed(np.array(0))], kind=x.dtype)


@generator("SequenceMap")
def mapped(g: Maker, op: str) -> None:
    """Perhaps beside a tensor that every item meets."""
    sequence, items = _sequence(g)
    item, other, out = _names(g, 3)
    dtype, shape = items[0].dtype, items[0].shape
    more = [g.like(items[0])] if dtype not in NUMBER or g.chance(0.5) else []
    inputs = [_typed(item, dtype, shape)]
    if more:
        inputs.append(_typed(other, dtype, shape))
        node = _combined(g, dtype, [item, other], out)
    else:
        node = helper.make_node(g.pick(("Neg", "Abs")), [item], [out])
    body = helper.make_graph([node], "body", inputs, [_typed(out, dtype, shape)])
    (made,) = g.node(op, [sequence, *more], body=body)
    g.node("SequenceAt", [made, g.fixed(np.array(len(items) - 1))], kind=dtype)


@generator("Optional", "OptionalGetElement", "OptionalHasElement")
def optional(g: Maker, op: str) -> None:
    """The standard has no optional of bfloat16."""
    x = g.value(g.among(g.types("Optional", "V"), NUMBER))
    held = x if op != "Optional" and g.chance(0.4) else g.node("Optional", [x])[0]
    if op == "OptionalHasElement":
        g.node(op, [held])
    else:
        g.node("OptionalGetElement", [held], kind=x.dtype)
