"""What a node of onnxruntime's domain stands for, node by node."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
from onnx import AttributeProto, FunctionProto, NodeProto

from rcompiler.errors import Gap
from rcompiler.frontend import contrib, dtypes
from rcompiler.frontend.value import Value


def body_nodes(
    node: NodeProto, given: Mapping[str, np.ndarray] | None = None
) -> tuple[list[NodeProto], int]:
    """The nodes of standard operators, with names of their own for what is between them, and the
    opset that they are of. given: the node's operands, by name.

    Raises ValueError of an operator, or of a form of it, that has none.
    """
    operands = [_operand((given or {}).get(name)) for name in node.input]
    function = contrib.contrib_body(node, operands, lambda *why: Gap(node.name, node.op_type, *why))
    if function is None:
        raise ValueError(f"{node.op_type} has no body")
    names = dict(zip(function.input, node.input, strict=False))
    names |= {name: "" for name in function.input[len(node.input) :]}
    names |= dict(zip(function.output, node.output, strict=False))
    nodes = [_renamed(inner, node, function, names) for inner in function.node]
    return nodes, function.opset_import[0].version


def _operand(array: np.ndarray | None) -> Value | None:
    """What a body may depend on: type, shape and elements."""
    if array is None:
        return None
    array = np.asarray(array)
    return Value("", array.shape, dtypes.name_of(array), const=array)


def _renamed(
    inner: NodeProto, node: NodeProto, function: FunctionProto, names: dict[str, str]
) -> NodeProto:
    copy = NodeProto()
    copy.CopyFrom(inner)
    for field in (copy.input, copy.output):
        for i, name in enumerate(field):
            field[i] = names.setdefault(name, f"{node.output[0]}.{name}") if name else ""
    del copy.attribute[:]
    copy.attribute.extend(_given(inner, node, function))
    return copy


def _given(inner: NodeProto, node: NodeProto, function: FunctionProto) -> Iterator[AttributeProto]:
    """Attributes; those that refer to one of the function are what the node gives, or its usual
    one."""
    known = {a.name: a for a in (*function.attribute_proto, *node.attribute)}
    for attribute in inner.attribute:
        if not attribute.ref_attr_name:
            yield attribute
        elif attribute.ref_attr_name in known:
            copy = AttributeProto()
            copy.CopyFrom(known[attribute.ref_attr_name])
            copy.name = attribute.name
            yield copy
