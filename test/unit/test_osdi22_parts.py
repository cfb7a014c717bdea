"""The parts of the published search: figures, alignments, scores and devices, by hand."""

from dataclasses import replace
from fractions import Fraction
from math import ceil, lcm, prod

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from roller_cases import at, conv, embedding, gemm

from rcompiler.device.cpu import cpu_device
from rcompiler.device.gpu import GPUS
from rcompiler.roller.expr import Access, ExpressionError, floordiv, index, mod, tensor_expr
from rcompiler.roller.osdi22.alignment import AlignedSizes, aligned_rows, bank_padding, whole_warps
from rcompiler.roller.osdi22.expression import expression_of
from rcompiler.roller.osdi22.hal import PUBLISHED, derive, hal_of
from rcompiler.roller.osdi22.operators import operator
from rcompiler.roller.osdi22.quantities import (
    footprint,
    input_traffic,
    registers,
    tasks,
    threads,
    traffic,
    work,
)
from rcompiler.roller.osdi22.rules import CONTRACTION, PLAIN, rules_of
from rcompiler.roller.osdi22.score import best_first, intensity_scores, paper_scores

HAL = PUBLISHED["v100"]
MATMUL = operator("matmul_expr", [4096, 4096, 4096])


def unpadded(_):
    return ()


def test_matrix_product_by_hand():
    tile = (128, 64, 32)
    assert traffic(MATMUL, tile) == 4 * (128 * 4096 + 4096 * 64 + 128 * 64)
    assert input_traffic(MATMUL, tile) == 4 * (128 * 4096 + 4096 * 64)
    assert footprint(MATMUL, tile) == 4 * (128 * 32 + 32 * 64)
    assert work(MATMUL, tile) == 2 * 128 * 64 * 4096
    assert registers(MATMUL, (8, 4, 1)) == 8 + 4 + 32
    assert threads(MATMUL, tile, (8, 4, 1)) == 16 * 16
    assert tasks(MATMUL, tile) == 32 * 64


def test_reductions_are_rounded_up_to_whole_steps():
    expr = operator("matmul_expr", [64, 64, 100])
    assert work(expr, (1, 1, 32)) == 2 * 128
    assert traffic(expr, (1, 1, 32)) == 4 * (128 + 128 + 1)
    assert footprint(expr, (1, 1, 32)) == 4 * (32 + 32)


def test_padding_widens_the_rows_of_inputs_only():
    tile = (128, 64, 32)
    assert footprint(MATMUL, tile, (1, 2)) == 4 * (128 * 33 + 32 * 66)
    assert traffic(MATMUL, tile, (1, 2)) == 4 * (128 * 4097 + 4096 * 66 + 128 * 64)


def test_convolution_by_hand():
    expr = operator("conv_expr_S1D1P0", [2, 64, 56, 56, 32, 3, 3])
    tile = (1, 16, 4, 8, 8, 3, 3)
    assert footprint(expr, tile) == 4 * (8 * 6 * 10 + 16 * 8 * 3 * 3)
    assert traffic(expr, tile) == 4 * (32 * 6 * 10 + 16 * 32 * 9 + 16 * 4 * 8)
    assert work(expr, tile) == 2 * (16 * 4 * 8) * (32 * 9)
    # stride 2 without padding: the artifact adds one element that no window reads
    strided = operator("conv_expr_S2D1P0", [2, 64, 28, 28, 32, 3, 3])
    assert strided.inputs[0].extents(tile)[2:] == [3 * 2 + 2 + 1 + 1, 7 * 2 + 2 + 1 + 1]


def test_fused_convolution_has_three_axes():
    expr = operator("fused_conv_expr_S1D1P1", [128, 64, 56, 56, 32, 3, 3])
    assert expr.sizes == (64, 128 * 56 * 56, 32 * 9) and expr.spatial == 2
    # kernel [f, r], image [r, s]: a matrix product of them
    assert footprint(expr, (16, 32, 8)) == 4 * (8 * 32 + 16 * 8)


def test_pooling_takes_the_padding_off_every_tile():
    expr = operator("avgpool2d_expr_S1P1", [86016, 11, 11, 3, 3])
    tile = (1, 12, 16, 3, 3)
    assert footprint(expr, tile) == 4 * 12 * 16
    assert traffic(expr, tile) == 4 * (12 * 16 + 12 * 16)
    assert work(expr, tile) == 2 * 12 * 16 * 9
    # 1 - 2 rows of 2 - 2 elements
    assert expr.inputs[0].extents((1, 1, 2, 1, 1)) == [1, -1, 0]
    assert footprint(expr, (1, 1, 2, 1, 1)) == 0


def test_depthwise_counts_the_padded_image():
    expr = operator("depthwiseconv_expr_S2D1P3", [128, 96, 83, 83, 7, 7])
    assert footprint(expr, (1, 1, 8, 88, 7, 7)) == 4 * (21 * 181 + 49)


def test_intensity_scores_by_hand():
    expr = operator("matmul_expr", [8, 8, 8])
    # (2, 1, 1): 2 * 2 * 8 operations, 4 * (2 * 8 + 8 + 2) bytes; (1, 1, 2): 4 * (8 + 8 + 1)
    assert intensity_scores(expr, (1, 1, 1), unpadded) == [32 / 104, 32 / 104, 16 / 68]


def test_paper_scores_by_hand():
    expr = operator("matmul_expr", [8, 8, 8])
    # traffic per output byte falls from 68 / 4 to 104 / 8, the footprint grows from 8 to 12
    assert paper_scores(expr, (1, 1, 1), (2, None, 8), unpadded) == [(17 - 13) / 4, 0.0, 0.0]


def test_both_scores_grow_the_short_side_of_a_matrix_tile():
    for scores in (
        intensity_scores(MATMUL, (8, 64, 8), unpadded),
        paper_scores(MATMUL, (8, 64, 8), (16, 72, 32), unpadded),
    ):
        assert best_first(scores)[0] == 0
        assert scores[0] > scores[1] > 0


@given(st.lists(st.sampled_from([0.5, 1.0, 2.0]), min_size=1, max_size=12))
def test_ties_keep_the_order_of_the_axes(scores):
    order = best_first(scores)
    assert order == list(np.argsort([-score for score in scores], kind="stable"))


def test_candidates_by_hand():
    aligned = AlignedSizes(MATMUL, HAL, CONTRACTION, 0.0)
    assert aligned.register() == ((1, 2, 4, 8, 16, 32), (1, 2, 4, 8, 16, 32), (1,))
    # 8 x 1..32 that divide 4096; the innermost also whole transactions of 8 floats; steps x4
    assert aligned.shared((8, 4, 1)) == (
        (8, 16, 32, 64, 128, 256),
        (8, 16, 32, 64, 128, 256),
        (8, 32),
    )
    assert AlignedSizes(MATMUL, PUBLISHED["mi50"], CONTRACTION, 0.0).shared((8, 4, 1))[2] == (
        16,
        32,
    )
    reduce = operator("reduce_expr2", [1000, 121])
    assert AlignedSizes(reduce, HAL, PLAIN, 0.0).shared((2, 1)) == (
        (8, 40, 200, 1000),
        (32, 64, 121),
    )
    short = operator("reduce_expr2", [1000, 20])
    assert AlignedSizes(short, HAL, PLAIN, 0.0).shared((2, 1))[1] == (20,)


def test_padding_opens_more_candidates():
    expr = operator("relu_expr", [100])
    assert AlignedSizes(expr, HAL, PLAIN, 0.0).shared((2,)) == ((),)
    assert AlignedSizes(expr, HAL, PLAIN, 0.1).shared((2,)) == ((8, 104),)
    assert AlignedSizes(expr, HAL, PLAIN, 0.2).shared((2,)) == ((8, 16, 24, 40, 56, 104, 112, 120),)


@settings(max_examples=150)
@given(
    st.tuples(*[st.integers(1, 700)] * 3),
    st.tuples(*[st.sampled_from([1, 2, 4, 8, 16])] * 2),
    st.sampled_from(["v100", "mi50", "a100"]),
    st.sampled_from([CONTRACTION, PLAIN]),
    st.sampled_from([0, 1, 3, 10]),
)
def test_every_aligned_size_is_a_candidate_and_no_other(sizes, register, name, rules, tenths):
    """So the next candidate is the smallest size that is larger and meets all alignments."""
    expr, hal = operator("matmul_expr", sizes), PUBLISHED[name]
    found = AlignedSizes(expr, hal, rules, tenths / 10).shared((*register, 1))
    units = (register[0], lcm(register[1], hal.transaction_bytes // 4))
    for size, unit, candidates in zip(sizes, units, found, strict=False):
        fitting = [
            c
            for c in range(unit, unit * rules.multiples + 1)
            if c % unit == 0 and Fraction(ceil(size / c) * c, size) <= 1 + Fraction(tenths, 10)
        ]
        assert list(candidates) == fitting
    steps = found[2]
    assert list(steps) == sorted(set(steps)) and steps[-1] == min(sizes[2], rules.reduction_cap)
    for step in steps[:-1]:
        assert step % (hal.transaction_bytes // 4) == 0


def test_whole_warps():
    assert [n for n in range(1, 600) if whole_warps(MATMUL, HAL, CONTRACTION, n)] == [
        128,
        256,
        384,
        512,
    ]
    assert whole_warps(MATMUL, HAL, PLAIN, 32) and not whole_warps(MATMUL, HAL, PLAIN, 48)
    fragments = replace(MATMUL, tensor_core=True)  # threads are warps there
    assert whole_warps(fragments, HAL, CONTRACTION, 4)
    assert not whole_warps(fragments, HAL, CONTRACTION, 2)


def test_rows_are_whole_or_whole_transactions():
    expr = operator("reduce_expr2", [1000, 121])
    assert aligned_rows(expr, HAL, (64, 121))  # all of a row
    assert aligned_rows(expr, HAL, (64, 32))
    assert not aligned_rows(expr, HAL, (64, 30))
    assert not aligned_rows(expr, HAL, (60, 32))  # of the output


def test_padded_operators_compare_rows_with_the_wrong_tensor():
    expr = operator("depthwiseconv_expr_S1D1P1", [128, 42, 83, 83, 3, 3])
    # image before padding, kernel, and for the output the image after padding
    assert [o.row for o in (*expr.inputs, *expr.outputs)] == [83, 3, 85]


def test_bank_padding_by_hand():
    # 8 rows of A, 32 floats apart, one column at a time: all in bank 0, so one more float per row;
    # a thread reads one row of B only
    assert bank_padding(MATMUL, HAL, (8, 4, 1), (128, 64, 32)) == (1, 0)
    assert bank_padding(MATMUL, PUBLISHED["k80"], (8, 4, 1), (128, 64, 32)) == (2 + 64 - 32, 0)


@pytest.mark.parametrize("name", ["v100", "k80"])
def test_padded_rows_fall_into_different_banks(name):
    """Rows of n elements that are read at once: as many as there are banks for, none twice."""
    hal = PUBLISHED[name]
    word = hal.bank_bytes // 4
    conflicts = 0
    for n in (1, 2, 3, 4, 6, 8, 16, 32):
        for row in range(n, 200):
            expr = operator("matmul_expr", [4096, 64, row])
            (padding, _) = bank_padding(expr, hal, (8, 1, n), (128, 8, row))
            assert 0 <= padding < hal.banks * word
            span = ceil(n / word)  # words of a row; a row starts at a whole word
            rows = hal.banks // span
            assert degree(row + padding, rows, n, word, hal.banks) == 1
            conflicts += degree(row, rows, n, word, hal.banks) > 1
    assert conflicts > 500  # without padding


def degree(stride, rows, n, word, banks):
    """Different words in the fullest bank when `rows` rows of `n` elements are read at once."""
    words = {(row * stride + column) // word for row in range(rows) for column in range(n)}
    counts = [0] * banks
    for address in words:
        counts[address % banks] += 1
    return max(counts)


def test_published_devices_keep_their_figures():
    assert hal_of(GPUS["v100"]).peak_gflops == 12480
    assert hal_of(GPUS["k80"]).sms == 26  # both dies
    assert (hal_of(GPUS["mi50"]).warp, hal_of(GPUS["mi50"]).transaction_bytes) == (64, 64)
    assert hal_of(GPUS["a100"]).thread_registers == 164
    assert set(PUBLISHED) <= set(GPUS)


def test_other_devices_are_derived():
    v100, published = derive(GPUS["v100"]), PUBLISHED["v100"]
    figures = ("block_registers", "thread_registers", "shared_bytes", "sms", "partitions", "warp")
    for figure in (*figures, "transaction_bytes", "banks", "bank_bytes"):
        assert getattr(v100, figure) == getattr(published, figure), figure
    assert v100.dram_gbs == 900 and v100.peak_gflops == pytest.approx(15667, rel=1e-3)
    assert hal_of(replace(GPUS["v100"], eus=8)).sms == 8  # another machine of that name
    h200 = hal_of(GPUS["h200"])
    assert (h200.sms, h200.dram_gbs, h200.matrix_gflops) == (132, 4800, pytest.approx(989000))
    cpu = hal_of(cpu_device("v4", eus=8))
    # threads are lanes, warps are vectors, the last cache of a core is the shared memory
    assert (cpu.sms, cpu.warp, cpu.partitions, cpu.matrix_gflops) == (8, 16, 1, None)
    assert (cpu.thread_registers, cpu.block_registers) == (32, 32 * 512)
    assert (cpu.shared_bytes, cpu.shared_gbs) == (1 << 20, 8 * 128)
    assert (cpu.peak_gflops, cpu.dram_gbs, cpu.transaction_bytes) == (8 * 192, 40, 64)


def test_dispatch_by_hand():
    assert rules_of(MATMUL) is CONTRACTION
    assert rules_of(operator("relu_expr", [1 << 20])) is PLAIN
    assert rules_of(operator("add_expr", [64, 64])) is PLAIN


def test_tensor_expressions_become_expressions():
    axes = [("k", 64, "reduction"), ("m", 32, "parallel"), ("n", 16, "parallel")]
    inputs = [Access((32, 64), 2, (at(1), at(0))), Access((64, 16), 2, (at(0), at(2)))]
    expr, order = expression_of(tensor_expr(axes, inputs, [Access((32, 16), 2, (at(1), at(2)))]))
    assert order == (1, 2, 0) and expr.sizes == (32, 16, 64) and expr.spatial == 2
    assert footprint(expr, (8, 4, 16)) == 2 * (8 * 16 + 16 * 4)
    assert work(expr, (8, 4, 16)) == 8 * 4 * 64 * 2 / 2  # the artifact's count for fp16


@pytest.mark.parametrize("source", [gemm(128, 768, 768), conv(64, 56, 64, 3, stride=2)])
def test_boxes_agree_with_the_compilers_own(source):
    expr, order = expression_of(source)
    tile = tuple(min(size, 16) for size in expr.sizes)
    whole = [0] * len(order)
    for position, old in enumerate(order):
        whole[old] = tile[position]
    for ours, theirs in zip((*expr.inputs, *expr.outputs), source.accesses, strict=True):
        assert prod(ours.extents(tile)) == prod(int(e) for e in theirs.extents(whole))


def test_data_dependent_dimensions_count_wholly():
    expr, _ = expression_of(embedding(128, 30522, 768))
    assert expr.inputs[1].extents((4, 16)) == [30522, 16]


def test_scalars_have_one_axis_and_empty_axes_are_refused():
    one = Access((), 4, ())
    expr, order = expression_of(tensor_expr([], [one], [one]))
    assert (expr.sizes, order) == ((1,), (-1,))
    with pytest.raises(ExpressionError, match="axis i is empty"):
        nothing = Access((0,), 4, (at(0),))
        expression_of(tensor_expr([("i", 0, "parallel")], [nothing], [nothing]))


def test_names_of_pooling_variants():
    plain, less, more = (operator(f"avgpool2d_expr_S2P0{v}", [4, 9, 9, 2, 2]) for v in ("", 1, 2))
    rows = [expr.inputs[0].extents((1, 9, 9, 2, 2))[1] for expr in (plain, less, more)]
    assert rows == [18, 17, 19]
    assert operator("batch_matmul_expr", [2, 8, 8, 8]).spatial == 3
    assert operator("reduce_expr3", [2, 3, 4, 5]).sizes[2:] == (4, 5)
    with pytest.raises(ExpressionError, match="integers"):
        operator("relu_expr", [1.5])
    with pytest.raises(ExpressionError, match="at least 1"):
        operator("relu_expr", [0])


@pytest.mark.parametrize("stride", [1, 2])
def test_implicit_matrix_product_is_the_convolution(stride):
    """The three axes of a fused convolution, with div and mod to find the image: same numbers."""
    n, f, ho, wo, c, kh, kw = 2, 3, 4, 5, 3, 3, 2
    rng = np.random.default_rng(0)
    image = rng.integers(-9, 9, (n, c, (ho - 1) * stride + kh, (wo - 1) * stride + kw))
    kernel = rng.integers(-9, 9, (f, c, kh, kw))
    pixel, tap = index((1, mod(at(0), ho * wo))), index((1, mod(at(1), kh * kw)))
    dims = (
        index((1, floordiv(at(0), ho * wo))),
        index((1, floordiv(at(1), kh * kw))),
        index((stride, floordiv(pixel, wo)), (1, floordiv(tap, kw))),
        index((stride, mod(pixel, wo)), (1, mod(tap, kw))),
    )
    fused = operator(f"fused_conv_expr_S{stride}D1P0", [n, f, ho, wo, c, kh, kw])
    points = np.meshgrid(np.arange(fused.sizes[1]), np.arange(fused.sizes[2]), indexing="ij")
    gathered = image[tuple(dim.at(points) for dim in dims)]
    product = kernel.reshape(f, -1) @ gathered.T
    windows = np.lib.stride_tricks.sliding_window_view(image, (kh, kw), axis=(2, 3))
    expected = np.einsum("nchwij,fcij->fnhw", windows[:, :, ::stride, ::stride], kernel)
    assert (product == expected.reshape(f, -1)).all()
    # the footprint of a tile of that gather, against the elements it names
    access = Access(image.shape, 4, dims)
    named = {tuple(int(dim.at((s, r))) for dim in dims) for s in range(7) for r in range(5)}
    assert access.elements((7, 5)) == len(named)
