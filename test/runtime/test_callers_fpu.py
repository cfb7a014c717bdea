"""What the calling thread has set in its floating-point unit changes no result, and comes back."""

from __future__ import annotations

import ctypes
import ctypes.util
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import onnx
import pytest

import rcompiler

_FLUSH = 0x8040  # bits of MXCSR: denormal numbers are zeros, as operands and as results
_UPWARDS = 0x4000
_RULES = _FLUSH | 0x6000
_MXCSR = slice(28, 32)  # in the fenv_t of x86-64
_PRODUCTS = """<ir_version: 10, opset_import: ["": 21]>
g (float[64,64] x, float[64,64] w) => (float[64,64] y) {
  a = Mul(x, w)
  b = MatMul(a, w)
  c = Mul(x, x)
  d = MatMul(c, w)
  y = Add(b, d)
}"""
_libm = ctypes.CDLL(ctypes.util.find_library("m") or "libm.so.6")


def _mxcsr() -> int:
    environment = (ctypes.c_ubyte * 32)()
    _libm.fegetenv(environment)
    return int.from_bytes(bytes(environment[_MXCSR]), "little")


@contextmanager
def _set(bits: int) -> Iterator[None]:
    """With more bits in MXCSR of this thread."""
    environment = (ctypes.c_ubyte * 32)()
    _libm.fegetenv(environment)
    before = bytes(environment)
    environment[_MXCSR] = (_mxcsr() | bits).to_bytes(4, "little")
    _libm.fesetenv(environment)
    try:
        yield
    finally:
        ctypes.memmove(environment, before, 32)
        _libm.fesetenv(environment)


@pytest.mark.parametrize("policy", ["rammer", "dynamic"])
@pytest.mark.parametrize("bits", [_FLUSH, _UPWARDS], ids=["flush", "upwards"])
def test_results_are_those_of_the_plain_unit(policy: str, bits: int):
    """On numbers whose products are denormal; EUs are threads of which one is the caller's."""
    rng = np.random.default_rng(0)
    x = (rng.standard_normal((64, 64)) * 1e-38).astype(np.float32)
    w = rng.standard_normal((64, 64)).astype(np.float32)
    model = rcompiler.compile_onnx(onnx.parser.parse_model(_PRODUCTS), eus=2, policy=policy)
    [wanted] = model(x, w)
    assert wanted.any()
    for _ in range(5):
        with _set(bits):
            [found] = model(x, w)
            assert _mxcsr() & _RULES == bits  # the caller goes on with what it had
        np.testing.assert_array_equal(found, wanted)


def test_workers_that_begin_in_such_a_thread_round_to_nearest():
    """A thread begins with the unit of the one that starts it."""
    x = np.full((64, 64), 1e-38, np.float32)
    w = np.full((64, 64), 1e-3, np.float32)
    proto = onnx.parser.parse_model(_PRODUCTS)
    with rcompiler.compile_onnx(proto, eus=2) as model:
        [wanted] = model(x, w)
    with _set(_FLUSH), rcompiler.compile_onnx(proto, eus=2) as model:
        [found] = model(x, w)
    assert wanted.any()
    np.testing.assert_array_equal(found, wanted)
