"""Networks that onnxruntime's own tools quantise, in the forms and types that they know.

A random network of f32 or f16 is calibrated with random inputs; what the tools make of it is judged
like other quantised networks.
"""

from __future__ import annotations

import io
import logging
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import ModelProto, TensorProto, numpy_helper
from onnxruntime.quantization import (
    CalibrationDataReader,
    CalibrationMethod,
    QuantFormat,
    QuantType,
    quantize_dynamic,
    quantize_static,
)

from rcompiler.frontend import contrib, dtypes

from . import evaluate
from .declared import declared
from .evaluate import Unjudged
from .maker import Maker, Reject
from .quantised import QuantisedCase, grown, options_of
from .quantised_graphs import RealNetwork
from .quantised_steps import OF_REALS

_COUNTS = (1, 2, 3, 4, 6, 8)  # steps of a network
_BATCHES = 3  # inputs to calibrate with
_ACTIVATIONS = ("QUInt8", "QInt8", "QUInt8", "QInt8", "QUInt16", "QInt16")
_WEIGHTS = ("QInt8", "QInt8", "QUInt8")
# What adds up products or numbers, whose order a level of CPUs chooses.
_SUMS = frozenset(
    "AveragePool Conv ConvTranspose Gemm GlobalAveragePool MatMul QLinearAveragePool "
    "QLinearGlobalAveragePool ReduceMean".split()
)


@dataclass(frozen=True)
class Settings:
    """What a quantiser is told. half: the network is of f16. dynamic: scales are found while it
    runs. given: keywords of the quantiser."""

    half: bool
    dynamic: bool
    given: Mapping[str, Any]


def case_of(seed: int, targets: Sequence[str] = ("cpu",)) -> QuantisedCase:
    """The case of a seed. Raises Reject where there is none: not for a CPU, or the quantiser
    refuses the network."""
    if not any(target.startswith("cpu") for target in targets):
        raise Reject
    net = grown(RealNetwork(seed), OF_REALS, _COUNTS)
    settings, options = settings_of(net.g), options_of(net.g)
    model, feeds = net.g.model(), net.g.inputs
    if settings.half:
        model, feeds = _halved(model), {n: _half(x) for n, x in feeds.items()}
    quantised = _declared(quantised_by(settings, model, feeds, seed), feeds, settings.half)
    free = net.open or _sums_floats(quantised)
    return QuantisedCase(quantised, feeds, options, open=free)


def settings_of(g: Maker) -> Settings:
    """Random settings that a quantiser takes together."""
    shared = {"per_channel": g.chance(0.5), "reduce_range": g.chance(0.2)}
    symmetric = {"WeightSymmetric": g.chance(0.8)}
    if g.chance(0.2):
        kind = g.pick(("QInt8", "QUInt8"))
        return Settings(False, True, {
            **shared, "weight_type": QuantType[kind], "extra_options": symmetric
        })  # fmt: skip
    pairs = g.chance(0.65)
    half = pairs and g.opset >= 21 and g.chance(0.25)
    activations = g.pick(_ACTIVATIONS if pairs else _ACTIVATIONS[:4])
    weights = g.pick(_WEIGHTS) if activations.startswith("QU") else "QInt8"
    extra = symmetric | {
        "ActivationSymmetric": g.chance(0.3),
        "CalibTensorRangeSymmetric": g.chance(0.15),
        "ForceQuantizeNoInputCheck": g.chance(0.3),
        "MatMulConstBOnly": g.chance(0.3),
        "QuantizeBias": g.chance(0.8),
        "DedicatedQDQPair": pairs and g.chance(0.2),
        "AddQDQPairToWeight": pairs and g.chance(0.15),
        "UseQDQContribOps": pairs and not half and g.chance(0.15),
    }
    if g.chance(0.2):
        extra["MinimumRealRange"] = 1e-3
    methods = (CalibrationMethod.MinMax,) * 6 + (CalibrationMethod.Percentile,)
    return Settings(half, False, {
        **shared,
        "quant_format": QuantFormat.QDQ if pairs else QuantFormat.QOperator,
        "activation_type": QuantType[activations],
        "weight_type": QuantType[weights],
        "calibrate_method": g.pick(methods),
        "extra_options": extra,
    })  # fmt: skip


def quantised_by(
    settings: Settings, model: ModelProto, feeds: Mapping[str, np.ndarray], seed: int
) -> ModelProto:
    """What onnxruntime's tools make of a model. Raises Reject where they refuse it."""
    logging.disable(logging.WARNING)  # they advise to prepare it by other tools of theirs
    onnxruntime.set_default_logger_severity(4)
    try:
        with tempfile.TemporaryDirectory() as folder, redirect_stdout(io.StringIO()):
            plain, made = (Path(folder) / name for name in ("plain.onnx", "quantised.onnx"))
            onnx.save(model, plain)
            if settings.dynamic:
                quantize_dynamic(plain, made, **settings.given)
            else:
                quantize_static(plain, made, _Calibration(feeds, seed), **settings.given)
            return onnx.load(made)
    except Exception as error:  # its exceptions have no common base class
        raise Reject(f"{type(error).__name__}: {error}") from error
    finally:
        logging.disable(logging.NOTSET)
        onnxruntime.set_default_logger_severity(2)


class _Calibration(CalibrationDataReader):
    """The inputs of the case, and others of their range."""

    def __init__(self, feeds: Mapping[str, np.ndarray], seed: int) -> None:
        self._batches = self._drawn(feeds, np.random.default_rng(seed))

    def _drawn(
        self, feeds: Mapping[str, np.ndarray], random: np.random.Generator
    ) -> Iterator[dict[str, np.ndarray]]:
        yield dict(feeds)
        for _ in range(1, _BATCHES):
            yield {n: random.uniform(-2, 2, x.shape).astype(x.dtype) for n, x in feeds.items()}

    def get_next(self) -> dict[str, np.ndarray] | None:
        return next(self._batches, None)


def _half(array: np.ndarray) -> np.ndarray:
    return array.astype(np.float16) if array.dtype == np.float32 else array


def _halved(model: ModelProto) -> ModelProto:
    """The model with all that is of f32 in f16."""
    out = ModelProto()
    out.CopyFrom(model)
    graph = out.graph
    held = [a.t for n in graph.node for a in n.attribute if a.HasField("t")]
    for tensor in (*graph.initializer, *held):
        if tensor.data_type == TensorProto.FLOAT:
            array = _half(numpy_helper.to_array(tensor))
            tensor.CopyFrom(numpy_helper.from_array(array, tensor.name))
    for info in (*graph.input, *graph.output, *graph.value_info):
        if info.type.tensor_type.elem_type == TensorProto.FLOAT:
            info.type.tensor_type.elem_type = TensorProto.FLOAT16
    return out


def _declared(model: ModelProto, feeds: Mapping[str, np.ndarray], half: bool) -> ModelProto:
    """The model with the type and shape of each value, which the tools leave out. Raises Reject
    where it cannot be evaluated or is not valid, as with scales of f32 for f16 (1.32)."""
    try:
        values = evaluate.evaluate(model, feeds)
        inferred = onnx.shape_inference.infer_shapes(model, check_type=True)
    except (Unjudged, onnx.shape_inference.InferenceError) as error:
        raise Reject(str(error)) from error
    kinds = evaluate.value_types(inferred)
    usual = "float16" if half else "float32"
    for name, array in values.items():
        kinds.setdefault(name, usual if array.dtype == np.float64 else dtypes.name_of(array))
    return declared(model, values, kinds)


def _sums_floats(model: ModelProto) -> bool:
    """Whether something adds up what are no bytes."""
    kinds = evaluate.value_types(model)
    bytes_of = {
        node.output[0]
        for node in model.graph.node
        if node.op_type == "DequantizeLinear" and kinds[node.input[0]] in ("uint8", "int8")
    }
    return any(
        not node.domain
        and node.op_type in _SUMS
        and not bytes_of.issuperset(node.input[: 1 if "Pool" in node.op_type else 2])
        for node in model.graph.node
    ) or any(node.domain == contrib.DOMAIN and node.op_type in _SUMS for node in model.graph.node)
