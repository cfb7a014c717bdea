"""Bodies of operators that ONNX defines as functions, and of model-local functions."""

from __future__ import annotations

from collections.abc import Sequence

import onnx
from onnx import (
    AttributeProto,
    FunctionProto,
    GraphProto,
    ModelProto,
    NodeProto,
    TypeProto,
    ValueInfoProto,
    helper,
)

from rcompiler.support import onnx_worker

from . import dtypes
from .builder import Value
from .contrib import DOMAIN, contrib_body, is_contrib
from .frame import Call


def has_body(node: NodeProto, version: int) -> bool:
    """Whether some form of an op has a function body at an opset version."""
    if node.domain == DOMAIN:
        return is_contrib(node.op_type)
    try:
        return _standard_body(node, version, [None] * len(node.input)) is not None
    except onnx_worker.OnnxDied:
        return False


def body_of(call: Call) -> FunctionProto | None:
    """The function body of a node, the standard's or that of `contrib`; None when it has none.

    Raises UnsupportedOp or ShapeError of a node that does not fit the body of `contrib`, and
    UnsupportedOp where the process that writes a body ends.
    """
    if call.node.domain == DOMAIN:
        return contrib_body(call.node, call.inputs, call.gap)
    try:
        return _standard_body(call.node, call.version, call.inputs)
    except onnx_worker.OnnxDied as died:
        raise call.refuse(
            f"onnx {onnx.__version__}, which writes the function of the operator, ended its "
            f"process at the node ({died.how})",
            "Export the node as operators that are no functions",
        ) from None


def _standard_body(
    node: NodeProto, version: int, inputs: Sequence[Value | None]
) -> FunctionProto | None:
    try:
        schema = onnx.defs.get_schema(node.op_type, version, node.domain)
    except onnx.defs.SchemaError:
        return None
    proto = FunctionProto()
    if schema.has_function:
        versions = [v for v in schema.function_opset_versions if v <= version]
        if not versions:
            return None
        proto.ParseFromString(schema.get_function_with_opset_version(max(versions)))
        return proto
    if not schema.has_context_dependent_function:
        return None
    versions = [v for v in schema.context_dependent_function_opset_versions if v <= version]
    if not versions:
        return None
    graph = GraphProto(node=[node])
    graph.input.extend(ValueInfoProto(type=_type(value)) for value in inputs)
    opset = helper.make_opsetid(node.domain, version)
    question = ModelProto(graph=graph, opset_import=[opset]).SerializeToString()
    try:
        status, answer = onnx_worker.asked(onnx_worker.BODY, question)
    except OSError:  # no process can be started, see `validity.check`
        status, answer = onnx_worker.answered(onnx_worker.BODY + question)
    if status:  # the standard's builder gives up on odd nodes
        return None
    proto.ParseFromString(answer)
    return proto if proto.node else None


def _type(value: Value | None) -> TypeProto:
    if not isinstance(value, Value):
        return TypeProto()
    shape = [d if isinstance(d, int) else str(d) for d in value.sizes]
    return helper.make_tensor_type_proto(dtypes.to_onnx(value.dtype), shape)


def attributes_of(
    function: FunctionProto, node: NodeProto, version: int
) -> dict[str, AttributeProto]:
    """What the body's attribute references stand for: the node's own, else the defaults."""
    out = {a.name: a for a in function.attribute_proto}
    try:
        schema = onnx.defs.get_schema(node.op_type, version, node.domain)
        for name, attribute in schema.attributes.items():
            if attribute.default_value.name:
                out.setdefault(name, attribute.default_value)
    except onnx.defs.SchemaError:
        pass  # a function of the model
    out.update({a.name: a for a in node.attribute})
    return out


def resolve(node: NodeProto, attributes: dict[str, AttributeProto]) -> NodeProto:
    """The node with attribute references replaced; the node itself when it has none."""
    if not any(a.ref_attr_name for a in node.attribute):
        return node
    out = NodeProto()
    out.CopyFrom(node)
    del out.attribute[:]
    for attribute in node.attribute:
        if not attribute.ref_attr_name:
            out.attribute.append(attribute)
        elif attribute.ref_attr_name in attributes:
            copy = out.attribute.add()
            copy.CopyFrom(attributes[attribute.ref_attr_name])
            copy.name = attribute.name
    return out
