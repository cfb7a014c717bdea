"""What estimates know of reads at computed positions: gathers, scatters and other loops."""

from contextlib import contextmanager

import pytest
from torch_mlir import ir

from rcompiler import dialects
from rcompiler.device.cpu import cpu_device
from rcompiler.frontend.sorting import entering
from rcompiler.linalg.values import ops_of
from rcompiler.passes.tiling.body_cost import loop_cost
from rcompiler.passes.tiling.tensor_expr import Tracer, tensor_expr
from rcompiler.roller.expr import TensorAccess, index
from rcompiler.roller.register import RegisterModel
from rcompiler.roller.vectors import VectorAxis

GATHER = """
func.func @f(%at: tensor<32xi64>, %x: tensor<100x64xf32>) -> tensor<32x64xf32> {
  %0 = tensor.empty() : tensor<32x64xf32>
  %1 = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i)>, affine_map<(i, j) -> (i, j)>],
      iterator_types = ["parallel", "parallel"]}
      ins(%at : tensor<32xi64>) outs(%0 : tensor<32x64xf32>) {
  ^bb0(%a: i64, %o: f32):
    %row = arith.index_cast %a : i64 to index
    %column = linalg.index 1 : index
    %v = tensor.extract %x[%row, %column] : tensor<100x64xf32>
    linalg.yield %v : f32
  } -> tensor<32x64xf32>
  return %1 : tensor<32x64xf32>
}
"""
# rows apart, each written at positions that the loop reads
SCATTER = """
func.func @f(%x: tensor<8x64xf32>, %at: tensor<8x4xi64>, %u: tensor<8x4xf32>) -> tensor<8x64xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c4 = arith.constant 4 : index
  %c8 = arith.constant 8 : index
  %0 = scf.for %i = %c0 to %c8 step %c1 iter_args(%a = %x) -> (tensor<8x64xf32>) {
    %1 = scf.for %j = %c0 to %c4 step %c1 iter_args(%b = %a) -> (tensor<8x64xf32>) {
      %2 = tensor.extract %at[%i, %j] : tensor<8x4xi64>
      %3 = arith.index_cast %2 : i64 to index
      %4 = tensor.extract %u[%i, %j] : tensor<8x4xf32>
      %5 = tensor.insert %4 into %b[%i, %3] : tensor<8x64xf32>
      scf.yield %5 : tensor<8x64xf32>
    } NOTE
    scf.yield %1 : tensor<8x64xf32>
  }
  return %0 : tensor<8x64xf32>
}
"""


@contextmanager
def function(text):
    """The arguments of a function, and the value that it returns."""
    with dialects.load(ir.Context()), ir.Location.unknown():
        module = ir.Module.parse(text)
        block = module.body.operations[0].regions[0].blocks[0]
        yield list(block.arguments), list(block.operations)[-1].operation.operands[0]


def expr_of(text, kind=None):
    with function(text) as (leaves, result):
        return tensor_expr(leaves, [result], kind, Tracer(leaves, [result]).trace())


def test_a_gather_reads_rows_that_are_whole():
    at, x = expr_of(GATHER).inputs
    assert at.dims == (index((1, 0)),)
    assert x == TensorAccess((100, 64), 4, (None, index((1, 1))))
    assert x.stride(1, 16, 64) == 1


def test_a_schedule_takes_a_gather_to_read_anything():
    with function(GATHER) as (leaves, result):
        assert Tracer(leaves, [result]).trace().reads[1].at is None


def test_a_loop_copies_what_it_carries_and_reads_the_rest_row_by_row():
    x, at, u = expr_of(SCATTER.replace("NOTE", ""), "sequential").inputs
    assert x.dims == (index((1, 0)), index((1, 1)))
    assert at.dims == u.dims == (index((1, 0)), None)


def test_what_a_loop_copies_goes_by_vectors():
    expr, device = expr_of(SCATTER.replace("NOTE", ""), "sequential"), cpu_device("v4")
    tile = RegisterModel(expr, device, VectorAxis(-1, 1)).tile((1, 4))
    assert tile.loads == 4 / 16  # of x; those of the other operands are in the arithmetic


@pytest.mark.parametrize(
    ("note", "steps"), [("", 4), ("{rtask.expected_steps = 5.000000e-01 : f64}", 0.5)]
)
def test_a_loop_takes_the_steps_that_are_expected(note, steps):
    with function(SCATTER.replace("NOTE", note)) as (_, result):
        # each step: two reads, a write, a cast; twice a slot each
        assert loop_cost(result.owner.operation) == 8 * steps * 2 * 4


def test_few_elements_enter_the_first_k():
    assert entering(5, 5) == 5
    assert entering(1, 4096) == pytest.approx(1 + 8.318, abs=1e-3)  # 1 + ln 4096
    assert entering(3, 2) == 2


def test_an_if_without_else_costs_its_one_side():
    text = """
    func.func @f(%c: i1, %n: index) {
      %zero = arith.constant 0 : index
      %one = arith.constant 1 : index
      %four = arith.constant 4 : index
      scf.for %i = %zero to %four step %one {
        scf.if %c {
          %s = arith.addi %i, %n : index
        }
      }
      return
    }
    """
    with dialects.load(ir.Context()), ir.Location.unknown():
        module = ir.Module.parse(text)
        *_, loop, _ = ops_of(module.body.operations[0].regions[0].blocks[0])
        assert loop_cost(loop) == 4 * 2
