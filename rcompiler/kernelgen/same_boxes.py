"""The insertions of a block that put tiles into the same box, without comparing each with each."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable
from dataclasses import dataclass, field

from torch_mlir import ir

from rcompiler.linalg.affine import Linear
from rcompiler.linalg.values import shape_of


@dataclass
class _OfShape:
    """Insertions of tiles of one shape. unknown: whose boxes are not known yet; at: the others, by
    where they put their tiles.
    """

    unknown: list[ir.Operation] = field(default_factory=list)
    at: dict[tuple[Linear, ...], list[ir.Operation]] = field(default_factory=dict)


class SameBoxes:
    """The insertions of a block by their boxes.

    Where an insertion puts its tile is asked for once. That may write code, so it has an order: of
    all insertions of a shape as soon as `of` is asked for one of them.
    """

    def __init__(
        self,
        insertions: Iterable[ir.Operation],
        kept: Container[ir.Value],
        offsets: Callable[[ir.Operation], list[Linear]],
    ) -> None:
        """insertions: tensor.insert_slice in their order. kept: tensors whose tiles other tiles of
        the task wait for: insertions into them are joined with no others. offsets: where one puts
        its tile.
        """
        self._offsets = offsets
        self._order: dict[ir.Operation, int] = {}
        self._shapes: dict[ir.Operation, _OfShape] = {}
        shapes: dict[tuple[int, ...], _OfShape] = {}
        for number, op in enumerate(insertions):
            if op.result not in kept:
                self._order[op] = number
                of_shape = shapes.setdefault(shape_of(op.operands[0]), _OfShape())
                of_shape.unknown.append(op)
                self._shapes[op] = of_shape
        self._found: dict[ir.Operation, tuple[Linear, ...]] = {}

    def of(self, op: ir.Operation) -> list[ir.Operation]:
        """The insertions into the box of one of them, itself among them, in their order; without
        those that put a tile over its own.
        """
        if op not in self._shapes:
            return [op]
        of_shape = self._shapes[op]
        if of_shape.at:
            self._find(op)
        others, of_shape.unknown = of_shape.unknown, []
        for other in others:
            if other.operands[1] == op.result:
                of_shape.unknown.append(other)  # not compared with this one
            elif other != op:
                self._find(other)
                self._find(op)
        self._find(op)
        same = of_shape.at[self._found[op]]
        same.sort(key=self._order.__getitem__)
        return [other for other in same if other.operands[1] != op.result]

    def _find(self, op: ir.Operation) -> None:
        if op not in self._found:
            place = self._found[op] = tuple(self._offsets(op))
            self._shapes[op].at.setdefault(place, []).append(op)
