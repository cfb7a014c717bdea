"""The shapes of tile registers (AMX), and where code sets them.

Registers 0 to 3 are sums, 4 and 5 hold words of columns, 6 and 7 of rows. All shapes are set at
once, which takes as long as some hundred multiply-adds. Code that multiplies marks which shapes it
needs, and `with_shapes` sets them as far outside as they hold: once at the start of a kernel that
needs one kind.

Source: Intel, Architecture Instruction Set Extensions, "Intel AMX", palette 1.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from rcompiler.linalg.lazy import lazy

SUMS, COLUMNS, ROWS = range(4), (4, 5), (6, 7)  # registers
_MARK = "// tiles of "
WORD, _BYTES = 4, 64  # bytes of a word, and of a whole row


@dataclass(frozen=True)
class TileShapes:
    """Sums of `rows` rows, as many as their factor has, and `words` of the reduction in a step."""

    rows: int
    words: int

    @property
    def mark(self) -> str:
        """A line that says that what follows needs these shapes."""
        return f"{_MARK}{self.rows} x {self.words}"

    @staticmethod
    def of(mark: str) -> TileShapes:
        """Those that a line says."""
        rows, words = mark.removeprefix(_MARK).split(" x ")
        return TileShapes(int(rows), int(words))

    def words_of_memory(self) -> list[int]:
        """What `ldtilecfg` reads, as eight 64-bit words."""
        memory = np.zeros(_BYTES, np.uint8)
        memory[0] = 1  # palette
        widths, counts = memory[16:32].view(np.uint16), memory[48:56]
        for registers, rows, width in (
            (SUMS, self.rows, _BYTES),
            (COLUMNS, self.words, _BYTES),
            (ROWS, self.rows, self.words * WORD),
        ):
            for register in registers:
                widths[register], counts[register] = width, rows
        return [int(word) for word in memory.view(np.int64)]


@dataclass
class _Block:
    """The lines of a loop or of both sides of a branch, behind the line that opens it; with the
    blocks in it.
    """

    items: list[str | _Block] = field(default_factory=list)

    @lazy
    def marks(self) -> set[str]:
        """When all items are there."""
        blocks = [item for item in self.items if isinstance(item, _Block)]
        lines = [item for item in self.items if isinstance(item, str)]
        return _marks(lines).union(*(block.marks for block in blocks))


def with_shapes(lines: Sequence[str]) -> list[str]:
    """The lines of a function, with the shapes set where marks need them, and released at its end.

    A block that needs one kind has it when it is entered. One that needs several sets each where it
    begins to be needed, and leaves unknown ones behind.
    """
    marks = sorted(_marks(lines))
    if not marks:
        return list(lines)
    memory = {mark: f"%tiles{number}" for number, mark in enumerate(marks)}
    head = [line for mark in marks for line in _memory(memory[mark], TileShapes.of(mark))]
    body = list(_written(_parsed(iter(lines)), memory, None))
    return [*head, *body, 'llvm.call_intrinsic "llvm.x86.tilerelease"() : () -> ()']


def _marks(lines: Sequence[str]) -> set[str]:
    return {line.strip() for line in lines if _MARK in line}


def _parsed(lines: Iterator[str]) -> _Block:
    """A block up to the line that closes it, which is its last one."""
    block = _Block()
    for line in lines:
        block.items.append(line)
        text = line.strip()
        if text.endswith("{") and not text.startswith("}"):
            block.items.append(_parsed(lines))
        elif text.startswith("}") and text.endswith("{"):
            continue  # the other side of a branch
        elif text.startswith("}"):
            break
    return block


def _written(block: _Block, memory: dict[str, str], known: str | None) -> Iterator[str]:
    """Its lines, with the instructions that set shapes. known: those that are set where it begins,
    whenever that is.
    """
    for item, inside in zip(block.items, [*block.items[1:], ""], strict=True):
        if isinstance(item, _Block):
            marks = item.marks
            yield from _written(item, memory, known if marks <= {known} else None)
            known = known if marks <= {known} else None
            continue
        text = item.strip()
        needed = {text} if text.startswith(_MARK) else set()
        if isinstance(inside, _Block) and len(inside.marks) == 1:
            needed = inside.marks
        for mark in needed - {known}:
            yield _set(memory[mark])
            known = mark
        if text.startswith("}") and text.endswith("{"):
            known = known if block.marks <= {known} else None  # the other side of a branch
        if not text.startswith(_MARK):
            yield item


def _set(pointer: str) -> str:
    return f'llvm.call_intrinsic "llvm.x86.ldtilecfg"({pointer}) : (!llvm.ptr) -> ()'


def _memory(name: str, shapes: TileShapes) -> list[str]:
    """Lines that put what `ldtilecfg` reads onto the stack."""
    words = shapes.words_of_memory()
    vector = f"vector<{len(words)}xi64>"
    return [
        f"{name}n = arith.constant 1 : i64",
        f"{name} = llvm.alloca {name}n x {vector} {{alignment = 64 : i64}} : (i64) -> !llvm.ptr",
        f"{name}v = arith.constant dense<{words}> : {vector}",
        f"llvm.store {name}v, {name} {{alignment = 64 : i64}} : {vector}, !llvm.ptr",
    ]
