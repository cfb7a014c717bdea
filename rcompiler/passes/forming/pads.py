"""Where the tensor.pads of a function stand, so that padding costs no copy of its own."""

from __future__ import annotations

import math

from torch_mlir import ir
from torch_mlir.dialects import tensor

from rcompiler.linalg.generic import Generic
from rcompiler.linalg.maps import dims_of
from rcompiler.linalg.pieces import pad_value
from rcompiler.linalg.values import defining, integer, integers, ops_of, shape_of
from rcompiler.passes.forming.views import is_free_view
from rcompiler.passes.ir.tensor_ir import extract_slice, type_like


def hoist_pads(block: ir.Block, *, flat_rows: bool) -> None:
    """Put every pad right behind the producer of what it pads, so that it can join the producer's
    rOperator; behind those of the parts where they are joined in place.

    flat_rows: whether those that part the rows of a product stay where they are.
    """
    pads = [op for op in ops_of(block) if op.name == "tensor.pad"]
    while pads:
        pad = pads.pop()
        if (flat_rows and parts_rows(pad)) or not _hoist(pad):
            continue
        _read_inside_of_pad(pad)
        if _pads_joined_parts(pad):
            pads += _pad_parts(pad)


def _hoist(pad: ir.Operation) -> bool:
    """Whether the pad could be moved to the producer."""
    source, fill = defining(pad.operands[0]), defining(pad_value(pad))
    if source is None or (fill is not None and source.is_before_in_block(fill)):
        return False  # an argument, or its number is computed later
    pad.move_after(source)
    return True


def parts_rows(pad: ir.Operation) -> bool:
    """Whether a pad parts rows of a product that lie one behind the other without it: those of a
    pointwise convolution whose channels are not blocked. Vectors run along all rows of an image
    then, and a copy takes less time than the lanes that are empty along each row.
    """
    if not integers(pad, "static_low")[-1] and not integers(pad, "static_high")[-1]:
        return False
    value = pad.operands[0]
    while (op := defining(value)) is not None and op.name == "linalg.generic":
        generic = Generic(op)
        if generic.accumulates:
            return _is_pointwise(generic)
        if generic.reduction_dims or shape_of(generic.inits[0]) != shape_of(value):
            return False
        # through the ops that a product's rOperator has, too: what they compute is read once
        before = [v for v in generic.inputs if shape_of(v) == shape_of(value) and _is_read_once(v)]
        if len(before) != 1:
            return False
        [value] = before
    return False


def _is_read_once(value: ir.Value) -> bool:
    return defining(value) is not None and len(list(value.uses)) == 1


def _is_pointwise(product: Generic) -> bool:
    """Whether a sum of products reads whole rows of one factor just as they are in the result."""
    if product.factors is None or len(product.result_dims) < 2:
        return False
    rows = product.result_dims[-2:]
    window = {d for d in product.reduction_dims if product.sizes[d] == 1}
    shape = shape_of(product.op.results[0])[-2:]
    for value, map_ in zip(product.inputs, product.maps, strict=False):
        read = [dims_of(e) - window for e in map_.results]
        if any(rows[-1] in dims for dims in read):
            return read[-2:] == [{d} for d in rows] and shape_of(value)[-2:] == shape
    return False


def _pads_joined_parts(pad: ir.Operation) -> bool:
    """Whether the pad widens different, contiguous parts that are concatenated for it alone."""
    concat = pad.operands[0].owner.operation
    if concat.name != "tensor.concat" or len(list(concat.results[0].uses)) != 1:
        return False
    dim = integer(concat, "dim")
    if integers(pad, "static_low")[dim] or integers(pad, "static_high")[dim]:
        return False
    different = len(set(concat.operands)) == len(list(concat.operands))
    return different and math.prod(shape_of(pad.results[0])[:dim]) == 1


def _pad_parts(pad: ir.Operation) -> list[ir.Operation]:
    """pad(concat(a, b)) becomes concat(pad(a), pad(b)): the parts' producers write the padding."""
    concat = pad.operands[0].owner.operation
    dim = integer(concat, "dim")
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
