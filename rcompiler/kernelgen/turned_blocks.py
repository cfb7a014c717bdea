"""Blocks of memory that are read along their rows and turned in registers.

    vectors of a register tile: element (row r, lane l) = memory[start + r + stride * l]

Where vectors run across the rows of an operand, every one of them would be loaded element by
element. But neighbouring vectors of the tile hold neighbouring elements: one load for each lane
gets those of all of them, and interleaving the loads log2(n) times turns the n x n block.
"""

from __future__ import annotations

from collections.abc import Iterator

from torch_mlir import ir

from rcompiler.kernelgen.buffer import Buffer
from rcompiler.kernelgen.emitter import Emitter
from rcompiler.kernelgen.evaluate import Evaluator
from rcompiler.kernelgen.reader import NeedsScalars
from rcompiler.kernelgen.value import Val
from rcompiler.linalg.affine import Linear
from rcompiler.linalg.views import VIEWS

Coordinates = list[Linear]


class TurnedBlocks:
    """Reads what the vectors of a register tile need of operands that they run across."""

    def __init__(self, evaluator: Evaluator) -> None:
        self._evaluator = evaluator
        self.count = 0  # of blocks that were turned

    @property
    def _e(self) -> Emitter:
        return self._evaluator.emitter

    def prepare(self, value: ir.Value, positions: list[Coordinates], lanes: int) -> None:
        """Make known the elements of operands that `value` needs at `positions`.

        Only what every position reads is looked at: no guarded read, and nothing in reductions.
        """
        if lanes & -lanes > 1 and len(positions) > 1:
            if self._may_run_across(value, positions[0], lanes, set()):
                self._prepare(value, positions, lanes, set())

    def _may_run_across(
        self, value: ir.Value, at: Coordinates, lanes: int, met: set[object]
    ) -> bool:
        """Whether vectors run across the rows of an operand, as far as one of them tells: where
        elements lie is not asked of what writes code to answer, or answers each vector otherwise.
        """
        buffer = self._evaluator.buffers.get(value)
        if buffer is not None:
            return buffer.stride(at) not in (0, 1)
        key = value, tuple(at)
        op = self._evaluator.op_of(value)
        if op is None or key in met:
            return False
        met.add(key)
        if op.name == "tensor.extract_slice":
            inner = self._evaluator.view_coordinates(op, at, lanes)
            return self._may_run_across(op.operands[0], inner, lanes, met)
        if op.name != "linalg.generic":
            return op.name in VIEWS
        generic = self._evaluator.generic(op)
        if generic.reduction_dims:
            return False
        point = generic.loop_dims(at)
        return any(
            -1 in dims or self._may_run_across(operand, [point[d] for d in dims], lanes, met)
            for operand, dims in zip(generic.inputs, generic.dims, strict=False)
        )

    def _prepare(
        self, value: ir.Value, positions: list[Coordinates], lanes: int, met: set[object]
    ) -> None:
        """met: values with positions that were looked at; a graph may have very many paths."""
        buffer = self._evaluator.buffers.get(value)
        if buffer is not None:
            positions = [at for at in positions if buffer.stride(at) not in (0, 1)]
            if not positions:
                return
        key = value, tuple(map(tuple, positions))
        if key in met:
            return
        met.add(key)
        if buffer is not None:
            self._turn(value, buffer, positions, lanes)
            return
        op = self._evaluator.op_of(value)
        if op is None:
            return
        if op.name in VIEWS:
            inner = [self._evaluator.view_coordinates(op, at, lanes) for at in positions]
            self._prepare(op.operands[0], inner, lanes, met)
        elif op.name == "linalg.generic":
            generic = self._evaluator.generic(op)
            if generic.reduction_dims:
                return
            points = [generic.loop_dims(at) for at in positions]
            for k, operand in enumerate(generic.inputs):
                try:
                    inner = [self._evaluator.coordinates(generic, k, p, lanes) for p in points]
                except NeedsScalars:
                    continue
                self._prepare(operand, inner, lanes, met)

    def _turn(
        self, value: ir.Value, buffer: Buffer, positions: list[Coordinates], lanes: int
    ) -> None:
        for run in _runs(buffer, positions):
            self.count += 1
            while (rows := min(1 << len(run).bit_length() >> 1, lanes & -lanes)) > 1:
                for at, vector in zip(run, self._block(buffer, run[0], rows, lanes), strict=False):
                    key = self._evaluator.read_key(value, at, lanes)
                    depth = max(self._e.depth_of(vector.name), self._e.guard)
                    self._e.remember(key, vector, depth)
                run = run[rows:]

    def _block(self, buffer: Buffer, at: Coordinates, rows: int, lanes: int) -> list[Val]:
        """`rows` vectors of `lanes`, whose first elements follow each other in memory."""
        offset = buffer.offset(at)
        start, stride = offset.first, offset.stride
        loads = [
            self._e.load(
                buffer.pointer,
                buffer.element,
                start + stride * lane,
                rows,
                readonly=buffer.readonly,
            )
            for lane in range(lanes)
        ]
        blocks = [self._turned(loads[k : k + rows]) for k in range(0, lanes, rows)]
        return [self._joined([block[row] for block in blocks]) for row in range(rows)]

    def _turned(self, rows: list[Val]) -> list[Val]:
        """The columns of a square block."""
        half = len(rows) // 2
        low = [k // 2 + k % 2 * len(rows) for k in range(len(rows))]
        high = [k + half for k in low]
        for _ in range(half.bit_length()):
            pairs = list(zip(rows[:half], rows[half:], strict=True))
            rows = [self._e.shuffle(*pair, order) for pair in pairs for order in (low, high)]
        return rows

    def _joined(self, vectors: list[Val]) -> Val:
        """One vector after the other."""
        while len(vectors) > 1:
            pairs = zip(vectors[::2], vectors[1::2], strict=True)
            order = range(2 * vectors[0].lanes)
            vectors = [self._e.shuffle(a, b, order) for a, b in pairs]
        return vectors[0]


def _runs(buffer: Buffer, positions: list[Coordinates]) -> Iterator[list[Coordinates]]:
    """Positions whose elements follow each other in memory."""
    rows: dict[tuple[tuple[str, int], ...], dict[int, Coordinates]] = {}
    for at in positions:
        offset = buffer.offset(at)
        rows.setdefault(offset.terms, {})[offset.constant] = at
    for row in rows.values():
        run: list[Coordinates] = []
        for constant in sorted(row):
            if constant - 1 not in row and run:
                yield run
                run = []
            run.append(row[constant])
        yield run
