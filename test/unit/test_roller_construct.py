"""Decisions: legal on every operator and device, and the proven ones where they are known."""

import math
from dataclasses import replace
from functools import partial
from itertools import product

import numpy as np
import pytest
from counted import calls_in
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from pinned_devices import h200_by_datasheet
from roller_cases import CASES, conv, elementwise, first, gemm

from rcompiler.device.cpu import cpu_device
from rcompiler.device.record import builtin_device
from rcompiler.kernelgen.stack import STACK_LIMIT
from rcompiler.roller import construct as construction
from rcompiler.roller.choice import least_fast_ns, preferred
from rcompiler.roller.construct import construct, forget, task_tiles
from rcompiler.roller.cost import TaskCosts, balance, makespan, spans, task_costs
from rcompiler.roller.decision import Decision
from rcompiler.roller.expr import (
    Axis,
    ExpressionError,
    TensorAccess,
    TensorExpr,
    floordiv,
    index,
    mod,
    tensor_expr,
)
from rcompiler.roller.register import RegisterModel
from rcompiler.roller.vectors import choose_vector_axis

LEVELS = ("v4", "v3", "x86-64")


def check(expr, device, decision):
    sizes = expr.extents
    assert decision.grid == tuple(
        math.ceil(size / tile) for size, tile in zip(sizes, decision.tile, strict=True)
    )
    assert decision.tasks == math.prod(decision.grid)
    assert sorted(decision.order) == list(range(len(sizes)))
    for size, tile, register in zip(sizes, decision.tile, decision.register_tile, strict=True):
        assert 1 <= tile <= max(1, size) and register >= 1
        assert tile % register == 0 or tile >= size
    assert decision.registers <= device.vector_registers
    assert decision.lanes <= device.lanes(expr.compute_bytes)
    assert decision.estimated_ns > 0 and math.isfinite(decision.estimated_ns)
    assert decision.on_chip_bytes == sum(expr.footprint(decision.tile))
    if decision.vector_dim >= 0:
        assert decision.register_tile[decision.vector_dim] % decision.lanes == 0
        assert decision.vector_reduction == -1
    elif decision.vector_reduction >= 0:
        assert decision.reduction_unroll[decision.vector_reduction] % decision.lanes == 0
    else:
        assert decision.lanes == 1


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("name", CASES)
def test_every_decision_is_legal(name, level):
    device = cpu_device(level, eus=2)
    for decision in construct(CASES[name], device):
        check(CASES[name], device, decision)


@pytest.mark.parametrize("name", CASES)
def test_the_efficient_decision_does_not_depend_on_eus(name):
    one = construct(CASES[name], cpu_device("v4", eus=1))
    assert construct(CASES[name], cpu_device("v4", eus=1)) == one
    assert construct(CASES[name], cpu_device("v4", eus=8)) == one
    assert construct(CASES[name], cpu_device("v4", eus=96))[0] == one[0]


@settings(max_examples=60)
@given(st.integers(1, 70), st.integers(1, 70), st.integers(1, 40), st.sampled_from(LEVELS))
def test_tiles_cover_every_output_once(m, n, k, level):
    expr = gemm(m, n, k)
    for decision in construct(expr, cpu_device(level, eus=64)):
        written = np.zeros((m, n), int)
        for g in product(*map(range, decision.grid)):
            (i, j), (ti, tj) = (np.array(g) * decision.tile), decision.tile
            written[i : i + ti, j : j + tj] += 1
        assert (written == 1).all()


def with_axis(expr: TensorExpr, position: int, **changes) -> TensorExpr:
    axes = list(expr.axes)
    axes[position] = replace(axes[position], **changes)
    return replace(expr, axes=tuple(axes))


def tile_sizes(expr: TensorExpr, register: tuple[int, ...], position: int) -> set[int]:
    device = cpu_device("v4")
    model = RegisterModel(expr, device, choose_vector_axis(expr, device))
    tiles = task_tiles(expr, device, model.vector, model.tile(register))
    return {int(size) for size in tiles[:, position]}


def test_tasks_cut_padded_axes_between_single_steps_only():
    """14 rows of results in a tensor of 16: tasks of 1 to 16 rows of it, the padding included."""
    expr = with_axis(conv(64, 14, 64, 1), 2, padding=2)
    assert expr.extents == (1, 4, 16, 14, 16)
    assert tile_sizes(expr, (1, 2, 1, 7, 16), 2) == {1, 2, 3, 4, 6, 8, 16}
    assert tile_sizes(expr, (1, 2, 2, 7, 16), 2) == {16}
    assert tile_sizes(with_axis(expr, 1, uncut=True), (1, 2, 1, 7, 16), 1) == {4}
    for decision in construct(expr, cpu_device("v4")):
        check(expr, cpu_device("v4"), decision)


def test_padding_takes_no_time():
    """16 rows of which 14 are computed: as long as 14, and 5 tasks of 3 rows as long as 5 x 3."""
    device = cpu_device("v4")
    plain = conv(64, 14, 64, 1)
    padded = with_axis(plain, 2, padding=2)
    model = RegisterModel(plain, device, choose_vector_axis(plain, device))
    register = model.tile((1, 2, 1, 7, 16))
    order = (1, 2, 3, 0, 4)

    def costs(expr: TensorExpr, rows: int):
        model = RegisterModel(expr, device, choose_vector_axis(expr, device))
        return task_costs(model, register, np.array([[1, 4, rows, 14, 16]]), order)

    assert costs(padded, 16).ns[0] == costs(plain, 14).ns[0]
    assert (costs(padded, 3).tasks[0], costs(plain, 3).tasks[0]) == (6, 5)
    assert Axis("a", 0, "parallel").extent == 1


SIZES = st.sampled_from([0, 1, 2, 3, 7, 8, 16, 17, 100, 1000, 4096])


@st.composite
def expressions(draw):
    """Anything that is well formed, sensible or not."""
    kinds = st.sampled_from(["parallel", "parallel", "reduction"])
    axes = [(f"a{i}", draw(SIZES), draw(kinds)) for i in range(draw(st.integers(1, 6)))]
    assume(math.prod(max(size, 1) for _, size, _ in axes) <= 1 << 56)
    term = st.tuples(st.sampled_from([1, 1, 2, -1, 16]), st.integers(0, len(axes) - 1))
    flat = st.builds(lambda ts, c: index(*ts, constant=c), st.lists(term, max_size=2), st.just(0))
    deep = st.builds(lambda f, d: index((1, d(f, 16))), flat, st.sampled_from([floordiv, mod]))
    dims = st.lists(st.one_of(flat, flat, deep, st.none()), max_size=3)
    access = st.builds(
        lambda ds, size, bytes_: TensorAccess((size,) * len(ds), bytes_, tuple(ds)),
        dims,
        st.sampled_from([1, 5, 100, 5000]),
        st.sampled_from([1, 2, 4, 8]),
    )
    inputs = draw(st.lists(access, max_size=3))
    return tensor_expr(axes, inputs, [draw(access)], ops=draw(st.sampled_from([0, 2, 20])))


@settings(max_examples=150)
@given(expressions(), st.sampled_from(LEVELS), st.sampled_from([1, 64]))
def test_any_expression_has_a_legal_decision(expr, level, eus):
    device = cpu_device(level, eus=eus)
    for decision in construct(expr, device):
        check(expr, device, decision)


def test_more_points_than_64_bits_count_are_refused():
    axes = [(f"a{i}", 4096, "parallel") for i in range(5)]
    with pytest.raises(ExpressionError, match="more than .* points"):
        tensor_expr(axes, [], [TensorAccess((), 4, ())])


def test_large_operators_have_enough_tasks_and_long_ones():
    for name in ("gemm", "gemm_square", "conv_3x3", "conv_7x7_image", "conv_stride", "first_conv"):
        decision = first(CASES[name], "v4")
        assert 8 <= decision.tasks <= 256, name
        assert decision.estimated_ns >= 5000, name


def test_small_operators_are_one_task():
    assert first(elementwise(3, 5), "v4").tasks == 1
    assert first(gemm(4, 10, 64), "v4").tasks == 1


def test_short_operators_are_not_split_for_speed_either():
    device = cpu_device("v4", eus=8)
    for length in (2048, 4096, 8192, 16384):
        whole, *faster = construct(elementwise(1, length), device)
        assert whole.tasks == 1
        assert bool(faster) == (whole.estimated_ns >= device.costs.min_task_ns)
    assert faster


def test_faster_decisions_cost_more():
    device = cpu_device("v4", eus=64)
    decisions = construct(gemm(1024, 1024, 1024), device)
    assert len(decisions) > 1
    hand_off = device.costs.hand_off_ns
    spans = [float(makespan(d.tasks, d.estimated_ns, 64, hand_off)) for d in decisions]
    work = [d.tasks * (d.estimated_ns + hand_off) for d in decisions]
    assert spans == sorted(spans, reverse=True)
    assert all(other >= work[0] for other in work)


def test_execution_units_share_bandwidth_by_hand():
    """8 tasks of 100 ns of arithmetic and 40 ns of DRAM at 10 GB/s, of which 8 EUs get 5 each."""
    device = cpu_device("v4", eus=8)
    costs = TaskCosts(
        ns=np.array([0.8 * 100 + 0.2 * 140 + device.costs.step_ns]),
        tasks=np.array([8]),
        limit=np.array([0]),
        parts=("compute", "DRAM"),
        times=np.array([[100.0], [40.0]]),
        serial=np.zeros((2, 1)),
        uneven=np.array([1.0]),
        in_parts=np.array([False]),
    )
    each = device.costs.step_ns + device.costs.hand_off_ns
    one, two, eight = (float(spans(costs, device, n)[0]) for n in (1, 2, 8))
    assert one == pytest.approx(8 * (0.8 * 100 + 0.2 * 140 + each))
    assert two == pytest.approx(one / 2)  # 20 GB/s are there
    assert eight == pytest.approx(0.8 * 100 + 0.2 * (100 + 80) + each)


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("eus", [1, 2, 5, 64])
def test_the_budget_of_eus_is_what_faster_decisions_are_for(name, eus):
    expr, device = CASES[name], cpu_device("v4", eus=64)
    first, *faster = construct(expr, device, eus)
    assert first == construct(expr, device)[0]
    assert not faster or eus > 1
    for decision in faster:
        check(expr, device, decision)
        second = decision.explanation.runner_up
        assert second.by == f"makespan on {eus} EUs" and second.ratio > 1 / 0.9
    assert construct(expr, device, 64) == construct(expr, device)


def test_small_operators_shrink_on_wide_devices():
    """12 x 64 results are 4 register tiles: 64 EUs get smaller ones, 4 EUs do not."""
    expr, device = gemm(12, 64, 4096), builtin_device("epyc-9555")
    first, *faster = construct(expr, device, 64)
    assert first.tasks == 4 and math.prod(first.register_tile) == 12 * 64 // 4
    assert faster[-1].tasks > 4 and math.prod(faster[-1].register_tile) < 12 * 64 // 4
    assert faster[-1].tasks * faster[-1].estimated_ns > first.tasks * first.estimated_ns
    assert construct(expr, device, 4) == [first]


def by_lines(n: int, k: int) -> TensorExpr:
    """C[n] = A[k] B[n][k]: vectors run along the sum."""
    return tensor_expr(
        [("n", n, "parallel"), ("k", k, "reduction")],
        [
            TensorAccess((k,), 4, (index((1, 1)),)),
            TensorAccess((n, k), 4, (index((1, 0)), index((1, 1)))),
        ],
        [TensorAccess((n,), 4, (index((1, 0)),))],
    )


def test_a_wide_device_cuts_short_sums_into_whole_sectors():
    """8 us on one EU of 132: rTasks of a hand-off or more, which write no sector in common."""
    device = h200_by_datasheet()
    whole, *faster = construct(by_lines(1024, 256), device)
    assert whole.tasks == 1 and whole.vector_reduction == 0
    sector = device.memory[1].line // 4
    assert faster and all(d.tile[0] % sector == 0 for d in faster)
    assert all(d.estimated_ns >= device.costs.hand_off_ns for d in faster)
    assert faster[-1].tasks >= 6


def test_a_sum_of_two_hand_offs_is_worth_two_eus():
    """Others are not shared by EUs where they take less than the shortest rTask of an operator."""
    device = h200_by_datasheet()
    whole, *faster = construct(by_lines(512, 256), device)
    assert 2 * device.costs.hand_off_ns < whole.estimated_ns < device.costs.min_task_ns
    assert faster[-1].tasks == 4
    # less than two hand-offs
    [small] = construct(by_lines(128, 256), device)
    assert small.estimated_ns < 2 * device.costs.hand_off_ns


def test_few_eus_hand_on_less():
    """What 8 EUs wait for each other is missing elsewhere."""
    device = h200_by_datasheet()
    device = replace(device, costs=replace(device.costs, hand_off_ns=100.0))
    assert [least_fast_ns(device, eus, horizontal=True) for eus in (8, 9)] == [500.0, 100.0]
    assert [least_fast_ns(device, eus, horizontal=False) for eus in (8, 9)] == [500.0, 500.0]


def test_the_fastest_decisions_are_kept_where_eus_are_idle():
    assert preferred([1, 2, 3, 4, 5], 9) == [1, 4, 5]
    assert preferred([1, 2, 3, 4, 5], 8) == [1, 2, 3, 4, 5]
    assert preferred([1, 2], 9) == [1, 2]


def test_what_is_bound_by_memory_is_not_cut_for_more_eus():
    """Weights of 64 MiB from DRAM: a few EUs draw all that it gives."""
    wide = cpu_device("v4", eus=64)
    assert construct(gemm(1, 4096, 4096), wide) == construct(gemm(1, 4096, 4096), wide, 1)


def test_a_loop_that_reads_and_writes_anywhere_is_one_scalar_task():
    access = TensorAccess((100,), 4, None)
    expr = tensor_expr([("i", 100, "parallel")], [access], [access], kind="sequential")
    (decision,) = construct(expr, cpu_device("v4"))[:1]
    assert (decision.tasks, decision.lanes, decision.vector_dim) == (1, 1, -1)


def test_a_loop_whose_iterations_are_abreast_is_cut_into_whole_lines_of_vectors():
    access = TensorAccess((1000, 1000), 4, (index((1, 0)), index((1, 1))))
    expr = tensor_expr(
        [Axis("n", 1000, "parallel", uncut=True), Axis("columns", 1000, "parallel")], [access],
        [access], kind="sequential", abreast=1,
    )  # fmt: skip
    for decision in construct(expr, cpu_device("v4")):
        assert (decision.lanes, decision.vector_dim, decision.tile[0]) == (16, 1, 1000)
        assert decision.tile[1] % 16 == 0 or decision.tile[1] == 1000


def test_what_is_forgotten_is_compared_again(monkeypatch):
    expr, device = gemm(128, 768, 768), cpu_device("v4")
    compared = []
    real = construction.promising
    monkeypatch.setattr(construction, "promising", lambda m: compared.append(m) or real(m))
    forget()
    first = construct(expr, device)
    assert construct(expr, device, 1) == construct(expr, device, 1) and len(compared) == 1
    forget()
    assert construct(expr, device) == first and len(compared) == 2


def test_what_a_large_model_compares_is_kept(monkeypatch):
    """One pass after the other asks for all of its operators, in the same order."""
    model = [elementwise(8, 16 * n) for n in range(1, 151)]
    compared = []
    real = construction.promising
    monkeypatch.setattr(construction, "promising", lambda m: compared.append(m) or real(m))
    forget()
    for expr in model + model:
        construct(expr, cpu_device("v4"), 1)
    assert len(compared) == len(model)


def test_balance_by_hand():
    # 3 tasks of 10 ns: 1 EU 30, 2 EUs 2 x 20, 4 EUs 4 x 10
    assert balance(np.array([3]), np.array([10.0]), (1, 2, 4), 0.0)[0] == (30 + 40 + 40) / 3


def test_weights_that_stay_in_the_cache_are_loaded_once():
    """Two row blocks against one panel: the panel fits L2, so its second use is free."""
    device = cpu_device("v4")
    expr = gemm(1024, 32, 512)
    model = RegisterModel(expr, device, choose_vector_axis(expr, device))
    register = model.tile((8, 32))
    tiles = np.array([[1024, 32], [512, 32]])
    whole, half = task_costs(model, register, tiles, (1, 0)).ns
    assert half < 0.55 * whole


def in_parts(expr: TensorExpr) -> Decision:
    return construct(replace(expr, in_parts=True), cpu_device("v4"))[0]


def test_long_panels_run_in_parts():
    """A 3x3 convolution over 512 channels: 2 panels of 288 KiB, and 18 KiB of them per 16 channels.
    With L1 = 32 KiB a part is one block of channels; rows and columns run inside of it."""
    decision = in_parts(conv(512, 7, 512, 3))
    assert decision.register_tile[1] == 2
    around, steps = decision.reduction_tile
    assert steps == 1
    assert set(decision.order[around:]) >= {2, 3}


def test_short_panels_and_single_passes_run_whole():
    assert in_parts(conv(64, 28, 64, 1)).reduction_tile == ()  # 2 panels of 4 KiB stay in L1
    assert in_parts(gemm(1, 512, 4096)).reduction_tile == ()  # no row uses a panel again
    assert construct(conv(512, 7, 512, 3), cpu_device("v4"))[0].reduction_tile == ()


@given(st.integers(1, 300), st.integers(1, 300), st.integers(1, 5000))
@example(m=30, n=59, k=577)  # five columns of padding
@settings(max_examples=60)
def test_a_part_and_its_sums_fit(m: int, n: int, k: int):
    decision = in_parts(gemm(m, n, k))
    if decision.reduction_tile:
        around, steps = decision.reduction_tile
        vectors = decision.register_tile[1]
        assert 1 <= steps < k
        assert steps * vectors * 4 <= 0.75 * cpu_device("v4").memory[0].capacity
        rows = decision.tile[0] if 0 in decision.order[around:] else decision.register_tile[0]
        assert rows * vectors * 4 <= STACK_LIMIT


@pytest.mark.parametrize("result", [1, 4])
def test_sums_are_as_wide_as_registers_whatever_becomes_of_them(result: int):
    """A quantised result has a byte of the four that its sums have: 70 KiB of them stay no part."""
    expr = conv(512, 56, 512, 3)
    [output] = expr.outputs
    decision = in_parts(replace(expr, outputs=(replace(output, itemsize=result),)))
    around = decision.reduction_tile[0] if decision.reduction_tile else 0
    inside = decision.order[around:] if decision.reduction_tile else ()
    tiles = zip(decision.tile, decision.register_tile, strict=True)
    sums = math.prod(tile if p in inside else one for p, (tile, one) in enumerate(tiles))
    assert 4 * sums <= STACK_LIMIT


def test_construction_is_fast():
    """10 ms for one of them in the middle, and then 12,000 calls; 42,000 at most."""
    device = cpu_device("v4")
    construct(CASES["gemm"], device)
    calls = []
    for expr in CASES.values():
        forget()
        calls.append(calls_in(partial(construct, expr, device)))
    assert sorted(calls)[len(calls) // 2] < 25_000 and max(calls) < 80_000
