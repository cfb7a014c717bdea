"""Rows as whole lines of memory: no byte too few, no line too many, and the same rows behind it."""

import numpy as np
import pytest
from onnx import TensorProto, helper

import rcompiler
from rcompiler.frontend import dtypes
from rcompiler.frontend.builder import Builder
from rcompiler.frontend.whole_lines import LINE, in_lines, out_of_lines

TYPES = ["bool", "int4", "uint2", "float8_e4m3fn", "int16", "bfloat16", "float32", "float64"]


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("shape", [(), (3,), (5, 13), (64,), (2, 32)])
def test_rows_are_the_fewest_whole_lines(dtype, shape):
    b, item = Builder(), dtypes.storage_dtype(dtype).itemsize
    rows = b.argument("x", (7, *shape), dtype)
    lines = in_lines(b, rows, 1)
    wanted = int(np.prod(shape)) * item
    assert lines.shape[0] == 7
    assert lines.size // 7 * item == -(-wanted // LINE) * LINE
    assert out_of_lines(b, lines, shape).shape == (7, *shape)
    assert (lines is rows) == (wanted % LINE == 0)


@pytest.mark.parametrize("kind", [TensorProto.BOOL, TensorProto.INT4, TensorProto.DOUBLE])
def test_a_scan_gives_back_rows_of_small_and_large_types(kind):
    """Each row is flipped, 3 elements of 20."""
    rows = (np.arange(60) % 7 - 3).reshape(20, 3)
    x = rows.astype(bool) if kind == TensorProto.BOOL else rows.astype(np.float64)
    given = TensorProto.BOOL if kind == TensorProto.BOOL else TensorProto.DOUBLE
    body = helper.make_graph(
        [
            helper.make_node("Cast", ["part"], ["narrow"], to=kind),
            helper.make_node("Identity", ["h"], ["after"]),
            helper.make_node("Identity", ["narrow"], ["y"]),
        ],
        "body",
        [
            helper.make_tensor_value_info(n, t, s)
            for n, t, s in [("h", 1, [2]), ("part", given, [3])]
        ],
        [
            helper.make_tensor_value_info(n, t, s)
            for n, t, s in [("after", 1, [2]), ("y", kind, [3])]
        ],
    )
    graph = helper.make_graph(
        [
            helper.make_node("Scan", ["h0", "x"], ["h", "rows"], num_scan_inputs=1, body=body),
            helper.make_node("Cast", ["rows"], ["z"], to=given),
        ],
        "g",
        [
            helper.make_tensor_value_info(n, t, s)
            for n, t, s in [("h0", 1, [2]), ("x", given, [20, 3])]
        ],
        [
            helper.make_tensor_value_info(n, t, s)
            for n, t, s in [("h", 1, [2]), ("z", given, [20, 3])]
        ],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    _, found = rcompiler.compile_onnx(model, eus=1)(np.float32([1, 2]), x)
    np.testing.assert_array_equal(found, x)
