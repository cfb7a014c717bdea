"""Which tensors of a function stay in 16 bits: weights, and what is returned."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from torch_mlir import ir

from rcompiler.dialects.uses import tensors_used
from rcompiler.linalg.constants import scalar_number
from rcompiler.linalg.generic import Generic
from rcompiler.linalg.pieces import pad_value
from rcompiler.linalg.values import STAGE, last_of, ops_of
from rcompiler.linalg.views import MOVES

Taken = Callable[[ir.Operation], Iterable[ir.Value]]
ROUNDING = "roundingmode"  # of an arith.truncf that the model asks for
_CONVERSIONS = ("arith.sitofp", "arith.uitofp", "arith.bitcast")
_PURE = ("arith.", "linalg.", "tensor.")


def weights(ops: list[ir.Operation]) -> set[ir.Value]:
    """What is computed of constants alone, or of nothing."""
    found: set[ir.Value] = set()
    for op in ops:
        if op.name.startswith(_PURE) and found.issuperset(tensors_used(op)):
            found.update(op.results)
    return found


def handed_on(ops: list[ir.Operation], taken: Taken | None = None) -> set[ir.Value]:
    """What ops take that neither move nor compute tensors, such as func.return, what those that
    compute say that they take as it is, and what is moved to be that.
    """
    found: set[ir.Value] = set()
    for op in reversed(ops):
        if computes(op) and not moves(op):
            found.update(taken(op) if taken is not None else ())
        elif not moves(op) or op.results[0] in found:
            found.update(tensors_used(op))
    return found


def sums(ops: list[ir.Operation], constant: set[ir.Value]) -> set[ir.Value]:
    """What ops reduce one tensor to, and what is computed of that and of constants alone: means
    and variances.
    """
    found: set[ir.Value] = set()
    for op in ops:
        used = [v for v in tensors_used(op) if v not in constant]
        if op.name == "linalg.generic" and len(used) == 1 and Generic(op).reduction_dims:
            found.update(op.results)
        elif used and (moves(op) or computes(op)) and found.issuperset(used):
            found.update(op.results)
    return found


def computes(op: ir.Operation) -> bool:
    """Whether an op is a linalg.generic of one line of ops on scalars."""
    if op.name != "linalg.generic":
        return False
    body = ops_of(op.regions[0].blocks[0])[:-1]
    return all(len(inner.results) == 1 and not len(inner.regions) for inner in body)


def moves(op: ir.Operation) -> bool:
    """Whether an op has one result, whose elements are some of its operands' or constants, or
    what the model itself rounds.
    """
    if op.name == "tensor.pad":
        return scalar_number(pad_value(op)) is not None
    if op.name in (*MOVES, "tensor.insert_slice", STAGE):
        return True
    if not computes(op) or len(op.results) != 1:
        return False
    block = op.regions[0].blocks[0]
    moved: set[ir.Value] = set(block.arguments)
    for inner in ops_of(block):
        chosen = list(inner.operands)[1:] if inner.name == "arith.select" else []
        picks = inner.name in ("tensor.extract", "arith.constant")
        if picks or rounds_as_asked(inner) or (chosen and moved.issuperset(chosen)):
            moved.update(inner.results)
    return last_of(block).operands[0] in moved


def rounds_as_asked(op: ir.Operation) -> bool:
    """Whether an op on scalars has the result that the model asks for: of a Cast."""
    return op.name in _CONVERSIONS or (op.name == "arith.truncf" and ROUNDING in op.attributes)
