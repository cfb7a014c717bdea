"""Whether results are right: what a model rounds decides how far they may be from a reference's.

An output may differ by the tolerance of its type, or of the coarsest type that the model rounds
values to on the way: a quantised network in float32 is as exact as its int8 values. Where that is
not enough, the model is computed in float64: we may be four times as far from that as the
reference is. A reference that is far from it itself excuses nothing: it is wrong, not rounded.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

import numpy as np
import onnx
from onnx import ModelProto, TensorProto, shape_inference

from rcompiler.tools._double import exact
from rcompiler.tools._reference import Difference, compare

# The largest of many errors, in sums that add up in another order.
_TIMES = 4.0
# Of the size of the values (root mean square): what no rounding of a type that is in use makes.
_WRONG = 0.5
_ROUNDING = ("float16", "bfloat16", "float8", "float4")
_QUANTISING = {"QuantizeLinear", "DynamicQuantizeLinear", "QLinearConv", "QLinearMatMul"}


class Judge:
    """Compares values of a model, its results or others, with those of another engine.

    What is costly is done once, and when it is needed: nothing is computed for a right value.
    """

    def __init__(
        self,
        model: ModelProto,
        feeds: Mapping[str, np.ndarray],
        tolerance: float | None = None,
        rounded: Collection[str] = (),
    ) -> None:
        """tolerance: as a share of the root mean square, in the place of all that is said above;
        rounded: types that values are rounded to beside those that the model says.
        """
        self._model, self._feeds, self._tolerance = model, feeds, tolerance
        self._rounded = rounded_types(model) | {*rounded}
        self._exact: dict[str, np.ndarray] | None = None

    def __call__(self, name: str, actual: np.ndarray, expected: np.ndarray) -> Difference:
        """Raises CompilerError where shape or type differ."""
        found = compare(actual, expected, self._tolerance, self._rounded)
        if found.right or self._tolerance is not None or expected.dtype.kind in "bOU":
            return found
        if self._exact is None:
            self._exact = exact(self._model, self._feeds) or {}
        truth = self._exact.get(name)
        if truth is None or truth.shape != expected.shape:
            return found
        return _arbitrated(found, actual, expected, truth)


def _arbitrated(
    found: Difference, actual: np.ndarray, expected: np.ndarray, truth: np.ndarray
) -> Difference:
    """`found`, or how far we are from the truth beside how far the reference is."""
    ours, theirs = (compare(a.astype(np.float64), truth.astype(np.float64))
                    for a in (actual, expected))  # fmt: skip
    size = float(np.sqrt(np.mean(np.square(truth, dtype=np.float64)))) if truth.size else 0.0
    if not 0.0 < theirs.absolute <= _WRONG * size:
        return found
    excess = ours.absolute / (_TIMES * theirs.absolute)
    return min(found, Difference(ours.absolute, excess, ours.where), key=_excess)


def _excess(found: Difference) -> float:
    return found.relative_to_limit


def rounded_types(model: ModelProto) -> frozenset[str]:
    """The types that a model rounds values to on the way: "float16", "int8" and the like."""
    try:
        model = shape_inference.infer_shapes(model)
    except Exception:  # the checker of onnx has no common base class; unknown types round nothing
        pass
    graph = model.graph
    types = {
        v.name: _name(v.type.tensor_type.elem_type) for v in (*graph.value_info, *graph.output)
    }
    made = {types[name] for node in graph.node for name in node.output if types.get(name)}
    found = {kind for kind in made if kind.startswith(_ROUNDING)}
    for node in graph.node:
        if node.op_type in _QUANTISING:
            found.add(types.get(node.output[0]) or "uint8")
    return frozenset(found)


def _name(kind: int) -> str:
    return onnx.helper.tensor_dtype_to_np_dtype(kind).name if kind != TensorProto.UNDEFINED else ""
