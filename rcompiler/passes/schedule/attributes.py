"""Attributes of the ops of a schedule, as Python values."""

from __future__ import annotations

from torch_mlir import ir


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
