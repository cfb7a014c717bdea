"""rtask-pack-weights: store the constant right-hand side of a product in panels of columns.

Before (lanes=16):
    %w = arith.constant dense_resource<w_0> : tensor<768x1000xf32>
    %y = linalg.generic {maps (m, n, k): (m, k), (k, n), (m, n)} ins(%x, %w : ...) -> 32x1000
After:
    %p = pad, expand_shape and one copying generic of %w -> tensor<63x768x16xf32>
    %y = linalg.generic {maps (m, n, k): (m, k), (n floordiv 16, k, n mod 16), (m, n)} ins(%x, %p)

A kernel that vectorises along n then reads consecutive memory for consecutive k, whatever the
order of the dims of %w was (also transposed). The repacking is IR on constants: fold_constants
evaluates it. Batch dims of the weights stay in front.

Leaves alone: convolutions (windows), operands that are not constant, fewer than 2 * lanes columns.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch_mlir import ir

from rcompiler.kernelgen.region import Generic, shape_of
from rcompiler.passes import Pass, PassFailure
from rcompiler.passes._linalg_form import dim_of, is_constant, is_multiply_add
from rcompiler.passes._tensor_ir import affine_map, block_axes, generic, transpose


@dataclass(frozen=True)
class RTaskPackWeights(Pass):
    """Store the constant right-hand side of a product in panels of columns."""

    lanes: int = 16

    def run(self, module: ir.Operation) -> None:
        if self.lanes < 1:
            raise PassFailure(module, f"lanes must be at least 1, not {self.lanes}")
        packed: dict[tuple, ir.Value] = {}
        for view in module.regions[0].blocks[0].operations:
            if view.operation.name != "func.func" or not view.operation.regions[0].blocks:
                continue
            for inner in list(view.operation.regions[0].blocks[0].operations):
                if inner.operation.name == "linalg.generic":
                    self._rewrite(Generic(inner.operation), packed)

    def _rewrite(self, old: Generic, packed: dict[tuple, ir.Value]) -> None:
        weights = self._weights(old)
        if weights is None:
            return
        dims = [dim_of(e) for e in old.maps[weights].results]
        column = dims.index(dim_of(old.maps[-1].results[-1]))
        depth = [i for i in sorted(range(len(dims)), key=dims.__getitem__)
                 if dims[i] in old.reduction_dims]  # fmt: skip
        batch = [i for i in range(len(dims)) if i != column and i not in depth]
        value = old.inputs[weights]
        order = (*batch, column, *depth)
        with ir.InsertionPoint(old.op), old.op.location:
            if (value, order) not in packed:
                blocks = block_axes(value, [column], self.lanes)
                packed[value, order] = transpose(blocks, [*order, len(dims)])
            operands = list(old.inputs)
            operands[weights] = packed[value, order]
            maps = list(old.maps)
            maps[weights] = self._panel_map(maps[weights], column, order)
            kinds = list(ir.ArrayAttr(old.op.attributes["iterator_types"]))
            new = generic(operands, old.inits, maps, kinds)
        old.block.append_to(new.regions[0])
        old.op.results[0].replace_all_uses_with(new.results[0])
        old.op.erase()

    def _panel_map(self, map_: ir.AffineMap, column: int, order: tuple[int, ...]) -> ir.AffineMap:
        """(batch.., n floordiv lanes, k.., n mod lanes)."""
        results = list(map_.results)
        panel = ir.AffineExpr.get_floor_div(results[column], self.lanes)
        lane = ir.AffineExpr.get_mod(results[column], self.lanes)
        read = [panel if i == column else results[i] for i in order]
        return affine_map(map_.n_dims, [*read, lane])

    def _weights(self, old: Generic) -> int | None:
        """Number of the constant operand to pack, if `old` is a product that has one."""
        if not is_multiply_add(old) or not old.reduction_dims:
            return None
        for weights, other in ((1, 0), (0, 1)):
            dims = [dim_of(e) for e in old.maps[weights].results]
            outer = [dim_of(e) for e in old.maps[other].results]
            result = [dim_of(e) for e in old.maps[2].results]
            if -1 in dims + outer + result or not result or len(set(dims)) != len(dims):
                continue
            column = result[-1]
            if column not in dims or column in outer:
                continue
            columns = shape_of(old.inputs[weights])[dims.index(column)]
            if (
                columns >= 2 * self.lanes
                and 0 not in shape_of(old.inputs[weights])
                and is_constant(old.inputs[weights])
            ):
                return weights
        return None
