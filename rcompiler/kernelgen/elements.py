"""The elements of results: what is computed for several at once, what each is, where it goes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress

from torch_mlir import ir

from rcompiler.errors import CompilerError
from rcompiler.kernelgen.buffer import Buffer
from rcompiler.kernelgen.evaluate import Evaluator
from rcompiler.kernelgen.packing import VECTORS, packed, packs
from rcompiler.kernelgen.reader import NeedsScalars
from rcompiler.kernelgen.value import Val, type_name
from rcompiler.linalg.affine import Linear
from rcompiler.linalg.generic import Generic
from rcompiler.linalg.pieces import Piece
from rcompiler.linalg.views import VIEWS

# What a piece of a result is read from: a value of the region, or None for the piece's fill.
Source = tuple[ir.Value | None, Piece]
# Makes something of a value known at positions that are written next, in vectors of some lanes.
Prepare = Callable[[ir.Value, list[list[Linear]], int], None]
Visit = Callable[[Generic, list[list[Linear]]], None]
_Seen = set[tuple[ir.Value, tuple[tuple[Linear, ...], ...]]]


def sources_of(piece: Piece, results: Sequence[ir.Value]) -> list[Source]:
    """What each result is read from in a piece; several results have one piece, which is whole."""
    values = [piece.value] if len(results) == 1 else results
    return [(value, piece) for value in values]


class Elements:
    """Writes the elements of results, one or a vector of them at a time."""

    def __init__(self, name: str, evaluator: Evaluator) -> None:
        """name: of the kernel, or of a part of it, for errors."""
        self._name = name
        self._evaluator = evaluator
        self._e = evaluator.emitter
        self._reducing: dict[ir.Value, bool] = {}

    # -- reductions, which several elements have together
    def prepare(
        self,
        sources: Sequence[Source],
        positions: Sequence[list[Linear]],
        lanes: int,
        also: Prepare | None = None,
    ) -> bool:
        """Compute the reductions behind results for all positions at once, so that they share their
        loops; also: prepares more of each value. Whether what they are waits in memory.
        """
        reducer, waiting = self._evaluator.reducer, []

        def compute(generic: Generic, at: list[list[Linear]]) -> None:
            unique = list({tuple(p): p for p in at}.values())
            waiting.append(reducer.waits(reducer.prepare(generic, unique, lanes)))

        seen: _Seen = set()
        for value, piece in sources:
            if value is not None:
                places = [_shifted(at, piece) for at in positions]
                with suppress(NeedsScalars):  # then each lane is prepared on its own
                    self._walk(value, places, lanes, compute, seen)
                    if also is not None:
                        also(value, places, lanes)
        return bool(waiting) and all(waiting)

    def visit_sums(
        self,
        sources: Sequence[Source],
        positions: Sequence[list[Linear]],
        lanes: int,
        visit: Visit,
    ) -> None:
        """Visit each reduction that `prepare` computes for some positions, with its elements.

        Raises NeedsScalars where each lane is prepared on its own.
        """
        seen: _Seen = set()
        for value, piece in sources:
            if value is not None:
                places = [_shifted(at, piece) for at in positions]
                self._walk(value, places, lanes, visit, seen)

    def root_positions(
        self, source: Source, positions: Sequence[list[Linear]], lanes: int
    ) -> list[list[Linear]]:
        """Which element of the one reduction below a source each result element comes from."""
        found: list[list[Linear]] = []
        self.visit_sums([source], positions, lanes, lambda generic, there: found.extend(there))
        assert len(found) == len(positions)  # `reduction_root` promises it
        return found

    def _walk(
        self, value: ir.Value, positions: list[list[Linear]], lanes: int, visit: Visit, seen: _Seen
    ) -> None:
        """Visit each reduction below `value` with the elements of it that `positions` need."""
        if not self.reduces(value):
            return
        key = value, tuple(map(tuple, positions))
        if key in seen:
            return
        seen.add(key)
        op = self._evaluator.op_of(value)
        assert op is not None  # as it reduces
        if op.name != "linalg.generic":
            if op.name in VIEWS:
                inner = [self._evaluator.view_coordinates(op, p, lanes) for p in positions]
                self._walk(op.operands[0], inner, lanes, visit, seen)
            return
        generic = self._evaluator.generic(op)
        if generic.accumulates:
            visit(generic, positions)
            return
        if generic.combination is not None:
            return  # it reads more elements than these positions: what is below waits for that
        for k, operand in enumerate(generic.operands):
            used = k < len(generic.inputs) or generic.init_used[k - len(generic.inputs)]
            if used and self.reduces(operand):
                inner = [
                    self._evaluator.coordinates(generic, k, generic.loop_dims(p), lanes)
                    for p in positions
                ]
                self._walk(operand, inner, lanes, visit, seen)

    def reduces(self, value: ir.Value) -> bool:
        """Whether there is a reduction below `value`, as far as `prepare` looks."""
        if value not in self._reducing:
            op = None if value in self._evaluator.buffers else self._evaluator.op_of(value)
            found = False
            if op is not None:
                if op.name == "linalg.generic":
                    generic = self._evaluator.generic(op)
                    found = generic.accumulates or any(map(self.reduces, generic.operands))
                elif op.name in VIEWS:
                    found = self.reduces(op.operands[0])
            self._reducing[value] = found
        return self._reducing[value]

    # -- one element, or a vector
    def values(self, sources: Sequence[Source], at: list[Linear], lanes: int) -> list[Val]:
        """What each source has at the coordinates `at` of its result."""
        values = []
        for value, piece in sources:
            if value is None:
                values.append(self._evaluator.body.scalar(piece.fill))
            else:
                values.append(self._evaluator.read(value, _shifted(at, piece), lanes))
        return [self._e.splat(value, lanes) for value in values]

    def store_all(
        self, values: Sequence[Val], output: Buffer, offsets: Sequence[Linear], lanes: int
    ) -> None:
        """Write several values of one result, each as `store` does; bytes that make a line as one
        vector.
        """
        line = self._line(values, offsets, lanes) if output.element == "i8" else None
        if line is not None:
            self.store(line, output, offsets[0], line.lanes)
            return
        for value, offset in zip(values, offsets, strict=True):
            self.store(value, output, offset, lanes)

    def _line(self, values: Sequence[Val], offsets: Sequence[Linear], lanes: int) -> Val | None:
        """Neighbouring vectors of bytes as one, where it is known what they were cut from."""
        first = offsets[0]
        if len(values) != VECTORS or not packs(self._e, lanes) or first.stride != 1:
            return None
        if any(offset != first + n * lanes for n, offset in enumerate(offsets)):
            return None
        for name, signed in (("extui", False), ("extsi", True)):
            wide = [w for v in values for kind, w in v.extended if kind == name]
            if [w.type for w in wide] == [type_name("i32", lanes)] * VECTORS:
                return packed(self._e, wide, signed=signed)
        return None

    def store(self, value: Val, output: Buffer, offset: Linear, lanes: int) -> None:
        """Write what a result has at `offset`, in elements. Raises CompilerError beyond its end."""
        first, stride = offset.first, offset.stride
        last = first.highest(self._e.ranges)
        if last is not None and (last := last + max(stride * (lanes - 1), 0)) >= output.size:
            raise CompilerError(f"kernel {self._name} would write element {last} of {output.size}")
        if not lanes or stride == 1:
            self._e.store(value, output.pointer, first)
            return
        for lane in range(lanes):
            self._e.store(self._e.lane(value, lane), output.pointer, offset.at_lane(lane))


def _shifted(at: list[Linear], piece: Piece) -> list[Linear]:
    """Where the value of a piece is read for an element of the result."""
    if not any(piece.shift):
        return at
    return [c + -s for c, s in zip(at, piece.shift, strict=True)]
