"""Operators of onnxruntime (domain com.microsoft) as functions of standard operators.

What its optimiser, its quantiser, Olive and other tools write beside the standard. The lowerings of
the standard's operators then see what an exporter would have written. Source: onnxruntime,
docs/ContribOperators.md.
"""

from __future__ import annotations

from collections.abc import Sequence

from onnx import FunctionProto, NodeProto

from rcompiler.frontend.value import Value

from . import (  # noqa: F401  # they register operators
    activations,
    attention,
    embedding,
    experts,
    gates,
    grouped_attention,
    linear_attention,
    normalization,
    older,
    packed_convolution,
    products,
    quantised,
    quantised_experts,
    recurrences,
    sparse_attention,
    standard,
    tokens,
)
from .node import DOMAIN, OPERATORS, GapOf, Node, Operator
from .quantised import quantised_lstm

__all__ = ["DOMAIN", "LSTM", "OPERATORS", "Operator", "contrib_body", "is_contrib"]

LSTM = "DynamicQuantizeLSTM"  # whose body is a text


def is_contrib(op: str) -> bool:
    """Whether an operator of `DOMAIN` has a body here."""
    return op in OPERATORS or op == LSTM


def contrib_body(
    node: NodeProto, inputs: Sequence[Value | None], gap: GapOf
) -> FunctionProto | None:
    """What a node of `DOMAIN` stands for; None of an operator that is not here.

    gap: makes one of a reason and a remedy. Raises UnsupportedOp of a form that is not translated,
    ShapeError of types and shapes that do not fit the operator.
    """
    if node.op_type == LSTM:
        first = inputs[0] if inputs else None
        return quantised_lstm(node, first.shape if first and first.whole is None else ())
    operator = OPERATORS.get(node.op_type)
    if operator is None:
        return None
    n = Node(operator, node, inputs, gap)
    return n.function(operator.write(n))
