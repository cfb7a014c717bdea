"""The published search as a whole: what every result keeps to, scale-out, and its entry point."""

from dataclasses import replace
from fractions import Fraction
from itertools import pairwise, product
from math import ceil, prod

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from roller_cases import CASES, at, gemm

from rcompiler.device.cpu import cpu_device
from rcompiler.device.gpu import GPUS
from rcompiler.errors import CompilerError, DeviceError
from rcompiler.roller.expr import Access, ExpressionError, tensor_expr
from rcompiler.roller.osdi22 import Options, RProgram, construct, emit
from rcompiler.roller.osdi22.alignment import (
    AlignedSizes,
    aligned_rows,
    bank_padding,
    whole_warps,
)
from rcompiler.roller.osdi22.hal import PUBLISHED, hal_of
from rcompiler.roller.osdi22.operators import operator
from rcompiler.roller.osdi22.quantities import (
    footprint,
    registers,
    tasks,
    threads,
    traffic,
    work,
)
from rcompiler.roller.osdi22.rules import CONTRACTION, PLAIN, rules_of
from rcompiler.roller.osdi22.search import Search, shrink

MATMUL = operator("matmul_expr", [4096, 4096, 4096])
names = st.sampled_from(["v100", "k80", "mi50", "a100"])
sizes = st.integers(1, 600)
operators = st.one_of(
    st.builds(lambda *s: operator("matmul_expr", s), sizes, sizes, sizes),
    st.builds(lambda *s: operator("reduce_expr2", s), sizes, sizes),
    st.builds(lambda s: operator("relu_expr", [s]), st.integers(1, 100_000)),
    st.builds(
        lambda n, c, s, k: operator("depthwiseconv_expr_S1D1P1", [n, c, s, s, k, k]),
        *[st.integers(1, 16)] * 2,
        st.integers(3, 80),
        st.sampled_from([3, 5]),
    ),
)


@settings(max_examples=100)
@given(operators, names, st.sampled_from([0.0, 0.2, 0.6, 1.0]), st.booleans())
def test_every_result_is_aligned_and_fits(expr, name, eps, pad_banks):
    """Before shrinking, which gives alignment up."""
    hal, rules = PUBLISHED[name], rules_of(expr)
    search = Search(expr, hal, rules, Options(visits=2000, pad_banks=pad_banks))
    found = search.round(eps)
    spatial = expr.spatial
    for program in found:
        shared, register = program.shared, program.register
        assert all(r in (1, 2, 4, 8, 16, 32) for r in register[:spatial])
        assert register[spatial:] == (1,) * (len(shared) - spatial)
        assert shared[spatial - 1] % (hal.transaction_bytes // 4) == 0
        for size, large, small in zip(expr.sizes[:spatial], shared, register, strict=False):
            assert large % small == 0
            for step in (large, small):
                waste = Fraction(ceil(size / step) * step - size, size)
                assert waste <= Fraction(eps) + Fraction(1, 10**9)
        count = threads(expr, shared, register)
        assert whole_warps(expr, hal, rules, count) and count <= 512
        assert registers(expr, register) <= hal.thread_registers
        assert registers(expr, register) * count <= hal.block_registers
        padding = bank_padding(expr, hal, register, shared) if pad_banks and rules.scored else ()
        assert footprint(expr, shared, padding) < hal.shared_bytes
        if found is search.border:
            continue
        if rules.scored:
            computing = work(expr, shared) / hal.peak_gflops
            assert computing > traffic(expr, shared, padding) / hal.dram_gbs
        else:
            assert aligned_rows(expr, hal, shared) and prod(register[:spatial]) >= 2


def test_rounds_allow_ever_more_padding():
    expr = operator("matmul_expr", [128, 1000, 4032])
    search = Search(expr, PUBLISHED["k80"], CONTRACTION, Options())
    # as in the log of the artifact: none, 6, 6 and 10 results
    rounds = [search.round(eps) for eps in (0.0, 0.2, 0.4, 0.2 + 0.2 + 0.2)]
    assert [len(found) for found in rounds] == [0, 6, 6, 10]
    eps = [p.eps for p in Search(expr, PUBLISHED["k80"], CONTRACTION, Options()).run()]
    assert eps == sorted(eps) and set(eps) <= {0.2, 0.4, 0.6000000000000001}


def test_the_padding_cap_is_kept():
    expr = operator("matmul_expr", [128, 1000, 4032])
    assert emit(expr, PUBLISHED["k80"], Options(eps_cap=0.0)) == []
    assert all(p.eps <= 0.4 for p in emit(expr, PUBLISHED["k80"], Options(eps_cap=0.4)))


def test_a_tile_at_the_capacity_is_the_fallback():
    """With a slow memory nothing is saturated: the largest tiles that fit are the results."""
    slow = replace(PUBLISHED["v100"], dram_gbs=1.0)
    search = Search(MATMUL, slow, CONTRACTION, Options(eps_cap=0.0))
    found = search.run()
    assert found and found == search.border and len(found) <= 10
    aligned = AlignedSizes(MATMUL, slow, CONTRACTION, 0.0)
    for program in found:
        count = threads(MATMUL, program.shared, program.register)
        assert count % 128 == 0
        # the next size on some axis is too much
        following = [
            (*program.shared[:axis], larger, *program.shared[axis + 1 :])
            for axis, candidates in enumerate(aligned.shared(program.register))
            for larger in [c for c in candidates if c > program.shared[axis]][:1]
        ]
        used = registers(MATMUL, program.register)
        room = min(512, slow.block_registers / used)
        assert any(
            footprint(MATMUL, tile) >= slow.shared_bytes
            or threads(MATMUL, tile, program.register) > room
            for tile in following
        )


def test_options():
    hal = PUBLISHED["v100"]
    ten = emit(MATMUL, hal)
    assert len(ten) == 10 and emit(MATMUL, hal) == ten
    assert emit(MATMUL, hal, Options(count=3)) == ten[:3]
    assert len(emit(MATMUL, hal, Options(count=25))) == 25
    for options in (
        Options(score="none"),
        Options(count=0),
        Options(eps_cap=-1),
        Options(eps_cap=99),
    ):
        with pytest.raises(CompilerError):
            emit(MATMUL, hal, options)


def test_the_score_of_the_paper_orders_axes_differently():
    expr = operator("fused_conv_expr_S1D1P1", [128, 128, 28, 28, 128, 3, 3])
    hal = PUBLISHED["mi50"]
    assert emit(expr, hal)[0].shared == (128, 64, 16)
    assert emit(expr, hal, Options(score="paper"))[0].shared == (64, 128, 16)


def test_what_a_round_leaves_to_the_next():
    """The contraction policy forgets its border and builds on full tiles no more; plain goes on."""
    slow = replace(PUBLISHED["v100"], dram_gbs=1.0, shared_gbs=1.0)
    contraction = Search(MATMUL, slow, CONTRACTION, Options())
    for eps in (0.0, 0.2):
        border = contraction.round(eps)
        assert border and {p.eps for p in border} == {eps}
        assert len(set(border)) == len(border)
    contraction.found = True
    assert contraction.round(0.4) == []
    # one element per thread: never accepted, so everything is border
    one = replace(PUBLISHED["v100"], thread_registers=3)
    plain = Search(operator("add_expr", [64, 64, 64]), one, PLAIN, Options())
    plain.found = True
    first = list(plain.round(0.0))
    assert first and len(set(first)) < len(first)
    assert plain.round(0.1)[: len(first)] == first


def test_bank_padding_costs_shared_memory():
    tight = replace(PUBLISHED["v100"], shared_bytes=4 * (128 * 32 + 32 * 64) + 1)
    wide = {p.shared for p in Search(MATMUL, tight, CONTRACTION, Options(count=50)).run()}
    padded = {
        p.shared
        for p in Search(MATMUL, tight, CONTRACTION, Options(count=50, pad_banks=True)).run()
    }
    assert (128, 64, 32) in wide and (128, 64, 32) not in padded


def test_matrix_fragments():
    expr = replace(MATMUL, tensor_core=True)
    for program in emit(expr, PUBLISHED["v100"]):
        assert all(size % 16 == 0 for size in (*program.shared, *program.register))
        assert program.shared[2] == 64
        assert threads(expr, program.shared, program.register) % 4 == 0
    with pytest.raises(DeviceError, match="no matrix units"):
        emit(expr, PUBLISHED["k80"])


def test_hopeless_operators_end():
    expr = operator("add_expr", [7] * 8)
    assert emit(expr, PUBLISHED["mi50"], Options(visits=300, eps_cap=0.3)) == []


@given(st.tuples(sizes, sizes, sizes), st.tuples(*[st.integers(1, 300)] * 3), st.integers(1, 200))
def test_shrinking_gives_every_unit_a_task(shape, tile, units):
    expr = operator("matmul_expr", shape)
    before = RProgram(tile, tuple(min(4, size) for size in tile[:2]) + (1,))
    after = shrink(expr, before, units)
    assert tasks(expr, after.shared) >= units or after.shared[:2] == (1, 1)
    assert after.shared[2] == tile[2]  # reductions are not touched
    if tasks(expr, tile) >= units:
        assert after == before


def test_shrinking_halves_all_axes_and_levels():
    expr = operator("matmul_expr", [128, 1000, 4032])
    program = RProgram((64, 96, 8), (4, 4, 1))
    assert tasks(expr, program.shared) == 22
    assert shrink(expr, program, 23) == RProgram((32, 48, 8), (2, 2, 1))
    assert shrink(expr, RProgram((1, 5, 8), (1, 4, 1)), 10**9) == RProgram((1, 1, 8), (1, 1, 1))


def test_fewer_units_need_less_shrinking():
    expr = operator("matmul_expr", [128, 1000, 4032])
    hal = PUBLISHED["v100"]
    whole, capped = emit(expr, hal), emit(expr, hal, units=8)
    assert all(tasks(expr, p.shared) >= hal.sms for p in whole)
    assert all(tasks(expr, p.shared) >= 8 for p in capped)
    assert min(tasks(expr, p.shared) for p in capped) < hal.sms


def matmul(order="mnk"):
    """The tutorial's product with its axes in any order."""
    position = {axis: at(order.index(axis)) for axis in "mnk"}
    axes = [(axis, 4096, "reduction" if axis == "k" else "parallel") for axis in order]
    shape = (4096, 4096)
    a, b, c = (Access(shape, 4, (position[i], position[j])) for i, j in ("mk", "kn", "mn"))
    return tensor_expr(axes, [a, b], [c])


@pytest.mark.parametrize("order", ["mnk", "kmn", "mkn"])
def test_construct_takes_tensor_expressions(order):
    program = construct(matmul(order), GPUS["v100"])[5]
    assert dict(zip(order, program.shared, strict=True)) == {"m": 128, "n": 64, "k": 32}
    assert dict(zip(order, program.register, strict=True)) == {"m": 8, "n": 4, "k": 1}


DEVICES = {"h200": GPUS["h200"], "mi50": GPUS["mi50"], "cpu": cpu_device("v4", eus=8)}


@pytest.mark.parametrize("device", DEVICES)
def test_every_operator_of_the_compiler_ends(device):
    """With legal tiles, or without any: the caller then has its own policy."""
    hal = hal_of(DEVICES[device])
    found = 0
    for name, expr in CASES.items():
        if name == "empty":
            continue
        programs = construct(expr, DEVICES[device], Options(count=2, visits=2000))
        found += bool(programs)
        for program in programs:
            assert len(program.shared) == len(expr.axes)
            assert all(size >= 1 for size in (*program.shared, *program.register))
    assert found > len(CASES) // 2
    assert hal.sms == DEVICES[device].eus


def test_empty_operators_are_refused():
    with pytest.raises(ExpressionError, match="axis d1 is empty"):
        construct(CASES["empty"], GPUS["v100"])


def test_units_and_fragments_pass_through():
    assert construct(gemm(1024, 1024, 1024), GPUS["v100"], tensor_core=True) != construct(
        gemm(1024, 1024, 1024), GPUS["v100"]
    )
    small = construct(gemm(128, 768, 768), GPUS["v100"], units=1)
    whole = construct(gemm(128, 768, 768), GPUS["v100"])
    assert all(prod(a.shared) >= prod(b.shared) for a, b in zip(small, whole, strict=True))


def test_the_plain_policy_grows_the_innermost_axis_first():
    expr = operator("add_expr", [64, 4096])
    found = Search(expr, PUBLISHED["v100"], PLAIN, Options(count=3)).run()
    assert all(p.shared[0] == 1 for p in found)
    assert all(a.shared[1] < b.shared[1] for a, b in pairwise(found))


def test_a_tile_is_visited_once():
    """Different orders of growth meet: candidates are the product of sizes, results are unique."""
    expr = operator("matmul_expr", [64, 64, 64])
    found = emit(expr, replace(PUBLISHED["v100"], sms=1), Options(count=10_000))
    tiles = [(p.shared, p.register) for p in found]
    assert len(set(tiles)) == len(tiles)
    powers = (1, 2, 4, 8, 16, 32)
    assert {p.register[:2] for p in found} <= set(product(powers, powers))
