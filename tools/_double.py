"""A model computed in float64: what its results would be if nothing but they themselves rounded."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from onnx import (
    AttributeProto,
    GraphProto,
    ModelProto,
    NodeProto,
    TensorProto,
    ValueInfoProto,
    helper,
    numpy_helper,
)

_NARROW = {TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.BFLOAT16}
# Attributes that hold an element type.
_TYPES = {"to", "dtype", "output_dtype", "stash_type", "precision", "softmax_precision"}
# Attributes of Constant whose value has a type without that being written anywhere.
_PLAIN = {"value_float", "value_floats"}


def exact(model: ModelProto, feeds: Mapping[str, np.ndarray]) -> dict[str, np.ndarray] | None:
    """Every value of the graph by name, computed by the evaluator of onnx in float64.

    None where the evaluator cannot. Quantised values are rounded here, too: that is what the model
    says.
    """
    from onnx.reference import ReferenceEvaluator

    wide = widened(model)
    operators = _dequantisation(wide)
    arrays = {name: _wide(array) for name, array in feeds.items()}
    try:
        with np.errstate(all="ignore"):
            evaluator = ReferenceEvaluator(wide, new_ops=operators)
            found = evaluator.run(None, arrays, intermediate=True)
    except Exception:  # whatever the evaluator's own implementation trips over
        return None
    return {name: value for name, value in found.items() if isinstance(value, np.ndarray)}


def _dequantisation(model: ModelProto) -> list[Any]:
    """DequantizeLinear for models before opset 19, as onnx 1.23 evaluates it from there on only;
    the latest one does all that the earlier ones do.
    """
    from onnx.reference.ops import op_dequantize_linear

    if any(o.version >= 19 for o in model.opset_import if o.domain in ("", "ai.onnx")):
        return []
    latest = op_dequantize_linear.DequantizeLinear_25
    return [type("DequantizeLinear", (latest,), {"op_domain": ""})]


def widened(model: ModelProto) -> ModelProto:
    """The model with float64 in the place of every narrower type of floats."""
    wide = ModelProto()
    wide.CopyFrom(model)
    _widen_graph(wide.graph)
    for function in wide.functions:
        _widen_nodes(function.node)
    return wide


def _widen_graph(graph: GraphProto) -> None:
    for tensor in graph.initializer:
        tensor.CopyFrom(_widen_tensor(tensor))
    for value in (*graph.input, *graph.output):
        _widen_value(value)
    del graph.value_info[:]
    _widen_nodes(graph.node)


def _widen_value(value: ValueInfoProto) -> None:
    if value.type.tensor_type.elem_type in _NARROW:
        value.type.tensor_type.elem_type = TensorProto.DOUBLE


def _widen_nodes(nodes: Iterable[NodeProto]) -> None:
    for node in nodes:
        for attribute in node.attribute:
            _widen_attribute(attribute)


def _widen_attribute(attribute: AttributeProto) -> None:
    if attribute.type == AttributeProto.GRAPH:
        _widen_graph(attribute.g)
    elif attribute.type == AttributeProto.TENSOR:
        attribute.t.CopyFrom(_widen_tensor(attribute.t))
    elif attribute.name in _TYPES and attribute.i in _NARROW:
        attribute.i = TensorProto.DOUBLE
    elif attribute.name in _PLAIN:
        single = attribute.type == AttributeProto.FLOAT
        array = np.array(attribute.f if single else list(attribute.floats), np.float64)
        tensor = numpy_helper.from_array(array)
        attribute.CopyFrom(helper.make_attribute("value", tensor))


def _widen_tensor(tensor: TensorProto) -> TensorProto:
    if tensor.data_type not in _NARROW:
        return tensor
    return numpy_helper.from_array(_wide(numpy_helper.to_array(tensor)), tensor.name)


def _wide(array: np.ndarray) -> np.ndarray:
    narrow = array.dtype.name in ("float32", "float16", "bfloat16")
    return np.asarray(array, np.float64) if narrow else array
