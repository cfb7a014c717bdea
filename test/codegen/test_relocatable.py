"""codegen/relocatable.py: what is read of objects, and which are refused.

pyelftools reads the objects of LLVM, too. Files that no assembler would write are made by hand.
"""

import io
import struct
from dataclasses import dataclass, field

import pytest
from elftools.elf.elffile import ELFFile
from elftools.elf.relocation import RelocationSection
from elftools.elf.sections import SymbolTableSection
from hypothesis import given
from hypothesis import strategies as st

from rcompiler.codegen import veu
from rcompiler.codegen.cpu import Target, compile_object
from rcompiler.codegen.relocatable import BSS, DATA, RODATA, TEXT, parse
from rcompiler.errors import CompilerError

_DATA = """module {
  llvm.func @expf(f32) -> f32
  llvm.mlir.global constant @table(dense<[1.5, 2.5, 3.5]> : tensor<3xf32>) : !llvm.array<3 x f32>
  llvm.mlir.global @counter(7 : i64) : i64
  llvm.mlir.global @zeros(dense<0.0> : tensor<64xf32>) : !llvm.array<64 x f32>
  llvm.func @f(%o: !llvm.ptr) -> f32 {
    %t = llvm.mlir.addressof @table : !llvm.ptr
    %z = llvm.mlir.addressof @zeros : !llvm.ptr
    %c = llvm.mlir.addressof @counter : !llvm.ptr
    %a = llvm.load %t : !llvm.ptr -> f32
    %b = llvm.load %z : !llvm.ptr -> f32
    %v = llvm.load %c : !llvm.ptr -> i64
    llvm.store %v, %o : i64, !llvm.ptr
    %e = llvm.call @expf(%a) : (f32) -> f32
    %r = llvm.fadd %b, %e : f32
    llvm.return %r : f32 } }"""
_SHF_WRITE, _SHF_ALLOC, _SHF_EXECINSTR, _SHF_TLS = 1, 2, 4, 0x400


@pytest.mark.parametrize("text", [_DATA, veu.module_text()], ids=["data", "interpreter"])
@pytest.mark.parametrize("level", ["x86-64", "x86-64-v4"])
def test_what_pyelftools_reads_is_read(text: str, level: str):
    content = compile_object(text, Target.named(level))
    elf, found = ELFFile(io.BytesIO(content)), parse(3, content)
    assert found.number == 3
    sections = list(elf.iter_sections())
    loaded = [i for i, s in enumerate(sections) if s["sh_flags"] & _SHF_ALLOC]
    assert list(found.sections) == [i for i in loaded if sections[i].name != ".eh_frame"]
    for index, section in found.sections.items():
        theirs = sections[index]
        assert (section.name, section.size) == (theirs.name, theirs["sh_size"])
        assert section.align == max(1, theirs["sh_addralign"])
        empty = theirs["sh_type"] == "SHT_NOBITS"
        assert section.data == (b"" if empty else theirs.data())
        assert list(section.relocations) == [
            (r["r_offset"], r["r_info_type"], r["r_info_sym"], r["r_addend"])
            for relocations in sections
            if isinstance(relocations, RelocationSection) and relocations["sh_info"] == index
            for r in relocations.iter_relocations()
        ]
    (table,) = (s for s in sections if isinstance(s, SymbolTableSection))
    assert list(found.symbols) == [
        (
            symbol.name,
            symbol["st_shndx"] if isinstance(symbol["st_shndx"], int) else None,
            symbol["st_value"],
            symbol["st_info"]["bind"] != "STB_LOCAL",
        )
        for symbol in table.iter_symbols()
    ]


def test_the_parts_of_an_image_are_told_apart():
    found = parse(0, compile_object(_DATA, Target.named("x86-64")))
    parts = {section.part for section in found.sections.values() if section.size}
    assert parts == {TEXT, RODATA, DATA, BSS}
    assert any(section.relocations for section in found.sections.values())


@dataclass
class _Made:
    """A file of one text section with a symbol and a relocation; what a test sets is otherwise."""

    head: dict[str, int] = field(default_factory=dict)
    section: dict[str, int] = field(default_factory=dict)
    names: dict[str, int] = field(default_factory=dict)
    table: dict[str, int] = field(default_factory=dict)
    patches: dict[str, int] = field(default_factory=dict)
    symbol: dict[str, int] = field(default_factory=dict)
    relocation: dict[str, int] = field(default_factory=dict)
    strings: bytes = b"\0.text\0f\0"

    def content(self) -> bytes:
        symbol = {"name": 7, "info": 0x12, "other": 0, "shndx": 1, "value": 0, "size": 0}
        relocation = {"offset": 4, "symbol": 1, "kind": 2, "addend": -4} | self.relocation
        where = relocation["offset"], relocation["symbol"] << 32 | relocation["kind"]
        parts = [
            b"\x90" * 16,
            self.strings,
            bytes(24) + struct.pack("<IBBHQQ", *(symbol | self.symbol).values()),
            struct.pack("<QQq", *where, relocation["addend"]),
        ]
        fields = "name type flags addr offset size link info align entsize".split()
        headers = [dict.fromkeys(fields, 0)]
        for part, changes in zip(
            parts,
            [
                {"name": 1, "type": 1, "flags": 6, "align": 16} | self.section,
                {"type": 3} | self.names,
                {"type": 2, "link": 2, "entsize": 24} | self.table,
                {"type": 4, "link": 3, "info": 1, "entsize": 24} | self.patches,
            ],
            strict=True,
        ):
            at = 64 + sum(len(before) for before in parts[: parts.index(part)])
            known = {"offset": at, "size": len(part)}
            headers.append(dict.fromkeys(fields, 0) | known | changes)
        head = {"type": 1, "machine": 62, "version": 1, "entry": 0, "phoff": 0}
        head |= {"shoff": 64 + sum(map(len, parts)), "flags": 0, "ehsize": 64, "phentsize": 0}
        head |= {"phnum": 0, "shentsize": 64, "shnum": 5, "shstrndx": 2} | self.head
        return b"".join(
            [
                b"\x7fELF\x02\x01\x01".ljust(16, b"\0"),
                struct.pack("<HHIQQQIHHHHHH", *head.values()),
                *parts,
                *(struct.pack("<IIQQQQIIQQ", *header.values()) for header in headers),
            ]
        )


def test_a_file_by_hand_is_read():
    found = parse(0, _Made().content())
    (section,) = found.sections.values()
    assert (section.name, section.part, section.align, section.size) == (".text", TEXT, 16, 16)
    assert section.relocations == ((4, 2, 1, -4),)
    assert found.symbols == (("", None, 0, False), ("f", 1, 0, True))


_FAR = (1 << 64) - 1
_REFUSED = {
    "for another machine": (_Made(head={"machine": 3}), "of type 1 for machine 3"),
    "a program": (_Made(head={"type": 2}), "of type 2 for machine 62"),
    "no sections": (_Made(head={"shnum": 0}), "0 section headers"),
    "more sections than the file has": (_Made(head={"shnum": 900}), "bytes 1.* to .* of"),
    "more sections than there are numbers": (_Made(head={"shnum": 0xFF00}), "65280 section"),
    "sections behind the end": (_Made(head={"shoff": _FAR}), "bytes .* to .* of"),
    "sections of another size": (_Made(head={"shentsize": 40}), "headers of 40 bytes"),
    "names in no section": (_Made(head={"shstrndx": 5}), "section headers"),
    "names in a section of code": (_Made(head={"shstrndx": 1}), "section 1 is no string table"),
    "names behind the end": (_Made(names={"offset": _FAR}), "bytes .* to .* of"),
    "a section's name behind the names": (_Made(section={"name": 99}), "a name at 99 of 9"),
    "a name without an end": (_Made(strings=b"\0.text\0ff"), "a name at 7 of 9"),
    "a name that is no text": (_Made(strings=b"\0.text\0\xff\0"), "a name at 7 is no UTF-8"),
    "code behind the end": (_Made(section={"size": 1 << 20}), "bytes 64 to .* of"),
    "a section of many bytes": (_Made(section={"size": _FAR}), f"section .text of {_FAR} bytes"),
    "an alignment of three": (_Made(section={"align": 3}), "aligned to 3"),
    "code of zeros": (_Made(section={"type": 8}, relocation={"offset": 0}), "of 0 bytes"),
    "a thread's own": (_Made(section={"flags": 0x403}), "section .text is thread-local"),
    "symbols of another size": (_Made(table={"entsize": 16}), "48 bytes, 16 for an entry"),
    "half a symbol": (_Made(table={"size": 36}), "36 bytes, 24 for an entry"),
    "symbols behind the end": (_Made(table={"offset": 1 << 40}), "bytes .* to .* of"),
    "symbols without names": (_Made(table={"link": 9}), "section 9 is no string table"),
    "a symbol in no section": (_Made(symbol={"shndx": 7}), "'f' lies in section 7"),
    "a symbol behind its section": (_Made(symbol={"value": 17}), "'f' lies behind the end"),
    "a common symbol": (_Made(symbol={"shndx": 0xFFF2}), "'f' is of kind SHN_COMMON"),
    "a symbol of a thread": (_Made(symbol={"info": 0x16}), "'f' is of kind STT_TLS"),
    "a symbol that is chosen": (_Made(symbol={"info": 0x1A}), "'f' is of kind STT_GNU_IFUNC"),
    "relocations of another size": (_Made(patches={"entsize": 16}), "24 bytes, 16 for an entry"),
    "relocations without addends": (_Made(patches={"type": 9}), "relocations without addends"),
    "relocations of no section": (_Made(patches={"info": 5}), "that are not there"),
    "relocations by no symbols": (_Made(patches={"link": 1}), "that are not there"),
    "a relocation by no symbol": (_Made(relocation={"symbol": 2}), "by symbol 2 of 2"),
    "a relocation behind the end": (_Made(relocation={"offset": 13}), "at 13 of a section of 16"),
    "eight bytes behind the end": (
        _Made(relocation={"offset": 12, "kind": 1}),
        "at 12 of a section of 16",
    ),
    "a relocation far behind": (_Made(relocation={"offset": _FAR}), "of a section of 16"),
}


@pytest.mark.parametrize("name", _REFUSED)
def test_a_file_that_is_wrong_is_refused(name: str):
    made, words = _REFUSED[name]
    with pytest.raises(CompilerError, match=f"object 4 cannot be used: .*{words}"):
        parse(4, made.content())


def test_zeros_that_are_no_data_take_no_memory():
    made = _Made(section={"type": 8, "flags": 2, "size": 1 << 30}, patches={"type": 1})
    with pytest.raises(CompilerError, match="section .text of zeros is no data"):
        parse(0, made.content())
    made.section["flags"] = 3
    (section,) = parse(0, made.content()).sections.values()
    assert (section.part, section.size, section.data) == (BSS, 1 << 30, b"")


@given(st.data())
def test_other_bytes_are_read_or_refused(data):
    content = bytearray(_Made().content())
    for _ in range(data.draw(st.integers(1, 4))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    end = data.draw(st.sampled_from([len(content), len(content) // 2, 100]))
    try:
        parse(0, bytes(content[:end]))
    except CompilerError as error:
        assert "object 0 cannot be used" in str(error)
