"""TopK: any type, axis, k and length, equal elements in order, against a stable sort of numpy."""

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

import rcompiler
from rcompiler.frontend import selection, sorting

TYPES = [
    np.float32, np.float64, np.float16, ml_dtypes.bfloat16, np.int8, np.uint8, np.int16, np.uint16,
    np.int32, np.uint32, np.int64, np.uint64,
]  # fmt: skip


def model(x, k, **attributes):
    kind = helper.np_dtype_to_tensor_dtype(x.dtype)
    node = helper.make_node("TopK", ["x", "k"], ["v", "i"], **attributes)
    ports = [helper.make_tensor_value_info("x", kind, x.shape)]
    outs = [
        helper.make_tensor_value_info("v", kind, None),
        helper.make_tensor_value_info("i", TensorProto.INT64, None),
    ]
    constants = [numpy_helper.from_array(np.int64([k]), "k")]
    graph = helper.make_graph([node], "g", ports, outs, constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 24)], ir_version=10)


def expected(x, k, axis, largest):
    """Values and positions by a stable sort; a NaN is the largest number."""
    floating = x.dtype.kind in "fV" or x.dtype == ml_dtypes.bfloat16
    wide = np.where(x == 0, 0, x).astype(np.float64) if floating else x.astype(object)
    if floating:
        nan, key = np.isnan(wide), np.where(np.isnan(wide), 0, wide)
        order = np.lexsort((-key, ~nan) if largest else (key, nan), axis=axis)
    else:
        order = np.argsort(-wide if largest else wide, axis=axis, kind="stable")
    at = np.take(order, np.arange(k), axis)
    return np.take_along_axis(x, at, axis), at


def check(x, k, axis=-1, largest=1, **options):
    run = rcompiler.compile_onnx(
        model(x, k, axis=axis, largest=largest), cache=False, **{"eus": 1, **options}
    )
    values, at = run(x)
    want, places = expected(x, k, axis, largest)
    np.testing.assert_array_equal(at, places)
    assert values.dtype == want.dtype
    if values.dtype.kind not in "iu":  # zeros of either sign are equal, and so are NaNs
        values, want = values.astype(np.float64), want.astype(np.float64)
    np.testing.assert_array_equal(values, want)


def draw(rng, shape, dtype, distinct):
    """Numbers of which many are equal, with extremes, NaNs and zeros of both signs."""
    values = rng.integers(0, distinct, shape).astype(np.int64) - distinct // 2
    dtype = np.dtype(dtype)
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        low, high = int(info.min), int(info.max)
        x = (values.astype(object) % (high - low + 1) + low).astype(dtype)
        x.reshape(-1)[:: max(x.size // 3, 1)] = info.max
        return x
    x = (values / 4).astype(np.float32)
    flat = x.reshape(-1)
    for step, number in ((7, np.nan), (11, -0.0), (13, np.inf), (17, -np.inf), (5, 0.0)):
        flat[rng.integers(0, step) :: step] = number
    return x.astype(dtype)


@given(
    dtype=st.sampled_from(TYPES),
    lead=st.integers(1, 3),
    n=st.one_of(st.integers(1, 12), st.integers(129, 400)),
    trail=st.integers(1, 3),
    largest=st.integers(0, 1),
    distinct=st.sampled_from([2, 9, 1000]),
    data=st.data(),
)
@settings(max_examples=12)
def test_any_axis_type_and_k(dtype, lead, n, trail, largest, distinct, data):
    k = data.draw(st.one_of(st.integers(1, min(n, 8)), st.integers(1, n)), label="k")
    shape = (lead, n, trail) if trail > 1 else (lead, n)
    x = draw(np.random.default_rng(n * 7 + lead), shape, dtype, distinct)
    check(x, k, axis=1, largest=largest)


@given(
    n=st.integers(1, 40), k=st.integers(1, 40), limits=st.tuples(*[st.integers(1, 9)] * 4),
    largest=st.integers(0, 1),
)  # fmt: skip
@settings(max_examples=12)
def test_runs_chunks_and_parts_of_any_size(n, k, limits, largest):
    """Small sizes of all of them, so that short rows have last runs and parts of every length."""
    k = min(k, n)
    run, part, inserted, chunk = limits
    x = draw(np.random.default_rng(n), (2, n), np.float32, 9)
    with pytest.MonkeyPatch.context() as patch:
        for name, value in (
            ("ALL_PAIRS", 0), ("_RUN", run), ("_PART", part), ("INSERTED", 4 * inserted),
            ("_CHUNK", 2 * chunk), ("_GROUP", 2), ("_CHUNK_SQUARES", 1), ("_SELECTED_RATIO", 99),
            ("_LONG", 99), ("_LONG_RATIO", 99),
        ):  # fmt: skip
            patch.setattr(sorting, name, value)
        check(x, k, largest=largest)


@given(
    n=st.integers(1, 70), k=st.integers(1, 70), group=st.integers(1, 9),
    distinct=st.sampled_from([2, 9, 1000]), largest=st.integers(0, 1),
    dtype=st.sampled_from([np.float32, np.int64]), groups=st.booleans(),
)  # fmt: skip
@settings(max_examples=12)
def test_selection_of_any_size(n, k, group, distinct, largest, dtype, groups):
    """Short rows, of which groups are left out where `groups`, and the k are selected."""
    k = min(k, n)
    x = draw(np.random.default_rng(n), (2, n), dtype, distinct)
    with pytest.MonkeyPatch.context() as patch:
        least = 2 if groups else 99
        for name, value in (
            ("ALL_PAIRS", 8), ("INSERTED", 4), ("_LONG", 9), ("_LONG_RATIO", least),
            ("_SELECTED_RATIO", 1.1),
        ):  # fmt: skip
            patch.setattr(sorting, name, value)
        patch.setattr(selection, "_GROUP", group)
        check(x, k, largest=largest)


def test_rows_side_by_side():
    """Ten rows by hand: of equal elements the first one is first, and NaN is the largest."""
    inf, nan = np.inf, np.nan
    x = np.float32([[3, 1, 3, 2], [-0.0, -1, 0.0, -2], [inf, nan, 5, nan], [nan, nan, nan, inf]])
    x = np.concatenate([x, x, -x[:2]])
    places = {
        1: [[0, 2, 3], [0, 2, 1], [1, 3, 0], [0, 1, 2], [1, 3, 0], [3, 1, 0]],
        0: [[1, 3, 0], [3, 1, 0], [2, 0, 1], [3, 0, 1], [0, 2, 3], [0, 2, 1]],
    }
    for largest, at in places.items():
        run = rcompiler.compile_onnx(model(x, 3, largest=largest), eus=1, cache=False)
        np.testing.assert_array_equal(run(x)[1], [*at[:4], *at])


@given(
    dtype=st.sampled_from(TYPES), rows=st.integers(8, 70), n=st.integers(1, 40),
    k=st.integers(1, 32), trail=st.sampled_from([1, 1, 3]), largest=st.integers(0, 1),
    distinct=st.sampled_from([1, 2, 9, 1000]), eus=st.integers(1, 2),
)  # fmt: skip
@settings(max_examples=12)
def test_rows_side_by_side_of_any_type_and_size(
    dtype, rows, n, k, trail, largest, distinct, eus
):  # fmt: skip
    shape = (rows, n, trail) if trail > 1 else (rows, n)
    x = draw(np.random.default_rng(rows + n), shape, dtype, distinct)
    check(x, min(k, n), axis=1, largest=largest, eus=eus)


@pytest.mark.parametrize(
    ("policy", "target"),
    [("rammer", "cpu"), ("list", "cpu:v3"), ("base", "cpu"), ("rammer", "cpu:x86-64")],
)
def test_rows_side_by_side_on_several_eus(policy, target):
    x = draw(np.random.default_rng(1), (1000, 100), np.float32, 100)
    check(x, 5, eus=2, policy=policy, target=target)


@pytest.mark.parametrize(("n", "k"), [(40_000, 7), (40_000, 200), (2_000, 900)])
@pytest.mark.parametrize("distinct", [3, 10**6])
def test_few_of_many(n, k, distinct):
    x = draw(np.random.default_rng(3), (2, n), np.float32, distinct)
    for eus in (1, 2):
        check(x, k, eus=eus)


def test_few_of_many_are_cut_into_tasks():
    """Nothing that looks at all elements of a long row is one sequence."""
    x = np.zeros((1, 1 << 20), np.float32)
    compiled = rcompiler.compile_onnx(model(x, 100), device="epyc-9555", eus=2, cache=False)
    alone = [op for op in compiled.report().operators if op.tasks == 1]
    assert max(op.task_ns for op in alone) < 20_000


@pytest.mark.parametrize("order", ["rising", "falling", "equal"])
@pytest.mark.parametrize("k", [3, 64, 65, 3000])
def test_sorted_rows(order, k):
    x = np.arange(3000, dtype=np.int32)[None]
    x = {"rising": x, "falling": x[:, ::-1].copy(), "equal": x * 0}[order]
    for largest in (0, 1):
        check(x, k, largest=largest)


@pytest.mark.parametrize("policy", ["rammer", "list", "base"])
def test_bits_on_several_eus(policy):
    x = draw(np.random.default_rng(1), (3, 5000), np.float32, 100)
    for k in (5, 5000):
        check(x, k, eus=2, policy=policy)


def test_iterations_apart_run_as_several_tasks():
    """A loop whose iterations have rows of their own is cut into rTasks."""
    x = np.zeros((64, 4096), np.float32)
    text = rcompiler.compile_onnx(model(x, 5), device="epyc-9555", eus=2, cache=False)
    kernels = [line for line in text.stage("rkernel").splitlines() if 'kind = "sequential"' in line]
    assert any("grid = array<i64: 1, 1>" not in line for line in kernels)


def test_nothing_is_taken_of_an_empty_tensor():
    for shape, k in (((0, 5), 2), ((3, 4), 0), ((3, 0), 0)):
        x = np.zeros(shape, np.float32)
        values, at = rcompiler.compile_onnx(model(x, k), eus=1, cache=False)(x)
        assert values.shape == at.shape == (*shape[:-1], k)


@pytest.mark.parametrize(("n", "k"), [(20, 20), (300, 5), (150, 150), (600, 40), (300, 140)])
def test_on_an_emulated_gpu(n, k):
    x = draw(np.random.default_rng(2), (2, n), np.float32, 9)
    check(x, k, target="cuda:emulated", eus=None)


@pytest.mark.parametrize("dtype", [np.float32, np.int64])
def test_rows_side_by_side_on_an_emulated_gpu(dtype):
    x = draw(np.random.default_rng(2), (40, 20), dtype, 9)
    check(x, 5, target="cuda:emulated", eus=None)
