"""Loops over tensors whose iterations have nothing to do with each other.

    %r:2 = scf.for %i = 0 to 64 step 1 iter_args(%a = %x, %b = %y) -> (tensor<64x9xf32>, ...) {
      ... reads and writes of %a and %b at [%i, ...] only ...
    }
Each iteration has its own slab of every result, so the iterations may run in any order and at the
same time: dim 0 of the results is a parallel axis.
"""

from __future__ import annotations

from collections.abc import Sequence

from torch_mlir import ir

from rcompiler.kernelgen.region import shape_of


def loop_of(results: Sequence[ir.Value]) -> ir.Operation | None:
    """The one scf.for that all of these are results of; None if there is none."""
    owners = {None if isinstance(r.owner, ir.Block) else r.owner.operation for r in results}
    loop = owners.pop() if len(owners) == 1 else None
    return loop if loop is not None and loop.name == "scf.for" else None


def independent_dim(results: Sequence[ir.Value]) -> int | None:
    """The dim of all results of a loop that its iterations share out among them, each reading and
    writing only its own slab; None if there is none.
    """
    loop = loop_of(results)
    if loop is None or not all(isinstance(v.type, ir.RankedTensorType) for v in loop.results):
        return None
    bounds = [_number(v) for v in list(loop.operands)[:3]]
    block = loop.regions[0].blocks[0]
    iteration, *carried = block.arguments
    dims = set(range(min(len(shape_of(r)) for r in loop.results)))
    wanted = {d for d in dims if all(bounds == [0, shape_of(r)[d], 1] for r in loop.results)}
    found = _Slabs(iteration, set(carried), wanted).check(block)
    return min(found, default=None)


class _Slabs:
    """The dims along which every access to some tensors is at one iteration."""

    def __init__(self, iteration: ir.Value, tensors: set[ir.Value], dims: set[int]) -> None:
        self._iteration, self._tensors, self._dims = iteration, tensors, dims

    def check(self, block: ir.Block) -> set[int]:
        """What is left of the dims after the ops of a block, and of those inside of them."""
        for view in block.operations:
            self._visit(view.operation)
        return self._dims

    def _visit(self, op: ir.Operation) -> None:
        own = [v for v in op.operands if v in self._tensors]
        match op.name:
            case "tensor.extract":
                if own:
                    self._access(list(op.operands)[1:])
            case "tensor.insert":
                self._access(list(op.operands)[2:])
                self._tensors.add(op.results[0])
            case "scf.for":
                inner, inits = op.regions[0].blocks[0], list(op.operands)[3:]
                arguments = list(inner.arguments)[1:]
                for init, argument, result in zip(inits, arguments, op.results, strict=True):
                    if init in self._tensors:
                        self._tensors |= {argument, result}
                self.check(inner)
            case "scf.if":
                for region in op.regions:
                    for inner in region.blocks:
                        self.check(inner)
                self._tensors |= {r for r in op.results if isinstance(r.type, ir.RankedTensorType)}
            case "scf.yield":
                pass
            case _:
                if own:
                    self._dims.clear()

    def _access(self, indices: list[ir.Value]) -> None:
        self._dims &= {d for d, index in enumerate(indices) if index == self._iteration}


def _number(value: ir.Value) -> int | None:
    """The constant that an index is."""
    owner = value.owner
    if isinstance(owner, ir.Block) or owner.operation.name != "arith.constant":
        return None
    return ir.IntegerAttr(owner.operation.attributes["value"]).value
