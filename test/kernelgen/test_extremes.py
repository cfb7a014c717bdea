"""Maximum and minimum as reductions: what a NaN does, which bits a tiling leaves alone."""

from dataclasses import replace

import numpy as np
import pytest
from kernel_cases import FEATURES, Kernel, Tile, reduction

# start of a maximum and a minimum, by bits: -inf and inf
STARTS = {
    "float32": ("0xFF800000", "0x7F800000"),
    "float64": ("0xFFF0000000000000", "0x7FF0000000000000"),
    "float16": ("0xFC00", "0x7C00"),
    "bfloat16": ("0xFF80", "0x7F80"),
}
NUMPY = {
    "maximumf": np.maximum, "minimumf": np.minimum, "maxnumf": np.fmax, "minnumf": np.fmin,
}  # fmt: skip


def run(op, x, axis, tile, features):
    name = x.dtype.name
    rest = tuple(n for d, n in enumerate(x.shape) if d != axis)
    body = reduction(op, x.shape, axis, name, STARTS[name]["min" in op])
    kernel = Kernel(body, ["%r"], [x], [(rest, name)], tile, features, "reduction")
    return kernel.run()[0], kernel.source


def values(shape, dtype):
    x = np.random.default_rng(0).standard_normal(shape)
    x[1, 3] = x[2, :] = np.nan
    x[3, 5], x[4, 7] = np.inf, -np.inf
    return x.astype(np.dtype(dtype))


@pytest.mark.parametrize(
    "features, dtype",
    [*((f, "float32") for f in FEATURES[::2]), *((FEATURES[0], d) for d in list(STARTS)[1:])],
    ids=str,
)
@pytest.mark.parametrize("op", NUMPY)
@pytest.mark.parametrize("axis", [0, 1])
def test_a_nan_wins_or_loses(features, dtype, op, axis):
    x = values((9, 41), dtype)
    tile = Tile((9, 41)[1 - axis :][:1], vector_dim=0, lanes=features.lanes)
    found, _ = run(op, x, axis, replace(tile, register_tile=[2 * features.lanes]), features)
    start = np.inf if "min" in op else -np.inf
    expected = NUMPY[op].reduce(x.astype(np.float64), axis=axis, initial=start)
    np.testing.assert_array_equal(found.astype(np.float64), expected)


@pytest.mark.parametrize("features", FEATURES[::3], ids=str)
@pytest.mark.parametrize("op", ["maximumf", "minnumf"])
@pytest.mark.parametrize("axis", [0, 1])
def test_the_sign_of_a_zero_does_not_depend_on_the_tiling(features, op, axis):
    x = np.random.default_rng(1).choice(np.float32([0.0, -0.0]), (19, 37))
    size = (19, 37)[1 - axis]
    tiles = [
        Tile((size,), [size], [1]),
        Tile((size,), [5], [4], vector_dim=0, lanes=4),
        Tile((size,), [size], [2 * features.lanes], vector_dim=0, lanes=features.lanes),
    ]
    results = [run(op, x, axis, tile, features)[0].view(np.int32) for tile in tiles]
    assert all(np.array_equal(results[0], other) for other in results[1:])


@pytest.mark.parametrize("op", NUMPY)
def test_no_slow_instruction_is_asked_for(op):
    _, source = run(op, values((9, 41), "float32"), 1, Tile((9,)), FEATURES[0])
    assert f"arith.{op}" not in source and "vector.reduction" not in source
    selects = source.count("arith.select")
    assert selects and source.count("arith.ori") == (0 if "num" in op else selects // 2)
