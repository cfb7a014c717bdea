"""Tensors without elements: nothing computes them and nothing reads memory for them."""

from __future__ import annotations

import math

from torch_mlir import ir
from torch_mlir.dialects import tensor

from rcompiler.linalg.values import element_type, shape_of


def forget_empty_tensors(block: ir.Block) -> None:
    """Let every use of a tensor without elements use a `tensor.empty`, so that its producer is
    dead.
    """
    for argument in block.arguments:
        _forget(argument, block)
    for view in list(block.operations):
        if view.operation.name != "tensor.empty":
            for result in view.operation.results:
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
