"""A node as an older version of its operator has it: what are inputs now were attributes then."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache

import numpy as np
import onnx
from onnx import AttributeProto, ModelProto, NodeProto, TensorProto, helper, numpy_helper
from onnx.defs import OpSchema

from .spellings import NoForm, spelled

# Inputs, and what they were: attributes, or inputs of another name.
_RENAMED = {"constant_value": "value", "K": "k", "input_mean": "mean", "input_var": "var"}
_PADS = {("Pad", 1): "paddings"}
# What a version does that has no attribute to say so.
_IMPLIED = {
    ("Resize", 10): {"coordinate_transformation_mode": b"asymmetric", "nearest_mode": b"floor"}
}
_KINDS = OpSchema.AttrType


class NotValid(NoForm):
    """The onnx package does not take the older form. reason: what it says, without the node."""

    @property
    def reason(self) -> str:
        return re.split(r"\): |\] ", str(self))[-1].strip()


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

    Raises NoForm where one has none, NotValid where the whole is no valid model.
    """
    made = ModelProto()
    made.CopyFrom(model)
    opsets = {opset.domain: opset.version for opset in model.opset_import}
    hold_constants(made)
    constants = {tensor.name: tensor for tensor in made.graph.initializer}
    for node in made.graph.node:
        if node.domain == domain:
            _change(made, node, opsets[domain], version, constants)
            if domain == "":
                spelled(made, node, version)
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
        raise NotValid(str(error)) from None
    return made


def hold_constants(model: ModelProto) -> None:
    """Constants of nodes as initializers: what becomes an attribute must be one, and the first
    version of Constant has few types.
    """
    nodes = list(model.graph.node)
    held = [n for n in nodes if n.op_type == "Constant" and n.attribute[0].name == "value"]
    if len(held) == len(nodes):
        return  # a graph of nothing else
    for node in held:
        tensor = model.graph.initializer.add()
        tensor.CopyFrom(node.attribute[0].t)
        tensor.name = node.output[0]
        model.graph.node.remove(node)


def _change(
    model: ModelProto,
    node: NodeProto,
    newer: int,
    older: int,
    constants: Mapping[str, TensorProto],
) -> None:
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
            was = formal.name if formal.name in names else _RENAMED.get(formal.name, formal.name)
            if formal.name == "pads":
                was = _PADS.get((node.op_type, older), was)
            if was in names and was not in then.attributes:
                placed[was] = name
            elif name and formal.name == "repeats" and "tiles" in names:
                placed |= _of_one_axis(model, node.op_type, inputs[0], constants.get(name))
            elif name and formal.name == "scales" and "width_scale" in then.attributes:
                node.attribute.extend(_apart(constants.get(name)))
            elif name and was in then.attributes:
                node.attribute.append(_attribute(was, then.attributes[was], constants.get(name)))
            elif name:
                raise NoForm(f"'{formal.name}'")
        del node.input[:]
        node.input.extend(placed.get(name, "") for name in names)
        while node.input and not node.input[-1]:
            del node.input[-1]
    implied = _IMPLIED.get((node.op_type, then.since_version), {})
    for attribute in list(node.attribute):
        known = then.attributes.get(attribute.name)
        if known is None:
            value = helper.get_attribute_value(attribute)
            if not (is_usual(now, attribute) or implied.get(attribute.name) == value):
                raise NoForm(f"attribute '{attribute.name}'")
            node.attribute.remove(attribute)
        elif known.type.value != attribute.type:
            attribute.CopyFrom(_of_kind(attribute, known.type))


def _of_one_axis(
    model: ModelProto, op: str, data: str, repeats: TensorProto | None
) -> dict[str, str]:
    """Copies along one axis: how many, and which, both scalars of the type of the data."""
    if repeats is None:
        raise NoForm("'repeats' is known at run time only")
    kinds = {v.name: v.type.tensor_type.elem_type for v in model.graph.input}
    kinds |= {tensor.name: tensor.data_type for tensor in model.graph.initializer}
    times = numpy_helper.to_array(repeats).tolist()
    axes = [axis for axis, count in enumerate(times) if count != 1]
    if len(axes) != 1 or data not in kinds:
        raise NoForm(f"{op} along one axis only")
    dtype = helper.tensor_dtype_to_np_dtype(kinds[data])
    scalars = {"tiles": times[axes[0]], "axis": axes[0]}
    for name, value in scalars.items():
        array = np.asarray(value).astype(dtype)
        model.graph.initializer.append(numpy_helper.from_array(array, f"{repeats.name}.{name}"))
    return {name: f"{repeats.name}.{name}" for name in scalars}


def _apart(scales: TensorProto | None) -> list[AttributeProto]:
    """Factors of images' axes, which were attributes of their own."""
    if scales is None:
        raise NoForm("factors are known at run time only")
    *_, height, width = numpy_helper.to_array(scales).tolist()
    given = {"height_scale": height, "width_scale": width}
    return [helper.make_attribute(name, value) for name, value in given.items()]


def _schema(node: NodeProto, version: int) -> OpSchema:
    try:
        return onnx.defs.get_schema(node.op_type, version, node.domain)
    except onnx.defs.SchemaError:
        raise NoForm(f"{node.op_type} has no version {version}") from None


def is_usual(schema: OpSchema, attribute: AttributeProto) -> bool:
    """Whether it says what an attribute that is left out says."""
    known = schema.attributes.get(attribute.name)
    if attribute.name == "dilations":
        return set(attribute.ints) <= {1}
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


def _of_kind(attribute: AttributeProto, kind: OpSchema.AttrType) -> AttributeProto:
    """The same of another type: numbers were floats, and types of elements names."""
    value = helper.get_attribute_value(attribute)
    if attribute.name == "to" and kind == _KINDS.STRING:
        return helper.make_attribute("to", TensorProto.DataType.Name(value))
    if kind == _KINDS.FLOAT and isinstance(value, int):
        return helper.make_attribute(attribute.name, float(value))
    raise NoForm(f"attribute '{attribute.name}' of another type")
