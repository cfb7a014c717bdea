"""What a block computes together: products of two operands.

A position of an operand is one combination of the result coordinates that it depends on, so a
convolution is an implicit matrix product (its windows are written out as they are stored), and
whatever the operator computes its operands from is computed once per element and block.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from rcompiler.kernelgen.simt.move_grid import ThreadBlock
from rcompiler.kernelgen.simt.operand import Operand
from rcompiler.linalg.affine import Coordinates
from rcompiler.linalg.product import Form

# Of a thread, so that it has 255 registers for all: sums and what it fetches for the part that
# comes next, and copies of a part, whose addresses are found together.
_MOST_VALUES, _MOST_COPIES = 80, 64

# Where a sum of this thread is in the tile, and an i1 whether there is one, None if there always
# is; what there is not is read at the last one that there is. Written where it is called.
Element = Callable[[], tuple[Coordinates, str | None]]


@dataclass(frozen=True)
class Product:
    """How a block computes a tile of a product.

    steps: of the reduction in one part.

    By multiply-adds: shares, tiles, runs, lanes are those of a `ThreadGrid`. By a matrix unit:
    shares are the warps along rows (positions of the first operand) and columns (of the second),
    tiles those of one instruction that a warp has along them.
    """

    form: Form
    operands: tuple[Operand, Operand]
    steps: int
    shares: tuple[int, ...]
    tiles: tuple[int, ...]
    runs: tuple[int, int] = (1, 1)
    lanes: tuple[int, int] = (1, 1)

    def is_light(self, sums: int, block: ThreadBlock) -> bool:
        """Whether a thread of a block with so many sums of its own has registers for a part."""
        runs = [operand.moved(block, self.steps) for operand in self.operands]
        pairs = list(zip(self.operands, runs, strict=True))
        fetched = sum(count * operand.width for operand, count in pairs if not operand.asynchronous)
        copies = sum(count for operand, count in pairs if operand.asynchronous)
        return sums + fetched <= _MOST_VALUES and copies <= _MOST_COPIES

    @property
    def end(self) -> int:
        """Byte of the workspace behind it."""
        return max(operand.end for operand in self.operands)


def places_of_sums(rows: range, columns: range) -> Iterator[tuple[int, int]]:
    """Row and column of each sum of thread 0 of a warp, in products by matrix units: of a tile of
    16 rows and 8 columns a thread has two neighbours, and two more 8 rows further down. rows,
    columns: where tiles begin.
    """
    for row, column, down, right in itertools.product(rows, columns, (0, 8), (0, 1)):
        yield row + down, column + right


def types_of(form: Form) -> tuple[str, str]:
    """Of both factors, as PTX names them."""
    assert form.unit is not None
    if form.signed is None:
        return form.unit, form.unit
    first, second = ("s8" if signed else "u8" for signed in form.signed)
    return first, second


def halve(extents: list[int]) -> bool:
    """Halve the largest extent of a box; False where it is one element."""
    largest = extents.index(max(extents))
    whole = extents[largest]
    extents[largest] = -(-whole // 2)
    return whole > 1
