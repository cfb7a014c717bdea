"""Typed operations: what each of them prints, for scalars and for vectors."""

import pytest

from rcompiler.kernelgen.emitter import Emitter
from rcompiler.kernelgen.value import Val
from rcompiler.linalg.affine import Linear

X, Y, Z = (Val(f"%{n}", "f32") for n in "xyz")
VX, VY = (Val(f"%{n}", "f32", 8) for n in "xy")
A, B = (Val(f"%{n}", "i32") for n in "ab")
VA, VB = (Val(f"%{n}", "i32", 4) for n in "ab")
N = Linear.of("%n")


def written(write, has_fma=True):
    """The result, and the operations without the names of their results."""
    e = Emitter(8, has_fma=has_fma)
    result = write(e)
    return result, [line.partition(" = ")[2] for line in e.text()]


@pytest.mark.parametrize(
    "write, text",
    [
        (lambda e: e.add(X, Y), "arith.addf %x, %y : f32"),
        (lambda e: e.add(VX, VY), "arith.addf %x, %y : vector<8xf32>"),
        (lambda e: e.add(VA, VB), "arith.addi %a, %b : vector<4xi32>"),
        (lambda e: e.sub(X, Y), "arith.subf %x, %y : f32"),
        (lambda e: e.sub(A, B), "arith.subi %a, %b : i32"),
        (lambda e: e.mul(X, Y), "arith.mulf %x, %y : f32"),
        (lambda e: e.mul(A, B), "arith.muli %a, %b : i32"),
        (lambda e: e.div(X, Y), "arith.divf %x, %y : f32"),
        (lambda e: e.div_unsigned(A, B), "arith.divui %a, %b : i32"),
        (lambda e: e.rem_unsigned(A, B), "arith.remui %a, %b : i32"),
        (lambda e: e.maximum(X, Y), "arith.maximumf %x, %y : f32"),
        (lambda e: e.minimum(X, Y), "arith.minimumf %x, %y : f32"),
        (lambda e: e.max_signed(A, B), "arith.maxsi %a, %b : i32"),
        (lambda e: e.min_signed(A, B), "arith.minsi %a, %b : i32"),
        (lambda e: e.neg(X), "arith.negf %x : f32"),
        (lambda e: e.abs(VX), "math.absf %x : vector<8xf32>"),
        (lambda e: e.sqrt(X), "math.sqrt %x : f32"),
        (lambda e: e.copysign(X, Y), "math.copysign %x, %y : f32"),
        (lambda e: e.math("roundeven", X), "math.roundeven %x : f32"),
        (lambda e: e.elementwise("arith.remf", X, Y), "arith.remf %x, %y : f32"),
        (lambda e: e.bit_and(A, B), "arith.andi %a, %b : i32"),
        (lambda e: e.bit_or(A, B), "arith.ori %a, %b : i32"),
        (lambda e: e.bit_xor(A, B), "arith.xori %a, %b : i32"),
        (lambda e: e.shift_left(A, B), "arith.shli %a, %b : i32"),
        (lambda e: e.shift_right_signed(A, B), "arith.shrsi %a, %b : i32"),
        (lambda e: e.shift_right_unsigned(A, B), "arith.shrui %a, %b : i32"),
    ],
)
def test_the_result_has_the_type_of_the_operands(write, text):
    result, lines = written(write)
    assert lines == [text]
    assert text.endswith(f" : {result.type}")


@pytest.mark.parametrize(
    "write, text, type_",
    [
        (lambda e: e.compare("olt", X, Y), "arith.cmpf olt, %x, %y : f32", "i1"),
        (
            lambda e: e.compare("uno", VX, VX),
            "arith.cmpf uno, %x, %x : vector<8xf32>",
            "vector<8xi1>",
        ),
        (lambda e: e.compare("slt", A, B), "arith.cmpi slt, %a, %b : i32", "i1"),
        (lambda e: e.select(Val("%c", "i1"), X, Y), "arith.select %c, %x, %y : f32", "f32"),
        (
            lambda e: e.select(Val("%c", "i1"), VX, VY),
            "arith.select %c, %x, %y : vector<8xf32>",
            "vector<8xf32>",
        ),
        (
            lambda e: e.select(Val("%c", "i1", 8), VX, VY),
            "arith.select %c, %x, %y : vector<8xi1>, vector<8xf32>",
            "vector<8xf32>",
        ),
        (lambda e: e.convert("sitofp", A, "f32"), "arith.sitofp %a : i32 to f32", "f32"),
        (
            lambda e: e.convert("extf", VX, "f64"),
            "arith.extf %x : vector<8xf32> to vector<8xf64>",
            "vector<8xf64>",
        ),
        (
            lambda e: e.bitcast(VX, "i32"),
            "arith.bitcast %x : vector<8xf32> to vector<8xi32>",
            "vector<8xi32>",
        ),
        (
            lambda e: e.bitcast(VA, "i16", 8, dialect="vector"),
            "vector.bitcast %a : vector<4xi32> to vector<8xi16>",
            "vector<8xi16>",
        ),
        (
            lambda e: e.bitcast(A, "f16", 2, dialect="llvm"),
            "llvm.bitcast %a : i32 to vector<2xf16>",
            "vector<2xf16>",
        ),
        (lambda e: e.splat(X, 8), "vector.broadcast %x : f32 to vector<8xf32>", "vector<8xf32>"),
        (
            lambda e: e.gather_lanes([X, Y]),
            "vector.from_elements %x, %y : vector<2xf32>",
            "vector<2xf32>",
        ),
        (lambda e: e.lane(VX, 3), "vector.extract %x[3] : f32 from vector<8xf32>", "f32"),
        (
            lambda e: e.shuffle(VX, VY, range(0, 16, 4)),
            "vector.shuffle %x, %y [0, 4, 8, 12] : vector<8xf32>, vector<8xf32>",
            "vector<4xf32>",
        ),
        (
            lambda e: e.across("or", Val("%m", "i1", 8)),
            "vector.reduction <or>, %m : vector<8xi1> into i1",
            "i1",
        ),
        (
            lambda e: e.across("add", VX, fastmath="reassoc"),
            "vector.reduction <add>, %x fastmath<reassoc> : vector<8xf32> into f32",
            "f32",
        ),
        (lambda e: e.call("sinf", [X], "f32"), "llvm.call @sinf(%x) : (f32) -> f32", "f32"),
        (
            lambda e: e.intrinsic("llvm.x86.sse2.pmadd.wd", [VA, VB], "i32", 4),
            'llvm.call_intrinsic "llvm.x86.sse2.pmadd.wd"(%a, %b)'
            " : (vector<4xi32>, vector<4xi32>) -> vector<4xi32>",
            "vector<4xi32>",
        ),
    ],
)
def test_the_result_has_a_type_of_its_own(write, text, type_):
    result, lines = written(write)
    assert (lines, result.type) == ([text], type_)


def test_numbers_take_the_type_of_the_other_operand():
    _, lines = written(lambda e: e.sub(1.0, VX))
    assert lines == [
        "arith.constant dense<0x3F800000> : vector<8xf32>",
        "arith.subf %k1, %x : vector<8xf32>",
    ]
    _, lines = written(lambda e: e.shift_left(A, 23))
    assert lines == ["arith.constant 23 : i32", "arith.shli %a, %k1 : i32"]
    _, lines = written(lambda e: e.select(Val("%c", "i1"), X, 0.0))
    assert lines == ["arith.constant 0x00000000 : f32", "arith.select %c, %x, %k1 : f32"]


def test_linear_expressions_are_indices():
    result, lines = written(lambda e: e.compare("slt", N * 2, 7))
    assert lines == [
        "arith.constant 2 : i64",
        "arith.muli %n, %k1 overflow<nsw> : i64",
        "arith.constant 7 : i64",
        "arith.cmpi slt, %v2, %k3 : i64",
    ]
    assert result.type == "i1"


def test_indices_are_symbols():
    result, _ = written(lambda e: e.div_unsigned(N, 3))
    assert result.symbol == Linear.of(result.name)
    assert written(lambda e: e.number(N * 2 + 1))[0].symbol == N * 2 + 1


def test_fma_is_fused_where_the_target_can():
    assert written(lambda e: e.fma(X, Y, Z))[1] == ["math.fma %x, %y, %z : f32"]
    assert written(lambda e: e.fma(VX, Y, Z))[1] == [
        "vector.broadcast %y : f32 to vector<8xf32>",
        "vector.broadcast %z : f32 to vector<8xf32>",
        "vector.fma %x, %v1, %v2 : vector<8xf32>",
    ]
    assert written(lambda e: e.fma(X, Y, Z), has_fma=False)[1] == [
        "arith.mulf %x, %y : f32",
        "arith.addf %v1, %z : f32",
    ]


def test_what_is_one_value_needs_no_operation():
    assert written(lambda e: e.lane(X, 3)) == (X, [])
    assert written(lambda e: e.splat(X, 0)) == (X, [])
    assert written(lambda e: e.splat(VX, 8)) == (VX, [])


def test_guarded_operations_stay_in_their_branch():
    def branch(e, ops):
        [result] = e.branch("%c", lambda: [ops(e).add(X, Y)], lambda: [X])
        return result

    _, hoisted = written(lambda e: branch(e, lambda e: e))
    _, guarded = written(lambda e: branch(e, lambda e: e.guarded))
    assert hoisted[0] == "arith.addf %x, %y : f32"
    assert guarded[0].startswith("scf.if") and "arith.addf %x, %y : f32" in guarded


def test_results_may_have_another_prefix():
    e = Emitter(8, has_fma=True)
    assert e.named("lane").rem_unsigned(N, 32).name == "%lane2"
