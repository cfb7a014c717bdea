"""What a task reads of an operand whose coordinates are quotients, like the number of a panel."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from torch_mlir import ir

from rcompiler import dialects
from rcompiler.linalg.affine import Linear
from rcompiler.passes.tiling.task_boxes import read_box
from rcompiler.passes.tiling.tensor_expr import Read, Traced, axis
from rcompiler.rammer.kernel import Access, DimAccess
from rcompiler.rammer.regions import task_boxes

WHOLE = (-1, 0, 0, 0)


def box(at, tile, grid, sizes, atoms, low=(0, 0)):
    """Of an operand read at these coordinates by axes of these sizes."""
    with dialects.load(ir.Context()), ir.Location.unknown():
        type_ = ir.RankedTensorType.get([8] * len(at), ir.F32Type.get())
        block = ir.Block.create_at_start(ir.Module.create().operation.regions[0], [type_])
        traced = Traced(sizes=list(sizes), kinds=["parallel"] * len(sizes), atoms=atoms)
        return read_box(block.arguments[0], Read(tuple(at)), tile, grid, traced, low)


def quotient(value, divisor, name="q"):
    """(coordinate, atoms) of value / divisor."""
    return Linear.of(name), {name: ("floordiv", value, divisor)}


def test_a_tile_of_whole_panels_reads_them_alone():
    at, atoms = quotient(axis(1), 16)
    atoms["r"] = ("mod", axis(1), 16)
    found = box([at, axis(2), Linear.of("r")], [1, 128], [1, 32], [1, 4096, 64], atoms)
    assert found == [(1, 8, 0, 8), WHOLE, WHOLE]


def test_a_tile_that_cuts_a_panel_may_read_all():
    at, atoms = quotient(axis(1), 16)
    assert box([at], [1, 24], [1, 4], [1, 96], atoms) == [WHOLE]


def test_a_multiple_of_a_quotient_moves_on():
    at, atoms = quotient(axis(1) * 2 + 5, 8)
    # 32 elements a task: 5 ... 67 in steps of 2 are the panels 0 ... 8, tripled and 1 further
    assert box([at * 3 + 1], [1, 32], [1, 4], [1, 128], atoms) == [(1, 24, 1, 25)]


def test_quotients_of_quotients():
    inner, atoms = quotient(axis(1), 4)
    outer, more = quotient(inner, 2, "o")
    assert box([outer], [1, 16], [1, 4], [1, 64], atoms | more) == [(1, 2, 0, 2)]


def test_padding_in_front_counts():
    at, atoms = quotient(axis(1), 4)
    assert box([at], [1, 8], [1, 3], [1, 22], atoms, low=(0, 2)) == [(1, 2, -1, 3)]


@pytest.mark.parametrize("value", [axis(1) * -1 + 63, axis(0) + axis(1)])
def test_what_does_not_go_along_with_one_axis_is_read_whole(value):
    at, atoms = quotient(value, 4)
    assert box([at], [4, 16], [2, 4], [8, 64], atoms) == [WHOLE]


@given(
    tile=st.integers(1, 24), tasks=st.integers(2, 5), step=st.integers(1, 4),
    shift=st.integers(0, 9), divisor=st.integers(1, 8), times=st.integers(1, 3),
)  # fmt: skip
def test_every_element_that_is_read_lies_in_the_box(tile, tasks, step, shift, divisor, times):
    size = tile * tasks
    at, atoms = quotient(axis(0) * step + shift, divisor)
    found = box([at * times], [tile], [tasks], [size], atoms, low=(0,))
    extent = ((size - 1) * step + shift) // divisor * times + 1
    boxes = task_boxes((tasks,), Access((extent,), 4, (DimAccess(*found[0]),)))
    for task, ((low, high),) in enumerate(boxes):
        elements = np.arange(task * tile, (task + 1) * tile)
        read = (elements * step + shift) // divisor * times
        assert low <= read.min() and read.max() < high
