"""A graph of one node with another type of its tensors: of what no generator draws."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from fuzz import catalog
from fuzz.graphs import Case
from onnx import ModelProto, numpy_helper

from rcompiler.frontend import contrib, dtypes

from .forms import schema_of
from .versions import hold_constants


def retyped(case: Case, version: int, dtype: str) -> Iterator[Case]:
    """The case with `dtype` for the tensors of each type parameter that may have it."""
    model = ModelProto()
    model.CopyFrom(case.model)
    hold_constants(model)
    if len(model.graph.node) != 1:
        return
    [node] = model.graph.node
    schema = schema_of(node.op_type, node.domain, version)
    given = {type_of(formal) for formal in schema.inputs}
    having = {
        each.type_param_str
        for each in schema.type_constraints
        if dtype in map(catalog.dtype_of, each.allowed_type_strs)
    }
    for parameter in sorted(having & given):
        # results of a type of their own take it, too
        names = {name for name, kind in _kinds(node.input, schema.inputs) if kind == parameter}
        changed = {parameter, *(having - given)}
        names |= {name for name, kind in _kinds(node.output, schema.outputs) if kind in changed}
        made = _changed(model, names, dtype)
        if made is not None and _is_valid(made):
            yield Case(made, _fed(made, case.feeds), case.options, case.wished)


def _kinds(names: Iterable[str], formals: Sequence[Any]) -> Iterator[tuple[str, str]]:
    """Names of tensors and of their type parameters; the last formal may stand for several."""
    for at, name in enumerate(names):
        if name:
            yield name, type_of(formals[min(at, len(formals) - 1)])


def type_of(formal: Any) -> str:
    """The type parameter of an input or result, as the onnx package or onnxruntime names it."""
    return str(getattr(formal, "type_str", None) or formal.typeStr)


def _changed(model: ModelProto, names: set[str], dtype: str) -> ModelProto | None:
    made = ModelProto()
    made.CopyFrom(model)
    del made.graph.value_info[:]
    kind = dtypes.to_onnx(dtype)
    before = {tensor.data_type for tensor in made.graph.initializer if tensor.name in names}
    for info in (*made.graph.input, *made.graph.output):
        if info.name in names:
            before.add(info.type.tensor_type.elem_type)
            info.type.tensor_type.elem_type = kind
    for tensor in made.graph.initializer:
        if tensor.name in names:
            array = converted(numpy_helper.to_array(tensor), dtype)
            tensor.CopyFrom(numpy_helper.from_array(array, tensor.name))
    return made if before and before != {kind} else None


def converted(array: np.ndarray, dtype: str) -> np.ndarray:
    """The numbers in another type, the nearest that it has."""
    if dtype == "bool" or not dtypes.is_integer(dtype):
        return np.asarray(array).astype(dtypes.numpy_dtype(dtype))
    low, high = dtypes.limits(dtype)
    whole = np.rint(np.asarray(array).astype(np.float64))
    return np.clip(whole, max(low, -(2.0**31)), min(high, 2.0**31)).astype(
        dtypes.numpy_dtype(dtype)
    )


def _fed(model: ModelProto, feeds: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    kinds = {v.name: dtypes.from_onnx(v.type.tensor_type.elem_type) for v in model.graph.input}
    return {name: converted(feeds[name], kind) for name, kind in kinds.items()}


def _is_valid(model: ModelProto) -> bool:
    """As the onnx package sees it, which knows no operators of onnxruntime's."""
    if any(node.domain == contrib.DOMAIN for node in model.graph.node):
        return True
    try:
        onnx.checker.check_model(model, full_check=True)
    except Exception:  # of the checker, of shape inference, or of C++
        return False
    return True
