"""rtask-winograd and fold_constants keep the numbers of convolutions, within the error bound."""

import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch_mlir import ir

from rcompiler.frontend.builder import Builder
from rcompiler.passes import _pipeline_text
from rcompiler.passes.constants.fold import fold_constants
from rcompiler.roller.winograd import filtering
from rcompiler.runtime.deferred import whole

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))
from naive_linalg import Runner  # noqa: E402

RUN = Runner()
EPS = float(np.finfo(np.float32).eps)
DEVICE = Path(__file__).parents[1] / "Inputs" / "v4-2.json"


def build(x_shape, w, pads=(1, 1, 1, 1), groups=1, start=0.0):
    """The text and the constants of a convolution of x with constant weights."""
    b = Builder()
    x = b.argument("x", x_shape, "float32")
    y = b.conv(x, b.constant(w), [1, 1], [1, 1], list(pads), groups, pad_number=start)
    return b.module([("y", y)]), b.constants


def rewrite(text, constants, root, lanes=4, fold=True):
    passes = (
        f"vdevice-attach-device{{device={DEVICE}}},rtask-block-channels{{lanes={lanes}}},"
        f"rtask-winograd{{roots={root}}},cse"
    )
    with ir.Context() as context:
        module = ir.Module.parse(text)
        _pipeline_text.build(passes, context).run(module.operation)
        arrays = fold_constants(module.operation, constants) if fold else constants
        assert module.operation.verify()
        return str(module), {key: whole(array) for key, array in arrays.items()}


def normal(*shape):
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


def check(x_shape, w, root, **options):
    text, constants = build(x_shape, w, **options)
    made, arrays = rewrite(text, constants, root)
    assert f"{root}, as demanded" in made
    x = normal(*x_shape)
    [expected], [found] = RUN.run(text, constants, [x]), RUN.run(made, arrays, [x])
    growth = float(filtering(int(root[-1])).growth) ** 2
    channels = w.shape[1]
    terms = 9 * channels * abs(w).max() * max(abs(x).max(), options.get("start", 0.0))
    assert np.isfinite(found).all()
    assert abs(found - expected).max() <= EPS * (channels + 32) * growth * terms
    # the bound is that of the worst case: what is met is far smaller
    assert np.sqrt(np.mean((found - expected) ** 2)) <= 8 * EPS * np.sqrt(np.mean(expected**2))


@pytest.mark.parametrize("root", ["winograd2", "winograd4"])
@given(data=st.data())
@settings(
    max_examples=6,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow],
)
def test_any_shape(root, data):
    images, groups = data.draw(st.integers(1, 2)), data.draw(st.sampled_from([1, 1, 2]))
    # groups are blocked where their channels are a multiple of the lanes
    channels, filters = (data.draw(st.integers(4, 13)) for _ in range(2))
    if groups > 1:
        channels, filters = 4 * (channels // 4), 4 * (filters // 4)
    height, width = (data.draw(st.integers(3, 11)) for _ in range(2))
    pads = [data.draw(st.integers(0, 2)) for _ in range(4)]
    w = normal(groups * filters, channels, 3, 3)
    check((images, groups * channels, height, width), w, root, pads=pads, groups=groups)


def test_padding_that_is_not_zero_stays_in_front():
    check((1, 8, 5, 6), normal(8, 8, 3, 3), "winograd4", start=2.0)


def test_weights_are_rounded_once():
    w = normal(8, 8, 3, 3)
    text, constants = build((1, 8, 6, 6), w)
    _, arrays = rewrite(text, constants, "winograd4")
    g = np.array([[float(x) for x in row] for row in filtering(4).taps])
    exact = np.einsum("ip,jq,ocpq->ijoc", g, g, w.astype(np.float64))
    blocked = exact.reshape(6, 6, 2, 4, 2, 4).transpose(0, 1, 2, 4, 5, 3)
    [found] = [a for a in arrays.values() if a.ndim == 6]
    np.testing.assert_array_equal(found, blocked.astype(np.float32))


def test_without_folding_the_weights_are_transformed_at_run_time():
    text, constants = build((1, 8, 5, 5), normal(8, 8, 3, 3))
    made, arrays = rewrite(text, constants, "winograd2", fold=False)
    assert "arith.truncf" in made
    folded, others = rewrite(text, constants, "winograd2")
    assert "arith.truncf" not in folded
    x = normal(1, 8, 5, 5)
    [a], [b] = RUN.run(made, arrays, [x]), RUN.run(folded, others, [x])
    np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5)
