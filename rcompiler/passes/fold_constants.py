"""fold-constants: S1 -> S1 and S2 -> S2, what depends on constants only is evaluated.

Before:
    %w = arith.constant dense_resource<w_0123> : tensor<64x64x3x3xf32>
    %e = tensor.expand_shape %w ... ; %p = linalg.generic (permutation) ins(%e) ...
After:
    %p = arith.constant dense_resource<w_89ab> : tensor<4x4x3x3x16x16xf32>
The arrays are those of the module's context (`constants.model_context`): of an .mlir file, those of
the .npz file beside it. What needs an array that is not there stays as it is.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch_mlir import ir

from rcompiler.passes import Pass
from rcompiler.passes.constants.fold import fold_constants
from rcompiler.passes.constants.model_context import context_of


@dataclass(frozen=True)
class FoldConstants(Pass):
    """Evaluate what depends on constants only."""

    def run(self, module: ir.Operation) -> None:
        context = context_of(module)
        context.arrays = fold_constants(module, context.arrays)
