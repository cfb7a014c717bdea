"""Where the tensor.pads of a function stand, so that padding costs no copy of its own."""

from __future__ import annotations

import math

from torch_mlir import ir
from torch_mlir.dialects import tensor

from rcompiler.linalg.pieces import pad_value
from rcompiler.linalg.values import integers, shape_of
from rcompiler.passes.forming.views import is_free_view
from rcompiler.passes.ir.tensor_ir import extract_slice, type_like


def hoist_pads(block: ir.Block) -> None:
    """Put every pad right behind the producer of what it pads, so that it can join the producer's
    rOperator; behind those of the parts where they are joined in place."""
    pads = [view.operation for view in block.operations if view.operation.name == "tensor.pad"]
    while pads:
        pad = pads.pop()
        if not _hoist(pad):
            continue
        _read_inside_of_pad(pad)
        if _pads_joined_parts(pad):
            pads += _pad_parts(pad)


def _hoist(pad: ir.Operation) -> bool:
    """Whether the pad could be moved to the producer."""
    source = pad.operands[0].owner
    if isinstance(source, ir.Block):
        return False
    fill = pad_value(pad).owner
    if not isinstance(fill, ir.Block) and source.operation.is_before_in_block(fill.operation):
        return False  # its number is computed later
    pad.move_after(source.operation)
    return True


def _pads_joined_parts(pad: ir.Operation) -> bool:
    """Whether the pad widens different, contiguous parts that are concatenated for it alone."""
    concat = pad.operands[0].owner.operation
    if concat.name != "tensor.concat" or len(list(concat.results[0].uses)) != 1:
        return False
    dim = ir.IntegerAttr(concat.attributes["dim"]).value
    if integers(pad, "static_low")[dim] or integers(pad, "static_high")[dim]:
        return False
    different = len(set(concat.operands)) == len(list(concat.operands))
    return different and math.prod(shape_of(pad.results[0])[:dim]) == 1


def _pad_parts(pad: ir.Operation) -> list[ir.Operation]:
    """pad(concat(a, b)) becomes concat(pad(a), pad(b)): the parts' producers write the padding."""
    concat = pad.operands[0].owner.operation
    dim = ir.IntegerAttr(concat.attributes["dim"]).value
    parts = []
    with ir.InsertionPoint(pad), pad.location:
        for value in concat.operands:
            shape = list(shape_of(pad.results[0]))
            shape[dim] = shape_of(value)[dim]
            part = pad.clone()
            part.operands[0] = value
            part.results[0].set_type(type_like(value, shape))
            parts.append(part)
        padded = [part.results[0] for part in parts]
        joined = tensor.concat(pad.results[0].type, dim, padded, loc=concat.location)
    pad.results[0].replace_all_uses_with(joined)
    pad.erase()
    concat.erase()
    return parts


def _read_inside_of_pad(pad: ir.Operation) -> None:
    """Other readers of the padded value see the inside of the padded tensor: one buffer, no second
    store.
    """
    core, padded = pad.operands[0], pad.results[0]
    others = [use for use in core.uses if use.owner.operation != pad]
    if not others or _is_returned(core):
        return
    low, shape = integers(pad, "static_low"), shape_of(core)
    with ir.InsertionPoint.after(pad), pad.location:
        inside = extract_slice(padded, low, shape, [1] * len(shape))
    for use in others:
        use.owner.operation.operands[use.operand_number] = inside


def _is_returned(value: ir.Value) -> bool:
    """Whether a value is an output, or an output is a view of it: outputs have bytes of their own,
    which are no part of another tensor.
    """
    readers = [use.owner.operation for use in value.uses]
    return any(
        op.name == "func.return" or (is_free_view(op) and _is_returned(op.results[0]))
        for op in readers
    )
