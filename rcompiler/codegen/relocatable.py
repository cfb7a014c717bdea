"""Read what the linker needs of a relocatable x86-64 ELF object: sections, symbols, relocations."""

from dataclasses import dataclass
from io import BytesIO

from elftools.common.exceptions import ELFError
from elftools.elf.elffile import ELFFile
from elftools.elf.relocation import RelocationSection
from elftools.elf.sections import SymbolTableSection

from rcompiler.errors import CompilerError

TEXT, RODATA, DATA, BSS = range(4)
_WRITE, _ALLOC, _EXECINSTR, _TLS = 0x1, 0x2, 0x4, 0x400


@dataclass(frozen=True)
class Relocation:
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


@dataclass(frozen=True)
class Symbol:
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
    try:
        elf = ELFFile(BytesIO(content))
        if (elf["e_type"], elf["e_machine"]) != ("ET_REL", "EM_X86_64"):
            raise fault(number, f"it is {elf['e_type']} for {elf['e_machine']}")
        symbols = _symbols(number, elf)
        relocations = {
            section["sh_info"]: tuple(
                Relocation(r["r_offset"], r["r_info_type"], r["r_info_sym"], r["r_addend"])
                for r in section.iter_relocations()
            )
            for section in elf.iter_sections()
            if isinstance(section, RelocationSection)
        }
        sections = {
            index: _section(number, section, relocations.get(index, ()))
            for index, section in enumerate(elf.iter_sections())
            if section["sh_flags"] & _ALLOC and section.name != ".eh_frame"  # nothing unwinds
        }
    except (ELFError, KeyError, ValueError, AttributeError) as error:
        raise fault(number, f"it does not parse as ELF ({error})") from None
    return Relocatable(number, sections, symbols)


def fault(number: int, what: str) -> CompilerError:
    """The error for a defect of object `number`."""
    return CompilerError(
        f"link: object {number} cannot be used: {what}; give x86-64 objects of compile_object()"
    )


def _section(number: int, section: object, relocations: tuple[Relocation, ...]) -> Section:
    header = section.header  # type: ignore[attr-defined]
    name, flags = section.name, header["sh_flags"]  # type: ignore[attr-defined]
    if flags & _TLS:
        raise fault(number, f"section {name} is thread-local")
    zeros = header["sh_type"] == "SHT_NOBITS"
    part = TEXT if flags & _EXECINSTR else RODATA if not flags & _WRITE else BSS if zeros else DATA
    return Section(
        name=name,
        part=part,
        align=max(1, header["sh_addralign"]),
        size=header["sh_size"],
        data=b"" if zeros else section.data(),  # type: ignore[attr-defined]
        relocations=relocations,
    )


def _symbols(number: int, elf: ELFFile) -> tuple[Symbol, ...]:
    table = next((s for s in elf.iter_sections() if isinstance(s, SymbolTableSection)), None)
    found = []
    for symbol in table.iter_symbols() if table else ():
        index, kind = symbol["st_shndx"], symbol["st_info"]["type"]
        if index == "SHN_COMMON" or kind in ("STT_TLS", "STT_GNU_IFUNC", "STT_LOOS"):
            raise fault(number, f"symbol '{symbol.name}' is of kind {kind} {index}")
        is_global = symbol["st_info"]["bind"] != "STB_LOCAL"
        section = index if isinstance(index, int) else None
        found.append(Symbol(symbol.name, section, symbol["st_value"], is_global))
    return tuple(found)
