"""Where in memory the elements of an operand lie that are there as they are: no code computes them.

What an asynchronous copy takes is such elements, several at a time where they are provably
neighbours at an address that is a multiple of their size.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from torch_mlir import ir

from rcompiler.kernelgen.buffer import Buffer
from rcompiler.kernelgen.reader import NeedsScalars
from rcompiler.kernelgen.simt.operand import Side, unfold
from rcompiler.linalg.affine import LANE, Linear, Split
from rcompiler.linalg.constants import is_plus_zero
from rcompiler.linalg.generic import Generic
from rcompiler.linalg.pieces import pad_value
from rcompiler.linalg.product import Form
from rcompiler.linalg.values import STAGE, integers, shape_of
from rcompiler.linalg.views import VIEWS, view_coordinates

Buffers = Mapping[ir.Value, Buffer]


@dataclass(frozen=True)
class Place:
    """Where an element lies, or several from there on.

    tests: (coordinate, bound), bound 0: there is none where the coordinate is below it, other
    bounds: where it is not below; 0 is read there.
    """

    buffer: Buffer
    offset: Linear
    tests: tuple[tuple[Linear, int], ...] = ()

    def is_run(self, count: int) -> bool:
        """Whether the elements at the lanes up to `count` are neighbours, the first one lies at a
        multiple of as many, and there are all or none of them.
        """
        along = [self.offset, *(c for c, _ in self.tests if c.stride)]
        ends = [bound for c, bound in self.tests if c.stride]
        return count == 1 or (
            all(c.stride == 1 and is_multiple(c.first, count) for c in along)
            and all(bound % count == 0 for bound in ends)
        )


@dataclass(frozen=True)
class Reading:
    """The elements of the factors of one tile, by step of the reduction and position.

    starts: of the tile, along the result dims.
    """

    form: Form
    starts: Sequence[Linear]

    def loops(self, side: Side, step: Linear, position: Linear, split: Split) -> list[Linear]:
        """Loop coordinates of the root."""
        root = self.form.root
        inside = side.coordinates(position, split)
        sizes = [root.sizes[d] for d in root.reduction_dims]
        at = dict(zip(root.reduction_dims, unfold(step, sizes, split), strict=True))
        for j, place in enumerate(self.form.loops):
            if place is not None:
                d, distance = place
                at[j] = self.starts[d] + inside[d] + distance if d in inside else Linear(distance)
        return [at[j] for j in range(len(self.form.loops))]

    def place(
        self, side: Side, step: Linear, position: Linear, buffers: Buffers, split: Split
    ) -> Place | None:
        """Where the element lies; None if it is computed. Raises NeedsScalars where the elements of
        the lanes do not lie on a line.
        """
        root = self.form.root
        loops = self.loops(side, step, position, split)
        at = [expression(loops, split) for expression in root.expressions[side.number]]
        return traced(root.operands[side.number], at, buffers, split)


def traced(value: ir.Value, at: list[Linear], buffers: Buffers, split: Split) -> Place | None:
    """Where the element `at` of a value lies: see `Reading.place`."""
    tests: list[tuple[Linear, int]] = []
    while value not in buffers:
        if isinstance(value.owner, ir.Block):
            return None
        op = value.owner.operation
        if op.name in VIEWS:
            at, value = view_coordinates(op, at, split), op.operands[0]
        elif op.name == STAGE:
            value = op.operands[0]
        elif op.name == "tensor.pad" and is_plus_zero(pad_value(op)):
            at, value = (
                [c + -low for c, low in zip(at, integers(op, "static_low"), strict=True)],
                op.operands[0],
            )
            tests += _tests(op, at)
        elif op.name == "linalg.generic" and (number := _copied(Generic(op))) is not None:
            generic = Generic(op)
            loops = generic.loop_dims(at)
            at = [expression(loops, split) for expression in generic.expressions[number]]
            value = generic.operands[number]
        else:
            return None
    return Place(buffers[value], buffers[value].offset(at), tuple(tests))


def is_multiple(value: Linear, of: int) -> bool:
    """Whether a coordinate is a multiple of a number, whatever its symbols are."""
    return value.constant % of == 0 and all(c % of == 0 for _, c in value.terms)


def split_run(value: Linear, divisor: int, count: int, split: Split) -> tuple[Linear, Linear]:
    """Quotient and remainder of a coordinate that `count` lanes are neighbours along, if they are
    so in the remainder, too; split: of the coordinate of whole runs.
    """
    first = value.first
    if value.stride != 1 or divisor % count or not is_multiple(first, count):
        raise NeedsScalars
    runs = Linear(first.constant // count, tuple((s, c // count) for s, c in first.terms))
    quotient, remainder = split(runs, divisor // count)
    return quotient, remainder * count + Linear.of(LANE)


def peeled(value: Linear, divisor: int) -> tuple[Linear, Linear]:
    """A quotient by a constant that is known, and what is left to divide."""
    whole = tuple((s, c // divisor) for s, c in value.terms if c % divisor == 0)
    rest = tuple((s, c) for s, c in value.terms if c % divisor)
    return Linear(value.constant // divisor, whole), Linear(value.constant % divisor, rest)


def _tests(op: ir.Operation, where: Sequence[Linear]) -> list[tuple[Linear, int]]:
    """Of a pad, whose source is read at `where`."""
    found = []
    sizes = zip(
        where,
        shape_of(op.operands[0]),
        shape_of(op.result),
        integers(op, "static_low"),
        strict=True,
    )
    for coordinate, size, padded, low in sizes:
        bounds = [0] * (low > 0) + [size] * (padded - low > size)
        found += [(coordinate, bound) for bound in bounds]
    return found


def _copied(generic: Generic) -> int | None:
    """Number of the input that each element of a generic is an element of; None: it computes."""
    if generic.outputs != 1 or generic.reduction_dims:
        return None
    result = list(generic.block.operations)[-1].operation.operands[0]
    arguments = list(generic.block.arguments)[: len(generic.inputs)]
    return arguments.index(result) if result in arguments else None
