"""Compute element by element before a tensor is cut, where the parts are treated alike.

    %a = extract_slice %y[0, 0] [1, 8]               %z = linalg.generic {body} ins(%y, %pq)
    %b = extract_slice %y[0, 8] [1, 8]      =>       %c = extract_slice %z[0, 0] [1, 8]
    %c = linalg.generic {body} ins(%a, %p)           %d = extract_slice %z[0, 8] [1, 8]
    %d = linalg.generic {body} ins(%b, %q)

%y may be several tensors that are cut in the same places: x W + h U + b of a recurrent cell.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from torch_mlir import ir

from rcompiler.linalg.bodies import alike
from rcompiler.linalg.constants import is_constant
from rcompiler.linalg.generic import Generic
from rcompiler.linalg.maps import dim_of, dims_of
from rcompiler.linalg.values import defining, element_type, operations, shape_of
from rcompiler.passes.ir.tensor_ir import concat, empty, extract_slice, generic


@dataclass(frozen=True)
class Parts:
    """A tensor that an op computes, and slices that cut its last dim from end to end, in order."""

    source: ir.Value
    slices: tuple[ir.Value, ...]


def cut(source: ir.Value, sizes: Iterable[int]) -> Parts:
    """Slices of `sizes` of the last dim of a tensor, at the insertion point."""
    shape, position, slices = shape_of(source), 0, []
    for size in sizes:
        start = [0] * (len(shape) - 1) + [position]
        slices.append(extract_slice(source, start, [*shape[:-1], size], [1] * len(shape)))
        position += size
    return Parts(source, tuple(slices))


def sink_slices(waiting: Sequence[Parts]) -> None:
    """Move cuts below all elementwise ops that treat the parts alike.

    The other operands of these may be one value without the cut dim, one constant per part, or the
    parts of another tensor. An op whose result is not read by loops stays behind the cut: it is
    built in place where it goes. Leaves dead slices behind.
    """
    todo = list(waiting)
    known = {parts.slices: parts.source for parts in todo}
    while todo:
        parts = todo.pop(0)
        for family in list(_families(parts.slices)):
            readers = [Generic(op) for op in family]  # as they are now: they may read one another
            operands = _operands(readers, known)
            if operands is not None:
                made = _replace(readers, operands)
                known[made.slices] = made.source
                todo.append(made)


def identity_operand(reader: Generic, value: ir.Value) -> int | None:
    """Number of the operand `value` if `reader` computes each element from the one at its place."""
    if value not in reader.inputs or reader.outputs != 1 or reader.reduction_dims:
        return None
    number, result = reader.inputs.index(value), reader.maps[-1]
    same = reader.maps[number] == result and shape_of(value) == shape_of(reader.op.results[0])
    if not same or result != ir.AffineMap.get_identity(result.n_dims) or any(reader.init_used):
        return None
    return None if any(o.name == "linalg.index" for o in operations(reader.op)) else number


def read_by_loops(value: ir.Value) -> bool:
    """Whether only linalg.generic reads a value: as well in place from a slice as from memory of
    its own.
    """
    users = [use.owner.operation for use in value.uses]
    return bool(users) and all(user.name == "linalg.generic" for user in users)


def concatenate(values: Sequence[ir.Value], axis: int, before: ir.Operation) -> ir.Value:
    """Constants of one element type joined along `axis`, in front of `before`."""
    for value in values:
        _hoist(value, before)
    with ir.InsertionPoint(before), before.location:
        return concat(values, axis)


def _hoist(value: ir.Value, before: ir.Operation) -> None:
    """Move what computes a constant in front of an op of the same block."""
    op = defining(value)
    if op is None or op.parent != before.parent or op.is_before_in_block(before):
        return
    for operand in [v for o in (op, *operations(op)) for v in o.operands]:
        _hoist(operand, before)
    op.move_before(before)


# -- readers ---------------------------------------------------------------------------------------
def _families(slices: tuple[ir.Value, ...]) -> Iterator[list[ir.Operation]]:
    """One elementwise reader of each part, alike but for their other operands."""
    taken: set[ir.Operation] = set()
    for first in _readers(slices[0]):
        family = [first]
        for part in slices[1:]:
            family += [g for g in _readers(part) if g.op not in taken and _alike(first, g)][:1]
        if len(family) == len(slices) and len({g.op for g in family}) == len(family):
            taken.update(g.op for g in family)
            yield [g.op for g in family]


def _readers(value: ir.Value) -> list[Generic]:
    found = dict.fromkeys(use.owner.operation for use in value.uses)
    readers = [Generic(op) for op in found if op.name == "linalg.generic"]
    return [
        g
        for g in reversed(readers)
        if identity_operand(g, value) is not None and read_by_loops(g.op.results[0])
    ]


def _alike(a: Generic, b: Generic) -> bool:
    return a.maps == b.maps and alike(a.block, b.block)


# -- merging readers -------------------------------------------------------------------------------
def _operands(
    readers: list[Generic], known: dict[tuple[ir.Value, ...], ir.Value]
) -> list[ir.Value | tuple[int, tuple[ir.Value, ...]]] | None:
    """Per input of the merged reader its value, or (axis, constants to join); None: no way."""
    column = readers[0].maps[-1].n_dims - 1
    operands: list[ir.Value | tuple[int, tuple[ir.Value, ...]]] = []
    for number, map_ in enumerate(readers[0].maps[:-1]):
        values = tuple(g.inputs[number] for g in readers)
        axes = [i for i, e in enumerate(map_.results) if column in dims_of(e)]
        if values in known and map_ == readers[0].maps[-1]:
            operands.append(known[values])
        elif not axes and all(v == values[0] for v in values):
            operands.append(values[0])
        elif _joinable(values, map_, axes, column):
            operands.append((axes[0], values))
        else:
            return None
    return operands


def _joinable(
    values: tuple[ir.Value, ...], map_: ir.AffineMap, axes: list[int], column: int
) -> bool:
    """One constant per part, cut along the one axis that the columns are."""
    if len(axes) != 1 or dim_of(map_.results[axes[0]]) != column:
        return False
    others = {tuple(n for i, n in enumerate(shape_of(v)) if i != axes[0]) for v in values}
    return len(others) == 1 and all(is_constant(v) for v in values)


def _replace(
    readers: list[Generic], operands: list[ir.Value | tuple[int, tuple[ir.Value, ...]]]
) -> Parts:
    """One op behind its last operand, and cuts of it for all readers.

    That is early enough: an operand comes before all readers, or is the source of their parts.
    """
    first = readers[0]
    sizes = [shape_of(g.op.results[0])[-1] for g in readers]
    result = first.op.results[0]
    last = _latest([v for v in operands if isinstance(v, ir.Value)])
    inputs = [v if isinstance(v, ir.Value) else concatenate(v[1], v[0], last) for v in operands]
    where = ir.Location.fused([g.op.location for g in readers], context=first.op.context)
    with ir.InsertionPoint.after(last), where:
        shape = [*shape_of(result)[:-1], sum(sizes)]
        init = empty(shape, element_type(result))
        new = generic(inputs, [init], first.maps, first.kinds, first.block)
        parts = cut(new.results[0], sizes)
    for reader, part in zip(readers, parts.slices, strict=True):
        reader.op.results[0].replace_all_uses_with(part)
        reader.op.erase()
    return parts


def _latest(values: list[ir.Value]) -> ir.Operation:
    """The last of the ops that define the values."""
    ops = [op for op in map(defining, values) if op is not None]
    latest = ops[0]
    for op in ops[1:]:
        latest = op if latest.is_before_in_block(op) else latest
    return latest
