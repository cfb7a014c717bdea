"""Types that the onnx package infers, in a process of its own.

Its inference is C++ that is given a stranger's model, and ends the process at some: a LabelEncoder
of ai.onnx.ml 2 whose input has no type yet is a null pointer (onnx 1.22). What it says is of use to
whoever reads a listing; nothing is compiled by it. So where it ends, is late, or no process can be
started, nothing is known.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
import onnx
from onnx import GraphProto, ModelProto, NodeProto, TensorProto, TypeProto, ValueInfoProto

from rcompiler.support.workers import WorkerDied, Workers, serve_answers

_MOST_S = 30.0
_SMALL = 64  # numbers of a shape, at most
_GRAPH, _NODE = b"g", b"n"  # the first byte of a question


def graph_outputs(model: ModelProto) -> Sequence[ValueInfoProto] | None:
    """The outputs of a model with the types that follow from its inputs; None where nothing is
    known.
    """
    graph = model.graph
    light = ModelProto(
        ir_version=model.ir_version, opset_import=model.opset_import, functions=model.functions
    )
    for field in ("node", "input", "output", "value_info", "sparse_initializer"):
        getattr(light.graph, field).extend(getattr(graph, field))
    light.graph.initializer.extend(map(_without_numbers, graph.initializer))
    found = _asked(_GRAPH, light)
    return None if found is None else found.output


def _without_numbers(tensor: TensorProto) -> TensorProto:
    """A weight by its type alone; whole if it is so small that it may be a shape."""
    if math.prod(tensor.dims) <= _SMALL and tensor.data_location != TensorProto.EXTERNAL:
        return tensor
    return TensorProto(name=tensor.name, dims=tensor.dims, data_type=tensor.data_type)


def node_outputs(
    node: NodeProto,
    version: int,
    types: Mapping[str, TypeProto],
    constants: Mapping[str, np.ndarray],
) -> dict[str, TypeProto]:
    """The types of what a node makes, by name, as far as they are known.

    version: of the opset of the node's domain. types: of its inputs by name; constants: of those
    whose values are known and small.
    """
    graph = GraphProto(node=[node])
    graph.input.extend(ValueInfoProto(name=name, type=type_) for name, type_ in types.items())
    graph.initializer.extend(
        onnx.numpy_helper.from_array(array, name) for name, array in constants.items()
    )
    opset = onnx.helper.make_opsetid(node.domain, version)
    found = _asked(_NODE, ModelProto(graph=graph, opset_import=[opset]))
    return {} if found is None else {value.name: value.type for value in found.output}


def _asked(kind: bytes, model: ModelProto) -> GraphProto | None:
    try:
        with _WORKERS.borrow() as worker:
            status, answer = worker.ask(kind + model.SerializeToString(), _MOST_S)
    except (WorkerDied, OSError, ValueError):  # ValueError: more than protobuf can hold
        return None
    return GraphProto.FromString(answer) if status == 0 else None


def serve() -> None:
    """The other process: a model for each question, its outputs for an answer."""
    serve_answers(_answer)


def _answer(question: bytes) -> tuple[int, bytes]:
    model = ModelProto.FromString(question[1:])
    try:
        if question[:1] == _GRAPH:
            outputs = onnx.shape_inference.infer_shapes(model).graph.output
        else:
            outputs = _of_node(model)
    except Exception as error:  # C++ inference raises several kinds; then nothing is known
        return 1, str(error).encode()
    return 0, GraphProto(output=outputs).SerializeToString()


def _of_node(model: ModelProto) -> list[ValueInfoProto]:
    [node], [opset], graph = model.graph.node, model.opset_import, model.graph
    schema = onnx.defs.get_schema(node.op_type, opset.version, node.domain)
    types = {value.name: value.type for value in graph.input}
    constants = {tensor.name: tensor for tensor in graph.initializer}
    found = onnx.shape_inference.infer_node_outputs(schema, node, types, constants)
    return [ValueInfoProto(name=name, type=type_) for name, type_ in found.items()]


_WORKERS = Workers("rcompiler.frontend.inferred_types")
