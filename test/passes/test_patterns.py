"""The driver of rewrite patterns: what is visited, what "not applied" is, where errors go."""

import pytest
from torch_mlir import ir
from torch_mlir.dialects import arith

from rcompiler.passes.ir.patterns import walk

TEXT = """
func.func @f(%x: i32) -> i32 {
  %a = arith.addi %x, %x : i32
  %b = arith.muli %a, %x : i32
  %c = arith.addi %b, %a : i32
  return %c : i32
}
"""


@pytest.fixture
def module():
    with ir.Context(), ir.Location.unknown():
        yield ir.Module.parse(TEXT)


def names(module):
    block = module.body.operations[0].regions[0].blocks[0]
    return [op.operation.name for op in block.operations]


def subtract(op, rewriter):
    with rewriter.ip, op.location:
        rewriter.replace_op(op.operation, [arith.SubIOp(op.lhs, op.rhs).result])


def test_each_op_of_a_kind_is_rewritten_once_and_what_a_pattern_makes_is_not_visited(module):
    seen = []

    def again(op, rewriter):
        seen.append(op.operation.name)
        with rewriter.ip, op.location:
            rewriter.replace_op(op.operation, [arith.AddIOp(op.lhs, op.rhs).result])

    walk(module.operation, {arith.AddIOp: again})
    assert seen == ["arith.addi", "arith.addi"]
    walk(module.operation, {arith.AddIOp: subtract})
    assert names(module) == ["arith.subi", "arith.muli", "arith.subi", "func.return"]
    module.operation.verify()


def test_where_no_pattern_applies_the_text_stays(module):
    before = str(module)
    walk(module.operation, {arith.AddIOp: lambda op, rewriter: True})
    walk(module.operation, {})
    assert str(module) == before


def test_the_first_error_is_raised_and_nothing_is_rewritten_behind_it(module):
    seen = []

    def fail(op, rewriter):
        seen.append(op.operation.name)
        raise ValueError(str(len(seen)))

    with pytest.raises(ValueError, match="1"):
        walk(module.operation, {arith.MulIOp: fail, arith.AddIOp: subtract})
    assert seen == ["arith.muli"]
    assert names(module) == ["arith.subi", "arith.muli", "arith.addi", "func.return"]


def test_a_walk_inside_of_a_pattern(module):
    """As kernels are walked for their tiles."""
    found = []

    def outer(op, rewriter):
        walk(module.operation, {arith.AddIOp: lambda add, _: found.append(add.result) or True})
        return True

    walk(module.operation, {arith.MulIOp: outer})
    assert len(found) == 2
