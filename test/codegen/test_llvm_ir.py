"""codegen/llvm_ir.py: every constant survives the way from LLVM 24's text to LLVM 22's parser."""

import llvmlite.binding as llvm
import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rcompiler.codegen.llvm_ir import llvm_ir
from rcompiler.errors import PipelineError

TYPES = {
    "f16": ("half", np.float16, np.uint16, "0xH"),
    "bf16": ("bfloat", ml_dtypes.bfloat16, np.uint16, "0xR"),
    "f32": ("float", np.float32, np.uint32, "0x"),
    "f64": ("double", np.float64, np.uint64, "0x"),
}


def module_of(kind: str, bits: int) -> str:
    width = np.dtype(TYPES[kind][2]).itemsize * 8
    literal = f"0x{bits:0{width // 4}X}"
    return f"""module {{ llvm.func @f(%a: {kind}) -> {kind} {{
      %c = llvm.mlir.constant({literal} : {kind}) : {kind}
      %r = llvm.fsub %a, %c : {kind}
      llvm.return %r : {kind} }} }}"""


def expected(kind: str, bits: int) -> str:
    name, dtype, raw, prefix = TYPES[kind]
    if kind == "f32":
        value = np.array(bits, raw).view(dtype)
        if np.isnan(value):
            return f"0x{(bits >> 31) << 63 | 0x7FF << 52 | (bits & 0x7FFFFF) << 29:016X}"
        return f"0x{value.astype(np.float64).view(np.uint64).item():016X}"
    return f"{prefix}{bits:0{np.dtype(raw).itemsize * 2}X}"


@pytest.mark.parametrize("kind", TYPES)
@settings(max_examples=60)
@given(data=st.data())
def test_any_bits_arrive(kind: str, data: st.DataObject):
    width = np.dtype(TYPES[kind][2]).itemsize * 8
    bits = data.draw(st.integers(0, 2**width - 1))
    text = llvm_ir(module_of(kind, bits))
    line = next(line for line in text.splitlines() if "fsub" in line)
    assert line.split(", ")[-1] == expected(kind, bits)
    llvm.parse_assembly(text).verify()


@pytest.mark.parametrize("kind", TYPES)
def test_special_values(kind: str):
    dtype, raw = TYPES[kind][1:3]
    for value in (0.0, -0.0, 1.0, 0.1, np.inf, -np.inf, np.nan, -np.nan):
        bits = int(np.array(value).astype(dtype).view(raw))
        text = llvm_ir(module_of(kind, bits))
        assert expected(kind, bits) in text
        llvm.parse_assembly(text).verify()


def test_vector_phi_and_global_constants_are_read():
    text = llvm_ir("""module {
      llvm.mlir.global internal constant @t(dense<[0.1, 3.4]> : tensor<2xf32>)
        : !llvm.array<2 x f32>
      llvm.func @f(%c: i1, %p: !llvm.ptr) -> f32 {
        %x = llvm.mlir.constant(0.1 : f32) : f32
        %y = llvm.mlir.constant(0.7 : f32) : f32
        %v = llvm.mlir.constant(dense<0.3> : vector<4xf32>) : vector<4xf32>
        llvm.store %v, %p : vector<4xf32>, !llvm.ptr
        llvm.cond_br %c, ^b(%x : f32), ^a
      ^a:
        llvm.br ^b(%y : f32)
      ^b(%r: f32):
        llvm.return %r : f32 } }""")
    llvm.parse_assembly(text).verify()
    assert "0.1" not in text and "e-01" not in text


def test_inline_assembly_is_left_alone():
    text = llvm_ir("""module { llvm.func @f(%a: f32) -> f32 {
      %c = llvm.mlir.constant(0.1 : f32) : f32
      %s = llvm.fadd %a, %c : f32
      %r = llvm.inline_asm "# float 0.1, 0.1" , "=x,x" %s : (f32) -> f32
      llvm.return %r : f32 } }""")
    assert '"# float 0.1, 0.1"' in text and text.count("0.1") == 2
    llvm.parse_assembly(text).verify()


def test_an_operation_without_translation_is_refused_by_name():
    text = "module { func.func @f(%a: f32) -> f32 { %0 = math.erf %a : f32 return %0 : f32 } }"
    with pytest.raises(PipelineError, match="'math.erf' at .*lower every operation"):
        llvm_ir(text)


def test_text_that_does_not_parse_is_refused():
    with pytest.raises(PipelineError, match="does not parse"):
        llvm_ir("module { llvm.func ")
