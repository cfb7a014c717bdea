"""Fit the polynomial coefficients of `kernelgen/vector_math.py` and print that module's table.

    python tools/bench fit_vector_math > rcompiler/kernelgen/vector_math_coefficients.py

Weighted least squares on Chebyshev nodes with Lawson's reweighting (relative error), in float64.
Needs only numpy.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable

import numpy as np

from rcompiler.tools._command import Command

Function = Callable[[np.ndarray], np.ndarray]


def fit(f: Function, low: float, high: float, degree: int, weight: Function) -> tuple[float, ...]:
    """Monomial coefficients of degree `degree` with nearly minimal max weighted error of f on [low,
    high].
    """
    nodes = 4000
    x = (low + high) / 2 + (high - low) / 2 * np.cos(np.pi * (np.arange(nodes) + 0.5) / nodes)
    y, fixed = f(x), weight(x)
    powers = np.stack([x**i for i in range(degree + 1)], 1)
    lawson = fixed.copy()
    for _ in range(60):
        c = np.linalg.lstsq(powers * lawson[:, None], y * lawson, rcond=None)[0]
        error = np.abs(powers @ c - y) * fixed
        lawson = lawson * np.sqrt(error / error.max() + 1e-9)
        lawson /= lawson.max()
    return tuple(float(np.float32(v)) for v in c)


def _over_x(f: Callable[[float], float], at_zero: float, slope: float) -> Function:
    """u -> f(sqrt u) / sqrt u, continued to 0."""
    return np.vectorize(
        lambda u: f(math.sqrt(u)) / math.sqrt(u) if u > 1e-8 else at_zero - slope * u
    )


def _log_remainder(x: np.ndarray) -> np.ndarray:
    """(log(1+f) - f + f^2/2) / f^3, by its series near 0."""
    series = sum((-1.0) ** k * x**k / (k + 3) for k in range(12))
    safe = np.where(np.abs(x) < 0.02, 1.0, x)
    return np.where(np.abs(x) < 0.02, series, (np.log1p(safe) - safe + safe * safe / 2) / safe**3)


def _exp_remainder(x: np.ndarray) -> np.ndarray:
    """(e^x - 1 - x) / x^2, by its series: all |x| are below 1/2."""
    return np.sum([x**k / math.factorial(k + 2) for k in range(14)], axis=0)


def _exp2_slope(x: np.ndarray) -> np.ndarray:
    """(2^x - 1) / x for x >= 0, continued to 0."""
    safe = np.maximum(x, 1e-12)
    return np.expm1(safe * math.log(2)) / safe


def _scaled_erfc(t: np.ndarray) -> np.ndarray:
    """e^(a^2) erfc(a), a = 3 (1 + t) / (1 - t) up to 10.3."""
    return np.array([math.exp(a * a) * math.erfc(a) for a in 3 * (1 + t) / (1 - t)])


def coefficients() -> dict[str, tuple[float, ...]]:
    """Every table of vector_math."""
    half = 0.5 * math.log(2) * 1.01
    erf_x = _over_x(math.erf, 2 / math.sqrt(math.pi), 2 / (3 * math.sqrt(math.pi)))
    tanh_x = _over_x(math.tanh, 1.0, 1 / 3)
    log2_erfc = np.vectorize(lambda a: math.log2(math.erfc(a)))
    return {
        "EXP": fit(np.exp, -half, half, 6, lambda x: np.exp(-x)),
        # 1 at 0: powers of integers are exact
        "EXP2": (1.0, *fit(_exp2_slope, 0.0, 1.0, 4, lambda x: np.exp2(-x) * (x + 1e-4))),
        # beside x, which has no error
        "EXPM1": fit(_exp_remainder, -half, half, 4, lambda x: x**2 / np.abs(np.expm1(x))),
        "TANH": fit(tanh_x, 0.0, 0.56**2, 5, lambda u: 1 / tanh_x(u)),
        "ERF_SMALL": fit(erf_x, 0.0, 1.0, 6, lambda u: 1 / erf_x(u)),
        # absolute errors: what is subtracted from 1
        "ERF_LARGE": fit(log2_erfc, 0.99, 3.95, 5, lambda a: np.exp2(log2_erfc(a)) + 1e-9),
        # of results that are rounded to f16
        "ERF_SHORT": fit(erf_x, 0.0, 2.75**2, 10, lambda u: 1 / erf_x(u)),
        # in t = (a - 3) / (a + 3)
        "ERFCX": fit(_scaled_erfc, -1.0, 7.3 / 13.3, 9, lambda t: 1 / _scaled_erfc(t)),
        "POWER": fit(np.exp2, -0.505, 0.505, 5, lambda x: np.exp2(-x)),
        "LOG": fit(
            _log_remainder, math.sqrt(0.5) - 1, math.sqrt(2) - 1, 8, lambda x: np.abs(x) + 1e-3
        ),
    }


def _run(_: argparse.Namespace) -> int:
    print(
        '"""Printed by tools/bench fit_vector_math: float32 polynomial coefficients, '
        'constant term first."""\n'
    )
    for name, values in coefficients().items():
        print(f"{name} = (")
        for value in values:
            print(f"    {value!r},")
        print(")")
    return 0


main = Command(__name__, __doc__, lambda _: None, _run)
