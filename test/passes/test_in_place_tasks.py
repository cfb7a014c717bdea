"""`in_place` of a task's body: an operand whose bytes the result may have taken is read only where,
and only for what, is written over it."""

import pytest
from torch_mlir import ir

from rcompiler import dialects
from rcompiler.errors import InvalidModel
from rcompiler.passes.tiles.task_claims import check_task_body

BODY = """
"rtask.kernel"() ({{
^bb0(%x: tensor<8x8xf32>, %bias: tensor<8xf32>, %out: tensor<8x8xf32>, %task: index):
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c4 = arith.constant 4 : index
  %first = affine.apply affine_map<(t) -> (t * 4)>(%task)
{body}
  "rtask.yield"(%done) : (tensor<8x8xf32>) -> ()
}}) {{estimated_ns = 10.0 : f64, grid = array<i64: 2>, in_place = array<i64{pairs}>,
    kind = "elementwise", lanes = 4 : i64, on_chip_bytes = 0 : i64,
    reads = [[array<i64: {reads}>, array<i64: -1, 0, 0, 0>], [array<i64: -1, 0, 0, 0>]],
    register_tile = array<i64: 1>, registers = 3 : i64, source = "by hand", sym_name = "mine",
    tasks = 2 : i64, tile = array<i64: 4>, vector_dim = -1 : i64,
    writes = [[array<i64: 0, 4, 0, 4>, array<i64: -1, 0, 0, 0>]]}} : () -> ()
"""

# Row after row of the task's four. read: the row that is read for row `%r`.
ROWS = """
  %done = scf.for %i = %c0 to %c4 step %c1 iter_args(%rows = %out) -> (tensor<8x8xf32>) {{
    %r = affine.apply affine_map<(f, i) -> (f + i)>(%first, %i)
    %q = affine.apply affine_map<(f, i) -> ({read})>(%first, %i)
    %s = tensor.extract_slice %x[%q, 0] [1, 8] [1, 1] : tensor<8x8xf32> to tensor<1x8xf32>
    %e = tensor.empty() : tensor<1x8xf32>
    %t = linalg.generic {{indexing_maps = [{maps}, affine_map<(a, b) -> (a, b)>],
        iterator_types = ["parallel", "parallel"]}}
        ins(%s, %bias : tensor<1x8xf32>, tensor<8xf32>) outs(%e : tensor<1x8xf32>) {{
    ^bb0(%u: f32, %v: f32, %w: f32):
      %n = arith.addf %u, %v : f32
      linalg.yield %n : f32
    }} -> tensor<1x8xf32>
    %next = tensor.insert_slice %t into %rows[%r, 0] [1, 8] [1, 1]
        : tensor<1x8xf32> into tensor<8x8xf32>
    scf.yield %next : tensor<8x8xf32>
  }}"""
SAME = "affine_map<(a, b) -> (a, b)>, affine_map<(a, b) -> (b)>"

# The four rows at once, each element from `read` of its own.
AT_ONCE = """
  %s = tensor.extract_slice %x[%first, 0] [4, 8] [1, 1] : tensor<8x8xf32> to tensor<4x8xf32>
  %part = tensor.extract_slice %s[0, 4] [4, 4] [1, 1] : tensor<4x8xf32> to tensor<4x4xf32>
  %other = tensor.extract_slice %x[%first, 0] [4, 4] [1, 1] : tensor<8x8xf32> to tensor<4x4xf32>
  %e = tensor.empty() : tensor<4x4xf32>
  %left = linalg.generic {{indexing_maps = [{read}, affine_map<(a, b) -> (a, b)>],
      iterator_types = ["parallel", "parallel"]}}
      ins(%other : tensor<4x4xf32>) outs(%e : tensor<4x4xf32>) {{
  ^bb0(%u: f32, %w: f32):
    {op}
    linalg.yield %n : f32
  }} -> tensor<4x4xf32>
  %half = tensor.insert_slice %left into %out[%first, 0] [4, 4] [1, 1]
      : tensor<4x4xf32> into tensor<8x8xf32>
  %done = tensor.insert_slice %part into %half[%first, 4] [4, 4] [1, 1]
      : tensor<4x4xf32> into tensor<8x8xf32>"""
NEGATED = "%n = arith.negf %u : f32"


def check(body, pairs=": 0, 0", reads="0, 4, 0, 4"):
    check_text(BODY.format(body=body, pairs=pairs, reads=reads))


def check_text(text):
    with dialects.load(ir.Context()), ir.Location.unknown():
        module = ir.Module.parse(text)
        check_task_body(module.body.operations[0].operation)


def test_each_row_from_the_row_in_its_place():
    check(ROWS.format(read="f + i", maps=SAME))


def test_slices_of_slices_are_followed():
    check(AT_ONCE.format(read="affine_map<(a, b) -> (a, b)>", op=NEGATED))


def test_operands_with_bytes_of_their_own_are_read_anywhere():
    """The same bodies as below, without the claim."""
    check(ROWS.format(read="f - i + 3", maps=SAME), pairs="")
    check(AT_ONCE.format(read="affine_map<(a, b) -> (b, a)>", op=NEGATED), pairs="")


def test_a_row_that_another_tile_of_the_task_writes():
    body = ROWS.format(read="f - i + 3", maps=SAME)
    wanted = (
        r"@mine: task \[0\] reads \[3, 0 \.\.\. 7\] of operand 0 for \[0, 0 \.\.\. 7\] of result "
        "0, and 'in_place' says that result 0 may lie in the same bytes"
    )
    with pytest.raises(InvalidModel, match=wanted):
        check(body)


def test_a_row_that_another_task_writes():
    with pytest.raises(InvalidModel, match=r"task \[0\] reads \[4, .* 'in_place'"):
        check(ROWS.format(read="i - f + 4", maps=SAME), reads="-1, 0, 0, 0")


def test_other_elements_of_the_same_box():
    """A transposed tile: its first row is written before its second row is read."""
    with pytest.raises(InvalidModel, match="'in_place'"):
        check(AT_ONCE.format(read="affine_map<(a, b) -> (b, a)>", op=NEGATED))


def test_elements_at_computed_positions():
    at = """%i = linalg.index 1 : index
    %m = tensor.extract %other[%i, %i] : tensor<4x4xf32>
    %n = arith.addf %m, %u : f32"""
    with pytest.raises(InvalidModel, match="'in_place'"):
        check(AT_ONCE.format(read="affine_map<(a, b) -> (a, b)>", op=at))


def test_the_bias_cannot_lie_in_the_result():
    with pytest.raises(InvalidModel, match=r"of operand 1 .* 'in_place'"):
        check(ROWS.format(read="f + i", maps=SAME), pairs=": 1, 0")


def test_elements_of_another_size():
    """Their bytes lie elsewhere, though their places are the same."""
    body = ROWS.format(read="f + i", maps=SAME).replace("tensor<1x8xf32>, tensor<8xf32>)", "WIDE")
    text = BODY.format(body=body, pairs=": 0, 0", reads="0, 4, 0, 4")
    text = text.replace("WIDE", "tensor<1x8xf64>, tensor<8xf32>)").replace("%u: f32", "%d: f64")
    text = text.replace("%n = arith.addf", "%u = arith.truncf %d : f64 to f32\n%n = arith.addf")
    text = text.replace("%x: tensor<8x8xf32>", "%x: tensor<8x8xf64>")
    text = text.replace("tensor<8x8xf32> to tensor<1x8xf32>", "tensor<8x8xf64> to tensor<1x8xf64>")
    with pytest.raises(InvalidModel, match="'in_place'"):
        check_text(text)
