"""Scatters at positions of run time: duplicates in order, negative positions, slabs in parallel."""

import math
import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import helper
from onnx.reference import ReferenceEvaluator

import rcompiler
from rcompiler.errors import RangeError
from rcompiler.frontend.builder import Value
from rcompiler.frontend.ops import scatter
from rcompiler.roller import construct

REDUCTIONS = ["none", "add", "mul", "max", "min"]


def model(op, x, at, updates, **attributes):
    arrays = {"x": x, "at": at, "updates": updates}
    ports = [
        helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape)
        for n, a in arrays.items()
    ]
    out = [helper.make_tensor_value_info("y", ports[0].type.tensor_type.elem_type, x.shape)]
    node = helper.make_node(op, list(arrays), ["y"], **attributes)
    graph = helper.make_graph([node], "g", ports, out)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)


def check(op, x, at, updates, *, target="cpu", eus=1, **attributes):
    made = model(op, x, at, updates, **attributes)
    [want] = ReferenceEvaluator(made).run(None, {"x": x, "at": at, "updates": updates})
    [got] = rcompiler.compile_onnx(made, target=target, eus=eus, cache=False)(x, at, updates)
    np.testing.assert_array_equal(got, want)
    return got


def numbers(rng, shape, dtype):
    return rng.integers(1, 4, shape).astype(dtype)


@given(
    shape=st.lists(st.sampled_from([1, 2, 3, 5, 32]), min_size=1, max_size=3),
    reduction=st.sampled_from(REDUCTIONS),
    dtype=st.sampled_from([np.float32, np.int8, np.int64]),
    blocks=st.booleans(),
    data=st.data(),
)
@settings(max_examples=20)
def test_elements_along_any_axis(shape, reduction, dtype, blocks, data):
    axis = data.draw(st.integers(0, len(shape) - 1))
    short = [data.draw(st.sampled_from([n, max(n - 1, 1)])) for n in shape]
    short[axis] = data.draw(st.integers(1, 7))
    rng = np.random.default_rng(math.prod(shape))
    x, updates = numbers(rng, shape, dtype), numbers(rng, short, dtype)
    at = rng.integers(-shape[axis], shape[axis], short)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(scatter, "_LOOK", 0.01 if blocks else 1 << 40)
        check("ScatterElements", x, at, updates, axis=axis, reduction=reduction)


@given(
    shape=st.lists(st.sampled_from([1, 2, 3, 32, 64, 128]), min_size=1, max_size=3),
    lead=st.lists(st.integers(1, 5), max_size=2),
    reduction=st.sampled_from(REDUCTIONS),
    few=st.booleans(),
    blocks=st.booleans(),
    data=st.data(),
)
@settings(max_examples=20)
def test_slices_of_any_rank(shape, lead, reduction, few, blocks, data):
    count = data.draw(st.integers(1, len(shape)))
    rng = np.random.default_rng(math.prod(shape))
    at = np.stack([rng.integers(-n, n, lead) for n in shape[:count]], axis=-1)
    x = numbers(rng, shape, np.float32)
    updates = numbers(rng, (*lead, *shape[count:]), np.float32)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(scatter, "_FEW", 100 if few else 0)
        patch.setattr(scatter, "_LOOK", 0.01 if blocks else 1 << 40)
        check("ScatterND", x, at, updates, reduction=reduction)


def test_what_is_outside_changes_nothing():
    """The call is refused, and where the model computes the positions that is after it has run."""
    x, updates = np.zeros((4, 2), np.float32), np.ones((3, 2), np.float32)
    at = np.array([[1], [9], [-7]])
    made = model("ScatterND", x, at, updates)
    with pytest.raises(RangeError):
        rcompiler.compile_onnx(made, eus=1, cache=False)(x, at, updates)
    made.graph.node.insert(0, helper.make_node("Neg", ["at"], ["there"]))
    made.graph.node[1].input[1] = "there"
    binding = rcompiler.compile_onnx(made, eus=1, cache=False).bind([x, -at, updates])
    with pytest.raises(RangeError):
        binding()
    np.testing.assert_array_equal(binding.outputs[0], [[0, 0], [1, 1], [0, 0], [0, 0]])


@pytest.mark.parametrize(
    ("data", "updates", "count", "blocks"),
    [
        ((32000, 128), (512, 128), 512, 50),  # up to (4096000 + 65536) / (128 * 512) = 63
        ((4096, 1024), (1, 1024), 1, 64),
        ((4099, 1024), (1, 1024), 1, 64),  # parts of rows
        ((4099, 5), (1, 5), 1, 5),
        ((4099,), (1,), 1, 1),
        ((16,), (1,), 1, 1),
    ],
)
def test_blocks_are_as_many_as_look_for_next_to_nothing(data, updates, count, blocks):
    x, new = (Value("%x", shape, "float32") for shape in (data, updates))
    assert scatter._blocks(x, new, count) == blocks


@pytest.mark.parametrize("reduction", ["none", "add"])
def test_few_updates_are_looked_for_by_blocks(reduction):
    """Rows that blocks have parts of, one of them again; also on two EUs."""
    rng = np.random.default_rng(1)
    x = rng.standard_normal((1021, 192), dtype=np.float32)
    updates = rng.standard_normal((200, 192), dtype=np.float32)
    at = rng.integers(-1021, 1021, (200, 1))
    at[:4, 0] = 0, 1020, -1, 0
    made = model("ScatterND", x, at, updates, reduction=reduction)
    [want] = ReferenceEvaluator(made).run(None, {"x": x, "at": at, "updates": updates})
    for eus in (1, 2):
        run = rcompiler.compile_onnx(made, eus=eus, cache=False)
        np.testing.assert_array_equal(run(x, at, updates)[0], want)
        grids = re.findall(r"grid = array<i64: ([\d, ]*)>.*sequential", run.stage("rkernel"))
        assert "8, 1" in grids  # (1021 * 192 + 200 * 192) / (128 * 200) = 9, and 8 divides


@pytest.mark.parametrize("shape", [(3, 37, 101), (3, 64, 64), (1, 9, 101)])
def test_slabs_of_any_tile_start_from_the_data(monkeypatch, shape):
    """Loops over both inner dims, so that the data of a tile is copied in one go."""
    monkeypatch.setattr(scatter, "_LOOK", 1 << 40)
    monkeypatch.setattr(construct, "_slabs", _uneven)
    rng = np.random.default_rng(2)
    x, updates = numbers(rng, shape, np.float32), numbers(rng, (1, *shape[1:]), np.float32)
    at = rng.integers(0, shape[0], updates.shape)
    check("ScatterElements", x, at, updates, reduction="add", axis=0)


def _uneven(expr, *_):
    """Tiles of up to 23 iterations: vectors, and some that are left."""
    axes = [expr.axes[p] for p in expr.parallel]
    return np.array([[min(a.extent, 23) if a.divisible(1) else a.extent for a in axes]], np.int64)


@pytest.mark.parametrize("axis", [0, 1])
def test_slabs_are_tasks_with_equal_bits(axis):
    """Rows and columns that updates do not leave; the kernels are for many EUs."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((512, 512), dtype=np.float32)
    updates = rng.standard_normal((512, 512), dtype=np.float32)
    at = rng.integers(0, 9, (512, 512))
    made = model("ScatterElements", x, at, updates, axis=axis, reduction="add")
    runs = [rcompiler.compile_onnx(made, device="epyc-9555", eus=n, cache=False) for n in (1, 2)]
    first, second = (run(x, at, updates)[0] for run in runs)
    np.testing.assert_array_equal(first, second)
    grids = [ln for ln in runs[1].stage("rkernel").splitlines() if 'kind = "sequential"' in ln]
    assert any("grid = array<i64: 1, 1>" not in line for line in grids)


@pytest.mark.parametrize("blocks", [False, True])
@pytest.mark.parametrize("reduction", ["none", "add"])
@pytest.mark.parametrize("op", ["ScatterElements", "ScatterND"])
def test_on_an_emulated_gpu(monkeypatch, op, reduction, blocks):
    monkeypatch.setattr(scatter, "_LOOK", 0.01 if blocks else 1 << 40)
    rng = np.random.default_rng(3)
    x = numbers(rng, (6, 32), np.float32)
    shape = (5, 32)
    updates = numbers(rng, shape, np.float32)
    at = rng.integers(0, 6, shape if op == "ScatterElements" else (5, 1))
    check(op, x, at, updates, target="cuda:emulated", eus=None, reduction=reduction)
