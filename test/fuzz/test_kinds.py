"""The kinds "large", "calls" and "halves" make what they say, and see what is wrong."""

import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))

from fuzz import calls, graphs, halves, kinds, large  # noqa: E402
from fuzz.maker import Reject  # noqa: E402


def _depth(model):
    deepest = {}
    for node in model.graph.node:
        deepest[node.output[0]] = 1 + max((deepest.get(name, 0) for name in node.input), default=0)
    return max(deepest.values())


def _cases(seeds):
    for seed in seeds:
        try:
            yield large.case_of(seed)
        except Reject:
            continue


def test_large_graphs_are_deep_or_wide():
    depths = {_depth(case.model): len(case.model.graph.node) for case in _cases(range(40, 60))}
    assert max(depths) > 700 and min(depths) <= 10
    assert any(depth <= 10 and nodes > 150 for depth, nodes in depths.items())
    with pytest.raises(Reject):
        large.case_of(0, ("cuda:emulated",))


def test_a_large_graph_is_judged():
    small = min(range(8), key=lambda seed: _nodes(seed))
    assert kinds.KINDS["large"](small, ("cpu",), lambda stage: None).status == "ok"


def _nodes(seed):
    return next((len(case.model.graph.node) for case in _cases([seed])), 1 << 20)


def test_programs_that_draw_are_compared_with_one_key():
    """A random operator draws other numbers in each call."""
    seed = 3734794531
    drawn = {node.op_type for node in graphs.case_of(seed, ("cpu",)).model.graph.node}
    assert "RandomNormal" in drawn
    assert kinds.KINDS["schedules"](seed, ("cpu",), lambda stage: None).status == "ok"


@pytest.mark.parametrize("name", calls._WAYS)
def test_each_way_of_calling_gives_the_same_bits_and_is_told_where_it_does_not(name, monkeypatch):
    seed = 4
    case = graphs.case_of(seed, ("cpu",))
    assert case.feeds and calls.calls(seed, ("cpu",), lambda stage: None).status == "ok"
    way = calls._WAYS[name]
    monkeypatch.setattr(calls, "_WAYS", dict.fromkeys("abc", way))
    assert calls.calls(seed, ("cpu",), lambda stage: None).status == "ok"

    def other(model, case):
        found = way(model, case)
        assert isinstance(found, list)
        return [bytes(len(data)) + b"." for data in found]

    monkeypatch.setattr(calls, "_WAYS", dict.fromkeys("abc", other))
    found = calls.calls(seed, ("cpu",), lambda stage: None)
    assert found.status == "wrong" and "have other bits" in found.reason


def _keeps_a_state(seed):
    stages = []
    return calls.calls(seed, ("cpu",), stages.append).status == "ok" and "state" in stages


def test_state_that_is_not_kept_is_seen(monkeypatch):
    """Of the first case that has an input and a result of one type."""
    from rcompiler.model import CompiledModel

    seed = next(filter(_keeps_a_state, range(200)))
    reset = CompiledModel.reset

    def forgets(self, initial=None):
        reset(self, {name: np.asarray(x) * 0 for name, x in (initial or {}).items()})

    monkeypatch.setattr(CompiledModel, "reset", forgets)
    assert calls.calls(seed, ("cpu",), lambda stage: None).status == "wrong"


def test_most_inputs_of_halves_are_of_16_bits():
    types = []
    for seed in range(60):
        try:
            feeds = halves.case_of(seed, ("cpu",)).feeds
        except Reject:
            continue
        types += [array.dtype.name for array in feeds.values()]
    wanted = [name for name in types if name in ("float16", "bfloat16")]
    assert {*wanted} == {"float16", "bfloat16"} and len(wanted) > len(types) / 3
    assert kinds.KINDS["halves"](7, ("cpu",), lambda stage: None).status == "ok"
