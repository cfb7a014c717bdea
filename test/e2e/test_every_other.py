"""Vectors of every other element: right, and no byte behind the last one is read, on any feature
level.
"""

import subprocess
import sys

import numpy as np
import onnx
import onnx.reference
import pytest
from levels import LOWER
from onnx import helper

import rcompiler

LEVELS = ["cpu", *LOWER]
RNG = np.random.default_rng(0)


def built(nodes, x, *constants):
    kind = helper.np_dtype_to_tensor_dtype(x.dtype)
    graph = helper.make_graph(
        nodes, "g",
        [helper.make_tensor_value_info("x", kind, x.shape)],
        [helper.make_tensor_value_info("y", kind, None)],
        [onnx.numpy_helper.from_array(np.asarray(v), n) for n, v in constants],
    )  # fmt: skip
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 22)], ir_version=10)


def values(shape, dtype):
    return (50 * RNG.standard_normal(shape)).astype(dtype)


@pytest.mark.parametrize("target", LEVELS)
@pytest.mark.parametrize(
    "dtype", ["float32", "float64", "int32", "int64", "float16", "int8", "bool"]
)
def test_slices_in_steps_of_two(dtype, target):
    for size in (2, 3, 16, 29, 64, 129):
        for first in (0, 1):
            x = values((5, size), dtype)
            steps = [("from", [first]), ("to", [size]), ("axis", [1]), ("step", [2])]
            nodes = [helper.make_node("Slice", ["x", *(n for n, _ in steps)], ["y"])]
            model = rcompiler.compile_onnx(built(nodes, x, *steps), target=target)
            np.testing.assert_array_equal(model(x)[0], x[:, first::2])


@pytest.mark.parametrize("target", LEVELS)
@pytest.mark.parametrize("op", ["AveragePool", "MaxPool"])
@pytest.mark.parametrize("size", [7, 15, 29, 56])
def test_windows_in_steps_of_two(op, size, target):
    x = values((1, 20, size, size), "float32")
    for window, pads in (([3, 3], [1, 1, 0, 0]), ([3, 3], [0, 0, 0, 0]), ([2, 2], [0, 0, 0, 0])):
        nodes = [
            helper.make_node("Relu", ["x"], ["r"]),
            helper.make_node(op, ["r"], ["y"], kernel_shape=window, strides=[2, 2], pads=pads),
        ]
        model = built(nodes, x)
        [want] = onnx.reference.ReferenceEvaluator(model).run(None, {"x": x})
        [got] = rcompiler.compile_onnx(model, target=target)(x)
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("target", LEVELS)
@pytest.mark.parametrize("group", [1, 20])
def test_convolutions_in_steps_of_two(group, target):
    x = values((1, 20, 29, 29), "float32") / 50
    w = values((20, 20 // group, 3, 3), "float32") / 50
    nodes = [helper.make_node("Conv", ["x", "w"], ["y"], strides=[2, 2], group=group)]
    model = built(nodes, x, ("w", w))
    [want] = onnx.reference.ReferenceEvaluator(model).run(None, {"x": x})
    [got] = rcompiler.compile_onnx(model, target=target)(x)
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4)


# The input ends where a page begins that nobody may read.
READ_TO_THE_END = """
import ctypes, mmap, sys
import numpy as np
import rcompiler

libc, page = ctypes.CDLL(None, use_errno=True), mmap.PAGESIZE
path, target, size = sys.argv[1], sys.argv[2], int(sys.argv[3])
memory = mmap.mmap(-1, 2 * page)
start = ctypes.addressof(ctypes.c_char.from_buffer(memory))
assert libc.mprotect(ctypes.c_void_p(start + page), page, 0) == 0
x = np.frombuffer(memory, np.float32, size, page - 4 * size)
x[:] = np.arange(size)
binding = rcompiler.compile_onnx(path, target=target).bind([x])
binding()
np.testing.assert_array_equal(binding.outputs[0], x[::2])
"""


@pytest.mark.parametrize("target", LEVELS)
def test_nothing_behind_the_last_element_is_read(target, tmp_path):
    for size in (31, 33, 129):
        steps = [("from", [0]), ("to", [size]), ("axis", [0]), ("step", [2])]
        nodes = [helper.make_node("Slice", ["x", *(n for n, _ in steps)], ["y"])]
        path = tmp_path / f"{size}.onnx"
        onnx.save(built(nodes, values((size,), "float32"), *steps), path)
        command = [sys.executable, "-c", READ_TO_THE_END, path, target, str(size)]
        ended = subprocess.run(command, capture_output=True, text=True, check=False)
        assert ended.returncode == 0, ended.stderr


@pytest.mark.parametrize("size", [3, 14])
def test_the_pad_of_a_pointwise_convolution(size):
    """It is a copy, and other readers read what is not padded."""
    x, w = values((1, 8, size, size), "float32") / 50, values((24, 8, 1, 1), "float32") / 50
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"]),
        helper.make_node("Relu", ["c"], ["r"]),
        helper.make_node(
            "AveragePool", ["r"], ["p"], kernel_shape=[3, 3], pads=[1, 1, 1, 1], count_include_pad=1
        ),
        helper.make_node("Add", ["r", "p"], ["y"]),
    ]
    model = built(nodes, x, ("w", w))
    [want] = onnx.reference.ReferenceEvaluator(model).run(None, {"x": x})
    for eus in (1, 2):
        [got] = rcompiler.compile_onnx(model, eus=eus)(x)
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4)
