"""Compiling a model some of whose nodes are functions of the caller's."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from rcompiler.composite_model import CompositeModel
from rcompiler.errors import FallbackError
from rcompiler.fallback import Fallback, chosen
from rcompiler.frontend import TensorSpec
from rcompiler.frontend.cut import Cut, CutNode, cut
from rcompiler.frontend.load import load
from rcompiler.frontend.size_sets import sizes_of
from rcompiler.runtime.composite import FunctionStep, PartStep, Plan, Step
from rcompiler.runtime.program import Tensor


def in_pieces(
    model: Any,
    shapes: Mapping[str, Any] | None,
    values: Mapping[str, Any] | None,
    fallback: Mapping[str, Fallback],
    compiled: Callable[[Any], Any],
) -> CompositeModel | None:
    """The model of parts and functions; None where all of it is compiled.

    model, shapes, values: as of compile_onnx. compiled: compiles a part.
    Raises CompilerError, FallbackError.
    """

    def typed(
        name: str,
        op: str,
        operands: Sequence[np.ndarray | None],
        attributes: Mapping[str, Any],
        told: Sequence[TensorSpec],
    ) -> list[TensorSpec]:
        found = chosen(fallback, op)
        assert found is not None
        if found.shapes is None and all(spec.dtype for spec in told):
            return list(told)
        names = [spec.name for spec in told]
        made = found.results(f"node '{name}' ({op})", names, operands, attributes)
        return [TensorSpec(tensor.name, tensor.shape, tensor.dtype) for tensor in made]

    proto = load(model)
    if sizes_of(proto, shapes) is not None:
        raise FallbackError(
            "fallback: results of functions have one shape, and shapes= asks for several sizes; "
            "give one size of each dimension"
        )
    pieces = cut(proto, shapes, values, fallback, typed)
    if pieces is None:
        return None
    steps: list[Step] = []
    parts: list[Any] = []
    for step in pieces.steps:
        if isinstance(step, CutNode):
            results = _tensors(step.results)
            steps.append(
                FunctionStep(step.name, step.op, step.reads, step.attributes, results, step.reason)
            )
            continue
        steps.append(PartStep(len(parts), step.reads, step.writes))
        parts.append(compiled(step.model))
    plan = Plan(_tensors(pieces.inputs), _tensors(pieces.outputs), tuple(steps), _constants(pieces))
    return CompositeModel(plan, parts, fallback)


def _tensors(specs: Sequence[TensorSpec]) -> tuple[Tensor, ...]:
    return tuple(Tensor(spec.name, spec.shape, spec.dtype) for spec in specs)


def _constants(pieces: Cut) -> dict[str, np.ndarray]:
    """What functions read, or the model returns, and is known."""
    found = dict(pieces.constants)
    for step in pieces.steps:
        if isinstance(step, CutNode):
            found |= step.constants
    return found
