"""What is asked of every op of a large model, and found once for equal ones."""

import pytest
from torch_mlir import ir

from rcompiler.dialects import load
from rcompiler.dialects.uses import tensors_used
from rcompiler.linalg.convolution import Windows
from rcompiler.linalg.generic import Forms, Generic
from rcompiler.passes.ir.structure import body_structure

TEXT = """
#id = affine_map<(m) -> (m)>
#window = affine_map<(m, k) -> (m + k)>
#tap = affine_map<(m, k) -> (k)>
#out = affine_map<(m, k) -> (m)>
func.func @main(%x: tensor<8xf32>, %table: tensor<9xf32>, %w: tensor<3xf32>, %y: tensor<10xf32>) {
  %e = tensor.empty() : tensor<8xf32>
  %gather = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]}
      ins(%x : tensor<8xf32>) outs(%e : tensor<8xf32>) {
  ^bb0(%a: f32, %o: f32):
    %i = arith.fptoui %a : f32 to i64
    %n = arith.index_cast %i : i64 to index
    %v = tensor.extract %table[%n] : tensor<9xf32>
    %s = arith.addf %v, %a : f32
    linalg.yield %s : f32
  } -> tensor<8xf32>
  %first = linalg.generic {indexing_maps = [#window, #tap, #out],
      iterator_types = ["parallel", "reduction"]}
      ins(%y, %w : tensor<10xf32>, tensor<3xf32>) outs(%e : tensor<8xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %p = arith.mulf %a, %b : f32
    %s = arith.addf %o, %p : f32
    linalg.yield %s : f32
  } -> tensor<8xf32>
  %second = linalg.generic {indexing_maps = [#window, #tap, #out],
      iterator_types = ["parallel", "reduction"]}
      ins(%y, %w : tensor<10xf32>, tensor<3xf32>) outs(%first : tensor<8xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %p = arith.mulf %a, %b : f32
    %s = arith.addf %p, %o : f32
    linalg.yield %s : f32
  } -> tensor<8xf32>
  return
}
"""


@pytest.fixture
def ops():
    """The function's arguments, and its ops."""
    with load(ir.Context()), ir.Location.unknown():
        module = ir.Module.parse(TEXT)
        block = module.body.operations[0].regions[0].blocks[0]
        yield list(block.arguments), [view.operation for view in block.operations]


def test_tensors_in_a_body_come_behind_the_operands(ops):
    (x, table, w, y), (empty, gather, first, *_) = ops
    assert list(tensors_used(gather)) == [x, empty.results[0], table]
    assert list(tensors_used(first)) == [y, w, empty.results[0]]


def test_equal_forms_share_what_follows_from_them(ops):
    _, (_, gather, first, second, _) = ops
    forms = Forms()
    one, other, apart = (forms.of(op) for op in (first, second, gather))
    assert one.maps is other.maps and one.maps == Generic(second).maps
    assert (one.reduction_dims, other.reduction_dims, apart.reduction_dims) == ([1], [1], [])
    assert other.op == second and other.inits == [first.results[0]]


def test_windows_are_told_by_the_maps(ops):
    _, (_, gather, first, second, _) = ops
    windows = Windows()
    assert [windows(op) for op in (gather, first, second, first)] == [False, True, True, True]


def test_bodies_are_equal_where_their_ops_take_the_same(ops):
    _, (_, gather, first, second, _) = ops
    keys = [body_structure(op.regions) for op in (gather, first, second, first)]
    assert keys[1] == keys[3] and len(set(keys)) == 3
