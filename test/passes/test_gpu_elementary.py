"""kernelgen/elementary: the device's functions, run on this machine: all their operations are exact
ones of IEEE 754, so a GPU computes the same bits.
"""

import ctypes
import math
from collections.abc import Callable

import numpy as np
import pytest
from torch_mlir import ir

from rcompiler.codegen.cpu import Target, compile_object
from rcompiler.codegen.link import link
from rcompiler.kernelgen.elementary.device_function import device_function, symbol
from rcompiler.kernelgen.lower import lower_to_llvm
from rcompiler.runtime.image import LoadedImage

HOST = Target.named("host")
pytestmark = pytest.mark.skipif("fma" not in HOST.required, reason="fma is a call on this machine")

UNARY = {
    "sin": np.sin,
    "cos": np.cos,
    "tan": np.tan,
    "asin": np.arcsin,
    "acos": np.arccos,
    "atan": np.arctan,
    "sinh": np.sinh,
    "cosh": np.cosh,
    "asinh": np.arcsinh,
    "acosh": np.arccosh,
    "atanh": np.arctanh,
    "log1p": np.log1p,
    "log2": np.log2,
    "log10": np.log10,
}
AS_ON_CPUS = {"exp": np.exp, "exp2": np.exp2, "expm1": np.expm1, "log": np.log, "tanh": np.tanh}
BINARY = {"powf": np.power, "remf": np.fmod}
ENDS = np.array(
    [0, -0.0, math.inf, -math.inf, math.nan, 1, -1, 2, -2, 0.5, -0.5, 3, 1e-45, -1e-45, 3.4e38],
    np.float32,
)


class Function:
    """A device function as a loop over arrays."""

    def __init__(self, name: str, arguments: int, element: str = "f32") -> None:
        loads = "\n".join(
            f"%g{k} = llvm.getelementptr %p{k}[%i] : (!llvm.ptr, i64) -> !llvm.ptr, {element}\n"
            f"%v{k} = llvm.load %g{k} : !llvm.ptr -> {element}"
            for k in range(arguments)
        )
        pointers = ", ".join(f"%p{k}: !llvm.ptr" for k in range(arguments + 1))
        values = ", ".join(f"%v{k}" for k in range(arguments))
        types = ", ".join([element] * arguments)
        text = f"""
        {device_function(name, element)}
        func.func @loop({pointers}, %n: i64) {{
          %c0 = arith.constant 0 : i64
          %c1 = arith.constant 1 : i64
          scf.for %i = %c0 to %n step %c1 : i64 {{
            {loads}
            %r = func.call @{symbol(name, element)}({values}) : ({types}) -> {element}
            %o = llvm.getelementptr %p{arguments}[%i] : (!llvm.ptr, i64) -> !llvm.ptr, {element}
            llvm.store %r, %o : {element}, !llvm.ptr
          }}
          return
        }}"""
        with ir.Context(), ir.Location.unknown():
            module = ir.Module.parse(text)
            lower_to_llvm(module)
            self._image = LoadedImage(link([compile_object(module, HOST)]))
        kind = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * (arguments + 1), ctypes.c_int64)
        self._call = kind(self._image.function("loop"))

    def __call__(self, *arrays: np.ndarray) -> np.ndarray:
        result = np.empty_like(arrays[0])
        self._call(*(a.ctypes.data for a in (*arrays, result)), result.size)
        return result


def check(found: np.ndarray, exact: np.ndarray, ulps: float) -> None:
    """`exact` in more digits than it has; NaN, infinities and signs of zeros must agree."""
    with np.errstate(over="ignore"):
        rounded = exact.astype(found.dtype)
    assert (np.isnan(found) == np.isnan(rounded)).all()
    infinite = np.isinf(rounded)
    assert (found[infinite] == rounded[infinite]).all()
    zero = rounded == 0
    assert (np.signbit(found[zero]) == np.signbit(rounded[zero])).all()
    fine = np.isfinite(rounded)
    error = np.abs(found[fine].astype(np.longdouble) - exact[fine].astype(np.longdouble))
    assert (error <= ulps * np.spacing(np.abs(rounded[fine])).astype(np.longdouble)).all()


def any_bits(count: int, seed: int) -> np.ndarray:
    generator = np.random.default_rng(seed)
    return generator.integers(0, 2**32, count, dtype=np.uint32).view(np.float32)


def exactly(function: Callable[..., np.ndarray], *arrays: np.ndarray) -> np.ndarray:
    with np.errstate(all="ignore"):
        return function(*(a.astype(np.longdouble) for a in arrays))


@pytest.mark.parametrize("name", UNARY)
def test_right_but_for_one_in_a_million_of_a_last_place(name):
    near = [np.linspace(-b, b, 40_001).astype(np.float32) for b in (1.0, 10.0, 1e5)]
    x = np.concatenate([any_bits(200_000, 0), *near, ENDS])
    check(Function(name, 1)(x), exactly(UNARY[name], x), 0.500001)


@pytest.mark.parametrize("name", AS_ON_CPUS)
def test_as_close_as_on_cpus(name):
    x = np.concatenate([np.linspace(-80, 80, 100_001).astype(np.float32), ENDS])
    check(Function(name, 1)(x), exactly(AS_ON_CPUS[name], x), 3)


def test_erf():
    x = np.linspace(-5, 5, 20_001).astype(np.float32)
    check(Function("erf", 1)(x), np.array([math.erf(v) for v in x]), 3)


def test_erfc():
    """An error in x counts 2 x^2 times."""
    x = np.linspace(-5, 10, 20_001).astype(np.float32)
    exact = np.array([math.erfc(v) for v in x])
    assert (
        abs(Function("erfc", 1)(x) - exact) / exact <= (5 + 2 * x**2) * 2.0**-23 + 2e-45 / exact
    ).all()


def test_sines_of_large_arguments():
    """Both sides of where the reduction changes, and the f32 that is nearest to a multiple of
    pi/2 for its size.
    """
    edge = np.float32(2.0**28)
    around = np.nextafter(edge, np.float32([0, math.inf]))
    worst = np.float32([16367173 * 2.0**72, 5.6e30, 1e38])
    x = np.concatenate([[edge], around, -around, worst, -worst]).astype(np.float32)
    for name in ("sin", "cos"):
        check(Function(name, 1)(x), exactly(UNARY[name], x), 0.500001)


@pytest.mark.parametrize("name", BINARY)
def test_of_two_arguments(name):
    generator = np.random.default_rng(1)
    x = np.concatenate([any_bits(200_000, 2), np.repeat(ENDS, ENDS.size)])
    y = np.concatenate([any_bits(200_000, 3), np.tile(ENDS, ENDS.size)])
    x = np.concatenate([x, generator.uniform(0, 20, 100_000).astype(np.float32)])
    y = np.concatenate([y, generator.uniform(-30, 30, 100_000).astype(np.float32)])
    found = Function(name, 2)(x, y)
    if name == "remf":
        with np.errstate(invalid="ignore"):
            np.testing.assert_array_equal(found, np.fmod(x, y))
    else:
        check(found, exactly(np.power, x, y), 0.500001)


MORE_ENDS = np.array(
    [5e-324, -5e-324, 1e-310, 1.7e308, -1.7e308, 709.7, 710.2, -708.5, -745.0, 20, -20]
)
WIDE_ENDS = np.concatenate([ENDS.astype(np.float64), MORE_ENDS])


def any_wide(count: int, seed: int) -> np.ndarray:
    generator = np.random.default_rng(seed)
    return generator.integers(0, 2**64, count, dtype=np.uint64).view(np.float64)


@pytest.mark.parametrize("name", {**UNARY, **AS_ON_CPUS})
def test_of_f64_within_4_ulp(name):
    near = [np.linspace(-b, b, 20_001) for b in (1e-3, 1.0, 1.5, 10.0, 100.0, 1e5)]
    x = np.concatenate([any_wide(100_000, 0), *near, WIDE_ENDS])
    check(Function(name, 1, "f64")(x), exactly({**UNARY, **AS_ON_CPUS}[name], x), 4)


def test_erf_of_f64():
    x = np.concatenate([np.linspace(-7, 7, 40_001), WIDE_ENDS])
    check(Function("erf", 1, "f64")(x), np.array([math.erf(v) for v in x]), 3)


def test_erfc_of_f64():
    x = np.concatenate([np.linspace(-7, 26, 40_001), [0.0, -0.0, math.inf, -math.inf, 1e300, 30]])
    check(Function("erfc", 1, "f64")(x), np.array([math.erfc(v) for v in x]), 16)


def test_sines_of_any_f64():
    generator = np.random.default_rng(4)
    large = np.ldexp(generator.uniform(1, 2, 50_000), generator.integers(20, 1023, 50_000))
    edge = 2.0**28
    x = np.concatenate([large, -large, [edge, np.nextafter(edge, 0), 6381956970095103 * 2.0**797]])
    for name in ("sin", "cos"):
        exact = np.array([getattr(math, name)(v) for v in x])
        check(Function(name, 1, "f64")(x), exact, 8)


@pytest.mark.parametrize("name", BINARY)
def test_of_two_arguments_of_f64(name):
    generator = np.random.default_rng(5)
    parts = [
        (any_wide(100_000, 6), any_wide(100_000, 7)),
        (generator.uniform(0, 20, 100_000), generator.uniform(-200, 200, 100_000)),
        (generator.uniform(0.9, 1.1, 100_000), generator.uniform(-5000, 5000, 100_000)),
        (np.repeat(WIDE_ENDS, WIDE_ENDS.size), np.tile(WIDE_ENDS, WIDE_ENDS.size)),
    ]
    x, y = (np.concatenate(side) for side in zip(*parts, strict=True))
    found = Function(name, 2, "f64")(x, y)
    if name == "remf":
        with np.errstate(invalid="ignore"):
            np.testing.assert_array_equal(found, np.fmod(x, y))
    else:
        check(found, exactly(np.power, x, y), 6)


def test_powers_of_whole_numbers_are_whole():
    """All that are below 2^53: an integer to the power of a float is cut to an integer."""
    pairs = [(a, y) for a in range(-40, 5000) for y in range(53) if abs(a) ** y < 2**53]
    found = Function("powf", 2, "f64")(*np.array(pairs, np.float64).T.copy())
    np.testing.assert_array_equal(found, [float(a**y) for a, y in pairs])
