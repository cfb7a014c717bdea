"""Small constant matrices times short vectors (`Combination`): straight code, all rows at once.

    linalg.generic {maps (i, x, k): (i, k), (x + k), (i, x)} ins(%matrix, %data)

The rows of one product share their work (`linear_map`), and the order of the op's own loops plays
no role: whoever needs one row has all rows computed from one load of each element. A chain of two
such ops (a 2-d transform) is so computed column by column and then row by row, as every hand would.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from torch_mlir import ir

from rcompiler.kernelgen.reader import NeedsScalars, Reader
from rcompiler.kernelgen.value import Val
from rcompiler.linalg.affine import Linear
from rcompiler.linalg.constants import scalar_of
from rcompiler.linalg.generic import Combination, Generic
from rcompiler.linalg.values import defining, element_of
from rcompiler.roller.linear_map import plan

_plan = cache(plan)


class Combiner:
    """Evaluates combinations at given result coordinates."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._e = reader.emitter

    def read(self, generic: Generic, form: Combination, at: list[Linear], lanes: int) -> Val:
        """The result element(s) at `at`."""
        reader, dims = self._reader, generic.loop_dims(at)
        row = reader.coordinates(generic, form.coefficients, dims, lanes)[form.row]
        if row.stride:
            raise NeedsScalars
        rows = self._rows(generic, form, dims, lanes)
        value = rows[row.constant] if row.is_constant else self._select(rows, row)
        if _is_zero(generic.inits[0]):
            return value
        start = self._e.splat(reader.read(generic.inits[0], at, lanes), value.lanes)
        value = self._e.splat(value, start.lanes)
        return self._e.add(start, value)

    def _select(self, rows: list[Val], row: Linear) -> Val:
        """The row of a number that is not known while the code is written: of a register tile that
        is no multiple of the matrix."""
        e, number = self._e, self._e.number(row)
        chosen = rows[0]
        for k, other in enumerate(rows[1:], 1):
            chosen = e.select(e.compare("eq", number, k), other, chosen)
        return chosen

    def _rows(
        self, generic: Generic, form: Combination, dims: list[Linear], lanes: int
    ) -> list[Val]:
        """All rows of the product that the loop coordinates `dims` belong to."""
        e, reader = self._e, self._reader
        points = [
            [Linear(k) if d == form.dim else c for d, c in enumerate(dims)]
            for k in range(len(form.matrix[0]))
        ]
        where = [reader.coordinates(generic, form.data, point, lanes) for point in points]
        key = ("rows", generic.op, lanes, *map(tuple, where))
        rows: list[Val] | None = e.recall(key)
        if rows is None:
            data = generic.operands[form.data]
            element = element_of(generic.inits[0])
            rows = self._multiply(form, element, lambda k: reader.read(data, where[k], lanes))
            e.remember(key, rows, max(e.depth_of(*(r.name for r in rows)), e.guard))
        return rows

    def _multiply(self, form: Combination, element: str, load: Callable[[int], Val]) -> list[Val]:
        steps = _plan(form.matrix, element[0] != "f")
        used = sorted({k for terms in steps.sums for k, _ in terms} | set(steps.outputs))
        values = {k: load(k) for k in used if k < steps.inputs}
        lanes = max((v.lanes for v in values.values()), default=0)
        values = {k: self._e.splat(v, lanes) for k, v in values.items()}
        for number, terms in enumerate(steps.sums, steps.inputs):
            values[number] = self._sum(terms, values, element, lanes)
        return [values[k] for k in steps.outputs]

    def _sum(
        self, terms: tuple[tuple[int, float], ...], values: dict[int, Val], element: str, lanes: int
    ) -> Val:
        e = self._e
        total: Val | None = None
        number = float if element[0] == "f" else int
        for k, coefficient in terms:
            value, factor = values[k], number(coefficient)
            if total is None and factor == 1.0:
                total = value
            elif total is None:
                total = e.mul(value, factor)
            elif abs(factor) == 1.0:
                total = e.add(total, value) if factor > 0 else e.sub(total, value)
            elif number is int:
                total = e.add(total, e.mul(value, factor))
            else:
                total = e.fma(value, factor, total)
        return total if total is not None else e.constant(number(0), element, lanes)


def _is_zero(init: ir.Value) -> bool:
    """Whether a tensor is filled with the constant 0."""
    op = defining(init)
    return op is not None and op.name == "linalg.fill" and scalar_of(op.operands[0]) == 0
