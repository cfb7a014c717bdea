"""Boxes of tensors in the body of one rTask, whose positions are numbers: what slices take, and
which boxes of its operands a box of a result is computed from. Nothing is computed.

Positions are those of many points at once (`Points`): tasks, and turns of the loops in them.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping, Sequence

import numpy as np
from torch_mlir import ir

from rcompiler.dialects.task_body import THREADS
from rcompiler.errors import InvalidModel
from rcompiler.linalg.generic import Generic
from rcompiler.linalg.maps import dim_of
from rcompiler.linalg.values import defining, integer, integers, ops_of
from rcompiler.passes.tiles.box import sizes_of, slice_parts, type_of
from rcompiler.passes.tiles.indices import DYNAMIC
from rcompiler.passes.tiles.points import (
    Condition,
    Number,
    Points,
    Span,
    Spans,
    at_point,
    bounded,
    chosen,
    greatest,
    least,
    times,
)


class TaskErrors:
    """The errors that the body of a kernel has: what it does that it may not."""

    def __init__(self, kernel: str) -> None:
        self._kernel = kernel

    def wrong(self, what: str) -> InvalidModel:
        """Of the text, whatever the task."""
        return InvalidModel(
            f"rKernel @{self._kernel}: {what}; undo the edit, or make the kernels again from stage "
            "rtask"
        )

    def of_task(self, points: Points, where: int, does: str) -> InvalidModel:
        """Of what the task of a point does."""
        return self.wrong(f"task {[at_point(n, where) for n in points.task]} {does}")

    def check(self, points: Points, bad: Condition, does: str, *numbers: Number) -> None:
        """Raises InvalidModel for the first point of which `bad` holds; does: what its task does,
        to be formatted with what the numbers are there.
        """
        where = points.first(bad)
        if where is not None:
            there = (at_point(number, where) for number in numbers)
            raise self.of_task(points, where, does.format(*there))


class TaskBoxes:
    """Follows boxes through the ops of one body. All raise InvalidModel for a slice that leaves its
    tensor, and for an op that no body of a task has; OverflowError as `points.bounded`.
    """

    def __init__(
        self, errors: TaskErrors, block: ir.Block, stores: Container[ir.Operation]
    ) -> None:
        """block: the body; stores: what puts tiles into memory, other insertions are values."""
        self._errors, self._block, self._stores = errors, block, stores
        self._generics: dict[ir.Operation, Generic] = {}

    def number(self, value: ir.Value, points: Points) -> Number:
        """The position that an index value is."""
        if value in points.known:
            return points.known[value]
        op = defining(value)
        if op is None:
            raise self._errors.wrong(f"{value} is no position of a task")
        if op.name == "arith.constant":
            return bounded(integer(op, "value"))
        if op.name not in ("affine.apply", "affine.min", "affine.max"):
            raise self._errors.wrong(f"{op.name} cannot give a position of a task")
        dims = [(n, n + 1) for n in (self.number(v, points) for v in op.operands)]
        map_ = ir.AffineMapAttr(op.attributes["map"]).value
        found = [_span(e, dims)[0] for e in map_.results]
        return greatest(*found) if op.name == "affine.max" else least(*found)

    def holds(self, value: ir.Value, points: Points) -> Condition:
        """Whether two positions are equal, as the condition of a branch asks."""
        op = defining(value)
        if op is None or op.name != "arith.cmpi":
            raise self._errors.wrong(f"{value} is no condition of a task")
        if integer(op, "predicate") != 0:
            raise self._errors.wrong("a task branches where two positions are equal only")
        a, b = (self.number(v, points) for v in op.operands)
        return a == b

    def span_of(self, value: ir.Value, points: Points, spans: Mapping[ir.Value, Span]) -> Span:
        """The positions that a value can be."""
        if value in spans:
            return spans[value]
        op = defining(value)
        if op is None or op.name not in ("affine.apply", "affine.min", "affine.max"):
            number = self.number(value, points)
            return number, number + 1
        dims = [self.span_of(v, points, spans) for v in op.operands]
        map_ = ir.AffineMapAttr(op.attributes["map"]).value
        found = [_span(expression, dims) for expression in map_.results]
        extreme = greatest if op.name == "affine.max" else least
        return extreme(*(first for first, _ in found)), extreme(*(end for _, end in found))

    def slice_box(self, op: ir.Operation, points: Points, shape: Sequence[Number]) -> Spans:
        """The box of a slice of a tensor of that shape, in which it must lie; of points that are
        looked at at once, that of all of them.
        """
        return tuple(
            (first, chosen(size > 0, last + times(size - 1, step) + 1, first))
            for first, last, size, step in self._slice(op, points, shape)
        )

    def _slice(
        self, op: ir.Operation, points: Points, shape: Sequence[Number]
    ) -> list[tuple[Number, Number, Number, Number]]:
        """Of each dim of a slice the first and the last place where it begins, size and stride."""
        found = []
        starts, sizes, steps = slice_parts(op, lambda n: self._starts(n, points))
        for d, (start_span, size_span, step_span) in enumerate(
            zip(starts, sizes, steps, strict=True)
        ):
            (start, behind), size, step = start_span, self._one(size_span), self._one(step_span)
            last = behind - 1
            end = chosen(size > 0, last + times(size - 1, step) + 1, last)
            self._errors.check(
                points,
                (size < 0) | (start < 0) | (end > shape[d]),
                f"takes {{}} elements from {{}} on in dim {d} of a tensor of {{}}",
                size, chosen(start < 0, start, last), shape[d],
            )  # fmt: skip
            found.append((start, last, size, step))
        return found

    def _starts(self, number: int | ir.Value, points: Points) -> Span:
        if isinstance(number, int):
            return bounded(number), number + 1
        return self.span_of(number, points, points.spans)

    def _one(self, span: Span) -> Number:
        """The size or the stride that a span is."""
        start, end = span
        if np.any(end != start + 1):
            raise self._errors.wrong("a slice whose size differs from thread to thread")
        return start

    def _of(self, points: Points) -> Callable[[int | ir.Value], Number]:
        """What a number of an op is, or an index value that stands for one."""
        return lambda n: bounded(n) if isinstance(n, int) else self.number(n, points)

    def shape(self, value: ir.Value, points: Points) -> list[Number]:
        """The sizes of a tensor."""
        shape = list(type_of(value).shape)
        try:
            return sizes_of(value, self._of(points)) if DYNAMIC in shape else shape
        except ValueError as error:
            raise self._errors.wrong(str(error)) from None

    def sources(
        self, op: ir.Operation, number: int, box: Spans, points: Points
    ) -> Iterator[tuple[ir.Value, Spans]]:
        """The boxes of its operands that a box of a result is computed from, or more than that."""
        if op.name in ("scf.for", "scf.if", THREADS, "rtask.stage", "tensor.insert_slice"):
            if op.name == "tensor.insert_slice" and op.block == self._block:
                yield op.operands[1], box
            if op.name == "tensor.insert_slice" and op not in self._stores:
                yield op.operands[0], whole(self.shape(op.operands[0], points))
            return  # was looked at where it stands
        if op.name == "tensor.extract_slice":
            source = op.operands[0]
            shape = self.shape(source, points)
            steps = integers(op, "static_strides")
            if len(box) < len(shape):  # dims of one element are dropped
                yield source, self.slice_box(op, points, shape)
                return
            outer = self._slice(op, points, shape)
            yield (
                source,
                tuple(
                    (a + first * s, b + (last - 1) * s + 1)
                    for (a, b, _, _), (first, last), s in zip(outer, box, steps, strict=True)
                ),
            )
        elif op.name == "linalg.generic":
            yield from self._of_generic(op, number, box, points)
        elif op.name == "tensor.pad":
            source = op.operands[0]
            low = self._pads(op, points)
            shape = self.shape(source, points)
            yield (
                source,
                tuple(
                    (_clamped(a - n, size), _clamped(b - n, size))
                    for (a, b), n, size in zip(box, low, shape, strict=True)
                ),
            )
        elif op.name == "tensor.concat":
            axis = integer(op, "dim")
            first: Number = 0
            for operand in op.operands:
                size = self.shape(operand, points)[axis]
                own, (start, end) = list(box), box[axis]
                own[axis] = _clamped(start - first, size), _clamped(end - first, size)
                yield operand, tuple(own)
                first = first + size
        else:
            for operand in op.operands:
                if isinstance(operand.type, ir.RankedTensorType):
                    yield operand, whole(self.shape(operand, points))

    def _pads(self, op: ir.Operation, points: Points) -> list[Number]:
        dynamic, number = iter(list(op.operands)[1:]), self._of(points)
        return [number(next(dynamic) if n == DYNAMIC else n) for n in integers(op, "static_low")]

    def _of_generic(
        self, op: ir.Operation, number: int, box: Spans, points: Points
    ) -> Iterator[tuple[ir.Value, Spans]]:
        generic = self._generic(op)
        loops: list[Span] = [(0, 1)] * generic.maps[0].n_dims
        for value, dims in zip(generic.operands, generic.dims, strict=True):
            for size, dim in zip(self.shape(value, points), dims, strict=True):
                if dim >= 0:
                    loops[dim] = (0, size)
        for span, dim in zip(box, generic.dims[len(generic.inputs) + number], strict=True):
            if dim >= 0:
                loops[dim] = span
        for value, map_ in zip(generic.operands, generic.maps, strict=True):
            yield value, tuple(_span(e, loops) for e in map_.results)
        for inner in ops_of(generic.block):
            if inner.name == "tensor.extract":  # at positions that are computed
                yield inner.operands[0], whole(self.shape(inner.operands[0], points))

    def strides(self, op: ir.Operation, number: int, source: int) -> tuple[int, ...] | None:
        """How far apart in a source the elements lie that neighbours of a result are computed from,
        dim by dim, each from one alone; None if that is not so.
        """
        rank = type_of(op.results[number]).rank
        if op.name == "tensor.extract_slice":
            same = type_of(op.operands[0]).rank == rank
            return integers(op, "static_strides") if same else None
        if op.name != "linalg.generic":
            return (1,) * rank if op.name == "tensor.cast" else None
        generic = self._generic(op)
        if source >= len(generic.maps):
            return None  # at positions that are computed
        map_, written = generic.maps[source], generic.maps[len(generic.inputs) + number]
        identity = ir.AffineMap.get_identity(written.n_dims)
        if map_ == written == identity:
            return (1,) * rank
        if written != identity or len(map_.results) != rank:
            return None
        factors = [_factor(e, d) for d, e in enumerate(map_.results)]
        return None if None in factors else tuple(f for f in factors if f is not None)

    def _generic(self, op: ir.Operation) -> Generic:
        if op not in self._generics:
            self._generics[op] = Generic(op)
        return self._generics[op]


def whole(shape: Sequence[Number]) -> Spans:
    """The box of a whole tensor."""
    return tuple((0, n) for n in shape)


def _clamped(position: Number, size: Number) -> Number:
    return least(greatest(position, 0), size)


def _span(expression: ir.AffineExpr, dims: Sequence[Span]) -> Span:
    """The values that an expression can have for dims in spans: all of them, or more."""
    expression = expression.maybe_downcast()
    if isinstance(expression, ir.AffineDimExpr):
        return dims[expression.position]
    if isinstance(expression, ir.AffineConstantExpr):
        return bounded(expression.value), expression.value + 1
    assert isinstance(expression, ir.AffineBinaryExpr)
    (a, b), (c, d) = _span(expression.lhs, dims), _span(expression.rhs, dims)
    b, d = b - 1, d - 1
    if isinstance(expression, ir.AffineAddExpr):
        return bounded(a + c), bounded(b + d) + 1
    if isinstance(expression, ir.AffineMulExpr):
        ends = times(a, c), times(a, d), times(b, c), times(b, d)
        return least(*ends), greatest(*ends) + 1
    if isinstance(expression, ir.AffineModExpr):
        one = a // c == b // c  # panel
        return chosen(one, a % c, 0), chosen(one, b % c + 1, c)
    if isinstance(expression, ir.AffineFloorDivExpr):
        return a // c, b // c + 1
    return -(-a // c), -(-b // c) + 1


def _factor(expression: ir.AffineExpr, dim: int) -> int | None:
    """What a dim is multiplied by, where an expression is a multiple of that one; else None."""
    expression = expression.maybe_downcast()
    if isinstance(expression, ir.AffineDimExpr):
        return 1 if expression.position == dim else None
    if not isinstance(expression, ir.AffineMulExpr) or dim_of(expression.lhs) != dim:
        return None
    by = expression.rhs.maybe_downcast()
    return by.value if isinstance(by, ir.AffineConstantExpr) else None
