"""erase_with_views: chains of reshapes go with the op that read them."""

from torch_mlir import ir

from rcompiler import dialects
from rcompiler.linalg.values import ops_of
from rcompiler.passes.ir.tensor_ir import erase_with_views

TEXT = """
func.func @f(%x: tensor<2x3xf32>) -> tensor<6xf32> {
  %a = tensor.collapse_shape %x [[0, 1]] : tensor<2x3xf32> into tensor<6xf32>
  %b = tensor.expand_shape %a [[0, 1]] output_shape [3, 2] : tensor<6xf32> into tensor<3x2xf32>
  %kept = tensor.collapse_shape %x [[0, 1]] : tensor<2x3xf32> into tensor<6xf32>
  "test.reads"(%b, %a, %kept) : (tensor<3x2xf32>, tensor<6xf32>, tensor<6xf32>) -> ()
  return %kept : tensor<6xf32>
}
"""


def test_a_view_that_another_one_reads_goes_once():
    """%b reads %a, and the op reads both: %a is free when %b is gone, and not before."""
    context = dialects.load(ir.Context())
    context.allow_unregistered_dialects = True
    with context, ir.Location.unknown():
        module = ir.Module.parse(TEXT)
        body = module.body.operations[0].regions[0].blocks[0]
        [reader] = [op for op in ops_of(body) if op.name == "test.reads"]
        erase_with_views(reader)
        assert [op.name for op in ops_of(body)] == ["tensor.collapse_shape", "func.return"]
        assert module.operation.verify()
