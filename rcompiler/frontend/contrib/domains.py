"""Nodes that onnxruntime reads in the standard's domain, though the standard does not have them.

Its optimiser and its model builder write SimplifiedLayerNormalization so, and LayerNormalization
below opset 17.
"""

from __future__ import annotations

from collections.abc import Iterator

import onnx
from onnx import GraphProto, ModelProto, NodeProto, helper

from rcompiler.frontend.nodes import opset_of, subgraphs

from .node import DOMAIN, OPERATORS


def in_own_domain(model: ModelProto) -> ModelProto:
    """The model with such nodes in `DOMAIN`; itself, where it has none. It is never changed."""
    opset = opset_of({o.domain: o.version for o in model.opset_import}, "")
    if not any(_is_foreign(node, opset) for node in _nodes(model.graph)):
        return model
    copy = ModelProto()
    copy.CopyFrom(model)
    for node in _nodes(copy.graph):
        if _is_foreign(node, opset):
            node.domain = DOMAIN
    if all(o.domain != DOMAIN for o in copy.opset_import):
        copy.opset_import.append(helper.make_opsetid(DOMAIN, 1))
    return copy


def _is_foreign(node: NodeProto, opset: int) -> bool:
    if node.domain not in ("", "ai.onnx") or node.op_type not in OPERATORS:
        return False
    try:
        onnx.defs.get_schema(node.op_type, opset, "")
    except onnx.defs.SchemaError:
        return True
    return False


def _nodes(graph: GraphProto) -> Iterator[NodeProto]:
    for node in graph.node:
        yield node
        for inner in subgraphs(node):
            yield from _nodes(inner)
