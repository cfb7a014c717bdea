"""The inputs and outputs of a model: their declared types, and what a caller gives for them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx
from onnx import GraphProto, ModelProto

from rcompiler.errors import Gap, ShapeError, UnsupportedOp
from rcompiler.support.extent import Size, highest

from . import binding, dtypes
from .load import check_size, untranslated
from .nodes import reader_of

_REMEDIES = {
    "sequence": "Make each element an input, and put them together with SequenceConstruct",
    "optional": "Make it an input that is always given, or export the model without it",
}


def check_given(model: ModelProto, shapes: Any, values: Any) -> None:
    """Raise ShapeError when ``shapes`` or ``values`` is no dict by names of the model."""
    for name, given in (("shapes", shapes), ("values", values)):
        if not isinstance(given, Mapping):
            raise ShapeError(f"{name}={given!r}: give a dict by input name")
    inputs = {v.name for v in model.graph.input}
    dims = [d for v in model.graph.input for d in v.type.tensor_type.shape.dim if d.dim_param]
    symbols = {name for d in dims for name in (d.dim_param, *binding.names_in(d.dim_param))}
    for given, known, what in (
        (shapes, inputs | symbols, "input or dimension"),
        (values, inputs, "input"),
    ):
        for name in given:
            if name not in known:
                names = ", ".join(sorted(known)) or "none"
                raise ShapeError(f"the model has no {what} '{name}'; it has: {names}")


def is_ignored(graph: GraphProto, value: onnx.ValueInfoProto) -> bool:
    """Whether a graph input is none of a program: no tensor of numbers, and read by no node."""
    try:
        input_dtype(value)
    except UnsupportedOp:
        read = reader_of(graph, value.name) or any(o.name == value.name for o in graph.output)
        return not read
    return False


def input_dtype(value: onnx.ValueInfoProto) -> str:
    """Element type of a graph input. Raises UnsupportedOp for all but tensors of numbers."""
    kind = (value.type.WhichOneof("value") or "unknown type").removesuffix("_type")
    dtype = dtypes.from_onnx(value.type.tensor_type.elem_type)
    if kind == "tensor" and dtypes.is_supported(dtype):
        return dtype
    if kind == "tensor":
        reason, remedy, _ = untranslated(dtype)
    else:
        reason, remedy = f"its type is {kind}; only tensors are compiled", _REMEDIES.get(kind, "")
    raise UnsupportedOp(
        Gap(value.name, "", reason, remedy or "Use tensors", type_text(value.type), kind="input")
    )


def input_shape(
    value: onnx.ValueInfoProto, dtype: str, shapes: Mapping[str, Any]
) -> tuple[Size, ...]:
    """Shape of a graph input; ``shapes`` fills in unknown dimensions.

    shapes: a shape by the input's name, or a size by the name of a symbolic dimension; what a size
    is says `binding`.
    Raises ShapeError when a dimension stays unknown, or does not fit what the model declares.
    """
    declared = _declared(value)
    if value.name in shapes:
        shape = _given_shape(value.name, declared, shapes[value.name])
        _check_fit(value.name, declared, shape)
    elif declared is None:
        raise _unknown(value, "its shape is not known")
    else:
        shape = tuple(_dimension(value, d, shapes) for d in declared)
    check_size([highest(size) for size in shape], dtype, value.name, "", "input")
    return shape


def input_array(value: onnx.ValueInfoProto, dtype: str, given: Any) -> np.ndarray:
    """What a caller gives as the value of a graph input, in the type that the model declares."""
    try:
        array = np.asarray(given).astype(dtypes.numpy_dtype(dtype))
    except (TypeError, ValueError) as error:
        raise ShapeError(f"values['{value.name}'] is not an array of {dtype}: {error}") from None
    _check_fit(value.name, _declared(value), array.shape)
    return array


def _declared(value: onnx.ValueInfoProto) -> list[Any] | None:
    tensor = value.type.tensor_type
    return list(tensor.shape.dim) if tensor.HasField("shape") else None


def type_text(kind: onnx.TypeProto) -> str:
    """``sequence of float32[2,n]``."""
    which = kind.WhichOneof("value") or "unknown type"
    if which in ("sequence_type", "optional_type"):
        inner = getattr(kind, which).elem_type
        return f"{which.removesuffix('_type')} of {type_text(inner)}"
    if which not in ("tensor_type", "sparse_tensor_type"):
        return which.removesuffix("_type")
    tensor = getattr(kind, which)
    text = which.removesuffix("tensor_type").replace("_", " ") + dtypes.from_onnx(tensor.elem_type)
    if not tensor.HasField("shape"):
        return text
    return text + f"[{','.join(map(_dimension_text, tensor.shape.dim))}]"


def _dimension_text(dim: Any) -> str:
    return str(dim.dim_value) if dim.HasField("dim_value") else dim.dim_param or "?"


def _check_fit(name: str, declared: list[Any] | None, shape: tuple[Size, ...]) -> None:
    text = f"[{', '.join(map(str, shape))}]"
    if declared is not None and len(declared) != len(shape):
        raise ShapeError(
            f"input '{name}' has rank {len(declared)}, the given shape {text} does not"
        )
    for have, want in zip(declared or [], shape, strict=False):
        if have.HasField("dim_value") and have.dim_value not in (want, 0, -1):
            raise ShapeError(
                f"input '{name}': the model fixes a dimension to "
                f"{have.dim_value}, the given shape {text} does not fit"
            )


def _given_shape(name: str, declared: list[Any] | None, given: Any) -> tuple[Size, ...]:
    try:
        items = list(given)
    except TypeError:
        items = [None]
    if any(isinstance(item, str) or item is None for item in items):
        raise ShapeError(f"shapes['{name}'] is {given!r}; a sequence of ints is expected")
    symbols = [dim.dim_param for dim in declared or []] + [""] * len(items)
    return tuple(
        binding.size_of(f"shapes['{name}'][{axis}]", symbol or f"{name}.{axis}", item)
        for axis, (item, symbol) in enumerate(zip(items, symbols, strict=False))
    )


def _dimension(value: onnx.ValueInfoProto, dim: Any, shapes: Mapping[str, Any]) -> Size:
    if dim.HasField("dim_value") and dim.dim_value >= 0:
        return int(dim.dim_value)
    size = binding.dimension(dim.dim_param, shapes) if dim.dim_param else None
    if size is not None:
        return size
    what = f"dimension '{dim.dim_param}'" if dim.dim_param else "a dimension"
    raise _unknown(value, f"{what} is not known", dim.dim_param)


def _unknown(value: onnx.ValueInfoProto, reason: str, symbol: str = "") -> ShapeError:
    remedy = f"Pass shapes={{'{value.name}': (...)}}" + (
        f" or shapes={{'{symbol}': ...}}" if symbol else ""
    )
    detail, needs = type_text(value.type), (value.name,)
    return ShapeError(Gap(value.name, "", reason, remedy, detail, needs, "input"))
