"""The same model with other integers in its inputs: a call is refused exactly where an index leads
out of a tensor."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from onnx import ModelProto, NodeProto, TensorProto, ValueInfoProto, helper, numpy_helper

from rcompiler.errors import RangeError

from . import evaluate
from .evaluate import Noise, Unjudged
from .graphs import Case

_FAR = 40  # what is added to an integer, at most
_GOES_ON = frozenset({"MaxUnpool"})  # elements outside are dropped
# They read the shapes of their operands, and no elements.
_OF_SHAPES = frozenset({"EyeLike", "RandomNormalLike", "RandomUniformLike", "Shape", "Size"})
_RUNS = 3  # with rounding errors


def wrongly_judged(case: Case, model: Any) -> str | None:
    """Why what the model does with such inputs is wrong; None if it is right, or none can say."""
    artifact = getattr(model, "artifact", None)
    if artifact is None or not (artifact.checks or artifact.ranges):
        return None
    feeds = _moved(case.feeds)
    expected = {_leads_out(case, feeds, noise) for noise in (None, *map(Noise, range(_RUNS)))}
    # what no element of a result is computed from may be left out, its check with it
    expected.add(_leads_out(case.with_model(computed(case.model)), feeds, None))
    if len(expected) > 1 or None in expected:
        return None
    [expected_error] = expected
    try:
        model(**feeds)
    except RangeError as error:
        return None if expected_error else f"no index leads out, but: {error}"
    return "an index that leads out is accepted" if expected_error else None


def computed(model: ModelProto) -> ModelProto:
    """The nodes that elements of outputs are computed from, and the outputs that have elements.

    Zeros stand for values of which these nodes read the shape, or that have no elements.
    """
    found = ModelProto()
    found.CopyFrom(model)
    graph = found.graph
    infos = {v.name: v for v in (*graph.value_info, *graph.output)}
    outputs = [v for v in graph.output if not _has_none(v)]
    wanted, nodes = {v.name for v in outputs}, []
    for node in reversed(graph.node):
        if wanted.intersection(node.output):
            nodes.append(node)
            elements = _reads(node)
            wanted.update(n for n in elements if n not in infos or not _has_none(infos[n]))
    made = {name for node in graph.node for name in node.output}
    kept = {name for node in nodes for name in node.output}
    for name in dict.fromkeys(name for node in nodes for name in node.input):
        if name in made - kept and name in infos:
            graph.initializer.append(_zeros(infos[name]))
    for field, left in ((graph.node, nodes[::-1]), (graph.output, outputs)):
        copies = [type(each).FromString(each.SerializeToString()) for each in left]
        del field[:]
        field.extend(copies)
    return found


def _has_none(value: ValueInfoProto) -> bool:
    """Whether a value is declared to have no elements."""
    dims = value.type.tensor_type.shape.dim
    return any(d.HasField("dim_value") and d.dim_value == 0 for d in dims)


def _zeros(value: ValueInfoProto) -> TensorProto:
    kind = value.type.tensor_type
    shape = [d.dim_value for d in kind.shape.dim]
    zeros = np.zeros(shape, helper.tensor_dtype_to_np_dtype(kind.elem_type))
    return numpy_helper.from_array(zeros, value.name)


def _reads(node: NodeProto) -> Iterator[str]:
    """Whose elements a node reads, and the nodes of its subgraphs do."""
    if node.op_type not in _OF_SHAPES:
        yield from node.input[:1] if node.op_type == "CastLike" else node.input
    for attribute in node.attribute:
        for graph in (attribute.g, *attribute.graphs):
            yield from (value.name for value in graph.output)
            for inner in graph.node:
                yield from _reads(inner)


def _moved(feeds: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """A few of the elements of integers are others: as many graphs fail as do not."""
    numbers = np.random.default_rng(sum(array.size for array in feeds.values()))
    found = {}
    for name, array in feeds.items():
        if array.dtype in (np.int32, np.int64):
            there = numbers.random(array.shape) < 0.2
            far = numbers.integers(-_FAR, _FAR, array.shape, endpoint=True)
            array = np.where(there, array + far, array).astype(array.dtype)
        found[name] = array
    return found


def _leads_out(case: Case, feeds: Mapping[str, np.ndarray], noise: Noise | None) -> bool | None:
    """None where the reference fails for another reason, or at an operator that goes on."""
    try:
        evaluate.evaluate(case.model, feeds, noise)
    except Unjudged as error:
        outside = isinstance(error.__cause__, IndexError) and error.op not in _GOES_ON
        return True if outside else None
    return False
