"""What the first step of a loop need not compute: sums of zeros times finite numbers."""

import ml_dtypes
import numpy as np
import pytest
from torch_mlir import ir

from rcompiler import dialects
from rcompiler.linalg.constants import is_plus_zero
from rcompiler.passes._pipeline_text import runner
from rcompiler.passes.constants.model_context import ModelContext
from rcompiler.passes.schedule.zero_products import has_zeros, is_finite, is_zero

ROW, SQUARE = "tensor<1x16xf32>", "tensor<16x16xf32>"
SUM = """
      %e = tensor.empty() : tensor<1x16xf32>
      %f = linalg.fill ins(%start : f32) outs(%e : tensor<1x16xf32>) -> tensor<1x16xf32>
      %p = linalg.generic {indexing_maps = [affine_map<(i, j, k) -> (i, k)>,
          affine_map<(i, j, k) -> (k, j)>, affine_map<(i, j, k) -> (i, j)>],
          iterator_types = ["parallel", "parallel", "reduction"]}
          ins(%a, %b : tensor<1x16xf32>, tensor<16x16xf32>) outs(%f : tensor<1x16xf32>) {
      ^bb0(%s: f32, %t: f32, %acc: f32):
        %u = arith.mulf %s, %t : f32
        %v = arith.OP %acc, %u : f32
        linalg.yield %v : f32
      } -> tensor<1x16xf32>
"""
EACH = """
      %c = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>,
          affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]}
          ins(%IN : tensor<1x16xf32>) outs(%e0 : tensor<1x16xf32>) {
      ^bb0(%s: f32, %o: f32):
        %u = math.exp %s : f32
        linalg.yield %u : f32
      } -> tensor<1x16xf32>
"""


def zero(zeros=(0,), finite=(0, 1), start="0.0", op="addf", front="", a="%x", made="%p", back=""):
    """is_zero of x * w, of whose operands those numbers are zeros, and those are finite."""
    text = f"""func.func @main(%x: {ROW}, %w: {SQUARE}) {{
      %start = arith.constant {start} : f32
      %e0 = tensor.empty() : {ROW}
      %0 = "rtask.operator"() ({{
        {front} {SUM.replace("%a", a).replace("%b", "%w").replace("OP", op)} {back}
        "rtask.yield"({made}) : ({ROW}) -> ()
      }}) {{kind = "contraction", sym_name = "sum"}} : () -> {ROW}
      return
    }}"""
    with dialects.load(ir.Context()), ir.Location.unknown():
        module = ir.Module.parse(text)
        block = module.body.operations[0].regions[0].blocks[0]
        [op] = [o.operation for o in block.operations if o.operation.name == "rtask.operator"]
        arguments = list(block.arguments)
        return is_zero(op, {arguments[n] for n in zeros}, {arguments[n] for n in finite})


def test_zeros_times_finite_numbers_are_zeros():
    assert zero() and zero(zeros=(1,)) and zero(zeros=(0, 1))


@pytest.mark.parametrize(
    "change",
    [
        {"zeros": ()},
        {"finite": (0,)},  # 0 times infinity is no number
        {"zeros": (1,), "finite": (1,)},
        {"start": "1.0"},
        {"start": "-0.0"},  # -0 plus -0 is -0
        {"op": "maximumf"},
        {"front": EACH.replace("%IN", "%x"), "a": "%c"},  # exp(0) is 1
        {"back": EACH.replace("%IN", "%p"), "made": "%c"},
    ],
    ids=str,
)
def test_others_are_not_known_to_be(change):
    assert not zero(**change)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("dense<0.0> : tensor<4xf32>", True),
        ("dense<-0.0> : tensor<4xbf16>", True),
        ("dense<1.0> : tensor<4xf32>", False),
        ("dense<0> : tensor<4xi32>", False),
        ("dense<[0.0, 1.0]> : tensor<2xf32>", False),
    ],
)
def test_constants_of_zeros(text, wanted):
    with ir.Context():
        assert has_zeros(ir.Attribute.parse(text)) is wanted


@pytest.mark.parametrize(("number", "wanted"), [(1, True), (np.inf, False), (np.nan, False)])
@pytest.mark.parametrize("dtype", [np.float32, np.float16, ml_dtypes.bfloat16])
def test_finite_arrays(dtype, number, wanted):
    with ir.Context():
        name = ir.Attribute.parse("dense_resource<w_0> : tensor<2xf32>")
        assert is_finite(name, np.array([0, number], dtype)) is wanted
        assert not is_finite(name, None)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("dense<1.0> : tensor<4xf32>", True),
        ("dense<0x7F800000> : tensor<4xf32>", False),
        ("dense<[0.0, 1.0]> : tensor<2xf32>", True),
        ("dense<[0.0, 0x7FC00000]> : tensor<2xf32>", False),
        ("dense<1> : tensor<4xi32>", False),
    ],
)
def test_finite_constants_in_the_text(text, wanted):
    with ir.Context():
        assert is_finite(ir.Attribute.parse(text), None) is wanted


@pytest.mark.parametrize(("text", "wanted"), [("0.0", True), ("-0.0", False), ("1.0", False)])
def test_the_float_whose_bits_are_all_0(text, wanted):
    with ir.Context(), ir.Location.unknown():
        module = ir.Module.parse(
            f"func.func @f() -> f32 {{ %c = arith.constant {text} : f32 return %c : f32 }}"
        )
        block = module.body.operations[0].regions[0].blocks[0]
        assert is_plus_zero(list(block.operations)[0].operation.result) is wanted


LOOP = f"""
module {{
  func.func @main(%x: tensor<20x1x16xf32>) -> (tensor<20x1x1x16xf32>) {{
    %h0 = arith.constant dense<0.0> : {ROW}
    %c0 = arith.constant 0 : index
    %c20 = arith.constant 20 : index
    %c1 = arith.constant 1 : index
    %y0 = tensor.empty() : tensor<20x1x1x16xf32>
    %r:2 = scf.for %t = %c0 to %c20 step %c1 iter_args(%h = %h0, %y = %y0)
        -> ({ROW}, tensor<20x1x1x16xf32>) {{
      %row = tensor.extract_slice %x[%t, 0, 0] [1, 1, 16] [1, 1, 1]
          : tensor<20x1x16xf32> to tensor<1x1x16xf32>
      %s:2 = func.call @step(%row, %h) : (tensor<1x1x16xf32>, {ROW}) -> ({ROW}, {ROW})
      %o = tensor.insert_slice %s#1 into %y[%t, 0, 0, 0] [1, 1, 1, 16] [1, 1, 1, 1]
          : {ROW} into tensor<20x1x1x16xf32>
      scf.yield %s#0, %o : {ROW}, tensor<20x1x1x16xf32>
    }}
    return %r#1 : tensor<20x1x1x16xf32>
  }}
  func.func private @step(%row: tensor<1x1x16xf32>, %a: {ROW}) -> ({ROW}, {ROW}) {{
    %start = arith.constant 0.0 : f32
    %b = arith.constant dense_resource<w_0> : {SQUARE}
    {SUM.replace("OP", "addf")}
    %flat = tensor.collapse_shape %row [[0], [1, 2]] : tensor<1x1x16xf32> into {ROW}
    %n = linalg.generic {{indexing_maps = [affine_map<(i, j) -> (i, j)>,
        affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>],
        iterator_types = ["parallel", "parallel"]}}
        ins(%p, %flat : {ROW}, {ROW}) outs(%e : {ROW}) {{
    ^bb0(%s: f32, %q: f32, %o: f32):
      %u = arith.addf %s, %q : f32
      linalg.yield %u : f32
    }} -> {ROW}
    return %n, %p : {ROW}, {ROW}
  }}
}}
"""


def first_products(collected):
    """How many first steps make their product, of which a loop collects this value."""
    arrays = {"w_0": np.ones((16, 16), np.float32)}
    with dialects.load(ModelContext(arrays)) as context, ir.Location.unknown():
        module = ir.Module.parse(LOOP.replace("return %n, %p", f"return %n, {collected}"))
        runner("rc-cpu{device=zen5-2 fusion=false eus=1}", context)(module)
        return str(module).count('operator = "op.0"')


def test_a_first_step_has_no_product_with_zeros():
    assert first_products("%n") == 0


def test_what_a_loop_collects_is_written_by_a_task():
    """Also where it is 0."""
    assert first_products("%p") == 1
