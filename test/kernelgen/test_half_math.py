"""Operations on f16: the bits that f32 has, rounded after each, for every f16."""

import math

import numpy as np
import pytest
from kernel_cases import HALF_FEATURES, Kernel, Tile, elementwise

from rcompiler.codegen.assembly import assembly
from rcompiler.kernelgen.cpu import CpuFeatures
from rcompiler.kernelgen.half_math import reciprocal

EVERY = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
DIVIDED = "%c = arith.constant {} : f16\n%y = arith.divf %x0, %c : f16"


def kernel(op: str, x: np.ndarray, features: CpuFeatures) -> Kernel:
    """The body `op` on an array of f16."""
    body = elementwise(op, [x], "float16", ["%a0"])
    tile = Tile(x.shape, register_tile=[2 * features.lanes], vector_dim=0, lanes=features.lanes)
    return Kernel(body, ["%r"], [x], [(x.shape, "float16")], tile, features)


def assert_same(found: np.ndarray, exact: np.ndarray):
    same = (found.view(np.uint16) == exact.view(np.uint16)) | (np.isnan(found) & np.isnan(exact))
    assert same.all()


@pytest.mark.parametrize("features", HALF_FEATURES, ids=str)
def test_exp_has_the_bits_of_f32(features: CpuFeatures):
    """Also where f32 is denormal or infinite, and f16 is 0 or infinite long since."""
    wide = "%w = arith.extf %x0 : f16 to f32\n%v = math.exp %w : f32\n"
    [exact] = kernel(wide + "%y = arith.truncf %v : f32 to f16", EVERY, features).run()
    [found] = kernel("%y = math.exp %x0 : f16", EVERY, features).run()
    assert_same(found, exact)


@pytest.mark.parametrize("divisor", [8.0, 1.4140625, -0.1, 3.0, 1000.0, 60000.0, 6e-8])
@pytest.mark.parametrize("features", HALF_FEATURES, ids=str)
def test_quotients_by_a_constant(features: CpuFeatures, divisor: float):
    half = np.float16(divisor)
    with np.errstate(all="ignore"):
        exact = (EVERY.astype(np.float32) / np.float32(half)).astype(np.float16)
    divided = kernel(DIVIDED.format(f"0x{half.view(np.uint16):04X}"), EVERY, features)
    assert_same(divided.run()[0], exact)


def test_a_divisor_is_multiplied_where_every_quotient_stays_the_same():
    assert reciprocal(8.0) == 0.125 and reciprocal(1.4140625) == np.float32(1) / 1.4140625
    assert reciprocal(1000.0) is None and reciprocal(0.0) is None


def test_one_instruction_without_a_conversion():
    x = EVERY[:64]
    body = "%s = arith.addf %x0, %x0 : f16\n%y = arith.mulf %s, %x0 : f16"
    native = kernel(body, x, CpuFeatures(16, True, has_scalef=True, has_f16=True))
    plain = kernel(body, x, CpuFeatures(16, True, has_scalef=True))
    [one, other] = [assembly(k.lowered, "x86-64-v4", "+avx512fp16") for k in (native, plain)]
    assert "vmulph" in one and "vcvt" not in one
    assert "vmulph" not in other and "vcvt" in other


def test_a_constant_divisor_takes_no_division():
    x = EVERY[:64]
    text = DIVIDED.format("1.4140625")
    made = kernel(text, x, CpuFeatures(16, True, has_scalef=True))
    assert "vdiv" not in assembly(made.lowered, "x86-64-v4", "")


@pytest.mark.parametrize("features", HALF_FEATURES, ids=str)
def test_erf_is_a_neighbour_and_mostly_the_nearest(features: CpuFeatures):
    [found] = kernel("%y = math.erf %x0 : f16", EVERY, features).run()
    exact = np.float16([math.erf(x) for x in EVERY.tolist()])
    assert np.array_equal(np.isnan(found), np.isnan(EVERY))
    number = ~np.isnan(EVERY)
    assert (np.signbit(found) == np.signbit(EVERY))[number].all()
    apart = np.abs(found.view(np.int16).astype(int) - exact.view(np.int16))[number]
    assert apart.max() <= 1 and apart.sum() <= 6  # three of each sign
    assert np.abs(found[number]).max() == 1
