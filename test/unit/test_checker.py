"""The checker against the oracle that tries every execution; `tools/corrupt_certificates.py`."""

import numpy as np
import pytest

from rcompiler.checker.boxes import Access
from rcompiler.tools.corrupt_certificates import ACCEPTED, UNCHANGED, UNSAFE, try_program


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
    operand = Access(np.zeros(0, np.int64), [[1], 4, [[-1, 0, 0, 0]]], True, False)
    assert operand.disjoint and operand.covered
    assert operand.task_bytes == operand.bytes == 4


@pytest.mark.parametrize("number", [401, 664, 847, 1405])
def test_values_may_take_turns_task_by_task(number):
    """Two values share bytes, and their operators are at work at the same time, on others."""
    counts, _, wrong = try_program(number)
    assert wrong == []
    assert counts[UNCHANGED, ACCEPTED] == 1
