"""3x3 convolutions of bytes by minimal filtering: the integers of the direct sum, at the limits."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import rcompiler

TYPES = {np.uint8: TensorProto.UINT8, np.int8: TensorProto.INT8}


def model(x: np.ndarray, w: np.ndarray, zero: int) -> onnx.ModelProto:
    """ConvInteger with a border."""
    constants = [
        numpy_helper.from_array(w, "w"),
        numpy_helper.from_array(np.asarray(zero, x.dtype), "zero"),
    ]
    node = helper.make_node("ConvInteger", ["x", "w", "zero"], ["y"], pads=[1] * 4)
    graph = helper.make_graph(
        [node],
        "convolution",
        [helper.make_tensor_value_info("x", TYPES[x.dtype.type], x.shape)],
        [helper.make_tensor_value_info("y", TensorProto.INT32, None)],
        constants,
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def direct(x: np.ndarray, w: np.ndarray, zero: int) -> np.ndarray:
    n, _, height, width = x.shape
    wide = np.pad(x.astype(np.int64) - zero, ((0, 0), (0, 0), (1, 1), (1, 1)))
    total = np.zeros((n, len(w), height, width), np.int64)
    for p in range(3):
        for q in range(3):
            part = wide[:, :, p : p + height, q : q + width]
            total += np.einsum("ncyx,oc->noyx", part, w[:, :, p, q].astype(np.int64))
    return total.astype(np.int32)


def extremes(rng: np.random.Generator, shape: tuple[int, ...], dtype: type) -> np.ndarray:
    limits = np.iinfo(dtype)
    random = rng.integers(limits.min, limits.max + 1, shape)
    chosen = rng.choice([limits.min, limits.max], shape)
    return np.where(rng.random(shape) < 0.2, random, chosen).astype(dtype)


@pytest.mark.parametrize("root", ["direct", "winograd2", "winograd4"])
@pytest.mark.parametrize(
    ("dtype", "zero", "channels", "filters", "size"),
    [
        (np.uint8, 0, 64, 32, (8, 8)),
        (np.uint8, 255, 24, 40, (7, 13)),
        (np.uint8, 128, 100, 16, (5, 6)),
        (np.int8, -128, 32, 16, (9, 8)),
    ],
)
def test_the_sums_are_exact(root, dtype, zero, channels, filters, size):
    rng = np.random.default_rng(channels)
    w = extremes(rng, (filters, channels, 3, 3), np.int8)
    w[0], w[1] = 127, -128  # sums as large as they can be
    x = extremes(rng, (1, channels, *size), dtype)
    x[..., : size[1] // 2] = np.iinfo(dtype).max
    compiled = rcompiler.compile_onnx(model(x, w, zero), target="cpu:v3", eus=1, roots=root)
    assert f'rtask.root = "{root}, as demanded"' in compiled.stage("rtask")
    assert np.array_equal(compiled(x)[0], direct(x, w, zero))


@pytest.mark.parametrize(
    ("root", "value", "used"),
    [
        ("winograd4", 127, "direct"),  # 64 sums of 255 x 127 x 9 x 128 leave 32 bits
        ("winograd2", 127, "winograd2"),
        ("winograd4", 100, "winograd4"),
    ],
)
def test_weights_tell_whether_a_root_is_exact(root, value, used):
    w = np.full((16, 128, 3, 3), value, np.int8)
    w[0, 0, 0, 0] = 0
    x = np.full((1, 128, 6, 6), 255, np.uint8)
    compiled = rcompiler.compile_onnx(model(x, w, 0), target="cpu:v3", eus=1, roots=root)
    assert f'rtask.root = "{used}' in compiled.stage("rtask")
    assert np.array_equal(compiled(x)[0], direct(x, w, 0))


def test_weights_without_a_sign():
    """They are signed ones with a zero point of 128, when they are compiled."""
    rng = np.random.default_rng(0)
    w, x = extremes(rng, (16, 16, 3, 3), np.uint8), extremes(rng, (1, 16, 6, 6), np.uint8)
    compiled = rcompiler.compile_onnx(model(x, w, 3), target="cpu:v3", eus=1, roots="winograd4")
    assert np.array_equal(compiled(x)[0], direct(x, w, 3))
