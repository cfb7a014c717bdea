"""Which tensors an op takes, and which of them come from outside."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from torch_mlir import ir

_SCALAR = ("arith.", "math.")


def tensors_used(op: ir.Operation) -> Iterator[ir.Value]:
    """Tensors that an op uses, then those that ops inside of it use, each as often as it is used.

    What is asked of every op of a large model must not take long: in the body of a linalg.generic,
    whose values are elements, arithmetic takes no tensors.
    """
    for value in op.operands:
        if isinstance(value.type, ir.RankedTensorType):
            yield value
    regions = op.regions
    if not len(regions):
        return
    elements = op.name == "linalg.generic"
    for region in regions:
        for block in region.blocks:
            for view in block.operations:
                inner = view.operation
                if not (elements and inner.name.startswith(_SCALAR)):
                    yield from tensors_used(inner)


def captures(op: ir.Operation) -> list[ir.Value]:
    """Tensors from outside that the body of `op` uses, in the order of first use."""
    found: dict[ir.Value, None] = {}
    _note_captures(op.regions, set(), found)
    return list(found)


def _note_captures(
    regions: Sequence[ir.Region], inside: set[ir.Value], found: dict[ir.Value, None]
) -> None:
    """inside: what is defined there so far."""
    for region in regions:
        for block in region.blocks:
            inside.update(block.arguments)
            for view in block.operations:
                inner = view.operation  # whose lists are made faster than those of the view
                if inner.name == "linalg.generic":  # values inside are elements
                    found.update((v, None) for v in tensors_used(inner) if v not in inside)
                else:
                    for value in inner.operands:
                        if value not in inside and isinstance(value.type, ir.RankedTensorType):
                            found.setdefault(value)
                    _note_captures(inner.regions, inside, found)
                inside.update(inner.results)
