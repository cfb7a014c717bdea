"""ConvTranspose with every attribute against numpy, and its sub-pixel plan."""

import math
import sys
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from onnx import helper

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))

from naive_linalg import Runner

from rcompiler.frontend import import_onnx
from rcompiler.frontend.subpixel import plan_axis

SEED = 11


@pytest.fixture(scope="module")
def runner():
    made = Runner()
    yield made
    made.close()


def translate(x, w, bias, fixed, **attributes):
    arrays = {"x": x, "w": w} | ({} if bias is None else {"b": bias})
    kind = helper.np_dtype_to_tensor_dtype(x.dtype)
    infos = [helper.make_tensor_value_info(n, kind, a.shape) for n, a in arrays.items()]
    out = helper.make_empty_tensor_value_info("y")
    out.type.tensor_type.elem_type = kind
    node = helper.make_node("ConvTranspose", list(arrays), ["y"], **attributes)
    model = helper.make_model(
        helper.make_graph([node], "g", infos, [out]),
        opset_imports=[helper.make_opsetid("", 21)],
    )
    values = {n: a for n, a in arrays.items() if n != "x"} if fixed else {}
    feeds = [a for n, a in arrays.items() if n not in values]
    return import_onnx(model, values=values), feeds


def scattered(x, w, bias, strides, dilations, pads, extra, groups):
    """The definition: every input pixel adds its multiple of the kernel; float64."""
    rank = x.ndim - 2
    ci, co = x.shape[1] // groups, w.shape[1]
    full = [
        (d - 1) * s + e + (k - 1) * g + 1
        for d, s, e, k, g in zip(x.shape[2:], strides, extra, w.shape[2:], dilations, strict=True)
    ]
    y = np.zeros((x.shape[0], groups * co, *full))
    for at, tap in product(np.ndindex(*x.shape[2:]), np.ndindex(*w.shape[2:])):
        where = tuple(i * s + k * d for i, s, k, d in zip(at, strides, tap, dilations, strict=True))
        for g in range(groups):
            pixel = x[(slice(None), slice(g * ci, (g + 1) * ci), *at)].astype(np.float64)
            kernel = w[(slice(g * ci, (g + 1) * ci), slice(None), *tap)].astype(np.float64)
            y[(slice(None), slice(g * co, (g + 1) * co), *where)] += pixel @ kernel
    if bias is not None:
        y += bias.reshape(-1, *[1] * rank)
    cut = [slice(a, f - b) for a, b, f in zip(pads[:rank], pads[rank:], full, strict=True)]
    return y[(slice(None), slice(None), *cut)]


def random_case(rng):
    rank = int(rng.choice([1, 2, 2, 2, 3]))
    groups = int(rng.choice([1, 1, 2, 3]))
    limit = 3 if rank == 3 else 5
    size, kernel = rng.integers(1, limit + 1, rank), rng.integers(1, limit + 1, rank)
    strides, dilations = rng.integers(1, 5, rank), rng.choice([1, 1, 2, 3], rank)
    extra = [int(rng.integers(0, max(s, d))) for s, d in zip(strides, dilations, strict=True)]
    full = (size - 1) * strides + extra + (kernel - 1) * dilations + 1
    low = [int(rng.integers(0, f)) for f in full]
    high = [int(rng.integers(0, f - a)) for f, a in zip(full, low, strict=True)]
    ci, co = (int(n) for n in rng.integers(1, 4, 2))
    batch = int(rng.integers(1, 3))
    x = rng.standard_normal((batch, groups * ci, *size)).astype(np.float32)
    w = rng.standard_normal((groups * ci, co, *kernel)).astype(np.float32)
    bias = rng.standard_normal(groups * co).astype(np.float32) if rng.random() < 0.5 else None
    window = {
        "strides": strides.tolist(),
        "dilations": dilations.tolist(),
        "pads": low + high,
        "output_padding": extra,
    }
    return x, w, bias, window, groups


@pytest.mark.parametrize("number", range(40))
def test_any_attributes(runner, number):
    rng = np.random.default_rng([SEED, number])
    x, w, bias, window, groups = random_case(rng)
    got, feeds = translate(x, w, bias, bool(rng.random() < 0.5), group=groups, **window)
    result = runner.run(got.module_text, got.constants, feeds)[0]
    order = (*(window[n] for n in ("strides", "dilations", "pads", "output_padding")), groups)
    want = scattered(x, w, bias, *order)
    terms = w.shape[0] // groups * math.prod(w.shape[2:]) + 1
    bound = scattered(abs(x), abs(w), None if bias is None else abs(bias), *order)
    assert result.shape == want.shape
    assert (abs(result - want) <= terms * 2.0**-24 * bound).all()


def test_pixels_that_are_not_read_do_not_matter(runner):
    """An infinity reaches the nine outputs of its pixel only, not its neighbours by zero taps."""
    x, w = np.ones((1, 1, 3, 3), np.float32), np.ones((1, 1, 3, 3), np.float32)
    x[0, 0, 1, 1] = np.inf
    got, feeds = translate(x, w, None, True, strides=[2, 2])
    result = runner.run(got.module_text, got.constants, feeds)[0]
    assert np.isinf(result[0, 0, 2:5, 2:5]).all()
    assert np.isfinite(result).sum() == 49 - 9


def test_a_kernel_as_large_as_the_stride_is_one_contraction():
    x, w = np.ones((1, 4, 5, 5), np.float32), np.ones((4, 3, 2, 2), np.float32)
    got, _ = translate(x, w, None, True, strides=[2, 2])
    text = got.module_text
    assert text.count("linalg.generic") == 1
    assert not any(name in text for name in ("tensor.pad", "concat", "insert_slice", "extract"))


@pytest.mark.parametrize("kernel", range(1, 7))
@pytest.mark.parametrize("stride", range(1, 5))
def test_the_plan_reads_every_tap_of_an_output_once(kernel, stride):
    for pad, size, dilation in product(range(4), (1, 5, 8), (1, 2)):
        if stride > 1 and dilation > 1:
            continue
        axis = plan_axis(kernel, stride, dilation, pad, size)
        assert len(axis.runs) == 1 if kernel % stride == 0 else len(axis.runs) == 2
        assert not (pad % stride == 0 and axis.origin)
        low, high = axis.reach
        found = {}
        for block in range(axis.blocks):
            phase = 0
            for run in axis.runs:
                for own in range(run.phases):
                    output = block * stride + phase - axis.origin
                    taps = [run.first + own + t * stride for t in range(run.taps)]
                    pixels = [run.start + block + t * dilation for t in range(run.taps)]
                    assert all(low <= i <= high for i in pixels)
                    found[output] = set(zip(reversed(pixels), taps, strict=True))
                    phase += 1
        for output in range(size):
            place = output + pad
            want = {
                ((place - k * dilation) // stride, k)
                for k in range(kernel)
                if (place - k * dilation) % stride == 0
            }
            assert found[output] == want
