"""What the calling thread has set in its floating-point unit changes no result, and comes back."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from support.callers_fpu import FLUSH, UPWARDS, mxcsr, with_bits

import rcompiler

_RULES = FLUSH | 0x6000
_PRODUCTS = """<ir_version: 10, opset_import: ["": 21]>
g (float[64,64] x, float[64,64] w) => (float[64,64] y) {
  a = Mul(x, w)
  b = MatMul(a, w)
  c = Mul(x, x)
  d = MatMul(c, w)
  y = Add(b, d)
}"""


@pytest.mark.parametrize("policy", ["rammer", "dynamic"])
@pytest.mark.parametrize("bits", [FLUSH, UPWARDS], ids=["flush", "upwards"])
def test_results_are_those_of_the_plain_unit(policy: str, bits: int):
    """On numbers whose products are denormal; EUs are threads of which one is the caller's."""
    rng = np.random.default_rng(0)
    x = (rng.standard_normal((64, 64)) * 1e-38).astype(np.float32)
    w = rng.standard_normal((64, 64)).astype(np.float32)
    model = rcompiler.compile_onnx(onnx.parser.parse_model(_PRODUCTS), eus=2, policy=policy)
    [wanted] = model(x, w)
    assert wanted.any()
    for _ in range(5):
        with with_bits(bits):
            [found] = model(x, w)
            assert mxcsr() & _RULES == bits  # the caller goes on with what it had
        np.testing.assert_array_equal(found, wanted)


def test_workers_that_begin_in_such_a_thread_round_to_nearest():
    """A thread begins with the unit of the one that starts it."""
    x = np.full((64, 64), 1e-38, np.float32)
    w = np.full((64, 64), 1e-3, np.float32)
    proto = onnx.parser.parse_model(_PRODUCTS)
    with rcompiler.compile_onnx(proto, eus=2) as model:
        [wanted] = model(x, w)
    with with_bits(FLUSH), rcompiler.compile_onnx(proto, eus=2) as model:
        [found] = model(x, w)
    assert wanted.any()
    np.testing.assert_array_equal(found, wanted)
