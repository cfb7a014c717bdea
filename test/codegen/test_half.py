"""codegen/half.py: our f16 and bf16 conversions against numpy and ml_dtypes, bit for bit."""

import ctypes
from functools import cache

import ml_dtypes
import numpy as np
import pytest

from rcompiler.codegen import veu
from rcompiler.codegen.cpu import Target, compile_objects
from rcompiler.codegen.link import link
from rcompiler.runtime.image import LoadedImage

PAIRS = {
    ("f32", "f16"): (np.float32, np.float16),
    ("f64", "f16"): (np.float64, np.float16),
    ("f32", "bf16"): (np.float32, ml_dtypes.bfloat16),
    ("f64", "bf16"): (np.float64, ml_dtypes.bfloat16),
    ("f16", "f32"): (np.float16, np.float32),
}


@cache
def loaded() -> LoadedImage:
    """x86-64 without F16C: LLVM calls the conversions instead of using instructions."""
    functions = []
    for source, result in PAIRS:
        op = "fpext" if result == "f32" else "fptrunc"
        functions.append(f"""llvm.func @{source}_{result}(%x: !llvm.ptr, %y: !llvm.ptr, %n: i64) {{
          %c0 = llvm.mlir.constant(0 : i64) : i64
          %c1 = llvm.mlir.constant(1 : i64) : i64
          llvm.br ^l(%c0 : i64)
        ^l(%i: i64):
          %m = llvm.icmp "slt" %i, %n : i64
          llvm.cond_br %m, ^b, ^d
        ^b:
          %p = llvm.getelementptr %x[%i] : (!llvm.ptr, i64) -> !llvm.ptr, {source}
          %q = llvm.getelementptr %y[%i] : (!llvm.ptr, i64) -> !llvm.ptr, {result}
          %v = llvm.load %p : !llvm.ptr -> {source}
          %w = llvm.{op} %v : {source} to {result}
          llvm.store %w, %q : {result}, !llvm.ptr
          %i1 = llvm.add %i, %c1 : i64
          llvm.br ^l(%i1 : i64)
        ^d:
          llvm.return }}""")
    texts = [veu.module_text(), "module {" + "\n".join(functions) + "}"]
    return LoadedImage(link(compile_objects(texts, Target.named("x86-64"), jobs=1)))


def convert(source: str, result: str, x: np.ndarray) -> np.ndarray:
    y = np.empty(x.shape, PAIRS[source, result][1])
    function = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)
    function(loaded().function(f"{source}_{result}"))(x.ctypes.data, y.ctypes.data, x.size)
    return y


def inputs(source: str) -> np.ndarray:
    if source == "f16":
        return np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    rng = np.random.default_rng(0)
    halves = np.arange(1 << 16, dtype=np.uint16).view(np.float16).astype(np.float64)
    between = (halves[:-1] + halves[1:]) / 2  # ties
    if source == "f32":
        bits = rng.integers(0, 1 << 32, 200_000, dtype=np.uint32).view(np.float32)
        return np.concatenate([bits, halves, between]).astype(np.float32)
    near = between * (1 + rng.choice([-1, 0, 1], between.size) * 2.0**-50)  # ties, just missed
    return np.concatenate([rng.normal(size=100_000) * 10.0 ** rng.uniform(-9, 6, 100_000), near])


@pytest.mark.filterwarnings("ignore:overflow|invalid:RuntimeWarning")
@pytest.mark.parametrize("pair", [p for p in PAIRS if p != ("f64", "bf16")])
def test_bits_agree(pair: tuple[str, str]):
    x = inputs(pair[0])
    ours, reference = convert(*pair, x), x.astype(PAIRS[pair][1])
    nan = np.isnan(x)
    assert np.isnan(ours[nan].astype(np.float64)).all()
    assert ours[~nan].tobytes() == reference[~nan].tobytes()


def test_f64_to_bf16_rounds_once():
    """ml_dtypes goes through f32 and rounds twice, so the reference is exact arithmetic."""
    rng = np.random.default_rng(1)
    low = rng.integers(0x0080, 0x7F00, 5000).astype(np.uint16)
    a, b = (v.view(ml_dtypes.bfloat16).astype(np.float64) for v in (low, low + np.uint16(1)))
    tie = (a + b) / 2
    for shift, expect in ((-1, a), (1, b), (0, np.where(low % 2, b, a))):
        ours = convert("f64", "bf16", tie * (1 + shift * 2.0**-50)).astype(np.float64)
        assert np.array_equal(ours, expect)
