"""Kernels on random shapes and tilings against numpy, for every vector length, with and without
fused multiply-add."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kernel_cases import (
    FEATURES,
    Kernel,
    Tile,
    contraction,
    elementwise,
    random,
    softmax,
    tilings,
    type_of,
)
from turns import turn_of

from rcompiler.codegen.assembly import assembly
from rcompiler.errors import CompilerError
from rcompiler.kernelgen.cpu import CpuFeatures
from rcompiler.kernelgen.reduction import _power_of_two

few = settings(
    max_examples=12,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow],
)
extents = st.integers(1, 37)


@pytest.mark.parametrize("features", turn_of(FEATURES, 3), ids=str)
@given(data=st.data())
@few
def test_contraction(features: CpuFeatures, data: st.DataObject):
    m, n, k = (data.draw(extents) for _ in "mnk")
    right = data.draw(st.sampled_from(["k, n", "n, k"]))
    a, b = random((m, k)), random((k, n), 1)
    # of one column the depth is what lies side by side, along which vectors go then
    parts = right == "k, n" and n > 1 and data.draw(st.booleans())
    tile = data.draw(tilings((m, n), features.lanes, in_parts=parts))
    given_b = b if right == "k, n" else b.T
    kernel = Kernel(
        contraction(m, n, k, right), ["%r"], [a, given_b], [((m, n), "float32")], tile, features
    )
    np.testing.assert_allclose(kernel.run()[0], a @ b, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("features", FEATURES[:2], ids=str)
def test_a_tiling_does_not_change_a_bit(features: CpuFeatures):
    m, n, k = 7, 37, 19
    a, b = random((m, k)), random((k, n), 1)
    for right, given_b in (("k, n", b), ("n, k", b.T)):
        tiles = [
            Tile((m, n), [m, n], [1, features.lanes], [0, 1], 1, features.lanes),
            Tile((m, n), [3, 13], [3, 2 * features.lanes], [1, 0], 1, features.lanes),
            Tile((m, n), [2, 5], [2, 4], [1, 0], 1, 4),
            Tile((m, n), [2, 5], [2, 1], [0, 1]),
        ]
        if right == "k, n":  # otherwise vectors run along the reduction
            tiles += [
                replace(tiles[0], reduction_tile=(0, 5)),
                replace(tiles[1], reduction_tile=(1, 19)),
                replace(tiles[2], reduction_tile=(1, 4)),
                replace(tiles[3], reduction_tile=(2, 1)),
            ]
        body = contraction(m, n, k, right)
        results = [
            Kernel(body, ["%r"], [a, given_b], [((m, n), "float32")], tile, features).run()[0]
            for tile in tiles
        ]
        for other in results[1:]:
            assert np.array_equal(results[0], other)


@pytest.mark.parametrize("features", turn_of(FEATURES, 3), ids=str)
@given(data=st.data())
@few
def test_softmax_over_any_axis(features: CpuFeatures, data: st.DataObject):
    shape = tuple(data.draw(st.lists(st.integers(1, 19), min_size=2, max_size=3)))
    axis = data.draw(st.integers(0, len(shape) - 1))
    x = random(shape)
    tile = data.draw(tilings(shape, features.lanes, (axis,)))
    body = softmax(shape, axis)
    found = Kernel(body, ["%r"], [x], [(shape, "float32")], tile, features, "reduction").run()[0]
    powers = np.exp(x.astype(np.float64) - x.max(axis, keepdims=True))
    np.testing.assert_allclose(found, powers / powers.sum(axis, keepdims=True), rtol=2e-6)


@pytest.mark.parametrize("features", turn_of(FEATURES, 3), ids=str)
@given(data=st.data())
@few
def test_windows(features: CpuFeatures, data: st.DataObject):
    """A strided, dilated convolution of two channels with an input in NCHW."""
    size, stride, dilation = (data.draw(st.integers(1, 3)) for _ in range(3))
    out, maps = data.draw(st.integers(1, 20)), data.draw(st.integers(1, 5))
    width = (out - 1) * stride + (size - 1) * dilation + 1
    x, w = random((2, width, width)), random((maps, 2, size, size), 1)
    shape = (maps, out, out)
    at = ", ".join(f"{a} * {stride} + {b} * {dilation}" for a, b in ("hp", "wq"))
    reads = f"affine_map<(o, h, w, c, p, q) -> (c, {at})>"
    dims = "affine_map<(o, h, w, c, p, q) -> "
    body = f"""%zero = arith.constant 0.0 : f32
      %e = tensor.empty() : {type_of(shape)}
      %f = linalg.fill ins(%zero : f32) outs(%e : {type_of(shape)}) -> {type_of(shape)}
      %r = linalg.generic {{indexing_maps = [{reads}, {dims}(o, c, p, q)>, {dims}(o, h, w)>],
           iterator_types = ["parallel", "parallel", "parallel", "reduction", "reduction",
                             "reduction"]}}
           ins(%a0, %a1 : {type_of(x.shape)}, {type_of(w.shape)}) outs(%f : {type_of(shape)}) {{
      ^bb0(%x: f32, %y: f32, %acc: f32):
        %p = arith.mulf %x, %y : f32
        %s = arith.addf %acc, %p : f32
        linalg.yield %s : f32
      }} -> {type_of(shape)}"""
    tile = data.draw(tilings(shape, features.lanes, in_parts=data.draw(st.booleans())))
    found = Kernel(body, ["%r"], [x, w], [(shape, "float32")], tile, features).run()[0]
    span = (size - 1) * dilation + 1
    windows = np.lib.stride_tricks.sliding_window_view(x, (span, span), (1, 2))
    windows = windows[:, ::stride, ::stride, ::dilation, ::dilation]
    expected = np.einsum("chwpq,ocpq->ohw", windows.astype(np.float64), w)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("features", turn_of(FEATURES[::2], 2), ids=str)
@given(data=st.data())
@few
def test_movement(features: CpuFeatures, data: st.DataObject):
    """pad, concat, strided slice, strided insert, reshape and transpose of one another."""
    rows, columns = data.draw(st.integers(1, 9)), data.draw(st.integers(1, 23))
    low, high, step = data.draw(st.integers(0, 3)), data.draw(st.integers(0, 3)), 2
    x, y = random((rows, columns)), random((rows, columns), 1)
    padded = np.pad(x, [(0, 0), (low, high)], constant_values=7.0)
    joined = np.concatenate([padded, y], 1)
    sliced = joined[:, 1::step] if joined.shape[1] > 1 else joined
    start, stride = data.draw(st.integers(0, 3)), data.draw(st.integers(1, 3))
    n = sliced.shape[1]
    spread = np.full((rows, start + n * stride + 1), 5.0, np.float32)
    spread[:, start : start + n * stride : stride] = sliced
    shape = spread.T.shape
    first = 1 if joined.shape[1] > 1 else 0
    body = f"""%seven = arith.constant 7.0 : f32
      %p = tensor.pad %a0 low[0, {low}] high[0, {high}] {{
      ^bb0(%i: index, %j: index):
        tensor.yield %seven : f32
      }} : {type_of(x.shape)} to {type_of(padded.shape)}
      %c = tensor.concat dim(1) %p, %a1 : ({type_of(padded.shape)}, {type_of(y.shape)})
           -> {type_of(joined.shape)}
      %s = tensor.extract_slice %c[0, {first}] [{rows}, {n}] [1, {step if first else 1}]
           : {type_of(joined.shape)} to {type_of(sliced.shape)}
      %five = arith.constant 5.0 : f32
      %e = tensor.empty() : {type_of(spread.shape)}
      %f = linalg.fill ins(%five : f32) outs(%e : {type_of(spread.shape)})
           -> {type_of(spread.shape)}
      %t = tensor.insert_slice %s into %f[0, {start}] [{rows}, {n}] [1, {stride}]
           : {type_of(sliced.shape)} into {type_of(spread.shape)}
      %flat = tensor.collapse_shape %t [[0, 1]] : {type_of(spread.shape)}
           into {type_of((spread.size,))}
      %back = tensor.expand_shape %flat [[0, 1]] output_shape [{rows}, {spread.shape[1]}]
           : {type_of((spread.size,))} into {type_of(spread.shape)}
      %o = tensor.empty() : {type_of(shape)}
      %r = linalg.generic {{indexing_maps = [affine_map<(a, b) -> (b, a)>,
           affine_map<(a, b) -> (a, b)>], iterator_types = ["parallel", "parallel"]}}
           ins(%back : {type_of(spread.shape)}) outs(%o : {type_of(shape)}) {{
      ^bb0(%u: f32, %v: f32):
        linalg.yield %u : f32
      }} -> {type_of(shape)}"""
    tile = data.draw(tilings(shape, features.lanes))
    found = Kernel(body, ["%r"], [x, y], [(shape, "float32")], tile, features, "movement").run()[0]
    np.testing.assert_array_equal(found, spread.T)


def turned(shape: tuple[int, ...], dtype: str) -> str:
    """x + x, [a, b, c] read as [b, c, a]."""
    a, b, c = shape
    x, y = type_of(shape, dtype), type_of((b, c, a), dtype)
    element = x[:-1].rpartition("x")[2]
    add = "addf" if element[0] != "i" else "addi"
    return f"""%e = tensor.empty() : {y}
      %r = linalg.generic {{indexing_maps = [affine_map<(b, c, a) -> (a, b, c)>,
           affine_map<(b, c, a) -> (b, c, a)>],
           iterator_types = ["parallel", "parallel", "parallel"]}}
           ins(%a0 : {x}) outs(%e : {y}) {{
      ^bb0(%u: {element}, %v: {element}):
        %s = arith.{add} %u, %u : {element}
        linalg.yield %s : {element}
      }} -> {y}"""


@pytest.mark.parametrize("features", turn_of(FEATURES[::2], 2), ids=str)
@given(data=st.data())
@few
def test_blocks_are_turned(features: CpuFeatures, data: st.DataObject):
    """Vectors across the rows of an operand, in tiles of any number of rows."""
    dtype = data.draw(st.sampled_from(["int8", "int16", "float32", "float64"]))
    shape = tuple(data.draw(st.integers(1, 35)) for _ in "abc")
    x = (random(shape) * 50).astype(dtype)
    result = (*shape[1:], shape[0])
    lanes = data.draw(st.sampled_from([1, 2, 4])) * features.lanes
    register = [1, data.draw(st.integers(1, 19)), lanes]
    tile = [data.draw(st.integers(1, n)) for n in result]
    order = data.draw(st.permutations(range(3)))
    tiling = Tile(result, tile, register, order, 2, lanes)
    kernel = Kernel(turned(shape, dtype), ["%r"], [x], [(result, dtype)], tiling, features)
    np.testing.assert_array_equal(kernel.run()[0], 2 * x.transpose(1, 2, 0))


def test_a_block_is_as_many_loads_as_vectors():
    """16 x 16 bytes: 16 loads, and 4 times 16 instructions that interleave two vectors."""
    x = np.arange(256, dtype=np.int8).reshape(16, 1, 16)
    tiling = Tile((1, 16, 16), [1, 16, 16], [1, 16, 16], [0, 1, 2], 2, 16)
    outputs = [((1, 16, 16), "int8")]
    kernel = Kernel(turned(x.shape, "int8"), ["%r"], [x], outputs, tiling, FEATURES[0])
    assert kernel.source.count("llvm.load") == 2 + 16  # two pointers
    assert kernel.source.count("vector.shuffle") == 4 * 16
    text = assembly(kernel.lowered, "x86-64", "")
    assert text.count("punpcklbw") + text.count("punpckhbw") == 4 * 16


@pytest.mark.parametrize("features", turn_of(FEATURES[::2], 2), ids=str)
@given(data=st.data())
@few
def test_yielded_pieces(features: CpuFeatures, data: st.DataObject):
    """A pad of a concatenation is written box by box, whatever the tile."""
    rows, columns = data.draw(st.integers(1, 9)), data.draw(st.integers(1, 23))
    x, y = random((rows, columns)), random((rows, columns), 1)
    joined = np.concatenate([x, y], 0)
    expected = np.pad(joined, [(1, 2), (3, 1)], constant_values=-1.0)
    shape = expected.shape
    body = f"""%minus = arith.constant -1.0 : f32
      %c = tensor.concat dim(0) %a0, %a1 : ({type_of(x.shape)}, {type_of(y.shape)})
           -> {type_of(joined.shape)}
      %r = tensor.pad %c low[1, 3] high[2, 1] {{
      ^bb0(%i: index, %j: index):
        tensor.yield %minus : f32
      }} : {type_of(joined.shape)} to {type_of(shape)}"""
    tile = data.draw(tilings(shape, features.lanes))
    found = Kernel(body, ["%r"], [x, y], [(shape, "float32")], tile, features, "movement").run()[0]
    np.testing.assert_array_equal(found, expected)


INTEGERS = {
    "divsi": lambda a, b: np.where(b == 0, a, np.trunc(a / np.where(b == 0, 1, b))).astype(a.dtype),
    "remsi": lambda a, b: np.where(b == 0, 0, np.fmod(a, np.where(b == 0, 1, b))).astype(a.dtype),
}


@pytest.mark.parametrize("dtype", ["int8", "int32", "int64"])
@pytest.mark.parametrize("op", INTEGERS)
def test_integer_division_never_traps(op: str, dtype: str):
    lowest = np.iinfo(dtype).min
    a = np.array([7, -7, lowest, lowest, lowest, 0, 5, -1, 100], dtype)
    b = np.array([2, 2, -1, 0, 1, 0, 0, lowest, -3], dtype)
    kind = f"i{np.iinfo(dtype).bits}"
    body = elementwise(f"%y = arith.{op} %x0, %x1 : {kind}", [a, b], dtype, ["%a0", "%a1"])
    tile = Tile(a.shape, register_tile=[4], vector_dim=0, lanes=4)
    found = Kernel(body, ["%r"], [a, b], [(a.shape, dtype)], tile, FEATURES[0]).run()[0]
    sure = ~((a == lowest) & (b == -1))
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(found[sure], INTEGERS[op](a, b)[sure])
    assert found[2] == (lowest if op == "divsi" else 0)


def test_two_results_of_different_types():
    x = random((5, 21))
    body = elementwise("%y = math.absf %x0 : f32", [x], "float32", ["%a0"])
    test = elementwise(
        "%zero = arith.constant 0.0 : f32\n%y = arith.cmpf ogt, %x0, %zero : f32",
        [x], "bool", ["%a0"],
    )  # fmt: skip
    test = test.replace("%e ", "%e2 ").replace("%e :", "%e2 :").replace("%r ", "%r2 ")
    outputs = [((5, 21), "float32"), ((5, 21), "bool")]
    tile = Tile((5, 21), [2, 21], [2, 16], [0, 1], 1, 16)
    kernel = Kernel(f"{body}\n{test}", ["%r", "%r2"], [x], outputs, tile, FEATURES[0])
    first, second = kernel.run()
    np.testing.assert_array_equal(first, np.abs(x))
    np.testing.assert_array_equal(second, x > 0)


@pytest.mark.parametrize("shape", [(), (0, 3), (3, 0)])
def test_scalars_and_empty_sums(shape: tuple[int, ...]):
    """A sum over everything; of nothing it is the initial value."""
    x = random(shape)
    dims = ", ".join(f"d{d}" for d in range(len(shape)))
    kinds = ", ".join(['"reduction"'] * len(shape))
    body = f"""%one = arith.constant 1.0 : f32
      %e = tensor.empty() : tensor<f32>
      %f = linalg.fill ins(%one : f32) outs(%e : tensor<f32>) -> tensor<f32>
      %r = linalg.generic {{indexing_maps = [affine_map<({dims}) -> ({dims})>,
        affine_map<({dims}) -> ()>], iterator_types = [{kinds}]}}
        ins(%a0 : {type_of(shape)}) outs(%f : tensor<f32>) {{
      ^bb0(%u: f32, %acc: f32):
        %v = arith.addf %acc, %u : f32
        linalg.yield %v : f32
      }} -> tensor<f32>"""
    found = Kernel(body, ["%r"], [x], [((), "float32")], Tile(()), FEATURES[0]).run()[0]
    assert math.isclose(found, 1 + x.sum(), rel_tol=1e-6)


@pytest.mark.parametrize("features", turn_of(FEATURES[::2], 2), ids=str)
@given(data=st.data())
@few
def test_parts_under_an_epilogue_and_a_pad(features: CpuFeatures, data: st.DataObject):
    """The sums of a padded result wait on the stack; the epilogue sees only whole ones."""
    m, k = (data.draw(extents) for _ in "mk")
    n = data.draw(st.integers(2, 37))  # sums of one column go along lanes, and not in parts
    low, high = ([data.draw(st.integers(0, 2)) for _ in range(2)] for _ in range(2))
    shape = (m + low[0] + high[0], n + low[1] + high[1])
    out, padded, turned = type_of((m, n)), type_of(shape), "affine_map<(i, j) -> (j, i)>"
    body = f"""{contraction(m, n, k)}
      %y = linalg.generic {{indexing_maps = [{turned}, affine_map<(i, j) -> (i, j)>, {turned}],
           iterator_types = ["parallel", "parallel"]}}
           ins(%r, %a2 : {out}, {type_of((n, m))}) outs(%e : {out}) {{
      ^bb0(%u: f32, %v: f32, %w: f32):
        %s = arith.addf %u, %v : f32
        %z = arith.maximumf %s, %zero : f32
        linalg.yield %z : f32
      }} -> {out}
      %p = tensor.pad %y low[{low[0]}, {low[1]}] high[{high[0]}, {high[1]}] {{
      ^bb0(%i: index, %j: index):
        tensor.yield %zero : f32
      }} : {out} to {padded}"""
    a, b, c = random((m, k)), random((k, n), 1), random((n, m), 2)
    tile = data.draw(tilings(shape, features.lanes, in_parts=True))
    found = Kernel(body, ["%p"], [a, b, c], [(shape, "float32")], tile, features).run()[0]
    expected = np.pad(np.maximum(a @ b + c.T, 0), list(zip(low, high, strict=True)))
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("features", FEATURES[::2], ids=str)
@pytest.mark.parametrize("columns", [8, 1])
def test_parts_of_sums_whose_dims_a_transpose_turns(features: CpuFeatures, columns: int):
    """Six rows of a register tile are no whole vectors of any length."""
    m, n, k = 16, 14, 24
    turned, result = "affine_map<(i, j) -> (j, i)>", type_of((n, m))
    body = f"""{contraction(m, n, k)}
      %t = tensor.empty() : {result}
      %y = linalg.generic {{indexing_maps = [{turned}, affine_map<(i, j) -> (i, j)>],
           iterator_types = ["parallel", "parallel"]}}
           ins(%r : {type_of((m, n))}) outs(%t : {result}) {{
      ^bb0(%u: f32, %w: f32):
        linalg.yield %u : f32
      }} -> {result}"""
    a, b = random((m, k)), random((k, n), 1)
    tile = Tile((n, m), [n, columns], [6, columns], (), 1, features.lanes, (0, 8))
    kernel = Kernel(body, ["%y"], [a, b], [((n, m), "float32")], tile, features)
    np.testing.assert_allclose(kernel.run()[0], (a @ b).T, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("features", FEATURES[::2], ids=str)
@pytest.mark.parametrize("columns", [4, 1])
def test_parts_of_sums_that_have_fewer_dims_than_the_result(features: CpuFeatures, columns: int):
    """Their vectors go along the dim that the last one of the result is a part of."""
    m, n, k = 2, 8, 24
    shape = (m, n // 4, 4)
    body = f"""{contraction(m, n, k)}
      %y = tensor.expand_shape %r [[0], [1, 2]] output_shape [{m}, {n // 4}, 4]
           : {type_of((m, n))} into {type_of(shape)}"""
    a, b = random((m, k)), random((k, n), 1)
    tile = Tile(shape, [m, 1, columns], [m, 1, columns], (), 2, features.lanes, (0, 8))
    kernel = Kernel(body, ["%y"], [a, b], [(shape, "float32")], tile, features)
    np.testing.assert_allclose(kernel.run()[0].reshape(m, n), a @ b, rtol=1e-5, atol=1e-5)
    assert ("vector<4xf32>" in kernel.source) == (columns == 4)


def test_parts_need_a_product_reduction():
    body = f"""%e = tensor.empty() : {type_of((8,))}
      %r = linalg.generic {{indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>],
           iterator_types = ["parallel"]}}
           ins(%a0 : {type_of((8,))}) outs(%e : {type_of((8,))}) {{
      ^bb0(%u: f32, %w: f32):
        %s = arith.negf %u : f32
        linalg.yield %s : f32
      }} -> {type_of((8,))}"""
    tile = Tile((8,), reduction_tile=(0, 4))
    with pytest.raises(CompilerError, match="no product reduction"):
        Kernel(body, ["%r"], [random((8,))], [((8,), "float32")], tile, FEATURES[0])


def test_sums_that_do_not_fit_the_stack_are_refused():
    a, b = random((200, 8)), random((8, 200), 1)
    tile = Tile((200, 200), [200, 200], [4, 16], [0, 1], 1, 16, (0, 4))
    with pytest.raises(CompilerError, match="160000 bytes of stack"):
        Kernel(
            contraction(200, 200, 8), ["%r"], [a, b], [((200, 200), "float32")], tile, FEATURES[0]
        )


def test_reductions_are_unrolled_by_powers_of_two():
    assert _power_of_two(768, 3) == 2
    assert _power_of_two(768, 12) == 8
    assert _power_of_two(49, 12) == 8  # and one step after 48
    assert _power_of_two(12, 8) == 4  # no remainder
    assert _power_of_two(3, 2) == 1
