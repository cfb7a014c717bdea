"""fold_constants: same numbers, one array per chain, keys that depend on origin only."""

import re
import sys
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from torch_mlir import ir

from rcompiler.frontend.builder import Builder
from rcompiler.passes import _pipeline_text
from rcompiler.passes.constants.fold import fold_constants
from rcompiler.runtime.deferred import whole

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))
from naive_linalg import Runner  # noqa: E402

RUN = Runner()
RNG = np.random.default_rng(3)


def fold(text, constants, passes="", **options):
    with ir.Context() as context:
        module = ir.Module.parse(text)
        if passes:
            _pipeline_text.build(passes, context).run(module.operation)
        arrays = fold_constants(module.operation, constants, **options)
        assert module.operation.verify()
        return str(module), {key: whole(array) for key, array in arrays.items()}


def normal(*shape):
    return RNG.standard_normal(shape).astype(np.float32)


def main(result, *lines):
    """A module that returns %r."""
    body = "\n".join(lines)
    return f"func.func @main() -> ({result} {{rtask.name = \"r\"}}) {{\n{body}\n" \
           f"return %r : {result}\n}}"  # fmt: skip


def only(text, arrays):
    """The array of a module that is one resource constant."""
    assert text.count(" = ") == 1 + text.count("rtask.name = "), text
    [array] = arrays.values()
    return array


MOVES = {
    "pad": (
        (10, 10), (12, 13),
        "%z = arith.constant 2.5 : f32",
        "%r = tensor.pad %w low[1, 0] high[1, 3] {\n^bb0(%i: index, %j: index):\n"
        "tensor.yield %z : f32\n} : tensor<10x10xf32> to tensor<12x13xf32>",
        lambda w: np.pad(w, ((1, 1), (0, 3)), constant_values=2.5),
    ),
    "extract": (
        (10, 20), (5, 18),
        "",
        "%r = tensor.extract_slice %w[1, 2] [5, 18] [2, 1] : tensor<10x20xf32> to "
        "tensor<5x18xf32>",
        lambda w: w[1:10:2, 2:20],
    ),
    "concat": (
        (10, 10), (10, 20),
        "",
        "%r = tensor.concat dim(1) %w, %w : (tensor<10x10xf32>, tensor<10x10xf32>) -> "
        "tensor<10x20xf32>",
        lambda w: np.concatenate([w, w], 1),
    ),
    "insert": (
        (10, 10), (12, 12),
        "%d = arith.constant dense<1.0> : tensor<12x12xf32>",
        "%r = tensor.insert_slice %w into %d[1, 2] [10, 10] [1, 1] : tensor<10x10xf32> into "
        "tensor<12x12xf32>",
        lambda w: np.pad(w, ((1, 1), (2, 0)), constant_values=1.0),
    ),
    "broadcast": (
        (1, 10), (10, 9, 2),
        "%e = tensor.empty() : tensor<10x9x2xf32>",
        "%r = linalg.generic {indexing_maps = [affine_map<(a, b, c) -> (0, a)>, "
        "affine_map<(a, b, c) -> (a, b, c)>], iterator_types = [\"parallel\", \"parallel\", "
        "\"parallel\"]} ins(%w : tensor<1x10xf32>) outs(%e : tensor<10x9x2xf32>) {\n"
        "^bb0(%a: f32, %o: f32):\nlinalg.yield %a : f32\n} -> tensor<10x9x2xf32>",
        lambda w: np.broadcast_to(w.reshape(10, 1, 1), (10, 9, 2)),
    ),
    "permuted result": (
        (10, 8), (8, 10),
        "%e = tensor.empty() : tensor<8x10xf32>",
        "%r = linalg.generic {indexing_maps = [affine_map<(a, b) -> (a, b)>, "
        "affine_map<(a, b) -> (b, a)>], iterator_types = [\"parallel\", \"parallel\"]} "
        "ins(%w : tensor<10x8xf32>) outs(%e : tensor<8x10xf32>) {\n"
        "^bb0(%a: f32, %o: f32):\n%h = arith.truncf %a : f32 to f16\n"
        "%b = arith.extf %h : f16 to f32\nlinalg.yield %b : f32\n} -> tensor<8x10xf32>",
        lambda w: w.T.astype(np.float16).astype(np.float32),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", MOVES)
def test_every_movement(name):
    source, shape, before, op, expected = MOVES[name]
    w = normal(*source)
    kind = f"tensor<{'x'.join(map(str, source))}xf32>"
    value = f"%w = arith.constant dense_resource<w_1> : {kind}"
    constants = {"w_1": w}
    if w.size <= 64:
        value, constants = f'%w = arith.constant dense<"0x{w.tobytes().hex()}"> : {kind}', {}
    text = main(f"tensor<{'x'.join(map(str, shape))}xf32>", value, before, op)
    found = only(*fold(text, constants))
    np.testing.assert_array_equal(found, expected(w))


def test_repacked_convolutions_hold_no_old_weights():
    b = Builder()
    x = b.argument("x", (1, 3, 6, 6), "float32")
    y = b.conv(x, b.constant(normal(20, 3, 3, 3)), [1, 1], [1, 1], [1] * 4)
    y = b.elementwise(lambda s, a, c: a + c, y, b.constant(normal(20, 1, 1)))
    y = b.conv(y, b.constant(normal(32, 20, 3, 3)), [1, 1], [1, 1], [1] * 4)
    text = b.module([("y", y)])
    folded, arrays = fold(text, b.constants, "rtask-block-channels")
    assert sorted(a.shape for a in arrays.values()) == [(2, 2, 3, 3, 16, 16), (2, 3, 3, 3, 16)]
    image = normal(1, 3, 6, 6)
    expected, found = RUN.run(text, b.constants, [image]), RUN.run(folded, arrays, [image])
    np.testing.assert_allclose(found[0], expected[0], rtol=1e-4, atol=1e-5)
    assert fold(text, b.constants, "rtask-block-channels")[0] == folded
    assert fold(folded, arrays)[1].keys() == arrays.keys()


@pytest.mark.parametrize("order", ["k, n", "n, k"])
def test_packed_product(order):
    b = Builder()
    x = b.argument("x", (3, 24), "float32")
    w = normal(24, 40)
    w = b.constant(w if order == "k, n" else w.T.copy())
    read = order.replace("k", "d2").replace("n", "d1")
    y = b.contract((x, "d0, d2"), (w, read), ((3, 40), "d0, d1"), "ppr")
    text = b.module([("y", y)])
    folded, arrays = fold(text, b.constants, "rtask-pack-weights")
    assert [a.shape for a in arrays.values()] == [(3, 24, 16)]
    image = normal(3, 24)
    expected, found = RUN.run(text, b.constants, [image]), RUN.run(folded, arrays, [image])
    np.testing.assert_allclose(found[0], expected[0], rtol=1e-5, atol=1e-6)


def test_key_depends_on_origin_not_on_names():
    move = "tensor.expand_shape {0} [[0, 1]] output_shape [2, 50] : tensor<100xf32> into " \
           "tensor<2x50xf32>"  # fmt: skip
    keys = []
    for name, key in (("%w", "w_1"), ("%other", "w_1"), ("%w", "w_2")):
        text = main(
            "tensor<2x50xf32>",
            f"{name} = arith.constant dense_resource<{key}> : tensor<100xf32>",
            "%r = " + move.format(name),
        )
        keys += fold(text, {key: normal(100)})[1]
    assert keys[0] == keys[1] != keys[2]


def test_arithmetic_in_every_type():
    kinds = {"f16": np.float16, "bf16": ml_dtypes.bfloat16, "f64": np.float64}
    for kind, dtype in kinds.items():
        a, c = (RNG.standard_normal(80).astype(dtype) for _ in range(2))
        text = main(
            f"tensor<80x{kind}>",
            f"%a = arith.constant dense_resource<w_a> : tensor<80x{kind}>",
            f"%c = arith.constant dense_resource<w_c> : tensor<80x{kind}>",
            f"%two = arith.constant 2.0 : {kind}",
            f"%e = tensor.empty() : tensor<80x{kind}>",
            "%r = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>,"
            ' affine_map<(i) -> (i)>], iterator_types = ["parallel"]} ins(%a, %c : '
            f"tensor<80x{kind}>, tensor<80x{kind}>) outs(%e : tensor<80x{kind}>) {{",
            f"^bb0(%x: {kind}, %y: {kind}, %o: {kind}):",
            f"%q = arith.divf %x, %y : {kind}",
            f"%s = arith.subf %q, %two : {kind}",
            f"linalg.yield %s : {kind}",
            f"}} -> tensor<80x{kind}>",
        )
        found = only(*fold(text, {"w_a": a, "w_c": c}))
        assert found.dtype == dtype
        np.testing.assert_array_equal(found, (a / c) - dtype(2))


def test_small_results_and_splats_are_inline_and_large_ones_stay():
    text = main(
        "tensor<4x2xf32>",
        "%w = arith.constant dense_resource<w_1> : tensor<100xf32>",
        "%s = tensor.extract_slice %w[3] [8] [1] : tensor<100xf32> to tensor<8xf32>",
        "%r = tensor.expand_shape %s [[0, 1]] output_shape [4, 2] : tensor<8xf32> into "
        "tensor<4x2xf32>",
    )
    folded, arrays = fold(text, {"w_1": np.arange(100, dtype=np.float32), "w_unused": normal(3)})
    assert "dense<[[3.000000e+00, 4.000000e+00], [" in folded and not arrays
    ones = main(
        "tensor<300x300xi1>",
        "%w = arith.constant dense<true> : tensor<90000xi1>",
        "%r = tensor.expand_shape %w [[0, 1]] output_shape [300, 300] : tensor<90000xi1> into "
        "tensor<300x300xi1>",
    )
    assert "dense<true> : tensor<300x300xi1>" in fold(ones, {})[0]
    kept, arrays = fold(text, {"w_1": normal(100)}, max_bytes=16)
    assert "tensor.expand_shape" in kept and list(arrays) == ["w_1"]


def test_what_depends_on_an_input_stays():
    b = Builder()
    x = b.argument("x", (10, 10), "float32")
    y = b.concat([x, b.constant(normal(10, 10))], 0)
    text = b.module([("y", y)])
    folded, arrays = fold(text, b.constants)
    assert "tensor.concat" in folded and len(arrays) == 1


TWICE = """func.func @main() -> (
  tensor<400xf32> {rtask.name = "r"}, tensor<400xf32> {rtask.name = "s"}
) {
%w = arith.constant dense_resource<w> : tensor<20x20xf32>
%r = tensor.collapse_shape %w [[0, 1]] : tensor<20x20xf32> into tensor<400xf32>
%s = tensor.collapse_shape %w [[0, 1]] : tensor<20x20xf32> into tensor<400xf32>
return %r, %s : tensor<400xf32>, tensor<400xf32>
}"""


def test_equal_results_are_one_constant():
    w = normal(20, 20)
    text, arrays = fold(TWICE, {"w": w})
    assert text.count("arith.constant") == 1
    np.testing.assert_array_equal(next(iter(arrays.values())), w.reshape(-1))


def test_a_result_that_the_context_has_seen_before_is_found():
    """MLIR numbers names of resources that come again."""
    w = normal(20, 20)
    with ir.Context():
        for _ in range(2):
            module = ir.Module.parse(TWICE)
            key = re.findall(r"dense_resource<(\w+)>", str(module))[0]
            arrays = fold_constants(module.operation, {key: w})
            assert set(re.findall(r"dense_resource<(\w+)>", str(module))) == set(arrays)
            np.testing.assert_array_equal(whole(next(iter(arrays.values()))), w.reshape(-1))
