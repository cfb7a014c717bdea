"""The body of one task that the threads of a block share in, see `roller-tile-threads`.

    %r = scf.forall (%a, %b, %l) in (12, 3, 32) shared_outs(%o = %out) { ... }

Its 36 register tiles go to the groups of threads in turn: group 0 has tiles 0, 8, 16, ...
of a block of 8 groups. %l is the lane of a thread in its group. Of a forall of fewer lanes than a
group has threads, those beyond compute what the last one does, and store nothing. Where lanes
share in sums, a group is a warp, and all of it computes them. The threads meet at each gpu.barrier
of the body.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from torch_mlir import ir

from rcompiler.dialects.task_body import IN_FLIGHT
from rcompiler.errors import CompilerError
from rcompiler.kernelgen.buffer import Buffer
from rcompiler.kernelgen.elements import Elements, Source
from rcompiler.kernelgen.simt.emitter import SimtEmitter
from rcompiler.kernelgen.simt.evaluator import SimtEvaluator
from rcompiler.kernelgen.simt.turns import Count, coordinates, in_turns
from rcompiler.kernelgen.task import DYNAMIC, TaskEvaluator, TaskWriter
from rcompiler.kernelgen.value import Val
from rcompiler.linalg.affine import Linear
from rcompiler.linalg.pieces import Piece
from rcompiler.linalg.values import (
    STAGE,
    depends_on,
    integer,
    integers,
    last_of,
    ops_of,
    shape_of,
)

_BOUNDS = ("staticLowerBound", "staticUpperBound", "staticStep")


class ThreadTaskEvaluator(TaskEvaluator, SimtEvaluator):
    """Reads elements of tiles for one thread, at one point of a forall or another."""

    _points = 0
    _here: Point | None = None

    def __init__(self, emitter: SimtEmitter, buffers: dict[ir.Value, Buffer], **how: Any) -> None:
        """how: as `SimtEvaluator` has it."""
        super().__init__(emitter, buffers, **how)
        self._outside = self._positions, self._slices, self._shown
        self._users: dict[tuple[ir.Value, ir.Value], bool] = {}

    @contextmanager
    def at(self, point: Point) -> Iterator[None]:
        """What is computed inside is that of a point."""
        outer = self._here, self.point, self._positions, self._slices, self._shown
        if point.number == 0:  # nothing is known of it
            self._points += 1
            positions, slices, shown = self._outside
            point.number = self._points
            point.known = ({**positions, **point.places}, {**slices}, {**shown})
        self._here, self.point = point, point.number
        self._positions, self._slices, self._shown = point.known
        try:
            yield
        finally:
            self._here, self.point, self._positions, self._slices, self._shown = outer

    def around(self, op: ir.Operation) -> Sequence[Linear]:
        """As `Reader.around`."""
        places = self._here.places if self._here is not None else {}
        return [place for value, place in places.items() if self._depends(op, value)]

    def _depends(self, op: ir.Operation, variable: ir.Value) -> bool:
        """Whether what an op computes depends on a variable of the forall that it stands in."""
        key = op.results[0], variable
        if key not in self._users:
            self._users[key] = op.block == variable.owner and depends_on(op, variable)
        return self._users[key]

    @contextmanager
    def moved(self, names: Mapping[str, str]) -> Iterator[None]:
        """As `Reader.moved`."""
        if self._here is None:
            yield
            return
        block = next(iter(self._here.places)).owner
        depth = self._depths[block]
        self.enter(block)  # nothing of the other point is known further out
        try:
            with self.at(Point({v: p.renamed(names) for v, p in self._here.places.items()})):
                yield
        finally:
            self._depths[block] = depth


class Point:
    """One point of a forall.

    places: what the variables of the forall are there. number, known: of an evaluator.
    """

    def __init__(self, places: Mapping[ir.Value, Linear]) -> None:
        self.places, self.number = places, 0
        self.known: tuple = ()


@dataclass(frozen=True)
class _Forall:
    """What a forall says.

    counts: of its dims, without that of lanes; in_flight: see `IN_FLIGHT`; puts: what its points
    put into tensors.
    """

    block: ir.Block
    counts: list[Count]
    lanes: int
    in_flight: int
    puts: list[ir.Operation]

    @property
    def accesses(self) -> int:
        """Elements that a thread stores at one point, into each tensor."""
        return math.prod(shape_of(self.puts[0].operands[0]))


class ThreadTaskWriter(TaskWriter):
    """Writes the tasks of one kernel for the threads of a block."""

    def __init__(
        self,
        kernel: ir.Operation,
        emitter: SimtEmitter,
        evaluator: ThreadTaskEvaluator,
        outputs: Sequence[Buffer],
        operands: Sequence[Buffer],
    ) -> None:
        super().__init__(kernel, evaluator, outputs, operands)
        self._simt, self._points = emitter, evaluator
        self._elements = Elements(self._name, evaluator)
        self._tasks = integer(kernel, "tasks")

    def write(self, number: Linear) -> None:
        """The task of this number, which is known to be small."""
        super().write(number if number.is_constant else self._simt.bounded(number, self._tasks))

    def store(self, ops: list[ir.Operation]) -> None:
        """Raises CompilerError: it is not said who stores a tile outside of a forall."""
        raise CompilerError(
            f"kernel {self._name}: its body is that of one task, and does not say which thread "
            "makes which part of a tile; run roller-tile-threads"
        )

    def ops(self, block: ir.Block) -> None:
        """As `TaskWriter.ops`; with stages, groups take register tiles in turn: those that have
        none of a stage begin the next one, up to the barrier.
        """
        e = self._simt
        taken = e.taken
        if any(op.name == STAGE for op in ops_of(block)):
            e.taken = 0
        super().ops(block)
        e.taken = taken

    def meet(self, op: ir.Operation) -> None:
        """As `TaskWriter.meet`."""
        self._simt.barrier()

    # -- a forall
    def share_out(self, op: ir.Operation) -> None:
        e, forall = self._simt, self._read(op)
        shared = list(op.operands)[-len(op.results) :]
        arguments = list(forall.block.arguments)[-len(shared) :]
        for init, argument, result in zip(shared, arguments, op.results, strict=True):
            self._buffers[argument] = self._buffers[result] = self.memory(result, init)
        together = max(forall.in_flight // forall.accesses, 1)

        def tiles(numbers: list[Linear]) -> None:
            self._write([self._point(forall, number) for number in numbers], forall)

        in_turns(e, forall.counts, together, tiles)

    def _read(self, op: ir.Operation) -> _Forall:
        """Raises CompilerError for a forall that is no share of threads."""
        block = op.regions[0].blocks[0]
        low, high, step = (integers(op, name) for name in _BOUNDS)
        rank = len(high)
        expected = [f"#gpu.thread<linear_dim_{d}>" for d in reversed(range(rank))]
        mapping = op.attributes["mapping"] if "mapping" in op.attributes else []
        if list(map(str, mapping)) != expected or set(low) != {0} or set(step) != {1}:
            raise CompilerError(
                f"{op.location}: threads share in a forall from 0 in steps of 1 whose mapping is "
                f"[{', '.join(expected)}]"
            )
        if high[-1] == DYNAMIC or high[-1] > self._simt.width:
            raise CompilerError(
                f"{op.location}: the last dim of a forall counts the lanes of a group, of which "
                f"there are {self._simt.width}"
            )
        dynamic = iter(op.operands)
        counts: list[Count] = [
            self._evaluator.position_of(next(dynamic)) if n == DYNAMIC else n for n in high
        ]
        puts = [view.operation for view in last_of(block).regions[0].blocks[0].operations]
        in_flight = integer(op, IN_FLIGHT) if IN_FLIGHT in op.attributes else 1
        return _Forall(block, counts[:-1], high[-1], in_flight, puts)

    def _point(self, forall: _Forall, number: Linear) -> Point:
        """The point of a register tile, for this thread."""
        places = coordinates(self._evaluator, number, forall.counts)
        places.append(self._simt.active_lane(forall.lanes))
        return Point(dict(zip(forall.block.arguments, places, strict=False)))

    # -- what a thread does at some points
    def _write(self, points: Sequence[Point], forall: _Forall) -> None:
        """All elements of some points: so many of them are read before the first is stored."""
        self._evaluator.enter(forall.block)
        elements = []
        for point in points:
            with self._points.at(point):
                for put in forall.puts:
                    elements += self._elements_of(put, point)
        e = self._simt
        # Threads without an element compute the last one, too, but not where it may be stored
        # before they have read it.
        early = not e.in_place or e.is_active(forall.lanes) is None
        for first in range(0, len(elements), forall.in_flight):
            some = elements[first : first + forall.in_flight]
            found = [self._value(each) if early else None for each in some]
            for each, value in zip(some, found, strict=True):

                def store(each: _Element = each, value: Val | None = value) -> None:
                    own = self._value(each) if value is None else value
                    self._elements.store(own, each.output, each.place, 0)

                e.only(e.is_active(forall.lanes), store)

    def _elements_of(self, put: ir.Operation, point: Point) -> list[_Element]:
        """Of a tile that is put into a tensor."""
        tile, into = put.operands[0], put.operands[1]
        shape, buffer = shape_of(tile), self._buffers[into]
        if len(shape) != len(buffer.shape):
            raise CompilerError(f"{put.location}: threads put tiles of all dims into tensors")
        steps = integers(put, "static_strides")
        offsets = self._evaluator.offsets(put)
        origin = buffer.origin or (Linear(),) * len(shape)
        moved = tuple(s + o * -1 for s, o in zip(origin, offsets, strict=True))
        output = replace(buffer, origin=moved)
        source = tile, Piece((0,) * len(shape), shape, tile, (0,) * len(shape))
        positions = [list(map(Linear, at)) for at in itertools.product(*map(range, shape))]
        self._elements.prepare([source], positions, 0)
        return [_Element(point, source, at, output, _place(output, at, steps)) for at in positions]

    def _value(self, element: _Element) -> Val:
        with self._points.at(element.point):
            [value] = self._elements.values([element.source], element.at, 0)
        return value


@dataclass(frozen=True)
class _Element:
    """One element, `at` of a tile, that is stored at a place in memory."""

    point: Point
    source: Source
    at: list[Linear]
    output: Buffer
    place: Linear


def _place(output: Buffer, at: Sequence[Linear], steps: Sequence[int]) -> Linear:
    """Where an element of a tile lies, whose neighbours are some steps apart."""
    return output.offset([c * step for c, step in zip(at, steps, strict=True)])
