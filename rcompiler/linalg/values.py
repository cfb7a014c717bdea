"""What a value says of itself: shape, element type, where it comes from."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator

from torch_mlir import ir

from rcompiler.linalg.element_types import element_name

STAGE = "rtask.stage"  # the op whose result a task keeps a tile of before it goes on


def shape_of(value: ir.Value) -> tuple[int, ...]:
    """Static shape of a tensor value."""
    return tuple(ir.RankedTensorType(value.type).shape)


def element_of(value: ir.Value) -> str:
    """Element type name of a tensor value."""
    return element_name(element_type(value))


def element_type(value: ir.Value) -> ir.Type:
    """Element type of a tensor value."""
    return ir.RankedTensorType(value.type).element_type


def bytes_of(value: ir.Value) -> int:
    """Bytes that a tensor value occupies; i1 is one byte per element."""
    return math.prod(shape_of(value)) * max(1, element_type(value).width // 8)


def defining(value: ir.Value) -> ir.Operation | None:
    """The op that defines a value; None for a block argument."""
    owner = value.owner  # asked for once: it takes longer than all else here
    return None if isinstance(owner, ir.Block) else owner.operation


def depends_on(op: ir.Operation, value: ir.Value) -> bool:
    """Whether what an op computes, or what is inside of it, is computed from a value."""
    pending, seen = [op], {op}
    while pending:
        each = pending.pop()
        for used in [v for inner in (each, *operations(each)) for v in inner.operands]:
            if used == value:
                return True
            made = defining(used)
            if made is not None and made not in seen:
                seen.add(made)
                pending.append(made)
    return False


def constant_of(value: ir.Value) -> ir.Attribute | None:
    """What the `arith.constant` holds that a value is; None where it is none."""
    op = defining(value)
    return op.attributes["value"] if op is not None and op.name == "arith.constant" else None


def number_of(value: ir.Value) -> int | None:
    """The integer that a value always is; None where it is no constant."""
    constant = constant_of(value)
    return None if constant is None else ir.IntegerAttr(constant).value


def ops_of(block: ir.Block) -> list[ir.Operation]:
    """The ops of a block, in order."""
    return [view.operation for view in block.operations]


def last_of(block: ir.Block) -> ir.Operation:
    """The last op of a block."""
    return block.operations[-1].operation


def yielded(block: ir.Block) -> list[ir.Value]:
    """The results of an operator's or kernel's body: several ones travel as one tuple."""
    value = last_of(block).operands[0]
    if not isinstance(value.type, ir.TupleType):
        return [value]
    return list(value.owner.operation.operands)


def node_of(op: ir.Operation) -> str:
    """The ONNX node that the location of an op names; "" where it names none."""
    named = re.search(r'"([^"]+)"(?!:\d)', str(op.location))
    return named[1] if named else ""


def string(op: ir.Operation, name: str) -> str:
    """A string attribute."""
    return ir.StringAttr(op.attributes[name]).value


def integer(op: ir.Operation, name: str) -> int:
    """An integer attribute."""
    return ir.IntegerAttr(op.attributes[name]).value


def symbol(op: ir.Operation, name: str) -> str:
    """The symbol that an attribute refers to, as it is written."""
    return ir.FlatSymbolRefAttr(op.attributes[name]).value


def symbols(op: ir.Operation, name: str) -> tuple[str, ...]:
    """The symbols of a list of them."""
    return tuple(ir.FlatSymbolRefAttr(one).value for one in ir.ArrayAttr(op.attributes[name]))


def integers(op: ir.Operation, name: str) -> tuple[int, ...]:
    """A dense integer array attribute as a tuple."""
    numbers = ir.DenseI64ArrayAttr(op.attributes[name])
    # by their positions: the end of an iteration takes the bindings longer than all numbers
    return tuple([numbers[k] for k in range(len(numbers))])


def operations(op: ir.Operation) -> Iterator[ir.Operation]:
    """All ops nested in the regions of ``op``."""
    for region in op.regions:
        for block in region.blocks:
            for view in block.operations:
                inner = view.operation
                yield inner
                if len(inner.regions):
                    yield from operations(inner)
