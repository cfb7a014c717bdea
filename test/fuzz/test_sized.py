"""Random graphs with a size that is known at run time: what is drawn, and what is seen of it."""

import sys
from pathlib import Path

import numpy as np
from onnx import parser

sys.path.insert(0, str(Path(__file__).parents[1]))

from fuzz import sized  # noqa: E402
from fuzz.graphs import Case  # noqa: E402
from rcompiler.frontend.sized import SizedOps, bare  # noqa: E402

SEEDS = range(30)


def outcomes(seeds):
    return [sized.sized(seed, ("cpu",), lambda stage: None) for seed in seeds]


def test_graphs_of_all_sizes_answer_as_they_are():
    found = outcomes(SEEDS)
    assert all(outcome.good for outcome in found), found
    assert sum(outcome.status == "ok" for outcome in found) >= 6
    refused = [outcome.reason for outcome in found if outcome.reason]
    assert any("sizes that are known at run time" in reason for reason in refused)


def test_what_is_not_masked_is_seen(monkeypatch):
    head = '<ir_version: 10, opset_import: ["": 21]>'
    body = "{ y = ReduceMax<keepdims=0>(x) }"
    exact, open_ = (
        parser.parse_model(f"{head} g (float[{size}, 2] x) => (float y) {body}")
        for size in (3, sized.SYMBOL)
    )
    case = sized.SizedCase(Case(exact, {"x": np.ones((3, 2), np.float32)}), open_, range(1, 8), 3)
    assert sized.judged(case, case.imported()).status == "ok"
    monkeypatch.setattr(SizedOps, "masked", lambda self, value, axes=None, number=0: bare(value))
    assert sized.judged(case, case.imported()).status == "wrong"


def test_the_size_is_in_its_range():
    for seed in SEEDS:
        try:
            case = sized.case_of(seed)
        except sized.Reject:
            continue
        assert case.size in case.sizes
        assert any(
            dim.dim_param == sized.SYMBOL
            for value in case.model.graph.input
            for dim in value.type.tensor_type.shape.dim
        )
        assert all(isinstance(array, np.ndarray) for array in case.case.feeds.values())
