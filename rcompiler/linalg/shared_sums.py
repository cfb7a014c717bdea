"""Which reductions the lanes of a warp share in, see `kernelgen.simt.reduction`."""

from __future__ import annotations

from torch_mlir import ir

from rcompiler.linalg.generic import Generic
from rcompiler.linalg.product import is_product
from rcompiler.linalg.values import STAGE

# Only some threads read what is behind these: no warp may meet there.
_GUARDS = frozenset({"tensor.pad", "tensor.concat", "tensor.insert_slice"})


def by_warps(generic: Generic) -> bool:
    """Whether the lanes of a warp share in each sum of a reduction: not in those of products, whose
    operands threads had better share.
    """
    return generic.lane_dim is not None and not is_product(generic) and not _guarded(generic.op)


def _guarded(op: ir.Operation) -> bool:
    """Whether some user computes only some elements of it; stages compute all of theirs."""
    pending, seen = [op], {op}
    while pending:
        for result in pending.pop().results:
            for use in result.uses:
                user = use.owner.operation
                if user.name in _GUARDS or user.name.startswith("scf."):
                    return True
                # read at some position from within another op
                if user.name == "tensor.extract":
                    return True
                if user not in seen and user.name != STAGE:
                    seen.add(user)
                    pending.append(user)
    return False
