"""Kernels for GPUs on random shapes, types and tilings against numpy, on the emulated device: no
thread races with another, reads what nobody wrote, or touches what lies beside an operand."""

from collections.abc import Sequence

import numpy as np
import pytest
from gpu_cases import GpuKernel
from gpu_checks import HALVES, PARTS, Check, close, dtyped, every, run, try_many, try_some
from hypothesis import strategies as st
from kernel_cases import (
    Tile,
    elementwise,
    random,
    reduction,
    softmax,
    type_of,
)

from rcompiler.kernelgen.simt.move_grid import ThreadBlock
from rcompiler.kernelgen.simt.target import SimtFeatures

CHECKS: list[Check] = []


def check(function: Check) -> Check:
    """A check of one random kernel."""
    CHECKS.append(function)
    return function


# -- reductions


REDUCTIONS = {"addf": np.sum, "maxnumf": np.max, "minimumf": np.min, "mulf": np.prod}
INTEGERS = {"addi": np.sum, "maxsi": np.max}
# The lanes of a warp share in a sum: some have a part of a turn, all of one, or of several.
LENGTHS = st.integers(1, 70) | st.integers(120, 300)
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
def a_row_times_lines(data):
    """One row and a matrix that is stored a column after the other: several sums at a time, which
    read the row once.
    """
    columns, steps = data.draw(st.integers(1, 40)), data.draw(LENGTHS)
    dtype = data.draw(st.sampled_from(["float32", *HALVES]))
    x, w = dtyped(random((1, steps)), dtype), dtyped(random((columns, steps), 1), dtype)
    element, result = type_of((), dtype)[7:-1], type_of((1, columns), dtype)
    body = f"""%zero = arith.constant 0.0 : {element}
      %e = tensor.empty() : {result}
      %f = linalg.fill ins(%zero : {element}) outs(%e : {result}) -> {result}
      %r = linalg.generic {{indexing_maps = [affine_map<(m, n, k) -> (m, k)>,
          affine_map<(m, n, k) -> (n, k)>, affine_map<(m, n, k) -> (m, n)>],
          iterator_types = ["parallel", "parallel", "reduction"]}}
          ins(%a0, %a1 : {type_of(x.shape, dtype)}, {type_of(w.shape, dtype)})
          outs(%f : {result}) {{
      ^bb0(%u: {element}, %v: {element}, %acc: {element}):
        %p = arith.mulf %u, %v : {element}
        %s = arith.addf %acc, %p : {element}
        linalg.yield %s : {element}
      }} -> {result}"""
    found = [
        run(data, body, ["%r"], [x, w], [((1, columns), dtype)], kind="contraction")[0]
        for _ in range(2)
    ]
    close(found[0], x.astype(np.float64) @ w.T.astype(np.float64), 4 * PARTS[dtype])
    assert found[0].tobytes() == found[1].tobytes()


@check
def a_softmax(data):
    rows, width = data.draw(st.integers(1, 5)), data.draw(LENGTHS)
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
def another_tiling_of_a_softmax(data):
    shape = data.draw(st.integers(1, 6)), data.draw(LENGTHS)
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
    outputs, features = [((4, 7), "float32")], SimtFeatures(ThreadBlock(32), 1024)
    kernel = GpuKernel(body, ["%r"], [x, y], outputs, Tile((4, 7), [1, 1]), features, "movement")
    wanted = np.pad(np.concatenate([x, y], 1), [(1, 2), (0, 0)], constant_values=-1.0)
    np.testing.assert_array_equal(kernel.run()[0], wanted)


def test_sums_of_sums_that_each_lane_has_of_its_own():
    """Vectors run along the rows: in each turn the warp makes the largest number of another row
    first, and then the sum of what is below it.
    """
    x = random((8, 40))
    tile = Tile((8, 40), (8, 40), (8, 1), vector_dim=0, lanes=8)
    features = SimtFeatures(ThreadBlock(64), 1024)
    kernel = GpuKernel(
        softmax((8, 40), 1), ["%r"], [x], [((8, 40), "float32")], tile, features, "reduction"
    )
    powers = np.exp(x.astype(np.float64) - x.max(1, keepdims=True))
    for seed in (None, 1):
        [found] = kernel.run(seed=seed)
        np.testing.assert_allclose(found, powers / powers.sum(1, keepdims=True), rtol=4e-6)


# The sum of a row in each of its columns; a row that begins seven columns further on, of two pieces
# or by positions that are computed.
MOVED = {
    "sums": """%{0}z = arith.constant 0.0 : f32
      %{0}f = linalg.fill ins(%{0}z : f32) outs(%e : tensor<6x40xf32>) -> tensor<6x40xf32>
      %{0} = linalg.generic {{indexing_maps = [affine_map<(i, j, k) -> (i, k)>,
          affine_map<(i, j, k) -> (i, j)>],
          iterator_types = ["parallel", "parallel", "reduction"]}}
          ins(%{1} : tensor<6x40xf32>) outs(%{0}f : tensor<6x40xf32>) {{
      ^bb0(%u: f32, %o: f32):
        %v = arith.addf %u, %o : f32
        linalg.yield %v : f32
      }} -> tensor<6x40xf32>""",
    "pieces": """%{0}h = tensor.extract_slice %{1}[0, 7] [6, 33] [1, 1]
          : tensor<6x40xf32> to tensor<6x33xf32>
      %{0}l = tensor.extract_slice %{1}[0, 0] [6, 7] [1, 1] : tensor<6x40xf32> to tensor<6x7xf32>
      %{0}c = tensor.concat dim(1) %{0}h, %{0}l
          : (tensor<6x33xf32>, tensor<6x7xf32>) -> tensor<6x40xf32>
      %{0} = linalg.generic {{indexing_maps = [affine_map<(i, j) -> (i, j)>,
          affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]}}
          ins(%{0}c : tensor<6x40xf32>) outs(%e : tensor<6x40xf32>) {{
      ^bb0(%u: f32, %o: f32):
        %v = arith.addf %u, %u : f32
        linalg.yield %v : f32
      }} -> tensor<6x40xf32>""",
    "positions": """%{0} = linalg.generic {{indexing_maps = [affine_map<(i, j) -> (i, j)>],
          iterator_types = ["parallel", "parallel"]}} outs(%e : tensor<6x40xf32>) {{
      ^bb0(%o: f32):
        %i = linalg.index 0 : index
        %j = linalg.index 1 : index
        %c7 = arith.constant 7 : index
        %c40 = arith.constant 40 : index
        %k = arith.addi %j, %c7 : index
        %n = arith.remui %k, %c40 : index
        %u = tensor.extract %{1}[%i, %n] : tensor<6x40xf32>
        %v = arith.addf %u, %u : f32
        linalg.yield %v : f32
      }} -> tensor<6x40xf32>""",
}
KEPT = """%{0} = "rtask.stage"(%{1}) {{axes = array<i64: 0, -1>, lanes = 8 : i64,
          order = array<i64: 0, 1>, register_tile = array<i64: 1, 8>, vector_dim = 1 : i64}}
          : (tensor<6x40xf32>) -> tensor<6x40xf32>"""


def moving_kernel(parts: Sequence[str], x: np.ndarray) -> GpuKernel:
    """What makes %r of %a0, in tasks of two rows."""
    body = "\n".join(["%e = tensor.empty() : tensor<6x40xf32>", *parts])
    tile, features = Tile((6, 40), (2, 40), (1, 8), vector_dim=1, lanes=8), ThreadBlock(64)
    outputs = [((6, 40), "float32")]
    return GpuKernel(body, ["%r"], [x], outputs, tile, SimtFeatures(features, 4096), "elementwise")


@pytest.mark.parametrize("read", MOVED)
def test_stages_that_read_each_other(read: str):
    """Each thread reads what others keep, from the first stage and then from the second."""
    x, moved = np.round(random((6, 40)) * 4), MOVED[read].format
    parts = [moved("p", "a0"), KEPT.format("s", "p"), moved("q", "s"), KEPT.format("t", "q")]
    kernel = moving_kernel([*parts, moved("r", "t")], x)
    assert kernel.source.count("gpu.barrier") == 3 and kernel.shared == 2 * 192
    wanted = np.roll(x, -21, 1) * 8
    if read == "sums":
        wanted = np.broadcast_to(x.sum(1, keepdims=True) * 40 * 40, (6, 40))
    for seed in (None, 1, 2):
        np.testing.assert_array_equal(kernel.run(seed=seed)[0], wanted)


def test_pieces_of_what_is_computed():
    """Which of them a thread reads, only a run knows."""
    x, moved = random((6, 40)), MOVED["pieces"].format
    kernel = moving_kernel([moved("p", "a0"), moved("r", "p")], x)
    np.testing.assert_array_equal(kernel.run()[0], np.roll(x, -14, 1) * 4)


@every(CHECKS)
def test_some_kernels(check: Check):
    try_some(check)


@pytest.mark.slow
@every(CHECKS)
def test_many_kernels(check: Check):
    try_many(check)
