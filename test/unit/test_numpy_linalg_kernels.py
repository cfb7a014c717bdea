"""The numpy interpreter on kernels, of whole operators and of tasks, and on functions of them."""

import numpy as np
import pytest
from numpy_linalg import function_results, kernel_results, named_kernel
from torch_mlir import ir

WHOLE = """
  "rtask.kernel"() ({
  ^bb0(%x: tensor<6x4xf32>, %y: tensor<6x4xf32>):
    %e = tensor.empty() : tensor<6x4xf32>
    %s = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>,
                         affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>],
                         iterator_types = ["parallel", "parallel"]}
        ins(%x, %y : tensor<6x4xf32>, tensor<6x4xf32>) outs(%e : tensor<6x4xf32>) {
    ^bb0(%a: f32, %b: f32, %o: f32):
      %d = arith.subf %a, %b : f32
      linalg.yield %d : f32
    } -> tensor<6x4xf32>
    %k = "rtask.stage"(%s) : (tensor<6x4xf32>) -> tensor<6x4xf32>
    "rtask.yield"(%k) : (tensor<6x4xf32>) -> ()
  }) {sym_name = "whole", tasks = 3 : i64} : () -> ()
"""
# two rows of the difference and of its negative; of the last of four tasks one
TASK = """
  "rtask.kernel"() ({
  ^bb0(%x: tensor<7x4xf32>, %y: tensor<7x4xf32>, %r0: tensor<7x4xf32>, %r1: tensor<7x4xf32>,
       %task: index):
    %i = affine.apply affine_map<(d0) -> (d0 * 2)>(%task)
    %n = affine.min affine_map<(d0) -> (2, 7 - d0)>(%i)
    %a = tensor.extract_slice %x[%i, 0] [%n, 4] [1, 1] : tensor<7x4xf32> to tensor<?x4xf32>
    %b = tensor.extract_slice %y[%i, 0] [%n, 4] [1, 1] : tensor<7x4xf32> to tensor<?x4xf32>
    %s = arith.subf %a, %b : tensor<?x4xf32>
    %t = arith.negf %s : tensor<?x4xf32>
    %o0 = tensor.insert_slice %s into %r0[%i, 0] [%n, 4] [1, 1]
      : tensor<?x4xf32> into tensor<7x4xf32>
    %o1 = tensor.insert_slice %t into %r1[%i, 0] [%n, 4] [1, 1]
      : tensor<?x4xf32> into tensor<7x4xf32>
    %o = builtin.unrealized_conversion_cast %o0, %o1
      : tensor<7x4xf32>, tensor<7x4xf32> to tuple<tensor<7x4xf32>, tensor<7x4xf32>>
    "rtask.yield"(%o) : (tuple<tensor<7x4xf32>, tensor<7x4xf32>>) -> ()
  }) {sym_name = "task", tasks = 4 : i64} : () -> ()
"""
MODEL = """
  func.func @main(%u: tensor<6x4xf32>) -> tensor<6x4xf32> {
    %w = arith.constant dense_resource<weights> : tensor<6x4xf32>
    %r = "rtask.operator"() ({
      %d = arith.subf %w, %u : tensor<6x4xf32>
      "rtask.yield"(%d) : (tensor<6x4xf32>) -> ()
    }) {kernels = [@whole], sym_name = "a"} : () -> tensor<6x4xf32>
    %s = "rtask.operator"() ({
      %d = arith.subf %r, %u : tensor<6x4xf32>
      "rtask.yield"(%d) : (tensor<6x4xf32>) -> ()
    }) {kernels = [@whole, @other], sym_name = "b"} : () -> tensor<6x4xf32>
    return %s : tensor<6x4xf32>
  }
"""


@pytest.fixture
def module():
    """A function that parses a module without the rules of the dialects; it lives as long as the
    test.
    """
    kept = []
    with ir.Context() as context, ir.Location.unknown():
        context.allow_unregistered_dialects = True

        def parse(text):
            kept.append(ir.Module.parse(text))
            return kept[-1]

        yield parse


def numbers(rows, seed):
    """Random numbers, of 4 columns."""
    return np.random.default_rng(seed).standard_normal((rows, 4)).astype(np.float32)


def test_the_body_of_a_whole_operator(module):
    x, y = numbers(6, 0), numbers(6, 1)
    [found] = kernel_results(named_kernel(module(WHOLE)), [x, y])
    np.testing.assert_array_equal(found, x - y)


@pytest.mark.parametrize("seed", range(4))
def test_the_body_of_a_task_is_run_for_all_tasks(module, seed):
    x, y = numbers(7, 0), numbers(7, 1)
    kernel = named_kernel(module(WHOLE + TASK), "task")
    first, second = kernel_results(kernel, [x, y], seed=seed)
    np.testing.assert_array_equal(first, x - y)
    np.testing.assert_array_equal(second, y - x)


def test_what_no_task_writes_shows(module):
    x, y = numbers(7, 0), numbers(7, 1)
    few = TASK.replace("tasks = 4", "tasks = 3")
    first, second = kernel_results(named_kernel(module(few)), [x, y])
    np.testing.assert_array_equal(first[:6], (x - y)[:6])
    assert np.isnan(first[6]).all() and np.isnan(second[6]).all()


def test_a_task_that_goes_beyond_the_end_is_refused(module):
    x, y = numbers(7, 0), numbers(7, 1)
    wrong = TASK.replace("(2, 7 - d0)", "(2, 8 - d0)")
    with pytest.raises(IndexError, match="2 elements from 6 by 1 of dim 0"):
        kernel_results(named_kernel(module(wrong)), [x, y])


def test_results_that_depend_on_the_order_of_tasks_differ(module):
    """A tile that begins one row too early is overwritten, or not."""
    x, y = numbers(7, 0), numbers(7, 1)
    wrong = TASK.replace("tensor.insert_slice %s into %r0[%i", "tensor.insert_slice %s into %r0[%j")
    wrong = wrong.replace("%n = ", "%j = affine.max affine_map<(d0) -> (d0 - 1, 0)>(%i)\n%n = ")
    kernel = named_kernel(module(wrong))
    found = [kernel_results(kernel, [x, y], seed=seed)[0] for seed in range(4)]
    assert any(not np.array_equal(found[0], other, equal_nan=True) for other in found[1:])


def test_operators_are_computed_by_their_first_kernel(module):
    u, w = numbers(6, 0), numbers(6, 1)
    parsed = module(WHOLE + TASK + MODEL)
    [found] = function_results(parsed, [u], {"weights": w})
    np.testing.assert_array_equal(found, w - u - u)
    with pytest.raises(KeyError, match="weights"):
        function_results(parsed, [u])


def test_the_body_of_an_operator_is_not_looked_at(module):
    """Its kernel says what is done: here another thing, for the sake of the test."""
    u, w = numbers(6, 0), numbers(6, 1)
    other = WHOLE.replace("arith.subf", "arith.addf")
    [found] = function_results(module(other + MODEL), [u], {"weights": w})
    np.testing.assert_array_equal(found, w + u + u)


def test_operands_that_are_none_of_the_kernel_are_refused(module):
    for text in (WHOLE, TASK):
        kernel, x = named_kernel(module(text)), numbers(6 if text is WHOLE else 7, 0)
        for operands in ([x], [x, x, x], [x, x[:5]]):
            with pytest.raises(ValueError):
                kernel_results(kernel, operands)
