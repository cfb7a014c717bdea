"""Scalar bodies on vectors: types, rounding, comparisons and casts, against numpy and ml_dtypes."""

import ml_dtypes
import numpy as np
import pytest
from kernel_cases import FEATURES, HALF_FEATURES, Kernel, Tile, elementwise

from rcompiler.kernelgen import body, body_plan

BF16 = np.dtype(ml_dtypes.bfloat16)
NAMES = {"bf16": BF16, "f16": np.dtype(np.float16)}
COUNT = 4099  # several vectors and a rest


def evaluate(op: str, inputs: list[np.ndarray], dtype: str, features=FEATURES[0]) -> np.ndarray:
    """The body `op` on arrays of one shape; types are told by their numpy names."""
    names = [f"%a{k}" for k in range(len(inputs))]
    body = elementwise(op, inputs, dtype, names)
    shape = inputs[0].shape
    tile = Tile(shape, register_tile=[2 * features.lanes], vector_dim=0, lanes=features.lanes)
    return Kernel(body, ["%r"], inputs, [(shape, dtype)], tile, features).run()[0]


def numbers(dtype: np.dtype, seed: int) -> np.ndarray:
    """Any bits: denormals, infinities, NaN and all."""
    bits = np.random.default_rng(seed).integers(0, 1 << 16, COUNT).astype(np.uint16)
    return bits.view(dtype)


@pytest.mark.parametrize("features", HALF_FEATURES, ids=str)
@pytest.mark.parametrize("element", NAMES)
@pytest.mark.parametrize("op", ["addf", "subf", "mulf", "divf"])
def test_16_bit_floats_are_rounded_after_each_op(op: str, element: str, features):
    dtype = NAMES[element]
    a, b = numbers(dtype, 0), numbers(dtype, 1)
    found = evaluate(f"%y = arith.{op} %x0, %x1 : {element}", [a, b], dtype.name, features)
    numpy_op = {"addf": np.add, "subf": np.subtract, "mulf": np.multiply, "divf": np.divide}[op]
    with np.errstate(all="ignore"):
        exact = numpy_op(a.astype(np.float32), b.astype(np.float32)).astype(dtype)
    same = (found.view(np.uint16) == exact.view(np.uint16)) | (np.isnan(found) & np.isnan(exact))
    assert same.all()


@pytest.mark.parametrize("element", NAMES)
def test_16_bit_floats_to_and_from_f32(element: str):
    dtype = NAMES[element]
    x = np.random.default_rng(2).integers(0, 1 << 32, COUNT, np.uint32).view(np.float32)
    found = evaluate(f"%y = arith.truncf %x0 : f32 to {element}", [x], dtype.name)
    with np.errstate(all="ignore"):
        exact = x.astype(dtype)
    same = (found.view(np.uint16) == exact.view(np.uint16)) | (np.isnan(found) & np.isnan(exact))
    assert same.all()
    halves = numbers(dtype, 3)
    wide = evaluate(f"%y = arith.extf %x0 : {element} to f32", [halves], "float32")
    np.testing.assert_array_equal(wide, halves.astype(np.float32))


COMPARISONS = {"olt": np.less, "oge": np.greater_equal, "oeq": np.equal, "une": np.not_equal}


@pytest.mark.parametrize("predicate", COMPARISONS)
def test_comparisons_with_nan(predicate: str):
    a = np.float32([1, 2, np.nan, -0.0, np.inf, np.nan, 3] * 5)
    b = np.float32([2, 2, 1, 0.0, np.inf, np.nan, -3] * 5)
    found = evaluate(f"%y = arith.cmpf {predicate}, %x0, %x1 : f32", [a, b], "bool")
    np.testing.assert_array_equal(found, COMPARISONS[predicate](a, b))


def test_a_bool_is_a_byte_of_0_or_1():
    a = np.arange(37) % 3 == 0
    b = np.arange(37) % 2 == 0
    found = evaluate("%y = arith.xori %x0, %x1 : i1", [a, b], "bool")
    np.testing.assert_array_equal(found.view(np.uint8), (a ^ b).astype(np.uint8))


@pytest.mark.parametrize("name", ["sin", "cbrt", "log1p", "roundeven", "floor"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_library_and_direct_functions(name: str, dtype: str):
    x = np.linspace(0, 9, 41).astype(dtype)
    kind = "f32" if dtype == "float32" else "f64"
    found = evaluate(f"%y = math.{name} %x0 : {kind}", [x], dtype)
    exact = {"roundeven": np.rint}.get(name) or getattr(np, name)
    np.testing.assert_allclose(found, exact(x), rtol=3 * np.finfo(dtype).eps)


def test_sigmoid():
    """1 / (1 + e^-x) within 4 ulp, and right where e^-x overflows."""
    x = np.float32([-200, -100, -88.8, -1, 0, 1, 88, 200, np.inf, -np.inf, np.nan])
    x = np.concatenate([x, np.linspace(-20, 20, 10_001, dtype=np.float32)])
    op = """%zero = arith.constant 0.0 : f32
      %one = arith.constant 1.0 : f32
      %n = arith.subf %zero, %x0 : f32
      %p = math.exp %n : f32
      %s = arith.addf %one, %p : f32
      %y = arith.divf %one, %s : f32"""
    found = evaluate(op, [x], "float32")
    with np.errstate(over="ignore"):
        exact = 1 / (1 + np.exp(-x.astype(np.float64)))
    np.testing.assert_allclose(found, exact, rtol=4 * 2.0**-23, atol=2e-38)


def test_indices_and_reads_anywhere():
    """tensor.extract at an index that is data, and the position itself."""
    table = np.arange(50, dtype=np.float32) * 2
    where = np.random.default_rng(4).integers(0, 50, 45)
    op = """%i = arith.index_cast %x0 : i64 to index
      %v = tensor.extract %a1[%i] : tensor<50xf32>
      %d = linalg.index 0 : index
      %j = arith.index_cast %d : index to i64
      %f = arith.sitofp %j : i64 to f32
      %y = arith.addf %v, %f : f32"""
    body = elementwise(op, [where], "float32", ["%a0"])
    tile = Tile((45,), [20], [16], [0], 0, 16)
    kernel = Kernel(body, ["%r"], [where, table], [((45,), "float32")], tile, FEATURES[0])
    np.testing.assert_array_equal(kernel.run()[0], table[where] + np.arange(45))


@pytest.mark.parametrize("features", FEATURES, ids=str)
def test_a_multiply_add_is_rounded_once_where_the_target_can(features):
    """(1 + e)^2 - 1 - 2e = e^2, which a rounded product loses."""
    e = np.float32(2.0**-20)
    x = np.full(COUNT, 1 + e, np.float32)
    found = evaluate(
        "%y = math.fma %x0, %x0, %x1 : f32", [x, -1 - 2 * e + 0 * x], "float32", features
    )
    assert set(found.tolist()) == {e * e if features.has_fma else 0.0}


@pytest.mark.parametrize("features", FEATURES, ids=str)
def test_words_are_cut_to_bytes(features):
    x = np.random.default_rng(5).integers(-(1 << 31), 1 << 31, COUNT).astype(np.int32)
    found = evaluate("%y = arith.trunci %x0 : i32 to i8", [x], "int8", features)
    np.testing.assert_array_equal(found, x.astype(np.int8))


def test_the_ir_is_asked_once_for_each_op(monkeypatch):
    """However many vectors a register tile has."""
    read = []

    class Counted(body_plan.BodyOp):
        def __init__(self, op):
            read.append(op.name)
            super().__init__(op)

    monkeypatch.setattr(body, "BodyOp", Counted)
    x = np.random.default_rng(0).standard_normal(COUNT).astype(np.float32)
    lanes, found = FEATURES[0].lanes, {}
    for vectors in (1, 8):
        read.clear()
        ops = "%a = arith.mulf %x0, %x0 : f32\n%y = arith.negf %a : f32"
        text = elementwise(ops, [x], "float32", ["%a0"])
        tile = Tile(x.shape, register_tile=[vectors * lanes], vector_dim=0, lanes=lanes)
        kernel = Kernel(text, ["%r"], [x], [(x.shape, "float32")], tile, FEATURES[0])
        np.testing.assert_array_equal(kernel.run()[0], -(x * x))
        found[vectors] = list(read)
    assert found[8] == found[1] == [*dict.fromkeys(found[1])]
