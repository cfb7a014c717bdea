"""The statements of one function."""

from __future__ import annotations

import re
from collections import ChainMap
from dataclasses import replace

from rcompiler.emulator.faults import UnsupportedPtx
from rcompiler.emulator.ptx.declarations import float_bits, variable
from rcompiler.emulator.ptx.lexer import Tokens
from rcompiler.emulator.ptx.registers import mark_unused
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
from rcompiler.emulator.ptx.types import REGISTERS

_MOST_REGISTERS = 1 << 18  # of one function; text from a stranger can ask for any number
_USED = re.compile(r'"used_bytes_mask (0x[0-9a-f]+)"')
_SPACES = (".local", ".shared", ".param", ".global", ".const")


def parse_body(tokens: Tokens, function: Function, module: Module, lines: list[str]) -> None:
    """Fill in the function from behind its `{` to its `}`."""
    _Body(tokens, function, module, lines).parse()


class _Scope:
    """Names between braces, and those around them."""

    def __init__(
        self, names: ChainMap[str, Register | Variable], labels: ChainMap[str, int]
    ) -> None:
        self.names, self.labels = names, labels

    def inner(self) -> _Scope:
        return _Scope(self.names.new_child(), self.labels.new_child())

    def outer(self) -> _Scope:
        return _Scope(self.names.parents, self.labels.parents)


class _Body:
    def __init__(
        self, tokens: Tokens, function: Function, module: Module, lines: list[str]
    ) -> None:
        self.tokens, self.function, self.module, self.lines = tokens, function, module, lines
        self.scope = _Scope(ChainMap(), ChainMap())
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
                self.scope = self.scope.inner()
            elif tokens.accept("}"):
                depth -= 1
                self.scope = self.scope.outer()
            elif tokens.next.kind == "directive":
                self._directive()
            elif tokens.next.kind == "word" and tokens.peek().text == ":":
                self._label(lists)
            else:
                self._instruction()
        self._resolve(lists)
        mark_unused(self.function)

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
        elif token.text in self.scope.labels.maps[0]:
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
        found = self.scope.names.get(name) or self.module.variables.get(name)
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
            found = [scope.labels.get(target) for target in targets]
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
            target = scope.labels.get(label.name) if isinstance(label, Label) else None
            if not isinstance(label, Label) or target is None:
                raise instruction.refuse("a branch to an unknown label")
            starts.add(target)
            function.instructions[at] = replace(instruction, operands=(Label(label.name, target),))
        function.starts = frozenset(starts)
