"""Which tensors an op takes."""

from __future__ import annotations

from collections.abc import Iterator

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
