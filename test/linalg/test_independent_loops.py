"""Which loops over tensors have iterations with slabs of their own, and what may cut them."""

import pytest
from torch_mlir import ir

from rcompiler import dialects
from rcompiler.errors import InvalidModel
from rcompiler.kernelgen.sequential import carried_numbers
from rcompiler.linalg.independent_loops import (
    Apart,
    in_lockstep,
    in_vectors,
    independent_loops,
    leading,
)
from rcompiler.linalg.values import yielded
from rcompiler.passes.tiling.claims import check_kernel

ROWS = """
  %a2 = scf.for %j = %c0 to %c4 step %c1 iter_args(%b = %a) -> (tensor<8x4xf32>) {
    %v = tensor.extract %x[%i, %j] : tensor<8x4xf32>
    %u = tensor.extract %b[%i, %j] : tensor<8x4xf32>
    %s = arith.addf %v, %u : f32
    %t = tensor.insert %s into %b[%i, %j] : tensor<8x4xf32>
    scf.yield %t : tensor<8x4xf32>
  }"""
COLUMNS = ROWS.replace("[%i, %j]", "[%j, %i]")
ONE_BEFORE = """
  %k = arith.muli %i, %c0 : index
  %v = tensor.extract %a[%k, %c1] : tensor<8x4xf32>
  %a2 = tensor.insert %v into %a[%i, %c1] : tensor<8x4xf32>"""
OTHER_ROWS_READ = """
  %k = arith.muli %i, %c0 : index
  %v = tensor.extract %x[%k, %c1] : tensor<8x4xf32>
  %a2 = tensor.insert %v into %a[%i, %c1] : tensor<8x4xf32>"""
TWICE = (
    ROWS.replace("%a2 =", "%a3 =")
    + """
  %w = tensor.extract %a3[%i, %c1] : tensor<8x4xf32>
  %a2 = tensor.insert %w into %a3[%i, %c1] : tensor<8x4xf32>"""
)
THEN_ONE_BEFORE = (
    ROWS.replace("%a2 =", "%a3 =")
    + """
  %k = arith.muli %i, %c0 : index
  %w = tensor.extract %a3[%k, %c1] : tensor<8x4xf32>
  %a2 = tensor.insert %w into %a3[%i, %c1] : tensor<8x4xf32>"""
)
RUNNING = """
  %zero = arith.constant 0.0 : f32
  %a2, %last = scf.for %j = %c0 to %c4 step %c1 iter_args(%b = %a, %sum = %zero)
      -> (tensor<8x4xf32>, f32) {
    %v = tensor.extract %x[%i, %j] : tensor<8x4xf32>
    %s = arith.addf %sum, %v : f32
    %t = tensor.insert %s into %b[%i, %j] : tensor<8x4xf32>
    scf.yield %t, %s : tensor<8x4xf32>, f32
  }"""
AT_ELEMENTS = """
  %v = tensor.extract %x[%i, %c1] : tensor<8x4xf32>
  %n0 = arith.fptoui %v : f32 to i64
  %k = arith.index_cast %n0 : i64 to index
  %a2 = tensor.insert %v into %a[%i, %k] : tensor<8x4xf32>"""
UP_TO_ELEMENTS = """
  %e = tensor.extract %x[%i, %c1] : tensor<8x4xf32>
  %n0 = arith.fptoui %e : f32 to i64
  %k = arith.index_cast %n0 : i64 to index""" + ROWS.replace("%c4 step", "%k step")
BRANCH = """
  %e = tensor.extract %x[%i, %c1] : tensor<8x4xf32>
  %yes = arith.cmpf oeq, %e, %e : f32
  %a2 = scf.if %yes -> (tensor<8x4xf32>) {
    %t = tensor.insert %e into %a[%i, %c1] : tensor<8x4xf32>
    scf.yield %t : tensor<8x4xf32>
  } else {
    scf.yield %a : tensor<8x4xf32>
  }"""
NESTED_BEFORE = ROWS.replace("tensor.extract %b[%i, %j]", "tensor.extract %b[%j, %j]")


def kernel(body, count=8, grid=(2, 1), tile=(4, 4)):
    grid, tile = (", ".join(map(str, one)) for one in (grid, tile))
    boxes = "[array<i64: -1, 0, 0, 0>, array<i64: -1, 0, 0, 0>]"
    return f"""
"rtask.kernel"() ({{
^bb0(%x: tensor<8x4xf32>, %y: tensor<8x4xf32>):
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c4 = arith.constant 4 : index
  %n = arith.constant {count} : index
  %r = scf.for %i = %c0 to %n step %c1 iter_args(%a = %y) -> (tensor<8x4xf32>) {{{body}
    scf.yield %a2 : tensor<8x4xf32>
  }}
  "rtask.yield"(%r) : (tensor<8x4xf32>) -> ()
}}) {{estimated_ns = 3.0 : f64, grid = array<i64: {grid}>, kind = "sequential", lanes = 1 : i64,
    on_chip_bytes = 8 : i64, order = array<i64: 0, 1>, reads = [{boxes}, {boxes}],
    register_tile = array<i64: 1, 1>, registers = 1 : i64, source = "test", sym_name = "k",
    tasks = 2 : i64, tile = array<i64: {tile}>, vector_dim = -1 : i64,
    writes = [[array<i64: 0, 4, 0, 4>, array<i64: -1, 0, 0, 0>]]}} : () -> ()
"""


@pytest.fixture
def parsed():
    with dialects.load(ir.Context()), ir.Location.unknown():

        def parse(text):
            module = ir.Module.parse(text)
            op = module.body.operations[0].operation
            keep.append(module)
            return op

        keep: list = []
        yield parse


@pytest.mark.parametrize(
    ("body", "count", "dims"),
    [
        (ROWS, 8, [0, 1]),
        (TWICE, 8, [0]),  # the loop inside is not all there is
        (RUNNING, 8, [0]),
        (OTHER_ROWS_READ, 8, [0]),
        (COLUMNS, 8, []),  # of which there are four
        (ROWS, 7, []),  # a row is left over
        (ONE_BEFORE, 8, []),
        (NESTED_BEFORE, 8, []),
        (THEN_ONE_BEFORE, 8, []),  # of what the loop inside has made
    ],
)
def test_iterations_with_slabs_of_their_own(parsed, body, count, dims):
    op = parsed(kernel(body, count))
    assert [a.dim for a in independent_loops(yielded(op.regions[0].blocks[0]))] == dims


@pytest.mark.parametrize(
    ("body", "lockstep", "vectors"),
    [
        (RUNNING, True, False),  # iterations are rows: what they read is a row apart
        (ROWS, True, True),
        (AT_ELEMENTS, False, True),
        (UP_TO_ELEMENTS, False, True),
        (BRANCH, False, True),
    ],
)
def test_iterations_that_take_the_same_way(parsed, body, lockstep, vectors):
    op = parsed(kernel(body))
    innermost = independent_loops(yielded(op.regions[0].blocks[0]))[-1].loop
    assert in_lockstep(innermost) == lockstep
    assert in_vectors(innermost) == (lockstep and vectors)


@pytest.mark.parametrize(("body", "count"), [(ROWS, 0), (RUNNING, 1), (BRANCH, 0)])
def test_numbers_that_iterations_carry(parsed, body, count):
    """Tensors are none; those of the loop inside count."""
    op = parsed(kernel(body))
    loop = independent_loops(yielded(op.regions[0].blocks[0]))[0].loop
    assert carried_numbers(loop) == count


def test_a_text_may_cut_only_iterations_that_are_apart(parsed):
    check_kernel(parsed(kernel(ROWS)))
    with pytest.raises(InvalidModel, match="which a loop goes over in order"):
        check_kernel(parsed(kernel(NESTED_BEFORE)))


@pytest.mark.parametrize(
    ("dims", "shape", "alone"),
    [
        ([0], (64, 9), 1),
        ([0, 1], (64, 9, 8), 2),
        ([1], (64, 9), 0),
        ([0, 2], (64, 9, 8), 1),
        ([1, 2], (1, 9, 8), 2),
    ],
)
def test_leading_loops_have_slabs_in_one_piece(dims, shape, alone):
    assert leading([Apart(None, dim) for dim in dims], shape) == alone
