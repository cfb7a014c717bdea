"""Register tiles: the proven ones where they are known, their registers and their cycles."""

from dataclasses import replace

import pytest
from roller_cases import (
    CASES,
    conv,
    depthwise,
    elementwise,
    first,
    first_conv,
    gemm,
    softmax,
    vectors,
)

from rcompiler.device.cpu import cpu_device
from rcompiler.device.host_flags import V4
from rcompiler.roller.expr import TensorAccess, index, tensor_expr
from rcompiler.roller.register import RegisterModel
from rcompiler.roller.vectors import choose_vector_axis


def test_narrow_remainders_take_passes_of_their_own():
    """Of 14 columns vectors of 8, 4 and 2; of 30 one of 16 besides. 24 and 32 take none."""
    device = cpu_device("v4")

    def cycles(columns: int) -> float:
        at_row, at_column, at_depth = (index((1, axis)) for axis in range(3))
        expr = tensor_expr(
            [("m", 8, "parallel"), ("n", columns, "parallel"), ("k", 64, "reduction")],
            [
                TensorAccess((8, 64), 4, (at_row, at_depth)),
                TensorAccess((64, columns), 4, (at_depth, at_column)),
            ],
            [TensorAccess((8, columns), 4, (at_row, at_column))],
        )
        model = RegisterModel(expr, device, choose_vector_axis(expr, device))
        return model.total(model.tile((8, 16)))

    assert cycles(14) == pytest.approx(3 * cycles(16))
    assert cycles(30) == pytest.approx(2 * cycles(32))
    assert cycles(24) == cycles(32) == pytest.approx(2 * cycles(16))


def test_plain_convolutions_unroll_output_channels():
    decision = first(CASES["plain_conv"], "v4")
    assert decision.vector_dim == 2  # columns are contiguous, channels are not
    assert vectors(decision) >= 8


@pytest.mark.parametrize(
    ("level", "tiles"),
    [
        ("v4", {(13, 32), (12, 32), (11, 32), (8, 48), (8, 32), (6, 64)}),
        ("v3", {(4, 24), (6, 16), (3, 32)}),
        ("x86-64", {(2, 16), (4, 8)}),
    ],
)
@pytest.mark.parametrize("shape", [(128, 768, 768), (1024, 1024, 1024), (256, 256, 256)])
def test_matrix_products_take_proven_register_tiles(level, tiles, shape):
    decision = first(gemm(*shape), level)
    assert decision.register_tile in tiles
    assert decision.vector_dim == 1
    assert vectors(decision) >= 8
    # the weight panel is the outer loop
    assert decision.order == (1, 0)
    if shape[2] == 1024:  # rows of 4 KiB lie in one set of 8 ways
        assert decision.register_tile[0] <= 8


def test_the_register_rule():
    """MR*NV accumulators, NV vectors, the broadcast of the step and 3 that LLVM loads ahead."""
    device = cpu_device("v4")
    expr = gemm(1024, 1024, 1024)
    model = RegisterModel(expr, device, choose_vector_axis(expr, device))
    for mr, nv in ((13, 2), (12, 2), (8, 3), (6, 4)):
        tile = model.tile((mr, 16 * nv))
        assert tile.registers == mr * nv + min(mr, nv) + 4
        assert tile.loads == mr + nv
        assert tile.accumulators == tile.macs == mr * nv
    assert all(t.registers <= 32 for t in model.candidates())
    assert (14, 32) not in [t.sizes for t in model.candidates()]  # 34 registers spill


def test_registers_of_products_that_are_not_fused():
    """Two of them on their way, besides what the fused ones need."""
    expr = gemm(1024, 1024, 1024)
    for level, sizes, registers in (("v3", (3, 24), 9 + 3 + 1), ("x86-64", (3, 12), 9 + 3 + 3)):
        device = cpu_device(level)
        model = RegisterModel(expr, device, choose_vector_axis(expr, device))
        assert model.tile(sizes).registers == registers


def step_cycles(level: str, sizes: tuple[int, int]) -> float:
    """Of a matrix product whose operands stay in the first cache: without what each tile costs."""
    device, cycles = cpu_device(level), []
    for depth in (64, 128):
        expr = gemm(1024, 1024, depth)
        model = RegisterModel(expr, device, choose_vector_axis(expr, device))
        cycles.append(model.tile(sizes).cycles)
    return (cycles[1] - cycles[0]) / 64


@pytest.mark.parametrize(
    ("level", "sizes", "bounds"),  # arithmetic, loads and latency of a step, issue of 6 per cycle
    [
        ("v3", (4, 24), (6, 3.5, 4, 19 / 6)),
        ("v3", (4, 16), (4, 3, 4, 14 / 6)),  # just hides the latency: slower than either bound
        ("v3", (2, 8), (1, 1.5, 4, 5 / 6)),
        ("v4", (24, 16), (12, 12.5, 4, 49 / 6)),
        ("x86-64", (2, 16), (5, 3, 4, 16 / 6)),  # two broadcasts are shuffled
        ("x86-64", (4, 8), (6, 3, 4, 18 / 6)),
    ],
)
def test_bounds_that_are_close_add_up(level, sizes, bounds):
    # what a tile costs besides, which is close to no bound, is not quite the same at both depths
    assert step_cycles(level, sizes) == pytest.approx(sum(b**5 for b in bounds) ** 0.2, rel=1e-4)


def test_dot_groups_are_multiply_adds_of_words():
    """256 steps of bytes are 64 of words: as an f32 product of that depth with the instruction,
    4 / 1.5 operations a word without; both halves of words are in registers then.
    """
    words = replace(gemm(128, 256, 64), dot="i8", ops=8.0)
    tiles = []
    for device in (cpu_device("v4", features=V4 | {"avx512vnni"}), cpu_device("v4")):
        model = RegisterModel(words, device, choose_vector_axis(words, device))
        tiles.append(model.tile((4, 32)))
    plain = RegisterModel(gemm(128, 256, 64), device, choose_vector_axis(words, device))
    assert tiles[0] == plain.tile((4, 32))
    assert tiles[1].macs == pytest.approx(tiles[0].macs * 4 / 1.5)
    assert tiles[1].registers == 8 + 2 * 2 + 3


def test_pairs_of_16_bits_need_registers_for_their_products():
    """Two beside those of f32, or LLVM spills sums."""
    device = cpu_device("v3")
    pairs = replace(gemm(128, 256, 64), dot="i16", ops=4.0)
    models = [
        RegisterModel(e, device, choose_vector_axis(e, device)) for e in (pairs, gemm(128, 256, 64))
    ]
    ours, plain = (model.tile((5, 16)) for model in models)
    assert ours.registers == plain.registers + 2 == 15
    assert ours.macs == pytest.approx(plain.macs * 2 / 1.5)


def test_a_vector_times_a_matrix_hides_the_latency_with_vectors():
    decision = first(gemm(1, 256, 256), "v4")
    assert 6 <= vectors(decision) <= 8


@pytest.mark.parametrize("expr", [conv(64, 56, 64, 3), conv(128, 28, 128, 3)])
def test_convolutions_take_a_strip_of_pixels(expr):
    decision = first(expr, "v4")
    assert decision.register_tile in [(1, 2, 1, pixels, 16) for pixels in (7, 8, 10, 12)]
    assert decision.vector_dim == 4
    assert decision.order.index(1) < decision.order.index(2) < decision.order.index(3)


def test_small_images_keep_their_rows_whole():
    decision = first(conv(512, 7, 512, 3), "v4")
    assert decision.register_tile[3] == 7
    assert vectors(decision) >= 8


def test_strided_first_layer_takes_few_pixels():
    decision = first(first_conv(), "v4")
    assert decision.register_tile[2] in (7, 8)
    assert decision.register_tile[0] == 2
    assert decision.reduction_unroll == (1, 1, 7)  # taps share their broadcasts


@pytest.mark.parametrize("pool", [False, True])
def test_depthwise_and_pooling_unroll_the_window(pool):
    decision = first(depthwise(64, 56, pool=pool), "v4")
    assert decision.register_tile in ((1, 1, 7, 16), (1, 1, 8, 16))
    assert decision.reduction_unroll == (3, 3)


def test_elementwise_unrolls_four_vectors():
    decision = first(elementwise(1 << 20), "v4")
    assert decision.register_tile == (64,) and decision.lanes == 16
    assert 16 <= decision.tasks <= 128


def test_stores_stay_whole_where_loads_can_be_turned():
    """Bytes [14, 3136] of channels in blocks of 16, [14, 3136, 16], to channels outside and back:
    vectors run along the rows that are stored, 16 of them in a tile.
    """
    block, row, lane = (index((1, k)) for k in range(3))
    blocked = TensorAccess((14, 3136, 16), 1, (block, row, lane))
    plain = TensorAccess((14, 16, 3136), 1, (block, lane, row))
    axes = [("b", 14, "parallel"), ("p", 3136, "parallel"), ("l", 16, "parallel")]
    for source, result, dim, tile in (
        (plain, blocked, 2, (1, 16, 16)),
        (blocked, plain, 1, (1, 64, 16)),
    ):
        decision = first(tensor_expr(axes, [source], [result], kind="movement", ops=0.0), "v4")
        assert (decision.vector_dim, decision.register_tile) == (dim, tile)


def test_rows_are_vectorised_along_the_reduction():
    decision = first(softmax(1536, 128), "v4")
    assert decision.vector_dim == -1 and decision.vector_reduction == 0
    assert decision.tile[0] > 1  # several rows per task


def test_lanes_that_are_gathered_take_one_register():
    """Every other byte, 17 of them: one vector of 32 lanes, though it takes 17 loads."""
    device = cpu_device("v3")
    expr = tensor_expr(
        [("n", 17, "parallel")],
        [TensorAccess((100,), 1, (index((2, 0)),)), TensorAccess((100,), 1, (index((3, 0)),))],
        [TensorAccess((17,), 1, (index((1, 0)),))],
    )
    tile = RegisterModel(expr, device, choose_vector_axis(expr, device)).tile((32,))
    assert tile.loads == 2 * 17
    assert tile.registers <= 4
