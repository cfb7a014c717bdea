"""What the names of dimensions say of others."""

import pytest

from rcompiler.support.dimension_names import multiple_of, names_in


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("32*h", ("h", 32, 0)),
        ("h*32", ("h", 32, 0)),
        ("2*s + 1", ("s", 2, 1)),
        ("(s + 1)*4 - 2*s", ("s", 2, 4)),
        ("(6*h + 4)//2", ("h", 3, 2)),
        ("past + s", None),
        ("h*h", None),
        ("h//2", None),
        ("8 - h", None),
        ("h//0", None),
        ("8//h", None),
        ("h", None),
        ("3", None),
        ("batch size", None),
        ("", None),
    ],
)
def test_multiples(name, found):
    assert multiple_of(name) == found


def test_multiples_beside_sizes_that_are_known():
    assert multiple_of("past + s", {"past": 7}) == ("s", 1, 7)
    assert multiple_of("n*s", {"n": 3}) == ("s", 3, 0)
    assert multiple_of("n*s", {"n": 0}) is None


def test_quotients_are_made_of_others():
    assert names_in("h//2") == ["h"] and names_in("h/2") == ["h/2"]
