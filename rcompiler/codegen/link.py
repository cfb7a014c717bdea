"""Relocatable ELF objects -> one flat, position-independent image (see runtime/image.py).

A static linker for exactly what code generation emits: x86-64 objects with PC-relative code. All
references between the objects are resolved here, once; only the addresses of C functions are left
to the loader, in one table. Calls of those go through stubs `jmp *slot(%rip)`. The same objects
in the same order give the same bytes.
"""

import struct
from collections.abc import Sequence

from rcompiler.codegen.relocatable import (
    BSS,
    DATA,
    RODATA,
    TEXT,
    Relocatable,
    Relocation,
    fault,
    parse,
)
from rcompiler.errors import CompilerError
from rcompiler.runtime.image import EXTERNALS, PAGE, Image

# The relocation types of the x86-64 psABI that position-independent code may have.
_R_64, _R_PC32, _R_PLT32, _R_PC64 = 1, 2, 4, 24
_R_GOT = (9, 41, 42)  # GOTPCREL, GOTPCRELX, REX_GOTPCRELX
_R_ABSOLUTE32 = (10, 11)  # 32, 32S
_STUB = 8

_Definition = tuple[int, int]  # object number, symbol index


def link(objects: Sequence[bytes]) -> Image:
    """Link objects, placed in the given order.

    Raises:
        CompilerError: an object is no x86-64 relocatable ELF file; a symbol is defined twice, or
            nowhere and is no function that compiled code may call; a relocation has no meaning in
            position-independent code.
    """
    return _Link([parse(number, content) for number, content in enumerate(objects)]).image()


class _Link:
    def __init__(self, objects: list[Relocatable]) -> None:
        self.objects = objects
        self.globals = self._definitions()
        self.stubs, self.externals, self.addresses = self._references()
        self.section_at: dict[tuple[int, int], int] = {}
        self.relatives: list[tuple[int, int]] = []
        self._place()

    def image(self) -> Image:
        content = bytearray(self.data_end)
        content[: self.text] = b"\xcc" * self.text  # int3: a stray jump stops at once
        for obj in self.objects:
            for index, section in obj.sections.items():
                at = self.section_at[obj.number, index]
                content[at : at + len(section.data)] = section.data
                for relocation in section.relocations:
                    self._apply(content, obj, at, relocation)
        for position, name in enumerate(self.stubs):
            at = self.stubs_at + _STUB * position
            struct.pack_into("<HiH", content, at, 0x25FF, self._slot(name) - at - 6, 0xCCCC)
        for definition in self.addresses:
            self.relatives.append((self._slot(definition), self._address(definition)))
        return Image(
            content=bytes(content),
            text=self.text,
            rodata=self.rodata,
            memory=self.memory,
            symbols={name: self._address(self.globals[name]) for name in sorted(self.globals)},
            slots=self.slots,
            externals=tuple(self.externals),
            relatives=tuple(sorted(self.relatives)),
        )

    def _definitions(self) -> dict[str, _Definition]:
        found: dict[str, _Definition] = {}
        for obj in self.objects:
            for index, symbol in enumerate(obj.symbols):
                if not symbol.is_global or symbol.section is None:
                    continue
                if symbol.name in found:
                    raise CompilerError(
                        f"link: '{symbol.name}' is defined by object {found[symbol.name][0]} and "
                        f"by object {obj.number}; give each kernel a name of its own"
                    )
                found[symbol.name] = (obj.number, index)
        return found

    def _references(self) -> tuple[list[str], list[str], list[_Definition]]:
        """External functions that are called, all external functions, addresses that are loaded."""
        called: set[str] = set()
        external: set[str] = set()
        loaded: set[_Definition] = set()
        for obj in self.objects:
            for section in obj.sections.values():
                for relocation in section.relocations:
                    target = self._target(obj, relocation)
                    if isinstance(target, str):
                        external.add(target)
                        if relocation.kind not in _R_GOT:
                            called.add(target)
                    elif relocation.kind in _R_GOT:
                        loaded.add(target)
        return sorted(called), sorted(external), sorted(loaded)

    def _target(self, obj: Relocatable, relocation: Relocation) -> str | _Definition:
        """The definition a relocation points to, or the name of an external function."""
        if relocation.kind in _R_ABSOLUTE32:
            raise fault(obj.number, "it has a 32-bit absolute address (R_X86_64_32 or 32S)")
        symbol = obj.symbols[relocation.symbol]
        if symbol.section is not None:
            return obj.number, relocation.symbol
        if symbol.name in self.globals:
            return self.globals[symbol.name]
        if symbol.name not in EXTERNALS:
            raise CompilerError(
                f"link: object {obj.number} uses '{symbol.name}', which no object defines and "
                "which is not among the functions that compiled code may call; define it, or "
                "lower the operation to arithmetic"
            )
        return symbol.name

    def _place(self) -> None:
        self.stubs_at = _align(self._place_part(TEXT, 0), _STUB)
        self.text = _align(self.stubs_at + _STUB * len(self.stubs), PAGE)
        self.slots = _align(self._place_part(RODATA, self.text), 8)
        slots_end = self.slots + 8 * (len(self.externals) + len(self.addresses))
        self.rodata = _align(slots_end, PAGE) - self.text
        self.data_end = self._place_part(DATA, self.text + self.rodata)
        self.memory = self._place_part(BSS, self.data_end)

    def _place_part(self, part: int, at: int) -> int:
        for obj in self.objects:
            for index, section in obj.sections.items():
                if section.part == part:
                    if section.align > PAGE:
                        raise fault(obj.number, f"{section.name} is aligned to {section.align}")
                    at = _align(at, section.align)
                    self.section_at[obj.number, index] = at
                    at += section.size
        return at

    def _slot(self, key: str | _Definition) -> int:
        if isinstance(key, str):
            return self.slots + 8 * self.externals.index(key)
        return self.slots + 8 * (len(self.externals) + self.addresses.index(key))

    def _address(self, definition: _Definition) -> int:
        number, index = definition
        symbol = self.objects[number].symbols[index]
        assert symbol.section is not None
        if (number, symbol.section) not in self.section_at:
            raise fault(number, f"'{symbol.name}' lies in a section that is not loaded")
        return self.section_at[number, symbol.section] + symbol.value

    def _apply(self, content: bytearray, obj: Relocatable, at: int, relocation: Relocation) -> None:
        place, kind = at + relocation.offset, relocation.kind
        target = self._target(obj, relocation)
        if kind in _R_GOT:
            value = self._slot(target)
        elif isinstance(target, str):
            value = self.stubs_at + _STUB * self.stubs.index(target)
        else:
            value = self._address(target)
        value += relocation.addend
        if kind == _R_64:
            self.relatives.append((place, value))
            return
        if kind not in (_R_PC32, _R_PLT32, _R_PC64, *_R_GOT):
            raise fault(obj.number, f"relocation type {kind} is not supported")
        try:
            struct.pack_into("<q" if kind == _R_PC64 else "<i", content, place, value - place)
        except struct.error:
            what = f"a relocation of type {kind} cannot hold the distance {value - place}"
            raise fault(obj.number, what) from None


def _align(value: int, alignment: int) -> int:
    return -(-value // alignment) * alignment
