"""Products on tile registers: of bytes exact for all signs and shapes, of bf16 the same bits with
any tile, on an interpreter of the instructions and, where this machine has them, on the processor.
"""

import re

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kernel_cases import HAS_FMA, HOST, Kernel, Tile
from oracles.tile_registers import TileRegisters, fused
from test_dots import BF16, SIGNS, extremes, kernel_of

from rcompiler.device.tile_permission import request_tiles
from rcompiler.kernelgen.cpu import CpuFeatures
from rcompiler.kernelgen.tile_shapes import TileShapes, with_shapes

FEATURES = CpuFeatures(16, HAS_FMA, tiles=frozenset({"i8"}))
# what tiles do not cover is computed in vectors of 64 bytes
needs_vectors = pytest.mark.skipif(
    "avx512bw" not in HOST.required, reason="this host has no AVX-512"
)
TILES = "amx_int8" in HOST.required and request_tiles() is None
HALVES = CpuFeatures(
    16, HAS_FMA, dots=frozenset({"bf16"} if "avx512_bf16" in HOST.required else ()),
    tiles=frozenset({"bf16"}),
)  # fmt: skip
few = settings(max_examples=25, derandomize=True, suppress_health_check=[HealthCheck.too_slow])


def case(data: st.DataObject, tiles: TileRegisters | None) -> tuple[Kernel, np.ndarray]:
    """A product with a register tile of any shape, and what it is."""
    m, n, words = (data.draw(st.integers(1, high)) for high in (70, 70, 40))
    signs = data.draw(st.sampled_from(SIGNS))
    shapes = ((m, 4 * words), (4 * words, n))
    a, b = (extremes(s, t, i) for i, (s, t) in enumerate(zip(shapes, signs, strict=True)))
    register = [data.draw(st.integers(1, 36)), 16 * data.draw(st.integers(1, 4))]
    tile = [data.draw(st.integers(1, m)), 16 * data.draw(st.integers(1, 4))]
    parts = data.draw(st.sampled_from([(), (0, 8), (1, 8)]))
    order = data.draw(st.permutations([0, 1]))
    cut = Tile((m, n), [tile[0], min(tile[1], n)], register, order, 1, 16, parts)
    return kernel_of(a, b, cut, FEATURES, tiles), a.astype(np.int32) @ b.astype(np.int32)


@needs_vectors
@given(data=st.data())
@few
def test_an_interpreter_of_the_instructions_gets_the_exact_sums(data: st.DataObject):
    tiles = TileRegisters()
    kernel, expected = case(data, tiles)
    assert np.array_equal(kernel.run()[0], expected)
    assert not tiles.faults and tiles.released


@pytest.mark.skipif(not TILES, reason="this machine has no tile registers, or Linux gives none")
@given(data=st.data())
@few
def test_the_processor_gets_the_exact_sums(data: st.DataObject):
    kernel, expected = case(data, None)
    assert np.array_equal(kernel.run()[0], expected)


def whole(m: int, n: int, k: int, register: list[int]) -> tuple[Kernel, TileRegisters]:
    tiles = TileRegisters()
    a, b = extremes((m, k), "uint8", 0), extremes((k, n), "int8", 1)
    kernel = kernel_of(a, b, Tile((m, n), [m, n], register, [1, 0], 1, 16), FEATURES, tiles)
    assert np.array_equal(kernel.run()[0], a.astype(np.int32) @ b.astype(np.int32))
    assert not tiles.faults
    return kernel, tiles


@needs_vectors
def test_four_products_take_four_loads():
    """32 x 32 results of 32 words: two steps of 16, one setting of shapes."""
    _, tiles = whole(32, 32, 128, [32, 32])
    assert tiles.counts == {
        "ldtilecfg": 1, "tilezero": 4, "tileloadd64": 8, "tdpbusd": 8, "tilestored64": 4,
        "tilerelease": 1,
    }  # fmt: skip


@needs_vectors
def test_shapes_are_set_outside_of_the_loops_that_need_no_others():
    """64 rows in two tiles of 28 rows, and 8 that are left: two kinds of shapes for each panel."""
    assert whole(56, 64, 64, [28, 32])[1].counts["ldtilecfg"] == 1
    assert whole(64, 64, 64, [28, 32])[1].counts["ldtilecfg"] == 2 * 2


@needs_vectors
@pytest.mark.parametrize(("register", "stores"), [((26, 64), 4), ((16, 32), 2), ((3, 32), 6)])
def test_what_follows_sums_that_wait_is_written_for_one_row(register, stores):
    """A loop over rows of two vectors or more; three rows of two are not worth it."""
    kernel, _ = whole(register[0], register[1], 64, list(register))
    assert len(re.findall(r"llvm\.store [^\n]*vector<16xi32>", kernel.source)) == stores


@needs_vectors
def test_words_that_leave_a_rest_take_shorter_steps():
    """24 words are two steps of 12; 17, a prime number, are for vectors."""
    assert whole(16, 16, 96, [16, 16])[1].counts["tdpbusd"] == 2
    assert "tdpbusd" not in whole(16, 16, 68, [16, 16])[1].counts


@needs_vectors
@pytest.mark.parametrize("register", [[3, 32], [33, 32], [16, 48], [48, 16]])
def test_what_tiles_do_not_cover_is_for_vectors(register: list[int]):
    assert "tdpbusd" not in whole(register[0], register[1], 64, register)[1].counts


MARK, OTHER = TileShapes(16, 16).mark, TileShapes(8, 16).mark


def shaped(*lines: str) -> list[str]:
    """The lines with "set" where shapes are set, without the rest that belongs to it."""
    setting = [line for line in with_shapes(lines) if "%tiles" not in line or "ldtilecfg" in line]
    assert "tilerelease" in setting[-1]
    names = {"(%tiles0)": "set 16", "(%tiles1)": "set 8"}
    return [
        next(name for sign, name in names.items() if sign in line) if "ldtilecfg" in line else line
        for line in setting[:-1]
    ]


def test_one_kind_is_set_at_the_start():
    lines = ["scf.for {", "scf.for {", MARK, "a", "}", MARK, "b", "}"]
    assert shaped(*lines) == ["set 16", "scf.for {", "scf.for {", "a", "}", "b", "}"]


def test_a_loop_with_two_kinds_sets_both_in_every_turn():
    lines = ["scf.for {", "scf.for {", MARK, "a", "}", OTHER, "b", "}", MARK, "c"]
    turn = ["set 16", "scf.for {", "a", "}", "set 8", "b"]
    assert shaped(*lines) == ["scf.for {", *turn, "}", "set 16", "c"]


def test_the_sides_of_a_branch_know_nothing_of_each_other():
    lines = [MARK, "a", "scf.if {", MARK, "b", "} else {", OTHER, "c", "}", MARK, "d"]
    sides = ["set 16", "b", "} else {", "set 8", "c", "}"]
    assert shaped(*lines) == ["set 16", "a", "scf.if {", *sides, "set 16", "d"]


def test_code_without_tiles_stays_as_it_is():
    lines = ["scf.for {", "a", "}"]
    assert with_shapes(lines) == lines


def test_shapes_as_the_processor_reads_them():
    """Palette 1; sums 7 x 64 bytes, columns 12 x 64, rows 7 x 48."""
    memory = np.array(TileShapes(7, 12).words_of_memory(), np.int64).view(np.uint8)
    assert memory[0] == 1 and not memory[1:16].any()
    assert list(memory[16:32].view(np.uint16)) == [64, 64, 64, 64, 64, 64, 48, 48]
    assert list(memory[48:56]) == [7, 7, 7, 7, 12, 12, 7, 7]


def halves(shape: tuple[int, int], seed: int) -> np.ndarray:
    """Random bf16 of all sizes between 2^-20 and 2^20: their sums depend on the order."""
    rng = np.random.default_rng(seed)
    return (rng.standard_normal(shape) * 2.0 ** rng.integers(-20, 20, shape)).astype(BF16)


def in_tile_order(a: np.ndarray, b: np.ndarray, words: int) -> np.ndarray:
    """`a` times `b` in steps of so many words, as `kernelgen/tile_order.py` has it."""
    sums = np.zeros((a.shape[0], b.shape[1]), np.float32)
    for start in range(0, a.shape[1], 2 * words):
        parts = np.zeros((2, *sums.shape), np.float32)
        for k in range(start, start + 2 * words):
            product = np.multiply.outer(a[:, k].astype(np.float64), b[k].astype(np.float64))
            parts[k % 2] = fused(parts[k % 2], product)
        sums += parts[0] + parts[1]
    return sums


def case_of_halves(data: st.DataObject, tiles: TileRegisters | None) -> tuple[Kernel, np.ndarray]:
    """A product of bf16 with a register tile of any shape, and what it is."""
    m, n = (data.draw(st.integers(1, high)) for high in (40, 70))
    words, step = data.draw(st.sampled_from([(4, 4), (7, 7), (24, 12), (40, 10), (48, 16)]))
    a, b = halves((m, 2 * words), m), halves((2 * words, n), n)
    register = [data.draw(st.integers(1, 33)), 16 * data.draw(st.integers(1, 4))]
    tile = [data.draw(st.integers(1, m)), 16 * data.draw(st.integers(1, 4))]
    parts = data.draw(st.sampled_from([(), (0, 16), (1, 32)])) if step == 16 else ()
    order = data.draw(st.permutations([0, 1]))
    cut = Tile((m, n), [tile[0], min(tile[1], n)], register, order, 1, 16, parts)
    return kernel_of(a, b, cut, HALVES, tiles), in_tile_order(a, b, step)


@needs_vectors
@given(data=st.data())
@few
def test_a_tile_changes_no_bit_of_halves_on_the_interpreter(data: st.DataObject):
    tiles = TileRegisters()
    kernel, expected = case_of_halves(data, tiles)
    assert np.array_equal(kernel.run()[0], expected)
    assert not tiles.faults and tiles.released


@pytest.mark.skipif(not TILES, reason="this machine has no tile registers, or Linux gives none")
@given(data=st.data())
@few
def test_a_tile_changes_no_bit_of_halves_on_the_processor(data: st.DataObject):
    kernel, expected = case_of_halves(data, None)
    assert np.array_equal(kernel.run()[0], expected)


@needs_vectors
def test_scalars_and_vectors_add_up_as_tiles_do():
    """Numbers below the normal ones are 0 on tile registers, and so they are in vectors."""
    a, b = halves((5, 32), 0), halves((32, 20), 1)
    expected = in_tile_order(a, b, 16)
    a[0], b[:, 0] = np.asarray(2.0**-70, BF16), np.asarray(2.0**-60, BF16)  # 32 times 2^-130
    for register, vector, lanes in (([1, 1], -1, 1), ([2, 16], 1, 16), ([3, 4], 1, 4)):
        cut = Tile((5, 20), [5, 20], register, [1, 0], vector, lanes)
        found = kernel_of(a, b, cut, HALVES, TileRegisters()).run()[0]
        assert found[0, 0] == 0
        assert np.array_equal(found[1:, 1:], expected[1:, 1:])


@needs_vectors
def test_one_row_of_halves_takes_tiles_too():
    tiles = TileRegisters()
    a, b = halves((1, 64), 0), halves((64, 32), 1)
    cut = Tile((1, 32), [1, 32], [1, 32], [1, 0], 1, 16)
    assert np.array_equal(kernel_of(a, b, cut, HALVES, tiles).run()[0], in_tile_order(a, b, 16))
    assert tiles.counts["tdpbf16ps"] == 4
