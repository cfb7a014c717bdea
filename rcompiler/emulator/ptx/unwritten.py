"""Registers that a function reads and nothing writes.

They hold what was there before, of a device; the emulator's begin as zeros, so that what is
computed from them would look right here. No path is followed: a register that is written somewhere
counts.
"""

from __future__ import annotations

from collections.abc import Iterator

from rcompiler.emulator.ptx.syntax import (
    Address,
    Arguments,
    Function,
    Instruction,
    Not,
    Operand,
    Pair,
    Register,
    Vector,
)


def refuse_unwritten(function: Function) -> None:
    """Raises UnsupportedPtx at the first instruction that reads such a register."""
    written = {r for i in function.instructions if i.operands for r in _direct(i.operands[0])}
    for instruction in function.instructions:
        for register in _read(instruction):
            if register not in written:
                raise instruction.refuse("a register is read that nothing writes")


def _direct(operand: Operand) -> Iterator[Register]:
    """Registers that an instruction may write whose first operand this is: no addresses."""
    if isinstance(operand, Register):
        yield operand
    elif isinstance(operand, Vector | Arguments):
        for item in operand.items:
            yield from _direct(item)
    elif isinstance(operand, Pair):
        yield from _direct(operand.first)
        yield from _direct(operand.second)


def _read(instruction: Instruction) -> Iterator[Register]:
    if instruction.guard:
        yield instruction.guard[1]
    for operand in instruction.operands:
        yield from _all(operand)


def _all(operand: Operand) -> Iterator[Register]:
    if isinstance(operand, Not):
        yield operand.register
    elif isinstance(operand, Address):
        for inner in (operand.base, *operand.coordinates):
            yield from _all(inner)
    else:
        yield from _direct(operand)
