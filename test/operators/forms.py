"""What the definition of an operator has: the cells of the table that runs of it are for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import onnx
from fuzz import catalog
from fuzz.catalog import Key
from onnx import AttributeProto, ModelProto, NodeProto, helper
from onnx.defs import OpSchema

from rcompiler.frontend import contrib, dtypes

Cell = tuple[str, str]  # type, attribute or input, and which
_GRAPHS = ("GRAPH", "GRAPHS", "SPARSE_TENSOR", "TYPE_PROTO")


@dataclass(frozen=True)
class Form:
    """One version of an operator. usual: of each attribute what it is where it is left out, or
    None. optional: of each input whether it may be left out. types: of the inputs.
    """

    usual: Mapping[str, Any]
    optional: Mapping[str, bool]
    types: tuple[str, ...]

    def cells(self) -> list[Cell]:
        return [
            *(("type", each) for each in self.types),
            *(("attribute", each) for each in self.usual),
            *(("input", each) for each, optional in self.optional.items() if optional),
        ]

    def of_model(self, model: ModelProto, key: Key) -> set[Cell]:
        """The cells that the nodes of an operator in a model have."""
        kinds = {v.name: v.type.tensor_type.elem_type for v in model.graph.input}
        kinds |= {v.name: v.type.tensor_type.elem_type for v in model.graph.value_info}
        kinds |= {tensor.name: tensor.data_type for tensor in model.graph.initializer}
        nodes = [node for node in model.graph.node if (node.op_type, node.domain) == key]
        return {cell for node in nodes for cell in self._of_node(node, kinds)}

    def _of_node(self, node: NodeProto, kinds: Mapping[str, int]) -> Iterator[Cell]:
        for attribute in node.attribute:
            if _value(attribute) != self.usual.get(attribute.name):
                yield "attribute", attribute.name
        for name, formal in zip(node.input, self.optional, strict=False):
            if name:
                yield "input", formal
        for name in node.input:
            if kinds.get(name):
                yield "type", dtypes.from_onnx(kinds[name])


def _value(attribute: AttributeProto) -> Any:
    value = helper.get_attribute_value(attribute)
    return tuple(value) if isinstance(value, list) else value


@cache
def form_of(op: str, domain: str, version: int) -> Form:
    """Of the standard as the onnx package has it, of onnxruntime's domain as that says."""
    schema = schema_of(op, domain, version)
    usual = {
        name: _usual(attribute)
        for name, attribute in schema.attributes.items()
        if attribute.type.name not in _GRAPHS
    }
    option = OpSchema.FormalParameterOption.Optional.name
    optional = {formal.name: formal.option.name == option for formal in schema.inputs}
    return Form(usual, optional, _types(schema, domain))


def schema_of(op: str, domain: str, version: int) -> Any:
    """The schema of a version of an operator, of the onnx package or of onnxruntime."""
    if domain == contrib.DOMAIN:
        return _contrib_schemas()[op]
    return onnx.defs.get_schema(op, version, domain)


def _usual(attribute: Any) -> Any:
    known = getattr(attribute, "default_value", None)
    if known is None:  # as onnxruntime has it
        known = AttributeProto.FromString(attribute._default_value)
    return _value(known) if known.name else None


def _types(schema: Any, domain: str) -> tuple[str, ...]:
    allowed = {each.type_param_str: each.allowed_type_strs for each in schema.type_constraints}
    found: dict[str, None] = {}
    for formal in schema.inputs:
        name = getattr(formal, "type_str", None) or formal.typeStr
        found |= dict.fromkeys(allowed.get(name, [name]))
    names = (catalog.dtype_of(text) for text in found)
    return tuple(name for name in names if name is not None)


def has_form(op: str) -> bool:
    """Whether onnxruntime says what an operator of its domain is."""
    return op in _contrib_schemas()


@cache
def _contrib_schemas() -> dict[str, Any]:
    from onnxruntime.capi.onnxruntime_pybind11_state import get_all_operator_schema

    return {s.name: s for s in get_all_operator_schema() if s.domain == contrib.DOMAIN}
