"""Quantised networks, which give the same integers on each level of CPUs.

Every result is judged like those of other graphs, those of two levels are the same bit for bit, and
an operator of onnxruntime's is, on the operands that it has there, what that makes of them up to
one of its bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from onnx import ModelProto, NodeProto, helper, numpy_helper
from support.levels import HERE

import rcompiler
from rcompiler.frontend import contrib, dtypes

from . import evaluate, graphs, judge, references
from .graphs import Case
from .judge import Outcome, Report
from .maker import Maker, Reject
from .quantised_graphs import Network, Step
from .quantised_steps import STEPS

_TRIES = 10  # of steps that find no place
# How far apart results of f32 are, beside the largest: by the order of sums, and where a number is
# quantised while a network runs and lies between two bytes.
_NEAR, _DYNAMIC = 1e-5, 0.02


@dataclass(frozen=True)
class QuantisedCase(Case):
    """exact, open: of the network, see there."""

    exact: bool = False
    open: bool = False

    @property
    def names(self) -> list[str]:
        """Of results."""
        return [v.name for v in self.model.graph.output]


def case_of(seed: int, targets: Sequence[str] = ("cpu",)) -> QuantisedCase:
    """The case of a seed. Raises Reject where nothing finds a place in it, or not for a CPU."""
    if not any(target.startswith("cpu") for target in targets):
        raise Reject
    net = grown(Network(seed), STEPS, (1, 2, 2, 3, 4))
    if net.g.chance(0.7):
        net.real(net.tensor())
    options = options_of(net.g)
    return QuantisedCase(net.g.model(), net.g.inputs, options, exact=net.exact, open=net.open)


def options_of(g: Maker) -> dict[str, Any]:
    """Random options of a compilation for a level of CPUs."""
    options = graphs.options_of(g, ("cpu",))
    # other roots round more, and no convolution of bytes takes them
    return options | {"target": f"cpu:{g.pick(HERE)}", "roots": "direct"}


def grown(net: Network, steps: Mapping[Step, int], counts: Sequence[int]) -> Network:
    """The network with an input, and about so many steps on it. steps: how often each is taken.
    Raises Reject where none finds a place."""
    g = net.g
    shape = g.pick(((1, 3), (1, 8), (2, 5), (1, 64), (1, 17), (1, 26), (1, 52)))
    net.begin(g.pick(((*shape, *[g.int(3, 13)] * 2), (*shape, g.int(4, 24)), (g.int(1, 40), 48))))
    if not _grown(net, steps, g.pick(counts)):
        raise Reject
    return net


def _grown(net: Network, steps: Mapping[Step, int], count: int) -> int:
    """Add steps; how many found a place."""
    done = 0
    for _ in range(count + _TRIES):
        if done == count:
            break
        mark = net.mark()
        try:
            (step,) = net.g.random.choices(list(steps), list(steps.values()))
            step(net)
            done += 1
        except Reject:
            net.back(mark)
    return done


def judged(case: Case, report: Report = lambda stage: None) -> Outcome:
    """What became of a case."""
    assert isinstance(case, QuantisedCase)
    found: dict[str, list[np.ndarray]] = {}

    def compile_twice(model: ModelProto, **options: Any) -> Callable[..., list[np.ndarray]]:
        made = {t: rcompiler.compile_onnx(model, **{**options, "target": t}) for t in targets}

        def run(**feeds: np.ndarray) -> list[np.ndarray]:
            found.update({target: list(model(**feeds)) for target, model in made.items()})
            return found[targets[0]]

        return run

    targets = (case.options["target"], "cpu")
    outcome = judge.judge(case, report, compile_twice)
    if not outcome.good:
        return replace(outcome, reason=f"{' and '.join(targets)}: {outcome.reason}")
    here = dict(zip(case.names, found["cpu"], strict=True))
    if case.open:
        outcome = judge.compared(case, here, report)
        if not outcome.good:
            return replace(outcome, reason=f"cpu: {outcome.reason}")
    else:
        theirs = dict(zip(case.names, found[targets[0]], strict=True))
        if why := _apart(theirs, here):
            return Outcome("wrong", f"{targets[0]} and cpu differ: {why}", "levels differ")
    if case.exact and (why := _apart(evaluate.evaluate(case.model, case.feeds), here)):
        return Outcome("wrong", f"instead of exact numbers: {why}", "not exact")
    if why := _beside_onnxruntime(case, report):
        return Outcome("wrong", why, why.partition(":")[0])
    return outcome


def _apart(right: Mapping[str, np.ndarray], found: Mapping[str, np.ndarray]) -> str | None:
    """Where results are not the same."""
    for name, result in found.items():
        if not np.array_equal(result, right[name]):
            return f"{name}: {_first(right[name], result)}"
    return None


def _beside_onnxruntime(case: QuantisedCase, report: Report) -> str | None:
    """Which of its operators means something else to it."""
    nodes = [n for n in case.model.graph.node if n.domain == contrib.DOMAIN]
    if not nodes:
        return None
    values, kinds = evaluate.evaluate(case.model, case.feeds), evaluate.value_types(case.model)
    report("onnxruntime")
    for node in nodes:
        typed = {
            n: np.asarray(values[n]).astype(dtypes.numpy_dtype(kinds[n]))
            for n in (*node.input, *node.output)
            if n
        }
        theirs = references.by_onnxruntime(*_alone(node, case.model, typed))
        for name, result in (theirs or {}).items():
            near = _DYNAMIC if node.op_type.startswith("Dynamic") else _NEAR
            if not _close(result, typed[name], near):
                return f"{node.op_type}: onnxruntime: {_first(result, typed[name])}"
    return None


def _alone(
    node: NodeProto, model: ModelProto, typed: Mapping[str, np.ndarray]
) -> tuple[ModelProto, dict[str, np.ndarray]]:
    """The node as a model, with constants where it has them, and what that is fed."""
    infos = {
        n: helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape)
        for n, a in typed.items()
    }
    made = {n for other in model.graph.node if other.op_type != "Constant" for n in other.output}
    made |= {v.name for v in model.graph.input}
    fed = [n for n in dict.fromkeys(node.input) if n in made]
    graph = helper.make_graph(
        [node],
        "node",
        [infos[n] for n in fed],
        [infos[n] for n in node.output],
        [numpy_helper.from_array(typed[n], n) for n in set(node.input) - made if n],
    )
    alone = helper.make_model(graph, opset_imports=model.opset_import, ir_version=model.ir_version)
    return alone, {n: typed[n] for n in fed}


def _close(a: np.ndarray, b: np.ndarray, near: float = _NEAR) -> bool:
    """Bytes up to one, and f32 up to a part of the largest."""
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    wide = a.astype(np.float64), b.astype(np.float64)
    limit = near * abs(wide[1]).max(initial=0.0) if a.dtype.kind == "f" else 1.0
    return bool((abs(wide[0] - wide[1]) <= limit).all())


def _first(a: np.ndarray, b: np.ndarray) -> str:
    if a.shape != b.shape:
        return f"shapes {list(a.shape)} and {list(b.shape)}"
    differ = np.argwhere(a != b)
    where = tuple(int(i) for i in differ[0])
    return f"{len(differ)} of {a.size} elements, at {list(where)} {a[where]} and {b[where]}"
