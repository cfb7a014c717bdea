"""Models of f32 whose constant weights are rounded to a few bits, and what that costs.

    made, errors = with_rounded_weights(load(model), bits=4)

MatMul and Gemm with a constant matrix become MatMulNBits of com.microsoft, whose weights stay that
narrow (`few_bits`). Left as they are: other operators, matrices with batches, constants of other
types, and graphs inside of nodes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from onnx import GraphProto, ModelProto, NodeProto, TensorProto, helper, numpy_helper

from rcompiler.support.weight_errors import WeightError, weight_errors

from .few_bits import BlockWeights, packed, rounded
from .load import array_of, node_reads

BLOCK = 32
_DOMAIN = "com.microsoft"

# The names of what takes the place of a constant, that itself, and its errors.
_Replaced = tuple[list[str], BlockWeights, tuple[float, float]]


def with_rounded_weights(
    model: ModelProto, bits: int, block: int = BLOCK
) -> tuple[ModelProto, list[WeightError]]:
    """A copy of the model with weights of so many bits, and the error of each operator.

    bits: 4 or 8, symmetric and rounded to nearest; block: weights along the depth that share a
    scale.
    """
    made = ModelProto()
    made.CopyFrom(model)
    rounding = _Rounding(made.graph, bits, block)
    nodes = [new for node in made.graph.node for new in rounding.replaced(node)]
    del made.graph.node[:]
    made.graph.node.extend(nodes)
    made.graph.initializer.extend(rounding.added)
    _drop_unread(made.graph)
    if rounding.errors and not any(o.domain == _DOMAIN for o in made.opset_import):
        made.opset_import.append(helper.make_opsetid(_DOMAIN, 1))
    return made, rounding.errors


class _Rounding:
    """Replaces the nodes of one graph; added: the constants that the new ones read."""

    def __init__(self, graph: GraphProto, bits: int, block: int) -> None:
        self._bits, self._block = bits, block
        given = {value.name for value in graph.input}  # by callers, who may give other weights
        self._constants = {t.name: t for t in graph.initializer if t.name not in given}
        for node in graph.node:
            tensors = [a.t for a in node.attribute if a.name == "value"]
            if node.op_type == "Constant" and tensors and node.output:
                self._constants[node.output[0]] = tensors[0]
        self._known: dict[tuple[str, bool, float], _Replaced] = {}
        self.added: list[TensorProto] = []
        self.errors: list[WeightError] = []

    def replaced(self, node: NodeProto) -> Iterator[NodeProto]:
        """What takes the place of a node: itself, where it has no such weights."""
        attributes = {a.name: helper.get_attribute_value(a) for a in node.attribute}
        known = node.domain in ("", "ai.onnx") and node.op_type in ("MatMul", "Gemm")
        if not known or len(node.input) < 2 or len(node.output) != 1:
            yield node  # also what is not valid, which the translation tells
            return
        weights = self._constants.get(node.input[1])
        if weights is not None and _fit(weights) and not attributes.get("transA"):
            yield from self._product(node, attributes)
        else:
            yield node

    def _product(self, node: NodeProto, attributes: dict[str, Any]) -> Iterator[NodeProto]:
        """MatMulNBits, and what a Gemm adds to its result; alpha goes into the scales."""
        alpha, beta = attributes.get("alpha", 1.0), attributes.get("beta", 1.0)
        names, made, error = self._weights(node.input[1], bool(attributes.get("transB")), alpha)
        name = node.name or node.output[0]
        self.errors.append(WeightError(name, (made.depth, made.columns), *error))
        bias = node.input[2] if len(node.input) > 2 and node.input[2] and beta else ""
        product = f"{node.output[0]}.product" if bias else node.output[0]
        yield helper.make_node(
            "MatMulNBits",
            [node.input[0], *names],
            [product],
            name,
            domain=_DOMAIN,
            K=made.depth,
            N=made.columns,
            bits=self._bits,
            block_size=self._block,
        )
        if bias and beta != 1.0:
            factor = f"{node.output[0]}.beta"
            self.added.append(numpy_helper.from_array(np.array(beta, np.float32), factor))
            yield helper.make_node("Mul", [bias, factor], [f"{factor}_bias"], f"{name}.beta")
            bias = f"{factor}_bias"
        if bias:
            yield helper.make_node("Add", [product, bias], [node.output[0]], f"{name}.bias")

    def _weights(self, name: str, by_rows: bool, alpha: float) -> _Replaced:
        """The names of the packed weights and the scales of a constant, which nodes share."""
        key = name, by_rows, alpha
        if key not in self._known:
            columns = array_of(self._constants[name])
            columns = np.ascontiguousarray(columns if by_rows else columns.T)
            made = rounded(columns, self._bits, self._block)
            kind = f"{name}.{len(self._known)}"
            names = [f"{kind}.q{self._bits}", f"{kind}.scales"]
            scales = (made.scales * np.float32(alpha)).reshape(-1)
            arrays = [packed(made.numbers, self._bits), scales]
            self.added += map(numpy_helper.from_array, arrays, names)
            self._known[key] = names, made, weight_errors(columns, made.dense().T)
        return self._known[key]


def _fit(weights: TensorProto) -> bool:
    """Whether a constant is a matrix of f32."""
    return (
        weights.data_type == TensorProto.FLOAT and len(weights.dims) == 2 and 0 not in weights.dims
    )


def _drop_unread(graph: GraphProto) -> None:
    """Without the constants that nothing reads any more, nor is told from outside."""
    read = {name for node in graph.node for name in node_reads(node)}
    read |= {value.name for value in (*graph.input, *graph.output)}
    kept = [t for t in graph.initializer if t.name in read]
    del graph.initializer[:]
    graph.initializer.extend(kept)
