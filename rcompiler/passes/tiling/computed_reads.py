"""What is read at computed positions, as far as estimates go."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from torch_mlir import ir

from rcompiler.linalg.affine import Linear
from rcompiler.linalg.independent_loops import Apart
from rcompiler.linalg.values import integer, shape_of

Coordinates = tuple[Linear | None, ...]  # None: computed, or counted by a loop inside


def coordinate_of(index: ir.Value, dims: Sequence[Linear]) -> Linear | None:
    """Of an index in a linalg body, by the coordinates of its loops; None: it is computed."""
    if not isinstance(index.owner, ir.Block) and index.owner.operation.name == "linalg.index":
        return dims[integer(index.owner.operation, "dim")]
    return None


def read_by_loop(
    loop: ir.Operation, value: ir.Value, apart: Sequence[Apart], axes: Sequence[Linear]
) -> Coordinates:
    """Coordinates of what an scf.for reads of a value that is defined outside of it.

    axes: of the results. apart: the loops whose iterations share the results out. What the loop
    carries is copied first, element by element; all else is read at a step of one of these loops,
    or at computed positions.
    """
    rank = len(shape_of(value))
    carried = list(loop.operands)[3:]
    if value in carried and shape_of(value) == shape_of(loop.results[carried.index(value)]):
        return tuple(axes)
    steps = {a.iteration: axes[a.dim] for a in apart}
    found = {tuple(steps.get(i) for i in where) for where in _places(loop, value)}
    return found.pop() if len(found) == 1 else (None,) * rank


def _places(op: ir.Operation, value: ir.Value) -> Iterator[list[ir.Value]]:
    """The indices of every tensor.extract of a value in an op."""
    for region in op.regions:
        for view in (v for block in region.blocks for v in block.operations):
            inner = view.operation
            if inner.name == "tensor.extract" and inner.operands[0] == value:
                yield list(inner.operands)[1:]
            yield from _places(inner, value)
