"""Boxes of tensors in the body of one rTask, whose positions are numbers: what slices take, and
which boxes of its operands a box of a result is computed from. Nothing is computed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from torch_mlir import ir

from rcompiler.errors import InvalidModel
from rcompiler.linalg.generic import Generic
from rcompiler.linalg.values import integers
from rcompiler.passes.tiles.box import DYNAMIC, type_of

Span = tuple[int, int]  # the first coordinate, and the one behind the last
Spans = tuple[Span, ...]
Env = dict[ir.Value, int]  # the number that each index is: the task, and the turns of loops


@dataclass
class Task:
    """Which task of which rKernel is looked at. at: its coordinates in the grid."""

    kernel: str
    at: tuple[int, ...] = ()

    def wrong(self, what: str) -> InvalidModel:
        """The error that a body has: what it does that it may not."""
        return InvalidModel(
            f"rKernel @{self.kernel}: {what}; undo the edit, or make the kernels again from stage "
            "rtask"
        )

    def wrong_here(self, what: str) -> InvalidModel:
        """The same of this task."""
        return self.wrong(f"task {list(self.at)} {what}")


class TaskBoxes:
    """Follows boxes through the ops of one body. All raise InvalidModel for a slice that leaves its
    tensor, and for an op that no body of a task has.
    """

    def __init__(self, task: Task, block: ir.Block) -> None:
        """task: the one that positions are of, which may change from call to call; block: the
        body.
        """
        self._task, self._block = task, block
        self._generics: dict[ir.Operation, Generic] = {}

    def number(self, value: ir.Value, env: Env) -> int:
        """The position that an index value is."""
        if value in env:
            return env[value]
        if isinstance(value.owner, ir.Block):
            raise self._task.wrong(f"{value} is no position of a task")
        op = value.owner.operation
        if op.name == "arith.constant":
            return ir.IntegerAttr(op.attributes["value"]).value
        if op.name == "arith.cmpi" and ir.IntegerAttr(op.attributes["predicate"]).value == 0:
            a, b = (self.number(v, env) for v in op.operands)
            return int(a == b)
        if op.name not in ("affine.apply", "affine.min", "affine.max"):
            raise self._task.wrong(f"{op.name} cannot give a position of a task")
        dims = [(n, n + 1) for n in (self.number(v, env) for v in op.operands)]
        map_ = ir.AffineMapAttr(op.attributes["map"]).value
        found = [_span(e, dims)[0] for e in map_.results]
        return max(found) if op.name == "affine.max" else min(found)

    def span_of(self, value: ir.Value, env: Env, spans: dict[ir.Value, Span]) -> Span:
        """The positions that a value can be."""
        if value in spans:
            return spans[value]
        op = None if isinstance(value.owner, ir.Block) else value.owner.operation
        if op is None or op.name != "affine.apply":
            number = self.number(value, env)
            return number, number + 1
        [expression] = ir.AffineMapAttr(op.attributes["map"]).value.results
        return _span(expression, [self.span_of(v, env, spans) for v in op.operands])

    def slice_box(self, op: ir.Operation, env: Env, shape: list[int]) -> Spans:
        """The box of a slice of a tensor of that shape, in which it must lie."""
        segments = list(ir.DenseI32ArrayAttr(op.attributes["operandSegmentSizes"]))
        dynamic = iter(list(op.operands)[sum(segments[:-3]) :])
        offsets, sizes, strides = (
            [self.number(next(dynamic), env) if n == DYNAMIC else n for n in integers(op, name)]
            for name in ("static_offsets", "static_sizes", "static_strides")
        )
        found = []
        for d, (start, size, step) in enumerate(zip(offsets, sizes, strides, strict=True)):
            end = start + (size - 1) * step + 1 if size > 0 else start
            if size < 0 or start < 0 or end > shape[d]:
                raise self._task.wrong_here(
                    f"takes {size} elements from {start} on in dim {d} of a tensor of {shape[d]}"
                )
            found.append((start, end))
        return tuple(found)

    def shape(self, value: ir.Value, env: Env) -> list[int]:
        """The sizes of a tensor in this task."""
        shape = list(type_of(value).shape)
        if DYNAMIC not in shape:
            return shape
        op = value.owner.operation
        if op.name == "tensor.empty":
            dynamic = iter(op.operands)
            return [self.number(next(dynamic), env) if n == DYNAMIC else n for n in shape]
        if op.name == "tensor.extract_slice":
            box = self.slice_box(op, env, self.shape(op.operands[0], env))
            steps = integers(op, "static_strides")
            sizes = [-(-(b - a) // s) for (a, b), s in zip(box, steps, strict=True)]
            return sizes if len(sizes) == len(shape) else [n for n in sizes if n != 1]
        if op.name in ("linalg.generic", "linalg.fill", "rtask.stage", "tensor.cast"):
            return self.shape(list(op.operands)[-len(op.results)], env)
        if op.name == "tensor.concat":
            axis = ir.IntegerAttr(op.attributes["dim"]).value
            shapes = [self.shape(v, env) for v in op.operands]
            shapes[0][axis] = sum(s[axis] for s in shapes)
            return shapes[0]
        raise self._task.wrong(f"{op.name} makes a tile of unknown size")

    def sources(
        self, op: ir.Operation, number: int, box: Spans, env: Env
    ) -> Iterator[tuple[ir.Value, Spans]]:
        """The boxes of its operands that a box of a result is computed from, or more than that."""
        if op.name in ("scf.for", "scf.if", "rtask.stage", "tensor.insert_slice"):
            if op.name == "tensor.insert_slice" and op.block == self._block:
                yield op.operands[1], box
            return  # was looked at where it stands
        if op.name == "tensor.extract_slice":
            source = op.operands[0]
            outer = self.slice_box(op, env, self.shape(source, env))
            steps = integers(op, "static_strides")
            if len(box) < len(outer):  # dims of one element are dropped
                yield source, outer
                return
            yield (
                source,
                tuple(
                    (a + first * s, a + (last - 1) * s + 1)
                    for (a, _), (first, last), s in zip(outer, box, steps, strict=True)
                ),
            )
        elif op.name == "linalg.generic":
            yield from self._of_generic(op, number, box, env)
        elif op.name == "tensor.pad":
            source = op.operands[0]
            low = self._pads(op, env)
            shape = self.shape(source, env)
            yield (
                source,
                tuple(
                    (min(max(a - n, 0), size), min(max(b - n, 0), size))
                    for (a, b), n, size in zip(box, low, shape, strict=True)
                ),
            )
        elif op.name == "tensor.concat":
            axis, first = ir.IntegerAttr(op.attributes["dim"]).value, 0
            for operand in op.operands:
                size = self.shape(operand, env)[axis]
                own = list(box)
                own[axis] = tuple(min(max(n - first, 0), size) for n in box[axis])
                yield operand, tuple(own)
                first += size
        else:
            for operand in op.operands:
                if isinstance(operand.type, ir.RankedTensorType):
                    yield operand, whole(self.shape(operand, env))

    def _pads(self, op: ir.Operation, env: Env) -> list[int]:
        dynamic = iter(list(op.operands)[1:])
        low = integers(op, "static_low")
        return [self.number(next(dynamic), env) if n == DYNAMIC else n for n in low]

    def _of_generic(
        self, op: ir.Operation, number: int, box: Spans, env: Env
    ) -> Iterator[tuple[ir.Value, Spans]]:
        generic = self._generic(op)
        loops: list[Span] = [(0, 1)] * generic.maps[0].n_dims
        for value, map_ in zip(generic.operands, generic.maps, strict=True):
            for size, expression in zip(self.shape(value, env), map_.results, strict=True):
                expression = expression.maybe_downcast()
                if isinstance(expression, ir.AffineDimExpr):
                    loops[expression.position] = (0, size)
        results = generic.maps[len(generic.inputs) + number].results
        for span, expression in zip(box, results, strict=True):
            expression = expression.maybe_downcast()
            if isinstance(expression, ir.AffineDimExpr):
                loops[expression.position] = span
        for value, map_ in zip(generic.operands, generic.maps, strict=True):
            yield value, tuple(_span(e, loops) for e in map_.results)
        for view in generic.block.operations:
            if view.operation.name == "tensor.extract":  # at positions that are computed
                tensor = view.operation.operands[0]
                yield tensor, whole(self.shape(tensor, env))

    def keeps_places(self, op: ir.Operation, number: int, source: int) -> bool:
        """Whether each element of a result is computed from the element at its own place of a
        source, moved as one box."""
        if op.name == "tensor.extract_slice":
            same = type_of(op.operands[0]).rank == type_of(op.result).rank
            return same and set(integers(op, "static_strides")) <= {1}
        if op.name != "linalg.generic":
            return op.name == "tensor.cast"
        generic = self._generic(op)
        if source >= len(generic.maps):
            return False  # at positions that are computed
        map_, written = generic.maps[source], generic.maps[len(generic.inputs) + number]
        return map_ == written == ir.AffineMap.get_identity(written.n_dims)

    def _generic(self, op: ir.Operation) -> Generic:
        if op not in self._generics:
            self._generics[op] = Generic(op)
        return self._generics[op]


def whole(shape: Sequence[int]) -> Spans:
    """The box of a whole tensor."""
    return tuple((0, n) for n in shape)


def _span(expression: ir.AffineExpr, dims: Sequence[Span]) -> Span:
    """The values that an expression can have for dims in spans: all of them, or more."""
    expression = expression.maybe_downcast()
    if isinstance(expression, ir.AffineDimExpr):
        return dims[expression.position]
    if isinstance(expression, ir.AffineConstantExpr):
        return expression.value, expression.value + 1
    assert isinstance(expression, ir.AffineBinaryExpr)
    (a, b), (c, d) = _span(expression.lhs, dims), _span(expression.rhs, dims)
    b, d = b - 1, d - 1
    if isinstance(expression, ir.AffineAddExpr):
        return a + c, b + d + 1
    if isinstance(expression, ir.AffineMulExpr):
        ends = a * c, a * d, b * c, b * d
        return min(ends), max(ends) + 1
    if isinstance(expression, ir.AffineModExpr):
        return (a % c, b % c + 1) if a // c == b // c else (0, c)
    if isinstance(expression, ir.AffineFloorDivExpr):
        return a // c, b // c + 1
    return -(-a // c), -(-b // c) + 1
