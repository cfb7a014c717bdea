"""Kernels for GPUs on random shapes, types and tilings against numpy, on the emulated device: no
thread races with another, reads what nobody wrote, or touches what lies beside an operand."""

from collections.abc import Callable

import ml_dtypes
import numpy as np
import pytest
from gpu_cases import PRECISIONS, UNITS, GpuKernel, factor
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from kernel_cases import (
    Tile,
    elementwise,
    random,
    reduction,
    softmax,
    sum_of_products,
    tilings,
    type_of,
)

from rcompiler.kernelgen.simt.kernel import SimtFeatures
from rcompiler.kernelgen.simt.product import LEAST_STEPS

few = settings(
    max_examples=6,
    deadline=None,
    derandomize=True,
    phases=[Phase.generate],  # a case that fails is small enough as it is
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
many = settings(few, max_examples=40)
HALVES = {"float16": "f16", "bfloat16": "bf16"}
Check = Callable[[st.DataObject], None]
CHECKS: list[Check] = []


def check(function: Check) -> Check:
    """A check of one random kernel."""
    CHECKS.append(function)
    return function


def dtyped(values: np.ndarray, dtype: str) -> np.ndarray:
    return values.astype(ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype)


def devices(draw, precision: str = "f32") -> SimtFeatures:
    """Blocks of some warps, with more or less shared memory."""
    threads = draw(st.sampled_from([32, 64, 96, 128, 256]))
    shared = draw(st.sampled_from([24 << 10, 163 << 10]))
    return SimtFeatures(threads, shared, units=UNITS, precision=precision)


def run(data, body, results, inputs, outputs, *, fixed=(), precision="f32", kind="elementwise"):
    """The results of a kernel under any tiling, on one or two blocks in some order."""
    draw = data.draw
    lanes = draw(st.sampled_from([1, 2, 4, 8, 16, 32]))
    tile = draw(tilings(tuple(outputs[0][0]), lanes, fixed))
    kernel = GpuKernel(body, results, inputs, outputs, tile, devices(draw, precision), kind)
    return kernel.run(
        min(draw(st.integers(1, 2)), kernel.tasks), draw(st.sampled_from([None, 0, 1]))
    )


def close(found: np.ndarray, wanted: np.ndarray, allowed: float) -> None:
    """Errors of at most `allowed` of the largest value."""
    most = allowed * max(np.abs(wanted).max(initial=0), 1e-3)
    np.testing.assert_allclose(found.astype(np.float64), wanted, rtol=0, atol=most)


PARTS = {"float32": 2e-6, "float16": 1e-3, "bfloat16": 8e-3}  # half of the last place, and sums


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


@check
def a_matrix_product(data):
    """Rows or columns first, with several of them, in any precision."""
    draw = data.draw
    b, m, n, k = (draw(st.integers(1, most)) for most in (2, 40, 40, 70))
    left = draw(st.sampled_from(["b, m, k", "b, k, m", "m, k"]))
    right = draw(st.sampled_from(["k, n", "n, k", "b, k, n"]))
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


# -- reductions


REDUCTIONS = {"addf": np.sum, "maxnumf": np.max, "minimumf": np.min, "mulf": np.prod}
INTEGERS = {"addi": np.sum, "maxsi": np.max}
STARTS = {"addf": "1.5", "maxnumf": "-9.0", "minimumf": "9.0", "mulf": "1.0"}


@check
def a_reduction(data):
    """Along any axis, of any type."""
    draw = data.draw
    shape = tuple(draw(st.lists(st.integers(1, 40), min_size=1, max_size=3)))
    axis = draw(st.integers(0, len(shape) - 1))
    dtype = draw(st.sampled_from(["float32", "float32", *HALVES, "int32", "int64"]))
    ops = INTEGERS if dtype[0] == "i" else REDUCTIONS
    op = draw(st.sampled_from(sorted(ops)))
    start = STARTS.get(op, "-3")
    values = random(shape) if op != "mulf" else np.exp(random(shape) / 8)
    x = dtyped(np.round(values * 20) if dtype[0] == "i" else values, dtype)
    rest = tuple(n for d, n in enumerate(shape) if d != axis)
    body = reduction(op, shape, axis, dtype, start)
    [found] = run(data, body, ["%r"], [x], [(rest, dtype)], kind="reduction")
    begin = np.full((*shape[:axis], 1, *shape[axis + 1 :]), float(start))
    wanted = ops[op](np.concatenate([x.astype(np.float64), begin], axis), axis)
    if dtype[0] == "i":
        np.testing.assert_array_equal(found, wanted)
    else:
        close(found, wanted, 4 * PARTS[dtype])


@check
def a_softmax(data):
    rows, width = data.draw(st.integers(1, 5)), data.draw(st.integers(1, 70))
    shape = data.draw(st.permutations([rows, width, data.draw(st.integers(1, 3))]))
    axis = shape.index(width)
    x = random(tuple(shape))
    [found] = run(
        data, softmax(shape, axis), ["%r"], [x], [(shape, "float32")],
        fixed=(axis,), kind="reduction",
    )  # fmt: skip
    powers = np.exp(x.astype(np.float64) - x.max(axis, keepdims=True))
    np.testing.assert_allclose(found, powers / powers.sum(axis, keepdims=True), rtol=4e-6)


@check
def a_layer_normalisation(data):
    """Two sums along the rows, the second of what the first one shifts; all three are results."""
    rows, width = data.draw(st.integers(1, 20)), data.draw(st.integers(1, 70))
    x, scale = random((rows, width)), random((width,), 1)
    whole, row = type_of((rows, width)), type_of((rows,))
    at, of_row = "affine_map<(i, j) -> (i, j)>", "affine_map<(i, j) -> (i)>"

    def total(name: str, maps: str, operands: str, *lines: str) -> str:
        body = "\n".join(lines)
        return f"""%{name} = linalg.generic {{indexing_maps = [{maps}, {of_row}],
          iterator_types = ["parallel", "reduction"]}} ins({operands}) outs(%f : {row}) {{
        {body}
          %v = arith.addf %acc, %y : f32
          linalg.yield %v : f32
        }} -> {row}"""

    first = total("sum", at, f"%a0 : {whole}", "^bb0(%y: f32, %acc: f32):")
    second = total(
        "squares",
        f"{at}, {of_row}",
        f"%a0, %sum : {whole}, {row}",
        "^bb0(%u: f32, %t: f32, %acc: f32):",
        "%m = arith.divf %t, %n : f32",
        "%d = arith.subf %u, %m : f32",
        "%y = arith.mulf %d, %d : f32",
    )
    body = f"""%zero = arith.constant 0.0 : f32
      %n = arith.constant {float(width)} : f32
      %tiny = arith.constant 1.0e-3 : f32
      %er = tensor.empty() : {row}
      %f = linalg.fill ins(%zero : f32) outs(%er : {row}) -> {row}
      {first}
      {second}
      %e = tensor.empty() : {whole}
      %r = linalg.generic {{indexing_maps = [{at}, {of_row}, {of_row},
          affine_map<(i, j) -> (j)>, {at}], iterator_types = ["parallel", "parallel"]}}
          ins(%a0, %sum, %squares, %a1 : {whole}, {row}, {row}, {type_of((width,))})
          outs(%e : {whole}) {{
      ^bb0(%u: f32, %t: f32, %q: f32, %g: f32, %o: f32):
        %m = arith.divf %t, %n : f32
        %d = arith.subf %u, %m : f32
        %p = arith.divf %q, %n : f32
        %w = arith.addf %p, %tiny : f32
        %s = math.sqrt %w : f32
        %z = arith.divf %d, %s : f32
        %y = arith.mulf %z, %g : f32
        linalg.yield %y : f32
      }} -> {whole}"""
    outputs = [((rows, width), "float32")]
    [found] = run(data, body, ["%r"], [x, scale], outputs, fixed=(1,), kind="reduction")
    wide = x.astype(np.float64)
    deviation = np.sqrt(wide.var(1, keepdims=True) + 1e-3)
    close(found, (wide - wide.mean(1, keepdims=True)) / deviation * scale, 4e-6)


# -- movement and elementwise


@check
def a_transpose(data):
    """[a, b, c] read as any order of them, of any type."""
    draw = data.draw
    shape = tuple(draw(st.integers(1, 20)) for _ in "abc")
    order = draw(st.permutations(range(3)))
    dtype = draw(st.sampled_from(["float32", "float64", "int8", "int64", *HALVES]))
    x = dtyped(random(shape) * 50, dtype)
    result = tuple(shape[d] for d in order)
    names = ", ".join("abc"[d] for d in order)
    kind, out = type_of(shape, dtype), type_of(result, dtype)
    element = type_of((), dtype)[7:-1]
    body = f"""%e = tensor.empty() : {out}
      %r = linalg.generic {{indexing_maps = [affine_map<({names}) -> (a, b, c)>,
           affine_map<({names}) -> ({names})>],
           iterator_types = ["parallel", "parallel", "parallel"]}}
           ins(%a0 : {kind}) outs(%e : {out}) {{
      ^bb0(%u: {element}, %v: {element}):
        linalg.yield %u : {element}
      }} -> {out}"""
    [found] = run(data, body, ["%r"], [x], [(result, dtype)], kind="movement")
    np.testing.assert_array_equal(found, x.transpose(order))


@check
def pieces(data):
    """A padded concatenation of a slice and another operand, with other tasks for each piece."""
    draw = data.draw
    rows, columns = draw(st.integers(1, 12)), draw(st.integers(2, 40))
    first, step = draw(st.integers(0, 1)), draw(st.integers(1, 3))
    low, high = draw(st.integers(0, 3)), draw(st.integers(0, 3))
    x, y = random((rows, columns)), random((rows, 5), 1)
    sliced = x[:, first::step]
    joined = np.concatenate([sliced, y], 1)
    wanted = np.pad(joined, [(1, 2), (low, high)], constant_values=-1.0)
    body = f"""%minus = arith.constant -1.0 : f32
      %s = tensor.extract_slice %a0[0, {first}] [{rows}, {sliced.shape[1]}] [1, {step}]
           : {type_of(x.shape)} to {type_of(sliced.shape)}
      %c = tensor.concat dim(1) %s, %a1 : ({type_of(sliced.shape)}, {type_of(y.shape)})
           -> {type_of(joined.shape)}
      %r = tensor.pad %c low[1, {low}] high[2, {high}] {{
      ^bb0(%i: index, %j: index):
        tensor.yield %minus : f32
      }} : {type_of(joined.shape)} to {type_of(wanted.shape)}"""
    [found] = run(data, body, ["%r"], [x, y], [(wanted.shape, "float32")], kind="movement")
    np.testing.assert_array_equal(found, wanted)


@check
def a_gather(data):
    """Rows by number, those from behind and those that do not exist, too."""
    draw = data.draw
    rows, width, count = (draw(st.integers(1, most)) for most in (9, 40, 20))
    x = random((rows, width))
    at = np.random.default_rng(count).integers(-rows - 2, rows + 2, count)
    out = type_of((count, width))
    body = f"""%e = tensor.empty() : {out}
      %r = linalg.generic {{indexing_maps = [affine_map<(i, j) -> (i)>,
           affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]}}
           ins(%a1 : {type_of((count,), "int64")}) outs(%e : {out}) {{
      ^bb0(%p: i64, %o: f32):
        %low = arith.constant 0 : index
        %n = arith.constant {rows} : index
        %last = arith.constant {rows - 1} : index
        %i = arith.index_cast %p : i64 to index
        %negative = arith.cmpi slt, %i, %low : index
        %behind = arith.addi %i, %n : index
        %where = arith.select %negative, %behind, %i : index
        %least = arith.maxsi %where, %low : index
        %inside = arith.minsi %least, %last : index
        %j = linalg.index 1 : index
        %v = tensor.extract %a0[%inside, %j] : {type_of(x.shape)}
        linalg.yield %v : f32
      }} -> {out}"""
    [found] = run(data, body, ["%r"], [x, at], [((count, width), "float32")], kind="gather")
    np.testing.assert_array_equal(found, x[np.clip(np.where(at < 0, at + rows, at), 0, rows - 1)])


STEPS = {
    "arith.addf {0}, {1}": np.add,
    "arith.subf {0}, {1}": np.subtract,
    "arith.mulf {0}, {1}": np.multiply,
    "arith.maximumf {0}, {1}": np.maximum,
    "arith.minnumf {0}, {1}": np.minimum,
    "math.absf {0}": np.abs,
    "arith.negf {0}": np.negative,
    "math.floor {0}": np.floor,
}


@check
def a_chain(data):
    """Steps of one rounding each, some of them on earlier values; two results of other types."""
    draw = data.draw
    shape = tuple(draw(st.lists(st.integers(1, 24), min_size=1, max_size=3)))
    x, y = random(shape), random(shape, 1)
    names, values, lines = ["%x0", "%x1"], [x, y], []
    for number in range(draw(st.integers(1, 12))):
        text = draw(st.sampled_from(sorted(STEPS)))
        used = [draw(st.integers(0, len(names) - 1)) for _ in range(text.count("{"))]
        lines.append(f"%v{number} = {text.format(*(names[k] for k in used))} : f32")
        names.append(f"%v{number}")
        values.append(STEPS[text](*(values[k] for k in used)))
    with np.errstate(over="ignore", invalid="ignore"):
        wanted = values[-1]
    # no sum of a product may become one operation of one rounding
    body = elementwise("\n".join([*lines[:-1], f"%y{lines[-1][len(names[-1]) :]}"]), [x, y],
                       "float32", ["%a0", "%a1"])  # fmt: skip
    test = elementwise(
        "%zero = arith.constant 0.25 : f32\n%y = arith.cmpf ogt, %x0, %zero : f32",
        [x], "bool", ["%r"],
    )  # fmt: skip
    test = test.replace("%e ", "%e2 ").replace("%e :", "%e2 :").replace("%r =", "%r2 =")
    outputs = [(shape, "float32"), (shape, "bool")]
    first, second = run(data, f"{body}\n{test}", ["%r", "%r2"], [x, y], outputs)
    np.testing.assert_array_equal(first, wanted)
    np.testing.assert_array_equal(second, wanted > 0.25)


# -- bits


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


@check
def another_tiling_of_a_softmax(data):
    shape = data.draw(st.integers(1, 6)), data.draw(st.integers(1, 70))
    found = [
        run(data, softmax(shape, 1), ["%r"], [random(shape)], [(shape, "float32")],
            fixed=(1,), kind="reduction")[0]
        for _ in range(2)
    ]  # fmt: skip
    np.testing.assert_array_equal(found[0].view(np.int32), found[1].view(np.int32))


# -- what such cases have found


def test_a_piece_that_a_task_has_nothing_of_is_left_alone():
    """Its range ends before it starts along two dims: their product would be positive."""
    x, y = random((1, 2)), random((1, 5), 1)
    body = f"""%minus = arith.constant -1.0 : f32
      %c = tensor.concat dim(1) %a0, %a1 : ({type_of((1, 2))}, {type_of((1, 5))})
           -> {type_of((1, 7))}
      %r = tensor.pad %c low[1, 0] high[2, 0] {{
      ^bb0(%i: index, %j: index):
        tensor.yield %minus : f32
      }} : {type_of((1, 7))} to {type_of((4, 7))}"""
    outputs, features = [((4, 7), "float32")], SimtFeatures(32, 1024)
    kernel = GpuKernel(body, ["%r"], [x, y], outputs, Tile((4, 7), [1, 1]), features, "movement")
    wanted = np.pad(np.concatenate([x, y], 1), [(1, 2), (0, 0)], constant_values=-1.0)
    np.testing.assert_array_equal(kernel.run()[0], wanted)


@pytest.mark.parametrize("precision", PRECISIONS)
def test_a_last_tile_that_is_smaller_changes_no_bit(precision: str):
    """Of a dim with one row in registers, too: matrix units multiply in every tile or in none."""
    a, b = random((17, 21)), random((21, 40), 1)
    body = sum_of_products("m, n, k", ("m, k", "k, n", "m, n"), ((17, 21), (21, 40), (17, 40)))
    features = SimtFeatures(64, 24 << 10, units=UNITS, precision=precision)
    found = [
        GpuKernel(
            body, ["%r"], [a, b], [((17, 40), "float32")], tile, features, "contraction"
        ).run()[0]
        for tile in (Tile((17, 40)), Tile((17, 40), [10, 26]), Tile((17, 40), [5, 40], [1, 4]))
    ]
    for other in found[1:]:
        np.testing.assert_array_equal(found[0].view(np.int32), other.view(np.int32))
    close(found[0], factor(a, precision) @ factor(b, precision), 4e-6)


@pytest.mark.parametrize("precision", PRECISIONS)
def test_a_tile_with_padding_changes_no_bit(precision: str):
    a, b = random((12, 21)), random((21, 20), 1)
    product = sum_of_products("m, n, k", ("m, k", "k, n", "m, n"), ((12, 21), (21, 20), (12, 20)))
    body = f"""{product}
      %p = tensor.pad %r low[1, 0] high[0, 2] {{
      ^bb0(%i: index, %j: index):
        tensor.yield %zero : f32
      }} : {type_of((12, 20))} to {type_of((13, 22))}"""
    features = SimtFeatures(64, 24 << 10, units=UNITS, precision=precision)
    found = [
        GpuKernel(
            body, ["%p"], [a, b], [((13, 22), "float32")], tile, features, "contraction"
        ).run()[0]
        for tile in (Tile((13, 22)), Tile((13, 22), [5, 8]))
    ]
    np.testing.assert_array_equal(found[0].view(np.int32), found[1].view(np.int32))


every_check = pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)


@every_check
def test_some_kernels(check: Check):
    few(given(data=st.data())(check))()


@pytest.mark.slow
@every_check
def test_many_kernels(check: Check):
    many(given(data=st.data())(check))()
