"""What tiles are made of: the ops of one body, each of which is read once.

A kernel has many tiles of the same op, one for each way in which register tiles cover the result;
what the text of the op says is the same in all of them.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch_mlir import ir

from rcompiler.kernelgen.scratch import kept_columns
from rcompiler.linalg.generic import Generic
from rcompiler.linalg.lazy import lazy
from rcompiler.linalg.maps import dims_of
from rcompiler.linalg.values import operations, shape_of
from rcompiler.linalg.views import kept_dims
from rcompiler.passes.tiles.box import Box, slice_parts, type_of
from rcompiler.passes.tiles.indices import DYNAMIC, Indices
from rcompiler.passes.tiles.reads import Reader, reader_of


class Source(Generic):
    """A linalg.generic that tiles are made of."""

    @lazy
    def readers(self) -> list[list[Reader]]:
        """How each input is read, dim by dim."""
        return [[reader_of(e) for e in m.results] for m in self.maps[: len(self.inputs)]]

    @lazy
    def places(self) -> list[list[int]]:
        """For each result the loop of each of its dims, -1 for a constant: result maps are
        projected permutations.
        """
        return self.dims[len(self.inputs) :]

    @lazy
    def joint_dims(self) -> list[int]:
        """Result dims of which all is computed together: rows of expensive values that a sum and a
        later op both need, and the rows of a small matrix times a vector, which share their work.
        """
        if not self.reduction_dims:
            return kept_columns(self)
        form = self.combination
        if form is None:
            return []
        rows = dims_of(self.maps[form.coefficients].results[form.row])
        return [d for d, loop in enumerate(self.result_dims) if loop in rows]

    @lazy
    def knows_positions(self) -> bool:
        """Whether the body asks where it is."""
        return any(op.name == "linalg.index" for op in operations(self.op))


@dataclass(frozen=True)
class Slice:
    """A tensor.extract_slice. box: what it takes; kept: the dims that its result has, in order,
    None where that cannot be told.
    """

    box: Box
    kept: list[int] | None


class Sources:
    """The ops of one body, and the positions in it."""

    def __init__(self) -> None:
        self.indices = Indices()
        self._generics: dict[ir.Operation, Source] = {}
        self._slices: dict[ir.Operation, Slice] = {}
        self._boxes: dict[ir.Operation, Box] = {}

    def of(self, op: ir.Operation) -> Source:
        """What is known of a linalg.generic, which must not be changed after that."""
        found = self._generics.get(op)
        if found is None:
            found = self._generics[op] = Source(op)
        return found

    def slice_of(self, op: ir.Operation) -> Slice:
        """The same of a tensor.extract_slice."""
        found = self._slices.get(op)
        if found is None:
            found = self._slices[op] = self._read_slice(op)
        return found

    def box_of(self, op: ir.Operation) -> Box:
        """Where a slice or an insertion lies in its tensor."""
        found = self._boxes.get(op)
        if found is None:
            offsets, sizes, strides = slice_parts(op, self.indices.of)
            steps = tuple(step.constant for step in strides)
            found = self._boxes[op] = Box(tuple(offsets), tuple(sizes), steps)
        return found

    def _read_slice(self, op: ir.Operation) -> Slice:
        box, shape = self.box_of(op), type_of(op.result).shape
        kept: list[int] | None = None
        if len(shape) == box.rank:
            kept = list(range(box.rank))
        elif DYNAMIC not in (*shape, *box.shape):
            kept = sorted(kept_dims(tuple(box.shape), shape_of(op.result)))
        return Slice(box, kept)
