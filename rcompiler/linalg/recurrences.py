"""Loops over the steps of a network, each of which calls a function: `frontend.recurrence`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from torch_mlir import ir

from rcompiler.linalg.values import defining, integers, number_of, ops_of, shape_of
from rcompiler.linalg.views import run_offset

MOVING = -(1 << 63)  # an offset that is an operand, as MLIR writes it in static_offsets


def is_recurrence(op: ir.Operation) -> bool:
    """Whether an op is such a loop; other loops are the work of one rOperator."""
    return op.name == "scf.for" and any(
        inner.name == "func.call" for inner in ops_of(op.regions[0].blocks[0])
    )


def handed_on(value: ir.Value) -> bool:
    """Whether a value is what the last step of such a loop hands on: the bytes of a value of that
    step, which may also be a row of the tensor in which the loop collects those of all steps.
    """
    op = defining(value)
    if op is None or not is_recurrence(op):
        return False
    made = defining(Recurrence(op).yielded[[*op.results].index(value)])
    return made is None or made.name != "tensor.insert_slice"


class Recurrence:
    """The parts of such a loop.

    carried: the arguments of its body, of which `inits` come first and `yielded` next. ops: those
    of the body but for its terminator.
    """

    def __init__(self, op: ir.Operation) -> None:
        self._op = op
        block = op.regions[0].blocks[0]
        self._at, *self.carried = block.arguments
        *self.ops, last = ops_of(block)
        self.yielded = [*last.operands]
        self.inits = [*op.operands][3:]

    def steps(self) -> Iterator[dict[ir.Value, int]]:
        """The indices that are known in each step, in the order of the steps."""
        first, end, step = (_integer(value) for value in [*self._op.operands][:3])
        for at in range(first, end, step):
            known = {self._at: at}
            for op in self.ops:
                if op.name == "arith.subi":
                    a, b = (known[v] if v in known else _integer(v) for v in op.operands)
                    known[op.results[0]] = a - b
            yield known


def row_offset(op: ir.Operation, known: Mapping[ir.Value, int]) -> int | None:
    """In elements, where the row begins that a slice of a loop reads, or writes to; None where it
    is not one contiguous row.
    """
    whole = op.operands[0] if op.name == "tensor.extract_slice" else op.operands[1]
    moving = iter([v for v in op.operands if isinstance(v.type, ir.IndexType)])
    starts = integers(op, "static_offsets")
    places = [known[next(moving)] if start == MOVING else start for start in starts]
    return run_offset(op, shape_of(whole), places)


def _integer(value: ir.Value) -> int:
    number = number_of(value)
    assert number is not None
    return number
