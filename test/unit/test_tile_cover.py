"""Register tiles on tile registers: hand-computed covers, and that Roller takes them."""

from dataclasses import replace

import pytest
from roller_cases import gemm

from rcompiler.device.cpu import cpu_device, narrowed
from rcompiler.device.host_flags import TILES, V4
from rcompiler.device.matrix_unit import AMX_BYTES
from rcompiler.roller.construct import construct
from rcompiler.roller.register import RegisterModel
from rcompiler.roller.tile_cover import TileCover, tile_cover, words_of_step
from rcompiler.roller.vectors import choose_vector_axis

AMX = cpu_device("v4", features=V4 | {"avx512vnni"} | TILES)
VNNI = cpu_device("v4", features=V4 | {"avx512vnni"})


@pytest.mark.parametrize(
    ("run", "runs", "vectors", "cover"),
    [
        (32, 1, 2, TileCover(16, 2, 2)),
        (28, 1, 2, TileCover(14, 2, 2)),
        (14, 2, 2, TileCover(14, 2, 2)),
        (16, 1, 1, TileCover(16, 1, 1)),
        (7, 2, 1, TileCover(7, 2, 1)),
        (25, 1, 2, None),  # not in two equal tiles
        (48, 1, 1, None),  # three tiles of rows
        (16, 1, 3, None),  # three of columns
        (28, 1, 4, TileCover(14, 2, 4)),  # two groups of two columns
        (28, 1, 6, None),  # three groups
        (28, 2, 1, None),
        (3, 1, 2, None),  # too few rows
    ],
)
def test_rows_are_shared_out_evenly(run: int, runs: int, vectors: int, cover: TileCover | None):
    assert tile_cover(run, runs, vectors, AMX_BYTES) == cover


def test_columns_beyond_two_tiles_are_a_group_of_their_own():
    assert TileCover(14, 2, 4).groups == (range(0, 2), range(2, 4))
    assert TileCover(14, 2, 1).groups == (range(0, 1),)
    assert TileCover(14, 2, 4).registers == TileCover(14, 2, 2).registers == 8


def test_a_step_leaves_no_rest():
    assert [words_of_step(n, 16) for n in (192, 24, 36, 40, 7, 6)] == [16, 12, 12, 10, 7, 6]
    assert [words_of_step(n, 16) for n in (17, 3, 1)] == [0, 0, 0]


def words(m: int, n: int, k: int):
    """A product of bytes, in words of four."""
    return replace(gemm(m, n, k // 4), dot="i8", ops=8.0)


def test_products_of_many_rows_are_computed_by_tiles():
    expr = words(128, 768, 768)
    decision = construct(expr, AMX, 1)[0]
    rows, columns = decision.register_tile
    assert (rows, columns) == (32, 32) and decision.registers == 8
    by_vectors = construct(expr, VNNI, 1)[0]
    assert 2 * decision.estimated_ns * decision.tasks < by_vectors.estimated_ns * by_vectors.tasks


def test_rows_of_one_vector_are_not():
    decision = construct(words(1, 768, 768), AMX, 1)[0]
    assert decision.register_tile[0] == 1
    assert decision.register_tile == construct(words(1, 768, 768), VNNI, 1)[0].register_tile


def test_cycles_of_a_tile():
    """Four products of 16 rows in a step of 16 words, each row a cycle: 64; its loads take 32."""
    cycles = []
    for depth in (256, 512):  # their columns stay in the first level
        expr = words(128, 768, depth)
        cycles.append(RegisterModel(expr, AMX, choose_vector_axis(expr, AMX)).tile((32, 32)).cycles)
    assert 64 <= (cycles[1] - cycles[0]) / (256 / 64) <= 70  # the loads are close to it


def test_short_products_take_twice_as_many_columns():
    """Where a panel of them stays in the first level."""
    assert construct(words(128, 768, 256), AMX, 1)[0].register_tile[1] == 64


def test_twice_as_many_columns_wait_once():
    expr = words(128, 768, 256)
    model = RegisterModel(expr, AMX, choose_vector_axis(expr, AMX))
    assert 60 <= 2 * model.tile((32, 32)).cycles - model.tile((32, 64)).cycles <= 140


def test_a_record_without_the_feature_has_no_tiles():
    other = narrowed(AMX, VNNI)
    assert AMX.tile_elements == {"i8", "bf16"}
    assert not VNNI.tile_elements and not other.tile_elements
    assert other.compute.matrix == ()
