"""What is proved of a body that the threads of a block share in: each element of a result has one
thread, slices lie in their tensors, and an operand in the bytes of a result is read where it is
written.
"""

import re

import pytest
from torch_mlir import ir

from rcompiler import dialects
from rcompiler.errors import InvalidModel
from rcompiler.passes.tiles import task_claims
from rcompiler.passes.tiles.task_claims import check_task_body

# 3 tasks of 4 rows, the last of 2; a thread has every eighth element of a row.
BODY = """
"rtask.kernel"() ({
^bb0(%x: tensor<10x32xf32>, %out: tensor<10x32xf32>, %task: index):
  %c10 = arith.constant 10 : index
  %first = affine.apply affine_map<(t) -> (t * 4)>(%task)
  %behind = affine.apply affine_map<(t) -> (t * 4 + 4)>(%task)
  %end = affine.min affine_map<(a, b) -> (a, b)>(%behind, %c10)
  %rows = affine.apply affine_map<(a, b) -> (a - b)>(%end, %first)
  %e = tensor.empty() : tensor<1x2xf32>
  %r = scf.forall (%i, %j, %l) in (%rows, 2, 8) shared_outs(%o = %out) -> (tensor<10x32xf32>) {
    %y = affine.apply affine_map<(a, b) -> (a + b)>(%first, %i)
    %k = affine.apply affine_map<(a, b) -> (a * 16 + b)>(%j, %l)
    %s = tensor.extract_slice %x[%y, %k] [1, 9] [1, 1] : tensor<10x32xf32> to tensor<1x9xf32>
    %t = linalg.generic {indexing_maps = [affine_map<(a, b) -> (a, b * 8)>,
        affine_map<(a, b) -> (a, b)>], iterator_types = ["parallel", "parallel"]}
        ins(%s : tensor<1x9xf32>) outs(%e : tensor<1x2xf32>) {
    ^bb0(%u: f32, %v: f32):
      %n = arith.negf %u : f32
      linalg.yield %n : f32
    } -> tensor<1x2xf32>
    scf.forall.in_parallel {
      tensor.parallel_insert_slice %t into %o[%y, %k] [1, 2] [1, 8]
          : tensor<1x2xf32> into tensor<10x32xf32>
    }
  } {mapping = [#gpu.thread<linear_dim_2>, #gpu.thread<linear_dim_1>, #gpu.thread<linear_dim_0>]}
  "rtask.yield"(%r) : (tensor<10x32xf32>) -> ()
}) {estimated_ns = 10.0 : f64, grid = array<i64: 3, 1>, in_place = array<i64: 0, 0>,
    kind = "elementwise", lanes = 8 : i64, on_chip_bytes = 0 : i64,
    reads = [[array<i64: 0, 4, 0, 4>, array<i64: -1, 0, 0, 0>]],
    register_tile = array<i64: 1, 16>, registers = 3 : i64, source = "by hand", sym_name = "mine",
    tasks = 3 : i64, tile = array<i64: 4, 32>, vector_dim = 1 : i64,
    writes = [[array<i64: 0, 4, 0, 4>, array<i64: -1, 0, 0, 0>]]} : () -> ()
"""
APART = ("in_place = array<i64: 0, 0>,", "")


def check(*changes, text=BODY):
    for old, new in changes:
        assert text.count(old) == 1
        text = text.replace(old, new)
    with dialects.load(ir.Context()), ir.Location.unknown():
        module = ir.Module.parse(text)
        check_task_body(module.body.operations[0].operation)


def test_each_element_has_one_thread(monkeypatch):
    """Without a look at each of them."""
    monkeypatch.delattr(task_claims._Tasks, "_each")
    check()


@pytest.mark.parametrize(
    ("old", "new", "error"),
    [
        # steps that overlap, or leave elements out
        ("a * 16 + b)>(%j", "a * 15 + b)>(%j", r"element \[0, 15\] of result 0 is written 2 times"),
        ("in (%rows, 2, 8)", "in (%rows, 2, 7)", r"element \[0, 7\] of result 0 is written never"),
        ("in (%rows, 2, 8)", "in (%rows, 1, 8)", r"element \[0, 16\] of result 0 is written never"),
        ("into %o[%y, %k]", "into %o[%first, %k]", r"element \[0, 0\] of result 0 is written 4"),
        # beyond a tensor, and beyond what the kernel says
        ("a * 16 + b)>(%j", "a * 17 + b)>(%j", "takes 2 elements from 24 on in dim 1 of a tensor"),
        ("(%rows, 2, 8)", "(4, 2, 8)", r"task \[2, 0\] takes 1 elements from 11 on in dim 0"),
        ("%x[%y, %k] [1, 9]", "%x[0, %k] [1, 9]", r"touches 0 ... 0 in dim 0 of operand 0"),
        ("into %o[%y, %k]", "into %o[%i, %k]", r"touches 0 ... 3 in dim 0 of result 0"),
        ('"rtask.yield"(%r)', '"rtask.yield"(%out)', "what is yielded does not have it"),
    ],
)
def test_a_share_that_is_none(old, new, error):
    with pytest.raises(InvalidModel, match=error):
        check((old, new), APART)


def test_a_row_that_only_later_threads_read():
    """The first thread of each task reads what the kernel says."""
    row = (
        "    %s = tensor.extract_slice %x[%y, %k]",
        "    %q = affine.apply affine_map<(a, b) -> (a + 2 * b)>(%first, %i)\n"
        "    %c9 = arith.constant 9 : index\n"
        "    %z = affine.min affine_map<(a, b) -> (a, b)>(%q, %c9)\n"
        "    %s = tensor.extract_slice %x[%z, %k]",
    )
    with pytest.raises(InvalidModel, match=r"task \[0, 0\] touches 4 ... 4 in dim 0 of operand 0"):
        check(row, APART)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        # the row of another thread; the column of another; every fourth element; turned around
        ("%x[%y, %k]", "%x[%first, %k]"),
        ("%x[%y, %k] [1, 9]", "%x[%y, %l] [1, 9]"),
        ("(a, b) -> (a, b * 8)", "(a, b) -> (a, b * 4)"),
        ("(a, b) -> (a, b * 8)", "(a, b) -> (a, 8 - b * 8)"),
    ],
)
def test_an_operand_in_the_bytes_of_the_result(old, new):
    check((old, new), APART)
    with pytest.raises(InvalidModel, match="'in_place' says that result 0 may lie in the same"):
        check((old, new))


def test_columns_from_the_other_end():
    """Together the same box as is written, but not thread by thread."""
    column = ("tensor.extract_slice %x[%y, %k]", "tensor.extract_slice %x[%y, %z]")
    turned = (
        "    %s = ",
        "    %z = affine.apply affine_map<(a, b) -> (23 - a * 16 - b)>(%j, %l)\n    %s = ",
    )
    check(turned, column, APART)
    with pytest.raises(InvalidModel, match="'in_place' says that result 0 may lie in the same"):
        check(turned, column)


def test_positions_with_quotients_are_looked_at_one_by_one():
    quotient = ("(a * 16 + b)>(%j, %l)", "((a * 16 + b) floordiv 1)>(%j, %l)")
    check(quotient)
    swapped = (
        "(a * 16 + b)>(%j, %l)",
        "((a * 16 + b) mod 16 + ((a * 16 + b) floordiv 16) * 16)>(%j, %l)",
    )
    check(swapped)


def test_a_loop_in_a_forall_is_none_of_a_task():
    with pytest.raises(InvalidModel, match="a forall of threads has scf.for in it"):
        check(
            APART,
            (
                "    scf.forall.in_parallel {",
                "    %c0 = arith.constant 0 : index\n    %c1 = arith.constant 1 : index\n"
                "    scf.for %q = %c0 to %c1 step %c1 { }\n    scf.forall.in_parallel {",
            ),
        )


def test_a_forall_begins_at_zero():
    counts = re.escape("(%i, %j, %l) in (%rows, 2, 8)")
    begun = re.sub(counts, "(%i, %j, %l) = (0, 1, 0) to (%rows, 2, 8) step (1, 1, 1)", BODY)
    assert begun != BODY
    with (
        pytest.raises(InvalidModel, match="counts from 0 in steps of 1"),
        dialects.load(ir.Context()),
        ir.Location.unknown(),
    ):
        module = ir.Module.parse(begun)
        check_task_body(module.body.operations[0].operation)


# Of 3 tasks of 4 rows the sum of each row, in which the lanes of a warp share.
SUMS = """
"rtask.kernel"() ({
^bb0(%x: tensor<12x64xf32>, %out: tensor<12xf32>, %task: index):
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<1xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<1xf32>) -> tensor<1xf32>
  %r = scf.forall (%i, %l) in (4, 1) shared_outs(%o = %out) -> (tensor<12xf32>) {
    %y = affine.apply affine_map<(t, i) -> (t * 4 + i)>(%task, %i)
    %s = tensor.extract_slice %x[%y, 0] [1, 64] [1, 1] : tensor<12x64xf32> to tensor<1x64xf32>
    %t = linalg.generic {indexing_maps = [affine_map<(a, b) -> (a, b)>,
        affine_map<(a, b) -> (a)>], iterator_types = ["parallel", "reduction"]}
        ins(%s : tensor<1x64xf32>) outs(%f : tensor<1xf32>)
        attrs = {rtask.lane_dim = 1 : i64, rtask.lanes = 32 : i64} {
    ^bb0(%u: f32, %v: f32):
      %n = arith.addf %u, %v : f32
      linalg.yield %n : f32
    } -> tensor<1xf32>
    scf.forall.in_parallel {
      tensor.parallel_insert_slice %t into %o[%y] [1] [1] : tensor<1xf32> into tensor<12xf32>
    }
  } {mapping = [#gpu.thread<linear_dim_1>, #gpu.thread<linear_dim_0>]}
  "rtask.yield"(%r) : (tensor<12xf32>) -> ()
}) {estimated_ns = 10.0 : f64, grid = array<i64: 3>,
    kind = "reduction", lanes = 1 : i64, on_chip_bytes = 0 : i64,
    reads = [[array<i64: 0, 4, 0, 4>, array<i64: -1, 0, 0, 0>]],
    register_tile = array<i64: 1>, registers = 3 : i64, source = "by hand", sym_name = "mine",
    tasks = 3 : i64, tile = array<i64: 4>, vector_dim = -1 : i64,
    writes = [[array<i64: 0, 4, 0, 4>]]} : () -> ()
"""
PADDED = (
    "    scf.forall.in_parallel {\n      tensor.parallel_insert_slice %t into",
    "    %p = tensor.pad %t low[0] high[1] {\n    ^bb0(%q: index):\n"
    "      tensor.yield %zero : f32\n    } : tensor<1xf32> to tensor<2xf32>\n"
    "    %c = tensor.extract_slice %p[0] [1] [1] : tensor<2xf32> to tensor<1xf32>\n"
    "    scf.forall.in_parallel {\n      tensor.parallel_insert_slice %c into",
)


def test_sums_that_lanes_share_in():
    check(text=SUMS)


def test_each_sum_has_one_lane_that_stores_it():
    with pytest.raises(InvalidModel, match=r"element \[0\] of result 0 is written 32 times"):
        check(("in (4, 1)", "in (4, 32)"), text=SUMS)


def test_all_lanes_come_to_share_in_a_sum():
    alone = (", rtask.lanes = 32 : i64", "")
    check(PADDED, alone, text=SUMS)
    with pytest.raises(InvalidModel, match="tensor.pad may have computed by some of them only"):
        check(PADDED, text=SUMS)


def test_lanes_wait_for_none_that_stores_an_element_alone():
    """Behind a position that is computed, a sum is asked for where it is stored."""
    read = (
        "    scf.forall.in_parallel {\n      tensor.parallel_insert_slice %t into",
        "    %c0 = arith.constant 0 : index\n"
        "    %c = linalg.generic {indexing_maps = [affine_map<(a) -> (a)>],\n"
        '        iterator_types = ["parallel"]} outs(%e : tensor<1xf32>) {\n    ^bb0(%q: f32):\n'
        "      %g = tensor.extract %t[%c0] : tensor<1xf32>\n      linalg.yield %g : f32\n"
        "    } -> tensor<1xf32>\n"
        "    scf.forall.in_parallel {\n      tensor.parallel_insert_slice %c into",
    )
    check(read, text=SUMS)
    over = ("grid = array<i64: 3>,", "grid = array<i64: 3>, in_place = array<i64: 0, 0>,")
    with pytest.raises(InvalidModel, match="tensor.extract may have computed by some of them"):
        check(read, over, text=SUMS)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("rtask.lane_dim = 1 : i64", "rtask.lane_dim = -1 : i64"),
        ("%n = arith.addf %u, %v : f32", "%n = arith.subf %u, %v : f32"),
    ],
)
def test_lanes_share_in_what_can_be_combined(old, new):
    with pytest.raises(InvalidModel, match="that combines neighbours along one dim"):
        check((old, new), text=SUMS)
