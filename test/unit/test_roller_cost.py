"""The cost model by hand: cycles of register tiles, traffic of loop nests, times of tasks."""

import math
from dataclasses import replace

import numpy as np
import pytest
from roller_cases import at, conv, elementwise, gemm, softmax

from rcompiler.device.cpu import cpu_device
from rcompiler.device.model import ComputeUnit, MemoryLevel
from rcompiler.device.target import find_device
from rcompiler.roller import cost
from rcompiler.roller.construct import loop_order, promising, task_tiles
from rcompiler.roller.cost import (
    Candidates,
    TaskCosts,
    all_task_costs,
    makespan,
    register_tiles,
    spans,
    task_costs,
    unevenness,
)
from rcompiler.roller.cycles import InstructionCounts, blend, bounds
from rcompiler.roller.expr import TensorAccess, TensorExpr, index, tensor_expr
from rcompiler.roller.nest import Nest
from rcompiler.roller.register import RegisterModel
from rcompiler.roller.runs import inside, runs
from rcompiler.roller.vectors import choose_vector_axis, load_slots

DEVICE = cpu_device("v4")
UNIT = ComputeUnit(64, 32, fma_ports=2, fma_latency=4, load_ports=2, ghz=3.0, window=224)


def model_of(expr: TensorExpr, device=DEVICE) -> RegisterModel:
    return RegisterModel(expr, device, choose_vector_axis(expr, device))


# -- register tiles


def test_the_units_of_an_eu_work_side_by_side():
    work = InstructionCounts(arithmetic=100, loads=60, stores=6, chain=40)
    assert work.instructions == 174  # 8 of loop control
    # two multiply-adds, two loads, one store and one branch per cycle; a chain waits 4 x 40 cycles,
    # and 224 / 174 of them are in flight
    arithmetic, loads, stores, issue, waiting = bounds(work, UNIT)
    assert (arithmetic, loads, stores, issue) == (50, 30, 6, 174 / 6)
    assert waiting == pytest.approx(160 * 174 / 224)


def test_a_window_that_one_tile_fills_hides_no_chain():
    long = InstructionCounts(arithmetic=2000, loads=0, stores=0, chain=2000)
    assert bounds(long, UNIT)[-1] == 8000
    # eight rows of 250, one after the other, are short enough to overlap by a bit
    rows = replace(long, chain=250, chains=8)
    assert bounds(rows, UNIT)[-1] == 8000
    assert bounds(rows, replace(UNIT, window=500))[-1] == pytest.approx(8000 * 2008 / (500 * 8))


def test_the_slowest_bound_hides_the_others_where_they_are_far():
    assert blend(3.0, 4.0) == pytest.approx((243 + 1024) ** 0.2)
    assert blend(1.0, 10.0) == pytest.approx(10.0, rel=1e-4)
    assert blend(10.0, 10.0) == pytest.approx(10 * 2**0.2)


def test_short_chains_cost_less_on_an_eu_with_a_wider_window():
    """64 steps of one accumulator: 256 cycles, in 202.5 instructions: a load of A, one of B and a
    multiply-add per step, a load of the bias and half a slot to add it, a store, 8 of loop control.
    """
    expr = gemm(64, 16, 64)
    narrow, wide = (
        model_of(expr, replace(DEVICE, compute=replace(DEVICE.compute, window=window)))
        for window in (128, 512)
    )
    assert narrow.tile((1, 16)).cycles == pytest.approx(256, rel=0.02)
    # 512 / 202.5 of such chains are in flight
    expected = blend(64.5 / 2, 129 / 2, 1, 202.5 / 6, 256 * 202.5 / 512)
    assert wide.tile((1, 16)).cycles == pytest.approx(expected)


def test_what_is_cut_off_counts_for_what_it_is():
    model = model_of(gemm(37, 100, 256))
    register = model.tile((13, 32))
    rows = [model.share(register, 0, steps) for steps in range(13)]
    assert rows[0] == 0 and (np.diff(rows) > 0).all() and rows[12] < 1
    assert rows[6] == model.tile((6, 32)).cycles / register.cycles
    columns = [model.share(register, 1, steps) for steps in range(32)]
    # 20 columns: a vector of 16, and one of 4; 31: a vector of 16, and of 8, 4, 2 and 1
    one = model.tile((13, 16)).cycles / register.cycles
    assert columns[16] == columns[4] == one
    assert (columns[20], columns[31]) == (2 * one, 5 * one)
    # 37 rows: two whole tiles and 11 rows, in one task, in two of them, or in three
    tiles = np.array([[37, 100], [26, 100], [13, 100]])
    whole, two, three = register_tiles(model, [register], [3], tiles)
    assert whole == two == three == (2 + rows[11]) * (3 + columns[4])


def test_rows_in_one_cache_set_evict_each_other():
    """K = 3072: rows of A are 12 KiB apart, all in one set of 8 ways of a first level of 32 KiB."""
    far, near = model_of(gemm(128, 768, 3072)), model_of(gemm(128, 768, 3088))
    a = far.expr.inputs[0]
    assert far.rows_per_set(a, (13, 32)) == 13
    assert near.rows_per_set(near.expr.inputs[0], (13, 32)) == 1
    assert far.tile((13, 32)).cycles > 1.1 * near.tile((13, 32)).cycles
    assert far.tile((8, 32)).cycles == pytest.approx(near.tile((8, 32)).cycles, rel=0.01)


def test_a_line_costs_what_the_second_level_gives_beside_arithmetic():
    """Four panels of 16 columns: 4 lines per step, and one row leaves nothing to do meanwhile."""
    expr = gemm(128, 64, 4096)
    feeds = {}
    for feed in (39.0, 390.0):
        l1, l2, *outer = DEVICE.memory
        device = replace(DEVICE, memory=(l1, replace(l2, feed=feed), *outer))
        feeds[feed] = model_of(expr, device).tile((1, 64)).cycles
    # 4 lines x 64 bytes x 3 GHz / 39 GB/s = 19.7 cycles per step, if the first level has it not
    kept = 0.75 * 32 * 1024 / (4096 * 256)
    assert feeds[39.0] == pytest.approx(4096 * 256 * 3 / 39 * (1 - kept), rel=0.01)
    assert feeds[390.0] < 0.3 * feeds[39.0]


def test_rows_summed_up_one_after_the_other_wait_once_at_the_end():
    model = model_of(softmax(64, 256))
    one, two = model.tile((1,)), model.tile((2,))
    assert one.cycles < two.cycles < 2 * one.cycles


def test_rows_of_which_nothing_is_left_but_a_sum_overlap():
    """Of 256 elements: the whole row waits for the lanes of its sum, but the next row does not."""
    axes = [("r", 64, "parallel"), ("c", 256, "reduction")]
    image, sums = TensorAccess((64, 256), 4, (at(0), at(1))), TensorAccess((64,), 4, (at(0),))
    whole = model_of(tensor_expr(axes, [image], [image], ops=1)).tile((1,))
    alone = model_of(tensor_expr(axes, [image], [sums], ops=1)).tile((1,))
    assert whole.accumulators == alone.accumulators == 8
    across = DEVICE.compute.fma_latency * math.log2(16 * 8)
    assert whole.cycles - alone.cycles > across
    assert alone.cycles < across


# -- runs and nests


def test_runs_join_over_whole_dimensions():
    image = TensorAccess((8, 100), 4, (at(0), at(1)))
    everything = (1.0, 1.0)
    assert runs(image, (2, 16), 64, everything) == (2, 64)
    assert runs(image, (2, 17), 64, everything) == (2, 128)
    assert runs(image, (2, 100), 64, everything) == (1, 13 * 64)  # 800 bytes
    assert runs(TensorAccess((8, 100), 4, None), (2, 3), 64, ()) == (6, 64)


def test_parts_of_a_concatenation_are_read_for_their_share_of_the_results():
    """Rows 0 to 3 of 12 from one tensor, 4 to 11 from another one."""
    first = TensorAccess((4, 16), 4, (at(0), at(1)))
    second = TensorAccess((8, 16), 4, (index((1, 0), constant=-4), at(1)))
    assert inside(first, (12, 16)) == (1 / 3, 1.0)
    assert inside(second, (12, 16)) == (2 / 3, 1.0)
    # three rows anywhere: one of them from the first tensor on average
    assert runs(first, (3, 16), 64, inside(first, (12, 16))) == (1, 64)
    assert runs(second, (3, 16), 64, inside(second, (12, 16))) == (1, 128)


def nest(expr: TensorExpr, register: tuple[int, ...], tile: tuple[int, ...]) -> Nest:
    model = model_of(expr)
    order = tuple(range(len(tile)))
    return Nest(expr, 64, model.tile(register).sizes, np.array([tile], np.int64), order)


def test_every_run_costs_a_line_more():
    """64 rows of 4 KiB, three tensors. In one piece; or each row in four tasks."""
    expr = elementwise(64, 1024)
    moved = 3 * 64 * 4096
    assert nest(expr, (1, 64), (64, 1024)).traffic(1 << 14) == moved + 3 * 64
    assert nest(expr, (1, 64), (64, 256)).traffic(1 << 14) == moved + 3 * 4 * 64 * 64
    # tasks of whole rows go on where the one before ended
    assert nest(expr, (1, 64), (16, 1024)).traffic(1 << 14) == moved + 3 * 64


def test_a_product_loads_its_panel_once_if_it_stays():
    """A is 256 x 512, B one panel of 512 x 32: 64 KiB; C is written once. A level that holds the
    panel and a row block of A reads B once, a smaller one once for each of 16 blocks."""
    expr = replace(gemm(256, 32, 512), inputs=gemm(256, 32, 512).inputs[:2])
    a, b, c = 256 * 512 * 4, 512 * 32 * 4, 256 * 32 * 4
    blocks = nest(expr, (16, 32), (256, 32))
    # runs: each as a whole, of B both panels in one piece; again for every block of rows
    assert blocks.traffic(1 << 20) == a + b + c + 64 * (1 + 1 + 1)
    assert blocks.traffic(1 << 10) == a + 16 * b + c + 64 * (1 + 16 + 1)


def test_register_tiles_that_find_a_panel_wait_for_nothing():
    """The panel of B is loaded by the first of 16 blocks of rows, A and C by each."""
    expr = replace(gemm(256, 32, 512), inputs=gemm(256, 32, 512).inputs[:2])
    a, b, c = 256 * 512 * 4, 512 * 32 * 4, 256 * 32 * 4
    blocks = nest(expr, (16, 32), (256, 32))
    [share] = blocks.loading(1 << 20)
    assert share == pytest.approx((a + b / 16 + c) / (a + b + c))
    assert blocks.loading(1 << 10) == 1  # nothing stays
    # in a level that holds B and a block of 8 rows: all 32 blocks, in whatever task, find B there
    rows = nest(expr, (8, 32), (16, 32)).loading(96 << 10)
    assert rows == pytest.approx((a + b / 32 + c) / (a + b + c))


def test_arithmetic_apart_from_a_level_is_that_of_tiles_that_do_not_load():
    model = model_of(gemm(1024, 256, 512))
    register, tiles = model.tile((8, 32)), np.array([[1024, 256]])
    costs = task_costs(model, register, tiles, (1, 0))
    loops = Nest(model.expr, 64, register.sizes, tiles, (1, 0))
    number = costs.parts.index("L3")
    share = loops.loading(0.75 * DEVICE.level("L2").capacity)
    assert costs.serial[number] == pytest.approx(costs.times[0] * (1 - share)) and 0 < share < 1
    assert (costs.serial[0] == 0).all()


def test_a_panel_that_is_loaded_again_counts_once():
    """512 x 64 floats exceed the first level: the register tile knows what loading them takes, so
    a fifth of that is not added to the slowest part once more."""
    model = model_of(gemm(1024, 64, 512))
    register, tiles = model.tile((6, 64)), np.array([[1024, 64]])
    assert 0 < register.fill < register.cycles
    known = task_costs(model, register, tiles, (1, 0))
    unknown = task_costs(model, replace(register, fill=0.0), tiles, (1, 0))
    passes = 170 + model.share(register, 0, 4)  # of 1024 rows
    assert (unknown.ns - known.ns)[0] == pytest.approx(
        0.2 * min(passes * register.fill / DEVICE.compute.ghz, known.times[1][0])
    )


def test_short_rows_are_turned_at_the_price_of_long_ones():
    """16 rows of n elements become n vectors: 16 loads and 4 x 16 shuffles, at most 16 each."""
    for row, slots in ((3, 16.0), (8, 10.0), (16, 5.0), (40, 5.0)):
        image = TensorAccess((64, row), 4, (at(0), at(1)))
        expr = tensor_expr([("i", 64, "parallel"), ("j", row, "parallel")], [image], [image])
        assert load_slots(expr, image, 0, 16, DEVICE) == slots
        assert load_slots(expr, image, 1, 16, DEVICE) == 1.0


def test_every_other_element_is_shuffled_out_of_two_vectors():
    """Two loads and a shuffle on CPUs, of whole words; else an element at a time."""
    gpu = find_device("h200")
    for itemsize, device, slots in ((4, DEVICE, 3.0), (8, DEVICE, 3.0), (1, DEVICE, 16.0),
                                    (4, gpu, 16.0)):  # fmt: skip
        halves = TensorAccess((256,), itemsize, (index((2, 0)),))
        expr = tensor_expr([("i", 128, "parallel")], [halves], [halves])
        assert load_slots(expr, halves, 0, 16, device) == slots
    thirds = TensorAccess((384,), 4, (index((3, 0)),))
    expr = tensor_expr([("i", 128, "parallel")], [thirds], [TensorAccess((128,), 4, (at(0),))])
    assert load_slots(expr, thirds, 0, 16, DEVICE) == 16.0
    stored = TensorAccess((256,), 4, (index((2, 0)),))
    expr = tensor_expr([("i", 128, "parallel")], [TensorAccess((128,), 4, (at(0),))], [stored])
    assert load_slots(expr, stored, 0, 16, DEVICE) == 16.0


def test_short_rows_of_pixels_that_a_window_skips_have_vectors():
    """Of 14 pixels that a window of 3 x 3 sums up in steps of 2, not of channels."""
    image = TensorAccess((32, 29, 29), 4, (at(0), index((2, 1), (1, 3)), index((2, 2), (1, 4))))
    sums = TensorAccess((32, 14, 14), 4, (at(0), at(1), at(2)))
    sizes = ((32, "parallel"), (14, "parallel"), (14, "parallel"), (3, "reduction"),
             (3, "reduction"))  # fmt: skip
    axes = [(f"d{d}", size, kind) for d, (size, kind) in enumerate(sizes)]
    assert choose_vector_axis(tensor_expr(axes, [image], [sums]), DEVICE).axis == 2


def test_of_register_tiles_that_swap_pixels_one_is_compared():
    expr = conv(64, 8, 64, 1)
    model = model_of(expr)
    found = promising(model)
    assert found[0] == model.candidates()[0] and 1 < len(found) <= 4
    assert len({(model.total(t), t.loads, t.macs) for t in found}) == len(found)
    assert model.total(found[-1]) <= 1.1 * model.total(found[0])


def test_later_sweeps_load_what_did_not_stay():
    """Two results one after the other, each from the same input of 1 MiB."""
    access = TensorAccess((256, 1024), 4, (at(0), at(1)))
    axes = [("i", 256, "parallel"), ("j", 1024, "parallel")]
    expr = tensor_expr(axes, [access], [access, access], ops=2, sweeps=2)
    size = 1 << 20
    large, small = (nest(expr, (1, 64), tile) for tile in ((256, 1024), (2, 1024)))
    assert large.traffic(1 << 16) == small.traffic(1 << 16) == 3 * size + 3 * 64
    assert large.traffic(1 << 16, again=True) == 4 * size + 3 * 64
    # 8 KiB of the input and 8 KiB of one result stay until the second sweep
    assert small.traffic(1 << 16, again=True) == 3 * size + 3 * 64


# -- several register tiles at once


def candidates_of(expr: TensorExpr) -> tuple[RegisterModel, list[Candidates]]:
    model = model_of(expr)
    return model, [
        Candidates(tile, task_tiles(expr, DEVICE, model.vector, tile), loop_order(model, tile))
        for tile in promising(model)
    ]


def test_register_tiles_together_take_what_each_takes_alone():
    for expr in (gemm(197, 768, 768), conv(64, 8, 64, 1), elementwise(197, 80)):
        model, several = candidates_of(expr)
        for each, together in zip(several, all_task_costs(model, several), strict=True):
            alone = task_costs(model, each.register, each.tiles, each.order)
            assert together.parts == alone.parts
            for field in ("ns", "tasks", "limit", "times", "serial", "uneven", "in_parts"):
                assert (getattr(together, field) == getattr(alone, field)).all()


def test_register_tiles_with_equal_loops_are_evaluated_at_once(monkeypatch):
    model, several = candidates_of(gemm(1024, 768, 768))
    made = []
    monkeypatch.setattr(cost, "Nest", lambda *a: made.append(a) or Nest(*a))
    all_task_costs(model, several)
    assert len(several) == 4 and len(made) == 1


# -- tasks


def test_uneven_tasks_by_hand():
    """197 rows in tasks of 128: two of 98.5 in the mean, the first of which takes 1.3 of it."""
    expr = elementwise(197, 64)
    whole, cut = unevenness(expr, np.array([[197, 64], [128, 64]]))
    assert (whole, cut) == (1.0, 2 * 128 / 197)
    tasks = np.array([2])
    assert makespan(tasks, 100.0, 1, 10.0, cut) == 220.0
    assert makespan(tasks, 100.0, 2, 10.0, cut) == pytest.approx(100 * 256 / 197 + 10)


def test_an_instance_of_a_level_is_shared_by_its_own_eus_alone():
    """Eight EUs have 200 GB/s together, one alone 100: of 16 at once each has 25, of four 50."""
    l3 = replace(DEVICE.level("L3"), bandwidth=100.0, shared_bandwidth=200.0, shared_by=8)
    memory = tuple(l3 if level.name == "L3" else level for level in DEVICE.memory)
    device = replace(DEVICE, eus=16, memory=memory)
    tasks, none = np.array([16, 4]), np.zeros(2)
    times, in_parts = np.array([none, none + 100.0]), np.zeros(2, bool)
    parts = ("compute", "L3")
    costs = TaskCosts(none + 100.0, tasks, none, parts, times, 0 * times, none + 1, in_parts)
    assert spans(costs, device, 16) - device.costs.hand_off_ns == pytest.approx([400, 200])


def test_the_time_of_a_task_is_the_mean_of_all():
    expr = gemm(197, 96, 256)
    model = model_of(expr)
    register = model.tile((13, 32))
    costs = task_costs(model, register, np.array([[197, 96], [104, 96]]), (1, 0))
    assert list(costs.tasks) == [1, 2]
    whole, cut = costs.times[0] * costs.tasks
    assert whole == cut  # the same register tiles
    assert not costs.in_parts.any()


def test_levels_that_hold_everything_cost_nothing():
    model = model_of(elementwise(64))
    small = task_costs(model, model.tile((64,)), np.array([[64]]), (0,))
    assert small.parts == ("compute", "L2", "L3")
    level = MemoryLevel("L1", 64, 64, 1, 100.0, 100.0)
    assert level.fed == 100.0
