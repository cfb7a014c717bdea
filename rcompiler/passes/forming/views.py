"""What is read where it lies: views of the same bytes, and copies that keep vectors contiguous."""

from __future__ import annotations

import math

from torch_mlir import ir
from torch_mlir.dialects import tensor

from rcompiler.linalg.affine import LANE, Linear
from rcompiler.linalg.element_types import item_bytes
from rcompiler.linalg.generic import Generic
from rcompiler.linalg.values import element_of, element_type, ops_of, shape_of
from rcompiler.linalg.views import RESHAPES, contiguous_offset

ALIGNMENT = 64  # bytes; of every operand of a kernel in the arenas


def is_free_view(op: ir.Operation) -> bool:
    """A reshape or a contiguous slice at an aligned address: the same bytes, no operator."""
    if op.name != "tensor.extract_slice":
        return op.name in RESHAPES
    offset = contiguous_offset(op)
    return offset is not None and offset * item_bytes(element_of(op.operands[0])) % ALIGNMENT == 0


def contiguous_lanes(consumer: Generic, operand: int, copy: Generic) -> bool:
    """Whether reading `operand` of `consumer` through the permutation `copy` keeps vectors
    contiguous (or uniform).
    """
    dims = [Linear.of(f"d{d}") for d in range(len(consumer.sizes))]
    last = consumer.result_dims[-1] if consumer.result_dims else -1
    if last < 0:
        return False
    dims[last] = dims[last] + Linear.of(LANE)

    def opaque(value: Linear, divisor: int) -> tuple[Linear, Linear]:
        return value, value  # a packed operand: never a copy to inline

    at = [e(dims, opaque) for e in consumer.expressions[operand]]
    loops = [Linear()] * len(copy.sizes)
    for position, dim in enumerate(copy.result_dims):
        loops[dim] = at[position]
    where = [e(loops, opaque) for e in copy.expressions[0]]
    offset, stride = Linear(), 1
    for extent, coordinate in zip(reversed(shape_of(copy.inputs[0])), reversed(where), strict=True):
        offset = offset + coordinate * stride
        stride *= extent
    return offset.coefficient(LANE) in (0, 1)


def forget_empty_tensors(block: ir.Block) -> None:
    """Let every use of a tensor without elements use a `tensor.empty`, so that its producer is
    dead.
    """
    for argument in block.arguments:
        _forget(argument, block)
    for op in ops_of(block):
        if op.name != "tensor.empty":
            for result in op.results:
                _forget(result, block)


def is_empty(value: ir.Value) -> bool:
    """Whether a value is a tensor without elements."""
    return isinstance(value.type, ir.RankedTensorType) and math.prod(shape_of(value)) == 0


def _forget(value: ir.Value, block: ir.Block) -> None:
    if not is_empty(value) or not list(value.uses):
        return
    with ir.InsertionPoint.at_block_begin(block), ir.Location.unknown(block.owner.context):
        nothing = tensor.empty(shape_of(value), element_type(value))
    value.replace_all_uses_with(nothing)
