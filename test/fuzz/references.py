"""What others make of a model: onnxruntime, and onnx.reference in the model's own types."""

from __future__ import annotations

import warnings
from collections.abc import Mapping

import numpy as np
import onnxruntime
from onnx import ModelProto, TensorProto
from onnx.reference import ReferenceEvaluator

from rcompiler.frontend import dtypes

Results = dict[str, np.ndarray]
_ORT_TYPES = {"bfloat16": TensorProto.BFLOAT16}


def by_onnxruntime(model: ModelProto, feeds: Mapping[str, np.ndarray]) -> Results | None:
    """Results by name; None where it cannot run the model."""
    settings = onnxruntime.SessionOptions()
    settings.log_severity_level = 4
    settings.intra_op_num_threads = settings.inter_op_num_threads = 1
    settings.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    try:
        session = onnxruntime.InferenceSession(
            model.SerializeToString(), settings, providers=["CPUExecutionProvider"]
        )
        names = [v.name for v in model.graph.output]
        given = {n: onnxruntime.OrtValue.ortvalue_from_numpy(*_raw(a)) for n, a in feeds.items()}
        found = session.run_with_ort_values(names, given)
        return {n: v.numpy() for n, v in zip(names, found, strict=True)}
    except Exception:  # its exceptions have no common base class
        return None


def _raw(array: np.ndarray) -> tuple[np.ndarray, str, int]:
    if array.dtype.name in _ORT_TYPES:
        raise TypeError("not a type of numpy")
    return array, "cpu", 0


def by_onnx(model: ModelProto, feeds: Mapping[str, np.ndarray]) -> Results | None:
    """Results by name; None where it cannot run the model."""
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            found = ReferenceEvaluator(model).run(None, dict(feeds))
    except Exception:  # nor have those of its operators
        return None
    names = (v.name for v in model.graph.output)
    return {n: np.asarray(a) for n, a in zip(names, found, strict=True)}


def is_float(array: np.ndarray) -> bool:
    return dtypes.is_float(array.dtype.name)
