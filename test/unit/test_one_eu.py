"""Why operators run on one EU."""

import pytest
from rammer_cases import chain, kernel

from rcompiler.device.model import Costs
from rcompiler.driver.one_eu import with_reasons
from rcompiler.rammer.schedule import schedule
from rcompiler.report import OperatorReport

COSTS = Costs(min_task_ns=5000.0)


def told(kind: str, tasks: int, ns: float) -> OperatorReport:
    return OperatorReport("o0", kind, "k", (16,), (16,), tasks, ns, 0.0, "", "roller", {})


def programs(tasks: int, eus: int):
    one = kernel("k", (16, 16), (tasks, 1), "t", estimated_ns=10_000.0)
    return schedule(chain([one], [[-1]]), eus, COSTS).programs


@pytest.mark.parametrize(
    ("kind", "ns", "words"),
    [
        ("sequential", 1e6, "needs the one before"),
        ("elementwise", 9_900.0, "it takes 9.9 us: two rTasks would be shorter than the 5.0 us"),
        ("gather", 1e6, "no cut of its results"),
    ],
)
def test_one_task(kind, ns, words):
    [found] = with_reasons({"o0": told(kind, 1, ns)}, programs(1, 2), COSTS)
    assert words in found.one_eu


def test_where_there_is_one_eu_nothing_is_said():
    [found] = with_reasons({"o0": told("sequential", 1, 1e6)}, programs(1, 1), COSTS)
    assert found.one_eu == ""


def test_what_several_eus_share_has_no_reason():
    [found] = with_reasons({"o0": told("elementwise", 2, 2e4)}, programs(2, 2), COSTS)
    assert found.one_eu == ""
