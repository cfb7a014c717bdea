"""Mod with fmod of floats: numpy's bits on every level and under every plan."""

import numpy as np
import pytest
from onnx import helper

import rcompiler


def model(x, y):
    kinds = [helper.np_dtype_to_tensor_dtype(a.dtype) for a in (x, y)]
    ports = [
        helper.make_tensor_value_info(name, kind, a.shape)
        for name, kind, a in zip("xy", kinds, (x, y), strict=True)
    ]
    out = helper.make_tensor_value_info("z", kinds[0], None)
    node = helper.make_node("Mod", ["x", "y"], ["z"], fmod=1)
    graph = helper.make_graph([node], "g", ports, [out])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)


def check(x, y, **options):
    z = rcompiler.compile_onnx(model(x, y), cache=False, **{"eus": 1, **options})(x, y)[0]
    with np.errstate(all="ignore"):
        exact = np.fmod(x, y)
    none = np.isnan(exact)
    np.testing.assert_array_equal(np.isnan(z), none)
    bits = f"uint{8 * x.itemsize}"
    np.testing.assert_array_equal(z[~none].view(bits), exact[~none].view(bits))


def operands(shape, dtype=np.float32):
    """Of quotients up to 2^40, with infinities, NaNs and zeros."""
    rng = np.random.default_rng(5)
    x = (rng.standard_normal(shape) * 2.0 ** rng.integers(0, 40, shape)).astype(np.float32)
    y = rng.standard_normal(shape).astype(np.float32)
    for a, step in ((x, 101), (y, 97)):
        for k, number in enumerate((0.0, -0.0, np.inf, -np.inf, np.nan)):
            a.reshape(-1)[7 * k :: 5 * step] = number
    if dtype == np.float16:
        x = np.clip(x, -6e4, 6e4)
    return x.astype(dtype), y.astype(dtype)


@pytest.mark.parametrize("target", ["cpu", "cpu:v3", "cpu:x86-64", "cuda:emulated"])
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_targets_and_types(target, dtype):
    eus = None if target.startswith("cuda") else 1
    check(*operands((37, 91), dtype), target=target, eus=eus)


@pytest.mark.parametrize("policy", ["rammer", "list", "base"])
def test_plans(policy):
    check(*operands((300, 401)), eus=2, policy=policy)


@pytest.mark.parametrize("shape", [(91,), (37, 1), (1,)])
def test_a_divisor_for_many(shape):
    x, _ = operands((37, 91))
    check(x, np.linspace(0.1, 9, max(shape)).astype(np.float32).reshape(shape))
