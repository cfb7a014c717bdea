"""Types that the onnx package infers, by its worker.

What it says is of use to whoever reads a listing; nothing is compiled by it. So where the worker
ends, is late, or no process can be started, nothing is known.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
import onnx
from onnx import GraphProto, ModelProto, NodeProto, TensorProto, TypeProto, ValueInfoProto

from rcompiler.support import onnx_worker

_SMALL = 64  # numbers of a shape, at most


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
    found = _asked(onnx_worker.GRAPH_TYPES, light)
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
    found = _asked(onnx_worker.NODE_TYPES, ModelProto(graph=graph, opset_import=[opset]))
    return {} if found is None else {value.name: value.type for value in found.output}


def _asked(kind: bytes, model: ModelProto) -> GraphProto | None:
    try:
        status, answer = onnx_worker.asked(kind, model.SerializeToString())
    except (onnx_worker.OnnxDied, OSError, ValueError):  # ValueError: more than protobuf can hold
        return None
    return GraphProto.FromString(answer) if status == 0 else None
