"""Graphs whose inputs have open axes, compiled once for ranges of sizes and called with several.

A graph grows by operators that leave these axes open, If and Loop among them. Each call is judged
like one of a graph of these very sizes, and so is what is compiled for sizes of a call. Some are
for packed requests, each of which is answered as if it were alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
from onnx import GraphProto, ModelProto

import rcompiler
from rcompiler.errors import ShapeError, UnsupportedOp
from rcompiler.frontend import import_onnx
from rcompiler.frontend.packed.packing import packings_of
from rcompiler.frontend.randomness import DRAWS

from . import catalog, evaluate, graphs, judge
from .declared import declared
from .evaluate import Unjudged
from .graphs import Case
from .judge import Outcome, Report
from .maker import Maker, Reject

# What the sizes of open axes are while a graph grows: rarely that of another axis.
_SIZES = {"n": 19, "m": 23}
_SHAPES = (("n",), ("n", "m"), ("n", 4), ("n", 8), (2, "n"), (1, "n", 16), ("n", 3, "m"),
           (2, 3, "n", "m"), ("n", 2, 5, 5))  # fmt: skip
_PACKED = (("m", "n"), ("m", "n", 2), ("m", "n", 3))  # requests and their positions
_TRIES = 80  # of nodes
_COUNTS = (2, 3, 5, 8, 12)  # of nodes that found a place
_WISHED = ("If", "Loop", "Scan", "MatMul", "Conv", "Softmax", "ReduceSum", "Concat", "Gather")
_CALLS = 3
_REQUESTS = 4


@dataclass(frozen=True)
class RangesCase(Case):
    """A graph of the sizes _SIZES. ranges: for which it is compiled, by names of sizes; calls:
    those that it is called with; packed: whether a call has a list of requests, whose lengths are
    `n`."""

    ranges: dict[str, range] = field(default_factory=dict)
    calls: tuple[Mapping[str, int], ...] = ()
    packed: bool = False

    @property
    def how(self) -> dict[str, Any]:
        """Keywords of compile_onnx that say so."""
        tops = {name: (sizes[-1],) for name, sizes in self.ranges.items()}
        if not self.packed:
            return {"shapes": self.ranges, "buckets": tops}
        rows = sum(sizes["n"] for sizes in self.calls)
        shapes = {**self.ranges, "m": _REQUESTS}
        return {"shapes": shapes, "packed": ("m", "n"), "buckets": {"rows": (rows,)}}

    def at(self, sizes: Mapping[str, int]) -> Case:
        """The case of these sizes. Raises Unjudged where it means nothing for them."""
        feeds = {
            name: _resized(array, [sizes.get(_open(d), d) for d in array.shape])
            for name, array in self.feeds.items()
        }
        kinds = evaluate.value_types(self.model)
        values = evaluate.evaluate(self.model, feeds)
        return Case(declared(self.model, values, kinds), feeds, self.options)


def case_of(seed: int, targets: Sequence[str] = ("cpu",)) -> RangesCase:
    """The case of a seed. Raises Reject where no operators find a place, or not for a CPU."""
    if not any(target.startswith("cpu") for target in targets):
        raise Reject
    g = Maker(seed, 0)
    g.opset = g.pick((21, 22, 23, 24))
    low, packed = g.pick((1, 1, 2, 5)), g.chance(0.2)
    ranges = {name: range(low, low + g.pick((3, 8, 20)) + 1) for name in _SIZES}
    calls = tuple({n: g.int(r[0], r[-1]) for n, r in ranges.items()} for _ in range(_CALLS - 1))
    calls = ({n: r[-1] for n, r in ranges.items()}, *calls)
    if packed:
        calls = tuple({**sizes, "m": 1} for sizes in calls)
    options = graphs.options_of(g, ("cpu",))
    case = RangesCase(ModelProto(), {}, options, "", ranges, calls, packed)
    _grow(g, case)
    model = g.model()
    feeds = {value.name: g.inputs[value.name] for value in model.graph.input}
    return replace(case, model=model, feeds=feeds, ranges=_of_inputs(_opened(model), ranges))


def _grow(g: Maker, case: RangesCase) -> None:
    """Add inputs with open axes, and nodes that leave them open."""
    shapes = _PACKED if case.packed else _SHAPES
    for _ in range(g.int(1, 2)):
        kind = g.pick(("float32", "float32", "float32", "float16", "int64"))
        g.leaf(kind, [_SIZES.get(d, d) for d in g.pick(shapes)], -2, 2, constant=False)
    keys = [k for k, made in catalog.generators().items() if g.opset in made.opsets]
    keys = [key for key in keys if key[0] not in DRAWS]
    common = [key for key in keys if not key[1] and key[0] in graphs.COMMON]
    wished = [key for key in keys if key[0] in _WISHED]
    done, wanted = 0, g.pick(_COUNTS)
    for _ in range(_TRIES):
        if done == wanted:
            break
        mark = g.mark()
        if not graphs.add(g, g.pick(g.pick((common, common, wished, keys)))):
            continue
        if _reads_open(g, len(mark[0])) and _stays_open(g, case):
            done += 1
        else:
            g.back(mark)
    if not done:
        raise Reject("no operator found a place")


def _reads_open(g: Maker, first: int) -> bool:
    """Whether one of the nodes from that on reads what has an open axis."""
    read = {name for node in g.nodes[first:] for name in evaluate.reads(node)}
    arrays = [g.values[name].array for name in read if name in g.values]
    return any(_open(d) for a in arrays if isinstance(a, np.ndarray) for d in a.shape)


def _stays_open(g: Maker, case: RangesCase) -> bool:
    """Whether the graph so far is one for the ranges."""
    mark = g.random.getstate()
    model = _opened(g.model())
    g.random.setstate(mark)
    try:
        if case.packed:
            how = case.how
            found = packings_of(model, how["shapes"], how["buckets"], how["packed"])
            import_onnx(model, packing=found.bindings[0])
        else:
            import_onnx(model, _of_inputs(model, case.ranges))
    except (UnsupportedOp, ShapeError):
        return False
    return True


def _of_inputs(model: ModelProto, ranges: Mapping[str, range]) -> dict[str, range]:
    """Those of sizes that inputs have."""
    dims = [d.dim_param for v in model.graph.input for d in v.type.tensor_type.shape.dim]
    return {name: sizes for name, sizes in ranges.items() if name in dims}


def _open(size: int) -> str:
    """The name of the open axes of a size; "" of others."""
    return next((name for name, d in _SIZES.items() if d == size), "")


def _resized(array: np.ndarray, shape: Sequence[int]) -> np.ndarray:
    """The elements of it that fit, and the same ones again behind them."""
    for axis, size in enumerate(shape):
        array = np.take(array, np.arange(size) % array.shape[axis], axis) if size else array
    return array


def _opened(model: ModelProto) -> ModelProto:
    """The graph with names for the sizes that are open, which says no shapes of results."""
    out = ModelProto()
    out.CopyFrom(model)
    for value in out.graph.input:
        for dim in value.type.tensor_type.shape.dim:
            if name := _open(dim.dim_value):
                dim.dim_param = name
    del out.graph.value_info[:]
    _forget(out.graph)
    return out


def _forget(graph: GraphProto) -> None:
    """Say no shapes of results, in subgraphs, too."""
    for value in graph.output:
        value.type.tensor_type.ClearField("shape")
    for attribute in (a for node in graph.node for a in node.attribute if a.HasField("g")):
        for value in (*attribute.g.input, *attribute.g.value_info):
            value.type.tensor_type.ClearField("shape")
        _forget(attribute.g)


def judged(case: Case, report: Report = lambda stage: None) -> Outcome:
    """What became of a case: of the first call that is not right, else of what is compiled for the
    sizes of the last one."""
    assert isinstance(case, RangesCase)
    report("judge")
    calls: dict[int, Case] = {}
    for number, sizes in enumerate(case.calls):
        try:
            calls[number] = case.at(sizes)
        except Unjudged as error:  # the graph has no meaning for these
            if case.packed:  # the requests of a call are answered together
                return Outcome("no graph", str(error))
    if not calls:
        return Outcome("no graph", "it has a meaning for none of the sizes")
    ranged = _Ranged(case, list(calls.values()))
    for number, exact in calls.items():
        outcome = judge.judge(exact, report, partial(ranged.called, number))
        if not outcome.good:
            return replace(outcome, reason=f"{case.how}, {case.calls[number]}: {outcome.reason}")
    outcome = judge.judge(exact, report)
    return replace(outcome, tried=1 + len(calls))


class _Ranged:
    """The model of a case, compiled once, at its first call."""

    def __init__(self, case: RangesCase, calls: Sequence[Case]) -> None:
        self._case, self._calls = case, calls
        self._model: Any = None

    def called(self, number: int, *_: Any, **__: Any) -> Callable[..., list[Any]]:
        """What answers the call of that number as a model of its sizes does."""
        case = self._case
        if self._model is None:
            opened = _opened(case.model)
            self._model = rcompiler.compile_onnx(opened, **{**case.options, **case.how})
        return partial(self._request, number) if case.packed else self._model

    def _request(self, number: int, **feeds: np.ndarray) -> list[Any]:
        """The results of one of the requests, which are all in one call."""
        given = {name: self._given(name) for name in feeds}
        results, exact = self._model(**given), self._calls[number].model.graph.output
        return [
            _alone(result[number], [d.dim_value for d in value.type.tensor_type.shape.dim])
            if isinstance(result, list)
            else _of(number, result, tensor)
            for result, tensor, value in zip(results, self._model.outputs, exact, strict=True)
        ]

    def _given(self, name: str) -> Any:
        """Of an input with requests and positions a list, of one with requests those in order."""
        arrays, shape = [each.feeds[name] for each in self._calls], self._case.feeds[name].shape
        if _SIZES["m"] not in shape:
            return arrays[0]
        if _SIZES["n"] in shape:
            return [array[0] for array in arrays]
        return np.concatenate(arrays, shape.index(_SIZES["m"]))


def _alone(result: np.ndarray, shape: Sequence[int]) -> np.ndarray:
    """With the axis of one request, which results are without."""
    places = [axis for axis, size in enumerate(shape) if size == 1]
    found = [axis for axis in places if (*shape[:axis], *shape[axis + 1 :]) == result.shape]
    return result.reshape(shape) if found else result


def _of(number: int, result: np.ndarray, tensor: Any) -> np.ndarray:
    """A result without positions, for one of the requests."""
    sizes = [str(size) for size in tensor.sizes]
    return np.take(result, [number], sizes.index("m")) if "m" in sizes else result
