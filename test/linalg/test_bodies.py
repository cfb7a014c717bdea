"""What bodies of linalg ops do."""

import pytest
from torch_mlir import ir

from rcompiler.dialects import load
from rcompiler.linalg.bodies import multiply_adds
from rcompiler.linalg.generic import generics_of

TEXT = """
func.func @main(%w: tensor<8x4xi32>, %x: tensor<4xf32>, %o: tensor<8xf32>) -> tensor<8xf32> {{
  %y = linalg.generic {{
    indexing_maps = [affine_map<(n, k) -> (n, k)>, affine_map<(n, k) -> (k)>,
                     affine_map<(n, k) -> (n)>],
    iterator_types = ["parallel", "reduction"]}}
    ins(%w, %x : tensor<8x4xi32>, tensor<4xf32>) outs(%o : tensor<8xf32>) {{
  ^bb0(%word: i32, %a: f32, %acc: f32):
    %q = arith.sitofp %word : i32 to f32
    {body}
    linalg.yield %sum : f32
  }} -> tensor<8xf32>
  return %y : tensor<8xf32>
}}
"""


@pytest.mark.parametrize(
    ("body", "count"),
    [
        ("%p = arith.mulf %q, %a : f32\n%sum = arith.addf %acc, %p : f32", 1),
        (
            "%f = math.fma %q, %a, %a : f32\n%g = math.fma %q, %a, %f : f32\n"
            "%p = arith.mulf %g, %a : f32\n%sum = arith.addf %acc, %p : f32",
            3,
        ),
        ("%f = math.fma %q, %a, %a : f32\n%sum = arith.maximumf %acc, %f : f32", 1),
    ],
    ids=["a product", "the numbers of a word", "no sum of products"],
)
def test_multiply_adds_of_a_step(body: str, count: int):
    with ir.Context() as context, ir.Location.unknown():
        load(context)
        module = ir.Module.parse(TEXT.format(body=body))
        [function] = module.body.operations
        [product] = generics_of(function.regions[0].blocks[0])
        assert multiply_adds(product) == count
