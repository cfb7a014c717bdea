"""Where the numbers of the products stand among the dims of transformed images.

A transform writes (or reads) one vector for each of (m + r - 1)^2 products at a time: 36 streams
for F(4x4). If they lie a multiple of 4 KiB apart, as images of 2^n pixels or channels make them,
all fall into one cache set (Roller §3.2: the alignment of memory banks), and the transform takes
up to 4 times as long (measured, 14x14 and 64x64 pixels).

Outermost, each product has a matrix in one run of memory, and the tasks of the matrix products go
through one after the other: best where they do not conflict. Further inwards the streams are closer
together, and the rows of a matrix further apart.
"""

import itertools
import math
from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass

from rcompiler.device.model import MemoryLevel


@dataclass(frozen=True)
class ProductTensor:
    """A tensor of products before it has a layout: `dims` in order, of which `windows` number
    tiles; `rows` number the products and may stand anywhere. sizes: of all of them; itemsize: bytes
    of an element.
    """

    dims: tuple[Hashable, ...]
    windows: tuple[Hashable, ...]
    rows: tuple[Hashable, ...]
    sizes: Mapping[Hashable, int]
    itemsize: int

    @property
    def bytes(self) -> int:
        """Size of the tensor."""
        return self.itemsize * math.prod(self.sizes[d] for d in (*self.dims, *self.rows))

    def outermost(self) -> list[Hashable]:
        """The order with the numbers of the products in front."""
        return [*self.rows, *self.dims]

    def without_conflicts(self, level: MemoryLevel) -> list[Hashable]:
        """The first order, from the outermost inwards, without conflicts in a cache; else that with
        the fewest.
        """
        orders = [self._order(places) for places in self._places()]
        return min(orders, key=lambda order: max(self.conflicts(order, level), level.ways))

    def conflicts(self, order: Sequence[Hashable], level: MemoryLevel) -> int:
        """Lines of the fullest cache set when one vector of every product is touched."""
        strides, step = {}, self.itemsize
        for dim in reversed(order):
            strides[dim] = step
            step *= self.sizes[dim]
        hits: Counter[int] = Counter()
        for point in itertools.product(*(range(self.sizes[row]) for row in self.rows)):
            address = sum(k * strides[row] for k, row in zip(point, self.rows, strict=True))
            hits[address % level.way_bytes // level.line] += 1
        return max(hits.values())

    def _places(self) -> list[list[int]]:
        """Of each row: in front of which dim. From the outermost inwards."""
        count, windows = len(self.rows), [self.dims.index(w) for w in self.windows]
        outer = [0] * (count - 1)
        return [[*outer, 0], [*outer, windows[0]], windows, [windows[-1]] * count]

    def _order(self, places: Sequence[int]) -> list[Hashable]:
        found: list[Hashable] = []
        for position, dim in enumerate(self.dims):
            found += [row for row, at in zip(self.rows, places, strict=True) if at == position]
            found.append(dim)
        return found
