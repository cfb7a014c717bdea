"""How cases are judged by their schedules, and that a wrong one is found."""

from dataclasses import replace

import pytest
from measurements._case_pool import Outcome
from peers.known import read

from interpret import runner
from interpret.judge import WHOLE, Judge, Schedules


@pytest.fixture(scope="module")
def judge():
    return Judge()


def outcome(case, status, **facts):
    return Outcome(case, "", status, "why", 0.0, facts)


def test_a_case_that_is_right_says_what_has_run(judge):
    found = judge.judged("test_softmax_axis_1", "cpu:v4")
    assert found.status == "pass"
    assert found.facts["tasks"] > 0 and not found.facts["whole"]


def test_a_body_of_the_whole_operator_is_told(judge):
    """Until all kinds of operators are tiled for GPUs: then this test has no example."""
    found = judge.judged("test_nonzero_example", "cuda:h200")
    assert found.status == WHOLE
    assert found.facts["whole"]


def test_what_is_not_compiled_is_refused(judge):
    assert judge.judged("test_bernoulli", "cpu:v4").status == "refused"


@pytest.mark.parametrize(
    "old, new",
    [
        ("arith.divf", "arith.addf"),  # of a body
        ("first = 0 : i64, kernel", "first = 1 : i64, kernel"),  # of a schedule
    ],
)
def test_another_text_is_wrong(judge, monkeypatch, old, new):
    compiled = Schedules.compile_onnx

    def damaged(self, model, **options):
        made = compiled(self, model, **options)
        assert old in made.text
        return replace(made, text=made.text.replace(old, new))

    monkeypatch.setattr(Schedules, "compile_onnx", damaged)
    assert judge.judged("test_softmax_axis_1", "cpu:v4").status in ("wrong", "crash")


@pytest.mark.parametrize(
    "target, case",
    [
        ("cpu:v4", "matmul_3d"),
        ("cpu:v4", "reduce_sum_keepdims_random"),
        ("cpu:v4", "maxpool_2d_pads"),
        ("cpu:v4", "averagepool_2d_default"),
        ("cpu:v4", "lstm_defaults"),
        ("cuda:h200", "add_uint64"),
        ("cuda:h200", "transpose_all_permutations_3"),
    ],
)
def test_tiles_make_what_the_operators_are(judge, target, case):
    """Cases of each kind of tiling, which seeded faults of test/mutants have to be found in."""
    found = judge.judged(f"test_{case}", target)
    assert found.status == "pass", found.reason


def test_another_status_than_the_known_one_is_told():
    claimed = {"cpu a": "pass", "cpu b": "refused", "cpu w": "wrong"}
    cases = [("a", "pass"), ("a", WHOLE), ("b", "refused"), ("w", "wrong")]
    assert runner.surprises([outcome(f"cpu {c}", s) for c, s in cases], claimed) == []
    other = [("a", "refused"), ("a", "wrong"), ("a", "crash"), ("b", "pass"), ("c", "pass")]
    assert len(runner.surprises([outcome(f"cpu {c}", s) for c, s in other], claimed)) == 5


def test_all_that_is_known_are_cases():
    claimed = runner.claims(runner.TARGETS.split(","))
    known = read(runner.KNOWN)
    assert {*known} <= {*claimed}
    assert all(claimed[name] == entry.status for name, entry in known.items())


def test_outcomes_are_counted():
    cases = [outcome("a", "pass", tasks=2), outcome("b", WHOLE, tasks=1), outcome("c", "refused")]
    assert runner.summary(cases) == (
        "1 right, 1 right with bodies of whole operators, 0 wrong, 1 refused, 0 crash; "
        "3 tiled rTasks"
    )
