"""Long sums in parts: right, and with the same bits for every number of EUs and every tile."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

import rcompiler
from rcompiler.device.cpu import detect_cpu
from rcompiler.passes import rtask_split_k
from rcompiler.tools._reference import compare, reference

WIDE = replace(detect_cpu(), name="wide", eus=64)
RNG = np.random.default_rng(7)


def weights(name, *shape, dtype=np.float32):
    values = RNG.integers(-4, 5, shape) / (1 if dtype == np.int8 else 16)
    return numpy_helper.from_array(values.astype(dtype), name)


def model(nodes, inputs, outputs, constants):
    ports = [
        [helper.make_tensor_value_info(name, kind, shape) for name, (kind, shape) in side.items()]
        for side in (inputs, outputs)
    ]
    graph = helper.make_graph(nodes, "g", *ports, initializer=constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


F32, I8, I32 = TensorProto.FLOAT, TensorProto.INT8, TensorProto.INT32
NODE = helper.make_node
CASES = {
    "matrix times vector": model(
        [
            NODE("MatMul", ["x", "w"], ["a"]),
            NODE("Add", ["a", "b"], ["c"]),
            NODE("Relu", ["c"], ["y"]),
        ],
        {"x": (F32, (1, 16384))},
        {"y": (F32, (1, 40))},
        [weights("w", 16384, 40), weights("b", 40)],
    ),
    "columns in rows": model(
        [NODE("Gemm", ["x", "w", "b"], ["y"], transB=1)],
        {"x": (F32, (3, 32768))},
        {"y": (F32, (3, 5))},
        [weights("w", 5, 32768), weights("b", 5)],
    ),
    "convolution of a few pixels": model(
        [NODE("Conv", ["x", "w", "b"], ["y"], pads=[1, 1, 1, 1])],
        {"x": (F32, (1, 2048, 2, 2))},
        {"y": (F32, (1, 32, 2, 2))},
        [weights("w", 32, 2048, 3, 3), weights("b", 32)],
    ),
    "integers": model(
        [NODE("MatMulInteger", ["x", "w"], ["y"])],
        {"x": (I8, (1, 65536))},
        {"y": (I32, (1, 16))},
        [weights("w", 65536, 16, dtype=np.int8)],
    ),
}


def feeds(proto):
    [x] = proto.graph.input
    shape = [d.dim_value for d in x.type.tensor_type.shape.dim]
    values = np.random.default_rng(3).integers(-16, 17, shape)
    whole = x.type.tensor_type.elem_type == I8
    return {"x": values.astype(np.int8) if whole else (values / 16).astype(np.float32)}


@pytest.mark.parametrize("name", CASES)
def test_a_wide_device_takes_two_steps_and_the_result_is_right(name, monkeypatch):
    proto = CASES[name]
    split = rcompiler.compile_onnx(proto, device=WIDE, eus=2, cache=False)
    [parts] = [
        one
        for one, following in pairwise(split.report().operators)
        if following.kind == "reduction" and len(one.tile) == len(following.tile) + 1
    ]
    assert parts.tasks > 1
    x = feeds(proto)
    [found], [expected] = split(**x), reference(proto, x)[1]
    assert compare(found, expected).right
    # the terms are multiples of 2**-8 whose sums are exact, in any order
    monkeypatch.setattr(rtask_split_k, "parts_of", lambda *_: 1)
    whole = rcompiler.compile_onnx(proto, device=WIDE, eus=2, cache=False)
    assert len(whole.report().operators) == len(split.report().operators) - 1
    assert found.tobytes() == whole(**x)[0].tobytes()


def test_the_bits_depend_on_the_record_alone():
    proto = CASES["matrix times vector"]
    x = {"x": np.random.default_rng(1).standard_normal((1, 16384)).astype(np.float32)}
    found = set()
    for eus in (1, 2, 8):
        for policy in ("roller", "osdi22"):
            run = rcompiler.compile_onnx(
                proto, device=WIDE, eus=eus, roller_policy=policy, cache=False
            )
            found |= {run(**x)[0].tobytes() for _ in range(3)}
            run.close()
    assert len(found) == 1
