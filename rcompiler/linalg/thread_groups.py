"""How many threads of a block are to work on one register tile."""

from __future__ import annotations

from torch_mlir import ir

from rcompiler.errors import CompilerError
from rcompiler.linalg.generic import generics_of
from rcompiler.linalg.kept_stages import stages_inside
from rcompiler.linalg.shared_sums import LANES, by_warps, shared_in
from rcompiler.linalg.values import integer


def group_lanes(kernel: ir.Operation, warp: int, *, tiled: bool) -> int:
    """Lanes that the threads of a group are to have: those of a warp where they share in sums, else
    those of the widest vector of the results and of all stages. tiled: whether the body is that of
    one task.

    Raises CompilerError for a sum that other lanes share in than those of a warp.
    """
    block = kernel.regions[0].blocks[0]
    if tiled:
        shared = list(shared_in(block))
    else:
        shared = [generic.op for generic in generics_of(block) if by_warps(generic)]
    for op in shared:
        if LANES in op.attributes and (lanes := integer(op, LANES)) != warp:
            raise CompilerError(
                f"{op.location}: '{LANES}' says that {lanes} lanes share in a sum, and a warp of "
                f"this device has {warp}; make the body anew with rc-tile-threads"
            )
    if shared:
        return warp
    shapes = [kernel, *stages_inside(block)]
    vectors = [integer(op, "lanes") for op in shapes if integer(op, "vector_dim") >= 0]
    return max(vectors, default=1)
