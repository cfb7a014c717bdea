"""Read what the linker needs of a relocatable x86-64 ELF object: sections, symbols, relocations.

Nothing of a file is believed: a table or a name that is not inside of it, an index of a section or
symbol that it does not have, and a relocation outside of its section are refused.

Source: System V ABI, chapters 4 (object files); AMD64 supplement, 4.4 (relocations).
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from rcompiler.errors import CompilerError

TEXT, RODATA, DATA, BSS = range(4)

# 64 bits, little-endian, version 1
_IDENTIFICATION = b"\x7fELF\x02\x01\x01"
_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_RELOCATION = struct.Struct("<QQq")
_RELOCATABLE, _X86_64 = 1, 62  # e_type, e_machine
_SYMBOLS, _STRINGS, _WITH_ADDENDS, _ZEROS, _WITHOUT_ADDENDS = 2, 3, 4, 8, 9  # sh_type
_WRITE, _ALLOC, _EXECINSTR, _TLS = 0x1, 0x2, 0x4, 0x400  # sh_flags
_RESERVED, _COMMON = 0xFF00, 0xFFF2  # numbers of sections that are none
# Types of symbols that the linker does not know, with the names of the ABI.
_REFUSED = {6: "STT_TLS", 10: "STT_GNU_IFUNC"}
_EIGHT_BYTES = (1, 24)  # relocation types R_X86_64_64 and _PC64; those of all others are four
_MOST = 1 << 31  # bytes of a section: an image is reached by offsets of 32 bits


class Relocation(NamedTuple):
    """Patch the section at `offset` with the address of symbol number `symbol` plus `addend`."""

    offset: int
    kind: int
    symbol: int
    addend: int


@dataclass(frozen=True)
class Section:
    """A section that is part of the image. `part` is one of TEXT, RODATA, DATA, BSS."""

    name: str
    part: int
    align: int
    size: int
    data: bytes
    relocations: tuple[Relocation, ...]


class Symbol(NamedTuple):
    """`section` is None for a symbol that this object does not define."""

    name: str
    section: int | None
    value: int
    is_global: bool


@dataclass(frozen=True)
class Relocatable:
    """One object: image sections by section index, and the symbol table."""

    number: int
    sections: dict[int, Section]
    symbols: tuple[Symbol, ...]


def parse(number: int, content: bytes) -> Relocatable:
    """Read object `number` of a link.

    Raises:
        CompilerError: it is no x86-64 relocatable object, or has thread-local or common data.
    """
    return _Object(number, content).read()


def fault(number: int, what: str) -> CompilerError:
    """The error for a defect of object `number`."""
    return CompilerError(
        f"link: object {number} cannot be used: {what}; give x86-64 objects of compile_object()"
    )


class _Header(NamedTuple):
    """Of a section, as the file has it."""

    name: int
    type: int
    flags: int
    address: int
    offset: int
    size: int
    link: int
    info: int
    align: int
    entry_size: int


class _Object:
    def __init__(self, number: int, content: bytes) -> None:
        self._number, self._content = number, content
        self._headers, names = self._section_headers()
        self._names = self._strings(names)

    def read(self) -> Relocatable:
        tables = [i for i, header in enumerate(self._headers) if header.type == _SYMBOLS]
        symbols = self._symbols(self._headers[tables[0]]) if tables else ()
        relocations = self._relocations(tables[:1], len(symbols))
        sections = {}
        for index, header in enumerate(self._headers):
            if header.flags & _ALLOC:
                name = self._text(self._names, header.name)
                if name != ".eh_frame":  # nothing unwinds
                    patches = relocations.get(index, [])
                    sections[index] = self._section(name, header, patches)
        return Relocatable(self._number, sections, symbols)

    def _section_headers(self) -> tuple[list[_Header], int]:
        """And the number of that with their names."""
        head = self._content[: _HEADER.size]
        if len(head) < _HEADER.size or not head.startswith(_IDENTIFICATION):
            raise self._no_elf("no header of a little-endian file of 64 bits")
        _, kind, machine, _, _, _, start, _, _, _, _, entry_size, count, names = _HEADER.unpack(
            head
        )
        if (kind, machine) != (_RELOCATABLE, _X86_64):
            raise fault(self._number, f"it is of type {kind} for machine {machine}")
        if not 0 < count < _RESERVED or names >= count or entry_size != _SECTION.size:
            raise self._no_elf(f"{count} section headers of {entry_size} bytes")
        table = self._part(start, count * _SECTION.size)
        return [_Header(*fields) for fields in _SECTION.iter_unpack(table)], names

    def _symbols(self, table: _Header) -> tuple[Symbol, ...]:
        names = self._strings(table.link)
        found = []
        for name_at, info, _, index, value, _ in self._entries(table, _SYMBOL):
            name = self._text(names, name_at)
            if index == _COMMON or info & 0xF in _REFUSED:
                kind = _REFUSED.get(info & 0xF, "SHN_COMMON")
                raise fault(self._number, f"symbol '{name}' is of kind {kind}")
            defined = 0 < index < _RESERVED
            if defined and index >= len(self._headers):
                raise self._no_elf(f"symbol '{name}' lies in section {index}, which is not there")
            if defined and value > self._headers[index].size:
                raise self._no_elf(f"symbol '{name}' lies behind the end of section {index}")
            found.append(Symbol(name, index if defined else None, value, info >> 4 != 0))
        return tuple(found)

    def _relocations(self, tables: list[int], symbols: int) -> dict[int, list[Relocation]]:
        """By the section that they patch. tables: the symbol table, if there is one."""
        found: dict[int, list[Relocation]] = {}
        for header in self._headers:
            if header.type == _WITHOUT_ADDENDS:
                raise self._no_elf("relocations without addends")
            if header.type != _WITH_ADDENDS:
                continue
            if [header.link] != tables or header.info >= len(self._headers):
                raise self._no_elf("relocations for a section or of symbols that are not there")
            patched = self._headers[header.info]
            room = 0 if patched.type == _ZEROS else patched.size
            for offset, info, addend in self._entries(header, _RELOCATION):
                each = Relocation(offset, info & 0xFFFFFFFF, info >> 32, addend)
                if offset + (8 if each.kind in _EIGHT_BYTES else 4) > room:
                    raise self._no_elf(f"a relocation at {offset} of a section of {room} bytes")
                if each.symbol >= symbols:
                    raise self._no_elf(f"a relocation by symbol {each.symbol} of {symbols}")
                found.setdefault(header.info, []).append(each)
        return found

    def _section(self, name: str, header: _Header, relocations: list[Relocation]) -> Section:
        flags, zeros = header.flags, header.type == _ZEROS
        if flags & _TLS:
            raise fault(self._number, f"section {name} is thread-local")
        if header.size > _MOST or header.align & (header.align - 1):
            raise self._no_elf(f"section {name} of {header.size} bytes, aligned to {header.align}")
        code, data = flags & _EXECINSTR, flags & _WRITE
        if zeros and (code or not data):
            raise self._no_elf(f"section {name} of zeros is no data")
        part = TEXT if code else RODATA if not data else BSS if zeros else DATA
        return Section(
            name=name,
            part=part,
            align=max(1, header.align),
            size=header.size,
            data=b"" if zeros else self._part(header.offset, header.size),
            relocations=tuple(relocations),
        )

    def _entries(self, table: _Header, layout: struct.Struct) -> Iterator[tuple[Any, ...]]:
        if table.entry_size != layout.size or table.size % layout.size:
            raise self._no_elf(f"a table of {table.size} bytes, {table.entry_size} for an entry")
        return layout.iter_unpack(self._part(table.offset, table.size))

    def _strings(self, index: int) -> bytes:
        """The content of a string table."""
        if index >= len(self._headers) or self._headers[index].type != _STRINGS:
            raise self._no_elf(f"section {index} is no string table")
        header = self._headers[index]
        return self._part(header.offset, header.size)

    def _text(self, strings: bytes, at: int) -> str:
        end = strings.find(b"\0", at)
        if end < 0:
            raise self._no_elf(f"a name at {at} of {len(strings)} bytes of names")
        try:
            return strings[at:end].decode()
        except UnicodeDecodeError:
            raise self._no_elf(f"a name at {at} is no UTF-8") from None

    def _part(self, start: int, size: int) -> bytes:
        if start + size > len(self._content):
            raise self._no_elf(f"bytes {start} to {start + size} of {len(self._content)}")
        return self._content[start : start + size]

    def _no_elf(self, what: str) -> CompilerError:
        return fault(self._number, f"it does not parse as ELF ({what})")
