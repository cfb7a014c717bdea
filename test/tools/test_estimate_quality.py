"""estimate_quality: how far an estimate is off, and the tool. No test looks at a measured time."""

import json
from functools import partial

import pytest
from measurements import estimate_quality
from measurements._estimate_cases import estimate_cases
from measurements.estimate_quality import Estimate, worst_first


def estimate(name, expected_us, measured_us):
    return Estimate("kind", name, expected_us, measured_us, 1)


def test_off_counts_in_both_directions():
    assert estimate("low", 10, 40).off == estimate("high", 160, 40).off == 4
    assert estimate("low", 10, 40).far and estimate("high", 160, 40).far
    assert not estimate("near", 100, 300).far


def test_what_is_too_short_to_time_is_not_judged():
    short = estimate("short", 1, 19)
    assert not short.counts and not short.far
    found = worst_first([short, estimate("near", 30, 30), estimate("far", 200, 40)])
    assert [e.name for e in found] == ["far", "near", "short"]


def test_every_case_has_a_name_of_its_own():
    names = [(c.kind, c.name) for c in estimate_cases()]
    assert len(names) == len({*names}) > 90


@pytest.fixture
def quality(tool):
    """estimate_quality in short: quality(*arguments) -> (exit code, stdout, stderr)."""
    return partial(tool, estimate_quality.main, "--seconds=0.002", "--rounds=2")


def test_table_and_record(quality):
    code, out, err = quality("--only=gelu|Gather", "--json=r.json")
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert lines[0].split()[:3] == ["kind", "operator", "us"] and len(lines) == 4
    assert lines[-1].endswith("operators of 20 us and more are off by > 3x")
    with open("r.json") as file:
        record = json.load(file)
    assert {"device", "versions", "commit", "sources"} <= set(record)
    assert record["options"]["only"] == "gelu|Gather"
    assert {o["kind"] for o in record["operators"]} == {"gelu", "gather"}
    assert all(o["off"] >= 1 and o["expected_us"] > 0 for o in record["operators"])


def test_no_such_operator(quality):
    code, _, err = quality("--only=nothing")
    assert code == 1 and "no operator is so called" in err
