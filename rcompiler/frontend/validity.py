"""Is a model valid? What is checked before its nodes are read."""

from __future__ import annotations

import math
from collections.abc import Sequence
from graphlib import CycleError, TopologicalSorter
from typing import Any

import onnx
from onnx import FunctionProto, GraphProto, ModelProto, TensorProto

from rcompiler.errors import InvalidModel
from rcompiler.support import onnx_worker

from .load import node_reads
from .nodes import opset_of, subgraphs

_CHECKED_S = 300.0  # that the checker may take: it is a second for graphs of 100,000 nodes
_CHECKED_BYTES = 1 << 16  # larger initializers are left out of what onnx.checker sees
# Operators of the standard, with opsets for which it took them back and other runtimes did not.
_TAKEN_BACK = {"GroupNormalization": range(18, 21), "ThresholdedRelu": range(1, 10)}
_HIDDEN = "rcompiler.checked"  # the domain in which onnx.checker sees them


def check_text(model: ModelProto) -> None:
    """Names are text: protobuf hands out bytes for a string that is not UTF-8, which some of its
    ways to read a message raise errors at. Raises InvalidModel.
    """
    imports = [*model.opset_import, *(o for f in model.functions for o in f.opset_import)]
    _refuse_bytes([entry.domain for entry in imports])
    for graph in (model.graph, *model.functions):
        _check_text(graph)


def checked(model: ModelProto) -> ModelProto:
    """The model, whose names are text, with its nodes in order, after onnx.checker has seen all but
    the weights.

    Raises InvalidModel, also for cycles. The caller's model is never changed.
    """
    model = _with_one_weight_of_each_name(model)
    order = _order(model.graph)
    if order is not None:
        nodes = [model.graph.node[i] for i in order]
        copy = ModelProto()
        copy.CopyFrom(model)
        del copy.graph.node[:]
        copy.graph.node.extend(nodes)
        model = copy
    for entry in model.opset_import:
        known = onnx.defs.onnx_opset_version()
        if entry.domain in ("", "ai.onnx") and entry.version > known:
            raise InvalidModel(
                f"opset {entry.version} is newer than {known}, the newest known "
                "one. Update the onnx package"
            )
    check(_for_checker(model))
    return model


def check(model: ModelProto) -> None:
    """Let onnx.checker see a model, in its worker. Raises InvalidModel, also where the checker ends
    its process.
    """
    try:
        question = model.SerializeToString()
    except Exception as error:  # more than protobuf can hold, by several kinds
        raise InvalidModel(f"the model is not valid ONNX: {error}") from None
    try:
        status, words = onnx_worker.asked(onnx_worker.CHECK, question, _CHECKED_S)
    except onnx_worker.OnnxDied as died:
        raise InvalidModel(
            f"the model is not valid ONNX: onnx.checker (onnx {onnx.__version__}) ended its "
            f"process at it ({died.how}). Export the model again, or install another version of "
            "onnx"
        ) from None
    except OSError:  # no process can be started: where none can be, whoever calls is confined
        status, words = onnx_worker.answered(onnx_worker.CHECK + question)
    if status:
        raise InvalidModel(f"the model is not valid ONNX: {words.decode(errors='replace')}")


def _check_text(graph: GraphProto | FunctionProto) -> None:
    for node in graph.node:
        texts = [node.name, node.op_type, node.domain, *node.input, *node.output]
        for attribute in node.attribute:
            texts += [attribute.name, attribute.ref_attr_name]
            for inner in (attribute.g, *attribute.graphs):
                _check_text(inner)
        _refuse_bytes(texts)
    if isinstance(graph, FunctionProto):
        _refuse_bytes([graph.name, graph.domain, *graph.input, *graph.output, *graph.attribute])
    else:
        _refuse_bytes([graph.name, *(t.name for t in graph.initializer)])
        for value in (*graph.input, *graph.output, *graph.value_info):
            dims = value.type.tensor_type.shape.dim
            _refuse_bytes([value.name, *(d.dim_param for d in dims)])


def _refuse_bytes(texts: Sequence[Any]) -> None:
    for text in texts:
        if not isinstance(text, str):
            raise InvalidModel(
                f"the name {text!r} is not UTF-8 text. The file is damaged; export the model again"
            )


def _for_checker(model: ModelProto) -> ModelProto:
    """What onnx.checker is to see: all but the weights. What other runtimes read, and so do we, but
    it refuses, is as it wants it: outputs without a type, a graph without a name, weights that are
    no inputs before IR 4, and operators that the standard took back for some opsets.
    """
    out = ModelProto(ir_version=model.ir_version, opset_import=model.opset_import)
    out.functions.extend(model.functions)
    graph, source = out.graph, model.graph
    graph.name = source.name or "graph"
    graph.node.extend(source.node)
    graph.input.extend(source.input)
    graph.output.extend(source.output)
    graph.sparse_initializer.extend(source.sparse_initializer)
    for value in graph.output:
        kind = value.type
        if kind.WhichOneof("value") is None or (
            kind.HasField("tensor_type") and not kind.tensor_type.elem_type
        ):
            kind.tensor_type.elem_type = TensorProto.FLOAT
    for value in [*graph.input, *graph.output]:
        # The checker wants a shape; the compiler derives those of outputs and asks for inputs'.
        if value.type.HasField("tensor_type") and not value.type.tensor_type.HasField("shape"):
            value.type.tensor_type.shape.SetInParent()
    present = {value.name for value in source.input}
    for tensor in source.initializer:
        small = tensor.data_location != TensorProto.EXTERNAL and (
            math.prod(tensor.dims) * 8 <= _CHECKED_BYTES and len(tensor.raw_data) <= _CHECKED_BYTES
        )
        if small:
            graph.initializer.append(tensor)
        elif tensor.name not in present:
            graph.input.append(
                onnx.helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims)
            )
        if tensor.name not in present:
            out.ir_version = max(out.ir_version, 4)
    _hide(graph, opset_of({o.domain: o.version for o in model.opset_import}, ""))
    if _HIDDEN not in {o.domain for o in out.opset_import}:
        out.opset_import.append(onnx.helper.make_opsetid(_HIDDEN, 1))
    return out


def _hide(graph: GraphProto, opset: int) -> None:
    """Put operators that the standard took back into a domain that the checker does not know."""
    for node in graph.node:
        if node.domain in ("", "ai.onnx") and opset in _TAKEN_BACK.get(node.op_type, ()):
            node.domain = _HIDDEN
        for inner in subgraphs(node):
            _hide(inner, opset)


def _with_one_weight_of_each_name(model: ModelProto) -> ModelProto:
    """The model with the last of weights that have one name, as onnxruntime has it."""
    last = {tensor.name: number for number, tensor in enumerate(model.graph.initializer)}
    if len(last) == len(model.graph.initializer):
        return model
    copy = ModelProto()
    copy.CopyFrom(model)
    del copy.graph.initializer[:]
    copy.graph.initializer.extend(model.graph.initializer[k] for k in sorted(last.values()))
    return copy


def _order(graph: GraphProto) -> list[int] | None:
    """Numbers of the nodes in topological order (stable); None when they are in order."""
    made = {name: i for i, node in enumerate(graph.node) for name in node.output if name}
    needs = [{made[name] for name in node_reads(node) if name in made} for node in graph.node]
    if all(not n or max(n) < i for i, n in enumerate(needs)):
        return None
    sorter = TopologicalSorter[int](dict.fromkeys(range(len(needs)), ()))
    for i, before in enumerate(needs):
        sorter.add(i, *before)
    try:
        return list(sorter.static_order())
    except CycleError as error:
        node = graph.node[min(error.args[1])]
        raise InvalidModel(
            f"node '{node.name or node.op_type}' is part of a cycle. A graph has to be acyclic"
        ) from None
