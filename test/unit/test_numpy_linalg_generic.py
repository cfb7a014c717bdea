"""linalg ops of the numpy interpreter: hand-computed examples, and random ones against a loop nest
in Python.
"""

import itertools
import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy_linalg import function_results, generic
from torch_mlir import ir


def results(text, *arrays):
    """The results of the function of a module."""
    with ir.Context(), ir.Location.unknown():
        return function_results(ir.Module.parse(text), arrays)


def generic_text(loops, kinds, maps, types, body, element="i64"):
    """A function of the operands of a generic, the last of which is the result."""
    dims = ", ".join(f"d{k}" for k in range(loops))
    shown = ", ".join(f"affine_map<({dims}) -> ({', '.join(m)})>" for m in maps)
    names = [f"%x{k}" for k in range(len(maps))]
    arguments = ", ".join(f"{n}: {t}" for n, t in zip(names, types, strict=True))
    elements = ", ".join(f"%e{k}: {element}" for k in range(len(maps)))
    kinds = ", ".join(f'"{kind}"' for kind in kinds)
    return f"""
      func.func @main({arguments}) -> {types[-1]} {{
        %r = linalg.generic {{indexing_maps = [{shown}], iterator_types = [{kinds}]}}
            ins({", ".join(names[:-1])} : {", ".join(types[:-1])})
            outs({names[-1]} : {types[-1]}) {{
        ^bb0({elements}):
          {body}
          linalg.yield %y : {element}
        }} -> {types[-1]}
        return %r : {types[-1]}
      }}"""


# -- by hand --------------------------------------------------------------------------------------
PRODUCT = """%p = arith.mulf %e0, %e1 : f32
          %y = arith.addf %e2, %p : f32"""


def test_a_product():
    types = ["tensor<2x3xf32>", "tensor<3x2xf32>", "tensor<2x2xf32>"]
    maps = [("d0", "d2"), ("d2", "d1"), ("d0", "d1")]
    kinds = ["parallel", "parallel", "reduction"]
    text = generic_text(3, kinds, maps, types, PRODUCT, "f32")
    a, b = np.float32([[1, 2, 3], [4, 5, 6]]), np.float32([[1, 0], [0, 1], [1, 1]])
    [found] = results(text, a, b, np.float32([[10, 0], [0, 0]]))
    np.testing.assert_array_equal(found, [[14, 5], [10, 11]])


def test_a_convolution_with_strides():
    types = ["tensor<7xf32>", "tensor<3xf32>", "tensor<3xf32>"]
    maps = [("d0 * 2 + d1",), ("d1",), ("d0",)]
    text = generic_text(2, ["parallel", "reduction"], maps, types, PRODUCT, "f32")
    x, w, zero = np.float32([1, 2, 3, 4, 5, 6, 7]), np.float32([1, 10, 100]), np.zeros(3, "f4")
    np.testing.assert_array_equal(results(text, x, w, zero)[0], [321, 543, 765])
    unknown = text.replace("tensor<7xf32>", "tensor<?xf32>")  # MLIR looks at static sizes
    with pytest.raises(IndexError, match="elements 0 to 6 of dim 0"):
        results(unknown, x[:6], w, zero)


def test_sums_are_made_in_the_order_of_the_loops():
    """1 + 2**24 - 2**24 - ...: another order, or f64, gives another sum."""
    x = np.float32([[1, 2**24], [-(2**24), 1], [2**24, 1]])
    maps, types = [("d0", "d1"), ()], ["tensor<3x2xf32>", "tensor<f32>"]
    text = generic_text(2, ["reduction"] * 2, maps, types, "%y = arith.addf %e1, %e0 : f32", "f32")
    [found] = results(text, x, np.array(0, "f4"))
    expected = np.float32(0)
    for number in x.reshape(-1):
        expected = np.float32(expected + number)
    assert found == expected and found != x.astype("f8").sum()


def test_each_op_on_f16_is_rounded():
    """2048 + 1 is 2048 in f16, however often."""
    types = ["tensor<8xf16>", "tensor<f16>"]
    text = generic_text(
        1, ["reduction"], [("d0",), ()], types, "%y = arith.addf %e1, %e0 : f16", "f16"
    )
    [found] = results(text, np.ones(8, "f2"), np.array(2048, "f2"))
    assert found == 2048


def test_indices_and_elements_of_other_tensors():
    text = """
      func.func @main(%at: tensor<2x2xi64>, %from: tensor<3xi64>) -> tensor<2x2xi64> {
        %e = tensor.empty() : tensor<2x2xi64>
        %c100 = arith.constant 100 : i64
        %r = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>,
                                              affine_map<(d0, d1) -> (d1, d0)>],
                             iterator_types = ["parallel", "parallel"]}
            ins(%at : tensor<2x2xi64>) outs(%e : tensor<2x2xi64>) {
        ^bb0(%a: i64, %o: i64):
          %i = arith.index_cast %a : i64 to index
          %v = tensor.extract %from[%i] : tensor<3xi64>
          %d0 = linalg.index 0 : index
          %d1 = linalg.index 1 : index
          %t = affine.apply affine_map<(d0, d1) -> (d0 * 10 + d1)>(%d0, %d1)
          %u = arith.index_cast %t : index to i64
          %w = arith.muli %v, %c100 : i64
          %y = arith.addi %w, %u : i64
          linalg.yield %y : i64
        } -> tensor<2x2xi64>
        return %r : tensor<2x2xi64>
      }"""
    source = np.array([5, 6, 7])
    [found] = results(text, np.array([[0, 1], [2, 0]]), source)
    np.testing.assert_array_equal(found, [[500, 710], [601, 511]])
    with pytest.raises(IndexError, match="elements 0 to 3 of dim 0"):
        results(text, np.array([[0, 1], [3, 0]]), source)


def test_elements_that_depend_on_what_was_computed():
    """A chain through a table, which no step can be made in front of."""
    text = """
      func.func @main(%x: tensor<4xi64>, %table: tensor<5xi64>) -> tensor<i64> {
        %e = arith.constant dense<0> : tensor<i64>
        %r = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> ()>],
                             iterator_types = ["reduction"]}
            ins(%x : tensor<4xi64>) outs(%e : tensor<i64>) {
        ^bb0(%a: i64, %o: i64):
          %i = arith.index_cast %o : i64 to index
          %v = tensor.extract %table[%i] : tensor<5xi64>
          %y = arith.addi %v, %a : i64
          linalg.yield %y : i64
        } -> tensor<i64>
        return %r : tensor<i64>
      }"""
    # by way of 2, 4 and 3
    assert results(text, np.array([1, 0, 1, 7]), np.array([1, 9, 4, 0, 2]))[0] == 7


def test_a_maximum_and_where_it_is():
    text = """
      func.func @main(%x: tensor<2x3xf32>) -> (tensor<2xf32>, tensor<2xi64>) {
        %low = arith.constant dense<0xFF800000> : tensor<2xf32>
        %first = arith.constant dense<0> : tensor<2xi64>
        %r:2 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>,
                                affine_map<(d0, d1) -> (d0)>, affine_map<(d0, d1) -> (d0)>],
                               iterator_types = ["parallel", "reduction"]}
            ins(%x : tensor<2x3xf32>) outs(%low, %first : tensor<2xf32>, tensor<2xi64>) {
        ^bb0(%a: f32, %m: f32, %w: i64):
          %d = linalg.index 1 : index
          %here = arith.index_cast %d : index to i64
          %more = arith.cmpf ogt, %a, %m : f32
          %n = arith.select %more, %a, %m : f32
          %v = arith.select %more, %here, %w : i64
          linalg.yield %n, %v : f32, i64
        } -> (tensor<2xf32>, tensor<2xi64>)
        return %r#0, %r#1 : tensor<2xf32>, tensor<2xi64>
      }"""
    largest, where = results(text, np.float32([[1, 3, 3], [-1, -2, -3]]))
    np.testing.assert_array_equal(largest, np.float32([3, -1]))
    np.testing.assert_array_equal(where, [1, 0])


def test_results_that_change_places():
    text = """
      func.func @main(%a: tensor<2xi64>, %b: tensor<2xi64>) -> (tensor<2xi64>, tensor<2xi64>) {
        %r:2 = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>],
                               iterator_types = ["parallel"]}
            outs(%a, %b : tensor<2xi64>, tensor<2xi64>) {
        ^bb0(%x: i64, %y: i64):
          linalg.yield %y, %x : i64, i64
        } -> (tensor<2xi64>, tensor<2xi64>)
        return %r#0, %r#1 : tensor<2xi64>, tensor<2xi64>
      }"""
    given_a, given_b = np.array([1, 2]), np.array([3, 4])
    found = results(text, given_a, given_b)
    np.testing.assert_array_equal(found, [[3, 4], [1, 2]])
    np.testing.assert_array_equal([given_a, given_b], [[1, 2], [3, 4]])


def test_named_ops():
    text = """
      func.func @main(%a: tensor<2x3xf32>, %b: tensor<3x2xf32>, %r: tensor<2xf32>)
          -> (tensor<2x2xf32>, tensor<2xf32>, tensor<3x2xf32>) {
        %zero = arith.constant 0.0 : f32
        %e = tensor.empty() : tensor<2x2xf32>
        %f = linalg.fill ins(%zero : f32) outs(%e : tensor<2x2xf32>) -> tensor<2x2xf32>
        %m = linalg.matmul ins(%a, %b : tensor<2x3xf32>, tensor<3x2xf32>)
            outs(%f : tensor<2x2xf32>) -> tensor<2x2xf32>
        %s = linalg.reduce ins(%a : tensor<2x3xf32>) outs(%r : tensor<2xf32>) dimensions = [1]
          (%x: f32, %acc: f32) {
            %t = arith.addf %acc, %x : f32
            linalg.yield %t : f32
          }
        %u = tensor.empty() : tensor<3x2xf32>
        %t = linalg.transpose ins(%a : tensor<2x3xf32>) outs(%u : tensor<3x2xf32>)
            permutation = [1, 0]
        return %m, %s, %t : tensor<2x2xf32>, tensor<2xf32>, tensor<3x2xf32>
      }"""
    a, b = np.float32([[1, 2, 3], [4, 5, 6]]), np.float32([[1, 0], [0, 1], [1, 1]])
    product, sums, turned = results(text, a, b, np.float32([100, 0]))
    np.testing.assert_array_equal(product, a @ b)
    np.testing.assert_array_equal(sums, [106, 15])
    np.testing.assert_array_equal(turned, a.T)


def test_loops_of_no_steps():
    types = ["tensor<2x0xf32>", "tensor<2xf32>"]
    maps = [("d0", "d1"), ("d0",)]
    kinds = ["parallel", "reduction"]
    text = generic_text(2, kinds, maps, types, "%y = arith.addf %e1, %e0 : f32", "f32")
    [found] = results(text, np.zeros((2, 0), "f4"), np.float32([1, 2]))
    np.testing.assert_array_equal(found, [1, 2])


@pytest.mark.parametrize("map_", [("d0 floordiv 2",), ("0",)])
def test_parallel_loops_that_write_the_same_element_are_refused(map_):
    types = ["tensor<4xi64>", "tensor<2xi64>"]
    body = "%y = arith.addi %e1, %e0 : i64"
    text = generic_text(1, ["parallel"], [("d0",), map_], types, body)
    with pytest.raises(ValueError, match="write the same elements"):
        results(text, np.arange(4), np.zeros(2, "i8"))
    text = generic_text(1, ["reduction"], [("d0",), map_], types, body)
    [found] = results(text, np.arange(4), np.zeros(2, "i8"))
    np.testing.assert_array_equal(found, [1, 5] if "floordiv" in map_[0] else [6, 0])


def test_parallel_loops_may_write_to_blocks():
    """As channels do in blocks of 2: the map is one to one, though no dim alone says where."""
    types = ["tensor<4x3xi64>", "tensor<2x3x2xi64>"]
    maps = [("d0", "d1"), ("d0 floordiv 2", "d1", "d0 mod 2")]
    body = "%y = arith.muli %e0, %e0 : i64"
    text = generic_text(2, ["parallel"] * 2, maps, types, body)
    x = np.arange(12).reshape(4, 3)
    [found] = results(text, x, np.zeros((2, 3, 2), "i8"))
    np.testing.assert_array_equal(found, (x * x).reshape(2, 2, 3).transpose(0, 2, 1))


# -- against a loop nest --------------------------------------------------------------------------
def nest(loops, maps, arrays, body):
    """What a generic means, element by element; the maps are Python expressions of the dims."""
    out = arrays[-1].copy()
    for point in itertools.product(*map(range, loops)):
        names = {f"d{k}": n for k, n in enumerate(point)}
        where = [
            tuple(eval(e.replace("floordiv", "//").replace("mod", "%"), names) for e in m)
            for m in maps
        ]
        elements = [a[w] for a, w in zip(arrays[:-1], where[:-1], strict=True)]
        out[where[-1]] = body(names, *elements, out[where[-1]])
    return out


# ops of a body, and what they compute of the elements of two inputs, the result, and the loops
BODIES = {
    "%p = arith.muli %e0, %e1 : i64\n%y = arith.addi %e2, %p : i64": lambda d, a, b, o: o + a * b,
    "%p = arith.subi %e2, %e0 : i64\n%y = arith.xori %p, %e1 : i64": lambda d, a, b, o: o - a ^ b,
    "%y = arith.maxsi %e0, %e1 : i64": lambda d, a, b, o: max(a, b),
    "%y = arith.shrsi %e2, %e2 : i64": lambda d, a, b, o: o >> o if 0 <= o < 64 else o >> 63,
    "%i = linalg.index 0 : index\n%j = arith.index_cast %i : index to i64\n"
    "%p = arith.addi %e0, %j : i64\n%q = arith.muli %e2, %e1 : i64\n"
    "%y = arith.addi %p, %q : i64": lambda d, a, b, o: a + d["d0"] + o * b,
}


@st.composite
def cases(draw):
    """Loops, their kinds, indexing maps and the shapes of operands."""
    loops = draw(st.lists(st.integers(1, 4), min_size=1, max_size=4))
    dims = [f"d{k}" for k in range(len(loops))]
    kinds = [draw(st.sampled_from(["parallel", "reduction"])) for _ in loops]
    parallel = [d for d, kind in zip(dims, kinds, strict=True) if kind == "parallel"]

    def expression():
        first, second = draw(st.sampled_from(dims)), draw(st.sampled_from(dims))
        factor = draw(st.integers(1, 3))
        forms = [first, f"{first} * {factor} + {second}", f"{first} floordiv {factor}"]
        return draw(st.sampled_from([*forms, f"({first} + {second}) mod {factor}", f"{factor}"]))

    out = list(draw(st.permutations(parallel)))
    if draw(st.booleans()):  # a dim more, which does not have to tell points apart
        out.insert(draw(st.integers(0, len(out))), expression())
    inputs = [tuple(expression() for _ in range(draw(st.integers(0, 3)))) for _ in range(2)]
    # all loops have their steps from the dims of some operand
    inputs[0] = (*inputs[0], *draw(st.permutations(dims)))
    return loops, kinds, [*inputs, tuple(out)]


def shape_of(loops, map_):
    """The smallest shape that a map leads into."""
    numbers = [
        nest(loops, [(e,)], [np.zeros(100, "i8")], lambda d, o: 1).nonzero()[0].max() + 1
        for e in map_
    ]
    return tuple(map(int, numbers))


@given(cases(), st.sampled_from(list(BODIES)), st.integers(0, 2**32 - 1), st.sampled_from([1, 8]))
@settings(max_examples=150)
def test_random_ops_are_the_loop_nest(case, body, seed, at_once):
    loops, kinds, maps = case
    rng = np.random.default_rng(seed)
    arrays = [rng.integers(-9, 9, shape_of(loops, m)) for m in maps]
    types = ["tensor<" + "".join(f"{n}x" for n in a.shape) + "i64>" for a in arrays]
    text = generic_text(len(loops), kinds, maps, types, body)
    expected = nest(loops, maps, arrays, BODIES[body])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(generic, "_AT_ONCE", at_once)
        [found] = results(text, *arrays)
    np.testing.assert_array_equal(found, expected)


def test_another_map_gives_another_result():
    """What the random ops find: a map with two dims that have changed places."""
    types = ["tensor<3x3xi64>", "tensor<3xi64>"]
    maps, body = [("d0", "d1"), ("d0",)], "%y = arith.addi %e1, %e0 : i64"
    text = generic_text(2, ["parallel", "reduction"], maps, types, body)
    damaged = re.sub(r"-> \(d0, d1\)", "-> (d1, d0)", text, count=1)
    x, zero = np.arange(9).reshape(3, 3), np.zeros(3, "i8")
    assert results(text, x, zero)[0].tolist() == [3, 12, 21]
    assert results(damaged, x, zero)[0].tolist() == [9, 12, 15]


# -- sums whose points are computed at once -------------------------------------------------------
def test_a_reduction_whose_steps_have_elements_of_their_own_sums_none():
    text = generic_text(
        1,
        ["reduction"],
        [("d0",), ("d0",)],
        ["tensor<3xi64>"] * 2,
        "%y = arith.addi %e1, %e0 : i64",
    )
    [found] = results(text, np.int64([1, 2, 3]), np.int64([10, 20, 30]))
    np.testing.assert_array_equal(found, [11, 22, 33])


def test_what_is_the_same_at_each_step_counts_at_each():
    """The input does not depend on the loop that is summed over."""
    types = ["tensor<2xi64>", "tensor<5xi64>", "tensor<2xi64>"]
    maps, kinds = [("d0",), ("d1",), ("d0",)], ["parallel", "reduction"]
    text = generic_text(2, kinds, maps, types, "%y = arith.addi %e0, %e2 : i64")
    [found] = results(text, np.int64([1, 2]), np.int64(range(5)), np.int64([100, 200]))
    np.testing.assert_array_equal(found, [105, 210])


def test_sums_of_f16_are_rounded_at_each_step():
    types = ["tensor<4xf16>", "tensor<f16>"]
    text = generic_text(
        1, ["reduction"], [("d0",), ()], types, "%y = arith.addf %e1, %e0 : f16", "f16"
    )
    [found] = results(text, np.ones(4, np.float16), np.float16(2048))
    np.testing.assert_array_equal(found, 2048)


def test_a_difference_is_not_taken_for_a_sum():
    types = ["tensor<3xi64>", "tensor<i64>"]
    text = generic_text(1, ["reduction"], [("d0",), ()], types, "%y = arith.subi %e0, %e1 : i64")
    [found] = results(text, np.int64([1, 2, 3]), np.int64(0))
    np.testing.assert_array_equal(found, 3 - (2 - (1 - 0)))
