"""Fit the polynomial of e^(a^2) erfc(a), 1 <= a <= 28: for `kernelgen/elementary/full_doubles.py`.

    python tools/bench fit_erfcx

In t = (a - 3) / (a + 3), interpolated at Chebyshev nodes in decimal arithmetic. Needs nothing else.
"""

from __future__ import annotations

import argparse
import decimal
from decimal import Decimal

from rcompiler.tools._command import Command

DEGREE, DIGITS, TERMS = 24, 900, 3700  # of a = 28, erfc is 1e-342


def _cos(x: Decimal) -> Decimal:
    total, term = Decimal(0), Decimal(1)
    for n in range(2, TERMS, 2):
        total, term = total + term, -term * x * x / ((n - 1) * n)
    return total


def _pi() -> Decimal:
    """After Machin."""

    def arctan(n: int) -> Decimal:
        return sum((Decimal((-1) ** k) / ((2 * k + 1) * n ** (2 * k + 1)) for k in range(TERMS)),
                   Decimal(0))  # fmt: skip

    return 4 * (4 * arctan(5) - arctan(239))


def _scaled_erfc(a: Decimal, pi: Decimal) -> Decimal:
    total, term = Decimal(0), a
    for n in range(TERMS):
        total += term / (2 * n + 1)
        term *= -a * a / (n + 1)
    return (1 - 2 * total / pi.sqrt()) * (a * a).exp()


def coefficients() -> list[float]:
    """Of powers of t, from the constant on."""
    with decimal.localcontext(prec=DIGITS):
        pi, count = _pi(), DEGREE + 1
        low, high = Decimal(-1) / 2, Decimal(25) / 31
        ends = (low + high) / 2, (high - low) / 2
        t = [ends[0] + ends[1] * _cos(pi * (2 * i + 1) / (2 * count)) for i in range(count)]
        slopes = [_scaled_erfc(3 * (1 + at) / (1 - at), pi) for at in t]
        for k in range(1, count):  # Newton's divided differences
            for i in range(count - 1, k - 1, -1):
                slopes[i] = (slopes[i] - slopes[i - 1]) / (t[i] - t[i - k])
        found = [Decimal(0)] * count
        for slope, at in zip(reversed(slopes), reversed(t), strict=True):
            moved = [Decimal(0), *found[:-1]]
            found = [up - at * here for up, here in zip(moved, found, strict=True)]
            found[0] += slope
        return [float(c) for c in found]


def _run(_: argparse.Namespace) -> int:
    for value in coefficients():
        print(f"    {value!r},")
    return 0


main = Command(__name__, __doc__, lambda _: None, _run)
