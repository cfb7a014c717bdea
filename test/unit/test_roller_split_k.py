"""Split-K: the two steps by hand, and when they are taken."""

from dataclasses import replace
from itertools import product
from math import prod

import numpy as np
import pytest
from pinned_devices import h200_by_datasheet
from roller_cases import at, conv, dot_rows, gemm

from rcompiler.device.cpu import cpu_device
from rcompiler.device.record import builtin_device
from rcompiler.device.target import find_device
from rcompiler.roller import split_k
from rcompiler.roller.construct import paced
from rcompiler.roller.expr import ExpressionError
from rcompiler.roller.split_k import partial, parts_of, total

SERVER, LAPTOP = builtin_device("epyc-9555"), builtin_device("zen5-2")


def flat(access, point):
    """Row-major position of the element that `access` touches at `point`."""
    position = 0
    for dim, size in zip(access.dims, access.shape, strict=True):
        position = position * size + dim.at(point)
    return position


def test_the_steps_by_hand():
    expr = gemm(4, 48, 96)
    first, second = partial(expr, 2, 8), total(expr, 8)
    assert [(a.size, a.kind) for a in first.axes] == [
        *((8, "parallel"), (4, "parallel"), (48, "parallel"), (12, "reduction"))
    ]
    assert first.kind == "contraction" and first.outputs[0].shape == (8, 4, 48)
    # part 5, row 3, column 17, step 7: element [3, 67] of A, lane 1 of row 67 of panel 1 of B
    point = (5, 3, 17, 7)
    a, b, _ = first.inputs
    assert flat(a, point) == 3 * 96 + 67 and flat(b, point) == (1 * 96 + 67) * 16 + 1
    assert (second.sizes, second.kind) == ((4, 48, 8), "reduction")
    assert flat(second.inputs[0], (3, 17, 5)) == (5 * 4 + 3) * 48 + 17
    assert first.flops((8, 4, 48)) == 2 * 4 * 48 * 96
    # an addition takes a slot, as a multiply-add does
    assert second.flops((4, 48)) == 4 * 48 * (2 * 8 + expr.epilogue_ops)


@pytest.mark.parametrize(("expr", "axis"), [(gemm(2, 20, 12), 2), (conv(48, 3, 16, 3), 5)])
def test_the_parts_touch_every_element_as_often_as_the_whole(expr, axis):
    parts = 3
    split = partial(expr, axis, parts)
    size = expr.axes[axis].size // parts
    for old, new in zip(expr.inputs[:2], split.inputs[:2], strict=True):
        for point in product(*(range(min(n, 6)) for n in split.sizes)):
            whole = list(point[1:])
            whole[axis] += point[0] * size
            assert flat(new, point) == flat(old, whole)
    assert prod(split.sizes) == prod(expr.sizes)


def test_a_sum_of_parts_is_the_sum():
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((3, 64)), rng.standard_normal((64, 5))
    parts = np.stack([a[:, k : k + 8] @ b[k : k + 8] for k in range(0, 64, 8)])
    np.testing.assert_allclose(parts.sum(axis=0), a @ b, rtol=1e-12)


LONG = {
    "matrix times vector": gemm(1, 64, 8192),
    "few rows": gemm(16, 16, 65536),
    "a few of both": gemm(16, 64, 4096),
    "one pixel": conv(4096, 1, 32, 1),
}


@pytest.mark.parametrize("name", LONG)
def test_few_long_sums_are_split_on_64_cores_and_not_on_two(name):
    expr = LONG[name]
    axis = expr.reduction[0]
    parts = parts_of(expr, axis, SERVER)
    assert parts > 1 and expr.axes[axis].size % parts == 0
    assert prod(expr.axes[r].size for r in expr.reduction) // parts >= 32
    assert parts_of(expr, axis, LAPTOP) == 1

    steps = partial(expr, axis, parts), total(expr, parts)
    apart = sum(makespan(step, SERVER) for step in steps)
    assert apart < 0.8 * makespan(expr, SERVER)


@pytest.mark.parametrize(
    ("expr", "why"),
    [
        (gemm(1024, 1024, 1024), "tiles enough"),
        (gemm(1, 64, 256), "short"),
        (gemm(1, 64, 8191), "a prime number of steps"),
        (gemm(1, 4096, 4096), "bound by DRAM, which some EUs exhaust"),
        (gemm(0, 64, 8192), "no results"),
    ],
)
def test_what_is_left_as_it_is(expr, why):
    assert parts_of(expr, expr.reduction[0], SERVER) == 1, why


SHAPES = [(m, n, k) for m in (16, 784) for n in (32, 512) for k in (128, 1024, 8192)]


@pytest.mark.parametrize(
    "device",
    [h200_by_datasheet(), find_device("cuda:sm_80"), find_device("zen5-2")],
    ids=lambda device: device.name,
)
def test_what_no_parts_can_gain_is_known_before_they_are_tried(device, monkeypatch):
    """The same parts without the bound, which is one of the first step."""
    asked = []
    monkeypatch.setattr(split_k, "_makespan", lambda *a: asked.append(a) or makespan(*a))
    found, steps = [], []
    for bound in (split_k._least_makespan, lambda *_: 0.0):
        monkeypatch.setattr(split_k, "_least_makespan", bound)
        asked.clear()
        found.append([parts_of(gemm(*shape), 2, device) for shape in SHAPES])
        steps.append(len(asked))
    assert found[0] == found[1]
    assert device.is_cpu or steps[0] < steps[1]


def makespan(expr, device):
    return min(ns for _, ns in paced(expr, device, device.eus))


def test_only_reductions_are_split():
    assert parts_of(gemm(16, 16, 65536), 0, SERVER) == 1


def test_the_record_decides_and_nothing_else():
    """More cores never lead to fewer parts here; the same record always to the same."""
    expr = dot_rows(4, 8, 65536)
    found = [parts_of(expr, 2, cpu_device("v4", eus=eus)) for eus in (1, 8, 64)]
    assert found == sorted(found)
    assert parts_of(expr, 2, replace(SERVER, name="other")) == parts_of(expr, 2, SERVER)


def test_an_axis_inside_of_a_division_cannot_be_split():
    with pytest.raises(ExpressionError, match="floordiv or mod"):
        partial(gemm(4, 48, 96), 1, 3)


def test_axes_are_numbered_behind_the_part():
    split = partial(gemm(4, 48, 96), 2, 4)
    assert split.outputs[0].dims == (at(0), at(1), at(2))
