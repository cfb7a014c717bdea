"""Registers that wgmma fills while the program goes on, and who uses them."""

from __future__ import annotations

from rcompiler.emulator.ptx.syntax import (
    Function,
    Instruction,
    Operand,
    Register,
    Vector,
    registers,
)
from rcompiler.emulator.translate.emitter import Emitter


def _numbers(*operands: Operand) -> set[int]:
    return {register.index for register in registers(*operands, addresses=False)}


def _is_copy(instruction: Instruction) -> bool:
    both = [operand for operand in instruction.operands if isinstance(operand, Register)]
    return instruction.name == "mov" and len(both) == 2 and instruction.guard is None


def accumulators(function: Function) -> frozenset[int]:
    """Results of wgmma, its factors in registers, and what is copied to or from one of these."""
    found: set[int] = set()
    for instruction in function.instructions:
        if instruction.name == "wgmma" and "mma_async" in instruction.modifiers:
            found |= _numbers(*instruction.operands[:1])
            if isinstance(instruction.operands[1], Vector):
                found |= _numbers(*instruction.operands[1:2])
    copies = [_numbers(*i.operands) for i in function.instructions if _is_copy(i)]
    while True:
        joined = [pair for pair in copies if not found.isdisjoint(pair) and not pair <= found]
        if not joined:
            return frozenset(found)
        found.update(*joined)


def watch(e: Emitter, instruction: Instruction, watched: frozenset[int]) -> None:
    """Tell the warpgroups' unit that an instruction uses registers that may be filled still."""
    if not watched or instruction.name == "wgmma":
        return
    written = sorted(watched & _numbers(*instruction.operands[:1]))
    read = sorted(watched & _numbers(*instruction.operands[1:]))
    base = e.base
    if _is_copy(instruction):
        into, source = (r.index for r in registers(*instruction.operands))
        if source in watched:
            e.line(f"S.warpgroup.move({e.mask}, {base + into}, {base + source})")
            return
    if read or written:
        reads, writes = (tuple(base + k for k in group) for group in (read, written))
        e.line(f"S.warpgroup.use({e.at}, {e.mask}, {reads}, {writes})")
