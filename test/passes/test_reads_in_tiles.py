"""Which box of an operand a tile of loops reads: hand-computed."""

import pytest
from torch_mlir import ir

from rcompiler.linalg.affine import Linear
from rcompiler.passes.tiles.indices import Indices
from rcompiler.passes.tiles.reads import Steps, reader_of


def parsed(dims, expression):
    """An expression of so many dims."""
    names = ", ".join(f"d{d}" for d in range(dims))
    attribute = ir.Attribute.parse(f"affine_map<({names}) -> ({expression})>")
    return ir.AffineMapAttr(attribute).value.results[0]


@pytest.mark.parametrize(
    ("expression", "offset", "extent", "local"),
    [
        ("2 * d0 + d1", Linear(13), Linear(11), "d0 * 2 + d1"),  # 2 * 5 + 3; 2 * 3 + 5
        ("d0 * -1 + 9", Linear(1), Linear(4), "-d0 + 3"),  # of 9 - 5 ... 9 - 8, the last one first
        ("d0 floordiv 4", Linear(1), Linear(2), "(d0 + 1) floordiv 4"),  # 5 ... 8: panels 1 and 2
        ("d1 mod 8", Linear(3), Linear(5), "d1"),  # 3 ... 7: of one panel
        ("d1 mod 5", Linear(), Linear(5), "(d1 + 3) mod 5"),  # 3 ... 7: of two
    ],
)
def test_a_read_of_4_and_5_steps(expression, offset, extent, local):
    loops = [Steps(Linear(5), Linear(4)), Steps(Linear(3), Linear(5))]
    with ir.Context():
        read = reader_of(parsed(2, expression))(loops, Indices())
        assert (read.offset, read.extent) == (offset, extent)
        assert read.local == parsed(2, local)


@pytest.mark.parametrize("expression", ["d0 * -1 + 99", "d0 floordiv 4"])
def test_of_steps_that_only_a_run_knows_there_may_be_no_one_box(expression):
    loops = [Steps(Linear.of("start"), Linear.of("size"))]
    with ir.Context():
        assert reader_of(parsed(1, expression))(loops, Indices()) is None
