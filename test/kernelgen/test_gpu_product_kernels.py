"""Products for GPUs of random shapes, types and tilings against numpy, on the emulated device."""

import numpy as np
import pytest
from gpu_cases import PRECISIONS, UNITS, GpuKernel, factor
from gpu_checks import HALVES, PARTS, Check, close, dtyped, every, run, try_many, try_some
from hypothesis import strategies as st
from kernel_cases import (
    Tile,
    elementwise,
    random,
    sum_of_bytes,
    sum_of_products,
    type_of,
)

from rcompiler.errors import CompilerError
from rcompiler.kernelgen.simt.move_grid import ThreadBlock
from rcompiler.kernelgen.simt.target import SimtFeatures
from rcompiler.linalg.product import LEAST_STEPS

CHECKS: list[Check] = []


def check(function: Check) -> Check:
    """A check of one random kernel."""
    CHECKS.append(function)
    return function


# -- products


def by_unit(precision: str, rows: int, columns: int, steps: int) -> str:
    """How factors of f32 are multiplied: vectors, and short sums, are nothing for matrix units."""
    return precision if min(rows, columns) > 1 and steps >= LEAST_STEPS else "f32"


def narrowed(shape: tuple[int, ...], dtype: str) -> str:
    """%n: %r of f32 as another type."""
    if dtype == "float32":
        return ""
    body = elementwise(
        f"%y = arith.truncf %x0 : f32 to {HALVES[dtype]}", [np.empty(shape, "f4")], dtype, ["%r"]
    )
    return "\n" + body.replace("%e ", "%en ").replace("%e :", "%en :").replace("%r =", "%n =")


def matrices(draw, depth):
    """Sizes (b, m, n, k), and the dims of both factors."""
    sizes = tuple(draw(st.integers(1, most)) for most in (2, 40, 40, depth))
    left = draw(st.sampled_from(["b, m, k", "b, k, m", "m, k"]))
    return sizes, left, draw(st.sampled_from(["k, n", "n, k", "b, k, n"]))


@check
def a_matrix_product(data):
    """Rows or columns first, with several of them, in any precision."""
    draw = data.draw
    (b, m, n, k), left, right = matrices(draw, 70)
    dtype = draw(st.sampled_from(["float32", "float32", *HALVES]))
    precision = draw(st.sampled_from(PRECISIONS))
    sizes = dict(zip("bmnk", (b, m, n, k), strict=True))
    shapes = [tuple(sizes[d] for d in dims.split(", ")) for dims in (left, right)]
    x, y = (dtyped(random(shape, i), dtype) for i, shape in enumerate(shapes))
    body = sum_of_products(
        "b, m, n, k", (left, right, "b, m, n"), (*shapes, (b, m, n)), dtype
    ) + narrowed((b, m, n), dtype)
    result = "%r" if dtype == "float32" else "%n"
    [found] = run(
        data, body, [result], [x, y], [((b, m, n), dtype)], precision=precision, kind="contraction"
    )
    spelled = ["".join(dims.split(", ")) for dims in (left, right)]
    if dtype != "float32":
        precision = "f32"
    factors = (factor(v, by_unit(precision, m, n, k)) for v in (x, y))
    batch = "b" * any("b" in dims for dims in spelled)
    wanted = np.einsum(f"{spelled[0]},{spelled[1]}->{batch}mn", *factors)
    wanted = np.broadcast_to(wanted, (b, m, n))
    close(found, wanted, PARTS[dtype] * 2)


@check
def a_product_with_an_epilogue(data):
    """A bias by columns, what is added to it turned, the negative cut off, and padding around."""
    draw = data.draw
    m, n, k = (draw(st.integers(1, most)) for most in (40, 40, 50))
    low, high = ([draw(st.integers(0, 2)) for _ in range(2)] for _ in range(2))
    shape = (m + low[0] + high[0], n + low[1] + high[1])
    precision = draw(st.sampled_from(PRECISIONS))
    out, padded, turned = type_of((m, n)), type_of(shape), "affine_map<(i, j) -> (j, i)>"
    product = sum_of_products("m, n, k", ("m, k", "k, n", "m, n"), ((m, k), (k, n), (m, n)))
    body = f"""{product}
      %y = linalg.generic {{indexing_maps = [{turned}, affine_map<(i, j) -> (i, j)>,
           affine_map<(i, j) -> (i)>, {turned}], iterator_types = ["parallel", "parallel"]}}
           ins(%r, %a2, %a3 : {out}, {type_of((n, m))}, {type_of((n,))}) outs(%e : {out}) {{
      ^bb0(%u: f32, %v: f32, %b: f32, %w: f32):
        %s0 = arith.addf %u, %v : f32
        %s1 = arith.addf %s0, %b : f32
        %z = arith.maximumf %s1, %zero : f32
        linalg.yield %z : f32
      }} -> {out}
      %p = tensor.pad %y low[{low[0]}, {low[1]}] high[{high[0]}, {high[1]}] {{
      ^bb0(%i: index, %j: index):
        tensor.yield %zero : f32
      }} : {out} to {padded}"""
    a, b, c, bias = random((m, k)), random((k, n), 1), random((n, m), 2), random((n,), 3)
    [found] = run(
        data, body, ["%p"], [a, b, c, bias], [(shape, "float32")],
        precision=precision, kind="contraction",
    )  # fmt: skip
    used = by_unit(precision, m, n, k)  # whatever part of a tile is padding
    x, y = (factor(v, used) for v in (a, b))
    wanted = np.pad(np.maximum(x @ y + c.T + bias, 0), list(zip(low, high, strict=True)))
    close(found, wanted, 4e-6)


@check
def a_convolution(data):
    """In groups, with padding, strides and dilation."""
    draw = data.draw
    groups, channels, maps = (draw(st.integers(1, most)) for most in (3, 5, 9))
    size, stride, dilation, pad = (draw(st.integers(low, 3)) for low in (1, 1, 1, 0))
    span = (size - 1) * dilation + 1
    wide = draw(st.integers(max(span - 2 * pad, 1), 14))
    out = (wide + 2 * pad - span) // stride + 1
    precision = draw(st.sampled_from(PRECISIONS))
    x, w = random((groups, channels, wide, wide)), random((groups, maps, channels, size, size), 1)
    inside, padded = type_of(x.shape), (groups, channels, wide + 2 * pad, wide + 2 * pad)
    at = ", ".join(f"{a} * {stride} + {b} * {dilation}" for a, b in ("hp", "wq"))
    product = sum_of_products(
        "g, o, h, w, c, p, q",
        (f"g, c, {at}", "g, o, c, p, q", "g, o, h, w"),
        (padded, w.shape, (groups, maps, out, out)),
        factors="%around, %a1" if pad else "%a0, %a1",
    )
    body = product if not pad else f"""%nothing = arith.constant 0.0 : f32
      %around = tensor.pad %a0 low[0, 0, {pad}, {pad}] high[0, 0, {pad}, {pad}] {{
      ^bb0(%i: index, %j: index, %k: index, %l: index):
        tensor.yield %nothing : f32
      }} : {inside} to {type_of(padded)}
      {product}"""  # fmt: skip
    [found] = run(
        data, body, ["%r"], [x, w], [((groups, maps, out, out), "float32")],
        precision=precision, kind="contraction",
    )  # fmt: skip
    used = by_unit(precision, out, maps, channels * size * size)
    around = np.pad(factor(x, used), [(0, 0), (0, 0), (pad, pad), (pad, pad)])
    windows = np.lib.stride_tricks.sliding_window_view(around, (span, span), (2, 3))
    windows = windows[:, :, ::stride, ::stride, ::dilation, ::dilation]
    close(found, np.einsum("gchwpq,gocpq->gohw", windows, factor(w, used)), 4e-6)


@check
def a_product_of_bytes(data):
    """Rows or columns first, with and without signs; by a matrix unit, and by threads alone."""
    draw = data.draw
    (b, m, n, k), left, right = matrices(draw, 140)
    signed = [draw(st.booleans()) for _ in range(2)]
    units = draw(st.sampled_from([UNITS, UNITS | {"i8"}]))
    sizes, rng = dict(zip("bmnk", (b, m, n, k), strict=True)), np.random.default_rng(k)
    shapes = [tuple(sizes[d] for d in dims.split(", ")) for dims in (left, right)]
    x, y = (rng.integers(-128, 128, shape).astype(np.int8) for shape in shapes)
    maps = (left, right, "b, m, n")
    body = sum_of_bytes("b, m, n, k", maps, (*shapes, (b, m, n)), signed)
    outputs = [((b, m, n), "int32")]
    [found] = run(data, body, ["%r"], [x, y], outputs, kind="contraction", units=units)
    spelled = ["".join(dims.split(", ")) for dims in (left, right)]
    factors = [
        (v if sign else v.view(np.uint8)).astype(np.int32)
        for v, sign in zip((x, y), signed, strict=True)
    ]
    batch = "b" * any("b" in dims for dims in spelled)
    wanted = np.einsum(f"{spelled[0]},{spelled[1]}->{batch}mn", *factors)
    np.testing.assert_array_equal(found, np.broadcast_to(wanted, (b, m, n)))


@check
def another_tiling(data):
    """Whatever the tile, the block and its memory: the same bits."""
    draw = data.draw
    m, n, k = (draw(st.integers(1, most)) for most in (33, 33, 60))
    right = draw(st.sampled_from(["k, n", "n, k"]))
    precision = draw(st.sampled_from(PRECISIONS))
    given_shape = tuple({"k": k, "n": n}[d] for d in right.split(", "))
    shapes = ((m, k), given_shape, (m, n))
    body = sum_of_products("m, n, k", ("m, k", right, "m, n"), shapes)
    inputs, outputs = [random((m, k)), random(given_shape, 1)], [((m, n), "float32")]
    found = [
        run(data, body, ["%r"], inputs, outputs, precision=precision, kind="contraction")[0]
        for _ in range(2)
    ]
    np.testing.assert_array_equal(found[0].view(np.int32), found[1].view(np.int32))


@pytest.mark.parametrize("precision", PRECISIONS)
def test_a_last_tile_that_is_smaller_changes_no_bit(precision: str):
    """Of a dim with one row in registers, too: matrix units multiply in every tile or in none."""
    a, b = random((17, 21)), random((21, 40), 1)
    body = sum_of_products("m, n, k", ("m, k", "k, n", "m, n"), ((17, 21), (21, 40), (17, 40)))
    features = SimtFeatures(ThreadBlock(64), 24 << 10, units=UNITS, precision=precision)
    found = [
        GpuKernel(
            body, ["%r"], [a, b], [((17, 40), "float32")], tile, features, "contraction"
        ).run()[0]
        for tile in (Tile((17, 40)), Tile((17, 40), [10, 26]), Tile((17, 40), [5, 40], [1, 4]))
    ]
    for other in found[1:]:
        np.testing.assert_array_equal(found[0].view(np.int32), other.view(np.int32))
    close(found[0], factor(a, precision) @ factor(b, precision), 4e-6)


def test_nothing_is_read_behind_an_operand_that_ends_in_half_an_access():
    """LLVM would read its 12 bytes as 16."""
    a, b = random((1, 3)), random((40, 3), 1)
    body = sum_of_products("m, n, k", ("m, k", "n, k", "m, n"), ((1, 3), (40, 3), (1, 40)))
    tile = Tile((1, 40), [1, 1], [1, 4], vector_dim=1, lanes=4)
    features = SimtFeatures(ThreadBlock(256), 24 << 10)
    kernel = GpuKernel(body, ["%r"], [a, b], [((1, 40), "float32")], tile, features, "contraction")
    close(kernel.run()[0], a @ b.T, 4e-6)


def padded_product(m: int, n: int, k: int, low: tuple[int, int], high: tuple[int, int]) -> str:
    """%p: the product of %a0 [m, k] and %a1 [k, n], with zeros around it."""
    product = sum_of_products("m, n, k", ("m, k", "k, n", "m, n"), ((m, k), (k, n), (m, n)))
    shape = (low[0] + m + high[0], low[1] + n + high[1])
    return f"""{product}
      %p = tensor.pad %r low[{low[0]}, {low[1]}] high[{high[0]}, {high[1]}] {{
      ^bb0(%i: index, %j: index):
        tensor.yield %zero : f32
      }} : {type_of((m, n))} to {type_of(shape)}"""


@pytest.mark.parametrize("precision", PRECISIONS)
def test_a_tile_with_padding_changes_no_bit(precision: str):
    a, b = random((12, 21)), random((21, 20), 1)
    body = padded_product(12, 20, 21, (1, 0), (0, 2))
    features = SimtFeatures(ThreadBlock(64), 24 << 10, units=UNITS, precision=precision)
    found = [
        GpuKernel(
            body, ["%p"], [a, b], [((13, 22), "float32")], tile, features, "contraction"
        ).run()[0]
        for tile in (Tile((13, 22)), Tile((13, 22), [5, 8]))
    ]
    np.testing.assert_array_equal(found[0].view(np.int32), found[1].view(np.int32))


def test_tiles_that_are_cut_to_the_same_extent_share_their_code():
    """Those at both ends of an image with padding: the one at the end holds 5 rows, as the first
    does beside its padding. What is of the last tile is not written for the others, too.
    """
    a, b = random((16, 21)), random((21, 8), 1)
    body = padded_product(16, 8, 21, (1, 0), (0, 0))
    features = SimtFeatures(ThreadBlock(64), 24 << 10)

    def kernel(tile: Tile) -> GpuKernel:
        return GpuKernel(
            body, ["%p"], [a, b], [((17, 8), "float32")], tile, features, "contraction"
        )

    whole, cut = kernel(Tile((17, 8))), kernel(Tile((17, 8), [6, 8]))
    barriers = [one.source.count("gpu.barrier") for one in (whole, cut)]
    assert barriers[1] == 2 * barriers[0] > 0
    np.testing.assert_array_equal(whole.run()[0], cut.run()[0])


@pytest.mark.parametrize("precision", PRECISIONS)
def test_a_tile_that_does_not_fit_changes_no_bit(precision: str):
    """Both factors of the tile do not fit the shared memory: smaller parts of it do."""
    m, n, k = 130, 136, 40
    a, b = random((m, k)), random((k, n), 1)
    body = sum_of_products("m, n, k", ("m, k", "k, n", "m, n"), ((m, k), (k, n), (m, n)))
    found = []
    for shared in (10 << 10, 163 << 10):
        features = SimtFeatures(ThreadBlock(256), shared, units=UNITS, precision=precision)
        kernel = GpuKernel(
            body, ["%r"], [a, b], [((m, n), "float32")], Tile((m, n)), features, "contraction"
        )
        assert kernel.shared <= shared
        assert (b"mma.sync" in kernel.text) == (precision != "f32")
        found += kernel.run()
    np.testing.assert_array_equal(found[0].view(np.int32), found[1].view(np.int32))
    close(found[0], factor(a, precision) @ factor(b, precision), 4e-6)


def test_bytes_of_which_every_warp_has_several_tiles_are_multiplied_exactly():
    """Parts of 64 steps, one of 32 and a rest that is filled up; 4 KiB and more of each factor."""
    m, n, k = 72, 136, 230
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-128, 128, shape).astype(np.int8) for shape in ((m, k), (k, n)))
    shapes = ((m, k), (k, n), (m, n))
    body = sum_of_bytes("m, n, k", ("m, k", "k, n", "m, n"), shapes, (False, True))
    for copies, shared in ((True, 163 << 10), (False, 12 << 10)):
        features = SimtFeatures(
            ThreadBlock(128), shared, units=frozenset({"i8"}), asynchronous=copies
        )
        kernel = GpuKernel(
            body, ["%r"], [a, b], [((m, n), "int32")], Tile((m, n)), features, "contraction"
        )
        assert b"mma.sync.aligned.m16n8k32.row.col.s32.u8.s8.s32" in kernel.text
        wanted = a.view(np.uint8).astype(np.int32) @ b.astype(np.int32)
        np.testing.assert_array_equal(kernel.run()[0], wanted)


@pytest.mark.parametrize("precision", sorted(UNITS))
def test_shared_memory_that_holds_no_part_is_refused(precision: str):
    """Multiply-adds would give other bits than matrix units do where there is more of it."""
    a, b = random((16, 40)), random((40, 8), 1)
    body = sum_of_products("m, n, k", ("m, k", "k, n", "m, n"), ((16, 40), (40, 8), (16, 8)))
    features = SimtFeatures(ThreadBlock(256), 2 << 10, units=UNITS, precision=precision)
    with pytest.raises(CompilerError, match="2048 of 2048 bytes of shared memory"):
        GpuKernel(
            body, ["%r"], [a, b], [((16, 8), "float32")], Tile((16, 8)), features, "contraction"
        )


@every(CHECKS)
def test_some_products(check: Check):
    try_some(check)


@pytest.mark.slow
@every(CHECKS)
def test_many_products(check: Check):
    try_many(check)
