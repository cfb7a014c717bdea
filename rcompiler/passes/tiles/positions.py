"""Where the loops of a whole op stand, in the body of the op on tiles."""

from __future__ import annotations

from collections.abc import Sequence

from torch_mlir import ir

from rcompiler.linalg.affine import Linear
from rcompiler.linalg.values import operations
from rcompiler.passes.tiles.indices import Indices, applied
from rcompiler.passes.tiles.reads import Steps


class Positions:
    """The indices of whole loops, of those in a tile of them. It makes the IR of where the tile
    starts at the insertion point."""

    def __init__(self, loops: Sequence[Steps], indices: Indices) -> None:
        moved = [d for d, s in enumerate(loops) if s.offset != Linear() or s.stride != 1]
        self._starts = {d: indices.value(loops[d].offset) for d in moved}
        self._strides = [s.stride for s in loops]

    def of(self, index: ir.Value, dim: int) -> ir.Value:
        """The index of a loop of the whole op; index: in the tile."""
        if dim not in self._starts:
            return index
        step, start = ir.AffineExpr.get_dim(0), ir.AffineExpr.get_dim(1)
        map_ = ir.AffineMap.get(2, 0, [step * self._strides[dim] + start])
        return applied(map_, [index, self._starts[dim]])

    def shift(self, tiled: ir.Operation) -> None:
        """Let the body of an op on tiles see the indices of the whole op."""
        for op in [op for op in operations(tiled) if op.name == "linalg.index"]:
            with ir.InsertionPoint.after(op), op.location:
                position = self.of(op.result, ir.IntegerAttr(op.attributes["dim"]).value)
            if position != op.result:
                op.result.replace_all_uses_except(position, position.owner.operation)
