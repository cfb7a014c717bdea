"""Tiles for matrix units: covers and costs by hand, and that no tile of any product goes wrong."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pinned_devices import h200_by_datasheet
from roller_cases import at, gemm

from rcompiler.device.gpu import GPUS
from rcompiler.report import is_explanation
from rcompiler.roller.construct import construct, decision_of, paced
from rcompiler.roller.expr import Axis, TensorAccess, tensor_expr
from rcompiler.roller.matrix_unit import (
    MOST_SUMS,
    BlockWork,
    UnitProduct,
    box_of,
    by_lines,
    by_warps,
    lines_of,
    work_of,
)
from rcompiler.roller.register import RegisterModel
from rcompiler.roller.unit_cost import unit_costs, unit_tiles, work_of_tasks
from rcompiler.roller.vectors import choose_vector_axis

H200, A100 = h200_by_datasheet(), GPUS["a100"]


def on_unit(device, instruction, element, rows=(0,), columns=(1,), steps=64, lines=(-1, -1)):
    unit = device.compute.matrix_unit(instruction, element)
    return UnitProduct(unit, 256, rows, columns, steps, lines, device.residency.block_shared)


def product(m, n, k, device=H200, instruction="wgmma", element="f16", lines=(-1, -1)):
    """C[m, n] = A[m, k] B[k, n], factors of two bytes."""
    expr = tensor_expr(
        [("m", m, "parallel"), ("n", n, "parallel"), ("k", k, "reduction")],
        [TensorAccess((m, k), 2, (at(0), at(2))), TensorAccess((k, n), 2, (at(2), at(1)))],
        [TensorAccess((m, n), 4, (at(0), at(1)))],
        compute_bytes=4,
    )
    return replace(expr, unit=on_unit(device, instruction, element, steps=k, lines=lines))


def register_of(expr, device):
    model = RegisterModel(expr, device, choose_vector_axis(expr, device))
    return model.candidates()[0]


# -- covers
def test_warps_share_rows_and_columns_for_the_least_work():
    """64 x 32: of 8 warps 4 along rows, each with one tile of 16 rows and two of 8 columns; 2 along
    rows have as much work and read more.
    """
    cover = by_warps(8, (64, 32), (16, 8))
    assert (cover.groups, cover.tiles, cover.each) == ((4, 2), (1, 2), (16, 16))
    assert (cover.covered, cover.sums) == ((64, 32), 2048)
    assert by_warps(8, (8, 128), (16, 8)).covered == (16, 128)


def test_warpgroups_share_the_longer_side_of_one_tile():
    """64 x 64: two along rows would multiply 64 rows of padding, and lines of 64 columns cannot be
    shared; lines of 32 can.
    """
    columns = [(64, line) for line in lines_of(64)]
    cover = by_lines(2, 64, columns, 64, 256)
    assert (cover.groups, cover.tiles, cover.granules) == ((1, 2), (1, 1), (64, 32))
    assert cover.covered == (64, 64)
    cover = by_lines(2, 128, columns, 64, 256)  # nothing is gained by short lines
    assert (cover.groups, cover.granules) == ((2, 1), (64, 64))


def test_sums_must_fit_the_registers():
    """128 sums of each of 256 threads are 256 x 128; an instruction has at most 256 columns."""
    assert by_lines(2, 256, [(128, 8)], 64, 256).groups == (2, 1)
    assert by_lines(2, 256, [(136, 8)], 64, 256) is None
    assert by_lines(2, 64, [(512, 8)], 64, 256).covered == (64, 512)
    assert by_lines(2, 64, [(520, 8)], 64, 256) is None


@pytest.mark.parametrize(
    ("size", "lines"),
    [(1, [16]), (16, [16]), (17, [16, 32]), (40, [16, 32, 64]), (99, [16, 32, 64])],
)
def test_lines_are_no_longer_than_they_must_be(size, lines):
    assert lines_of(size) == lines


# -- work
def test_a_large_tile_is_cut_into_boxes():
    """128 x 768: three boxes of 256 columns, two warpgroups below one another. Each reads 64 rows
    and 256 columns, and 128 rows and 256 columns are copied.
    """
    unit = on_unit(H200, "wgmma", "f16")
    part, cover = box_of(unit, (128, 768, 1))
    assert part == (128, 256, 1) and cover.groups == (2, 1)
    each = 2 * (64 + 256) + 128 + 256
    assert work_of(unit, (128, 768, 1)) == BlockWork(3, 128 * 768, 128 * 768, 3 * each)


def test_padding_is_work():
    """7 x 7 pixels are 49 rows of 64; every image of a batch is a product of its own."""
    unit = on_unit(H200, "wgmma", "f16", rows=(1, 2), columns=(3,))
    work = work_of(unit, (2, 7, 7, 64, 1))
    assert (work.boxes, work.useful, work.padded) == (2, 2 * 49 * 64, 2 * 64 * 64)
    unit = on_unit(A100, "mma", "f16", rows=(1, 2), columns=(3,))
    assert work_of(unit, (1, 7, 7, 4, 1)).padded == 64 * 8 * 2  # 2 of 8 warps have nothing else


def test_the_end_of_a_tile_is_a_box_of_its_own():
    """300 columns come as 256 and 44, of which 48 are multiplied: 24 of each warpgroup."""
    unit = on_unit(H200, "wgmma", "f16")
    work = work_of(unit, (64, 300, 1))
    assert (work.boxes, work.useful, work.padded) == (2, 64 * 300, 64 * (256 + 48))


def test_factors_must_fit_the_shared_memory():
    """Two parts of 64 steps of 128 rows and 256 columns take 96 KiB."""
    unit = on_unit(H200, "wgmma", "f16")
    assert box_of(unit, (128, 256, 1))[0] == (128, 256, 1)
    tight = replace(unit, room=(96 << 10) - 1)
    assert box_of(tight, (128, 256, 1))[0] == (128, 128, 1)


sizes = st.integers(1, 400)


@settings(max_examples=60)
@given(
    shape=st.tuples(st.integers(1, 3), sizes, st.integers(1, 40), sizes),
    which=st.sampled_from(
        [
            *((H200, "wgmma", e) for e in ("f16", "i8")),
            *((A100, "mma", e) for e in ("f16", "tf32", "i8")),
        ]
    ),
    line=st.booleans(),
)
def test_boxes_cover_a_tile_once(shape, which, line):
    """Whatever the tile: its boxes fit the registers, and all together are the tile."""
    unit = on_unit(*which, rows=(1, 2), columns=(3,), lines=(-1, 3) if line else (-1, -1))
    unit = unit if unit.unit.warpgroups else replace(unit, lines=(-1, -1))
    tile = (*shape, 1)
    part, cover = box_of(unit, tile)
    assert all(1 <= a <= b for a, b in zip(part, tile, strict=True)) and part[0] == 1
    assert cover.covered[0] >= part[1] * part[2] and cover.covered[1] >= part[3]
    assert cover.sums <= MOST_SUMS[unit.unit.instruction] * unit.threads
    work = work_of(unit, tile)
    assert work.useful == math.prod(shape) and work.padded >= work.useful
    assert work.boxes >= math.prod(shape) / math.prod(part)
    assert work.padded % (unit.unit.rows * unit.unit.columns) == 0


# -- tiles and costs
def test_tiles_are_multiples_of_the_unit():
    """128 x 768 on wgmma: 64 rows, and 8 columns of f32, which are one transaction of 32 bytes."""
    expr = product(128, 768, 768)
    tiles = unit_tiles(expr, H200, register_of(expr, H200))
    assert tiles[0].tolist() == [128, 768]
    assert {rows for rows, _ in tiles.tolist()} == {128, 64}
    assert all(columns % 8 == 0 for _, columns in tiles.tolist())


def test_what_a_task_takes_by_hand():
    """A task of 64 x 32 results and 768 steps on an H200: both warpgroups have 16 columns.

    compute: at four fifths of the peak of an SM; shared memory: 2 (64 + 16) elements that are read
    and 64 + 32 that are copied, of each step; L2: both factors and the results.
    """
    expr = product(128, 768, 768, lines=(-1, 1))
    costs = unit_costs(expr, H200, np.array([[64, 32]]), (0, 1))
    assert costs.parts == ("compute", "L1", "L2") and costs.tasks[0] == 48
    compute, shared, outer = costs.times[:, 0]
    assert compute == pytest.approx(2 * 768 * 64 * 32 / (0.8 * 989_000 / 132))
    assert shared == pytest.approx((2 * (64 + 16) + 64 + 32) * 768 * 2 / (128 * 1.98))
    moved = (64 + 32) * 768 * 2 + 64 * 32 * 4
    assert outer == pytest.approx(moved / (64 * 1.98), rel=0.01)  # and some runs that begin
    slowest = max(compute, shared, outer)
    assert costs.ns[0] == pytest.approx(0.8 * slowest + 0.2 * (compute + shared + outer) + 5)


def test_bytes_are_multiplied_32_at_a_time_and_move_half_as_much():
    """64 x 32 results and 800 steps on an A100: at four fifths of its peak for bytes, and 8 warps
    of 16 x 16 results, which read 32 bytes of every step; 96 are copied.
    """
    unit = A100.compute.matrix_unit("mma", "i8")
    assert (unit.rows, unit.columns, unit.depth, unit.item) == (16, 8, 32, 1)
    expr = product(64, 32, 800, A100, "mma", "i8")
    costs = unit_costs(expr, A100, np.array([[64, 32]]), (0, 1))
    compute, shared, _ = costs.times[:, 0]
    assert compute == pytest.approx(2 * 800 * 64 * 32 / (0.8 * 624_000 / 108))
    assert shared == pytest.approx((8 * (16 + 16) + 64 + 32) * 800 / (128 * 1.41))


def test_the_smallest_part_of_bytes_is_one_instruction():
    """Two parts of 32 steps of 64 rows and 32 columns take 6 KiB."""
    unit = on_unit(A100, "mma", "i8")
    assert box_of(replace(unit, room=6 << 10), (64, 32, 1))[0] == (64, 32, 1)
    assert box_of(replace(unit, room=(6 << 10) - 1), (64, 32, 1))[0] == (32, 32, 1)


def test_parts_of_lines_of_128_bytes_must_fit():
    """Two parts of 128 steps of 128 rows and 256 columns take 96 KiB, as 64 steps of halves do."""
    unit = on_unit(H200, "wgmma", "i8")
    assert (unit.unit.columns, unit.unit.depth, unit.unit.item) == (16, 32, 1)
    assert box_of(replace(unit, room=96 << 10), (128, 256, 1))[0] == (128, 256, 1)
    assert box_of(replace(unit, room=(96 << 10) - 1), (128, 256, 1))[0] == (128, 128, 1)


def test_columns_of_bytes_are_multiples_of_16():
    """40 columns: two warpgroups have 32 each, of which 24 are padding; of halves 24 each."""
    for element, columns in (("i8", 64), ("f16", 48)):
        assert box_of(on_unit(H200, "wgmma", element), (64, 40, 1))[1].covered == (64, columns)


def test_padded_tasks_take_longer():
    """8 rows take as long as 64 do on wgmma, and half as long as 16 on mma.sync."""
    for device, instruction, ratio in ((H200, "wgmma", 8.0), (A100, "mma", 2.0)):
        expr = product(128, 768, 768, device, instruction)
        tiles = np.array([[8 * int(ratio), 128], [8, 128]])
        costs = unit_costs(expr, device, tiles, (0, 1))
        whole, part = costs.times[0] * costs.tasks
        assert part == pytest.approx(ratio * whole)


def test_the_padding_of_results_is_not_multiplied():
    """Tiles go over the border; the work is that of what is inside."""
    expr = tensor_expr(
        [Axis("m", 62, "parallel", padding=2), ("n", 64, "parallel"), ("k", 64, "reduction")],
        [TensorAccess((62, 64), 2, (at(0), at(2))), TensorAccess((64, 64), 2, (at(2), at(1)))],
        [TensorAccess((62, 64), 4, (at(0), at(1)))],
    )
    unit = on_unit(H200, "wgmma", "f16")
    work = work_of_tasks(replace(expr, unit=unit), unit, (64, 64))
    assert (work.useful, work.padded) == (62 * 64, 64 * 64)


@pytest.mark.parametrize("name", ["h200", "a100", "emulated", "emulated-sm_90a"])
@pytest.mark.parametrize("shape", [(128, 768, 768), (49, 512, 2048), (1024, 1024, 1024), (7, 9, 8)])
def test_products_are_cut_without_padding_where_that_is_possible(name, shape):
    device = GPUS[name]
    instruction = "wgmma" if device.level_name == "sm_90a" else "mma"
    expr = product(*shape, device, instruction)
    found = construct(expr, device)
    aligned = work_of_tasks(expr, expr.unit, shape[:2]).padded
    for decision in found:
        assert decision.grid == tuple(
            -(-n // t) for n, t in zip(shape[:2], decision.tile, strict=True)
        )
        assert all(r <= t for r, t in zip(decision.register_tile, decision.tile, strict=True))
        if shape[0] % 64 == 0:
            assert decision.explanation.unit.padding == 0
        assert work_of_tasks(expr, expr.unit, decision.tile).padded <= 1.25 * aligned
    assert found == construct(expr, device)  # the same each time


def pixels(images, height, width, channels, padding):
    """A 1x1 convolution of 64 blocked channels whose image ends in a pad."""
    axes = [
        ("n", images, "parallel"),
        ("cb", -(-channels // 32), "parallel"),
        Axis("h", height, "parallel", padding=padding),
        Axis("w", width, "parallel", padding=padding),
        ("c", 32, "parallel"),
        ("k", 64, "reduction"),
    ]
    blocks = -(-channels // 32)
    expr = tensor_expr(
        axes,
        [
            TensorAccess((images, height, width, 64), 2, (at(0), at(2), at(3), at(5))),
            TensorAccess((blocks, 64, 32), 2, (at(1), at(5), at(4))),
        ],
        [TensorAccess((images, blocks, height, width, 32), 4, tuple(map(at, range(5))))],
        kind="convolution",
        compute_bytes=4,
    )
    unit = on_unit(H200, "wgmma", "f16", rows=(0, 2, 3), columns=(1, 4), lines=(-1, 4))
    return replace(expr, unit=unit)


@settings(max_examples=25)
@given(
    st.integers(1, 3),
    st.integers(1, 30),
    st.integers(1, 70),
    st.integers(1, 300),
    st.integers(0, 2),
)
def test_any_convolution_has_tiles_that_cover_it(images, height, width, channels, padding):
    """No axis of a pad but the outermost is cut: each way to cut its border is code of its own."""
    expr = pixels(images, height, width, channels, padding)
    register = register_of(expr, H200)
    tiles = unit_tiles(expr, H200, register)
    whole = tuple(tiles[0].tolist())
    assert whole == expr.extents and len({*map(tuple, tiles.tolist())}) == len(tiles)
    assert ((-(-np.array(expr.extents) // tiles)).prod(axis=1) <= 4 * H200.eus).all()
    if padding and register.sizes[3] > 1:
        assert {w for *_, w, _ in tiles.tolist()} == {width + padding}
    works = [work_of_tasks(expr, expr.unit, tile) for tile in tiles.tolist()]
    points = math.prod(axis.size for axis in expr.axes[:5])
    assert {work.useful for work in works} == {points}
    for decision, span in paced(expr, H200, H200.eus):
        assert decision.tile in set(map(tuple, tiles.tolist()))
        assert 0 < decision.estimated_ns <= span and math.isfinite(span)


def test_faster_tiles_have_a_shorter_makespan():
    """And more tasks than the efficient one, which need not take longer than to be placed."""
    spans = [ns for _, ns in paced(product(128, 768, 768), H200, 132)]
    tasks = [d.tasks for d, _ in paced(product(128, 768, 768), H200, 132)]
    assert spans == sorted(spans, reverse=True) and tasks == sorted(tasks)
    assert tasks[-1] >= 24


def test_multiply_adds_are_tiled_as_ever():
    """The unit is no part of an expression that it does not compute."""
    expr = gemm(128, 768, 768)
    assert expr.unit is None
    assert "unit" not in construct(expr, H200)[0].explanation.plain()


def test_an_explanation_names_the_unit():
    """100 x 64: 128 rows are multiplied, 28 of them for nothing."""
    expr = product(100, 64, 512)
    model = RegisterModel(expr, H200, choose_vector_axis(expr, H200))
    decision = decision_of(model, model.candidates()[0], (100, 64))
    why = decision.explanation
    assert (why.unit.name, why.unit.rows, why.unit.columns) == ("wgmma of f16", 128, 64)
    assert why.unit.padding == pytest.approx(28 / 128, abs=1e-4)
    assert why.registers == (32, 255) and why.alignment.waste == pytest.approx(0.28)
    assert "wgmma of f16, 128x64 at a time: 22% padding, 32 sums of a thread" in decision.reason
    plain = json.loads(json.dumps(why.plain()))
    assert is_explanation(plain) and not is_explanation(plain | {"unit": "wgmma"})
