"""gpu/division.py: quotients of f32 that are rounded once, without a call: on the emulated GPU."""

import sys
from pathlib import Path

import numpy as np
import pytest
from torch_mlir import ir

from rcompiler import dialects
from rcompiler.codegen.ptx import ptx
from rcompiler.emulator.driver import EmulatedDriver
from rcompiler.emulator.numbers import floats
from rcompiler.passes._pipeline_text import runner

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))
from toolkit import needs_sass  # noqa: E402

THREADS, COUNT = 1024, 1 << 14
ENDS = np.array([0, 1, np.inf, np.nan, 2.0**-149, 2.0**-126, 3.4028235e38, 3, 7], np.float32)


def code(body: str, chip: str = "sm_80") -> bytes:
    """A kernel: each thread computes %y, an f32, of its %a and %b, and stores it over %a."""
    arrays = f"memref<{COUNT}xf32>"
    text = f"""gpu.module @kernels {{ gpu.func @k(%p: {arrays}, %q: {arrays}) kernel {{
      %t = gpu.thread_id x
      %block = gpu.block_id x
      %threads = arith.constant {THREADS} : index
      %before = arith.muli %block, %threads : index
      %i = arith.addi %before, %t : index
      %a = memref.load %p[%i] : {arrays}
      %b = memref.load %q[%i] : {arrays}
      {body}
      memref.store %y, %p[%i] : {arrays}
      gpu.return }} }}"""
    with dialects.load(ir.Context()) as context, ir.Location.unknown():
        module = ir.Module.parse(text)
        runner(f"gpu-to-nvvm{{chip={chip}}}", context)(module)
        return ptx(module).text


def run(text: bytes, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    device = EmulatedDriver(capability=(8, 0), multiprocessors=1)
    places = [device.allocate(a.nbytes) for _ in range(2)]
    for place, array in zip(places, (a, b), strict=True):
        device.write(place, array.view(np.uint8))
    grid = (a.size // THREADS, 1, 1)
    arguments = [np.uint64(place) for place in places]
    device.launch(device.function(device.load(text), "k"), grid, (THREADS, 1, 1), 0, arguments)
    return device.read(places[0], a.nbytes).view(np.float32)


def numbers(rng: np.random.Generator) -> np.ndarray:
    """Of every exponent, subnormal ones too, with few bits or many."""
    bits = rng.integers(0, 1 << 32, COUNT, dtype=np.uint64).astype(np.uint32)
    few = rng.random(COUNT) < 0.3
    bits[few] &= np.uint32(0xFFFF0000)
    found = bits.view(np.float32)
    subnormal = rng.random(COUNT) < 0.1
    found[subnormal] = (bits[subnormal] & np.uint32(0x807FFFFF)).view(np.float32)
    return found


def operands(seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Random ones; quotients next to the middle of two numbers; and all pairs of special ones."""
    rng = np.random.default_rng(seed)
    a, b = numbers(rng), numbers(rng)
    half = COUNT // 2
    b[:half] = rng.integers(1 << 23, 1 << 24, half)
    middles = rng.integers(1 << 24, 1 << 25, half) | 1
    a[:half] = (middles * b[:half].astype(np.float64)).astype(np.float32)
    scale = rng.integers(-170, 60, half)  # results down to where they lose bits
    a[:half] = np.ldexp(a[:half], scale.astype(np.int32))
    ends = np.concatenate([ENDS, -ENDS])
    pairs = np.array(np.meshgrid(ends, ends), np.float32).reshape(2, -1)
    a[-pairs.shape[1] :], b[-pairs.shape[1] :] = pairs
    return a, b


def rough(name: str, a: np.ndarray) -> np.ndarray:
    """A reciprocal as far off as the hardware's may be: of the upper words alone (PTX ISA)."""
    assert name == "rcp" and a.dtype == np.float64
    upper = (a.view(np.uint64) & np.uint64(0xFFFFFFFF00000000)).view(np.float64)
    off = np.where(np.arange(a.size).reshape(a.shape) % 2, 1 + 2.0**-18, 1 - 2.0**-18)
    value = (1.0 / upper) * np.where(np.isfinite(upper) & (upper != 0), off, 1)
    return (value.view(np.uint64) & np.uint64(0xFFFFFFFF00000000)).view(np.float64)


def same(found: np.ndarray, expected: np.ndarray) -> None:
    number = ~np.isnan(expected)
    np.testing.assert_array_equal(np.isnan(found), ~number)
    np.testing.assert_array_equal(found[number].view(np.uint32), expected[number].view(np.uint32))


@pytest.mark.parametrize("reciprocal", ["near", "rough"])
def test_quotients_are_rounded_once(reciprocal, monkeypatch):
    text = code("%y = arith.divf %a, %b : f32")
    assert b"div." not in text and b"call" not in text
    if reciprocal == "rough":
        monkeypatch.setattr(floats, "approximate", rough)
    for seed in range(4):
        a, b = operands(seed)
        with np.errstate(all="ignore"):
            same(run(text, a, b), a / b)


@pytest.mark.parametrize("divisor", [3.0, -1.41421354, 1e-45, 3.4e38, 7e-39, -0.1])
def test_by_a_constant(divisor):
    text = code(f"%c = arith.constant {divisor:.9e} : f32\n%y = arith.divf %a, %c : f32")
    assert b"rcp" not in text and b"div." not in text
    for seed in range(2):
        a, b = operands(seed)
        with np.errstate(all="ignore"):
            same(run(text, a, b), a / np.float32(divisor))


def test_reciprocals_and_halves():
    """1 / b, and of f16, which is divided in f32."""
    a, b = operands(9)
    one = code("%c = arith.constant 1.0 : f32\n%y = arith.divf %c, %b : f32")
    with np.errstate(all="ignore"):
        same(run(one, a, b), np.float32(1) / b)
        half = code(
            "%g = arith.truncf %a : f32 to f16\n%h = arith.truncf %b : f32 to f16\n"
            "%d = arith.divf %g, %h : f16\n%y = arith.extf %d : f16 to f32"
        )
        x, y = np.ldexp(a, -60).astype(np.float16), np.ldexp(b, -60).astype(np.float16)
        small = np.ldexp(a, -60), np.ldexp(b, -60)
        same(run(half, *small), (x / y).astype(np.float32))


def test_what_may_be_approximated_stays():
    assert b"div.approx.f32" in code("%y = arith.divf %a, %b fastmath<afn> : f32")


@needs_sass
def test_no_call_is_left_in_machine_code():
    from rcompiler.codegen.ptx import PtxModule
    from rcompiler.codegen.ptxas import assemble
    from rcompiler.codegen.sass import opcodes

    for chip in ("sm_80", "sm_90a"):
        cubin = assemble(PtxModule(chip, code("%y = arith.divf %a, %b : f32", chip)))
        [found] = opcodes(cubin.code).values()
        assert not [name for name in found if name.startswith("CALL")]
