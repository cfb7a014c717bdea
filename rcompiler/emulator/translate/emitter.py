"""Lines of Python for the instructions of one basic block.

The functions have three arguments: S, the cohort that executes; R, its registers, one array per
register with an element per thread; M, the mask of the threads that are here. Whatever comes from
the text reaches a line as a number that was parsed, or as a constant of the pool by its name.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from rcompiler.emulator.faults import UnsupportedPtx
from rcompiler.emulator.ptx.syntax import (
    Address,
    FloatImmediate,
    Immediate,
    Instruction,
    Label,
    Not,
    Operand,
    Register,
    Sink,
    Special,
    Symbol,
    Variable,
    Vector,
)
from rcompiler.emulator.ptx.types import DTYPES, bits_of, is_signed, size_of
from rcompiler.emulator.translate.blocks import Flow
from rcompiler.emulator.translate.layout import Layout

SPECIALS = frozenset({
    *(f"%{name}.{axis}" for name in ("tid", "ntid", "ctaid", "nctaid") for axis in "xyz"),
    "%laneid", "%warpid", "%nwarpid", "%smid", "%nsmid", "%gridid", "%lanemask_eq",
    "%lanemask_le", "%lanemask_lt", "%lanemask_ge", "%lanemask_gt", "%clock", "%clock_hi",
    "%clock64", "%globaltimer", "%globaltimer_lo", "%globaltimer_hi", "%total_smem_size",
    "%dynamic_smem_size", "%cluster_ctaid.x", "%cluster_nctaid.x", "%cluster_ctarank",
})  # fmt: skip


class Emitter:
    """Writes block `here` of the function whose blocks are `flow`.

    full: whether all threads of the cohort are known to be here, so that nothing must be masked.
    mask: the name of the mask of the threads that execute the instruction at hand; `at`: its
    number in the kernel; `here`, `following`: the numbers of this block and the one behind it.
    """

    def __init__(self, layout: Layout, flow: Flow, full: bool, here: int) -> None:
        self.layout, self.flow = layout, flow
        self.base = layout.base[flow.function.name]
        self.whole, self.here, self.following = full, here, here + 1
        self.full, self.mask, self.at = full, "M", 0
        self.lines: list[str] = []
        self.pool: dict[str, Any] = {}
        self.instruction: Instruction | None = None

    def refuse(self, reason: str) -> UnsupportedPtx:
        assert self.instruction is not None
        return self.instruction.refuse(reason)

    # -- writing

    def line(self, text: str) -> None:
        self.lines.append(text)

    def constant(self, value: object) -> str:
        """The name of a constant."""
        name = f"k{len(self.pool)}"
        self.pool[name] = value
        return name

    def masked(self) -> str:
        """The mask as an argument: None where all threads execute."""
        return "None" if self.full else self.mask

    def guard(self, instruction: Instruction) -> None:
        """Set up the mask of an instruction."""
        self.instruction, self.full, self.mask = instruction, self.whole, "M"
        if instruction.guard is not None:
            negated, predicate = instruction.guard
            self.line(f"G = M & {'~' if negated else ''}{self.register(predicate)}")
            self.full, self.mask = False, "G"

    # -- operands

    def register(self, operand: Register) -> str:
        return f"R[{self.base + operand.index}]"

    def value(self, operand: Operand, type_: str) -> str:
        """The operand read as a type: an array of a value per thread, or one value for all."""
        match operand:
            case Register():
                return self._register_value(operand, type_)
            case Not(register):
                return f"~{self.register(register)}"
            case Immediate(value):
                return self._integer(value, type_)
            case FloatImmediate(bits, width):
                return self._float(bits, width, type_)
            case Special(name):
                if name not in SPECIALS:
                    raise self.refuse(f"unknown special register '{name}'")
                kept = self.constant(name)
                return f"S.special({kept}).astype('{DTYPES[type_]}')"
            case Symbol(variable, offset):
                if variable not in self.layout.arguments and variable.space == "param":
                    raise self.refuse("the address of a parameter of a call")
                return self._integer(self.layout.address(variable) + offset, type_)
        raise self.refuse("an operand that has no value")

    def _register_value(self, operand: Register, type_: str) -> str:
        name = self.register(operand)
        if operand.type == "pred" or type_ == "pred":
            if operand.type != type_:
                raise self.refuse("a predicate where a number is needed, or the other way round")
            return name
        have, want = bits_of(operand.type), DTYPES[type_]
        if have == want:
            return name
        if have[1:] == want[1:]:
            return f"{name}.view('{want}')"
        return f"{name}.astype('u{want[1:]}').view('{want}')"

    def _integer(self, value: int, type_: str) -> str:
        if type_ == "pred":
            return "np.True_" if value else "np.False_"
        if DTYPES[type_][0] == "f":
            raise self.refuse("an integer where a floating-point number is needed")
        bits = np.array(value & ((1 << 8 * size_of(type_)) - 1), f"u{size_of(type_)}")
        return self.constant(bits.view(DTYPES[type_])[()])

    def _float(self, bits: int, width: int, type_: str) -> str:
        size = size_of(type_)
        if DTYPES[type_][0] != "f" and size == width:
            return self._integer(bits, type_)
        value = np.array(bits, f"u{width}").view(f"f{width}")
        if DTYPES[type_][0] != "f" or (size > width):
            raise self.refuse("a floating-point number of another type")
        return self.constant(value.astype(DTYPES[type_])[()])

    def wide(self, operand: Operand, type_: str) -> str:
        """The operand as an array of a value per thread."""
        return f"S.wide({self.value(operand, type_)})"

    def number_value(self, operand: Operand, type_: str, flush: bool) -> str:
        """The operand as numbers to compute with; of pairs twice as many. flush: subnormal f32 as
        zeros.
        """
        match type_:
            case "f16x2":
                return f"F.halves({self.wide(operand, 'b32')}, 'f2')"
            case "bf16x2":
                return f"F.widen(F.halves({self.wide(operand, 'b32')}, 'u2'))"
            case "bf16":
                return f"F.widen({self.wide(operand, 'b16')})"
        value = self.value(operand, type_)
        return f"F.flush({value})" if flush and type_ == "f32" else value

    def number(self, operand: Operand) -> int:
        """The value of an operand that must be a literal."""
        if not isinstance(operand, Immediate):
            raise self.refuse("an operand that must be a literal is none")
        return operand.value

    def address(self, operand: Operand) -> str:
        """The addresses that `[base+offset]` means, 64-bit."""
        if not isinstance(operand, Address):
            raise self.refuse("an operand that must be an address is none")
        base = operand.base
        if isinstance(base, Symbol):
            base = Symbol(base.variable, base.offset + operand.offset)
            return self.wide(base, "u64")
        if operand.offset == 0:
            return self.wide(base, "u64")
        offset = self.constant(np.uint64(operand.offset & (2**64 - 1)))
        return f"{self.wide(base, 'u64')} + {offset}"

    def items(self, operand: Operand) -> tuple[Operand, ...]:
        """The elements of a vector; of another operand itself."""
        return operand.items if isinstance(operand, Vector) else (operand,)

    def copy_frame(self, into: Variable, source: Variable) -> None:
        """Copy a parameter of a call."""
        places = self.layout.frame
        if into not in places or source not in places or into.size != source.size:
            raise self.refuse("a parameter of another kind or size than the function's")
        at, of, size = places[into], places[source], into.size
        self.line(f"S.copy_frame({at}, {of}, {size}, {self.masked()})")

    def target(self, operand: Operand) -> int:
        if not isinstance(operand, Label):
            raise self.refuse("an operand that must be a label is none")
        return operand.target

    # -- results

    def set(self, operand: Operand, value: str, type_: str = "") -> None:
        """Assign a value; type_: whose sign it has, if it may be narrower than the register."""
        if isinstance(operand, Sink):
            return
        if not isinstance(operand, Register):
            raise self.refuse("a result that is no register")
        name = self.register(operand)
        bits = bits_of(operand.type)
        if bits == "bool":
            new = f"S.wide({value})"
        else:
            if type_ and size_of(type_) < size_of(operand.type):
                value = f"S.wide({value}).astype('{'i' if is_signed(type_) else 'u'}{bits[1:]}')"
            new = f"S.raw({value}, '{bits}')"
        self.line(
            f"{name} = {new}" if self.full else f"{name} = np.where({self.mask}, {new}, {name})"
        )
