"""Generics of many ops, of which a large model has few forms."""

from __future__ import annotations

from torch_mlir import ir

from rcompiler.linalg.generic import Generic


class Forms:
    """Makes generics; what follows from maps and iterators is found once for equal ones."""

    def __init__(self) -> None:
        self._known: dict[tuple[ir.Attribute, ir.Attribute], Generic] = {}

    def of(self, op: ir.Operation) -> Generic:
        """`Generic(op)`."""
        attributes, found = op.attributes, Generic(op)
        form = attributes["indexing_maps"], attributes["iterator_types"]
        known = self._known.setdefault(form, found)
        found.maps, found.reduction_dims = known.maps, known.reduction_dims
        return found
