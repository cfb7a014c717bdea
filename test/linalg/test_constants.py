"""Which tensors are constant, and which are computed from constants alone."""

from itertools import pairwise

import pytest
from torch_mlir import ir

from rcompiler.dialects import load
from rcompiler.linalg.constants import computed_once, is_constant

WEIGHTS = "\n  %w = arith.constant dense<[0.0, 1.0, 2.0, 3.0]> : tensor<4xf32>"


def _negated(of: str, to: str) -> str:
    return f"""
  %{to} = linalg.generic {{indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>],
    iterator_types = ["parallel"]}} ins(%{of} : tensor<4xf32>) outs(%o : tensor<4xf32>) {{
  ^bb0(%a: f32, %b: f32):
    %n = arith.negf %a : f32
    linalg.yield %n : f32
  }} -> tensor<4xf32>"""


@pytest.fixture
def body():
    """The body of a function (%o: tensor<4xf32>), given its lines."""

    def of(lines: str) -> ir.Block:
        text = f"func.func @main(%o: tensor<4xf32>) {{{lines}\n  return\n}}"
        modules.append(ir.Module.parse(text))
        [function] = modules[-1].body.operations
        return function.regions[0].blocks[0]

    modules: list[ir.Module] = []
    with ir.Context() as context, ir.Location.unknown():
        load(context)
        yield of


def _added(one: str, other: str, to: str) -> str:
    return f"""
  %{to} = linalg.generic {{indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>,
    affine_map<(i) -> (i)>], iterator_types = ["parallel"]}}
    ins(%{one}, %{other} : tensor<4xf32>, tensor<4xf32>) outs(%o : tensor<4xf32>) {{
  ^bb0(%a: f32, %b: f32, %c: f32):
    %n = arith.addf %a, %b : f32
    linalg.yield %n : f32
  }} -> tensor<4xf32>"""


def _joined(one: str, other: str, to: str) -> str:
    return f"""
  %{to} = tensor.concat dim(0) %{one}, %{other}
    : (tensor<4xf32>, tensor<4xf32>) -> tensor<8xf32>"""


def test_a_chain_of_thousands_of_ops_is_followed_to_its_constant(body):
    """As deep as quantised networks are; calls of Python may not be as deep."""
    names = ["w", *(f"n{k}" for k in range(3000))]
    block = body(WEIGHTS + "".join(_negated(*pair) for pair in pairwise(names)))
    last = block.operations[3000].results[0]
    assert is_constant(last)
    assert last in computed_once(block)


@pytest.mark.parametrize("parts", [("w", "o"), ("o", "w")])
def test_a_join_with_an_activation_is_not_constant(body, parts):
    block = body(WEIGHTS + _joined(*parts, to="j"))
    joined = block.operations[1].results[0]
    assert not is_constant(joined)
    assert joined not in computed_once(block)


def test_a_join_of_constants_is_constant(body):
    block = body(WEIGHTS + _joined("w", "w", to="j"))
    joined = block.operations[1].results[0]
    assert is_constant(joined)
    assert joined in computed_once(block)


def test_sums_of_constants_are_computed_once_but_no_movement_of_one(body):
    block = body(WEIGHTS + _added("w", "w", to="s"))
    total = block.operations[1].results[0]
    assert not is_constant(total)
    assert total in computed_once(block)


def test_sums_with_an_activation_are_neither(body):
    block = body(WEIGHTS + _added("w", "o", to="s"))
    total = block.operations[1].results[0]
    assert not is_constant(total)
    assert total not in computed_once(block)
