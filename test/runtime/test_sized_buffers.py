"""Calls of sizes that are known at run time use buffers that stay: no call sees another's."""

import threading

import numpy as np
import onnx.parser
import pytest

import rcompiler
from rcompiler.errors import RangeError, ShapeError
from rcompiler.runtime.sized_buffers import SizedBuffers

MODEL = """
  <ir_version: 10, opset_import: ["": 21]>
  g (float[n, m] x, int64[m] i, float[4] w)
    => (float[m, n] y, float[n] s, float[m, 4] rows, float[4] v)
  <float[3, 4] table = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}>
  {
    y = Transpose<perm = [1, 0]>(x)
    one = Constant<value_ints = [1]>()
    s = ReduceSum<keepdims = 0>(x, one)
    rows = Gather(table, i)
    v = Neg(w)
  }
"""


@pytest.fixture(scope="module")
def model():
    shapes = {"n": range(1, 6), "m": range(1, 8)}
    proto = onnx.parser.parse_model(MODEL)
    tops = {"n": (5,), "m": (7,)}
    return rcompiler.compile_onnx(proto, shapes=shapes, buckets=tops, eus=1, device="default")


def arguments(n, m, seed=0):
    rng = np.random.default_rng(seed)
    x, w = rng.random((n, m), np.float32), rng.random(4, np.float32)
    return x, rng.integers(0, 3, m), w


def check(made, x, i, w):
    y, s, rows, v = made
    np.testing.assert_array_equal(y, x.T)
    np.testing.assert_allclose(s, x.sum(1), 1e-6)
    np.testing.assert_array_equal(rows, np.arange(12, dtype=np.float32).reshape(3, 4)[i])
    np.testing.assert_array_equal(v, -w)


def test_sizes_in_any_order(model):
    """What a larger call has left behind is part of no answer."""
    for seed, (n, m) in enumerate([(5, 7), (1, 1), (3, 7), (5, 2), (1, 1), (5, 7)]):
        given = arguments(n, m, seed)
        check(model(*given), *given)
    assert model._buffers is not None


def test_results_are_the_callers(model):
    given = [arguments(2, 3, seed) for seed in (1, 2)]
    made = [model(*each) for each in given]
    for found, each in zip(made, given, strict=True):
        check(found, *each)
        assert all(array.flags.writeable and array.flags.c_contiguous for array in found)
    arrays = [array for found in made for array in found]
    for k, array in enumerate(arrays):
        assert not any(np.may_share_memory(array, other) for other in arrays[:k])


def test_arrays_of_any_strides(model):
    x, i, w = arguments(4, 6)
    check(model(np.asfortranarray(x), i[::-1][::-1], w), x, i, w)
    check(model(x[::-1][::-1], i.tolist(), w), x, i, w)


def test_a_call_that_meets_another_does_without(model):
    given = arguments(3, 4)
    check(model(*given), *given)
    with model._buffers._free:
        assert model._buffers.call(given) is None
        check(model(*given), *given)


def test_calls_of_several_threads(model):
    wrong = []

    def work(seed):
        given = arguments(1 + seed, 7 - seed, seed)
        try:
            for _ in range(200):
                check(model(*given), *given)
        except AssertionError as error:
            wrong.append(error)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_what_does_not_fit_is_said_as_before(model):
    x, i, w = arguments(3, 4)
    check(model(x, i, w), x, i, w)
    for wrong in ((x.astype(np.float64), i, w), (x, i[:3], w), (x[0], i, w), (x, i, w[:3])):
        with pytest.raises(ShapeError, match="input '[xiw]'"):
            model(*wrong)
    with pytest.raises(ShapeError, match="'n' is from 1 to 5"):
        model(np.zeros((6, 4), np.float32), i, w)
    with pytest.raises(RangeError, match="index 3"):
        model(x, np.int64([0, 1, 2, 3]), w)
    check(model(x, i, w), x, i, w)


def test_what_is_large_has_no_buffers(model, monkeypatch):
    monkeypatch.setattr("rcompiler.runtime.sized_buffers._MOST", 100)
    given = model.artifact, model._parameters
    assert not SizedBuffers.can_serve(*given)
    monkeypatch.undo()
    assert SizedBuffers.can_serve(*given)
