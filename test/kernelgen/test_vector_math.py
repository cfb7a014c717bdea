"""vector_math: accuracy in ulp over dense samples, and what happens at the ends."""

import math

import numpy as np
import pytest
from kernel_cases import FEATURES, HAS_FMA, HAS_SCALEF, Kernel, Tile, elementwise

from rcompiler.kernelgen.cpu import CpuFeatures

SPECIAL = np.array(
    [0.0, -0.0, math.inf, -math.inf, math.nan, 1e-45, -1e-45, 1.1754942e-38, 3.4e38, -3.4e38],
    np.float32,
)

POWERS = np.concatenate([np.linspace(-160, 140, 30_001).astype(np.float32), SPECIAL])


def run(function: str, x: np.ndarray, features: CpuFeatures) -> np.ndarray:
    body = elementwise(f"%y = math.{function} %x0 : f32", [x], "float32", ["%a0"])
    tile = Tile(x.shape, register_tile=[4 * features.lanes], vector_dim=0, lanes=features.lanes)
    return Kernel(body, ["%r"], [x], [(x.shape, "float32")], tile, features).run()[0]


def ulps(found: np.ndarray, exact: np.ndarray) -> float:
    """Largest error in units of the last place of the exact float64 value."""
    rounded = exact.astype(np.float32)
    spacing = np.spacing(np.abs(rounded)).astype(np.float64)
    fine = np.isfinite(rounded)
    return float(np.max(np.abs(found[fine].astype(np.float64) - exact[fine]) / spacing[fine]))


RANGES = {
    "exp": [(-87.0, 88.7), (-1e-3, 1e-3)],
    "exp2": [(-125.0, 127.9)],
    "expm1": [(-20.0, 88.7), (-1.0, 1.0), (-1e-3, 1e-3), (1e-37, 1e-6)],
    "tanh": [(-10.0, 10.0), (-0.6, 0.6), (-1e-4, 1e-4)],
    "erf": [(-4.5, 4.5), (-1.1, 1.1), (-1e-4, 1e-4)],
    "log": [(1e-30, 1e-3), (0.5, 2.0), (0.99, 1.01), (2.0, 3e38)],
}
EXACT = {name: getattr(np, name) for name in ("exp", "exp2", "expm1", "tanh", "log")}
EXACT["erf"] = np.vectorize(math.erf)
EXACT["erfc"] = np.vectorize(math.erfc)


@pytest.mark.parametrize("features", FEATURES, ids=str)
@pytest.mark.parametrize("function", RANGES)
def test_within_3_ulp(function: str, features: CpuFeatures):
    count = 20_001 if function == "erf" else 200_001
    for low, high in RANGES[function]:
        x = np.linspace(low, high, count).astype(np.float32)
        if low > 0 and high / low > 100:
            x = np.geomspace(low, high, count).astype(np.float32)
        assert ulps(run(function, x, features), EXACT[function](x.astype(np.float64))) <= 3


@pytest.mark.parametrize("features", FEATURES, ids=str)
def test_erfc_is_as_close_as_its_argument(features: CpuFeatures):
    """An error in x counts 2 x^2 times."""
    x = np.linspace(-5, 10.1, 30_001).astype(np.float32)
    exact = EXACT["erfc"](x.astype(np.float64))
    error = np.abs(run("erfc", x, features) - exact)
    assert (error <= (5 + 2 * x**2) * np.spacing(np.abs(exact.astype(np.float32)))).all()


@pytest.mark.parametrize("function", [*RANGES, "erfc"])
def test_at_the_ends(function: str):
    with np.errstate(all="ignore"):
        exact = EXACT[function](SPECIAL.astype(np.float64)).astype(np.float32)
    found = run(function, SPECIAL, CpuFeatures(8, HAS_FMA))
    np.testing.assert_allclose(found, exact, rtol=3e-7, atol=1e-45)
    finite = ~np.isnan(exact)
    assert (np.signbit(found) == np.signbit(exact))[finite].all()


@pytest.mark.parametrize("features", FEATURES, ids=str)
def test_exp_of_what_is_far_below_is_0(features: CpuFeatures):
    """As the scores are that a mask takes away."""
    below = [-104, -150, -999.5, -1000, -1000.5, -1e4, -1e30, -3.4028235e38, -np.inf]
    x = np.float32(below * 8)
    assert run("exp", x, features).tobytes() == bytes(x.nbytes)


def test_exp_underflows_gradually():
    x = np.linspace(-104, -87, 10_001).astype(np.float32)
    found = run("exp", x, CpuFeatures(16, HAS_FMA)).astype(np.float64)
    assert np.max(np.abs(found - np.exp(x.astype(np.float64)))) <= 3 * 2.0**-149
    assert (run("exp", np.float32([-104.1, -1e30]), CpuFeatures(4, HAS_FMA)) == 0).all()


def test_no_call_rounds_where_no_instruction_does():
    x = np.linspace(-3, 3, 64).astype(np.float32)
    for function in ("exp", "exp2", "expm1", "tanh", "erf", "erfc"):
        body = elementwise(f"%y = math.{function} %x0 : f32", [x], "float32", ["%a0"])
        tile = Tile(x.shape, register_tile=[16], vector_dim=0, lanes=4)
        shape = [(x.shape, "float32")]
        assert "round" not in Kernel(body, ["%r"], [x], shape, tile, CpuFeatures(4, False)).source


@pytest.mark.skipif(not HAS_SCALEF, reason="this host has no AVX-512")
@pytest.mark.parametrize("lanes", [16, 8, 4])
def test_one_instruction_for_powers_of_two_changes_no_bit(lanes: int):
    for function in ("exp", "exp2", "expm1", "erfc"):
        plain = run(function, POWERS, CpuFeatures(lanes, HAS_FMA))
        found = run(function, POWERS, CpuFeatures(lanes, HAS_FMA, has_scalef=True))
        np.testing.assert_array_equal(found.view(np.int32), plain.view(np.int32))


@pytest.mark.skipif(not HAS_SCALEF, reason="this host has no AVX-512")
@pytest.mark.parametrize("function", ["exp", "exp2", "expm1", "erfc"])
def test_vectors_of_more_than_16_lanes_have_no_such_instruction(function: str):
    """So many are computed at once for a vector of f16."""
    plain = run(function, POWERS, CpuFeatures(16, HAS_FMA))
    found = run(function, POWERS, CpuFeatures(32, HAS_FMA, has_scalef=True))
    np.testing.assert_array_equal(found, plain)


@pytest.mark.parametrize("features", FEATURES, ids=str)
def test_powers_of_integers_are_exact(features: CpuFeatures):
    x = np.arange(-149, 128, dtype=np.float32)
    np.testing.assert_array_equal(run("exp2", x, features), np.exp2(x.astype(np.float64)))


def test_log_of_denormals_and_negative_numbers():
    x = np.float32([1e-45, 1e-40, 1.1e-38, -1.0, -1e-45])
    found = run("log", x, CpuFeatures(4, HAS_FMA))
    assert ulps(found[:3], np.log(x[:3].astype(np.float64))) <= 3
    assert np.isnan(found[3:]).all()


@pytest.mark.parametrize("scalef", [False, True][: 1 + HAS_SCALEF])
def test_lanes_do_not_change_a_value(scalef: bool):
    x = np.linspace(-5, 5, 37).astype(np.float32)
    for function in RANGES:
        at = np.abs(x) + 1e-3 if function == "log" else x
        every = [CpuFeatures(n, HAS_FMA, has_scalef=scalef) for n in (16, 8, 4, 2, 1)]
        first, *others = [run(function, at, features) for features in every]
        assert all(np.array_equal(first, other) for other in others)
