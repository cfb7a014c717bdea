"""fmod of f32 vectors: the library's bits, whatever the operands are."""

import ctypes
import itertools

import numpy as np
import pytest
from kernel_cases import FEATURES, Kernel, Tile, elementwise

from rcompiler.kernelgen.cpu import CpuFeatures

SPECIAL = np.array(
    [
        *(0, 1, 0x7FFFFF, 0x800000, 0x3F800000, 0x4E000000, 0x7F7FFFFF),  # up to the largest number
        *(0x7F800000, 0x7FC00000, 0x7F800001, 0x7FABCDEF),  # infinity and NaNs
    ],
    np.uint32,
)  # fmt: skip
SPECIAL = np.concatenate([SPECIAL, SPECIAL | np.uint32(1 << 31)]).view(np.float32)


def run(x: np.ndarray, y: np.ndarray, features: CpuFeatures, vectors: int = 2) -> np.ndarray:
    body = elementwise("%y = arith.remf %x0, %x1 : f32", [x, y], "float32", ["%a0", "%a1"])
    register_tile = [vectors * features.lanes]
    tile = Tile(x.shape, register_tile=register_tile, vector_dim=0, lanes=features.lanes)
    return Kernel(body, ["%r"], [x, y], [(x.shape, "float32")], tile, features).run()[0]


def fmodf(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Element by element, of the C library."""
    call = ctypes.CDLL("libm.so.6").fmodf
    call.restype, call.argtypes = ctypes.c_float, [ctypes.c_float] * 2
    return np.array([call(a, b) for a, b in zip(x, y, strict=True)], np.float32)


def random_bits(rng: np.random.Generator, n: int) -> np.ndarray:
    return rng.integers(0, 1 << 32, n, dtype=np.uint32).view(np.float32)


def check(x: np.ndarray, y: np.ndarray, features: CpuFeatures) -> None:
    """The same numbers and signs as numpy's, and no number where it has none."""
    with np.errstate(all="ignore"):
        exact = np.fmod(x, y)
    found = run(x, y, features)
    none = np.isnan(exact)
    np.testing.assert_array_equal(np.isnan(found), none)
    np.testing.assert_array_equal(found[~none].view(np.uint32), exact[~none].view(np.uint32))


def near_multiples(rng: np.random.Generator, n: int, low: int, high: int):
    """Quotients of `low` to `high` bits, less than two units from an integer, of any size."""
    y = np.ldexp(rng.uniform(1, 2, n), rng.integers(-149, 127 - high, n)).astype(np.float32)
    times = np.floor(np.ldexp(rng.uniform(1, 2, n), rng.integers(low, high, n) - 1))
    x = (times * y.astype(np.float64)).astype(np.float32)
    x = (x.view(np.int32) + rng.integers(-2, 3, n, dtype=np.int32)).view(np.float32)
    return x * rng.choice(np.float32([-1, 1]), n), y * rng.choice(np.float32([-1, 1]), n)


def test_by_hand():
    """The sign is the dividend's, also of a zero; all of it is left where the divisor is larger."""
    x = np.float32([7, -7, 7, -7, 6, -6, 1, -0.0, 5.5, -1e-45, 2.0**29 - 32, 3, -3, 0.3, 1e30, 9])
    y = np.float32([3, 3, -3, -3, 3, 3, 2, 1, 0.25, 1e-45, 1, np.inf, -np.inf, 1, 1e30, 1e-3])
    exact = [1, -1, 1, -1, 0, -0.0, 1, -0.0, 0, -0.0, 0, 3, -3, 0.3, 0]
    exact = np.float32([*exact, 9 - 8999 * float(np.float32(1e-3))])
    found = run(x, y, FEATURES[0], vectors=1)
    assert found.view(np.uint32).tolist() == exact.view(np.uint32).tolist()


@pytest.mark.parametrize("features", FEATURES, ids=str)
def test_quotients_of_any_size(features: CpuFeatures):
    rng = np.random.default_rng(3)
    for low, high in ((0, 3), (1, 29), (26, 29), (29, 30), (28, 33)):
        check(*near_multiples(rng, 100_003, low, high), features)


@pytest.mark.parametrize("features", FEATURES, ids=str)
def test_random_bits(features: CpuFeatures):
    rng = np.random.default_rng(4)
    check(random_bits(rng, 30_007), random_bits(rng, 30_007), features)
    small = [rng.integers(1, 1 << bits, 100_003).astype(np.uint32) for bits in (25, 23)]
    check(*(bits.view(np.float32) for bits in small), features)


@pytest.mark.parametrize("features", FEATURES, ids=str)
def test_bits_at_the_ends(features: CpuFeatures):
    """Every two special numbers: also the bits of a NaN are the library's."""
    x, y = (np.float32(side) for side in zip(*itertools.product(SPECIAL, SPECIAL), strict=True))
    found, exact = run(x, y, features), fmodf(x, y)
    np.testing.assert_array_equal(found.view(np.uint32), exact.view(np.uint32))


def test_ordinary_lanes_beside_others():
    """One lane that the library is called for, in every place of a vector."""
    lanes = FEATURES[0].lanes
    x = np.tile(np.float32([-7.5]), lanes * lanes)
    y = np.tile(np.float32([2]), lanes * lanes)
    for number in (1e-30, 0.0, np.nan):
        y[:: lanes + 1] = number
        check(x, y, FEATURES[0])
