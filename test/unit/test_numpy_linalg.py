"""The numpy interpreter of kernel bodies: each op by examples that were computed by hand."""

import math

import ml_dtypes
import numpy as np
import pytest
from numpy_linalg import casts, floats, function_results, integers
from numpy_linalg.elements import unwritten
from torch_mlir import ir

NAN, INF = math.nan, math.inf
E = {"bool": "i1", "int8": "i8", "int16": "i16", "int32": "i32", "int64": "i64",
     "float16": "f16", "bfloat16": "bf16", "float32": "f32", "float64": "f64"}  # fmt: skip


def results(text, *arrays, seed=0):
    """The results of the function of a module."""
    with ir.Context(), ir.Location.unknown():
        return function_results(ir.Module.parse(text), arrays, seed=seed)


def result(text, *arrays, seed=0):
    """The only one."""
    [found] = results(text, *arrays, seed=seed)
    return found


def assert_same(found, expected):
    """Fails unless elements are equal, types and signs of zeros, too."""
    assert found.dtype == expected.dtype and found.shape == expected.shape
    np.testing.assert_array_equal(found, expected)
    if found.dtype.kind == "f":
        numbers = ~np.isnan(expected)
        np.testing.assert_array_equal(np.signbit(found)[numbers], np.signbit(expected)[numbers])


def array(kind):
    """A function that makes an array of its arguments."""
    return lambda *numbers: np.array(numbers, kind)


i1, i8, i16, i32, i64, f16, bf16, f32, f64 = map(
    array, ("?", "i1", "i2", "i4", "i8", "f2", ml_dtypes.bfloat16, "f4", "f8")
)
ONE = 1 + 2**-10  # the f16 after 1
# op, operands, result; {0} and {r} are the types of the first operand and of the result
SCALARS = [
    ("arith.addi %0, %1 : {0}", i8(127, -128, 5), i8(1, -1, -7), i8(-128, 127, -2)),
    ("arith.addi %0, %1 : {0}", i1(1, 1, 0), i1(1, 0, 0), i1(0, 1, 0)),
    ("arith.subi %0, %1 : {0}", i32(-(2**31), 5), i32(1, 7), i32(2**31 - 1, -2)),
    ("arith.muli %0, %1 : {0}", i16(300, -5), i16(300, 3), i16(24464, -15)),
    ("arith.muli %0, %1 : {0}", i1(1, 1, 0), i1(1, 0, 0), i1(1, 0, 0)),
    ("arith.andi %0, %1 : {0}", i8(12, -1), i8(10, 7), i8(8, 7)),
    ("arith.ori %0, %1 : {0}", i8(12, -128), i8(10, 7), i8(14, -121)),
    ("arith.xori %0, %1 : {0}", i1(1, 1, 0), i1(1, 0, 0), i1(0, 1, 0)),
    ("arith.shli %0, %1 : {0}", i8(1, 3, -1), i8(7, 1, 4), i8(-128, 6, -16)),
    ("arith.shrsi %0, %1 : {0}", i8(-128, 64), i8(7, 3), i8(-1, 8)),
    ("arith.shrui %0, %1 : {0}", i8(-128, 64), i8(7, 3), i8(1, 8)),
    ("arith.divsi %0, %1 : {0}", i8(-7, 7, 7, -7, 7), i8(2, -2, 2, -2, 0), i8(-3, -3, 3, 3, 7)),
    ("arith.divsi %0, %1 : {0}", i64(-(2**63), 9), i64(-1, -1), i64(-(2**63), -9)),
    ("arith.divui %0, %1 : {0}", i8(-1, -1, 5), i8(2, -1, 0), i8(127, 1, 5)),
    ("arith.remsi %0, %1 : {0}", i8(-7, 7, -128, 7), i8(2, -2, -1, 0), i8(-1, 1, 0, 0)),
    ("arith.remui %0, %1 : {0}", i8(-1, 7, 7), i8(16, -1, 0), i8(15, 7, 0)),
    ("arith.floordivsi %0, %1 : {0}", i8(-7, 7, 7, -8), i8(2, -2, 2, 2), i8(-4, -4, 3, -4)),
    ("arith.ceildivsi %0, %1 : {0}", i8(-7, 7, 7, 8), i8(2, -2, 2, 2), i8(-3, -3, 4, 4)),
    ("arith.ceildivui %0, %1 : {0}", i8(-1, 7, 8), i8(2, 2, 2), i8(-128, 4, 4)),
    ("arith.maxsi %0, %1 : {0}", i8(-1, 3), i8(1, -3), i8(1, 3)),
    ("arith.maxsi %0, %1 : {0}", i1(1, 1, 0), i1(1, 0, 0), i1(1, 0, 0)),
    ("arith.minsi %0, %1 : {0}", i8(-1, 3), i8(1, -3), i8(-1, -3)),
    ("arith.maxui %0, %1 : {0}", i8(-1, 3), i8(1, -3), i8(-1, -3)),
    ("arith.minui %0, %1 : {0}", i8(-1, 3), i8(1, -3), i8(1, 3)),
    ("math.absi %0 : {0}", i8(-5, 5, -128), i8(5, 5, -128)),
    ("math.ctpop %0 : {0}", i8(-1, 5, 0), i8(8, 2, 0)),
    ("math.ctlz %0 : {0}", i32(1, -1, 0, 256), i32(31, 0, 32, 23)),
    ("math.cttz %0 : {0}", i8(8, -128, 0, 1), i8(3, 7, 8, 0)),
    ("arith.cmpi eq, %0, %1 : {0}", i8(1, 2), i8(1, 1), i1(1, 0)),
    ("arith.cmpi ne, %0, %1 : {0}", i8(1, 2), i8(1, 1), i1(0, 1)),
    ("arith.cmpi slt, %0, %1 : {0}", i8(-1, 1, 1), i8(1, -1, 1), i1(1, 0, 0)),
    ("arith.cmpi sle, %0, %1 : {0}", i8(-1, 1, 1), i8(1, -1, 1), i1(1, 0, 1)),
    ("arith.cmpi sgt, %0, %1 : {0}", i8(-1, 1, 1), i8(1, -1, 1), i1(0, 1, 0)),
    ("arith.cmpi sge, %0, %1 : {0}", i8(-1, 1, 1), i8(1, -1, 1), i1(0, 1, 1)),
    ("arith.cmpi ult, %0, %1 : {0}", i8(-1, 1, 1), i8(1, -1, 1), i1(0, 1, 0)),
    ("arith.cmpi ule, %0, %1 : {0}", i8(-1, 1, 1), i8(1, -1, 1), i1(0, 1, 1)),
    ("arith.cmpi ugt, %0, %1 : {0}", i8(-1, 1, 1), i8(1, -1, 1), i1(1, 0, 0)),
    ("arith.cmpi uge, %0, %1 : {0}", i8(-1, 1, 1), i8(1, -1, 1), i1(1, 0, 1)),
    ("arith.cmpi slt, %0, %1 : {0}", i1(1, 0), i1(0, 1), i1(1, 0)),
    ("arith.cmpi ult, %0, %1 : {0}", i1(1, 0), i1(0, 1), i1(0, 1)),
    ("arith.addf %0, %1 : {0}", f32(1, 2**24, INF), f32(2, 1, -INF), f32(3, 2**24, NAN)),
    ("arith.addf %0, %1 : {0}", f16(2048, 65504), f16(1, 65504), f16(2048, INF)),
    ("arith.addf %0, %1 : {0}", bf16(256, 1), bf16(1, 2), bf16(256, 3)),
    ("arith.subf %0, %1 : {0}", f64(0.5, 1), f64(0.25, 1), f64(0.25, 0)),
    ("arith.mulf %0, %1 : {0}", f32(-2, 0), f32(3, -1), f32(-6, -0.0)),
    ("arith.mulf %0, %1 : {0}", f16(ONE, 2), f16(ONE, 4), f16(1 + 2**-9, 8)),
    ("arith.divf %0, %1 : {0}", f32(1, -1, 0), f32(0, 4, 0), f32(INF, -0.25, NAN)),
    ("arith.remf %0, %1 : {0}", f32(-7, 7, 5.5), f32(2, -2, 0), f32(-1, 1, NAN)),
    ("arith.negf %0 : {0}", f32(0, -1), f32(-0.0, 1)),
    ("arith.maximumf %0, %1 : {0}", f32(1, NAN, -0.0, 0), f32(2, 1, 0, -0.0), f32(2, NAN, 0, 0)),
    ("arith.minimumf %0, %1 : {0}", f32(1, 1, -0.0, 0), f32(2, NAN, 0, -0.0),
     f32(1, NAN, -0.0, -0.0)),
    ("arith.maxnumf %0, %1 : {0}", f32(1, NAN, NAN), f32(2, 1, NAN), f32(2, 1, NAN)),
    ("arith.minnumf %0, %1 : {0}", f32(1, 1, NAN), f32(2, NAN, NAN), f32(1, 1, NAN)),
    ("math.absf %0 : {0}", bf16(-1.5, -0.0), bf16(1.5, 0)),
    ("math.ceil %0 : {0}", f32(1.2, -1.2, -0.5), f32(2, -1, -0.0)),
    ("math.floor %0 : {0}", f32(1.2, -1.2), f32(1, -2)),
    ("math.trunc %0 : {0}", f32(1.7, -1.7), f32(1, -1)),
    ("math.round %0 : {0}", f32(0.5, -2.5, 1.4, -0.2, INF), f32(1, -3, 1, -0.0, INF)),
    ("math.round %0 : {0}", f64(0.49999999999999994, 2**53 + 1), f64(0, 2**53 + 1)),
    ("math.roundeven %0 : {0}", f32(0.5, -2.5, 1.5), f32(0, -2, 2)),
    ("math.copysign %0, %1 : {0}", f32(1, -2), f32(-0.0, 3), f32(-1, 2)),
    ("math.fma %0, %1, %2 : {0}", f32(1 + 2**-23), f32(1 - 2**-23), f32(-1), f32(-(2**-46))),
    ("math.fma %0, %1, %2 : {0}", f64(1 + 2**-30), f64(1 - 2**-30), f64(-1), f64(-(2**-60))),
    ("math.sqrt %0 : {0}", f32(4, -1, 0), f32(2, NAN, 0)),
    ("math.rsqrt %0 : {0}", f32(4, 0), f32(0.5, INF)),
    ("math.acos %0 : {0}", f32(1, 2), f32(0, NAN)),
    ("math.acosh %0 : {0}", f32(1, 0), f32(0, NAN)),
    ("math.asin %0 : {0}", f64(1, 0), f64(math.pi / 2, 0)),
    ("math.asinh %0 : {0}", f32(0, -INF), f32(0, -INF)),
    ("math.atan %0 : {0}", f32(0, INF), f32(0, math.pi / 2)),
    ("math.atan2 %0, %1 : {0}", f32(0, 1), f32(-1, 0), f32(math.pi, math.pi / 2)),
    ("math.atanh %0 : {0}", f32(0, 1), f32(0, INF)),
    ("math.cbrt %0 : {0}", f32(27, -8), f32(3, -2)),
    ("math.cos %0 : {0}", f32(0, INF), f32(1, NAN)),
    ("math.cosh %0 : {0}", f32(0, INF), f32(1, INF)),
    ("math.erf %0 : {0}", f32(0, INF, -INF), f32(0, 1, -1)),
    ("math.erfc %0 : {0}", f32(0, INF, -INF), f32(1, 0, 2)),
    ("math.exp %0 : {0}", f32(0, 1, -INF), f32(1, math.e, 0)),
    ("math.exp2 %0 : {0}", f16(3, -1), f16(8, 0.5)),
    ("math.expm1 %0 : {0}", f32(0, -INF), f32(0, -1)),
    ("math.log %0 : {0}", f32(1, 0, -1), f32(0, -INF, NAN)),
    ("math.log10 %0 : {0}", f32(1000, 1), f32(3, 0)),
    ("math.log1p %0 : {0}", f32(0, -1), f32(0, -INF)),
    ("math.log2 %0 : {0}", f32(8, 0.5), f32(3, -1)),
    ("math.powf %0, %1 : {0}", f32(2, -8, 0), f32(10, 0.5, 0), f32(1024, NAN, 1)),
    ("math.sin %0 : {0}", f32(0, INF), f32(0, NAN)),
    ("math.sinh %0 : {0}", f32(0, -INF), f32(0, -INF)),
    ("math.tan %0 : {0}", f32(0, INF), f32(0, NAN)),
    ("math.tanh %0 : {0}", f32(0, INF), f32(0, 1)),
    *[
        (f"arith.cmpf {name}, %0, %1 : {{0}}", f32(1, 2, 3, NAN), f32(2, 2, 2, 2), i1(*found))
        for name, found in {
            "false": (0, 0, 0, 0), "oeq": (0, 1, 0, 0), "ogt": (0, 0, 1, 0), "oge": (0, 1, 1, 0),
            "olt": (1, 0, 0, 0), "ole": (1, 1, 0, 0), "one": (1, 0, 1, 0), "ord": (1, 1, 1, 0),
            "ueq": (0, 1, 0, 1), "ugt": (0, 0, 1, 1), "uge": (0, 1, 1, 1), "ult": (1, 0, 0, 1),
            "ule": (1, 1, 0, 1), "une": (1, 0, 1, 1), "uno": (0, 0, 0, 1), "true": (1, 1, 1, 1),
        }.items()
    ],
    ("arith.select %0, %1, %2 : {0}, {1}", i1(1, 0), bf16(1, NAN), bf16(3, 4), bf16(1, 4)),
    ("arith.bitcast %0 : {0} to {r}", f32(1, -0.0), i32(0x3F800000, -(2**31))),
    ("arith.extf %0 : {0} to {r}", bf16(1.5, NAN), f32(1.5, NAN)),
    ("arith.truncf %0 : {0} to {r}", f32(1 + 2**-8, 1 + 3 * 2**-8), bf16(1, 1 + 2**-6)),
    ("arith.truncf %0 : {0} to {r}", f64(1e300, 0.5), f16(INF, 0.5)),
    ("arith.extsi %0 : {0} to {r}", i1(1, 0), i8(-1, 0)),
    ("arith.extsi %0 : {0} to {r}", i8(-2, 2), i64(-2, 2)),
    ("arith.extui %0 : {0} to {r}", i1(1, 0), i8(1, 0)),
    ("arith.extui %0 : {0} to {r}", i8(-2, 2), i64(254, 2)),
    ("arith.trunci %0 : {0} to {r}", i32(0x1FF, 0x180), i8(-1, -128)),
    ("arith.trunci %0 : {0} to {r}", i32(2, 3), i1(0, 1)),
    ("arith.fptosi %0 : {0} to {r}", f32(-1.7, 2.9, 300), i8(-1, 2, 44)),
    ("arith.fptosi %0 : {0} to {r}", f16(-1.7, 2.9), i64(-1, 2)),
    ("arith.fptoui %0 : {0} to {r}", f64(2.0**63, 1.5), i64(-(2**63), 1)),
    ("arith.sitofp %0 : {0} to {r}", i32(-3, 2**24 + 1), f32(-3, 2**24)),
    ("arith.sitofp %0 : {0} to {r}", i1(1, 0), f32(-1, 0)),
    ("arith.uitofp %0 : {0} to {r}", i1(1, 0), f32(1, 0)),
    ("arith.uitofp %0 : {0} to {r}", i8(-1, 1), bf16(255, 1)),
]  # fmt: skip
INDEX_CASTS = {"arith.index_cast", "arith.index_castui"}


def type_of(a):
    """The MLIR type of an array."""
    return "tensor<" + "".join(f"{n}x" for n in a.shape) + f"{E[a.dtype.name]}>"


@pytest.mark.parametrize("case", SCALARS, ids=lambda case: case[0].split(":")[0])
def test_ops_of_elements(case):
    op, *operands, expected = case
    types = [type_of(a) for a in operands]
    arguments = ", ".join(f"%arg{k}: {t}" for k, t in enumerate(types))
    for k in range(len(operands)):
        op = op.replace(f"%{k}", f"%arg{k}")
    text = f"""
      func.func @main({arguments}) -> {type_of(expected)} {{
        %r = {op.format(*types, r=type_of(expected))}
        return %r : {type_of(expected)}
      }}"""
    assert_same(result(text, *operands), expected)


def test_all_ops_of_elements_are_tested():
    known = {*integers.INTEGERS, *floats.FLOATS, *casts.CASTS}
    assert known - {case[0].split()[0] for case in SCALARS} == INDEX_CASTS


def test_users_integers_without_signs():
    text = """
      func.func @main(%a: tensor<2xi8>, %b: tensor<2xi8>) -> tensor<2xi8> {
        %r = arith.maxui %a, %b : tensor<2xi8>
        return %r : tensor<2xi8>
      }"""
    assert_same(result(text, np.uint8([255, 1]), np.uint8([3, 2])).view("u1"), np.uint8([255, 2]))
    with pytest.raises(ValueError, match="float32 of shape"):
        result(text, f32(1, 2), f32(1, 2))
    with pytest.raises(ValueError, match="of shape"):
        result(text, i8(1), i8(1, 2))


def test_an_unknown_op_is_named():
    text = """
      func.func @main(%a: tensor<2xi8>) -> tensor<2xi8> {
        %r, %o = arith.addui_extended %a, %a : tensor<2xi8>, tensor<2xi1>
        return %r : tensor<2xi8>
      }"""
    with pytest.raises(NotImplementedError, match="arith.addui_extended"):
        result(text, i8(1, 2))


# -- constants, tensors that nobody wrote to ------------------------------------------------------
def test_constants():
    text = """
      func.func @main() -> (tensor<2xi1>, tensor<3xi1>, tensor<2xbf16>, tensor<2x2xi64>) {
        %a = arith.constant dense<true> : tensor<2xi1>
        %b = arith.constant dense<[true, false, true]> : tensor<3xi1>
        %c = arith.constant dense<[1.5, -2.0]> : tensor<2xbf16>
        %d = arith.constant dense<[[1, -2], [3, 4]]> : tensor<2x2xi64>
        return %a, %b, %c, %d : tensor<2xi1>, tensor<3xi1>, tensor<2xbf16>, tensor<2x2xi64>
      }"""
    expected = i1(1, 1), i1(1, 0, 1), bf16(1.5, -2), i64([1, -2], [3, 4])
    for found, numbers in zip(results(text), expected, strict=True):
        assert_same(found, numbers)


def test_what_nobody_wrote_shows():
    text = """
      func.func @main() -> (tensor<2xf32>, tensor<2xi8>) {
        %a = tensor.empty() : tensor<2xf32>
        %b = tensor.empty() : tensor<2xi8>
        return %a, %b : tensor<2xf32>, tensor<2xi8>
      }"""
    a, b = results(text)
    assert np.isnan(a).all() and (b == unwritten([1], b.dtype)).all()


# -- tensors --------------------------------------------------------------------------------------
MATRIX = np.arange(24, dtype=np.float32).reshape(4, 6)


def matrix_op(op, type_):
    """The function of a matrix, of a row of it, and of a number."""
    return f"""
      func.func @main(%x: tensor<4x6xf32>, %row: tensor<6xf32>, %n: tensor<i64>) -> {type_} {{
        %number = tensor.extract %n[] : tensor<i64>
        %k = arith.index_cast %number : i64 to index
        {op}
        return %r : {type_}
      }}"""


ROW = np.float32([9, 8, 7, 6, 5, 4])
TENSORS = [
    ("%r = tensor.extract_slice %x[1, 2] [2, 3] [1, 1] : tensor<4x6xf32> to tensor<2x3xf32>",
     "tensor<2x3xf32>", 0, MATRIX[1:3, 2:5]),
    ("%r = tensor.extract_slice %x[1, 1] [2, 3] [2, 2] : tensor<4x6xf32> to tensor<2x3xf32>",
     "tensor<2x3xf32>", 0, MATRIX[1::2, 1::2]),
    ("%r = tensor.extract_slice %x[%k, 0] [1, 6] [1, 1] : tensor<4x6xf32> to tensor<6xf32>",
     "tensor<6xf32>", 2, MATRIX[2]),
    ("%r = tensor.extract_slice %x[1, 0] [%k, 1] [1, %k] : tensor<4x6xf32> to tensor<?xf32>",
     "tensor<?xf32>", 2, MATRIX[1:3, 0]),
    ("%r = tensor.extract_slice %x[0, %k] [4, 2] [1, %k] : tensor<4x6xf32> to tensor<4x2xf32>",
     "tensor<4x2xf32>", 2, MATRIX[:, 2:5:2]),
    ("%r = tensor.extract_slice %x[%k, 0] [0, 6] [1, 1] : tensor<4x6xf32> to tensor<0x6xf32>",
     "tensor<0x6xf32>", 4, MATRIX[4:]),
    ("%r = tensor.insert_slice %row into %x[%k, 0] [1, 6] [1, 1] : tensor<6xf32> into "
     "tensor<4x6xf32>", "tensor<4x6xf32>", 3, np.vstack([MATRIX[:3], ROW])),
    ("%s = tensor.extract_slice %row[0] [%k] [1] : tensor<6xf32> to tensor<?xf32>\n"
     "%r = tensor.insert_slice %s into %x[0, 0] [1, %k] [1, 3] : tensor<?xf32> into "
     "tensor<4x6xf32>", "tensor<4x6xf32>", 2,
     np.vstack([[9, 1, 2, 8, 4, 5], MATRIX[1:]]).astype("f4")),
    ("%r = tensor.expand_shape %x [[0], [1, 2]] output_shape [4, 2, 3] : tensor<4x6xf32> into "
     "tensor<4x2x3xf32>", "tensor<4x2x3xf32>", 0, MATRIX.reshape(4, 2, 3)),
    ("%s = tensor.extract_slice %x[0, 0] [%k, 6] [1, 1] : tensor<4x6xf32> to tensor<?x6xf32>\n"
     "%r = tensor.expand_shape %s [[0, 1], [2]] output_shape [1, %k, 6] : tensor<?x6xf32> into "
     "tensor<1x?x6xf32>", "tensor<1x?x6xf32>", 3, MATRIX[None, :3]),
    ("%r = tensor.collapse_shape %x [[0, 1]] : tensor<4x6xf32> into tensor<24xf32>",
     "tensor<24xf32>", 0, MATRIX.reshape(24)),
    ("%s = tensor.extract_slice %x[0, 0] [1, 1] [1, 1] : tensor<4x6xf32> to tensor<1x1xf32>\n"
     "%r = tensor.collapse_shape %s [] : tensor<1x1xf32> into tensor<f32>",
     "tensor<f32>", 0, np.array(0, np.float32)),
    ("%c = arith.constant 0.5 : f32\n"
     "%r = tensor.pad %row low[%k] high[2] {\n^bb0(%i: index):\ntensor.yield %c : f32\n} : "
     "tensor<6xf32> to tensor<?xf32>", "tensor<?xf32>", 1,
     np.pad(ROW, (1, 2), constant_values=0.5)),
    ("%r = tensor.concat dim(1) %x, %x : (tensor<4x6xf32>, tensor<4x6xf32>) -> tensor<4x12xf32>",
     "tensor<4x12xf32>", 0, np.hstack([MATRIX, MATRIX])),
    ("%s = tensor.extract %x[%k, %k] : tensor<4x6xf32>\n"
     "%r = tensor.insert %s into %row[%k] : tensor<6xf32>",
     "tensor<6xf32>", 2, np.float32([9, 8, 14, 6, 5, 4])),
    ("%r = tensor.cast %x : tensor<4x6xf32> to tensor<?x6xf32>", "tensor<?x6xf32>", 0, MATRIX),
    ("%s = tensor.extract_slice %x[0, 0] [%k, 6] [1, 1] : tensor<4x6xf32> to tensor<?x6xf32>\n"
     "%zero = arith.constant 0 : index\n%d = tensor.dim %s, %zero : tensor<?x6xf32>\n"
     "%m = affine.min affine_map<(d0)[s0] -> (d0 floordiv 2, s0 mod 4, 5)>(%d)[%k]\n"
     "%l = affine.max affine_map<(d0) -> (d0 ceildiv 2, 1)>(%d)\n"
     "%a = affine.apply affine_map<(d0, d1) -> (d0 * 3 + d1 - 1)>(%m, %l)\n"
     "%s2 = tensor.extract %row[%a] : tensor<6xf32>\n%e = tensor.empty(%d) : tensor<?xf32>\n"
     "%r = linalg.fill ins(%s2 : f32) outs(%e : tensor<?xf32>) -> tensor<?xf32>",
     "tensor<?xf32>", 3, np.float32([5, 5, 5])),  # 3 floordiv 2 = 1; 3 ceildiv 2 = 2; row[4]
    ("%i = arith.constant -1 : i8\n%j = arith.index_castui %i : i8 to index\n"
     "%c = arith.constant 250 : index\n%d = arith.subi %j, %c : index\n"
     "%s = tensor.extract %row[%d] : tensor<6xf32>\n%e = tensor.empty() : tensor<f32>\n"
     "%r = tensor.insert %s into %e[] : tensor<f32>",
     "tensor<f32>", 0, np.array(4, np.float32)),
]  # fmt: skip


@pytest.mark.parametrize("case", TENSORS, ids=lambda case: case[0].split("\n")[0][:60])
def test_ops_of_tensors(case):
    op, type_, number, expected = case
    given = MATRIX.copy(), ROW.copy(), np.array(number)
    assert_same(result(matrix_op(op, type_), *given), expected)
    assert_same(given[0], MATRIX)  # tensors are values


@pytest.mark.parametrize(
    "op, number",
    [
        ("%r = tensor.extract_slice %x[%k, 0] [2, 6] [1, 1] : tensor<4x6xf32> to tensor<2x6xf32>",
         3),
        ("%r = tensor.extract_slice %x[%k, 0] [2, 6] [1, 1] : tensor<4x6xf32> to tensor<2x6xf32>",
         -1),
        ("%s = tensor.extract_slice %x[0, 0] [%k, 6] [1, 1] : tensor<4x6xf32> to tensor<?x6xf32>\n"
         "%r = tensor.cast %s : tensor<?x6xf32> to tensor<2x6xf32>", -1),
        ("%s = tensor.extract %x[%k, %k] : tensor<4x6xf32>\n%e = tensor.empty() : tensor<2x6xf32>\n"
         "%r = linalg.fill ins(%s : f32) outs(%e : tensor<2x6xf32>) -> tensor<2x6xf32>", 4),
        ("%s = tensor.extract_slice %row[0] [%k] [1] : tensor<6xf32> to tensor<?xf32>\n"
         "%m = affine.apply affine_map<(d0) -> (d0 + 1)>(%k)\n"
         "%e = tensor.empty() : tensor<2x6xf32>\n"
         "%r = tensor.insert_slice %s into %e[0, 0] [1, %m] [1, 1] : tensor<?xf32> into "
         "tensor<2x6xf32>", 5),
        ("%c = arith.constant 0.5 : f32\n%e = tensor.empty() : tensor<2x6xf32>\n"
         "%r = tensor.pad %e low[0, %k] high[0, 0] {\n^bb0(%i: index, %j: index):\n"
         "tensor.yield %c : f32\n} : tensor<2x6xf32> to tensor<2x6xf32>", -1),
    ],
)  # fmt: skip
def test_what_is_outside_of_a_tensor_is_refused(op, number):
    with pytest.raises(IndexError):
        result(matrix_op(op, "tensor<2x6xf32>"), MATRIX, ROW, np.array(number))


def test_a_shape_that_is_not_that_of_the_type_is_refused():
    op = """
      %s = tensor.extract_slice %x[0, 0] [%k, 6] [1, 1] : tensor<4x6xf32> to tensor<?x6xf32>
      %r = tensor.cast %s : tensor<?x6xf32> to tensor<2x6xf32>"""
    with pytest.raises(ValueError, match="tensor.cast makes a tensor"):
        result(matrix_op(op, "tensor<2x6xf32>"), MATRIX, ROW, np.array(3))


def test_the_body_of_a_pad_may_use_where_it_is():
    text = """
      func.func @main(%x: tensor<1x1xi64>) -> tensor<2x3xi64> {
        %r = tensor.pad %x low[0, 1] high[1, 1] {
        ^bb0(%i: index, %j: index):
          %c = arith.constant 10 : index
          %a = arith.muli %i, %c : index
          %b = arith.addi %a, %j : index
          %v = arith.index_cast %b : index to i64
          tensor.yield %v : i64
        } : tensor<1x1xi64> to tensor<2x3xi64>
        return %r : tensor<2x3xi64>
      }"""
    assert_same(result(text, i64([7])), i64([0, 7, 2], [10, 11, 12]))


# -- loops and branches ---------------------------------------------------------------------------
def test_a_loop_hands_on_its_results():
    text = """
      func.func @main(%x: tensor<7xi64>, %zero: tensor<i64>) -> (tensor<7xi64>, tensor<i64>) {
        %c0 = arith.constant 0 : index
        %c3 = arith.constant 3 : index
        %c7 = arith.constant 7 : index
        %e = tensor.empty() : tensor<7xi64>
        %r:2 = scf.for %i = %c0 to %c7 step %c3 iter_args(%a = %e, %n = %zero)
            -> (tensor<7xi64>, tensor<i64>) {
          %left = affine.min affine_map<(d0) -> (3, 7 - d0)>(%i)
          %t = tensor.extract_slice %x[%i] [%left] [1] : tensor<7xi64> to tensor<?xi64>
          %d = arith.addi %t, %t : tensor<?xi64>
          %b = tensor.insert_slice %d into %a[%i] [%left] [1] : tensor<?xi64> into tensor<7xi64>
          %old = tensor.extract %n[] : tensor<i64>
          %step = arith.index_cast %i : index to i64
          %new = arith.addi %old, %step : i64
          %m = tensor.insert %new into %n[] : tensor<i64>
          scf.yield %b, %m : tensor<7xi64>, tensor<i64>
        }
        return %r#0, %r#1 : tensor<7xi64>, tensor<i64>
      }"""
    doubled, total = results(text, np.arange(7), np.array(0))
    assert_same(doubled, 2 * np.arange(7))
    assert total == 0 + 3 + 6


@pytest.mark.parametrize("number, expected", [(2, [0, 1]), (1, [5, 5])])
def test_a_branch(number, expected):
    text = """
      func.func @main(%n: tensor<i64>, %x: tensor<2xi64>) -> tensor<2xi64> {
        %v = tensor.extract %n[] : tensor<i64>
        %c2 = arith.constant 2 : i64
        %is = arith.cmpi eq, %v, %c2 : i64
        %r = scf.if %is -> (tensor<2xi64>) {
          scf.yield %x : tensor<2xi64>
        } else {
          %c5 = arith.constant dense<5> : tensor<2xi64>
          scf.yield %c5 : tensor<2xi64>
        }
        return %r : tensor<2xi64>
      }"""
    assert_same(result(text, np.array(number), np.arange(2)), i64(*expected))


def test_a_branch_without_results():
    text = """
      func.func @main(%n: tensor<i1>, %x: tensor<2xi64>) -> tensor<2xi64> {
        %v = tensor.extract %n[] : tensor<i1>
        scf.if %v {
        }
        return %x : tensor<2xi64>
      }"""
    for number in (False, True):
        assert_same(result(text, np.array(number), np.arange(2)), i64(0, 1))


@pytest.mark.parametrize("seed", range(3))
def test_iterations_that_run_at_the_same_time(seed):
    text = """
      func.func @main(%x: tensor<4x6xi64>) -> tensor<4x6xi64> {
        %e = tensor.empty() : tensor<4x6xi64>
        %c6 = arith.constant 6 : index
        %r = scf.forall (%i, %j) = (0, 0) to (4, %c6) step (2, 3)
            shared_outs(%o = %e) -> tensor<4x6xi64> {
          %t = tensor.extract_slice %x[%i, %j] [2, 3] [1, 1] : tensor<4x6xi64> to tensor<2x3xi64>
          %s = arith.muli %t, %t : tensor<2x3xi64>
          scf.forall.in_parallel {
            tensor.parallel_insert_slice %s into %o[%i, %j] [2, 3] [1, 1]
              : tensor<2x3xi64> into tensor<4x6xi64>
          }
        } {mapping = [#gpu.thread<y>, #gpu.thread<x>]}
        return %r : tensor<4x6xi64>
      }"""
    x = np.arange(24).reshape(4, 6)
    assert_same(result(text, x, seed=seed), x * x)
    overlapping = text.replace("%o[%i, %j]", "%o[%i, 0]")
    with pytest.raises(IndexError, match="two iterations write"):
        result(overlapping, x, seed=seed)


def test_iterations_write_to_the_result_that_they_name():
    text = """
      func.func @main(%x: tensor<2xi64>) -> (tensor<2xi64>, tensor<2xi64>) {
        %e = tensor.empty() : tensor<2xi64>
        %r:2 = scf.forall (%i) in (2) shared_outs(%o = %e, %p = %e)
            -> (tensor<2xi64>, tensor<2xi64>) {
          %a = tensor.extract_slice %x[%i] [1] [1] : tensor<2xi64> to tensor<1xi64>
          %b = arith.addi %a, %a : tensor<1xi64>
          scf.forall.in_parallel {
            tensor.parallel_insert_slice %b into %p[%i] [1] [1] : tensor<1xi64> into tensor<2xi64>
            tensor.parallel_insert_slice %a into %o[%i] [1] [1] : tensor<1xi64> into tensor<2xi64>
          }
        }
        return %r#0, %r#1 : tensor<2xi64>, tensor<2xi64>
      }"""
    once, twice = results(text, i64(3, 4))
    assert_same(once, i64(3, 4))
    assert_same(twice, i64(6, 8))


# -- tensors that slices are put into in place ----------------------------------------------------
def test_a_tensor_that_is_used_again_stays_as_it_is():
    """The first insertion makes a tensor of its own; the second one must not change it."""
    text = """
      func.func @main(%x: tensor<4xf32>, %s: tensor<2xf32>, %t: tensor<2xf32>)
          -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) {
        %a = tensor.insert_slice %s into %x[0] [2] [1] : tensor<2xf32> into tensor<4xf32>
        %b = tensor.insert_slice %t into %a[1] [2] [1] : tensor<2xf32> into tensor<4xf32>
        return %x, %a, %b : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
      }"""
    x, a, b = results(text, np.float32([1, 2, 3, 4]), np.float32([5, 6]), np.float32([7, 8]))
    np.testing.assert_array_equal([x, a, b], [[1, 2, 3, 4], [5, 6, 3, 4], [5, 7, 8, 4]])


def test_a_tensor_from_outside_of_a_loop_is_the_same_in_each_iteration():
    text = """
      func.func @main(%x: tensor<3xf32>, %s: tensor<1xf32>) -> tensor<3xf32> {
        %c0 = arith.constant 0 : index
        %c1 = arith.constant 1 : index
        %c3 = arith.constant 3 : index
        %a = tensor.insert_slice %s into %x[0] [1] [1] : tensor<1xf32> into tensor<3xf32>
        %r = scf.for %i = %c0 to %c3 step %c1 iter_args(%o = %x) -> tensor<3xf32> {
          %b = tensor.insert_slice %s into %a[%i] [1] [1] : tensor<1xf32> into tensor<3xf32>
          %sum = arith.addf %o, %b : tensor<3xf32>
          scf.yield %sum : tensor<3xf32>
        }
        return %r : tensor<3xf32>
      }"""
    [found] = results(text, np.float32([0, 0, 0]), np.float32([1]))
    np.testing.assert_array_equal(found, [3, 1, 1])


def test_a_loop_does_not_change_what_it_begins_with():
    text = """
      func.func @main(%x: tensor<3xf32>, %s: tensor<1xf32>) -> (tensor<3xf32>, tensor<3xf32>) {
        %c0 = arith.constant 0 : index
        %c1 = arith.constant 1 : index
        %c2 = arith.constant 2 : index
        %a = tensor.insert_slice %s into %x[0] [1] [1] : tensor<1xf32> into tensor<3xf32>
        %r = scf.for %i = %c1 to %c2 step %c1 iter_args(%o = %a) -> tensor<3xf32> {
          %b = tensor.insert_slice %s into %o[%i] [1] [1] : tensor<1xf32> into tensor<3xf32>
          scf.yield %b : tensor<3xf32>
        }
        return %a, %r : tensor<3xf32>, tensor<3xf32>
      }"""
    a, r = results(text, np.float32([0, 0, 0]), np.float32([1]))
    np.testing.assert_array_equal([a, r], [[1, 0, 0], [1, 1, 0]])


def test_a_tensor_of_no_dims_gets_its_element():
    text = """
      func.func @main(%x: tensor<f32>, %s: tensor<f32>) -> tensor<f32> {
        %a = tensor.insert_slice %s into %x[] [] [] : tensor<f32> into tensor<f32>
        return %a : tensor<f32>
      }"""
    [found] = results(text, np.float32(1), np.float32(2))
    np.testing.assert_array_equal(found, 2)
