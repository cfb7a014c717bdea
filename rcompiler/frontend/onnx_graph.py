"""The front end's entry point: an ONNX model becomes S1."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from onnx import ModelProto, ValueInfoProto

from rcompiler.errors import ShapeError, UnsupportedOp

from . import dtypes, load
from .builder import Value
from .control import Unknown
from .interpret import Frame, Interpreter
from .registry import Gap

if TYPE_CHECKING:
    from torch_mlir import ir

Model: TypeAlias = str | os.PathLike | bytes | ModelProto


@dataclass(frozen=True)
class TensorSpec:
    """Name, static shape and element type (numpy / ml_dtypes name) of an input or output."""

    name: str
    shape: tuple[int, ...]
    dtype: str


@dataclass(frozen=True)
class Imported:
    """S1 of a model: text, the constants it refers to by key, and its signature."""

    module_text: str
    constants: dict[str, np.ndarray]
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]

    def parse(self, context: ir.Context | None = None) -> ir.Module:
        """The verified module. A new context keeps resource keys as they are: a context that has
        seen a key before renames it on parsing."""
        from torch_mlir import ir

        with context or ir.Context():
            module = ir.Module.parse(self.module_text)
            module.operation.verify()
            return module


def import_onnx(
    model: Model,
    shapes: Mapping[str, Any] | None = None,
    values: Mapping[str, Any] | None = None,
) -> Imported:
    """Translate a model (path, bytes or ModelProto, any opset the onnx package knows) to S1.

    shapes: static shapes of inputs by name, or sizes of symbolic dimensions by name.
    values: inputs whose values are fixed while compiling (they are no longer inputs).
    Raises InvalidModel, ShapeError, UnsupportedOp.
    """
    interpreter, results = _run(load.load(model), shapes, values, None)
    b = interpreter.b
    text = b.module(results)
    inputs = [(v.shape, v.dtype, name) for v, name in b.arguments]
    return Imported(
        text,
        b.constants,
        tuple(TensorSpec(name, shape, dtype) for shape, dtype, name in inputs),
        tuple(TensorSpec(name, v.shape, v.dtype) for name, v in results),
    )


def list_gaps(
    model: Model,
    shapes: Mapping[str, Any] | None = None,
    values: Mapping[str, Any] | None = None,
) -> list[Gap]:
    """Every reason why a model cannot be compiled; empty when it can."""
    gaps: list[Gap] = []
    _run(load.load(model), shapes, values, gaps)
    return gaps


def _run(
    model: ModelProto,
    shapes: Mapping[str, Any] | None,
    values: Mapping[str, Any] | None,
    gaps: list[Gap] | None,
) -> tuple[Interpreter, list[tuple[str, Value]]]:
    load.check(model)
    for name, given in (("shapes", shapes), ("values", values)):
        if given is not None and not isinstance(given, Mapping):
            raise ShapeError(f"{name}={given!r}: give a dict by input name")
    shapes, values = dict(shapes or {}), dict(values or {})
    graph = model.graph
    _check_names(model, shapes, values)
    interpreter = Interpreter(model, gaps)
    bind: dict[str, Any] = {}
    initialised = {t.name for t in graph.initializer} | {
        t.values.name for t in graph.sparse_initializer
    }
    for value in graph.input:
        if value.name in values:
            bind[value.name] = _fixed(interpreter, value, values[value.name])
        elif value.name not in initialised:
            shape, dtype = load.input_spec(value, shapes)
            load.check_size(f"input '{value.name}'", shape, dtype)
            bind[value.name] = interpreter.b.argument(value.name, shape, dtype)
    opsets = {o.domain: o.version for o in model.opset_import}
    outputs = interpreter.graph(graph, bind, Frame({}, opsets))
    results = []
    for declared, value in zip(graph.output, outputs, strict=True):
        if isinstance(value, Value):
            results.append((declared.name, value))
        elif isinstance(value, Unknown):
            continue  # the gap it comes from is listed
        elif gaps is None:
            raise UnsupportedOp(
                f"output '{declared.name}' is not a tensor; only tensors are "
                "compiled. Return its elements"
            )
        else:
            reason = "only tensors are compiled as outputs"
            gaps.append(Gap(declared.name, "output", reason, "Return its elements"))
    return interpreter, results


def _fixed(interpreter: Interpreter, declared: ValueInfoProto, given: Any) -> Value:
    """An input whose value is given, in the type that the model declares."""
    dtype = dtypes.from_onnx(declared.type.tensor_type.elem_type)
    if not dtypes.is_supported(dtype):
        raise UnsupportedOp(
            f"input '{declared.name}' has element type {dtype}, which is not translated"
        )
    try:
        array = np.asarray(given).astype(dtypes.numpy_dtype(dtype))
    except (TypeError, ValueError) as error:
        raise ShapeError(f"values['{declared.name}'] is not an array of {dtype}: {error}") from None
    return interpreter.b.constant_view(array, dtype)


def _check_names(model: ModelProto, shapes: Mapping[str, Any], values: Mapping[str, Any]) -> None:
    inputs = {v.name for v in model.graph.input}
    symbols = {
        d.dim_param for v in model.graph.input for d in v.type.tensor_type.shape.dim if d.dim_param
    }
    for name in [*shapes, *values]:
        if name not in inputs | symbols:
            raise ShapeError(
                f"the model has no input or dimension '{name}'; it has: "
                f"{_listing(inputs | symbols)}"
            )


def _listing(names: Sequence[str] | set[str]) -> str:
    return ", ".join(sorted(names)) or "none"
