"""Which x86-64 feature level machine code needs, by the encoding of each instruction."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

# Intel SDM volume 2, chapters 2.1 to 2.7 and appendix A.
_LEGACY = frozenset(b"\x66\xf2\xf3\xf0\x2e\x36\x3e\x26\x64\x65")
_EVEX, _VEX3, _VEX2 = 0x62, 0xC4, 0xC5
# (prefix, opcode) after 0F of SSE3 and of bit counting, None: any prefix. LLVM writes F3 0F BC
# (tzcnt) where both it and bsf, which it is for an older processor, are right.
_ABOVE_BASELINE = {
    *((None, opcode) for opcode in (0x38, 0x3A, 0x7C, 0x7D, 0xD0)),
    *((0xF2, 0x12), (0xF3, 0x12), (0xF3, 0x16), (0xF2, 0xF0), (0xF3, 0xB8), (0xF3, 0xBD)),
}
# (opcode map, opcode) of VEX instructions after AVX2: VNNI, IFMA, conversions, GFNI, AES, PCLMUL
_LATER_VEX = {
    *((2, opcode) for opcode in (0x50, 0x51, 0x52, 0x53, 0xD2, 0xD3, 0xB4, 0xB5, 0xB0, 0xB1, 0x72)),
    *((2, opcode) for opcode in (0xCF, 0xDC, 0xDD, 0xDE, 0xDF)),
    *((3, opcode) for opcode in (0x44, 0xCE, 0xCF, 0xDF)),
}
_LINE = re.compile(r"^ *[0-9a-f]+:\t((?:[0-9a-f]{2} )+)\s*(?:\t(.*))?$")


def needed_level(instruction: bytes) -> str:
    """The lowest of "x86-64", "v3" and "v4" (stands for all that is later) that has it."""
    code = instruction.lstrip(bytes(_LEGACY))
    prefixes = instruction[: len(instruction) - len(code)]
    if 0x40 <= code[0] <= 0x4F:  # REX
        code = code[1:]
    if code[0] == _EVEX:
        return "v4"
    if code[0] in (_VEX2, _VEX3):
        opcode = (1, code[2]) if code[0] == _VEX2 else (code[1] & 0x1F, code[3])
        return "v4" if opcode in _LATER_VEX else "v3"
    if code[0] != 0x0F:
        return "x86-64"
    above = any((prefix, code[1]) in _ABOVE_BASELINE for prefix in (None, *prefixes))
    return "v3" if above else "x86-64"


def instructions(code: bytes, folder: Path) -> Iterator[tuple[bytes, str]]:
    """Bytes and text of each instruction. Needs objdump; raises AssertionError for other bytes."""
    file = folder / "code.bin"
    file.write_bytes(code)
    command = ["objdump", "-D", "-w", "-b", "binary", "-m", "i386:x86-64", str(file)]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    found = 0
    for line in text.splitlines():
        if match := _LINE.match(line):
            content = bytes.fromhex(match[1])
            found += len(content)
            assert "(bad)" not in line, line
            yield content, match[2]
    assert found == len(code)
