"""No property test asserts wall-clock time, as `test/conftest.py` says."""

from hypothesis import settings


def test_hypothesis_has_no_deadline():
    assert settings.default.deadline is None
    assert settings(max_examples=3).deadline is None
