"""Graphs of which a dimension is known at run time only, beside the same graphs as they are.

A size of an input becomes a range around it, along one axis or wherever inputs have it. What is
not refused has to answer as before; behind what is there the arguments hold poison. Both are run
as S1, by the naive runner.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import onnx
from onnx import ModelProto
from support.sized import exact_answers, sized_answers

from rcompiler.errors import ShapeError, UnsupportedOp
from rcompiler.frontend import Imported, import_onnx
from rcompiler.frontend.randomness import DRAWS

from . import graphs
from .graphs import Case
from .judge import Outcome, Report
from .maker import Reject

SYMBOL = "s"
_NEAR = {"float16": 1e-2, "bfloat16": 5e-2, "float32": 1e-4, "float64": 1e-9}


@dataclass(frozen=True)
class SizedCase:
    """A graph with one size that is a range; size: what it is in the feeds."""

    case: Case
    model: ModelProto
    sizes: range
    size: int

    def imported(self) -> Imported:
        """Raises UnsupportedOp or ShapeError for what is refused."""
        return import_onnx(self.model, {SYMBOL: self.sizes})


def case_of(seed: int) -> SizedCase:
    """The case of a seed. Raises Reject where it has no graph."""
    case = graphs.case_of(seed, ("cpu",))
    rng = random.Random(seed)
    axes = [(name, axis) for name, array in case.feeds.items() for axis in range(array.ndim)]
    if not axes or any(node.op_type in DRAWS for node in case.model.graph.node):
        raise Reject
    name, axis = rng.choice(axes)
    size = case.feeds[name].shape[axis]
    everywhere = rng.random() < 0.6
    model = onnx.ModelProto()
    model.CopyFrom(case.model)
    for value in model.graph.input:
        dims = value.type.tensor_type.shape.dim
        for d, dim in enumerate(dims):
            if (value.name, d) == (name, axis) or everywhere and dim.dim_value == size:
                dim.dim_param = SYMBOL
    low = rng.randint(min(size, 1), size)
    sizes = range(low, max(low + 1, size + rng.choice([0, 1, 2, 5])) + 1)
    return SizedCase(case, model, sizes, size)


def sized(seed: int, targets: Sequence[str], report: Report) -> Outcome:
    """A random graph with a size that is known at run time only."""
    report("generate")
    try:
        case = case_of(seed)
        report("import")
        shapes = {name: array.shape for name, array in case.case.feeds.items()}
        import_onnx(case.case.model, shapes)
    except (Reject, UnsupportedOp, ShapeError):
        return Outcome("no graph")
    try:
        bound = case.imported()
    except (UnsupportedOp, ShapeError) as error:
        return Outcome("no graph", str(error))
    report("run")
    try:
        return judged(case, bound)
    except RuntimeError as error:  # what the naive runner cannot lower, such as erf of f64
        return Outcome("reference crash", str(error))


def judged(case: SizedCase, bound: Imported) -> Outcome:
    """Whether both answers are the same."""
    feeds = case.case.feeds
    shapes = {name: array.shape for name, array in feeds.items()}
    expected = exact_answers(case.case.model, shapes, feeds)
    found, _ = sized_answers(bound, feeds, {SYMBOL: case.size})
    for spec, x, y in zip(bound.outputs, found, expected, strict=True):
        if x.shape != y.shape:
            return _wrong(case, f"{spec.name} has shape {x.shape}, not {y.shape}")
        near = _NEAR.get(spec.dtype, 0.0)
        a, b = x.astype(np.float64), y.astype(np.float64)
        if not np.allclose(a, b, near, near * max(1.0, abs(b).max(initial=0)), equal_nan=True):
            return _wrong(case, f"{spec.name} differs by {np.nanmax(abs(a - b))}")
    return Outcome("ok")


def _wrong(case: SizedCase, reason: str) -> Outcome:
    ops = "+".join(sorted({node.op_type for node in case.model.graph.node}))
    return Outcome("wrong", reason, f"sized {ops}")
