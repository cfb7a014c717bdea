"""Products of f32 whose factors are rounded first, on CPUs: accuracy, bits, memory."""

import warnings

import ml_dtypes
import numpy as np
import pytest
from rounded_products import ALLOWED, operands, product, run
from small_networks import SMALL

import rcompiler
from rcompiler.device.host_flags import LEVEL_FLAGS, host_flags
from rcompiler.errors import OptionalPassWarning
from rcompiler.tools.models import build

HALVES = ("f16", "bf16")
# of the largest value of a whole network's result, with as many layers of it
LOST = {"f16": 4e-3, "bf16": 3e-2}
TARGETS = [
    "cpu",
    *(f"cpu:{level}" for level, needs in LEVEL_FLAGS.items() if needs <= host_flags()),
]


def weighted(rows, steps, columns):
    """The product with its second factor and its bias as constants, and the first one."""
    x, w, b = operands(rows, steps, columns)
    return product(rows, steps, columns), {"w": w, "b": b}, x


def compiled(shape, **options):
    model, values, x = weighted(*shape)
    return rcompiler.compile_onnx(model, values=values, **options), x


@pytest.mark.parametrize("precision", HALVES)
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", ["mlp", "resnet50", "mobilenet_v2", "bert_base", "lstm2"])
def test_networks(name, target, precision):
    model = build(name, **SMALL[name])
    exact = rcompiler.compile_onnx(model, target=target)
    rounded = rcompiler.compile_onnx(model, target=target, precision=precision)
    rng = np.random.default_rng(0)
    arrays = [
        rng.standard_normal(t.shape).astype(t.dtype)
        if t.dtype == "float32"
        else np.ones(t.shape, t.dtype)
        for t in exact.inputs
    ]
    apart = False
    for found, wanted in zip(rounded(*arrays), run(model, arrays), strict=True):
        assert np.abs(found - wanted).max() <= LOST[precision] * np.abs(wanted).max()
        apart |= np.abs(found - wanted).max() > ALLOWED["f32"] * np.abs(wanted).max()
    assert apart  # an option that changes nothing


# Sizes that are no multiple of anything that an instruction or a part has.
@pytest.mark.parametrize("shape", [(1, 9, 8), (17, 8, 9), (33, 100, 41), (130, 1047, 70)])
@pytest.mark.parametrize("precision", HALVES)
@pytest.mark.parametrize("target", TARGETS)
def test_factors_are_rounded_once(target, precision, shape):
    """To nearest, and their sums are those of f32: what numpy computes of rounded factors."""
    model, x = compiled(shape, target=target, precision=precision)
    _, w, b = operands(*shape)
    [found] = model(x)
    kind = np.float16 if precision == "f16" else ml_dtypes.bfloat16
    a, c = (v.astype(kind).astype(np.float64) for v in (x, w))
    wanted = np.maximum(a @ c + b, 0)
    # of f32, with sums of as many steps
    assert np.abs(found - wanted).max() <= 2.0**-24 * shape[1] * np.abs(a).max() * np.abs(c).max()


@pytest.mark.parametrize("shape", [(70, 96, 90), (33, 1536, 80), (5, 74, 40)])
@pytest.mark.parametrize("precision", HALVES)
def test_a_plan_changes_no_bit(precision, shape):
    """Others have other tiles, some of which tile registers compute, and others do not."""
    model, x = compiled(shape, precision=precision, eus=1)
    [plain] = model(x)
    for options in (
        {"eus": 2, "policy": "list"}, {"eus": 3, "kernels": "efficient"}, {"policy": "base"},
        {"roller_policy": "osdi22"}, {"tune": "kernels"}, {"fusion": False, "normalise": False},
    ):  # fmt: skip
        with warnings.catch_warnings():
            warnings.simplefilter("error", OptionalPassWarning)
            other, _ = compiled(shape, precision=precision, **options)
        assert (other(x)[0].view(np.uint32) == plain.view(np.uint32)).all(), options


@pytest.mark.parametrize("precision", HALVES)
@pytest.mark.parametrize("target", TARGETS)
def test_files_hold_weights_of_half_the_size(target, precision, tmp_path):
    sizes = []
    for each in ("f32", precision):
        model, _ = compiled((64, 1024, 1024), target=target, precision=each)
        model.save(tmp_path / f"{each}.rcx")
        sizes.append((tmp_path / f"{each}.rcx").stat().st_size)
    assert sizes[1] <= 0.55 * sizes[0]


def test_a_text_says_its_precision():
    model, _ = compiled((8, 64, 32), precision="bf16", target="cpu:x86-64")
    assert 'precision = "bf16"' in model.stage("rtask")
