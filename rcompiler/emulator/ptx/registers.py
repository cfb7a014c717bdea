"""What a function does with its registers: which ones nothing writes, and which nothing reads."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from rcompiler.emulator.ptx.syntax import Function, Operand, Vector, registers
from rcompiler.emulator.ptx.types import DTYPES, size_of


def refuse_unwritten(function: Function) -> None:
    """Raises UnsupportedPtx at the first instruction that reads a register that nothing writes.

    They hold what was there before, of a device; the emulator's begin as zeros, so that what is
    computed from them would look right here. No path is followed: a register that is written
    somewhere counts.
    """
    code = function.instructions
    written = {r for i in code for r in registers(*i.operands[:1], addresses=False)}
    for instruction in code:
        guard = instruction.guard[1:] if instruction.guard else ()
        if any(r not in written for r in registers(*guard, *instruction.operands)):
            raise instruction.refuse("a register is read that nothing writes")


def mark_unused(function: Function) -> None:
    """Say of loads of vectors which bytes count: LLVM loads four words where it needs three, and
    only from PTX 8.3 on it says so. A word that nobody reads is in a register that is named once.
    """
    code = function.instructions
    named = Counter[Operand](
        r for op in code for r in registers(*op.operands, *(op.guard or ())[1:])
    )
    for at, op in enumerate(code):
        into = op.operands[0] if op.name == "ld" and op.used is None and op.operands else None
        if not isinstance(into, Vector) or op.modifiers[-1] not in DTYPES:
            continue
        size = size_of(op.modifiers[-1])
        counts = [item not in named or named[item] > 1 for item in into.items]
        if any(counts) and not all(counts):
            whole = (1 << size) - 1
            used = sum(whole << k * size for k, needed in enumerate(counts) if needed)
            code[at] = replace(op, used=used)
