"""What others make of a model: onnxruntime, and onnx.reference in the model's own types."""

from __future__ import annotations

import warnings
from collections.abc import Mapping

import numpy as np
import onnxruntime
from onnx import ModelProto
from onnx.reference import ReferenceEvaluator

Results = dict[str, np.ndarray]


def by_onnxruntime(model: ModelProto, feeds: Mapping[str, np.ndarray]) -> Results | None:
    """Results by name; None where it cannot run the model, as with bfloat16 in or out."""
    settings = onnxruntime.SessionOptions()
    settings.log_severity_level = 4
    settings.intra_op_num_threads = settings.inter_op_num_threads = 1
    settings.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    try:
        session = onnxruntime.InferenceSession(
            model.SerializeToString(), settings, providers=["CPUExecutionProvider"]
        )
        names = [v.name for v in model.graph.output]
        return dict(zip(names, session.run(names, dict(feeds)), strict=True))
    except Exception:  # its exceptions have no common base class
        return None


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
