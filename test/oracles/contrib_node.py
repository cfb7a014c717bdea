"""Nodes of onnxruntime's domain, computed by onnxruntime and by the compiler."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from onnx import ModelProto, helper, numpy_helper

import rcompiler
from rcompiler.frontend import dtypes

Inputs = Sequence[np.ndarray | None]
TOLERANCE = {"float16": 4e-3, "float32": 3e-5, "float64": 1e-12}  # of the largest result


def node_model(
    op: str, inputs: Inputs, outputs: Sequence[str], fed: int | Sequence[int], **attributes: Any
) -> tuple[ModelProto, dict[str, np.ndarray]]:
    """A node whose first `fed` inputs are fed, and the rest constants; None is left out.

    fed: or which ones. outputs: their types, "" of one that is not asked for. attributes: with
    `domain` of another one, and `standard` of another opset of the standard.
    """
    at_run_time = range(fed) if isinstance(fed, int) else fed
    domain, standard = attributes.pop("domain", "com.microsoft"), attributes.pop("standard", 17)
    names = ["" if x is None else f"i{k}" for k, x in enumerate(inputs)]
    results = [f"o{k}" if dtype else "" for k, dtype in enumerate(outputs)]
    node = helper.make_node(op, names, results, domain=domain, **attributes)
    given = [(k, names[k], np.asarray(x)) for k, x in enumerate(inputs) if x is not None]
    graph = helper.make_graph(
        [node],
        op,
        [_info(name, x.dtype.name, x.shape) for k, name, x in given if k in at_run_time],
        [_info(f"o{k}", dtype, None) for k, dtype in enumerate(outputs) if dtype],
        [numpy_helper.from_array(x, name) for k, name, x in given if k not in at_run_time],
    )
    opsets = [helper.make_opsetid("", standard), helper.make_opsetid("com.microsoft", 1)]
    made = helper.make_model(graph, opset_imports=opsets, ir_version=10)
    return made, {name: x for k, name, x in given if k in at_run_time}


def _info(name: str, dtype: str, shape: Sequence[int] | None) -> Any:
    return helper.make_tensor_value_info(name, dtypes.to_onnx(dtype), shape)


def by_onnxruntime(model: ModelProto, fed: dict[str, np.ndarray]) -> list[np.ndarray]:
    """What onnxruntime's CPU provider computes on one thread."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    return list(session.run(None, fed))


def check_node(
    op: str,
    inputs: Inputs,
    outputs: Sequence[str] = ("float32",),
    fed: int | Sequence[int] = 99,
    wanted: Sequence[np.ndarray] | None = None,
    apart: int = 0,
    **attributes: Any,
) -> None:
    """Compare a compiled node with onnxruntime, or with what is wanted of it.

    apart: how far from it integers may be.
    """
    model, given = node_model(op, inputs, outputs, fed, **attributes)
    expected = by_onnxruntime(model, given) if wanted is None else wanted
    _check(rcompiler.compile_onnx(model, eus=1)(**given), expected, apart)


def check_ranges(
    op: str, inputs: Inputs, fed: Sequence[int], names: Mapping[int, str], **attributes: Any
) -> None:
    """Compare a node, compiled for 1 to 9 elements along axes of what is fed, with onnxruntime.

    names: of the axes; an input without an axis has those that it has.
    """
    model, given = node_model(op, inputs, ["float32"], fed, **attributes)
    for value in model.graph.input:
        for axis, dim in enumerate(value.type.tensor_type.shape.dim):
            if axis in names:
                dim.dim_param = names[axis]
    shapes = {name: range(1, 10) for name in names.values()}
    compiled = rcompiler.compile_onnx(model, shapes=shapes, eus=1)
    _check(compiled(**given), by_onnxruntime(model, given))


def _check(results: Sequence[np.ndarray], expected: Sequence[np.ndarray], apart: int = 0) -> None:
    for got, want in zip(results, expected, strict=True):
        assert got.dtype == want.dtype and got.shape == want.shape
        if (bound := TOLERANCE.get(want.dtype.name)) is None:
            assert np.abs(got.astype(np.int64) - want.astype(np.int64)).max(initial=0) <= apart
        else:
            finite = np.abs(want.astype(np.float64)[np.isfinite(want.astype(np.float64))])
            largest = float(finite.max(initial=0))
            np.testing.assert_allclose(got, want, rtol=bound, atol=bound * largest)
