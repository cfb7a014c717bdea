"""A model whose inputs have sizes by other names: what a session knows of them, and the file does
not say."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper

from .contrib import DOMAIN

# An axis of an input, and what of a size it is: a factor of it, and more.
Axis = tuple[str, int, int, int]
# What hands a number on to the node that wants it.
_SAME = {"Cast", "Identity", "Reshape", "Squeeze", "Unsqueeze"}
_PREFIX = "rcompiler sizes "  # no name of a model begins so


def renamed(
    model: ModelProto,
    dims: Mapping[str, Sequence[int | str]],
    sums: Mapping[str, tuple[Sequence[Axis], int]],
) -> ModelProto:
    """A copy with these dimensions.

    Args:
        model: whose weights are copied, too.
        dims: by input its dimensions: numbers, names, or sums of names.
        sums: inputs of one integer that are the sum of sizes of others and a number: they are
            computed of these, and are no inputs any more.
    """
    made = ModelProto()
    made.CopyFrom(model)
    graph = made.graph
    nodes: list[NodeProto] = []
    for value in [*graph.input]:
        if value.name in sums:
            axes, more = sums[value.name]
            tensor = value.type.tensor_type
            nodes += _sum(value.name, axes, more, tensor.elem_type, len(tensor.shape.dim))
            graph.input.remove(value)
        elif value.name in dims:
            shape = value.type.tensor_type.shape
            del shape.dim[:]
            for size in dims[value.name]:
                dim = shape.dim.add()
                if isinstance(size, int):
                    dim.dim_value = size
                else:
                    dim.dim_param = size
    if nodes:
        before = [*graph.node]
        del graph.node[:]
        graph.node.extend([*nodes, *before])
    return made


def _sum(name: str, axes: Sequence[Axis], more: int, dtype: int, rank: int) -> list[NodeProto]:
    """Nodes that compute an input: the sum of sizes and a number, as a scalar or a vector of it."""
    own = _PREFIX + name

    def constant(what: str, value: int) -> NodeProto:
        array = np.full((1,) * rank, value, np.int64)
        return helper.make_node("Constant", [], [what], value=numpy_helper.from_array(array))

    nodes, total = [], ""
    for number, (source, axis, factor, beside) in enumerate(axes):
        shape, at, size = (f"{own} {part} {number}" for part in ("shape", "axis", "size"))
        nodes.append(helper.make_node("Shape", [source], [shape]))
        nodes.append(constant(at, axis))
        nodes.append(helper.make_node("Gather", [shape, at], [size], axis=0))
        for what, op, by, none in (("beside", "Sub", beside, 0), ("factor", "Div", factor, 1)):
            if by != none:
                nodes.append(constant(f"{own} {what} {number}", by))
                made = f"{own} {op} {number}"
                nodes.append(helper.make_node(op, [size, f"{own} {what} {number}"], [made]))
                size = made
        if total:
            nodes.append(helper.make_node("Add", [total, size], [f"{own} sum {number}"]))
        total = f"{own} sum {number}" if total else size
    if more:
        nodes.append(constant(f"{own} more", more))
        nodes.append(helper.make_node("Add", [total, f"{own} more"], [f"{own} all"]))
        total = f"{own} all"
    return [*nodes, helper.make_node("Cast", [total], [name], to=dtype or TensorProto.INT64)]


def growing_totals(model: ModelProto) -> list[tuple[str, str]]:
    """Inputs that are the total length of a cache, each with the input that is the cache.

    Where such a number is more than the cache has room for, the cache of the next call is longer,
    and how long results are depends on the number.
    """
    attentions = [
        node
        for node in model.graph.node
        if node.domain == DOMAIN and node.op_type == "GroupQueryAttention" and len(node.input) > 6
    ]
    if not attentions:
        return []
    inputs = {value.name for value in model.graph.input}
    makers = {name: node for node in model.graph.node for name in node.output}

    def source(name: str) -> str:
        while name not in inputs and name in makers and makers[name].op_type in _SAME:
            name = makers[name].input[0]
        return name

    found = {(source(node.input[6]), node.input[3]) for node in attentions}
    return sorted((total, past) for total, past in found if {total, past} <= inputs)
