"""The tile of a value: slices move up through the ops that compute it, to the operands.

Before:
    %y = linalg.generic {exp} ins(%x : tensor<64x96xf32>) -> tensor<64x96xf32>
    %t = tensor.extract_slice %y[%i, 0] [8, 96] [1, 1]
After:
    %s = tensor.extract_slice %x[%i, 0] [8, 96] [1, 1]
    %t = linalg.generic {exp} ins(%s : tensor<8x96xf32>) -> tensor<8x96xf32>

There is one pattern for each kind of op, in `tile_generic`, `tile_views` and `tile_pads`. Where one
does not apply, the tile is a slice of the whole value: right, and plain to see in the IR.
"""

from __future__ import annotations

from collections.abc import Callable

from torch_mlir import ir

from rcompiler.linalg.affine import Linear
from rcompiler.linalg.values import defining
from rcompiler.passes.tiles.box import Box, empty, extract, tile_type
from rcompiler.passes.tiles.sources import Sources

# Makes the tile of a result of an op at the insertion point, or None where it cannot.
Pattern = Callable[["Fuser", ir.Operation, int, Box], ir.Value | None]


class Fuser:
    """Makes tiles at one insertion point; a tile that is wanted again is made once.

    `patterns`: by the name of the op that computes the value; `always`: whether one applies also
    where all of the value is wanted.
    """

    def __init__(
        self,
        sources: Sources,
        patterns: dict[str, Pattern],
        *,
        always: Callable[[ir.Operation], bool] = lambda op: False,
    ) -> None:
        self.indices = sources.indices
        self.sources = sources
        self._patterns = patterns
        self._always = always
        self._made: dict[object, list[ir.Value]] = {}

    def tile(self, value: ir.Value, box: Box) -> ir.Value:
        """The elements of a value in a box."""
        return self.once((value, box), lambda: [self._tile(value, box)])[0]

    def once(self, key: object, make: Callable[[], list[ir.Value]]) -> list[ir.Value]:
        """What was made for `key` at this insertion point, or is made now."""
        found = self._made.get(key)
        if found is None:
            found = self._made[key] = make()
        return found

    def empty(self, sizes: tuple[Linear, ...], element: ir.Type) -> ir.Value:
        """A tensor for results."""
        key = "empty", sizes, element
        return self.once(key, lambda: [empty(sizes, element, self.indices)])[0]

    def _tile(self, value: ir.Value, box: Box) -> ir.Value:
        op = defining(value)
        pattern = None if op is None else self._patterns.get(op.name)
        if op is not None and pattern is not None and (not box.covers(value) or self._always(op)):
            found = pattern(self, op, list(op.results).index(value), box)
            if found is not None:
                assert found.type == tile_type(value, box.shape)
                return found
        return extract(value, box, self.indices)


def comes_from_operands(value: ir.Value, names: frozenset[str]) -> bool:
    """Whether a value is made of operands of the body, and of constants, by ops of `names` only."""
    pending = [value]
    while pending:
        op = defining(pending.pop())
        if op is None or op.name == "arith.constant":
            continue
        if op.name not in names:
            return False
        pending += [v for v in op.operands if isinstance(v.type, ir.RankedTensorType)]
    return True
