"""Nodes whose domain onnxruntime reads otherwise than the standard does.

Its optimiser and its model builder write SimplifiedLayerNormalization, and LayerNormalization below
opset 17, in the standard's domain, which does not have them. "ai.onnx" is that domain, too; its own
domain need not be imported at all.
"""

from __future__ import annotations

from collections.abc import Iterator

import onnx
from onnx import GraphProto, ModelProto, NodeProto, helper

from rcompiler.frontend.nodes import opset_of, subgraphs

from .node import DOMAIN, OPERATORS


def in_known_domains(model: ModelProto) -> ModelProto:
    """The model with each node in the domain that it is read in, and `DOMAIN` imported where a node
    is in that; itself, where it is so. It is never changed.
    """
    imported = {o.domain for o in model.opset_import}
    opset = opset_of({o.domain: o.version for o in model.opset_import}, "")

    def domain_of(node: NodeProto) -> str:
        if _is_foreign(node, opset):
            return DOMAIN
        return "" if node.domain == "ai.onnx" and "" in imported else node.domain

    domains = [(node.domain, domain_of(node)) for node in _nodes(model.graph)]
    lacks = DOMAIN not in imported and any(read == DOMAIN for _, read in domains)
    if not lacks and all(written == read for written, read in domains):
        return model
    copy = ModelProto()
    copy.CopyFrom(model)
    for node, (_, read) in zip(_nodes(copy.graph), domains, strict=True):
        node.domain = read
    if lacks:
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
