"""Memory of tensors, as kernels address it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

from rcompiler.kernelgen.emitter import Emitter
from rcompiler.linalg.affine import Linear
from rcompiler.linalg.element_types import item_bytes


@dataclass(frozen=True)
class Buffer:
    """Flat row-major memory of one tensor, or of its box of `shape` from `origin` on."""

    pointer: str
    shape: tuple[int, ...]
    element: str
    readonly: bool
    origin: tuple[Linear, ...] = ()

    @property
    def bytes(self) -> int:
        """Size of the tensor."""
        return math.prod(self.shape) * item_bytes(self.element)

    def offset(self, coordinates: list[Linear]) -> Linear:
        """Elements in front of the one at `coordinates` of the tensor."""
        if self.origin:
            pairs = zip(coordinates, self.origin, strict=True)
            coordinates = [c + start * -1 for c, start in pairs]
        return Linear.weighted(coordinates, self._strides)

    @cached_property
    def _strides(self) -> list[int]:
        return [math.prod(self.shape[dim + 1 :]) for dim in range(len(self.shape))]


def in_workspace(e: Emitter, offset: int) -> str:
    """Pointer to a byte of the execution unit's workspace."""
    if not offset:
        return "%workspace"
    type_ = e.pointer_type("%workspace")
    return e.pointer(e.behind("%workspace", type_, "i8", offset), type_)
