"""What is known of a product with a reciprocal in two parts, against exact fractions."""

from fractions import Fraction

import numpy as np
import pytest

from rcompiler.linalg import nearest_quotient
from rcompiler.linalg.nearest_quotient import reciprocal_of, same_integers


def rounded(exact: Fraction) -> np.float32:
    """The nearest float of 32 bits; of two the one whose last bit is 0."""
    guess = np.float32(float(exact))
    near = [
        np.nextafter(guess, np.float32(-np.inf)),
        guess,
        np.nextafter(guess, np.float32(np.inf)),
    ]
    distances = [abs(Fraction(float(x)) - exact) for x in near]
    nearest = [x for x, d in zip(near, distances, strict=True) if d == min(distances)]
    return min(nearest, key=lambda x: int(x.view(np.int32)) % 2)


def test_a_multiply_add_is_rounded_once():
    rng = np.random.default_rng(0)
    for divisor in rng.uniform(0.5, 1, 20).astype(np.float32) * np.float32(2.0) ** -7:
        x = ((rng.integers(-200, 200, 50) + 0.5) * float(divisor)).astype(np.float32)
        found = nearest_quotient._product(x, float(divisor))
        reciprocal, rest = map(Fraction, reciprocal_of(float(divisor)))
        for value, result in zip(x, found, strict=True):
            addend = rounded(Fraction(float(value)) * rest)
            exact = Fraction(float(value)) * reciprocal + Fraction(float(addend))
            assert rounded(exact) == result


def test_scales_of_bytes_need_no_last_step():
    rng = np.random.default_rng(1)
    for scale in map(float, rng.uniform(0.5, 1, 20).astype(np.float32) / 64):
        low, high = (float(np.float32(n * scale)) for n in (-128, 127))
        assert same_integers(low, high, scale)
        assert same_integers(low, high, -scale)


@pytest.mark.parametrize("part", ["reciprocal", "rest"])
def test_a_wrong_product_is_found_out(part: str, monkeypatch: pytest.MonkeyPatch):
    def wrong(divisor: float) -> tuple[float, float]:
        reciprocal, rest = reciprocal_of(divisor)
        above = float(np.nextafter(np.float32(reciprocal), np.float32(1e9)))
        return (above, rest) if part == "reciprocal" else (reciprocal, 0.0)

    monkeypatch.setattr(nearest_quotient, "reciprocal_of", wrong)
    scales = np.random.default_rng(2).uniform(0.5, 1, 20).astype(np.float32)
    same_integers.cache_clear()
    found = [same_integers(-128 * float(s), 127 * float(s), float(s)) for s in scales]
    same_integers.cache_clear()
    assert not any(found)


def test_more_integers_than_are_looked_at_are_not_known():
    assert not same_integers(0.0, 1e6, 1.0)
