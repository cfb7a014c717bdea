"""What old versions of operators say that no later one does: attributes, and tensors of fewer axes.

The meaning is that of the newest form, which the node is written from.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx
from onnx import ModelProto, NodeProto, ValueInfoProto, helper, numpy_helper


class NoForm(Exception):
    """The older version has nothing for what a node has."""


Write = Callable[[ModelProto, NodeProto, str], None]
_WRITERS: dict[str, Write] = {}


def _writes(*attributes: str) -> Callable[[Write], Write]:
    """Register ``fn(model, node, attribute)``, which adds one that a version has and none after."""

    def register(fn: Write) -> Write:
        _WRITERS.update(dict.fromkeys(attributes, fn))
        return fn

    return register


def spelled(model: ModelProto, node: NodeProto, version: int) -> None:
    """Say of a node of the model what a version of its operator says and the newest does not.

    Raises NoForm.
    """
    then = onnx.defs.get_schema(node.op_type, version, node.domain)
    given = {attribute.name for attribute in node.attribute}
    for name in [n for n in _WRITERS if n in then.attributes and n not in given]:
        _WRITERS[name](model, node, name)
    for at, formal in enumerate(then.inputs):
        single = formal.option == onnx.defs.OpSchema.FormalParameterOption.Single
        if single and at < len(node.input) and not node.input[at]:
            node.input[at] = _nothing(model)  # what may be left out later had no elements


def _nothing(model: ModelProto) -> str:
    name = f"nothing{len(model.graph.initializer)}"
    model.graph.initializer.append(numpy_helper.from_array(np.zeros(0, np.float32), name))
    return name


@_writes("consumed_inputs")
def _consumed(model: ModelProto, node: NodeProto, name: str) -> None:
    """Which inputs the results may be written over: a hint for memory, of none."""
    node.attribute.append(helper.make_attribute(name, [0] * len(node.input)))


@_writes("is_test", "output_sequence")
def _as_now(model: ModelProto, node: NodeProto, name: str) -> None:
    """What later versions do where nothing is said."""
    node.attribute.append(helper.make_attribute(name, 1))


@_writes("spatial")
def _per_channel(model: ModelProto, node: NodeProto, name: str) -> None:
    """Of a matrix, statistics of elements are those of channels."""
    if len(_shape(model, node.input[0])) == 2:
        node.attribute.append(helper.make_attribute(name, 0))


@_writes("directions")
def _in_batches(model: ModelProto, node: NodeProto, name: str) -> None:
    """Scan of the eighth version: a batch in front of everything, here of one; backwards where
    its first state has an even number of elements.
    """
    for each in list(dict.fromkeys(node.input)):
        _reshape(model, each, [1, *_shape(model, each)])
    for info in model.graph.output:
        shape = [1, *(dim.dim_value for dim in info.type.tensor_type.shape.dim)]
        kind = info.type.tensor_type.elem_type
        info.CopyFrom(helper.make_tensor_value_info(info.name, kind, shape))
    even = np.prod(_shape(model, node.input[0])) % 2 == 0
    node.attribute.append(helper.make_attribute(name, [int(even)]))
    node.input.insert(0, "")


@_writes("broadcast")
def _one_way(model: ModelProto, node: NodeProto, name: str) -> None:
    """The second operand's axes are some of the first one's, one behind the other: from `axis` on,
    or the last ones.
    """
    if node.op_type == "Gemm":
        node.attribute.append(helper.make_attribute(name, 1))
        return
    first, second = (_shape(model, each) for each in node.input)
    if first == second:
        return
    start, core = _placed(first, second)
    if core != second:
        _reshape(model, node.input[1], core)
    node.attribute.append(helper.make_attribute(name, 1))
    if start + len(core) < len(first) or len(core) % 2:
        node.attribute.append(helper.make_attribute("axis", start))


def _placed(first: list[int], second: list[int]) -> tuple[int, list[int]]:
    """(axis of the first operand, extents from there on) that broadcasting leaves of the second."""
    if len(second) > len(first):
        raise NoForm("the second operand has more axes")
    start, core = len(first) - len(second), list(second)
    while core and core[-1] == 1:
        core.pop()
    while core and core[0] == 1:
        start, core = start + 1, core[1:]
    if not core:
        return len(first), core
    if first[start : start + len(core)] != core:
        raise NoForm("either operand is repeated")
    return start, core


def _info(model: ModelProto, name: str) -> ValueInfoProto | None:
    infos = (*model.graph.input, *model.graph.value_info)
    return next((info for info in infos if info.name == name), None)


def _shape(model: ModelProto, name: str) -> list[int]:
    for tensor in model.graph.initializer:
        if tensor.name == name:
            return list(tensor.dims)
    info = _info(model, name)
    if info is None:
        raise NoForm("the shape of an operand is not said")
    return [dim.dim_value for dim in info.type.tensor_type.shape.dim]


def _reshape(model: ModelProto, name: str, shape: list[int]) -> None:
    """Of an input or constant that one node reads once."""
    if sum(list(node.input).count(name) for node in model.graph.node) > 1:
        raise NoForm("another node reads the operand")
    for tensor in model.graph.initializer:
        if tensor.name == name:
            array = numpy_helper.to_array(tensor).reshape(shape)
            tensor.CopyFrom(numpy_helper.from_array(array, name))
            return
    for info in model.graph.input:
        if info.name == name:
            kind = info.type.tensor_type.elem_type
            info.CopyFrom(helper.make_tensor_value_info(name, kind, shape))
            return
    raise NoForm("the operand is a result")
