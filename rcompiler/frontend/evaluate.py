"""What a node makes of constants: by ``onnx.reference``, but for what that gets wrong."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from onnx import NodeProto, helper

from . import dtypes
from .builder import Value

# The reference adds up, or multiplies, in the operand's type: in bf16 256 + 1 is 256.
_ACCUMULATING = {"CumSum", "ReduceMean", "ReduceProd", "ReduceSum"}
_NARROW = {"float16", "bfloat16"}


def evaluate(
    node: NodeProto, inputs: Sequence[Value | None], opsets: Mapping[str, int]
) -> list[np.ndarray] | None:
    """Results of a node on constants, or None when nothing can be said of them."""
    try:
        with np.errstate(all="ignore"):
            results = _results(node, inputs, opsets)
    except Exception:  # the reference raises every kind; folding is only an optimisation
        return None
    arrays = []
    for result in results:
        if not isinstance(result, np.ndarray | np.generic):
            return None
        array = np.asarray(result)
        if not dtypes.is_supported(dtypes.name_of(array)):
            return None
        arrays.append(array)
    return arrays


def _results(
    node: NodeProto, inputs: Sequence[Value | None], opsets: Mapping[str, int]
) -> Sequence[Any]:
    """What a node makes of constants. Raises any kind of error."""
    own = None if node.domain else _OWN.get(node.op_type)
    if own is not None:
        attributes = {a.name: helper.get_attribute_value(a) for a in node.attribute}
        return [own(attributes, *(v.const for v in inputs if v is not None))]
    given = {n: v for n, v in zip(node.input, inputs, strict=False) if v is not None}
    feeds = {n: v.const for n, v in given.items() if v.const is not None}
    kinds = {n: v.dtype for n, v in given.items()}
    if node.op_type == "QuantizeLinear" and not _quotients_fit(*list(feeds.values())[:2]):
        raise OverflowError("quotients are no numbers of 32 bits")
    first = node.input[0]
    if node.op_type in ("Cast", "CastLike") and dtypes.is_float(kinds[first]):
        [found] = _by_reference(node, feeds, kinds, opsets)
        if not _has_all(dtypes.name_of(found), feeds[first]):
            raise OverflowError("of numbers that an integer has not numpy knows several")
        return [found]
    if node.op_type not in _ACCUMULATING or kinds[first] not in _NARROW:
        return _by_reference(node, feeds, kinds, opsets)
    feeds[first] = feeds[first].astype(np.float32)
    sums = _by_reference(node, feeds, {**kinds, first: "float32"}, opsets)
    return [s.astype(dtypes.numpy_dtype(kinds[first])) for s in sums]


def _by_reference(
    node: NodeProto,
    feeds: Mapping[str, np.ndarray],
    kinds: Mapping[str, str],
    opsets: Mapping[str, int],
) -> Sequence[Any]:
    """What the reference makes of operands by name, and of their types."""
    infos = [
        helper.make_tensor_value_info(n, dtypes.to_onnx(kinds[n]), a.shape)
        for n, a in feeds.items()
    ]
    outputs = [helper.make_empty_tensor_value_info(n) for n in node.output if n]
    # imported where a model has something to fold: it takes a thirtieth of importing the compiler
    from onnx.reference import ReferenceEvaluator
    from onnx.reference.ops import load_op

    # Raises for what the reference has no class of: C++ that is given the node would make one.
    load_op(node.domain, node.op_type, opsets.get(node.domain))
    graph = helper.make_graph([node], "fold", infos, outputs)
    imports = [helper.make_opsetid(d, v) for d, v in opsets.items()]
    model = helper.make_model(graph, opset_imports=imports)
    found: Sequence[Any] = ReferenceEvaluator(model).run(None, dict(feeds))
    return found


def _one_hot(
    attributes: Mapping[str, Any], indices: np.ndarray, depth: np.ndarray, values: np.ndarray
) -> np.ndarray:
    """The two values as they are. The reference computes off + (on - off), which rounds, and is no
    number where one of them is infinite.
    """
    places = np.where(indices < 0, indices + depth.reshape(()), indices)
    axis = attributes.get("axis", -1)
    rest = [1] * indices.ndim
    rest.insert(axis if axis >= 0 else axis + indices.ndim + 1, -1)
    hot = np.expand_dims(places, axis) == np.arange(int(depth.reshape(()))).reshape(rest)
    return values[hot.astype(np.intp)]


def _gather_elements(
    attributes: Mapping[str, Any], data: np.ndarray, indices: np.ndarray
) -> np.ndarray:
    """Raises IndexError for what leads out. The reference reads other elements of a column that is
    longer than np.choose takes.
    """
    axis = attributes.get("axis", 0) % data.ndim
    rest = tuple(slice(None) if i == axis else slice(n) for i, n in enumerate(indices.shape))
    extent = data.shape[axis]
    if ((indices < -extent) | (indices >= extent)).any():
        raise IndexError("an index leads out of the data")
    return np.take_along_axis(data[rest], np.where(indices < 0, indices + extent, indices), axis)


def _quotients_fit(x: np.ndarray, scale: np.ndarray) -> bool:
    """Whether what is quantised is right in the 32 bits to which the reference rounds it: beyond
    them it wraps around, and does not saturate.
    """
    quotients = x / abs(scale).min()  # as the reference divides, in the operands' type
    return bool((abs(quotients.astype(np.float64)) < 2.0**30).all())


def _has_all(kind: str, x: np.ndarray) -> bool:
    """Whether a type has all numbers of a float, if it is one of integers. Of 4 bits ml_dtypes
    knows several: 0.6 wraps around where 0.7 has 0.
    """
    if not dtypes.is_integer(kind):
        return True
    whole, (least, most) = np.trunc(x.astype(np.float64)), dtypes.limits(kind)
    return bool(((whole >= least) & (whole < float(most + 1))).all())


# What the reference gets wrong, and may decide shapes.
_OWN: dict[str, Callable[..., np.ndarray]] = {
    "OneHot": _one_hot,
    "GatherElements": _gather_elements,
}
