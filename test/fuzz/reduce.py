"""From a case with a finding to the smallest one that has it: nodes, results, attributes, options.

Each step tries a smaller model and keeps it if the same thing is found of it. Where a node is taken
out, what read its results reads inputs instead, which are fed what the nodes made.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np
import onnx
from onnx import ModelProto, NodeProto, helper, numpy_helper

from rcompiler.frontend import dtypes

from . import evaluate
from .graphs import Case
from .judge import Outcome

Judge = Callable[[Case], Outcome]


def reduced(case: Case, judge: Judge, most: int = 400) -> tuple[Case, Outcome]:
    """The smallest case found, and its outcome. most: cases that may be tried."""
    wanted = judge(case)
    tries = 0
    progress = True
    while progress:
        progress = False
        for smaller in _smaller(case):
            tries += 1
            if tries > most:
                return case, wanted
            found = judge(smaller)
            if found.status == wanted.status and _like(found, wanted):
                case, wanted, progress = smaller, found, True
                break
    return case, wanted


def _like(found: Outcome, wanted: Outcome) -> bool:
    """Wrong results may turn up at another operator once that one is all that is left."""
    return found.status in ("wrong", "crash", "hang") or found.key == wanted.key


def _smaller(case: Case) -> Iterator[Case]:
    """Cases with less in them, those with much less first."""
    nodes = list(case.model.graph.node)
    for size in _halves(len(nodes)):
        for start in range(0, len(nodes), size):
            kept = nodes[:start] + nodes[start + size :]
            if kept and (made := _of_nodes(case, kept)) is not None:
                yield made
    for name in [n for n in case.options if n != "target"]:
        yield replace(case, options={k: v for k, v in case.options.items() if k != name})
    yield from _fewer_results(case)
    for i, node in enumerate(nodes):
        for attribute in node.attribute:
            other = NodeProto()
            other.CopyFrom(node)
            del other.attribute[:]
            other.attribute.extend(a for a in node.attribute if a.name != attribute.name)
            if (made := _of_nodes(case, [*nodes[:i], other, *nodes[i + 1 :]])) is not None:
                yield made
    yield from _shorter(case)


def _halves(count: int) -> Iterator[int]:
    size = count // 2
    while size > 1:
        yield size
        size //= 2
    yield 1


def _of_nodes(case: Case, nodes: list[NodeProto]) -> Case | None:
    """The case with these nodes only; None where the rest is no graph."""
    values = _values(case)
    if values is None:
        return None
    made = {name for node in nodes for name in node.output if name}
    read = {name for node in nodes for name in evaluate.reads(node)}
    kinds = evaluate.value_types(case.model)
    given = {t.name: t for t in case.model.graph.initializer if t.name in read}
    fed = [n for n in sorted(read) if n not in made and n not in given and n in values]
    if any(n not in kinds or not isinstance(values[n], np.ndarray) for n in fed):
        return None
    feeds = {n: case.feeds.get(n, _typed(values[n], kinds[n])) for n in fed}
    results = [n for n in sorted(made) if n not in read or n in _names(case.model.graph.output)]
    results = [n for n in results if n in kinds and isinstance(values[n], np.ndarray)]
    return _case(case, nodes, feeds, results) if results else None


def _values(case: Case) -> dict[str, object] | None:
    try:
        return evaluate.evaluate(case.model, case.feeds)
    except evaluate.Unjudged:
        return None


def _fewer_results(case: Case) -> Iterator[Case]:
    names = _names(case.model.graph.output)
    for name in names if len(names) > 1 else ():
        yield _case(case, list(case.model.graph.node), case.feeds, [n for n in names if n != name])


def _shorter(case: Case) -> Iterator[Case]:
    """Every input and constant cut to half along an axis, where all others stay as they are."""
    arrays = {t.name: numpy_helper.to_array(t) for t in case.model.graph.initializer}
    arrays |= case.feeds
    sizes = sorted({d for a in arrays.values() for d in a.shape if d > 1}, reverse=True)
    for size in sizes:
        cut = {
            n: a[tuple(slice(size // 2) if d == size else slice(None) for d in a.shape)]
            for n, a in arrays.items()
        }
        if (made := _of_arrays(case, cut)) is not None:
            yield made


def _of_arrays(case: Case, arrays: dict[str, np.ndarray]) -> Case | None:
    """The case on other inputs and constants; None where the graph is not valid on them."""
    model = ModelProto()
    model.CopyFrom(case.model)
    graph = model.graph
    for tensor in graph.initializer:
        tensor.CopyFrom(numpy_helper.from_array(arrays[tensor.name], tensor.name))
    feeds = {n: arrays[n] for n in case.feeds}
    kinds = evaluate.value_types(model)
    try:
        values = evaluate.evaluate(model, feeds)
        onnx.checker.check_model(model)
    except Exception:  # the checker's and the reference's errors are of many kinds
        return None
    for infos in (graph.input, graph.output, graph.value_info):
        for info in infos:
            shape = np.shape(values[info.name])
            number = dtypes.to_onnx(kinds[info.name])
            info.CopyFrom(helper.make_tensor_value_info(info.name, number, shape))
    return replace(case, model=model, feeds=feeds)


def _case(
    case: Case, nodes: list[NodeProto], feeds: dict[str, np.ndarray], results: list[str]
) -> Case:
    """Of nodes and results of the case, with what they need of the rest."""
    old = case.model.graph
    read = {name for node in nodes for name in evaluate.reads(node)}
    infos = {v.name: v for v in (*old.input, *old.output, *old.value_info)}
    made = [n for node in nodes for n in node.output if n in infos and n not in results]
    graph = helper.make_graph(
        nodes,
        old.name,
        [infos[n] for n in feeds if n in read],
        [infos[n] for n in results],
        [t for t in old.initializer if t.name in read],
        value_info=[infos[n] for n in made],
    )
    model = helper.make_model(graph, ir_version=case.model.ir_version)
    del model.opset_import[:]
    model.opset_import.extend(case.model.opset_import)
    return replace(case, model=model, feeds={n: a for n, a in feeds.items() if n in read})


def _names(values: object) -> list[str]:
    return [v.name for v in values]  # type: ignore[attr-defined]


def _typed(array: np.ndarray, dtype: str) -> np.ndarray:
    return np.asarray(array).astype(dtypes.numpy_dtype(dtype))
