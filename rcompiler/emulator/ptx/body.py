"""The statements of one function."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

from rcompiler.emulator.faults import UnsupportedPtx
from rcompiler.emulator.ptx.declarations import float_bits, variable
from rcompiler.emulator.ptx.lexer import Tokens
from rcompiler.emulator.ptx.syntax import (
    Address,
    Arguments,
    FloatImmediate,
    Function,
    Immediate,
    Instruction,
    Label,
    Module,
    Not,
    Operand,
    Pair,
    Register,
    Sink,
    Special,
    Symbol,
    Variable,
    Vector,
)
from rcompiler.emulator.ptx.types import DTYPES, REGISTERS, size_of

_MOST_REGISTERS = 1 << 18  # of one function; text from a stranger can ask for any number
_USED = re.compile(r'"used_bytes_mask (0x[0-9a-f]+)"')
_SPACES = (".local", ".shared", ".param", ".global", ".const")


def parse_body(tokens: Tokens, function: Function, module: Module, lines: list[str]) -> None:
    """Fill in the function from behind its `{` to its `}`."""
    _Body(tokens, function, module, lines).parse()


class _Scope:
    """Names between braces."""

    def __init__(self, outer: _Scope | None) -> None:
        self.outer = outer
        self.names: dict[str, Register | Variable] = {}
        self.labels: dict[str, int] = {}

    def find(self, name: str) -> Register | Variable | None:
        scope: _Scope | None = self
        while scope is not None:
            if name in scope.names:
                return scope.names[name]
            scope = scope.outer
        return None

    def label(self, name: str) -> int | None:
        scope: _Scope | None = self
        while scope is not None:
            if name in scope.labels:
                return scope.labels[name]
            scope = scope.outer
        return None


class _Body:
    def __init__(
        self, tokens: Tokens, function: Function, module: Module, lines: list[str]
    ) -> None:
        self.tokens, self.function, self.module, self.lines = tokens, function, module, lines
        self.scope = _Scope(None)
        self.scopes: list[_Scope] = []  # of the instructions, in their order
        self.used: int | None = None  # bytes of the next load that count
        for param in (*function.params, *function.results):
            self.scope.names[param.name] = param

    def parse(self) -> None:
        depth, tokens = 1, self.tokens
        lists: list[tuple[_Scope, str, list[str], int]] = []
        while depth:
            if tokens.accept("{"):
                depth += 1
                self.scope = _Scope(self.scope)
            elif tokens.accept("}"):
                depth -= 1
                self.scope = self.scope.outer or self.scope
            elif tokens.next.kind == "directive":
                self._directive()
            elif tokens.next.kind == "word" and tokens.peek().text == ":":
                self._label(lists)
            else:
                self._instruction()
        self._resolve(lists)
        _mark_unused(self.function)

    def _directive(self) -> None:
        token = self.tokens.take()
        if token.text == ".reg":
            self._registers()
        elif token.text in _SPACES:
            while True:
                made = variable(self.tokens, token.text[1:])
                self.scope.names[made.name] = made
                self.function.variables.append(made)
                if not self.tokens.accept(","):
                    break
            self.tokens.expect(";")
        elif token.text == ".pragma":
            self._pragma()
        else:
            raise UnsupportedPtx(f"unknown '{token.text}' in a function", token.line)

    def _pragma(self) -> None:
        """A hint; but one says which bytes of the next load count."""
        while not self.tokens.accept(";"):
            if match := _USED.fullmatch(self.tokens.take().text):
                self.used = int(match[1], 16)

    def _registers(self) -> None:
        type_ = self.tokens.take("directive")
        if type_.text[1:] not in REGISTERS:
            raise UnsupportedPtx(f"registers of type '{type_.text}'", type_.line)
        while True:
            name, count = self.tokens.take("word").text, None
            if self.tokens.accept("<"):
                count = self.tokens.integer()
                self.tokens.expect(">")
            if not 0 <= len(self.function.registers) + (count or 1) <= _MOST_REGISTERS:
                raise UnsupportedPtx("too many registers", type_.line)
            for full in [name] if count is None else [f"{name}{i}" for i in range(count)]:
                self.scope.names[full] = Register(len(self.function.registers), type_.text[1:])
                self.function.registers.append(type_.text[1:])
            if not self.tokens.accept(","):
                break
        self.tokens.expect(";")

    def _label(self, lists: list[tuple[_Scope, str, list[str], int]]) -> None:
        token = self.tokens.take("word")
        self.tokens.expect(":")
        if self.tokens.next.text in (".branchtargets", ".calltargets"):
            self.tokens.take()
            names = [self.tokens.take("word").text]
            while self.tokens.accept(","):
                names.append(self.tokens.take("word").text)
            self.tokens.expect(";")
            lists.append((self.scope, token.text, names, token.line))
        elif self.tokens.next.text == ".callprototype":
            raise UnsupportedPtx("indirect calls", token.line)
        elif token.text in self.scope.labels:
            raise UnsupportedPtx(f"label '{token.text}' is there twice", token.line)
        else:
            self.scope.labels[token.text] = len(self.scopes)

    def _instruction(self) -> None:
        tokens, guard = self.tokens, None
        start = tokens.next.line
        if tokens.accept("@"):
            negated = tokens.accept("!")
            predicate = self._name(tokens.take("word").text, start)
            if not isinstance(predicate, Register) or predicate.type != "pred":
                raise UnsupportedPtx("a guard must be a predicate", start)
            guard = (negated, predicate)
        opcode = tokens.take("word")
        operands: list[Operand] = []
        while not tokens.at(";"):
            operands.append(self._operand())
            if not tokens.accept(","):
                break
        tokens.expect(";")
        name, *modifiers = opcode.text.split(".")
        text = " ".join(self.lines[opcode.line - 1].split())
        self.scopes.append(self.scope)
        self.function.instructions.append(
            Instruction(
                name, tuple(modifiers), tuple(operands), guard, opcode.line, text, self.used
            )
        )
        self.used = None

    def _operand(self) -> Operand:
        first = self._simple()
        return Pair(first, self._simple()) if self.tokens.accept("|") else first

    def _simple(self) -> Operand:
        tokens = self.tokens
        token = tokens.next
        if tokens.accept("{"):
            return Vector(self._items("}"))
        if tokens.accept("("):
            return Arguments(self._items(")"))
        if tokens.accept("["):
            return self._address()
        if tokens.accept("!"):
            register = self._name(tokens.take("word").text, token.line)
            if not isinstance(register, Register):
                raise UnsupportedPtx("only predicates can be negated", token.line)
            return Not(register)
        if token.kind == "float":
            return FloatImmediate(*float_bits(tokens.take().text))
        if token.kind == "integer" or token.text == "-":
            return Immediate(tokens.integer())
        found = self._name(tokens.take("word").text, token.line)
        if isinstance(found, Symbol) and tokens.accept("+"):
            return replace(found, offset=tokens.integer())
        return found

    def _items(self, end: str) -> tuple[Operand, ...]:
        items: list[Operand] = []
        while not self.tokens.accept(end):
            items.append(self._simple())
            self.tokens.accept(",")
        return tuple(items)

    def _address(self) -> Address:
        base, offset = self._simple(), 0
        coordinates: tuple[Operand, ...] = ()
        if isinstance(base, Symbol):
            base, offset = replace(base, offset=0), base.offset
        if self.tokens.next.text in ("+", "-"):
            self.tokens.accept("+")
            offset += self.tokens.integer()
        if self.tokens.accept(","):
            self.tokens.expect("{")
            coordinates = self._items("}")
        self.tokens.expect("]")
        return Address(base, offset, coordinates)

    def _name(self, name: str, line: int) -> Operand:
        if name == "_":
            return Sink()
        found = self.scope.find(name) or self.module.variables.get(name)
        if isinstance(found, Register):
            return found
        if isinstance(found, Variable):
            return Symbol(found)
        if name.startswith("%"):
            return Special(name)
        if "." in name:
            raise UnsupportedPtx(f"unknown operand '{name}'", line)
        return Label(name)

    def _resolve(self, lists: list[tuple[_Scope, str, list[str], int]]) -> None:
        """Give labels their instructions, now that all are known."""
        function = self.function
        for scope, name, targets, line in lists:
            found = [scope.label(target) for target in targets]
            if None in found:
                raise UnsupportedPtx(f"'{name}' lists an unknown label", line)
            function.targets[name] = tuple(t for t in found if t is not None)
        starts = {t for targets in function.targets.values() for t in targets}
        for at, (scope, instruction) in enumerate(
            zip(self.scopes, function.instructions, strict=True)
        ):
            if instruction.name != "bra":
                continue
            label = instruction.operands[0] if instruction.operands else None
            target = scope.label(label.name) if isinstance(label, Label) else None
            if not isinstance(label, Label) or target is None:
                raise instruction.refuse("a branch to an unknown label")
            starts.add(target)
            function.instructions[at] = replace(instruction, operands=(Label(label.name, target),))
        function.starts = frozenset(starts)


def _mark_unused(function: Function) -> None:
    """Say of loads of vectors which bytes count: LLVM loads four words where it needs three, and
    only from PTX 8.3 on it says so. A word that nobody reads is in a register that is named once.
    """
    named = Counter(r for op in function.instructions for r in _registers(op))
    for at, op in enumerate(function.instructions):
        into = op.operands[0] if op.name == "ld" and op.used is None and op.operands else None
        if not isinstance(into, Vector) or op.modifiers[-1] not in DTYPES:
            continue
        size = size_of(op.modifiers[-1])
        counts = [item not in named or named[item] > 1 for item in into.items]
        if any(counts) and not all(counts):
            whole = (1 << size) - 1
            used = sum(whole << k * size for k, needed in enumerate(counts) if needed)
            function.instructions[at] = replace(op, used=used)


def _registers(op: Instruction) -> Iterator[Operand]:
    """Every register that an instruction names, as often as it does."""
    pending: list[Operand] = [*op.operands, *(op.guard[1:] if op.guard else ())]
    while pending:
        match pending.pop():
            case Register() as register:
                yield register
            case Not(register):
                yield register
            case Vector(items) | Arguments(items):
                pending += items
            case Pair(first, second):
                pending += [first, second]
            case Address(base, _, coordinates):
                pending += [base, *coordinates]
