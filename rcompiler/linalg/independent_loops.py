"""Loops over tensors whose iterations have nothing to do with each other.

    %r:2 = scf.for %i = 0 to 64 step 1 iter_args(%a = %x, %b = %y) -> (tensor<64x9xf32>, ...) {
      ... reads and writes of %a and %b at [%i, ...] only ...
    }
Each iteration has its own slab of every result, so the iterations may run in any order and at the
same time: dim 0 of the results is a parallel axis. A loop that is all that such a loop does, and
that shares out another dim, is a second one.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from torch_mlir import ir

from rcompiler.errors import InvalidModel
from rcompiler.linalg.values import defining, number_of, ops_of, shape_of

UPDATES = "rtask.updates"
"""On a loop: its result begins as its initial tensor, in whose bytes it lies."""


@dataclass(frozen=True)
class Apart:
    """A loop whose iterations share out dim `dim` of all results among them."""

    loop: ir.Operation
    dim: int

    @property
    def block(self) -> ir.Block:
        """What it repeats."""
        return self.loop.regions[0].blocks[0]

    @property
    def iteration(self) -> ir.Value:
        """Its variable."""
        return self.block.arguments[0]


def loop_of(results: Sequence[ir.Value]) -> ir.Operation | None:
    """The one scf.for that all of these are results of; None if there is none."""
    owners = {defining(r) for r in results}
    loop = owners.pop() if len(owners) == 1 else None
    return loop if loop is not None and loop.name == "scf.for" else None


def updated_operands(results: Sequence[ir.Value], operands: Sequence[ir.Value]) -> tuple[int, ...]:
    """Flat (operand, result) pairs of a body whose loop updates operands in place (`UPDATES`).

    Raises InvalidModel for a loop that says so, and begins with something else, which nobody would
    copy.
    """
    loop = loop_of(results)
    if loop is None or UPDATES not in loop.attributes:
        return ()
    pairs: list[int] = []
    for number, result in enumerate(results):
        init = loop.operands[3 + list(loop.results).index(result)]
        if init in operands and len(list(init.uses)) == 1:
            pairs += [list(operands).index(init), number]
    if not len(pairs) == 2 * len(results) == 2 * len(loop.results):
        raise InvalidModel(
            f"a loop says {UPDATES!r}, and begins with a tensor that is no operand, or is read by "
            "something else, too; remove the attribute"
        )
    return tuple(pairs)


def touched(loop: ir.Operation, shape: Sequence[int], dims: Iterable[int]) -> dict[int, int]:
    """How many elements along some dims a loop writes of a result of this shape, at most."""
    left, others = _insertions(loop), math.prod(shape)
    found: dict[int, int] = {}
    for d in sorted(dims):
        others //= max(shape[d], 1)
    left = -(-left // max(others, 1))
    for d in sorted(dims):
        found[d] = max(min(shape[d], left), 1)
        left = -(-left // found[d])
    return found


def _insertions(loop: ir.Operation) -> int:
    """How many elements a loop writes; any number where it is not known."""
    low, high, step = (number_of(v) for v in list(loop.operands)[:3])
    if low is None or high is None or not step:
        return 1 << 62
    ops = ops_of(loop.regions[0].blocks[0])
    own = sum(op.name == "tensor.insert" for op in ops)
    inside = sum(_insertions(op) for op in ops if op.name == "scf.for")
    return max(0, -(-(high - low) // step)) * (own + inside)


def independent_loops(results: Sequence[ir.Value]) -> list[Apart]:
    """The loop of some results and those inside of it, outermost first, whose iterations read and
    write only their own slabs of all results; empty if not even those of the outermost do.
    """
    found: list[Apart] = []
    loop = loop_of(results)
    while loop is not None:
        dim = _independent_dim(loop, {apart.dim for apart in found})
        if dim is None:
            break
        found.append(Apart(loop, dim))
        loop = _only_loop(loop)
    return found


def leading(nest: Sequence[Apart], shape: Sequence[int]) -> int:
    """How many of the outermost of such loops share out the first dims of a result of this shape,
    one after the other: what an iteration of these has of it lies in one piece.
    """
    long = [d for d, size in enumerate(shape) if size > 1]
    pairs = enumerate(zip(nest, long, strict=False))
    return next((k for k, (apart, dim) in pairs if apart.dim != dim), len(nest))


def _independent_dim(loop: ir.Operation, taken: set[int]) -> int | None:
    """The first dim, but for those taken, that the iterations share out; None: there is none."""
    if not all(isinstance(v.type, ir.RankedTensorType) for v in loop.results):
        return None
    bounds = [number_of(v) for v in list(loop.operands)[:3]]
    block = loop.regions[0].blocks[0]
    iteration, *carried = block.arguments
    dims = set(range(min(len(shape_of(r)) for r in loop.results))) - taken
    wanted = {d for d in dims if all(bounds == [0, shape_of(r)[d], 1] for r in loop.results)}
    found = _Slabs(iteration, set(carried), wanted).check(block)
    return min(found, default=None)


def _only_loop(loop: ir.Operation) -> ir.Operation | None:
    """The loop over the same tensors that is all that a loop does."""
    block = loop.regions[0].blocks[0]
    *ops, end = ops_of(block)
    inner = [op for op in ops if op.name == "scf.for"]
    others = {"scf.if", "tensor.extract", "tensor.insert"}
    if len(inner) != 1 or any(op.name in others for op in ops):
        return None
    same = list(inner[0].operands)[3:] == list(block.arguments)[1:]
    return inner[0] if same and list(end.operands) == list(inner[0].results) else None


def in_lockstep(loop: ir.Operation) -> bool:
    """Whether all iterations of a loop take the same way: the bounds of loops inside, and where
    tensors are read and written but for the iteration's own place, depend on no element.
    """
    return _Ways(loop).alike


def in_vectors(loop: ir.Operation) -> bool:
    """Whether `lanes` iterations that follow each other can be one of vectors: they are in lockstep
    and read and write neighbours.
    """
    ways = _Ways(loop)
    return ways.alike and ways.neighbours


class _Ways:
    """What the iterations of a loop have in common. varying: values that may differ."""

    def __init__(self, loop: ir.Operation) -> None:
        block = loop.regions[0].blocks[0]
        self._iteration = block.arguments[0]
        self._varying = {self._iteration}
        self.alike = self.neighbours = True
        self._check(block)

    def _check(self, block: ir.Block) -> None:
        for op in ops_of(block):
            match op.name:
                case "tensor.extract":
                    self._access(list(op.operands)[1:])
                    self._varying.add(op.result)
                case "tensor.insert":
                    self._access(list(op.operands)[2:])
                case "scf.for":
                    self._uniform(list(op.operands)[:3])
                    inner = op.regions[0].blocks[0]
                    self._varying |= {*list(inner.arguments)[1:], *op.results}
                    self._check(inner)
                case "scf.if":
                    self.alike = False
                case "scf.yield":
                    pass
                case _:
                    self.neighbours &= self._iteration not in list(op.operands)
                    if self._varying.intersection(op.operands):
                        self._varying |= set(op.results)

    def _access(self, indices: list[ir.Value]) -> None:
        self._uniform([i for i in indices if i != self._iteration])
        self.neighbours &= self._iteration not in indices[:-1]

    def _uniform(self, values: list[ir.Value]) -> None:
        self.alike &= not self._varying.intersection(values)


class _Slabs:
    """The dims along which every access to some tensors is at one iteration."""

    def __init__(self, iteration: ir.Value, tensors: set[ir.Value], dims: set[int]) -> None:
        self._iteration, self._tensors, self._dims = iteration, tensors, dims

    def check(self, block: ir.Block) -> set[int]:
        """What is left of the dims after the ops of a block, and of those inside of them."""
        for op in ops_of(block):
            self._visit(op)
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
