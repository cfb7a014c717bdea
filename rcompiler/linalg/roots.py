"""The one reduction or product that a result is computed from."""

from __future__ import annotations

from collections.abc import Callable

from torch_mlir import ir

from rcompiler.linalg.affine import Linear
from rcompiler.linalg.dot_group import dot_group
from rcompiler.linalg.generic import Generic
from rcompiler.linalg.product import is_product
from rcompiler.linalg.values import STAGE, defining, element_of, shape_of
from rcompiler.linalg.views import VIEWS, view_coordinates


def sums_in_parts(result: ir.Value) -> ir.Operation | None:
    """The product reduction that each element of `result` needs one element of, whose sums are no
    wider than its results; see `reduction_root`.
    """
    return reduction_root(result, _has_plain_sums, frozenset({*VIEWS, "tensor.pad"}))


def reduction_root(
    result: ir.Value, suits: Callable[[Generic], bool], views: frozenset[str]
) -> ir.Operation | None:
    """The one reduction that each element of `result` needs one element of: an elementwise epilogue
    and `views` may follow. None if there is no such one, or if it does not suit. Earlier stages of
    the body do not count.
    """
    roots = [op for op in ops_below(result) if reduces(op)]
    if len(roots) != 1 or not suits(Generic(roots[0])):
        return None
    value = roots[0].result
    while value != result:
        uses = list(value.uses)
        if len(uses) != 1:
            return None
        user = uses[0].owner.operation
        if user.name == "tensor.pad" and user.name in views:
            return roots[0]
        if user.name == "linalg.generic":
            map_ = Generic(user).maps[uses[0].operand_number]
            if not map_.is_permutation or len(user.results) != 1:
                return None
        elif user.name not in views:
            return None
        value = user.result
    return roots[0] if len(list(value.uses)) == 1 else None


def ops_below(result: ir.Value) -> list[ir.Operation]:
    """The ops that compute `result` from arguments and earlier stages."""
    found: dict[ir.Operation, None] = {}
    pending = [result]
    while pending:
        op = defining(pending.pop())
        if op is not None and op.name != STAGE and op not in found:
            found[op] = None
            pending += op.operands
    return list(found)


def reduces(op: ir.Operation) -> bool:
    """Whether an op adds up, or otherwise combines, elements of its operands."""
    return op.name == "linalg.generic" and Generic(op).accumulates


def _has_plain_sums(root: Generic) -> bool:
    """Whether running sums are values of the result's type, one per result element."""
    if root.outputs != 1 or element_of(root.inits[0]) not in ("f32", "f64", "i32"):
        return False
    if dot_group(root) is not None:  # a part is whole groups
        return len(root.reduction_dims) > 1
    return root.lane_dim is None and root.factors is not None


def product_root(value: ir.Value) -> ir.Operation | None:
    """The product that each element of `value` needs one element of; an elementwise epilogue may
    follow, which reads it several times. None if there is no such one. Earlier stages of the body
    do not count.
    """
    roots = [op for op in ops_below(value) if reduces(op)]
    if len(roots) != 1 or not is_product(Generic(roots[0])):
        return None
    return roots[0] if _needs_one(value, roots[0].result) else None


def _needs_one(value: ir.Value, root: ir.Value) -> bool:
    """Whether an element of `value` needs `root`, from which it is computed, at one place only."""
    start = [Linear.of(f"<{d}>") for d in range(len(shape_of(value)))]
    pending, known, above = [(value, start)], dict[ir.Value, list[Linear]](), {root: True}
    while pending:
        value, at = pending.pop()
        if not _is_above(value, above):
            continue
        if known.setdefault(value, at) != at:
            return False
        op = value.owner.operation
        if value == root:
            continue
        if op.name == "tensor.extract_slice":
            pending.append((op.operands[0], view_coordinates(op, at, _no_split)))
            continue
        if op.name != "linalg.generic" or len(op.results) != 1:
            return False
        generic = Generic(op)
        dims = generic.loop_dims(at)
        for map_, expressions, operand in zip(
            generic.maps, generic.expressions, generic.operands, strict=True
        ):
            if map_.is_permutation:
                pending.append((operand, [e(dims, _no_split) for e in expressions]))
            elif _is_above(operand, above):
                return False
    return True


def _is_above(value: ir.Value, known: dict[ir.Value, bool]) -> bool:
    """Whether a value is computed from those that are `known` to be, no stage in between."""
    if value not in known:
        op = defining(value)
        operands = [] if op is None or op.name == STAGE else op.operands
        known[value] = any(_is_above(v, known) for v in operands)
    return known[value]


def _no_split(value: Linear, divisor: int) -> tuple[Linear, Linear]:
    raise AssertionError("permutations and slices divide nothing")
