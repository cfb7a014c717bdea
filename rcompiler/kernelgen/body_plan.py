"""A linalg body read once: what decides the code of its ops, and where each takes its operands.

A body is evaluated for each vector of a register tile, hundreds of times in one kernel, and the IR
takes longer to answer than code to write:

    %1 = arith.mulf %in, %cst      slots 0, 2 -> 3     %in, %out: slots 0, 1; %cst, of outside: 2
    %2 = arith.addf %1, %out       slots 3, 1 -> 4
    linalg.yield %2                wanted: slot 4
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from torch_mlir import ir

from rcompiler.errors import CompilerError
from rcompiler.kernelgen.quotient import rounds
from rcompiler.linalg.element_types import element_name
from rcompiler.linalg.integer_range import keeps_number
from rcompiler.linalg.known_division import Division, known_division
from rcompiler.linalg.lazy import lazy

_EXTENSIONS = {"extsi": True, "extui": False}  # whether they look at the sign
_FLAGS = {"extsi": "nsw", "extui": "nuw"}


class BodyOp:
    """An op of a body, of which each thing is found out when it is first asked for."""

    def __init__(self, op: ir.Operation) -> None:
        self.op = op
        self.full_name = op.name
        self.dialect, self.name = self.full_name.split(".", 1)

    @lazy
    def operands(self) -> list[ir.Value]:
        return list(self.op.operands)

    @lazy
    def element(self) -> str:
        """Element type of the result."""
        return element_name(self.op.result.type)

    @lazy
    def has_halves(self) -> bool:
        """Whether an operand or the result is of f16 or bf16."""
        types = (value.type for value in (*self.operands, self.op.result))
        return any(element_name(type_) in ("f16", "bf16") for type_ in types)

    @lazy
    def number(self) -> int | float:
        """Of an arith.constant."""
        attribute = self.op.attributes["value"]
        if self.element[0] == "i":
            found = ir.IntegerAttr(attribute).value
            return bool(found) if self.element == "i1" else found
        return ir.FloatAttr(attribute).value

    @lazy
    def predicate(self) -> int:
        """Of an arith.cmpi or arith.cmpf."""
        return ir.IntegerAttr(self.op.attributes["predicate"]).value

    @lazy
    def dim(self) -> int:
        """Of a linalg.index."""
        return ir.IntegerAttr(self.op.attributes["dim"]).value

    @lazy
    def division(self) -> Division | None:
        """Of an arith.divf, see `known_division`."""
        return known_division(self.op)

    @lazy
    def rounds(self) -> bool:
        """See `quotient.rounds`."""
        return self.full_name == "arith.fptosi" and rounds(self.op)

    @lazy
    def keeps(self) -> list[str]:
        """The extensions that undo an arith.trunci."""
        [value] = self.operands
        flags = str(self.op.attributes["overflowFlags"])  # what is known where numbers are operands
        return [
            kind
            for kind, signed in _EXTENSIONS.items()
            if _FLAGS[kind] in flags or keeps_number(value, self.element, signed=signed)
        ]

    @lazy
    def is_for_positions(self) -> bool:
        """Whether nothing but affine.apply reads the result."""
        return all(use.owner.operation.name == "affine.apply" for use in self.op.result.uses)


class Step(NamedTuple):
    """An op that is evaluated. slots: of its operands; -1: what an affine.apply reads from outside
    of the body. result: its slot.
    """

    op: BodyOp
    slots: Sequence[int]
    result: int


class BodyPlan:
    """What there is to do for some values of a body, and no more.

    Values are numbered by slots: arguments first, then what steps compute and what they read from
    outside of the body.

    Attributes:
        steps: the ops in their order.
        outside: by the slots of values from outside, the op of each and the slots of its operands.
        wanted: the slots of the values.
        size: how many slots there are.
    """

    def __init__(
        self,
        ops: Iterable[BodyOp],
        arguments: Sequence[ir.Value],
        wanted: Sequence[ir.Value],
        op_of: Callable[[ir.Operation], BodyOp],
        *,
        rounds: bool,
    ) -> None:
        """ops: of the body. op_of: what is known of an op outside of it. rounds: whether an
        arith.fptosi may round the dividend itself, see `quotient.rounds`.

        Raises CompilerError for a body that reads an argument of another block.
        """
        self._op_of, self._rounds = op_of, rounds
        self._slots = {value: slot for slot, value in enumerate(arguments)}
        self.steps: list[Step] = []
        self.outside: dict[int, Step] = {}
        for op in ops:
            if op.full_name == "linalg.yield" or all(value in self._slots for value in wanted):
                break
            slots = self._operands(op)
            self.steps.append(Step(op, slots, self._new_slot(op.op.result)))
        self.wanted = [self._slot(value) for value in wanted]
        self.size = len(self._slots)

    def _operands(self, op: BodyOp) -> Sequence[int]:
        if op.full_name == "linalg.index":
            return ()
        if op.full_name == "affine.apply":
            return tuple([self._slots.get(value, -1) for value in op.operands])
        if op.full_name == "tensor.extract":
            return tuple([self._slot(value) for value in op.operands[1:]])
        if self._rounds and op.rounds:
            return (self._slot(op.operands[0].owner.operation.operands[0]),)
        return tuple([self._slot(value) for value in op.operands])

    def _slot(self, value: ir.Value) -> int:
        found = self._slots.get(value)
        if found is not None:
            return found
        if isinstance(value.owner, ir.Block):
            raise CompilerError(
                f"{value}: a scalar argument of an operator region is not supported"
            )
        op = self._op_of(value.owner.operation)  # constants, and arithmetic of such
        slot = self._new_slot(value)
        self.outside[slot] = Step(op, tuple([self._slot(each) for each in op.operands]), slot)
        return slot

    def _new_slot(self, value: ir.Value) -> int:
        return self._slots.setdefault(value, len(self._slots))
