"""How a factor of a product lies in shared memory, a part of the reduction at a time.

Its elements are (reduction step, position), a position being one combination of the result
coordinates that it depends on. A line has the steps of one position (`step_lines`) or the positions
of one step: what are neighbours in global memory are neighbours here. But bytes always lie by
steps: matrix units take words of them, which no instruction turns. Several buffers of the same
size take turns, so that one is filled while another is read.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from rcompiler.kernelgen.simt.emitter import ACCESS
from rcompiler.kernelgen.simt.move_grid import MoveGrid, ThreadBlock, move_grid
from rcompiler.linalg.affine import Linear, Split
from rcompiler.linalg.element_types import item_bytes
from rcompiler.linalg.generic import Generic
from rcompiler.linalg.kept_stages import ALIGNMENT
from rcompiler.linalg.maps import dims_of
from rcompiler.linalg.values import shape_of


@dataclass(frozen=True)
class Side:
    """A factor of a product, wherever it lies.

    number: of the root's operands; element: as it is stored; dims: result dims that it depends on,
    the one that changes fastest last; extents: of the tile along them; filled: positions that
    are stored, those beyond the tile like its last one; by_steps: whether neighbours in global
    memory are steps of the reduction; step_lines: whether they are so in shared memory.
    """

    number: int
    element: str
    dims: tuple[int, ...]
    extents: tuple[int, ...]
    filled: int
    by_steps: bool
    step_lines: bool

    @property
    def turned(self) -> bool:
        """Whether neighbours in global memory lie in different lines."""
        return self.by_steps != self.step_lines

    @property
    def positions(self) -> int:
        """Positions in the tile."""
        return math.prod(self.extents)

    @property
    def item(self) -> int:
        """Bytes of an element."""
        return item_bytes(self.element)

    def position(self, relative: Sequence[Linear]) -> Linear:
        """Number of the position of the result element at `relative` coordinates in the tile."""
        strides = [math.prod(self.extents[k + 1 :]) for k in range(len(self.extents))]
        return Linear.weighted([relative[d] for d in self.dims], strides)

    def coordinates(self, position: Linear, split: Split) -> dict[int, Linear]:
        """The coordinates in the tile, by result dim, of a position; split: quotient and remainder
        by a constant.
        """
        return dict(zip(self.dims, unfold(position, self.extents, split), strict=True))


@dataclass(frozen=True)
class Operand(Side):
    """A factor in shared memory.

    steps: of the reduction in one part; pitch: elements from one line to the next; width: elements
    that are moved as one; asynchronous: by copies, not by way of registers; slots: buffers; offset:
    of the first one in the workspace, in bytes.
    """

    steps: int
    pitch: int
    width: int
    asynchronous: bool
    slots: int
    offset: int

    @property
    def size(self) -> int:
        """Elements of one buffer."""
        lines = self.filled if self.step_lines else self.steps
        return -(-lines * self.pitch * self.item // ALIGNMENT) * ALIGNMENT // self.item

    @property
    def end(self) -> int:
        """Byte of the workspace behind all buffers."""
        return self.offset + self.slots * self.size * self.item

    def runs(self, steps: int) -> tuple[int, int]:
        """Of a part of so many steps, the runs of `width` neighbours in global memory, and how many
        lines have some there.
        """
        if self.by_steps:
            return steps // self.width, self.filled
        return self.filled // self.width, steps

    def grid(self, block: ThreadBlock) -> MoveGrid:
        """The threads of a block that move its runs: the same ones in whole parts and in the rest,
        so that positions are found once.
        """
        return move_grid(block, *self.runs(self.steps), self.width * self.item, self.by_steps)

    def moved(self, block: ThreadBlock, steps: int) -> int:
        """Runs of a part of so many steps that a thread moves, those that hang over included."""
        return math.prod(self.grid(block).rounds(*self.runs(steps)))

    def place(self, step: Linear, position: Linear) -> Linear:
        """Elements of a buffer in front of a step and position."""
        line, column = (position, step) if self.step_lines else (step, position)
        return line * self.pitch + column


def unfold(number: Linear, sizes: Sequence[int], split: Split) -> list[Linear]:
    """The coordinates of element `number` of a row-major box."""
    at = [Linear()] * len(sizes)
    for k in range(len(sizes) - 1, -1, -1):
        if all(size == 1 for size in sizes[:k]):
            at[k] = number
            break
        if sizes[k] > 1:
            number, at[k] = split(number, sizes[k])
    return at


def odd_pitch(elements: int, item: int) -> int:
    """Elements of a line of at least so many: an odd number of 16-byte pieces. Eight neighbouring
    lines then have their pieces of one column in all 32 banks.
    """
    pieces = -(-elements * item // ACCESS)
    return (pieces + (pieces % 2 == 0)) * ACCESS // item


def even_pitch(elements: int, item: int) -> int:
    """Elements of a line of at least so many: a whole number of 16-byte pieces."""
    return -(-elements * item // ACCESS) * ACCESS // item


def is_by_steps(root: Generic, number: int) -> bool:
    """Whether neighbours of an operand in memory are steps of the reduction."""
    last: set[int] = set()
    operand = root.operands[number]
    for size, expression in zip(shape_of(operand), root.maps[number].results, strict=True):
        if size > 1:
            last = dims_of(expression)
    return bool(last) and last <= set(root.reduction_dims)
