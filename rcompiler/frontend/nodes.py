"""What a node says: its operator, its attributes, the opset it is of; and what it lacks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import onnx
from onnx import AttributeProto, GraphProto, NodeProto, helper

from rcompiler.errors import CompilerError, Gap

from . import load

# What Python raises where a malformed node got past the checks of a lowering.
MISFITS = (
    IndexError,
    ValueError,
    TypeError,
    KeyError,
    AssertionError,
    ZeroDivisionError,
    OverflowError,
    AttributeError,
    MemoryError,
)


def at_node(error: CompilerError, node: NodeProto, name: str) -> CompilerError:
    """The error with its node, where it is about a tensor in one of the node's attributes."""
    gap = error.gap
    if gap is None or gap.kind != "tensor" or gap.op:
        return error
    return type(error)(replace(gap, node=name, op=qualified(node), kind="node"))


def not_made(node: NodeProto, name: str, index: int) -> Gap:
    """What is wrong with reading a result that the translation of a node leaves out."""
    reason = f"its result {index} ('{node.output[index]}') is not translated"
    return Gap(name, qualified(node), reason, "Remove what reads that result")


def count_uses(nodes: Iterable[NodeProto], outputs: Iterable[str]) -> Counter[str]:
    """How often each name is read."""
    uses = Counter(outputs)
    for node in nodes:
        uses.update(load.node_reads(node))
    return uses


def qualified(node: NodeProto) -> str:
    """``domain.op``, or the bare op of the standard's own domain."""
    return node.op_type if node.domain in ("", "ai.onnx") else f"{node.domain}.{node.op_type}"


def reader_of(graph: GraphProto, name: str) -> str:
    """Operator of the first node that reads a value; "" when none does."""
    return next((qualified(n) for n in graph.node if name in load.node_reads(n)), "")


def maker_of(graph: GraphProto, name: str) -> str:
    """Operator of the node that makes a value; "" when none does."""
    return next((qualified(n) for n in graph.node if name in n.output), "")


def subgraphs(node: NodeProto) -> Iterator[GraphProto]:
    """The graphs among a node's attributes: branches and loop bodies."""
    for item in node.attribute:
        if item.type == AttributeProto.GRAPH:
            yield item.g
        yield from item.graphs


def opset_of(opsets: Mapping[str, int], domain: str) -> int:
    """Version of a domain in force; the newest known when the model names none."""
    if domain in ("", "ai.onnx"):
        found = opsets.get("", opsets.get("ai.onnx"))
        return found if found is not None else onnx.defs.onnx_opset_version()
    return opsets.get(domain, 1)


def attribute_value(attribute: AttributeProto) -> Any:
    """An attribute as int, float, str, list, TensorProto or GraphProto."""
    value = helper.get_attribute_value(attribute)
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if attribute.type == AttributeProto.STRINGS:
        return [x.decode("utf-8", "replace") for x in value]
    return list(value) if attribute.type in (AttributeProto.INTS, AttributeProto.FLOATS) else value
