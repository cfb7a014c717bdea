"""The checker against the oracle that tries every execution; `tools/corrupt_certificates.py`."""

import sys
from dataclasses import replace

import numpy as np
import pytest
from oracles._corruptions import facts_of
from oracles.corrupt_certificates import ACCEPTED, UNCHANGED, UNSAFE, try_program
from rammer_cases import chain, hand_made, kernel

from rcompiler.checker import Refused, check
from rcompiler.checker.boxes import Access
from rcompiler.checker.intervals import neighbours
from rcompiler.dialects import _vdevice_buffer
from rcompiler.errors import ScheduleError
from rcompiler.rammer import program
from rcompiler.runtime import tables


@pytest.mark.parametrize("first", range(0, 20, 5))
def test_nothing_unsafe_is_accepted(first):
    spoilt = 0
    for number in range(first, first + 5):
        counts, _, wrong = try_program(number)
        assert wrong == []
        assert counts[UNCHANGED, ACCEPTED] == 1
        assert not any(verdict == UNSAFE for _, verdict in counts)
        spoilt += sum(counts.values()) - 1
    assert spoilt > 200


def test_a_kernel_of_one_task_has_no_grid():
    """As of a sum of everything: its operands are read whole."""
    data = [np.ones(1, np.int64), 4, np.array([[-1, 0, 0, 0]])]
    operand = Access(np.zeros(0, np.int64), data, True, False)
    assert operand.disjoint and operand.covered
    assert operand.task_bytes == operand.bytes == 4


@pytest.mark.parametrize("number", [401, 664, 847, 1405])
def test_values_may_take_turns_task_by_task(number):
    """Two values share bytes, and their operators are at work at the same time, on others."""
    counts, _, wrong = try_program(number)
    assert wrong == []
    assert counts[UNCHANGED, ACCEPTED] == 1


def taking_turns(*queues):
    """Facts of o0 and o1, and of o2 and o3: the first writes 64 bytes, the second reads them, and
    both values lie on bytes 0 to 63. Task t of four is on bytes 16 t to 16 t + 15.
    """
    k = kernel("k", (4, 4), (4, 1), "t")
    graph = chain([k, k, k, k], [[-1], [0], [-1], [2]])
    program = hand_made(graph, *queues)
    places = {"v0": 0, "v1": 64, "v2": 0}
    buffers = tuple(replace(b, offset=places.get(b.name, b.offset)) for b in program.buffers)
    return facts_of([replace(program, buffers=buffers, arena=128)], graph)


UPPER = [("o0", 0, 2), ("o1", 0, 2), ("o2", 0, 2), ("o3", 0, 2)]
LOWER = [("o2", 2, 2), ("o3", 2, 2), ("o0", 2, 2), ("o1", 2, 2)]


def test_bytes_are_compared_task_by_task(monkeypatch):
    """On each EU two tasks of the four operators follow one another, on bytes of their own."""
    module = sys.modules["rcompiler.checker.check"]
    found = set()

    def recorded(low, high, value, writes, place):
        one, two = neighbours(low, high, value, writes, place)
        found.update(zip(low[one].tolist(), place[one].tolist(), place[two].tolist(), strict=True))
        return one, two

    byte_by_byte = module._byte_by_byte

    def watched(uses, low, high):
        assert (low, high) == (0, 64)
        found.clear()
        byte_by_byte(uses, low, high)

    monkeypatch.setattr(module, "neighbours", recorded)
    monkeypatch.setattr(module, "_byte_by_byte", watched)
    check(taking_turns(UPPER, LOWER))
    # task t of EU e comes on places e + 2 t, 4 later in each step, and is on bytes 32 e + 16 t:
    # written, read, written and read again; and the second write is after the first one, too
    first = [(32 * eu + 16 * t, eu + 2 * t) for eu in range(2) for t in range(2)]
    steps = [(0, 4), (4, 8), (8, 12), (0, 8)]
    assert found == {(at, place + a, place + b) for at, place in first for a, b in steps}


@pytest.mark.parametrize("which", range(3))
def test_bytes_whose_next_value_comes_too_early(which):
    """Two steps of the second EU are exchanged: a value is read before it is there, or after the
    other one has taken its bytes.
    """
    lower = [*LOWER]
    lower[which : which + 2] = lower[which + 1], lower[which]
    with pytest.raises(Refused) as caught:
        check(taking_turns(UPPER, lower))
    assert caught.value.rule == ("race", "clobber", "race")[which]


@pytest.mark.parametrize(("runs", "item"), [((40_000, 40_000), 2), ((65_534,), 2), ((65_536,), 4)])
def test_many_runs(runs, item):
    """Clocks count runs of a line: as many as their bytes hold, and of all lines together more."""
    k = kernel("k", (sum(runs), 1), (sum(runs), 1), "t")
    begins = np.cumsum(runs) - runs
    queues = [[("o0", int(b) + n, 1) for n in range(r)] for b, r in zip(begins, runs, strict=True)]
    facts = facts_of([hand_made(chain([k], [[-1]]), *queues)], chain([k], [[-1]]))
    assert facts.clocks.itemsize == item
    check(facts)
    if item == 4:
        with pytest.raises(Refused, match="not of this schedule"):
            check(replace(facts, clocks=facts.clocks.astype(np.uint16)))


def test_kinds_of_buffers_have_one_order():
    assert tables.BUFFER_KINDS == program.BUFFER_KINDS == _vdevice_buffer.BUFFER_KINDS


@pytest.mark.parametrize("views", [{"v0": "v0"}, {"v0": "v1", "v1": "v0"}])
def test_a_buffer_that_views_itself_is_refused(views):
    """Who follows the views, as those who write notes do, would not come to an end."""
    buffers = [program.Buffer(n, "temp", 0, 64, alias_of=views.get(n)) for n in ("v0", "v1", "v2")]
    with pytest.raises(ScheduleError, match="buffer v0 is a view of itself, by way of v0"):
        program.Program("p", 1, tuple(buffers), ((),), 64, 0)
