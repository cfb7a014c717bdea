"""What a block computes together: products of two operands.

A position of an operand is one combination of the result coordinates that it depends on, so a
convolution is an implicit matrix product (its windows are written out as they are stored), and
whatever the operator computes its operands from is computed once per element and block.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from torch_mlir import ir

from rcompiler.kernelgen.affine import Linear
from rcompiler.kernelgen.region import Generic, element_of, shape_of
from rcompiler.kernelgen.running_sums import ops_below, reduces
from rcompiler.kernelgen.simt.operand import Operand
from rcompiler.kernelgen.simt.thread_block import ThreadBlock
from rcompiler.kernelgen.stages import STAGE
from rcompiler.kernelgen.views import view_coordinates

LEAST_STEPS = 8  # of a reduction: with fewer the barriers cost more than they save
# Of a thread, so that it has 255 registers for all: sums and what it fetches for the part that
# comes next, and copies of a part, whose addresses are found together.
_MOST_VALUES, _MOST_COPIES = 80, 64

Coordinates = list[Linear]
# Where a sum of this thread is in the tile, and an i1 whether there is one, None if there always
# is; what there is not is read at the last one that there is. Written where it is called.
Element = Callable[[], tuple[Coordinates, str | None]]


@dataclass(frozen=True)
class Form:
    """A product, whatever its tile.

    factors: numbers of the root's operands. loops: the root's loop coordinates, each (result dim,
    distance), result dim -1: of size 1, or None for those of the reduction. used: result dims that
    each factor depends on. unit: element type of the matrix unit that multiplies ("f16", "bf16",
    "tf32"), or None: fused multiply-adds.
    """

    root: Generic
    factors: tuple[int, int]
    loops: tuple[tuple[int, int] | None, ...]
    used: tuple[tuple[int, ...], tuple[int, ...]]
    unit: str | None

    @property
    def steps(self) -> int:
        """Of the reduction."""
        return math.prod(self.root.sizes[d] for d in self.root.reduction_dims)

    def batch(self, rank: int) -> set[int]:
        """Result dims that are neither rows nor columns."""
        first, second = (set(dims) for dims in self.used)
        return {d for d in range(rank) if (d in first) == (d in second)}


@dataclass(frozen=True)
class Product:
    """How a block computes a tile of a product.

    steps: of the reduction in one part.

    By multiply-adds: shares, tiles, runs, lanes are those of a `ThreadGrid`. By a matrix unit:
    shares are the warps along rows (positions of the first operand) and columns (of the second),
    tiles those of one instruction that a warp has along them.
    """

    form: Form
    operands: tuple[Operand, Operand]
    steps: int
    shares: tuple[int, ...]
    tiles: tuple[int, ...]
    runs: tuple[int, int] = (1, 1)
    lanes: tuple[int, int] = (1, 1)

    def is_light(self, sums: int, block: ThreadBlock) -> bool:
        """Whether a thread of a block with so many sums of its own has registers for a part."""
        runs = [operand.moved(block, self.steps) for operand in self.operands]
        pairs = list(zip(self.operands, runs, strict=True))
        fetched = sum(count * operand.width for operand, count in pairs if not operand.asynchronous)
        copies = sum(count for operand, count in pairs if operand.asynchronous)
        return sums + fetched <= _MOST_VALUES and copies <= _MOST_COPIES

    @property
    def end(self) -> int:
        """Byte of the workspace behind it."""
        return max(operand.end for operand in self.operands)


def product_root(value: ir.Value) -> ir.Operation | None:
    """The product that each element of `value` needs one element of; an elementwise epilogue may
    follow, which reads it several times. None if there is no such one. Earlier stages of the body
    do not count.
    """
    roots = [op for op in ops_below(value) if reduces(op)]
    if len(roots) != 1 or not is_product(Generic(roots[0])):
        return None
    return roots[0] if _needs_one(value, roots[0].result) else None


def _needs_one(value: ir.Value, root: ir.Value) -> bool:
    """Whether an element of `value` needs `root`, from which it is computed, at one place only."""
    start = [Linear.of(f"<{d}>") for d in range(len(shape_of(value)))]
    pending, known, above = [(value, start)], dict[ir.Value, list[Linear]](), {root: True}
    while pending:
        value, at = pending.pop()
        if not _is_above(value, above):
            continue
        if known.setdefault(value, at) != at:
            return False
        op = value.owner.operation
        if value == root:
            continue
        if op.name == "tensor.extract_slice":
            pending.append((op.operands[0], view_coordinates(op, at, _no_split)))
            continue
        if op.name != "linalg.generic" or len(op.results) != 1:
            return False
        generic = Generic(op)
        dims = generic.loop_dims(at)
        for map_, expressions, operand in zip(
            generic.maps, generic.expressions, generic.operands, strict=True
        ):
            if map_.is_permutation:
                pending.append((operand, [e(dims, _no_split) for e in expressions]))
            elif _is_above(operand, above):
                return False
    return True


def _is_above(value: ir.Value, known: dict[ir.Value, bool]) -> bool:
    """Whether a value is computed from those that are `known` to be, no stage in between."""
    if value not in known:
        inside = not isinstance(value.owner, ir.Block) and value.owner.operation.name != STAGE
        known[value] = inside and any(_is_above(v, known) for v in value.owner.operation.operands)
    return known[value]


def _no_split(value: Linear, divisor: int) -> tuple[Linear, Linear]:
    raise AssertionError("permutations and slices divide nothing")


def is_product(root: Generic) -> bool:
    """Whether a reduction is a sum of products of two operands of the kind that tiles reuse: each
    result element needs other elements of both, and neither needs all result dims.

    That depends on the operator alone, as the order of the sum does.
    """
    long = {d for d, n in enumerate(root.sizes) if n > 1} - set(root.reduction_dims)
    steps = math.prod(root.sizes[d] for d in root.reduction_dims)
    if root.outputs != 1 or len(long) < 2 or steps < LEAST_STEPS:  # which costs least to find out
        return False
    factors = factors_of(root)
    if factors is None:
        return False
    if element_of(root.inits[0]) not in ("f16", "bf16", "f32", "f64"):
        return False
    first, second = (long & set(root.operand_dims[k]) for k in factors)
    return bool(first - second) and bool(second - first)


def factors_of(root: Generic) -> tuple[int, int] | None:
    """Numbers of the operands that a sum of products multiplies, also where the body makes f32 of
    them first.
    """
    if root.factors is not None or root.product is None:
        return root.factors
    arguments, found = list(root.block.arguments)[: len(root.inputs)], []
    for value in root.product:
        if not isinstance(value.owner, ir.Block) and value.owner.operation.name == "arith.extf":
            value = value.owner.operation.operands[0]
        if value not in arguments:
            return None
        found.append(arguments.index(value))
    return found[0], found[1]


def form_of(
    root: Generic, at: Coordinates, symbols: Sequence[str], unit: str | None
) -> Form | None:
    """at: coordinates of the root's result for the result coordinates `symbols`. None if a loop
    coordinate is no result coordinate plus a distance.
    """
    loops = _loops(root, at, symbols)
    factors = factors_of(root)
    if loops is None or factors is None:
        return None
    used = []
    for number in factors:
        found = {loops[j] for j in root.operand_dims[number]} - {None}
        used.append(tuple(sorted({d for d, _ in filter(None, found) if d >= 0})))
    return Form(root, factors, loops, (used[0], used[1]), unit)


def _loops(
    root: Generic, at: Coordinates, symbols: Sequence[str]
) -> tuple[tuple[int, int] | None, ...] | None:
    """See `Product.loops`; None if a loop coordinate is no result coordinate plus a distance."""
    found: list[tuple[int, int] | None] = []
    for j, coordinate in enumerate(root.loop_dims(at)):
        if j in root.reduction_dims:
            found.append(None)
        elif coordinate.is_constant:
            found.append((-1, coordinate.constant))
        elif len(coordinate.terms) == 1 and coordinate.terms[0][1] == 1:
            found.append((symbols.index(coordinate.terms[0][0]), coordinate.constant))
        else:
            return None
    return tuple(found)
