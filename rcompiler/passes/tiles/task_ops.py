"""Which ops may stand in the body of one rTask, whatever the task."""

from __future__ import annotations

from torch_mlir import ir

from rcompiler.dialects.task_body import MEMORY
from rcompiler.linalg.maps import dim_of
from rcompiler.linalg.values import ops_of
from rcompiler.passes.tiles.box import type_of
from rcompiler.passes.tiles.needed_boxes import TaskErrors

_DIALECTS = ("affine", "arith", "builtin", "linalg", "math", "rtask", "scf", "tensor")
_VECTORS = ("transfer_read", "transfer_write", "broadcast", "fma")


def check_ops(block: ir.Block, errors: TaskErrors) -> None:
    """Raises InvalidModel for an op, also in loops and branches, that no task can have."""
    for op in ops_of(block):
        dialect, _, short = op.name.partition(".")
        if (
            dialect not in _DIALECTS
            and op.name != MEMORY
            and (dialect != "vector" or short not in _VECTORS)
        ):
            raise errors.wrong(
                f"{op.name} cannot stand in the body of a task; write it as linalg on slices "
                f"of tensors, or with vector.{', vector.'.join(_VECTORS)}, arith and math"
            )
        if short.startswith("transfer"):
            _check_transfer(op, errors)
        for region in op.regions:
            for inner in region.blocks:
                check_ops(inner, errors)


def _check_transfer(op: ir.Operation, errors: TaskErrors) -> None:
    """Whole vectors of neighbours in a row."""
    write = op.name == "vector.transfer_write"
    vector, tensor = op.operands[0] if write else op.result, op.operands[1 if write else 0]
    rank, lanes = type_of(tensor).rank, ir.VectorType(vector.type)
    map_ = ir.AffineMapAttr(op.attributes["permutation_map"]).value
    inside = [ir.BoolAttr(b).value for b in ir.ArrayAttr(op.attributes["in_bounds"])]
    masked = len(op.operands) > rank + 2
    if (
        lanes.rank != 1
        or not all(inside)
        or masked
        or not rank
        or dim_of(map_.results[0]) != rank - 1
    ):
        raise errors.wrong(
            f"{op.name} moves vectors of one dim along the last dim of a tensor, in bounds and "
            "without a mask"
        )
