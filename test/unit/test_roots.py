"""The choice among the roots of a 3x3 convolution."""

import pytest

from rcompiler.device.cpu import cpu_device
from rcompiler.roller.construct import construct
from rcompiler.roller.expr import TensorExpr
from rcompiler.roller.roots import (
    DIRECT,
    ROOTS,
    Convolution3x3,
    RootChooser,
    is_cold,
    operators,
)

CPU = cpu_device("v4", 1)
MIDDLE = Convolution3x3(1, 1, 128, 128, 28, 28)
SMALL_IMAGE = Convolution3x3(1, 1, 512, 512, 7, 7)


def products(root: str, convolution: Convolution3x3) -> TensorExpr:
    [found] = [e for e in operators(convolution, root, 16) if e.kind != "transform"]
    return found


@pytest.mark.parametrize("root", ROOTS)
def test_operators_of_a_root(root):
    steps = operators(MIDDLE, root, 16)
    kinds = [e.kind for e in steps]
    transformed = ["transform", "contraction", "transform"]
    assert kinds == (["convolution"] if root == DIRECT else transformed)
    for made, read in zip(steps, steps[1:], strict=False):
        assert read.inputs[0].shape == made.outputs[0].shape


def test_winograd_needs_fewer_products():
    """28 = 7 tiles of 4 and 14 of 2."""
    whole = {root: products(root, MIDDLE) for root in ROOTS}
    count = {root: e.flops(e.sizes[: len(e.parallel)]) for root, e in whole.items()}
    epilogue = 4 * 128 * 28 * 28  # bias and ReLU, a slot each
    assert count[DIRECT] - epilogue == 2 * 128 * 128 * 28 * 28 * 9
    assert count["winograd2"] == 2 * 128 * 128 * 14 * 14 * 16
    assert count["winograd4"] == 2 * 128 * 128 * 7 * 7 * 36


def test_tiles_and_channels_are_rounded_up():
    e = products("winograd4", Convolution3x3(2, 1, 20, 24, 13, 14))
    assert e.inputs[0].shape == (2, 1, 2, 4, 6, 6, 4, 16)
    assert e.outputs[0].shape == (2, 1, 2, 4, 6, 6, 4, 16)


def test_a_large_image_takes_the_largest_tiles():
    choice = RootChooser(CPU, cold=False).choose(MIDDLE)
    assert choice.root == "winograd4"
    assert choice.ns["winograd4"] < choice.ns["winograd2"] < choice.ns[DIRECT]
    assert choice.reason.startswith("winograd4 of: direct ")


def test_weights_from_memory_take_smaller_tiles():
    """7x7 pixels of 512 channels: F(4x4) would load 38 MB for 4 tiles."""
    assert RootChooser(CPU, cold=True).choose(SMALL_IMAGE).root != "winograd4"
    warm, cold = (RootChooser(CPU, cold=c).ns(SMALL_IMAGE, "winograd2") for c in (False, True))
    assert warm < cold


def test_only_allowed_roots_are_chosen():
    chooser = RootChooser(CPU, cold=False)
    assert chooser.choose(MIDDLE, [DIRECT]).root == DIRECT
    assert set(chooser.choose(MIDDLE, [DIRECT, "winograd2"]).ns) == {DIRECT, "winograd2"}


def test_a_small_gain_is_none():
    """One tile of 16 channels: nothing to win."""
    assert RootChooser(CPU, cold=False).choose(Convolution3x3(1, 1, 16, 16, 3, 3)).root == DIRECT


def test_weights_are_cold_when_they_exceed_the_last_cache():
    last = CPU.memory[-2].capacity
    assert not is_cold(CPU, last // 2)
    assert is_cold(CPU, last)


@pytest.mark.parametrize("size", [28, 13, 3])
def test_register_tiles_of_transforms_are_whole_periods(size):
    into, _, out_of = operators(Convolution3x3(1, 1, 32, 32, size, size), "winograd4", 16)
    first, last = (construct(e, CPU)[0] for e in (into, out_of))
    assert first.register_tile == (1, 1, 1, 1, 6, 6, 1, 16)
    assert last.register_tile == (1, 1, 1, min(4, size), min(4, size), 16)
    for decision in (*construct(into, CPU), *construct(out_of, CPU)):
        sizes = zip(decision.tile, decision.register_tile, decision.grid, strict=True)
        assert all(tile % register == 0 or grid == 1 for tile, register, grid in sizes)


def test_axes_that_every_point_reads_whole_are_no_loops():
    into = operators(MIDDLE, "winograd2", 16)[0]
    assert [into.axes[a].kind for a in (8, 9)] == ["whole", "whole"]
    assert into.reduction == ()
    one_tile = into.footprint((1, 1, 1, 1, 4, 4, 1, 16))
    assert one_tile == (4 * 4 * 16 * 4, 4 * 4 * 16 * 4)


def test_many_eus_wait_longer_for_weights():
    """All EUs of a machine share its memory; the EU time of what is bound by it grows."""
    few, many = (RootChooser(cpu_device("v4", eus), cold=True) for eus in (1, 8))
    assert few.ns(MIDDLE, DIRECT) == pytest.approx(many.ns(MIDDLE, DIRECT), rel=0.05)
    assert many.ns(SMALL_IMAGE, "winograd4") > 1.1 * few.ns(SMALL_IMAGE, "winograd4")
