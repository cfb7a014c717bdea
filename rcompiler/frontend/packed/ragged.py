"""Tensors of a packed batch: what each request has at its own length.

    [batch, seq, 64]        Rows:    [rows, 64], the requests one behind the other
    [batch, 12, seq, seq]   Padded:  [1, 12, 512, 512], [1, 12, 256, 256], [2, 12, 170, 170], ...

A tensor in which the two dimensions are next to each other has rows in their place, and nothing
else is ever computed of it. One that has them apart, or lengths twice, has a tensor for each group
of requests, as long as the longest of these may be; what is behind a request is never looked at.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeGuard

from rcompiler.frontend.value import Value
from rcompiler.support.extent import Extent, Size, Symbol

from .packing import Packing


@dataclass(frozen=True, eq=False)
class Rows:
    """A tensor whose two dimensions are rows.

    Attributes:
        sizes: its shape, with the two dimensions as symbols.
        value: the tensor of the rows: along `axis` there are rows, in the place of one or two axes.
    """

    sizes: tuple[Size, ...]
    value: Value
    axis: int

    @property
    def joined(self) -> bool:
        """Whether the tensor has one axis of the two dimensions, as the rows have."""
        return len(self.sizes) == self.value.rank

    @property
    def width(self) -> int:
        """How many axes the rows stand for."""
        return 1 if self.joined else 2

    def covers(self, axis: int) -> bool:
        """Whether an axis of the tensor is one that the rows stand for."""
        return self.axis <= axis < self.axis + self.width

    def beside(self, axis: int) -> int:
        """Which axis of the rows' tensor another axis of the tensor is."""
        return axis if axis < self.axis else axis - self.width + 1


@dataclass(frozen=True, eq=False)
class Padded:
    """A tensor for each group of requests.

    Attributes:
        sizes: the shape, with the two dimensions as symbols.
        parts: of each group; lengths and, of several requests, their number are sizes of its own.
    """

    sizes: tuple[Size, ...]
    parts: tuple[Value, ...]


def is_ragged(value: object) -> TypeGuard[Rows | Padded]:
    """Whether requests have it at their own lengths."""
    return isinstance(value, Rows | Padded)


def place(sizes: Sequence[Size], packing: Packing) -> tuple[int, int] | None:
    """Where the rows of a shape are, and how many axes they stand for; None where it has none.

    That is where the two dimensions are next to each other, or one axis, and are nowhere else.
    """
    batch, seq = Extent.of(packing.batch), Extent.of(packing.seq)
    both = {packing.batch, packing.seq}
    at = [axis for axis, size in enumerate(sizes) if both & symbols_of(size)]
    if len(at) == 1 and sizes[at[0]] == packing.both:
        return at[0], 1
    if len(at) == 2 and [sizes[axis] for axis in at] == [batch, seq] and at[1] == at[0] + 1:
        return at[0], 2
    return None


def has_lengths(sizes: Sequence[Size], packing: Packing) -> bool:
    """Whether a shape depends on the lengths of requests."""
    return any(packing.seq in symbols_of(size) for size in sizes)


def has_requests(sizes: Sequence[Size], packing: Packing) -> bool:
    """Whether a shape depends on how many requests there are."""
    return any(packing.batch in symbols_of(size) for size in sizes)


def symbols_of(size: Size) -> set[Symbol]:
    """What a size depends on."""
    return {*size.symbols} if isinstance(size, Extent) else set()
