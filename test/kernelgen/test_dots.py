"""Dot groups: exact for all signs, tilings and instruction sets; the instruction is there."""

import re

import ml_dtypes
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kernel_cases import HAS_FMA, HOST, Kernel, Tile, rkernel, type_of
from oracles.tile_registers import TileRegisters
from torch_mlir import ir

from rcompiler import dialects
from rcompiler.codegen.assembly import assembly
from rcompiler.codegen.cpu import Target as Cpu
from rcompiler.device.instruction_set import InstructionSet
from rcompiler.kernelgen.cpu import CpuFeatures, CpuTarget
from rcompiler.kernelgen.kernel import KernelWriter
from rcompiler.passes._pipeline_text import runner
from rcompiler.pipelines.rc_tile_kernels import RcTileKernels

few = settings(
    max_examples=12,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow],
)
FLAGS = {"i8": "avx512_vnni", "bf16": "avx512_bf16"}
BF16 = np.dtype(ml_dtypes.bfloat16)
SIGNS = [(a, b) for a in ("uint8", "int8") for b in ("int8", "uint8")]


def instruction_sets(element: str) -> list[CpuFeatures]:
    """Every vector length, with the dot instruction where this machine has it, and without."""
    there = FLAGS[element] in HOST.required and "avx512vl" in HOST.required
    sets = [frozenset(), frozenset({element})] if there else [frozenset()]
    # pairs of bytes in vectors of 64 bytes are multiplied by an instruction of AVX-512
    lengths = (16, 8, 4) if "avx512bw" in HOST.required else (8, 4)
    return [CpuFeatures(lanes, HAS_FMA, dots=dots) for lanes in lengths for dots in sets]


def steps_of(element: np.dtype) -> int:
    """Elements of one word."""
    return 4 // element.itemsize


def product(m: int, n: int, k: int, lanes: int, a: np.dtype, b: np.dtype) -> str:
    """[m, k / g, g] x [n / lanes, k / g, lanes, g], extended and summed in i32 or f32."""
    steps, sums = steps_of(a), "f32" if a == BF16 else "i32"
    kind = "f" if a == BF16 else "i"
    extend = [
        "arith.extf" if x == BF16 else f"arith.ext{x.kind.replace('i', 's')}i" for x in (a, b)
    ]
    x, y = (
        type_of((m, k // steps, steps), a.name),
        type_of((-(-n // lanes), k // steps, lanes, steps), b.name),
    )
    element, out = x[:-1].rpartition("x")[2], f"tensor<{m}x{n}x{sums}>"
    panels = f"n floordiv {lanes}, k, n mod {lanes}, g"
    maps = ", ".join(f"affine_map<(m, n, k, g) -> ({r})>" for r in ("m, k, g", panels, "m, n"))
    return f"""%zero = arith.constant {"0.0" if kind == "f" else "0"} : {sums}
      %e = tensor.empty() : {out}
      %f = linalg.fill ins(%zero : {sums}) outs(%e : {out}) -> {out}
      %r = linalg.generic {{indexing_maps = [{maps}],
           iterator_types = ["parallel", "parallel", "reduction", "reduction"]}}
           ins(%a0, %a1 : {x}, {y}) outs(%f : {out}) {{
      ^bb0(%x: {element}, %y: {element}, %acc: {sums}):
        %u = {extend[0]} %x : {element} to {sums}
        %v = {extend[1]} %y : {element} to {sums}
        %p = arith.mul{kind} %u, %v : {sums}
        %s = arith.add{kind} %acc, %p : {sums}
        linalg.yield %s : {sums}
      }} -> {out}"""


def kernel_of(
    a: np.ndarray,
    b: np.ndarray,
    tile: Tile,
    features: CpuFeatures,
    tiles: TileRegisters | None = None,
) -> Kernel:
    """`a` times `b`, [m, k] x [k, n], in panels of the vector length."""
    (m, k), n, lanes = a.shape, b.shape[1], features.lanes
    steps, sums = steps_of(a.dtype), "float32" if a.dtype == BF16 else "int32"
    panels = np.zeros((k, -(-n // lanes) * lanes), b.dtype)
    panels[:, :n] = b
    packed = panels.reshape(k // steps, steps, -1, lanes).transpose(2, 0, 3, 1)
    body = product(m, n, k, lanes, a.dtype, b.dtype)
    groups = a.reshape(m, k // steps, steps)
    outputs = [((m, n), sums)]
    return Kernel(body, ["%r"], [groups, packed], outputs, tile, features, tiles=tiles)


def extremes(shape: tuple[int, int], dtype: str, seed: int) -> np.ndarray:
    """Random bytes with many of the largest and smallest: sums of pairs leave 16 bits."""
    limits, rng = np.iinfo(dtype), np.random.default_rng(seed)
    x = rng.integers(limits.min, limits.max + 1, shape)
    return np.where(rng.random(shape) < 0.5, rng.choice([limits.min, limits.max], shape), x).astype(
        dtype
    )


@pytest.mark.parametrize("features", instruction_sets("i8"), ids=str)
@given(data=st.data())
@few
def test_bytes_are_exact(features: CpuFeatures, data: st.DataObject):
    m, n, words = (data.draw(st.integers(1, high)) for high in (9, 37, 9))
    shapes = (m, 4 * words), (4 * words, n)
    signs = data.draw(st.sampled_from(SIGNS))
    a, b = (extremes(s, t, i) for i, (s, t) in enumerate(zip(shapes, signs, strict=True)))
    if data.draw(st.booleans()):
        a, b = (x.astype(np.int16) for x in (a, b))
    tile = [data.draw(st.integers(1, m)), data.draw(st.integers(1, n))]
    vector = data.draw(st.sampled_from([-1, 0, 1]))
    register = [data.draw(st.integers(1, 3)) for _ in "mn"]
    if vector >= 0:
        register[vector] = data.draw(st.integers(1, 3 * features.lanes))
    # of whole panels, along which vectors go: other reductions are not cut into parts
    whole = vector == 1 and (tile[1] == n or tile[1] % features.lanes == 0)
    parts = data.draw(st.sampled_from([(), (0, 2), (1, 1), (2, 3)] if whole else [()]))
    lanes = features.lanes if vector >= 0 else 1
    order = data.draw(st.permutations([0, 1]))
    kernel = kernel_of(a, b, Tile((m, n), tile, register, order, vector, lanes, parts), features)
    assert np.array_equal(kernel.run()[0], a.astype(np.int32) @ b.astype(np.int32))


def test_sums_of_pairs_keep_their_order():
    """4 of 16 steps of 4 x 2 vectors in a loop, each with its sums in a register: LLVM may add
    integers in any order, and would add the products of neighbouring steps first, for which there
    are no registers.
    """
    a, b = (np.zeros(s, np.int16) for s in ((4, 32), (32, 16)))
    tile = Tile((4, 16), [4, 16], [4, 16], [0, 1], 1, 8)
    text = assembly(kernel_of(a, b, tile, CpuFeatures(8, True)).lowered, "x86-64-v3", "")
    assert text.count("vpmaddwd") == text.count("vpaddd") > 0
    assert not re.search("rsp.*ymm|ymm.*rsp", text)


@pytest.mark.parametrize("features", instruction_sets("bf16"), ids=str)
def test_a_tiling_does_not_change_a_bit_of_bf16(features: CpuFeatures):
    m, n, k, lanes = 5, 37, 38, features.lanes
    a, b = (np.random.default_rng(i).standard_normal(s) for i, s in enumerate([(m, k), (k, n)]))
    a, b = a.astype(BF16), b.astype(BF16)
    tiles = [
        Tile((m, n), [m, n], [1, lanes], [0, 1], 1, lanes),
        Tile((m, n), [3, 2 * lanes], [3, 2 * lanes], [1, 0], 1, lanes, (1, 7)),
        Tile((m, n), [2, 5], [2, 4], [1, 0], 1, 4),
        Tile((m, n), [2, 5], [2, 1], [0, 1]),
        Tile((m, n), [4, 5], [4, 1], [0, 1], 0, 4),
    ]
    first, *others = (kernel_of(a, b, tile, features).run()[0] for tile in tiles)
    for other in others:
        assert np.array_equal(first, other)
    if not features.dots:  # products of bf16 are exact in f32: one rounding for each step
        total = np.zeros((m, n), np.float32)
        for step in range(k):
            total += a[:, step : step + 1].astype(np.float32) * b[step].astype(np.float32)
        assert np.array_equal(first, total)
    exact = a.astype(np.float64) @ b.astype(np.float64)
    size = np.abs(a.astype(np.float64)) @ np.abs(b.astype(np.float64))
    assert (np.abs(first - exact) <= np.finfo(np.float32).eps * np.sqrt(k) * size).all()


def assembly_of(a: str, b: str, dots: set[str]) -> str:
    k = 16 if a == "bf16" else 32
    shapes = ((3, k), (k, 32))
    a, b = (np.zeros(s, BF16 if t == "bf16" else t) for s, t in zip(shapes, (a, b), strict=True))
    tile = Tile((3, 32), [3, 32], [3, 32], [0, 1], 1, 16)
    kernel = kernel_of(a, b, tile, CpuFeatures(16, True, dots=frozenset(dots)))
    beside = ("vnni",) * ("i8" in dots) + ("bf16",)
    target = Cpu.of(InstructionSet("v4", beside))
    return assembly(kernel.lowered, target.cpu, target.features)


@pytest.mark.skipif("avx512vl" not in HOST.required, reason="this host has no AVX-512")
def test_one_instruction_is_one_group():
    """8 words of 3 x 2 vectors: as many instructions as an outer product of words needs."""
    text = assembly_of("uint8", "int8", {"i8"})
    assert text.count("vpdpbusd") == 48 and "vpdpbusds" not in text
    assert assembly_of("int8", "uint8", {"i8"}).count("vpdpbusd") == 48
    pairs = {"vpdpwssd": assembly_of("int8", "int8", {"i8"})}
    pairs["vpmaddwd"] = assembly_of("uint8", "int8", set())
    for name, plain in pairs.items():
        assert plain.count(name) == 96
        assert "vpmaddubsw" not in plain and "vpdpbusd" not in plain
    assert assembly_of("bf16", "bf16", {"bf16"}).count("vdpbf16ps") == 48


@pytest.mark.parametrize(
    ("a", "b", "name"), [("uint8", "int8", "vpdpbusd"), ("bf16", "bf16", "dpbf16ps")]
)
def test_tasks_have_the_instruction_too(a: str, b: str, name: str):
    """In the body of one task the factors are slices of the operands: 8 words of 3 x 1 vectors."""
    shapes = ((6, 8, 2 if a == "bf16" else 4), (2, 8, 16, 2 if a == "bf16" else 4))
    x, y = (np.zeros(s, BF16 if t == "bf16" else t) for s, t in zip(shapes, (a, b), strict=True))
    body = product(6, 32, 8 * shapes[0][2], 16, x.dtype, y.dtype)
    outputs = [((6, 32), "float32" if a == "bf16" else "int32")]
    text = rkernel(body, ["%r"], [x, y], outputs, Tile((6, 32), [3, 16], [3, 16], [0, 1], 1, 16))
    with dialects.load(ir.Context()), ir.Location.unknown():
        module = ir.Module.parse(text)
        runner([RcTileKernels()], module.context, verify=False)(module)
        features = CpuFeatures(16, True, dots=frozenset({"bf16" if a == "bf16" else "i8"}))
        [kernel] = module.body.operations
        source, _ = KernelWriter(kernel.operation, CpuTarget(features)).write()
    assert source.count(name) == 24


def products_by_channel(a: str, b: str, k: int, n: int) -> str:
    """[k, n] x [k, n], summed over k: as in a depthwise convolution."""
    x, y, out = type_of((k, n), a), type_of((k, n), b), f"tensor<{n}xi32>"
    first, second = (t[:-1].rpartition("x")[2] for t in (x, y))
    extend = [f"arith.ext{'u' if name[0] == 'u' else 's'}i" for name in (a, b)]
    maps = ", ".join(f"affine_map<(n, k) -> ({r})>" for r in ("k, n", "k, n", "n"))
    return f"""%zero = arith.constant 0 : i32
      %e = tensor.empty() : {out}
      %f = linalg.fill ins(%zero : i32) outs(%e : {out}) -> {out}
      %r = linalg.generic {{indexing_maps = [{maps}], iterator_types = ["parallel", "reduction"]}}
           ins(%a0, %a1 : {x}, {y}) outs(%f : {out}) {{
      ^bb0(%x: {first}, %y: {second}, %acc: i32):
        %u = {extend[0]} %x : {first} to i32
        %v = {extend[1]} %y : {second} to i32
        %p = arith.muli %u, %v : i32
        %s = arith.addi %acc, %p : i32
        linalg.yield %s : i32
      }} -> {out}"""


@pytest.mark.parametrize("features", instruction_sets("i8"), ids=str)
@pytest.mark.parametrize("signs", [*SIGNS, ("int16", "int8"), ("uint8", "int16")], ids=str)
def test_products_without_groups_are_exact(signs: tuple[str, str], features: CpuFeatures):
    k, n = 9, 5 * features.lanes + 3
    a, b = (extremes((k, n), name, seed) for seed, name in enumerate(signs))
    tile = Tile((n,), register_tile=[2 * features.lanes], vector_dim=0, lanes=features.lanes)
    body = products_by_channel(*signs, k, n)
    kernel = Kernel(body, ["%r"], [a, b], [((n,), "int32")], tile, features)
    exact = (a.astype(np.int64) * b.astype(np.int64)).sum(0).astype(np.int32)
    np.testing.assert_array_equal(kernel.run()[0], exact)
    assert ("vpdpwssd" if features.dots else ".pmadd") in kernel.source
    assert not re.search(r"arith.muli .*vector", kernel.source)


def windows(a: str, b: str, shape: tuple[int, int, int], size: tuple[int, int], step: int) -> str:
    """[y, x, c] by windows [p, q, c]: a depthwise convolution, channels innermost."""
    height, width, channels = shape
    high, wide = (n * step + k - step for n, k in zip((height, width), size, strict=True))
    x, y = type_of((high, wide, channels), a), type_of((*size, channels), b)
    out = f"tensor<{height}x{width}x{channels}xi32>"
    extend = [f"arith.ext{'u' if name[0] == 'u' else 's'}i" for name in (a, b)]
    reads = f"y * {step} + p, x * {step} + q, c"
    maps = ", ".join(f"affine_map<(y, x, c, p, q) -> ({r})>" for r in (reads, "p, q, c", "y, x, c"))
    kinds = ", ".join(['"parallel"'] * 3 + ['"reduction"'] * 2)
    return f"""%zero = arith.constant 0 : i32
      %e = tensor.empty() : {out}
      %f = linalg.fill ins(%zero : i32) outs(%e : {out}) -> {out}
      %r = linalg.generic {{indexing_maps = [{maps}], iterator_types = [{kinds}]}}
           ins(%a0, %a1 : {x}, {y}) outs(%f : {out}) {{
      ^bb0(%x: i8, %y: i8, %acc: i32):
        %u = {extend[0]} %x : i8 to i32
        %v = {extend[1]} %y : i8 to i32
        %p = arith.muli %u, %v : i32
        %s = arith.addi %acc, %p : i32
        linalg.yield %s : i32
      }} -> {out}"""


@pytest.mark.parametrize("features", instruction_sets("i8"), ids=str)
@pytest.mark.parametrize(("size", "step"), [((3, 3), 1), ((2, 3), 2), ((5, 5), 1), ((9, 2), 1)])
@pytest.mark.parametrize("signs", SIGNS, ids=str)
def test_windows_by_channel_are_exact(
    signs: tuple[str, str], size: tuple[int, int], step: int, features: CpuFeatures
):
    shape = 3, 5, 2 * features.lanes
    high, wide = (n * step + k - step for n, k in zip(shape[:2], size, strict=True))
    a = extremes((high * wide, shape[2]), signs[0], 0).reshape(high, wide, shape[2])
    b = extremes((size[0] * size[1], shape[2]), signs[1], 1).reshape(*size, shape[2])
    tile = Tile(shape, [3, 5, features.lanes], [1, 4, features.lanes], [2, 0, 1], 2, features.lanes)
    body = windows(*signs, shape, size, step)
    kernel = Kernel(body, ["%r"], [a, b], [(shape, "int32")], tile, features)
    exact = np.zeros(shape, np.int64)
    for p in range(size[0]):
        for q in range(size[1]):
            part = a[p : p + 3 * step : step, q : q + 5 * step : step].astype(np.int64)
            exact += part * b[p, q]
    np.testing.assert_array_equal(kernel.run()[0], exact)
