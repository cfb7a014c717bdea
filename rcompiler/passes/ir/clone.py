"""Copies of ops with their operands, also those of nested ops, taken from a mapping of values."""

from __future__ import annotations

from collections.abc import Sequence

from torch_mlir import ir

from rcompiler.linalg.values import operations

Values = dict[ir.Value, ir.Value]


def clone(op: ir.Operation, mapped: Values) -> None:
    """Copy `op` to the current insertion point; `mapped` then leads to the copy's results."""
    copy = op.clone()
    remap(copy, mapped)
    mapped.update(zip(op.results, copy.results, strict=True))


def copy_block(
    source: ir.Block, region: ir.Region, arguments: Sequence[ir.Value | ir.Type]
) -> None:
    """Append a copy of `source` to `region`; its arguments stand for `arguments` inside, those of a
    type alone for nothing.
    """
    unknown = ir.Location.unknown(source.owner.context)
    types = [a.type if isinstance(a, ir.Value) else a for a in arguments]
    copy = region.blocks.append(*types, arg_locs=[unknown] * len(arguments))
    pairs = zip(arguments, copy.arguments, strict=True)
    mapped = {old: new for old, new in pairs if isinstance(old, ir.Value)}
    with ir.InsertionPoint(copy):
        for view in source.operations:
            clone(view.operation, mapped)


def copy_module(module: ir.Module) -> ir.Module:
    """A module with copies of all ops and the attributes of the module, in the same context."""
    copy = ir.Module.create(ir.Location.unknown(module.context))
    for name, attribute in module.operation.attributes.items():
        copy.operation.attributes[name] = attribute
    with ir.InsertionPoint(copy.body):
        for view in module.body.operations:
            view.operation.clone()
    return copy


def remap(op: ir.Operation, mapped: Values) -> None:
    """Let `op` and all ops in it use what `mapped` leads to."""
    for user in (op, *operations(op)):
        for k, value in enumerate(user.operands):
            if value in mapped:
                user.operands[k] = mapped[value]
