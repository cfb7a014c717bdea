"""The checker against the oracle that tries every execution; `tools/corrupt_certificates.py`."""

import pytest

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
