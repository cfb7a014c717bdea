"""Values that are widened where they are read: what memory holds stays narrow.

A dequantised tensor is four times its bytes, and a few operations on them. Where several ops read
it, each has a copy of these operations, which goes into its own rOperator and reads the bytes.
"""

from __future__ import annotations

from torch_mlir import ir

from rcompiler.linalg.element_types import item_bytes
from rcompiler.linalg.generic import Generic
from rcompiler.linalg.values import defining, element_of, ops_of, shape_of
from rcompiler.passes.ir.tensor_ir import is_one_number

_MOST_OPS = 6  # of a body that is worth repeating: conversions, a zero point, a scale


def copy_widenings(block: ir.Block) -> None:
    """Give each elementwise reader of a widened tensor a copy of what widens it."""
    for op in ops_of(block):
        if not widens(op) or len(list(op.result.uses)) < 2:
            continue
        users = list(dict.fromkeys(use.owner.operation for use in op.result.uses))
        for user in users:
            if not reads_by_element(user, op.result):
                continue
            with ir.InsertionPoint(user), user.location:
                copied = op.clone()
            for number, operand in enumerate(user.operands):
                if operand == op.result:
                    user.operands[number] = copied.results[0]


def widens(op: ir.Operation) -> bool:
    """Whether an op makes wider elements of those of one tensor, each of its own, by little."""
    if op.name != "linalg.generic" or len(op.results) != 1 or not _may_widen(op):
        return False
    generic = Generic(op)
    if generic.reduction_dims or generic.gathers or len(ops_of(generic.block)) > _MOST_OPS + 1:
        return False
    tensors = [k for k, v in enumerate(generic.inputs) if not _is_number(v)]
    if len(tensors) != 1 or generic.maps[tensors[0]] != generic.maps[-1]:
        return False
    source = generic.inputs[tensors[0]]
    wider = item_bytes(element_of(op.result)) > item_bytes(element_of(source))
    return wider and shape_of(source) == shape_of(op.result)


def _may_widen(op: ir.Operation) -> bool:
    """Whether the types allow it, which costs least to find out."""
    own = item_bytes(element_of(op.result))
    tensors = (v for v in op.operands if isinstance(v.type, ir.RankedTensorType))
    return any(item_bytes(element_of(v)) < own for v in tensors)


def reads_by_element(user: ir.Operation, value: ir.Value) -> bool:
    """Whether an op computes element by element from a tensor, each from its own."""
    if user.name != "linalg.generic":
        return False
    generic = Generic(user)
    places = [k for k, v in enumerate(generic.inputs) if v == value]
    return (
        not generic.reduction_dims
        and not generic.gathers
        and bool(places)
        and all(generic.maps[k] == generic.maps[-1] for k in places)
        and shape_of(value) == shape_of(user.results[0])
    )


def _is_number(value: ir.Value) -> bool:
    op = defining(value)
    return op is not None and is_one_number(op)
