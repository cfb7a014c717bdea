"""Declarations: variables with their initial values, parameters."""

from __future__ import annotations

import struct

from rcompiler.emulator.faults import UnsupportedPtx
from rcompiler.emulator.ptx.lexer import Tokens
from rcompiler.emulator.ptx.syntax import Variable
from rcompiler.emulator.ptx.types import DTYPES, size_of

_LARGEST = 1 << 32  # bytes of one variable
_LINKAGE = (".extern", ".visible", ".weak", ".common")


def variable(tokens: Tokens, space: str) -> Variable:
    """`.align 16 .b8 name[N] = {...}` behind the space; stops before `;`, `,` or `)`."""
    align, type_ = 0, ""
    while tokens.next.kind == "directive":
        word = tokens.take().text[1:]
        if word == "align":
            align = tokens.integer()
        elif word in DTYPES:
            type_ = word
        elif word == "ptr":
            _pointer_attributes(tokens)
        else:
            raise UnsupportedPtx(f"unknown '.{word}' in a declaration", tokens.next.line)
    name = tokens.take("word")
    if not type_:
        raise UnsupportedPtx(f"'{name.text}' has no type", name.line)
    count = _extent(tokens)
    size = size_of(type_) * count
    if not 0 <= size <= _LARGEST or (align & (align - 1)) or not 0 <= align <= 1 << 16:
        raise UnsupportedPtx(f"'{name.text}' has no sound size or alignment", name.line)
    result = Variable(name.text, space, size, align or size_of(type_))
    if tokens.accept("="):
        _initialise(tokens, result, type_)
    return result


def _pointer_attributes(tokens: Tokens) -> None:
    """`.ptr .global .align 16`: what a parameter points to; the emulator checks for itself."""
    while tokens.next.text in (".global", ".shared", ".const", ".local", ".param", ".generic"):
        tokens.take()
    if tokens.accept(".align"):
        tokens.integer()


def _extent(tokens: Tokens) -> int:
    """The product of `[N][M]`: 1 without, 0 for `[]`."""
    count = 1
    while tokens.accept("["):
        count *= 0 if tokens.at("]") else tokens.integer()
        tokens.expect("]")
    return count


def _initialise(tokens: Tokens, target: Variable, type_: str) -> None:
    data, width = bytearray(), size_of(type_)
    depth = 0
    while True:
        if tokens.accept("{"):
            depth += 1
        elif tokens.accept("}"):
            depth -= 1
        elif not tokens.accept(","):
            data += _value(tokens, target, type_, len(data))
        if depth == 0:
            break
    if len(data) > max(target.size, width):
        raise UnsupportedPtx(f"'{target.name}' has too many initial values", tokens.next.line)
    target.initial = bytes(data).ljust(target.size, b"\0")


def _value(tokens: Tokens, target: Variable, type_: str, offset: int) -> bytes:
    width = size_of(type_)
    if tokens.next.kind == "word":
        name = tokens.take().text
        if name == "generic":
            tokens.expect("(")
            name = tokens.take("word").text
            tokens.expect(")")
        target.pointers.append((offset, name, tokens.integer() if tokens.accept("+") else 0))
        return bytes(width)
    negative = tokens.accept("-")
    if tokens.next.kind == "float":
        bits, size = float_bits(tokens.take().text)
        value = _as_float(bits, size) * (-1 if negative else 1)
        return struct.pack({2: "<e", 4: "<f", 8: "<d"}[width], value)
    value = tokens.integer() * (-1 if negative else 1)
    return (value & ((1 << 8 * width) - 1)).to_bytes(width, "little")


def float_bits(text: str) -> tuple[int, int]:
    """The bits of a literal and their bytes: 0fXXXXXXXX has 4, 0dX and decimals have 8."""
    if text[:2] in ("0f", "0F"):
        return int(text[2:], 16), 4
    if text[:2] in ("0d", "0D"):
        return int(text[2:], 16), 8
    return struct.unpack("<Q", struct.pack("<d", float(text)))[0], 8


def _as_float(bits: int, size: int) -> float:
    layout = "<f" if size == 4 else "<d"
    return float(struct.unpack(layout, bits.to_bytes(size, "little"))[0])


def skip_linkage(tokens: Tokens) -> None:
    while tokens.next.text in _LINKAGE:
        tokens.take()
