"""The published search as a policy: golden rPrograms on GPUs, legal tiles on CPUs, reasons else."""

import json
import math
from pathlib import Path

import pytest
from roller_cases import CASES, at, conv, depthwise, gemm

from rcompiler.device.cpu import cpu_device
from rcompiler.device.gpu import GPUS
from rcompiler.errors import CompilerError, DeviceError
from rcompiler.roller import osdi22
from rcompiler.roller.construct import construct
from rcompiler.roller.expr import Axis, TensorAccess, index, tensor_expr
from rcompiler.roller.osdi22 import Options, emit
from rcompiler.roller.osdi22.hal import hal_of
from rcompiler.roller.osdi22.implicit import implicit_product
from rcompiler.roller.policy import decisions, shortlist
from rcompiler.roller.published import NoTile, Variant, published

GOLDEN = json.loads((Path(__file__).parents[1] / "Inputs/roller/golden_mi50.json").read_text())
LEVELS = ("v4", "v3", "x86-64")


def of(*families):
    cases = [case for case in GOLDEN if case["op"].startswith(families)]
    return pytest.mark.parametrize("case", cases, ids=lambda c: f"{c['op']}-{c['shape']}")


def matmul(m, n, k):
    axes = [("m", m, "parallel"), ("n", n, "parallel"), ("k", k, "reduction")]
    inputs = [TensorAccess((m, k), 4, (at(0), at(2))), TensorAccess((k, n), 4, (at(2), at(1)))]
    return tensor_expr(axes, inputs, [TensorAccess((m, n), 4, (at(0), at(1)))])


def relu(size):
    access = TensorAccess((size,), 4, (at(0),))
    return tensor_expr([("i", size, "parallel")], [access], [access], ops=1)


def reduce(rows, columns):
    axes = [("r", rows, "parallel"), ("k", columns, "reduction")]
    return tensor_expr(
        axes,
        [TensorAccess((rows, columns), 4, (at(0), at(1)))],
        [TensorAccess((rows,), 4, (at(0),))],
        ops=1,
    )


BUILD = {"matmul_expr": matmul, "relu_expr": relu, "reduce_expr2": reduce}


@of(*BUILD)
def test_a_gpu_decides_as_the_artifact_did(case):
    expr = BUILD[case["op"]](*case["shape"])
    decision = published(expr, GPUS["mi50"], 10)[case["idx"]]
    spatial = len(expr.parallel)
    shared = tuple(min(pair) for pair in zip(case["L0"], case["shape"], strict=True))
    assert decision.tile == shared[:spatial] and decision.reduction_unroll == shared[spatial:]
    assert decision.register_tile == tuple(case["L1"][:spatial])
    assert (decision.source, decision.lanes, decision.vector_dim) == ("osdi22", 1, -1)
    assert f"shared tile {'x'.join(map(str, case['L0']))}" in decision.explanation.note


def nchw_conv(shape, stride):
    n, f, ho, wo, c, kh, kw = shape
    rows, columns = (ho - 1) * stride + kh, (wo - 1) * stride + kw
    names = zip("nfhwcyx", shape, ["parallel"] * 4 + ["reduction"] * 3, strict=True)
    row, column = index((stride, 2), (1, 5)), index((stride, 3), (1, 6))
    inputs = [
        TensorAccess((n, c, rows, columns), 4, (at(0), at(4), row, column)),
        TensorAccess((f, c, kh, kw), 4, (at(1), at(4), at(5), at(6))),
    ]
    return tensor_expr(
        list(names), inputs, [TensorAccess((n, f, ho, wo), 4, tuple(map(at, range(4))))]
    )


@of("fused_conv_expr_S1D1P0", "fused_conv_expr_S2D1P0")
def test_a_convolution_is_searched_as_the_artifact_did(case):
    shape = case["shape"]
    expr = nchw_conv(shape, int(case["op"][-5]))
    product, groups = implicit_product(expr)
    if expr.kind == "convolution" and shape[-1] > 1:
        assert groups == ((1,), (0, 2, 3), (4, 5, 6))
    program = emit(product, hal_of(GPUS["mi50"]))[case["idx"]]
    assert (list(program.shared), list(program.register)) == (case["L0"], case["L1"])


def test_the_axes_of_a_product_by_hand():
    """Blocked: output channels are co/16 and co, pixels n, oh and ow, taps ci/16, kh, kw, ci."""
    product, groups = implicit_product(conv(64, 56, 128, 3, n=2))
    assert product.sizes == (128, 2 * 56 * 56, 64 * 9) and product.spatial == 2
    assert groups == ((1, 4), (0, 2, 3), (5, 6, 7, 8))
    assert implicit_product(depthwise(64, 56)) is None
    assert implicit_product(gemm(8, 16, 32)) is None


def test_a_tile_of_fused_axes_is_a_box_of_whole_rows():
    """By hand: 128 pixels of rows of 56 are 2 rows; 32 channels are 2 blocks of 16."""
    device = cpu_device("v4", eus=2)
    decision = published(conv(64, 56, 64, 3), device)[0]
    expected = emit(implicit_product(conv(64, 56, 64, 3))[0], hal_of(device))[0]
    channels, pixels = expected.shared[:2]
    _, blocks, rows, columns, lanes = decision.tile
    assert lanes == 16 and blocks == max(1, min(channels, 64) // 16)
    assert columns == min(pixels, 56) and rows == max(1, min(pixels // 56, 56))
    assert rows * columns <= pixels


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("name", CASES)
def test_every_tile_on_a_cpu_is_legal(name, level):
    device, expr = cpu_device(level, eus=2), CASES[name]
    for decision in decisions(expr, device, "osdi22"):
        sizes = [expr.axes[p].size for p in expr.parallel]
        grid = tuple(math.ceil(max(n, 1) / t) for n, t in zip(sizes, decision.tile, strict=True))
        assert decision.grid == grid and decision.tasks == math.prod(grid)
        assert all(1 <= t <= max(1, n) for n, t in zip(sizes, decision.tile, strict=True))
        assert decision.estimated_ns > 0
        if decision.vector_dim >= 0:
            assert decision.register_tile[decision.vector_dim] % decision.lanes == 0
        if decision.source == "osdi22":
            assert decision.registers <= device.vector_registers
            assert decision.reduction_tile == ()


def test_padded_axes_are_cut_as_the_cost_model_cuts_them():
    """Rows of 30 pixels become rows of 32, and an image of 30 rows one of 32."""
    axes = [Axis("r", 30, "parallel", 2), Axis("c", 30, "parallel", 2), Axis("l", 16, "parallel")]
    access = TensorAccess((30, 30, 16), 4, tuple(map(at, range(3))))
    expr = tensor_expr(axes, [access, access], [access], ops=1)
    device = cpu_device("v4", eus=2)
    [decision] = published(expr, device)
    for axis, tile, step in zip(expr.axes, decision.tile, decision.register_tile, strict=True):
        assert tile == axis.extent or (tile < axis.size and axis.divisible(step))
    assert decision.grid == tuple(
        -(-axis.extent // tile) for axis, tile in zip(expr.axes, decision.tile, strict=True)
    )


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("elementwise_small", "no tile of it is aligned and fits"),
        ("embedding", "no tile of it is aligned and fits"),
        ("empty", "axis d1 is empty"),
    ],
)
def test_what_it_cannot_express_is_decided_by_the_model_and_says_so(name, reason):
    device, expr = cpu_device("v4", eus=2), CASES[name]
    with pytest.raises(NoTile, match=reason):
        published(expr, device)
    found = decisions(expr, device, "osdi22")
    assert found == construct(expr, device)
    assert all(f"published search: {reason}" in d.reason for d in found)
    assert {d.source for d in found} == {"roller"}


def test_loops_with_state_are_not_searched():
    access = TensorAccess((100,), 4, None)
    expr = tensor_expr([("i", 100, "parallel")], [access], [access], kind="sequential")
    with pytest.raises(NoTile, match="depend on each other"):
        published(expr, cpu_device("v4"))


def test_ten_are_measured_and_the_first_is_decided():
    device, expr = cpu_device("v4", eus=2), CASES["gemm"]
    best, decided = shortlist(expr, device, 10, "osdi22")
    assert best == published(expr, device, 10) and len(best) == 10
    assert decided == best[:1] == decisions(expr, device, "osdi22")
    assert decisions(expr, device) == construct(expr, device)
    with pytest.raises(CompilerError, match="'best' is none of roller, osdi22"):
        decisions(expr, device, "best")


def test_a_budget_of_eus_needs_less_shrinking():
    device, expr = GPUS["v100"], matmul(128, 1000, 4032)
    whole, eight = (published(expr, device, eus=eus)[0] for eus in (None, 8))
    assert whole.tasks >= 80 > eight.tasks >= 8
    assert decisions(expr, device, "osdi22", 8)[0] == eight


def test_what_the_published_runs_leave_out_is_counted():
    """Each variant is a search of its own; padding is what the search itself says."""
    device, expr = GPUS["v100"], matmul(512, 768, 256)
    tiles = {
        variant: published(expr, device, variant=variant)[0].tile
        for variant in (Variant(), Variant("paper"), Variant("paper", pad_banks=True))
    }
    assert len(set(tiles.values())) == 3
    for variant, tile in tiles.items():
        options = Options(score=variant.score, pad_banks=variant.pad_banks)
        assert osdi22.construct(expr, device, options)[0].shared[:2] == tile
    assert decisions(expr, device, "osdi22", variant=Variant("paper"))[0].tile == (64, 48)


def test_fragments_need_a_matrix_unit():
    with pytest.raises(DeviceError, match="v100 has no matrix units that products are written"):
        published(matmul(64, 64, 64), GPUS["v100"], variant=Variant(tensor_core=True))
    expr, fragments = matmul(512, 768, 256), Variant(tensor_core=True)
    # no unit computes these sums: f32, exactly
    assert published(expr, GPUS["h200"], variant=fragments) == published(expr, GPUS["h200"])
