"""What is proved of bodies with stages: threads meet between those who write and who read them."""

import pytest
from torch_mlir import ir

from rcompiler import dialects
from rcompiler.errors import InvalidModel
from rcompiler.passes.tiles.task_claims import check_task_body

BARRIER = "  gpu.barrier\n"
FILL = """  %m{0} = bufferization.alloc_tensor()
      {{memory_space = #gpu.address_space<workgroup>}} : tensor<1x64xf32>
  %f{0} = scf.forall (%l) in (64) shared_outs(%o = %m{0}) -> (tensor<1x64xf32>) {{
    %s = tensor.extract_slice %{1}[{2}, %l] [1, 1] [1, 1]
        : tensor<{3}x64xf32> to tensor<1x1xf32>
    scf.forall.in_parallel {{
      tensor.parallel_insert_slice %s into %o[0, %l] [1, 1] [1, 1]
          : tensor<1x1xf32> into tensor<1x64xf32>
    }}
  }} {{mapping = [#gpu.thread<linear_dim_0>]}}
"""
KEEP = """  %k{0} = "rtask.stage"(%f{0}) {{kept = array<i64: 1, 64>, lanes = 32 : i64,
      offset = {1} : i64, register_tile = array<i64: 1, 64>, vector_dim = 1 : i64}}
      : (tensor<1x64xf32>) -> tensor<1x64xf32>
"""
PUT = """  %r{0} = scf.forall (%l) in (64) shared_outs(%o = %{1}) -> (tensor<8x64xf32>) {{
    %s = tensor.extract_slice %k{2}[0, %l] [1, 1] [1, 1] : tensor<1x64xf32> to tensor<1x1xf32>
    scf.forall.in_parallel {{
      tensor.parallel_insert_slice %s into %o[%{3}, %l] [1, 1] [1, 1]
          : tensor<1x1xf32> into tensor<8x64xf32>
    }}
  }} {{mapping = [#gpu.thread<linear_dim_0>]}}
"""


def stage(number, source="x", row="%task", rows=8, offset=0):
    """A row that threads keep."""
    return FILL.format(number, source, row, rows) + KEEP.format(number, offset)


def result(stage, row="task", into="out"):
    """What they put into a row of the result."""
    return PUT.format("", into, stage, row)


def check(*parts, tasks=8):
    row = "0, 1, 0, 1" if tasks > 1 else "-1, 0, 0, 0"
    box = f"[[array<i64: {row}>, array<i64: -1, 0, 0, 0>]]"
    text = f"""
"rtask.kernel"() ({{
^bb0(%x: tensor<8x64xf32>, %out: tensor<8x64xf32>, %task: index):
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c8 = arith.constant 8 : index
{"".join(parts)}
  "rtask.yield"(%r) : (tensor<8x64xf32>) -> ()
}}) {{estimated_ns = 10.0 : f64, grid = array<i64: {tasks}, 1>, kind = "movement",
    lanes = 32 : i64, on_chip_bytes = 0 : i64, reads = {box},
    register_tile = array<i64: 1, 64>, registers = 3 : i64, source = "by hand", sym_name = "mine",
    tasks = {tasks} : i64, tile = array<i64: {8 // tasks}, 64>, vector_dim = 1 : i64,
    writes = {box}}} : () -> ()
"""
    with dialects.load(ir.Context()), ir.Location.unknown():
        module = ir.Module.parse(text)
        check_task_body(module.body.operations[0].operation)


def refused(reason, *parts, **how):
    with pytest.raises(InvalidModel, match=reason):
        check(*parts, **how)


def test_a_stage():
    check(BARRIER, stage(0), BARRIER, result(0))


def test_a_result_comes_behind_what_it_reads():
    reason = "result 0 reads bytes 0 ... 255 of the workspace, where the stage at byte 0 writes"
    refused(reason, BARRIER, stage(0), result(0))


def test_a_stage_comes_behind_those_who_read_the_task_before():
    reason = "the stage at byte 0 writes bytes 0 .* where the task before reads with no gpu.barrier"
    refused(reason, stage(0), BARRIER, result(0))


def test_stages_that_need_nothing_of_each_other_are_filled_side_by_side():
    check(BARRIER, stage(0), stage(1, offset=256), BARRIER, result(1))
    reason = "the stage at byte 192 writes bytes 192 ... 447 .* the stage at byte 0 writes"
    refused(reason, BARRIER, stage(0), stage(1, offset=192), BARRIER, result(1))


def test_a_stage_that_reads_another_one():
    second = stage(1, "k0", 0, 1, offset=256)
    check(BARRIER, stage(0), BARRIER, second, BARRIER, result(1))
    reason = "the stage at byte 256 reads bytes 0 ... 255 .* the stage at byte 0 writes"
    refused(reason, BARRIER, stage(0), second, BARRIER, result(1))


def test_a_stage_over_one_that_is_read():
    third = stage(2)
    second = stage(1, "k0", 0, 1, offset=256)
    check(BARRIER, stage(0), BARRIER, second, BARRIER, third, BARRIER, result(2))
    reason = "the stage at byte 0 writes bytes 0 ... 255 .* the stage at byte 256 reads"
    refused(reason, BARRIER, stage(0), BARRIER, second, third, BARRIER, result(2))


def test_a_stage_over_what_it_reads_itself():
    second = stage(1, "k0", 0, 1, offset=128)
    reason = "the stage at byte 128 is kept where the stage at byte 0 is"
    refused(reason, BARRIER, stage(0), BARRIER, second, BARRIER, result(1))


LOOP = """  %r = scf.for %i = %c0 to %c8 step %c1 iter_args(%p = %out) -> (tensor<8x64xf32>) {{
{0}    scf.yield %r9 : tensor<8x64xf32>
  }}
"""


def in_loop(*parts):
    return LOOP.format("".join(parts))


def test_each_turn_of_a_loop_waits_for_the_one_before():
    row, put = stage(0, row="%i"), PUT.format(9, "p", 0, "i")
    check(in_loop(BARRIER, row, BARRIER, put), tasks=1)
    reason = "the stage at byte 0 writes bytes 0 ... 255 .* where result 0 reads"
    refused(reason, BARRIER, in_loop(row, BARRIER, put), tasks=1)


def test_a_barrier_is_for_all_threads():
    late = result(0).replace("    scf.forall.in", "    gpu.barrier\n    scf.forall.in")
    refused("a forall of threads has gpu.barrier in it", BARRIER, stage(0), BARRIER, late)


def test_a_stage_lies_in_memory_that_threads_share():
    alone = stage(0).replace("{memory_space = #gpu.address_space<workgroup>}", "")
    refused("is not filled by foralls that begin with", BARRIER, alone, BARRIER, result(0))


def test_a_stage_says_where_it_is_kept():
    nowhere = stage(0).replace("offset = 0 : i64, ", "")
    refused("which bytes of the workspace it has", BARRIER, nowhere, BARRIER, result(0))
