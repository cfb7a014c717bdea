"""rtask-pack-weights: store the constant right-hand side of a product in panels of columns.

Before (lanes=16):
    %w = arith.constant dense_resource<w_0> : tensor<768x1000xf32>
    %y = linalg.generic {maps (m, n, k): (m, k), (k, n), (m, n)} ins(%x, %w : ...) -> 32x1000
After:
    %p = pad, expand_shape and one copying generic of %w -> tensor<63x768x16xf32>
    %y = linalg.generic {maps (m, n, k): (m, k), (n floordiv 16, k, n mod 16), (m, n)} ins(%x, %p)

A kernel that vectorises along n then reads consecutive memory for consecutive k, whatever the
order of the dims of %w was (also transposed). The repacking is IR on constants: fold-constants
evaluates it. Batch dims of the weights stay in front.

With lines=true constants that a single row multiplies are stored one column after the other
instead, where a column is long: [batch.., n, k..]. There is one sum for each column, too few for
the threads of a GPU, so that the lanes of a warp share in each and read consecutive memory.

A right-hand side that is computed at run time is packed where that costs nothing, because it is
copied anyway (the transposed keys of attention), or where many rows share it.

Leaves alone: convolutions (windows), fewer than 2 * lanes columns, and at run time columns that are
no multiple of lanes, or rows of a few vectors (the values of attention), which lie as one panel.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass

from torch_mlir import ir

from rcompiler.linalg.bodies import copied_argument, is_multiply_add
from rcompiler.linalg.constants import is_constant
from rcompiler.linalg.generic import Generic
from rcompiler.linalg.maps import dim_of
from rcompiler.linalg.values import defining, element_of, shape_of
from rcompiler.passes import OptionalPass, PassFailure
from rcompiler.passes.ir.operators import bodies, generics
from rcompiler.passes.ir.tensor_ir import affine_map, generic, split_axis, transpose

# Rows of the other operand from which a packed one is worth a copy of its own, and one that is made
# anyway (measured on attention of 128 and 512 tokens: rows of 2 KiB share few sets of a cache).
_ENOUGH_ROWS = 256
_SOME_ROWS = 32
# Vectors of a row that lies as close to the next one as in a panel: a product of 512x512 and 512x64
# is as fast without a panel (measured), and the copy took 5 % of its time.
_FEW_VECTORS = 4
_LONG_LINE = 4  # vectors of a column that lanes share in


@dataclass(frozen=True)
class RTaskPackWeights(OptionalPass):
    """Store the constant right-hand side of a product in panels of columns.

    Attributes:
        lanes: columns of a panel.
        halves: that of f16 and bf16, too; boxes of a tensor (TMA) take its rows as they are.
        of_bytes: that of bytes, too; matrix units take its columns as they are.
        lines: one column after the other for a single row.
    """

    lanes: int = 16
    halves: bool = True
    of_bytes: bool = True
    lines: bool = False

    def run(self, module: ir.Operation) -> None:
        if self.lanes < 1:
            raise PassFailure(module, f"lanes must be at least 1, not {self.lanes}")
        packed: dict[tuple, ir.Value] = {}
        known: dict[Hashable, list[_Candidate]] = {}
        for op in (op for body in bodies(module) for op in generics(body)):
            self._rewrite(Generic(op), packed, known)

    def _rewrite(
        self,
        old: Generic,
        packed: dict[tuple, ir.Value],
        known: dict[Hashable, list[_Candidate]],
    ) -> None:
        """known: candidates by what products have in common."""
        attributes, types = old.op.attributes, (v.type for v in old.operands)
        form = attributes["indexing_maps"], attributes["iterator_types"], *types
        if form not in known:
            known[form] = list(self._candidates(old))
        chosen = self._weights(old, known[form]) if known[form] else None
        if chosen is None:
            return
        weights, lines = chosen.number, chosen.lines
        value, reads = _uncopied(old.inputs[weights], list(old.maps[weights].results))
        dims = [dim_of(e) for e in reads]
        column = dims.index(dim_of(old.maps[-1].results[-1]))
        depth = [i for i in sorted(range(len(dims)), key=dims.__getitem__)
                 if dims[i] in old.reduction_dims]  # fmt: skip
        batch = [i for i in range(len(dims)) if i != column and i not in depth]
        order = (*batch, column, *depth)
        with ir.InsertionPoint(old.op), old.op.location:
            key = value, order, lines
            if key not in packed:
                stored = transpose(value, order) if lines else self._panels(value, column, order)
                packed[key] = stored
            operands = list(old.inputs)
            operands[weights] = packed[key]
            maps, loops = list(old.maps), old.maps[weights].n_dims
            maps[weights] = (
                affine_map(loops, [reads[i] for i in order])
                if lines
                else self._panel_map(loops, reads, column, order)
            )
            new = generic(operands, old.inits, maps, old.kinds, old.block)
        old.op.results[0].replace_all_uses_with(new.results[0])
        old.op.erase()

    def _panels(self, value: ir.Value, column: int, order: tuple[int, ...]) -> ir.Value:
        """[batch.., ceil(n / lanes), k.., lanes], zero-padded, by one copy."""
        place = (i if i <= column else i + 1 for i in order)
        return transpose(split_axis(value, column, self.lanes), [*place, column + 1])

    def _panel_map(
        self, dims: int, reads: list[ir.AffineExpr], column: int, order: tuple[int, ...]
    ) -> ir.AffineMap:
        """(batch.., n floordiv lanes, k.., n mod lanes)."""
        panel = ir.AffineExpr.get_floor_div(reads[column], self.lanes)
        lane = ir.AffineExpr.get_mod(reads[column], self.lanes)
        read = [panel if i == column else reads[i] for i in order]
        return affine_map(dims, [*read, lane])

    def _weights(self, old: Generic, candidates: Sequence[_Candidate]) -> _Candidate | None:
        """The operand to pack, if `old` is a product that has one."""
        if not is_multiply_add(old):
            return None
        for found in candidates:
            value = old.inputs[found.number]
            pays = found.whole and not found.lines and _pays(value, found.rows, found.few)
            pays = pays and not _of_constants(value)
            if is_constant(value) or pays:
                return found
        return None

    def _candidates(self, old: Generic) -> Iterator[_Candidate]:
        """Operands that may be packed, if `old` is a product."""
        if not old.reduction_dims or len(old.inputs) != 2 or old.outputs != 1:
            return
        element = element_of(old.inputs[0])
        kept = {"i8": self.of_bytes, "f16": self.halves, "bf16": self.halves}
        panels = kept.get(element, True)
        for weights, other in ((1, 0), (0, 1)):
            dims = old.dims[weights]
            outer = old.dims[other]
            result = old.dims[2]
            if -1 in dims + outer + result or not result or len(set(dims)) != len(dims):
                continue
            column, summed = result[-1], [d for d in dims if d in old.reduction_dims]
            if column not in dims or column in outer or not summed:
                continue
            value = old.inputs[weights]
            columns = shape_of(value)[dims.index(column)]
            if columns < 2 * self.lanes or 0 in shape_of(value):
                continue
            rows = math.prod(old.sizes[d] for d in result if d not in dims)
            few = dims[-1] == column and columns <= _FEW_VECTORS * self.lanes
            length = old.sizes[max(summed)]
            lines = self.lines and rows == 1 and length >= _LONG_LINE * self.lanes
            if lines or panels:
                yield _Candidate(weights, rows, few, columns % self.lanes == 0, lines)


@dataclass(frozen=True)
class _Candidate:
    """Operand `number` of a product, whose panels `rows` rows read. few: its columns lie side by
    side in a few vectors; whole: they fill whole panels; lines: they had better lie one after the
    other.
    """

    number: int
    rows: int
    few: bool
    whole: bool
    lines: bool


def _pays(value: ir.Value, rows: int, few: bool) -> bool:
    """Whether an operand of the run time is copied anyway, or has enough rows to read it. few: its
    columns lie side by side in a few vectors.
    """
    if _copied(value) is not None:
        return rows >= _SOME_ROWS
    return rows >= _ENOUGH_ROWS and not few


def _of_constants(value: ir.Value) -> bool:
    """Whether `value` is made of constants alone, for the columns of a task at a time."""
    op = defining(value)
    inputs = Generic(op).inputs if op is not None and op.name == "linalg.generic" else []
    return bool(inputs) and all(map(is_constant, inputs))


def _copied(value: ir.Value) -> Generic | None:
    """The copy in another order of dims that makes `value` for one reader."""
    op = defining(value)
    if op is None or op.name != "linalg.generic" or len(list(value.uses)) != 1:
        return None
    copy = Generic(op)
    moves = len(copy.maps) == 2 and not copy.reduction_dims and copied_argument(copy.block) == 0
    in_order = moves and copy.maps[0].is_permutation and copy.dims[1] == sorted(copy.dims[1])
    return copy if in_order else None


def _uncopied(value: ir.Value, reads: list[ir.AffineExpr]) -> tuple[ir.Value, list[ir.AffineExpr]]:
    """What a copy copies, and how the reader would read that."""
    copy = None if is_constant(value) else _copied(value)
    if copy is None:
        return value, reads
    return copy.inputs[0], [reads[dim_of(e)] for e in copy.maps[0].results]
