"""What a model says of itself before it is compiled: inputs, outputs, where it comes from."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from onnx import GraphProto, ModelProto, ValueInfoProto

from rcompiler.errors import UnsupportedOp
from rcompiler.support.declaration import Declared, DeclaredTensor, Extent

from . import dtypes, signature
from .inferred_types import graph_outputs
from .nodes import reader_of


def declared(model: ModelProto) -> Declared:
    """What a model declares; shapes of outputs that it leaves out are inferred, if they can be."""
    graph = model.graph
    weights = {tensor.name for tensor in graph.initializer}
    outputs = graph.output
    symbols = {d.dim_param for v in (*graph.input, *outputs) for d in _dims(v)}
    if any(not value.type.tensor_type.HasField("shape") for value in outputs):
        outputs = graph_outputs(model) or outputs  # with names of its own, which say nothing
    labels = _labels(graph)
    return Declared(
        tuple(_input(graph, v, symbols) for v in graph.input if v.name not in weights),
        tuple(_input(graph, v, symbols) for v in graph.input if v.name in weights),
        tuple(
            replace(tensor, labels=labels.get(tensor.name, () if _has_maps(value) else None))
            for tensor, value in zip(_tensors(outputs, symbols), outputs, strict=True)
        ),
        model.producer_name,
        graph.name,
        model.domain,
        model.doc_string,
        graph.doc_string,
        model.model_version,
        {entry.key: entry.value for entry in model.metadata_props},
    )


def _labels(graph: GraphProto) -> dict[str, tuple[int, ...] | tuple[str, ...]]:
    """The labels of each ZipMap, by the name of what it makes."""
    found: dict[str, tuple[int, ...] | tuple[str, ...]] = {}
    for node in graph.node:
        if (node.op_type, node.domain) != ("ZipMap", "ai.onnx.ml"):
            continue
        for attribute in node.attribute:
            if attribute.name in ("classlabels_int64s", "classlabels_strings"):
                text = tuple(each.decode("utf-8", "replace") for each in attribute.strings)
                if labels := text or tuple(attribute.ints):
                    found.update(dict.fromkeys(node.output, labels))
    return found


def _has_maps(value: ValueInfoProto) -> bool:
    """Whether a value is declared as a sequence of maps."""
    return value.type.sequence_type.elem_type.HasField("map_type")


def _input(graph: GraphProto, value: ValueInfoProto, symbols: set[str]) -> DeclaredTensor:
    """An input, and why no program takes it, where that is so."""
    [tensor] = _tensors([value], symbols)
    if signature.is_ignored(graph, value):
        return replace(tensor, ignored=True)
    try:
        signature.input_dtype(value)
    except UnsupportedOp as error:
        assert error.gap is not None
        return replace(tensor, refusal=str(replace(error.gap, op=reader_of(graph, value.name))))
    return tensor


def _tensors(values: Iterable[ValueInfoProto], symbols: set[str]) -> tuple[DeclaredTensor, ...]:
    return tuple(
        DeclaredTensor(v.name, _shape(v, symbols), dtypes.from_onnx(v.type.tensor_type.elem_type))
        for v in values
    )


def _dims(value: ValueInfoProto) -> Sequence[Any]:
    return value.type.tensor_type.shape.dim


def _shape(value: ValueInfoProto, symbols: set[str]) -> tuple[Extent, ...] | None:
    if not value.type.tensor_type.HasField("shape"):
        return None
    return tuple(
        dim.dim_value
        if dim.HasField("dim_value") and dim.dim_value >= 0
        else dim.dim_param
        if dim.dim_param in symbols and dim.dim_param
        else None
        for dim in _dims(value)
    )
