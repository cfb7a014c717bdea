"""Which reductions the lanes of a warp share in, see `kernelgen.simt.reduction`."""

from __future__ import annotations

from collections.abc import Container, Iterator

from torch_mlir import ir

from rcompiler.linalg.generic import Generic
from rcompiler.linalg.product import is_product
from rcompiler.linalg.values import STAGE, ops_of

LANES = "rtask.lanes"
"""Of a reduction in the body of one task: so many lanes share in each of its sums."""

GUARDS = frozenset({"tensor.pad", "tensor.concat", "tensor.insert_slice"})
"""Only some threads read what is behind these: no warp may meet there."""

AT_POSITION = "tensor.extract"
"""Reads an element at some position from within another op, perhaps for some threads alone."""


def by_warps(generic: Generic) -> bool:
    """Whether the lanes of a warp share in each sum of a reduction: not in those of products, whose
    operands threads had better share.
    """
    if generic.lane_dim is None or is_product(generic):
        return False
    return guard_of(generic.op, {*GUARDS, AT_POSITION}) is None


def shared_in(block: ir.Block) -> Iterator[ir.Operation]:
    """The reductions in the body of one task, also in its loops and foralls, that are `LANES`."""
    for op in ops_of(block):
        if LANES in op.attributes:
            yield op
        if op.name.startswith("scf."):
            for region in op.regions:
                for inner in region.blocks:
                    yield from shared_in(inner)


def guard_of(op: ir.Operation, names: Container[str]) -> ir.Operation | None:
    """What of these names, or which loop or branch, is computed from an op, and perhaps has it
    computed for some elements only; stages compute all of theirs.
    """
    pending, seen = [op], {op}
    while pending:
        for result in pending.pop().results:
            for use in result.uses:
                user = use.owner.operation
                if user.name in names or user.name.startswith("scf."):
                    return user
                if user not in seen and user.name != STAGE:
                    seen.add(user)
                    pending.append(user)
    return None
