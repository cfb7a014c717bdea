"""Small constant matrices times vectors: right for every tiling, and straight code."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kernel_cases import FEATURES, Kernel, Tile, type_of

from rcompiler.kernelgen.cpu import CpuFeatures
from rcompiler.roller.winograd import filtering

few = settings(
    max_examples=5,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow],
)
F4 = filtering(4)
B, A = (np.array([[float(x) for x in row] for row in m]) for m in (F4.inputs, F4.outputs))


def constant(name: str, matrix: np.ndarray) -> str:
    rows = ", ".join(f"[{', '.join(map(repr, row))}]" for row in matrix.tolist())
    return f"%{name} = arith.constant dense<[{rows}]> : {type_of(matrix.shape)}\n"


def product(name: str, maps: str, operands: str, types: str, shape: tuple[int, ...]) -> str:
    """%name = the sum of products of two operands; the last loop is reduced."""
    loops = maps.partition(" -> ")[0]
    reads = ", ".join(f"affine_map<{loops} -> {m}>" for m in maps.split(" -> ")[1:])
    kinds = ", ".join(['"parallel"'] * loops.count(",") + ['"reduction"'])
    out = type_of(shape)
    return f"""%{name}_e = tensor.empty() : {out}
      %{name}_f = linalg.fill ins(%zero : f32) outs(%{name}_e : {out}) -> {out}
      %{name} = linalg.generic {{indexing_maps = [{reads}], iterator_types = [{kinds}]}}
           ins({operands} : {types}) outs(%{name}_f : {out}) {{
      ^bb0(%x: f32, %y: f32, %acc: f32):
        %p = arith.mulf %x, %y : f32
        %s = arith.addf %acc, %p : f32
        linalg.yield %s : f32
      }} -> {out}
      """


def inputs_of_tiles(tiles: int, lanes: int) -> tuple[str, tuple[int, ...], tuple[int, ...]]:
    """B^T d B of a row of tiles of an image %a0 of 6 rows; its and the result's shape."""
    image, rows = (6, 4 * tiles + 2, lanes), (6, 4 * tiles + 2, lanes)
    result = (6, 6, tiles, lanes)
    body = "%zero = arith.constant 0.0 : f32\n" + constant("bt", B)
    matrix = type_of(B.shape)
    body += product(
        "r", "(i, w, l, k) -> (i, k) -> (k, w, l) -> (i, w, l)", "%bt, %a0",
        f"{matrix}, {type_of(image)}", rows,
    )  # fmt: skip
    body += product(
        "v", "(i, j, t, l, k) -> (j, k) -> (i, t * 4 + k, l) -> (i, j, t, l)", "%bt, %r",
        f"{matrix}, {type_of(rows)}", result,
    )  # fmt: skip
    return body, image, result


def outputs_of_tiles(
    height: int, width: int, lanes: int
) -> tuple[str, tuple[int, ...], tuple[int, ...]]:
    """A^T m A of tiles, in the shape of the image: its last tiles may be partial."""
    tiles = (-(-height // 4), -(-width // 4))
    products, rows, image = (
        (6, 6, *tiles, lanes), (6, height, tiles[1], lanes), (height, width, lanes)
    )  # fmt: skip
    body = "%zero = arith.constant 0.0 : f32\n" + constant("at", A)
    matrix = type_of(A.shape)
    body += product(
        "r", "(j, y, t, l, k) -> (y mod 4, k) -> (k, j, y floordiv 4, t, l) -> (j, y, t, l)",
        "%at, %a0", f"{matrix}, {type_of(products)}", rows,
    )  # fmt: skip
    body += product(
        "v", "(y, x, l, k) -> (x mod 4, k) -> (k, y, x floordiv 4, l) -> (y, x, l)", "%at, %r",
        f"{matrix}, {type_of(rows)}", image,
    )  # fmt: skip
    return body, products, image


def random(shape: tuple[int, ...]) -> np.ndarray:
    return np.random.default_rng(0).standard_normal(shape).astype(np.float32)


@st.composite
def tilings(draw: st.DrawFn, shape: tuple[int, ...], lanes: int) -> Tile:
    """Any tiling; vectors run along the last dim or there are none."""
    rank = len(shape)
    tile = [draw(st.integers(1, n)) for n in shape]
    registers = [draw(st.integers(1, 6)) for _ in shape]
    vector = draw(st.sampled_from([-1, rank - 1]))
    if vector >= 0:
        registers[vector] = draw(st.integers(1, 2 * lanes))
    order = draw(st.permutations(range(rank)))
    return Tile(shape, tile, registers, order, vector, lanes if vector >= 0 else 1)


@pytest.mark.parametrize("features", FEATURES, ids=str)
@given(data=st.data())
@few
def test_inputs(features: CpuFeatures, data: st.DataObject):
    tiles, lanes = data.draw(st.integers(1, 3)), data.draw(st.integers(2, 20))
    body, image, result = inputs_of_tiles(tiles, lanes)
    x = random(image)
    tile = data.draw(tilings(result, features.lanes))
    [found] = Kernel(body, ["%v"], [x], [(result, "float32")], tile, features).run()
    windows = np.stack([x[:, 4 * t : 4 * t + 6] for t in range(tiles)], 2).astype(np.float64)
    expected = np.einsum("ik,jq,kqtl->ijtl", B, B, windows)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("features", FEATURES, ids=str)
@given(data=st.data())
@few
def test_outputs(features: CpuFeatures, data: st.DataObject):
    height, width = (data.draw(st.integers(1, 9)) for _ in range(2))
    lanes = data.draw(st.integers(2, 20))
    body, products, image = outputs_of_tiles(height, width, lanes)
    m = random(products)
    tile = data.draw(tilings(image, features.lanes))
    [found] = Kernel(body, ["%v"], [m], [(image, "float32")], tile, features).run()
    tiles = np.einsum("pi,qj,ijtul->tpuql", A, A, m.astype(np.float64))
    expected = tiles.reshape(4 * products[2], 4 * products[3], lanes)[:height, :width]
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("features", FEATURES[:2], ids=str)
def test_a_tiling_does_not_change_a_bit(features: CpuFeatures):
    body, products, image = outputs_of_tiles(7, 10, 16)
    m, found = random(products), []
    for registers, tile in (
        ([4, 4, 16], [8, 8, 16]),
        ([4, 4, 16], [4, 12, 16]),
        ([3, 1, 16], [5, 10, 16]),
        ([1, 1, 1], [7, 10, 16]),
    ):
        lanes = features.lanes if registers[-1] > 1 else 1
        tiling = Tile(image, tile, registers, [0, 1, 2], 2 if lanes > 1 else -1, lanes)
        kernel = Kernel(body, ["%v"], [m], [(image, "float32")], tiling, features)
        found.append(kernel.run()[0].tobytes())
    assert len(set(found)) == 1


def test_whole_periods_in_registers_are_straight_code():
    """Every pixel is loaded once, 2 x 6 transforms of 12 operations follow, nothing is chosen."""
    features = CpuFeatures(16, has_fma=True)
    body, image, result = inputs_of_tiles(1, 16)
    tile = Tile(result, [], [6, 6, 1, 16], [0, 1, 2, 3], 3, 16)
    source = Kernel(body, ["%v"], [random(image)], [(result, "float32")], tile, features).source
    assert source.count("-> vector<16xf32>") == 36
    assert "scf.for" not in source
    assert "arith.select" not in source
    arithmetic = ("vector.fma", "arith.addf", "arith.subf", "arith.mulf")
    assert sum(source.count(name) for name in arithmetic) == 12 * 12


def test_a_start_that_is_not_zero_is_added():
    features = FEATURES[0]
    body = "%zero = arith.constant 2.5 : f32\n" + constant("m", np.array([[1.0, -2.0], [0.5, 0.0]]))
    body += product(
        "v", "(i, l, k) -> (i, k) -> (k, l) -> (i, l)", "%m, %a0",
        f"{type_of((2, 2))}, {type_of((2, 5))}", (2, 5),
    )  # fmt: skip
    x = random((2, 5))
    [found] = Kernel(body, ["%v"], [x], [((2, 5), "float32")], Tile((2, 5)), features).run()
    np.testing.assert_allclose(found, [2.5 + x[0] - 2 * x[1], 2.5 + 0.5 * x[0]], rtol=1e-6)


def test_a_matrix_of_zeros():
    body = "%zero = arith.constant 0.0 : f32\n" + constant("m", np.zeros((2, 3)))
    body += product(
        "v", "(i, l, k) -> (i, k) -> (k, l) -> (i, l)", "%m, %a0",
        f"{type_of((2, 3))}, {type_of((3, 5))}", (2, 5),
    )  # fmt: skip
    [found] = Kernel(
        body, ["%v"], [random((3, 5))], [((2, 5), "float32")], Tile((2, 5)), FEATURES[0]
    ).run()
    assert not found.any()
