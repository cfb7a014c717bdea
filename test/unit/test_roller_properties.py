"""What holds for every tile that any policy emits, on random expressions (Roller §3.1, §3.2)."""

import math
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from roller_cases import CASES, at, conv, elementwise, gemm, transpose

from rcompiler.device.cpu import cpu_device
from rcompiler.device.gpu import GPUS
from rcompiler.device.record import builtin_device
from rcompiler.roller.expr import TensorAccess, floordiv, index, mod, tensor_expr
from rcompiler.roller.policy import POLICIES, decisions
from rcompiler.roller.ranking import ranked, sampled
from rcompiler.roller.rtile import line_unit, splits

DEVICES = {
    **{level: cpu_device(level, eus=2) for level in ("v4", "v3", "x86-64")},
    "64 cores": builtin_device("epyc-9555"),
    "mi50": GPUS["mi50"],
}
SIZES = st.one_of(st.integers(1, 40), st.sampled_from([1, 7, 16, 49, 64]))


@st.composite
def expressions(draw):
    """Products, convolutions, reductions, elementwise and packed ones of any small shape."""
    kind = draw(st.sampled_from(["gemm", "conv", "elementwise", "transpose", "reduce"]))
    a, b, c = (draw(SIZES) for _ in range(3))
    if kind == "gemm":
        return gemm(a, b, c)
    if kind == "conv":
        channels = st.integers(1, 3).map(lambda n: 16 * n)
        stride = draw(st.sampled_from([1, 2]))
        return conv(draw(channels), min(a, 12), draw(channels), draw(st.integers(1, 3)), stride)
    if kind == "elementwise":
        return elementwise(*(a, b, c)[: draw(st.integers(1, 3))])
    if kind == "transpose":
        return transpose(a, b)
    axes = [("r", a, "parallel"), ("p", b, "parallel"), ("k", c, "reduction")]
    packed = (index((1, floordiv(at(1), 8))), at(2), at(0), index((1, mod(at(1), 8))))
    image = TensorAccess((-(-b // 8), c, a, 8), 4, packed)
    return tensor_expr(axes, [image], [TensorAccess((a, b), 4, (at(0), at(1)))], ops=1)


def check_cover(expr, decision):
    """Every point of the parallel axes lies in the tile of exactly one task."""
    sizes = [expr.axes[p].size for p in expr.parallel]
    written = np.zeros(sizes, np.int64)
    for task in product(*map(range, decision.grid)):
        box = tuple(slice(g * t, (g + 1) * t) for g, t in zip(task, decision.tile, strict=True))
        assert written[box].size  # no task is empty
        written[box] += 1
    assert (written == 1).all()


@settings(max_examples=150)
@given(expressions(), st.sampled_from(list(DEVICES)), st.sampled_from(POLICIES))
def test_every_tiling_covers_each_result_once(expr, name, policy):
    for decision in decisions(expr, DEVICES[name], policy):
        check_cover(expr, decision)


@settings(max_examples=40)
@given(expressions(), st.sampled_from(["v4", "v3", "x86-64"]), st.integers(0, 9))
def test_every_candidate_covers_each_result_once(expr, name, seed):
    for decision in [*ranked(expr, DEVICES[name], 5), *sampled(expr, DEVICES[name], 5, seed)]:
        check_cover(expr, decision)


def check_alignments(expr, device, decision):
    """The four alignments of a tile that the model chose (rtile.py)."""
    sizes = [max(1, expr.axes[p].size) for p in expr.parallel]
    registers = decision.register_tile
    # execution unit: whole vectors, which fit the registers
    if decision.vector_dim >= 0:
        assert registers[decision.vector_dim] % decision.lanes == 0
    assert decision.registers <= device.vector_registers
    for position, (size, tile) in enumerate(zip(sizes, decision.tile, strict=True)):
        unit = registers[position]
        if position == decision.vector_dim:
            # memory transaction: rows of whole lines, or the whole row
            itemsize = min(access.itemsize for access in expr.outputs)
            unit = line_unit(unit, device.memory[0].line, itemsize)
        assert tile == size or tile % unit == 0
        # tensor shape: near-equal parts, no tile is larger than their number asks for
        parts = math.ceil(size / tile)
        assert tile == size or tile - unit < math.ceil(size / parts)
        assert tile in splits(size, unit, 256)
    why = decision.explanation.alignment
    assert 0 < why.lanes <= 1 and why.waste >= 0 and 1 <= why.rows_per_set


@settings(max_examples=150)
@given(expressions(), st.sampled_from(["v4", "v3", "x86-64", "64 cores"]))
def test_every_tile_of_the_model_is_aligned(expr, name):
    for decision in decisions(expr, DEVICES[name]):
        check_alignments(expr, DEVICES[name], decision)


@pytest.mark.parametrize("name", ["v4", "v3", "x86-64", "64 cores"])
@pytest.mark.parametrize("case", CASES)
def test_every_tile_of_real_operators_is_aligned(case, name):
    expr, device = CASES[case], DEVICES[name]
    found = [*decisions(expr, device), *ranked(expr, device, 10), *sampled(expr, device, 10)]
    for decision in found:
        check_alignments(expr, device, decision)
