"""tools/tiling_times.py: kernels are counted and timed, and either body gives the same code."""

import re

import pytest
from measurements import tiling_times

from rcompiler.device.target import find_device


def test_each_network_has_its_row(capsys):
    assert tiling_times.main(["two_branch", "mlp", "--rounds=1"]) == 0
    header, *rows = capsys.readouterr().out.splitlines()
    assert header.startswith("network") and "other code" not in "".join(rows)
    assert [re.split(r"\s+", row)[0] for row in rows] == ["two_branch", "mlp"]


def test_candidates_that_no_schedule_takes_are_not_tiled():
    found = tiling_times.times("two_branch", find_device("zen5-2"), rounds=1)
    assert found.candidates >= found.kernels > 0
    assert found.same and found.tiling > 0 and found.sizes[1] > found.sizes[0]


@pytest.mark.parametrize(
    ("argument", "reason"),
    [("resnet51", "no model 'resnet51'"), ("--device=h200", "give one of a CPU")],
)
def test_what_cannot_be_timed_is_an_error(argument, reason, capsys):
    assert tiling_times.main([argument]) == 1
    assert reason in capsys.readouterr().err
