"""A factor of a product in shared memory as warpgroups multiply it, brought in boxes by TMA.

A chunk is a factor's elements at `chunk` steps along one loop of the reduction, the others at one
coordinate each. Its lines have neighbours in memory: steps of one position (K-major), or a unit of
positions of one step (M- or N-major), which bytes never have. Lines of 32, 64 or 128 bytes lie one
behind the other in the pattern (swizzle) of as many bytes, as both TMA and wgmma have it (PTX ISA,
"Shared Memory Matrix Layout"): a box of the tensor is a piece of the matrix.

A box starts at any multiple of 16 bytes: its tensor map has a dimension with that stride, whose
coordinate is the address. So a map knows nothing of the place of the operand and of the tile.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from rcompiler.kernelgen.simt.operand import unfold
from rcompiler.kernelgen.simt.strides import Strides
from rcompiler.linalg.affine import Linear, Split
from rcompiler.linalg.element_types import item_bytes
from rcompiler.linalg.product import Form
from rcompiler.roller.matrix_unit import MOST_SIDE, lines_of
from rcompiler.runtime.gpu.driver import TensorTile

ADDRESS = 16  # bytes from one coordinate of the address to the next
ATOM = 1024  # bytes: eight lines of the longest pattern; where patterns begin
LINE_BYTES = (128, 64, 32)  # of a line, and of its pattern
_MOST_ADDRESS = 1 << 31
_MOST_RANK = 5
_WASTE = 1.125  # of a chunk that hangs over the reduction


@dataclass(frozen=True)
class Chunks:
    """How the steps of a reduction come: which does not depend on the tile.

    loop: along which chunks have steps; size: steps of one; outer: the other loops of the
    reduction. The order of the sum is that of `outer`, then of chunks.
    """

    loop: int
    size: int
    outer: tuple[int, ...]


@dataclass(frozen=True)
class Boxed:
    """A factor of a tile.

    inner: the loop along which memory has neighbours. dims, extents: result dims that it depends
    on, the one along `inner` last if it is one of them, and the tile's extent along them. unit:
    positions of a line, 0: lines have steps. filled: positions that are multiplied, those beyond
    the tile included.
    """

    form: Form
    strides: Strides
    chunks: Chunks
    inner: int
    dims: tuple[int, ...]
    extents: tuple[int, ...]
    unit: int
    filled: int = 0

    # -- positions
    @property
    def units(self) -> int:
        """Lines that a step has along the inner dim."""
        return -(-self.extents[-1] // self.unit) if self.unit else 1

    @property
    def sizes(self) -> tuple[int, ...]:
        """Of positions, as they are numbered: units first, what is inside of one last."""
        if not self.unit:
            return self.extents
        return (self.units, *self.extents[:-1], self.unit)

    @property
    def positions(self) -> int:
        return math.prod(self.sizes)

    def coordinates(self, position: Linear, split: Split) -> dict[int, Linear]:
        """The coordinates in the tile, by result dim; those beyond its end are of no element."""
        at = unfold(position, self.sizes, split)
        if self.unit:
            at = [*at[1:-1], at[0] * self.unit + at[-1]]
        return dict(zip(self.dims, at, strict=True))

    # -- bytes in shared memory
    @property
    def item(self) -> int:
        """Bytes of an element."""
        return item_bytes(self.strides.buffer.element)

    @property
    def line(self) -> int:
        """Bytes of a line, and of the pattern."""
        return (self.unit or self.chunks.size) * self.item

    @property
    def bytes(self) -> int:
        """Of one chunk."""
        return -(-self.filled * self.chunks.size * self.item // ATOM) * ATOM

    @property
    def loaded(self) -> int:
        """Bytes of one chunk that boxes bring."""
        return self.positions * self.chunks.size * self.item

    # -- boxes
    @property
    def _rows(self) -> list[tuple[int, int]]:
        """Extent, and bytes from one to the next, of what boxes have beside lines; inner first."""
        dims = zip(self.dims, self.extents, strict=True)
        found = [(n, self._stride(d) * self.item) for d, n in dims if n > 1]
        return found[::-1] if not self.unit else found[: len(found) - (self.extents[-1] > 1)][::-1]

    def _stride(self, dim: int) -> int:
        """Elements from one coordinate of a result dim to the next."""
        loops = self.strides.by_loop.items()
        return sum(n for j, n in loops if (place := self.form.loops[j]) and place[0] == dim)

    @property
    def fits(self) -> bool:
        """Whether one box has all of a chunk, or of one of its units."""
        rows = self._rows
        rank = 2 + bool(self.unit) + len(rows)
        return rank <= _MOST_RANK and all(n <= MOST_SIDE for n, _ in rows)

    def tile(self) -> TensorTile:
        """The tensor map, of memory that begins at 0."""
        sizes, rows = self.form.root.sizes, self._rows
        steps = sizes[self.chunks.loop]
        dims, strides = [sizes[self.inner], _MOST_ADDRESS], [ADDRESS]
        box = [self.line // self.item, 1]
        if self.unit:
            dims.append(steps)
            box.append(self.chunks.size)
            strides.append(self.strides.by_loop[self.chunks.loop] * self.item)
        dims += [n for n, _ in rows]
        box += [n for n, _ in rows]
        strides += [stride for _, stride in rows]
        return TensorTile(0, self.item, tuple(dims), tuple(strides), tuple(box), self.line)

    def corner(
        self, starts: Sequence[Linear], outer: Sequence[Linear], step: Linear, unit: int
    ) -> tuple[list[Linear], Linear]:
        """Where the box of a unit begins: coordinates in the tensor map, that of the address left
        out; and the elements in front of it. starts: of the tile; outer, step: of the chunk.
        """
        at = dict(zip(self.chunks.outer, outer, strict=True))
        for j, place in enumerate(self.form.loops):
            if place is not None and j != (self.inner if self.unit else -1):
                d, distance = place
                at[j] = starts[d] + distance if d >= 0 else Linear(distance)
        rows = [Linear()] * len(self._rows)
        if not self.unit:
            return [step, *rows], self.strides.at(at)
        place = self.form.loops[self.inner]
        assert place is not None  # lines have positions
        along = starts[place[0]] + place[1] + unit * self.unit
        return [along, step, *rows], self.strides.at(at)


def chunks_of(form: Form, strides: Sequence[Strides]) -> Chunks | None:
    """How the steps of a reduction come; None where boxes cannot bring both factors."""
    root = form.root
    inner = [s.inner for s in strides]
    if None in inner or any(not _has_pattern(s) for s in strides):
        return None
    dims = [place[0] for place in form.loops if place is not None and place[0] >= 0]
    if len(set(dims)) < len(dims):
        return None
    loops = [j for j in root.reduction_dims if all(j in s.by_loop for s in strides)]
    along = {j for j in inner if j in root.reduction_dims}
    if len(along) > 1 or not along <= set(loops) or not loops:
        return None
    loop = along.pop() if along else loops[-1]
    for side, own in zip(strides, inner, strict=True):
        place, item = form.loops[own] if own is not None else None, item_bytes(side.buffer.element)
        if own != loop and (
            item == 1 or place is None or place[0] < 0 or side.by_loop[loop] % (ADDRESS // item)
        ):
            return None
    steps, item = root.sizes[loop], item_bytes(strides[0].buffer.element)
    sizes = [line // item for line in LINE_BYTES]
    size = next((n for n in sizes if -(-steps // n) * n <= steps * _WASTE), sizes[-1])
    outer = tuple(j for j in root.reduction_dims if j != loop and root.sizes[j] > 1)
    return Chunks(loop, size, outer)


def boxed(
    form: Form, factor: int, strides: Strides, chunks: Chunks, extents: Sequence[int]
) -> Boxed:
    """A factor of a tile with these extents."""
    inner = strides.inner
    assert inner is not None  # chunks_of
    place = form.loops[inner]
    last = -1 if inner == chunks.loop or place is None else place[0]
    dims = tuple(sorted(form.used[factor], key=lambda d: (d == last, d)))
    sizes = tuple(extents[d] for d in dims)
    unit = 0 if last < 0 else lines_of(sizes[-1])[-1]
    return Boxed(form, strides, chunks, inner, dims, sizes, unit)


def _has_pattern(side: Strides) -> bool:
    """Whether all lines of a factor begin at multiples of 16 bytes."""
    of = ADDRESS // item_bytes(side.buffer.element)
    return side.constant % of == 0 and all(n == 1 or n % of == 0 for n in side.by_loop.values())
