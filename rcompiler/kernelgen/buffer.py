"""Memory of tensors, as kernels address it."""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Iterable
from dataclasses import dataclass

from rcompiler.kernelgen.emitter import Emitter
from rcompiler.linalg.affine import Linear, Terms
from rcompiler.linalg.element_types import item_bytes
from rcompiler.linalg.lazy import lazy


@dataclass(frozen=True)
class Buffer:
    """Flat row-major memory of one tensor, or of its box of `shape` from `origin` on."""

    pointer: str
    shape: tuple[int, ...]
    element: str
    readonly: bool
    origin: tuple[Linear, ...] = ()

    @lazy
    def size(self) -> int:
        """Elements of the tensor."""
        return math.prod(self.shape)

    @lazy
    def bytes(self) -> int:
        """Size of the tensor."""
        return self.size * item_bytes(self.element)

    def offset(self, coordinates: list[Linear]) -> Linear:
        """Elements in front of the one at `coordinates` of the tensor."""
        # those of a register tile differ in their constants alone
        symbols = tuple([c.terms for c in coordinates])
        base = self._bases.get(symbols)
        if base is None:
            base = self._bases[symbols] = self._base(symbols)
        _, strides = self._layout
        pairs = zip(coordinates, strides, strict=False)
        return base + sum([c.constant * stride for c, stride in pairs])

    def _base(self, symbols: Iterable[Terms]) -> Linear:
        """The offset without the constants of coordinates."""
        start, strides = self._layout
        return Linear.weighted([*(Linear(0, terms) for terms in symbols), start], strides)

    @lazy
    def _bases(self) -> dict[tuple[Terms, ...], Linear]:
        return {}

    def stride(self, coordinates: list[Linear]) -> int:
        """Elements from lane to lane."""
        _, strides = self._layout
        return sum([c.stride * step for c, step in zip(coordinates, strides, strict=False)])

    @lazy
    def _layout(self) -> tuple[Linear, list[int]]:
        """The offset of the origin, and how far apart neighbours in each dim are, -1 of it."""
        sizes = itertools.accumulate(reversed(self.shape[1:]), operator.mul, initial=1)
        strides = [*sizes][::-1] if self.shape else []
        start = Linear.weighted(self.origin, strides) if self.origin else Linear()
        return start, [*strides, -1]


def in_workspace(e: Emitter, offset: int) -> str:
    """Pointer to a byte of the execution unit's workspace."""
    if not offset:
        return e.workspace
    type_ = e.pointer_type(e.workspace)
    return e.pointer(e.behind(e.workspace, type_, "i8", offset), type_)
