"""How the cases of other projects' suites are judged; what is known of them is said once."""

import numpy as np
import pytest
from measurements._case_pool import Outcome

from peers import archive, judge, runner
from peers.known import KNOWN, Known, read


def outcome(case, status):
    return Outcome(case, "", status, "why", 0.0)


@pytest.mark.parametrize(
    "ours, theirs, why",
    [
        (np.float32([1, 2]), np.float32([1, 2.0005]), ""),
        (np.float32([1, 2]), np.float32([1, 2.01]), "1 of 2 elements"),
        (np.float16([2]), np.float16([2.01]), ""),
        (np.float32([np.nan]), np.float32([np.nan]), ""),
        (np.float32([np.inf]), np.float32([-np.inf]), "1 of 1 elements"),
        (np.int8([5]), np.int8([6]), "1 of 1 elements"),
        (np.array(["a"], object), np.array(["b"], object), "1 of 1 elements"),
        (np.float32([1]), np.float64([1]), "float32[1], expected float64[1]"),
        (np.float32([1]), np.float32([[1]]), "float32[1], expected float32[1, 1]"),
    ],
)
def test_differences(ours, theirs, why):
    found = judge.difference([ours], [theirs])
    assert found.startswith(f"result 0: {why}") if why else not found


def test_what_a_project_does_not_look_at_is_not_compared():
    assert not judge.difference([np.zeros(2), np.ones(1)], [None, np.ones(1)])
    assert "2 parts, 1 are expected" in judge.difference([[1, 2]], [[1]])


def test_another_status_than_the_known_one_is_told():
    known = {"a": Known("wrong", "so"), "b": Known("refused", "so")}
    found = runner.surprises([outcome(name, "wrong") for name in "abc"], known)
    assert [line.partition(":")[0] for line in found] == ["b", "c"]
    assert runner.surprises([outcome("a", "pass")], known) == ["a: pass, not wrong: why"]


def test_a_case_is_known_once_and_with_a_reason(tmp_path):
    file = tmp_path / "known.toml"
    file.write_text('[[wrong]]\nreason = ""\ncases = ["a"]\n')
    with pytest.raises(ValueError, match="two reasons, or none"):
        read(file)
    file.write_text('[[wrong]]\nreason = "x"\ncases = ["a", "a"]\n')
    with pytest.raises(ValueError, match="two reasons, or none"):
        read(file)


def test_all_that_is_known_are_cases():
    names = {case.name for case in archive.cases()}
    assert len(names) > 1700
    assert not read(KNOWN).keys() - names


def test_a_case_is_run_and_a_wrong_expectation_is_found():
    [case] = [c for c in archive.cases() if c.name == "ort/ActivationOpTest_Celu_Celu_0"]
    assert judge.judged(case).status == "pass"
    other = dict(case.files) | {
        "test_data_set_0/output_0.pb": case.files["test_data_set_0/input_0.pb"]
    }
    assert judge.judged(archive.Case(case.name, other)).status == "wrong"
