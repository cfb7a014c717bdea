"""A node as an older version of its operator has it: what are inputs now were attributes then."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

import numpy as np
import onnx
from onnx import AttributeProto, ModelProto, NodeProto, TensorProto, helper, numpy_helper
from onnx.defs import OpSchema

_RENAMED = {"constant_value": "value", "K": "k"}  # inputs, and the attributes that they were
_KINDS = OpSchema.AttrType


class NoForm(Exception):
    """The older version has nothing for what a node has."""


@cache
def versions_of(op: str, domain: str) -> tuple[int, ...]:
    """Those in which the definition changed, the oldest first; deprecated ones left out."""
    return tuple(
        sorted(
            schema.since_version
            for schema in onnx.defs.get_all_schemas_with_history()
            if (schema.name, schema.domain) == (op, domain) and not schema.deprecated
        )
    )


def with_opset(model: ModelProto, domain: str, version: int) -> ModelProto:
    """The model with another version of a domain, each of its nodes in the form of that version.

    Raises NoForm where one has none, or the whole is no valid model.
    """
    made = ModelProto()
    made.CopyFrom(model)
    opsets = {opset.domain: opset.version for opset in model.opset_import}
    constants = {tensor.name: tensor for tensor in model.graph.initializer}
    for node in made.graph.node:
        if node.domain == domain:
            _change(node, opsets[domain], version, constants)
    for opset in made.opset_import:
        if opset.domain == domain:
            opset.version = version
    made.ir_version = 4 if domain == "" and version < 10 else model.ir_version
    read = {name for node in made.graph.node for name in node.input}
    for fields in (made.graph.initializer, made.graph.input):
        for value in [value for value in fields if value.name not in read]:
            fields.remove(value)
    try:
        onnx.checker.check_model(made, full_check=True)
    except Exception as error:  # of the checker, of shape inference, or of C++
        raise NoForm(str(error)) from None
    return made


def _change(node: NodeProto, newer: int, older: int, constants: Mapping[str, TensorProto]) -> None:
    now, then = _schema(node, newer), _schema(node, older)
    if now.since_version == then.since_version:
        return
    names = [formal.name for formal in then.inputs]
    inputs = list(node.input)
    variadic = bool(then.inputs) and (
        then.inputs[-1].option == OpSchema.FormalParameterOption.Variadic
    )
    if not variadic:
        placed: dict[str, str] = {}
        for formal, name in zip(now.inputs, inputs, strict=False):
            was = _RENAMED.get(formal.name, formal.name)
            if formal.name in names:
                placed[formal.name] = name
            elif name and was in then.attributes:
                node.attribute.append(_attribute(was, then.attributes[was], constants.get(name)))
            elif name:
                raise NoForm(f"'{formal.name}'")
        del node.input[:]
        node.input.extend(placed.get(name, "") for name in names)
        while node.input and not node.input[-1]:
            del node.input[-1]
    for attribute in list(node.attribute):
        if attribute.name not in then.attributes:
            if not is_usual(now, attribute):
                raise NoForm(f"attribute '{attribute.name}'")
            node.attribute.remove(attribute)


def _schema(node: NodeProto, version: int) -> OpSchema:
    try:
        return onnx.defs.get_schema(node.op_type, version, node.domain)
    except onnx.defs.SchemaError:
        raise NoForm(f"{node.op_type} has no version {version}") from None


def is_usual(schema: OpSchema, attribute: AttributeProto) -> bool:
    """Whether it says what an attribute that is left out says."""
    known = schema.attributes.get(attribute.name)
    if known is None or not known.default_value.name:
        return False
    usual = helper.get_attribute_value(known.default_value)
    return bool(helper.get_attribute_value(attribute) == usual)


def _attribute(name: str, known: OpSchema.Attribute, tensor: TensorProto | None) -> AttributeProto:
    if tensor is None:
        raise NoForm(f"'{name}' is known at run time only")
    array = np.asarray(numpy_helper.to_array(tensor))
    flat = array.reshape(-1).tolist()
    if known.type in (_KINDS.INTS, _KINDS.FLOATS):
        return helper.make_attribute(name, flat, attr_type=known.type.value)
    if known.type not in (_KINDS.INT, _KINDS.FLOAT) or len(flat) != 1:
        raise NoForm(f"'{name}'")
    value = float(flat[0]) if known.type == _KINDS.FLOAT else int(flat[0])
    return helper.make_attribute(name, value)
