"""A PTX module as data."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TypeAlias

from rcompiler.emulator.faults import UnsupportedPtx


@dataclass(eq=False)
class Variable:
    """Memory with a name: size and align in bytes; size 0 of an array that the launch sizes.

    space: "global", "const", "shared", "local" or "param". initial: the bytes it starts with, None
    for none; pointers: (offset, variable, addend) of addresses among them.
    """

    name: str
    space: str
    size: int
    align: int
    initial: bytes | None = None
    pointers: list[tuple[int, str, int]] = field(default_factory=list)


@dataclass(frozen=True)
class Register:
    """Number in its function and type ("pred", "b32", ...)."""

    index: int
    type: str


@dataclass(frozen=True)
class Immediate:
    value: int


@dataclass(frozen=True)
class FloatImmediate:
    """bits: of a number of `width` bytes."""

    bits: int
    width: int


@dataclass(frozen=True)
class Special:
    """A special register by name, "%tid.x"."""

    name: str


@dataclass(frozen=True)
class Symbol:
    """The address of a variable, plus bytes."""

    variable: Variable
    offset: int = 0


@dataclass(frozen=True)
class Label:
    """A name that is a label or a function; `target`: the instruction of a label."""

    name: str
    target: int = -1


@dataclass(frozen=True)
class Not:
    """The negation of a predicate."""

    register: Register


@dataclass(frozen=True)
class Sink:
    """`_`: a result that nobody wants."""


@dataclass(frozen=True)
class Vector:
    items: tuple[Operand, ...]


@dataclass(frozen=True)
class Pair:
    """`a|b`: two results."""

    first: Operand
    second: Operand


@dataclass(frozen=True)
class Address:
    """`[base+offset]`, and the coordinates of a tensor behind it, if any."""

    base: Operand
    offset: int = 0
    coordinates: tuple[Operand, ...] = ()


@dataclass(frozen=True)
class Arguments:
    """`(a, b)` of a call."""

    items: tuple[Operand, ...]


Operand: TypeAlias = (
    Register | Immediate | FloatImmediate | Special | Symbol | Label | Not | Sink | Vector | Pair
    | Address | Arguments
)  # fmt: skip


def parts(*operands: Operand, addresses: bool = True) -> Iterator[Operand]:
    """What operands consist of in the end: registers, symbols, numbers, names.

    addresses: also what addresses and negations are made of, which no instruction writes.
    """
    for operand in operands:
        match operand:
            case Vector(items) | Arguments(items):
                yield from parts(*items, addresses=addresses)
            case Pair(first, second):
                yield from parts(first, second, addresses=addresses)
            case Address(base, _, coordinates) if addresses:
                yield from parts(base, *coordinates)
            case Not(register) if addresses:
                yield register
            case _:
                yield operand


def registers(*operands: Operand, addresses: bool = True) -> Iterator[Register]:
    """The registers among the parts of operands, as often as they are named."""
    for part in parts(*operands, addresses=addresses):
        if isinstance(part, Register):
            yield part


@dataclass(frozen=True)
class Instruction:
    """name: up to the first dot; modifiers: what follows. guard: (negated, predicate). used: of a
    load, the bytes that count, as bits from the first byte on; None: all.
    """

    name: str
    modifiers: tuple[str, ...]
    operands: tuple[Operand, ...]
    guard: tuple[bool, Register] | None
    line: int
    text: str
    used: int | None = None

    def refuse(self, reason: str) -> UnsupportedPtx:
        """The error that says why this instruction cannot be run."""
        return UnsupportedPtx(reason, self.line, self.text)


@dataclass(eq=False)
class Function:
    """A kernel or a device function.

    registers: the types of its registers by number. labels: targets of `brx` by the list's name.
    threads: the most in a block, 0 if not said. defined: False of a mere declaration.
    """

    name: str
    entry: bool
    line: int
    params: list[Variable] = field(default_factory=list)
    results: list[Variable] = field(default_factory=list)
    registers: list[str] = field(default_factory=list)
    variables: list[Variable] = field(default_factory=list)
    instructions: list[Instruction] = field(default_factory=list)
    targets: dict[str, tuple[int, ...]] = field(default_factory=dict)
    starts: frozenset[int] = frozenset()
    threads: int = 0
    register_limit: int | None = None
    defined: bool = False


@dataclass(eq=False)
class Module:
    """target: compute capability that it was made for, (9, 0)."""

    target: tuple[int, int]
    variables: dict[str, Variable]
    functions: dict[str, Function]
