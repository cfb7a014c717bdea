"""The key of what an rOperator computes."""

import pytest
from torch_mlir import ir

from rcompiler import dialects
from rcompiler.passes.ir.operators import operators
from rcompiler.passes.ir.structure import structure

_BODY = """
    %{name} = "rtask.operator"() ({{
      %e = tensor.empty() : tensor<{size}xf32>
      %r = linalg.generic {{indexing_maps = [{maps}], iterator_types = ["parallel"]}}
          ins({ins}) outs(%e : tensor<{size}xf32>) {{
      ^bb0({arguments}, %out: f32):
        %v = arith.{op} %p, %q : f32
        linalg.yield %v : f32
      }} -> tensor<{size}xf32>
      "rtask.yield"(%r) : (tensor<{size}xf32>) -> ()
    }}) {{kind = "{kind}", sym_name = "{name}"}} : () -> tensor<{size}xf32>
"""


def operator(name, a="%x", b="%y", op="addf", size=8, kind="elementwise"):
    return _BODY.format(
        name=name,
        op=op,
        size=size,
        kind=kind,
        maps=", ".join(["affine_map<(d0) -> (d0)>"] * 3),
        ins=f"{a}, {b} : tensor<{size}xf32>, tensor<{size}xf32>",
        arguments="%p: f32, %q: f32",
    )


def keys(*texts, size=8):
    """The key of each operator of a function of two tensors, %x and %y."""
    type_ = f"tensor<{size}xf32>"
    text = f"func.func @main(%x: {type_}, %y: {type_}) {{{''.join(texts)} return }}"
    with dialects.load(ir.Context()), ir.Location.unknown():
        module = ir.Module.parse(text)
        found = [structure(op) for op in operators(module.operation)]
        return [found.index(key) for key in found]


def test_names_and_captured_tensors_do_not_count():
    assert keys(operator("a"), operator("b"), operator("c", a="%y", b="%x")) == [0, 0, 0]


def test_one_tensor_read_twice_is_another_body():
    assert keys(operator("a"), operator("b", b="%x")) == [0, 1]


@pytest.mark.parametrize("change", [{"op": "mulf"}, {"kind": "movement"}])
def test_what_is_computed_counts(change):
    assert keys(operator("a"), operator("b", **change), operator("c")) == [0, 1, 0]


def test_shapes_count():
    slice_ = "%z = tensor.extract_slice %x[0] [4] [1] : tensor<8xf32> to tensor<4xf32>"
    small = operator("b", a="%z", b="%z", size=4)
    assert keys(operator("a", b="%x"), slice_, small) == [0, 1]
