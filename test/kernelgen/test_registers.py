"""Machine code of register tiles: what the loop over a reduction has to do, and nothing else."""

import numpy as np
import pytest
from kernel_cases import Kernel, Tile, contraction, random, sum_of_products

from rcompiler.codegen.cpu import Target
from rcompiler.kernelgen.cpu import CpuFeatures

V4, V3, BASELINE = CpuFeatures(16, True), CpuFeatures(8, True), CpuFeatures(4, False)
LEVELS = {
    V4: (Target.named("x86-64-v4"), "vfmadd"),
    V3: (Target.named("x86-64-v3"), "vfmadd"),
    BASELINE: (Target.named("x86-64"), "mulps"),
    CpuFeatures(16, True, line_bytes=128): (Target.named("x86-64-v4"), "vfmadd"),
}


def loop_of(features: CpuFeatures, rows: int, vectors: int, k: int = 64) -> list[str]:
    """Of a contraction with `rows` x `vectors` accumulators."""
    n = vectors * features.lanes
    a, b = random((2 * rows, k)), random((k, n), 1)
    tile = Tile((2 * rows, n), [2 * rows, n], [rows, n], [1, 0], 1, features.lanes)
    body = contraction(2 * rows, n, k)
    kernel = Kernel(body, ["%r"], [a, b], [((2 * rows, n), "float32")], tile, features)
    return kernel.loop(*LEVELS[features])


@pytest.mark.parametrize(
    ("features", "rows", "vectors"),
    [
        *((V4, *tile) for tile in ((12, 2), (8, 3), (6, 4), (4, 6))),
        *((V3, *tile) for tile in ((6, 2), (4, 3), (3, 4), (2, 5))),
        *((BASELINE, *tile) for tile in ((4, 2), (2, 3), (2, 4))),
    ],
    ids=str,
)
def test_the_accumulators_stay_in_registers(features: CpuFeatures, rows: int, vectors: int):
    """Also where there are fewer rows than vectors: the broadcasts stay then, not the vectors."""
    loop, (_, multiply) = loop_of(features, rows, vectors), LEVELS[features]
    operations = sum(multiply in line for line in loop)
    assert operations and operations % (rows * vectors) == 0
    assert not any("%rsp" in line for line in loop)


@pytest.mark.parametrize("features", LEVELS, ids=str)
def test_one_prefetch_per_line_of_a_large_operand(features: CpuFeatures):
    k = (1 << 16) // (4 * features.lanes)
    loop, (_, multiply) = loop_of(features, 4, 1, k), LEVELS[features]
    steps = sum(multiply in line for line in loop) // 4
    lines = steps * features.lanes * 4 / features.line_bytes
    assert lines == int(lines) and sum("prefetch" in line for line in loop) == lines
    assert not any("prefetch" in line for line in loop_of(features, 4, 1, k // 2))


@pytest.mark.parametrize(
    ("blocks", "pixels", "taps", "expected"),
    [
        (8, 128, 1, 4),
        (8, 64, 1, 0),  # small
        (32, 32, 1, 0),  # two blocks in a page
        (8, 128, 3, 0),  # a window
    ],
)
def test_pixels_of_the_next_tile_are_asked_for(blocks: int, pixels: int, taps: int, expected: int):
    """Blocks of 16 channels, 4 pixels of a row of which are one register tile: a line for each."""
    shapes = ((blocks, pixels + taps - 1, 16), (blocks, taps, 16, 16), (pixels, 16))
    body = sum_of_products("p, n, b, k, c", ("b, p + k, c", "b, k, c, n", "p, n"), shapes)
    x, w = random(shapes[0]), random(shapes[1], 1)
    tile = Tile((pixels, 16), [pixels, 16], [4, 16], [1, 0], 1, 16)
    kernel = Kernel(body, ["%r"], [x, w], [((pixels, 16), "float32")], tile, V4)
    windows = [x[:, k : k + pixels] for k in range(taps)]
    right = sum(np.einsum("bpc,bcn->pn", windows[k], w[:, k]) for k in range(taps))
    np.testing.assert_allclose(kernel.run()[0], right, rtol=1e-4, atol=1e-4)
    requests = sum("prefetch" in line for line in kernel.loop(*LEVELS[V4]))
    assert requests == expected


@pytest.mark.parametrize(
    ("k", "rows", "expected"),
    [
        (64, 256, 1),
        (64, 128, 0),  # the operand is small
        (256, 256, 0),  # long rows
    ],
)
def test_short_rows_of_the_next_tile_are_asked_for(k: int, rows: int, expected: int):
    """Four rows: one request for each in a loop body, whose steps stay in one line."""
    a, b = random((rows, k)), random((k, 16), 1)
    tile = Tile((rows, 16), [rows, 16], [4, 16], [1, 0], 1, 16)
    body, shape = contraction(rows, 16, k), [((rows, 16), "float32")]
    kernel = Kernel(body, ["%r"], [a, b], shape, tile, V4)
    np.testing.assert_allclose(kernel.run()[0], a @ b, rtol=1e-4, atol=1e-4)
    assert sum("prefetch" in line for line in kernel.loop(*LEVELS[V4])) == 4 * expected


@pytest.mark.parametrize("features", [V4, V3], ids=str)
def test_windows_over_vectors_are_unrolled_and_ask_for_nothing(features: CpuFeatures):
    """3x3 depthwise, 8 pixels of a row: 72 updates in one body; neighbours share what they load."""
    lanes = features.lanes
    rows, pixels = 6, 1024 // lanes
    shape = (rows, pixels, lanes)
    shapes = ((rows + 2, pixels + 2, lanes), (3, 3, lanes), shape)
    body = sum_of_products("y, x, c, i, j", ("y + i, x + j, c", "i, j, c", "y, x, c"), shapes)
    x, w = random(shapes[0]), random(shapes[1], 1)
    tile = Tile(shape, list(shape), [1, 8, lanes], [0, 1, 2], 2, lanes)
    kernel = Kernel(body, ["%r"], [x, w], [(shape, "float32")], tile, features)
    taps = [(i, j) for i in range(3) for j in range(3)]
    right = sum(x[i : i + rows, j : j + pixels] * w[i, j] for i, j in taps)
    np.testing.assert_allclose(kernel.run()[0], right, rtol=1e-4, atol=1e-4)
    loop = kernel.loop(*LEVELS[features])
    assert sum("vfmadd" in line for line in loop) == 72
    loads = sum("(%r" in line and "prefetch" not in line for line in loop)
    assert not any("prefetch" in line for line in loop)
    assert loads <= 3 * 10 + 9 + 8 + 8, "every pixel once, the taps once, and the results"
