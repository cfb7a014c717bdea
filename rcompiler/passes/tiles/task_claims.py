"""What the body of one rTask reads and writes, for every task: against the tensors, and against
what the kernel says of its tasks.

The proof of a schedule rests on `reads` and `writes`. Of a body that was edited by hand both are
claims; here all tasks are walked through, positions as numbers and tensors as boxes: a slice that
leaves its tensor, an element of a result that two tasks or none write, and a box that a task is
said not to touch are found. So is an operand that may lie in the bytes of a result, and of which
another element is read than the one that is written there. Nothing is computed.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np
from torch_mlir import ir

from rcompiler.dialects.attributes import to_python
from rcompiler.dialects.rtask import operands_of
from rcompiler.errors import InvalidModel
from rcompiler.linalg.element_types import item_bytes
from rcompiler.linalg.generic import Generic
from rcompiler.linalg.maps import dim_of
from rcompiler.linalg.values import element_of, integers, shape_of, yielded
from rcompiler.passes.tiles.box import DYNAMIC, type_of

Span = tuple[int, int]  # the first coordinate, and the one behind the last
Spans = tuple[Span, ...]
Env = dict[ir.Value, int]

# What the body of a task consists of.
_DIALECTS = ("affine", "arith", "builtin", "linalg", "math", "rtask", "scf", "tensor")
_VECTORS = ("transfer_read", "transfer_write", "broadcast", "fma")
_PUT = ("tensor.insert_slice", "vector.transfer_write")  # a tile into operand 1


def check_task_body(kernel: ir.Operation) -> None:
    """Raises InvalidModel naming the kernel and what a task does that it may not."""
    _Tasks(kernel).check()


class _Tasks:
    """Walks through all tasks of one kernel."""

    def __init__(self, kernel: ir.Operation) -> None:
        self._name = ir.StringAttr(kernel.attributes["sym_name"]).value
        self._block = kernel.regions[0].blocks[0]
        self._grid = integers(kernel, "grid")
        results = yielded(self._block)
        operands = operands_of(self._block, len(results))
        *outs, self._task = list(self._block.arguments)[len(operands) :]
        self._operands = {a: k for k, a in enumerate(operands)}
        self._outs = {a: k for k, a in enumerate(outs)}
        self._written = [np.zeros(type_of(r).shape, np.uint8) for r in results]
        self._said = {name: to_python(kernel.attributes[name]) for name in ("reads", "writes")}
        self._at: tuple[int, ...] = ()
        self._seen: set[object] = set()
        self._generics: dict[ir.Operation, Generic] = {}
        pairs = to_python(kernel.attributes["in_place"]) if "in_place" in kernel.attributes else []
        # the operands that may lie in the bytes of each result
        self._in_place: dict[int, set[int]] = {}
        for operand, result in zip(pairs[::2], pairs[1::2], strict=False):
            self._in_place.setdefault(result, set()).add(operand)
        self._over = set().union(*self._in_place.values())
        self._place: tuple[int, Spans] = -1, ()  # the result, and where, of the tile looked at

    def check(self) -> None:
        self._check_ops(self._block)
        self._check_kept()
        for number in range(math.prod(self._grid)):
            self._at = tuple(int(n) for n in np.unravel_index(number, self._grid or (1,)))
            self._seen.clear()
            self._run(self._block, {self._task: number})
        for k, counts in enumerate(self._written):
            if counts.size and (counts != 1).any():
                where = [int(n) for n in np.argwhere(counts != 1)[0]]
                times = int(counts[tuple(where)])
                raise self._wrong(
                    f"element {where} of result {k} is written "
                    f"{'never' if not times else f'{times} times'}; tiles must cover a result once"
                )

    def _wrong(self, what: str) -> InvalidModel:
        return InvalidModel(
            f"rKernel @{self._name}: {what}; undo the edit, or make the kernels again from stage "
            "rtask"
        )

    # -- what the text says, whatever the task
    def _check_ops(self, block: ir.Block) -> None:
        for view in block.operations:
            op = view.operation
            dialect, _, short = op.name.partition(".")
            if dialect not in _DIALECTS and (dialect != "vector" or short not in _VECTORS):
                raise self._wrong(
                    f"{op.name} cannot stand in the body of a task; write it as linalg on slices "
                    f"of tensors, or with vector.{', vector.'.join(_VECTORS)}, arith and math"
                )
            if short.startswith("transfer"):
                self._check_transfer(op)
            for region in op.regions:
                for inner in region.blocks:
                    self._check_ops(inner)

    def _check_transfer(self, op: ir.Operation) -> None:
        """Whole vectors of neighbours in a row."""
        write = op.name == "vector.transfer_write"
        vector, tensor = op.operands[0] if write else op.result, op.operands[1 if write else 0]
        rank, lanes = type_of(tensor).rank, ir.VectorType(vector.type)
        map_ = ir.AffineMapAttr(op.attributes["permutation_map"]).value
        inside = [ir.BoolAttr(b).value for b in ir.ArrayAttr(op.attributes["in_bounds"])]
        masked = len(op.operands) > rank + 2
        if (
            lanes.rank != 1
            or not all(inside)
            or masked
            or not rank
            or dim_of(map_.results[0]) != rank - 1
        ):
            raise self._wrong(
                f"{op.name} moves vectors of one dim along the last dim of a tensor, in bounds and "
                "without a mask"
            )

    def _check_kept(self) -> None:
        """Every tile that is put into a result has to be in what the body yields."""
        kept: set[ir.Operation] = set()
        for value in yielded(self._block):
            self._keep(value, kept)
        for op in _insertions(self._block):
            result = None if op in kept else self._result(op.operands[1])
            if result is not None:
                raise self._wrong(
                    f"a tile is put into result {result}, and what is yielded does not have it; "
                    "yield the tensor that it was put into"
                )
            if self._in_place and op.name == "vector.transfer_write":
                raise self._wrong(
                    "'in_place' is not proved of a body in vectors, which reads operands at any "
                    "time; remove it, and give the result bytes of its own"
                )

    def _keep(self, value: ir.Value, kept: set[ir.Operation]) -> None:
        """Note the insertions that lead to a tensor."""
        while not isinstance(value.owner, ir.Block):
            op = value.owner.operation
            if op in kept:
                return
            number = list(op.results).index(value)
            if op.name in ("scf.for", "scf.if"):
                for region in op.regions:
                    self._keep(_yields(region, number), kept)
            if op.name in _PUT:
                kept.add(op)
                value = op.operands[1]
            elif op.name == "scf.for":
                value = op.operands[3 + number]
            else:
                return

    # -- control flow
    def _run(self, block: ir.Block, env: Env) -> None:
        for view in block.operations:
            op = view.operation
            if op.name == "scf.for" and not _carries_tensors(op):
                self._only_reads(op, env, {})
            elif op.name in ("vector.transfer_read", "tensor.extract"):
                self._read_numbers(op, env, {})
            elif op.name == "vector.transfer_write":
                self._write_vector(op, env)
            elif op.name == "scf.for":
                start, end, step = (self._number(v, env) for v in list(op.operands)[:3])
                if step < 1:
                    raise self._wrong(f"a loop has steps of {step}")
                inner = op.regions[0].blocks[0]
                for turn in range(start, end, step):
                    self._run(inner, {**env, inner.arguments[0]: turn})
            elif op.name == "scf.if":
                side = 0 if self._number(op.operands[0], env) else 1
                self._run(op.regions[side].blocks[0], env)
            elif op.name == "tensor.insert_slice":
                self._insert(op, env)
            elif op.name == "rtask.stage":
                self._need(op.operands[0], _whole(self._shape(op.operands[0], env)), env)

    def _number(self, value: ir.Value, env: Env) -> int:
        if value in env:
            return env[value]
        if isinstance(value.owner, ir.Block):
            raise self._wrong(f"{value} is no position of a task")
        op = value.owner.operation
        if op.name == "arith.constant":
            return ir.IntegerAttr(op.attributes["value"]).value
        if op.name == "arith.cmpi" and ir.IntegerAttr(op.attributes["predicate"]).value == 0:
            a, b = (self._number(v, env) for v in op.operands)
            return int(a == b)
        if op.name not in ("affine.apply", "affine.min", "affine.max"):
            raise self._wrong(f"{op.name} cannot give a position of a task")
        dims = [(n, n + 1) for n in (self._number(v, env) for v in op.operands)]
        map_ = ir.AffineMapAttr(op.attributes["map"]).value
        found = [_span(e, dims)[0] for e in map_.results]
        return max(found) if op.name == "affine.max" else min(found)

    # -- vectors
    def _only_reads(self, loop: ir.Operation, env: Env, spans: dict[ir.Value, Span]) -> None:
        """A loop that stores nothing: its reads at all of its positions at once."""
        start, end, step = (self._span_of(v, env, spans) for v in list(loop.operands)[:3])
        if step[0] < 1:
            raise self._wrong(f"a loop has steps of {step[0]}")
        turns = -(-(end[1] - 1 - start[0]) // step[0])
        if turns < 1:
            return
        last = start[1] - 1 + (turns - 1) * step[0]
        block = loop.regions[0].blocks[0]
        inner = {**spans, block.arguments[0]: (start[0], last + 1)}
        for view in block.operations:
            op = view.operation
            if op.name == "scf.for":
                self._only_reads(op, env, inner)
            elif op.name in ("vector.transfer_read", "tensor.extract"):
                self._read_numbers(op, env, inner)
            elif op.name == "scf.if":
                raise self._wrong("a loop that carries numbers only has a branch")

    def _read_numbers(self, op: ir.Operation, env: Env, spans: dict[ir.Value, Span]) -> None:
        source, *indices = op.operands
        self._need(source, self._lanes_at(op, source, indices, op.result, env, spans), env)
        while not isinstance(source.owner, ir.Block) and (
            source.owner.operation.name == "tensor.extract_slice"
        ):
            source = source.owner.operation.operands[0]
        if source not in self._operands:
            raise self._wrong(f"{op.name} reads what is no operand, nor a slice of one")

    def _write_vector(self, op: ir.Operation, env: Env) -> None:
        vector, into, *indices = op.operands
        box = self._lanes_at(op, into, indices, vector, env, {})
        result = self._result(into)
        if result is None:
            return
        self._said_so("writes", result, box, type_of(into).shape)
        counts = self._written[result][tuple(slice(a, b) for a, b in box)]
        np.minimum(counts + 1, 200, out=counts)

    def _lanes_at(
        self, op: ir.Operation, tensor: ir.Value, indices: Sequence[ir.Value], value: ir.Value,
        env: Env, spans: dict[ir.Value, Span],
    ) -> Spans:  # fmt: skip
        """The box that a number or a vector at some positions of a tensor is, in its bounds."""
        lanes = ir.VectorType(value.type).shape[0] if op.name != "tensor.extract" else 1
        shape = self._shape(tensor, env)
        box = [self._span_of(v, env, spans) for v in indices[: len(shape)]]
        if box:
            box[-1] = box[-1][0], box[-1][1] + lanes - 1
        for d, (start, end) in enumerate(box):
            if start < 0 or end > shape[d]:
                raise self._wrong(
                    f"task {list(self._at)}: {op.name} goes from {start} to {end - 1} in dim {d} "
                    f"of a tensor of {shape[d]}"
                )
        return tuple(box)

    def _span_of(self, value: ir.Value, env: Env, spans: dict[ir.Value, Span]) -> Span:
        """The positions that a value can be."""
        if value in spans:
            return spans[value]
        op = None if isinstance(value.owner, ir.Block) else value.owner.operation
        if op is None or op.name != "affine.apply":
            number = self._number(value, env)
            return number, number + 1
        [expression] = ir.AffineMapAttr(op.attributes["map"]).value.results
        return _span(expression, [self._span_of(v, env, spans) for v in op.operands])

    # -- boxes
    def _insert(self, op: ir.Operation, env: Env) -> None:
        tile, into = op.operands[0], op.operands[1]
        box = self._slice(op, env, list(type_of(into).shape))
        steps = integers(op, "static_strides")
        result = self._result(into)
        alike = result in self._in_place and set(steps) <= {1}
        self._place = (-1 if result is None else result), box
        self._need(tile, _whole(self._shape(tile, env)), env, alike)
        if result is None:
            return
        self._said_so("writes", result, box, type_of(into).shape)
        place = tuple(slice(a, b, s) for (a, b), s in zip(box, steps, strict=True))
        counts = self._written[result][place]
        np.minimum(counts + 1, 200, out=counts)

    def _result(self, value: ir.Value) -> int | None:
        """Which result a tensor is, with tiles in it or not."""
        while True:
            if value in self._outs:
                return self._outs[value]
            if isinstance(value.owner, ir.Block):
                block = value.owner
                owner = block.owner.operation
                if owner.name != "scf.for":
                    raise self._wrong("a tile is put into an operand")
                value = owner.operands[2 + list(block.arguments).index(value)]
                continue
            op = value.owner.operation
            number = list(op.results).index(value)
            if op.name in _PUT:
                value = op.operands[1]
            elif op.name == "scf.for":
                value = op.operands[3 + number]
            elif op.name == "scf.if":
                sides = {self._result(_yields(r, number)) for r in op.regions}
                if len(sides) > 1:
                    raise self._wrong("the sides of a branch give different results")
                return sides.pop()
            elif op.name == "tensor.empty":
                return None
            else:
                raise self._wrong(f"a tile is put into what {op.name} makes")

    def _said_so(self, name: str, number: int, box: Spans, shape: Sequence[int]) -> None:
        """Whether a box of an operand or result is in what the kernel says of the task."""
        for d, ((start, end), (axis, scale, offset, extent)) in enumerate(
            zip(box, self._said[name][number], strict=True)
        ):
            if axis < 0 or start >= end:
                continue
            first = scale * self._at[axis] + offset
            if start < max(first, 0) or end > min(first + extent, shape[d]):
                what = f"operand {number}" if name == "reads" else f"result {number}"
                raise self._wrong(
                    f"task {list(self._at)} touches {start} ... {end - 1} in dim {d} of {what}, "
                    f"and '{name}' says {first} ... {first + extent - 1}"
                )

    def _slice(self, op: ir.Operation, env: Env, shape: list[int]) -> Spans:
        """The box of a slice of a tensor of that shape, in which it must lie."""
        segments = list(ir.DenseI32ArrayAttr(op.attributes["operandSegmentSizes"]))
        dynamic = iter(list(op.operands)[sum(segments[:-3]) :])
        offsets, sizes, strides = (
            [self._number(next(dynamic), env) if n == DYNAMIC else n for n in integers(op, name)]
            for name in ("static_offsets", "static_sizes", "static_strides")
        )
        found = []
        for d, (start, size, step) in enumerate(zip(offsets, sizes, strides, strict=True)):
            end = start + (size - 1) * step + 1 if size > 0 else start
            if size < 0 or start < 0 or end > shape[d]:
                raise self._wrong(
                    f"task {list(self._at)} takes {size} elements from {start} on in dim {d} of a "
                    f"tensor of {shape[d]}"
                )
            found.append((start, end))
        return tuple(found)

    def _shape(self, value: ir.Value, env: Env) -> list[int]:
        """The sizes of a tensor in this task."""
        shape = list(type_of(value).shape)
        if DYNAMIC not in shape:
            return shape
        op = value.owner.operation
        if op.name == "tensor.empty":
            dynamic = iter(op.operands)
            return [self._number(next(dynamic), env) if n == DYNAMIC else n for n in shape]
        if op.name == "tensor.extract_slice":
            box = self._slice(op, env, self._shape(op.operands[0], env))
            steps = integers(op, "static_strides")
            sizes = [-(-(b - a) // s) for (a, b), s in zip(box, steps, strict=True)]
            return sizes if len(sizes) == len(shape) else [n for n in sizes if n != 1]
        if op.name in ("linalg.generic", "linalg.fill", "rtask.stage", "tensor.cast"):
            return self._shape(list(op.operands)[-len(op.results)], env)
        if op.name == "tensor.concat":
            axis = ir.IntegerAttr(op.attributes["dim"]).value
            shapes = [self._shape(v, env) for v in op.operands]
            shapes[0][axis] = sum(s[axis] for s in shapes)
            return shapes[0]
        raise self._wrong(f"{op.name} makes a tile of unknown size")

    def _need(self, value: ir.Value, box: Spans, env: Env, alike: bool = False) -> None:
        """Follow a box of a value back to the operands that it is computed from.

        alike: whether each element of the tile that is put into a result is computed from the
        element at its own place in this box only.
        """
        if isinstance(value.owner, ir.Block):
            if value in self._operands:
                number = self._operands[value]
                self._said_so("reads", number, box, type_of(value).shape)
                if number in self._over:
                    self._check_in_place(number, box, alike)
            return  # what other tiles wait in
        op = value.owner.operation
        place = self._place if self._over else None
        key = (value, box, alike, place, *(env[v] for v in env))
        if key in self._seen or any(start >= end for start, end in box):
            return
        self._seen.add(key)
        number = list(op.results).index(value)
        for k, (operand, own) in enumerate(self._sources(op, number, box, env)):
            self._need(operand, own, env, alike and self._keeps_places(op, number, k))

    def _keeps_places(self, op: ir.Operation, number: int, source: int) -> bool:
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

    def _check_in_place(self, operand: int, box: Spans, alike: bool) -> None:
        """What is read of an operand whose bytes the result may have taken is read where a tile is
        put, and for that tile alone: no element is read after it was written over.
        """
        result, place = self._place
        ours = operand in self._in_place.get(result, ())
        if ours and alike and box == place and self._same_bytes(operand, result):
            return
        [over] = {r for r, operands in self._in_place.items() if operand in operands} or {result}
        raise self._wrong(
            f"task {list(self._at)} reads {_printed(box)} of operand {operand} for "
            f"{f'{_printed(place)} of result {result}' if result >= 0 else 'a tile it keeps'}, and "
            f"'in_place' says that result {over} may lie in the same bytes; read only the elements "
            "that are written there, or remove 'in_place'"
        )

    def _same_bytes(self, operand: int, result: int) -> bool:
        """Whether equal places are equal bytes."""
        read, written = self._block.arguments[operand], yielded(self._block)[result]
        sizes = [item_bytes(element_of(value)) for value in (read, written)]
        return shape_of(read) == shape_of(written) and sizes[0] == sizes[1]

    def _sources(
        self, op: ir.Operation, number: int, box: Spans, env: Env
    ) -> Iterator[tuple[ir.Value, Spans]]:
        """The boxes of its operands that a box of a result is computed from, or more than that."""
        if op.name in ("scf.for", "scf.if", "rtask.stage", "tensor.insert_slice"):
            if op.name == "tensor.insert_slice" and op.block == self._block:
                yield op.operands[1], box
            return  # was looked at where it stands
        if op.name == "tensor.extract_slice":
            source = op.operands[0]
            outer = self._slice(op, env, self._shape(source, env))
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
            shape = self._shape(source, env)
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
                size = self._shape(operand, env)[axis]
                own = list(box)
                own[axis] = tuple(min(max(n - first, 0), size) for n in box[axis])
                yield operand, tuple(own)
                first += size
        else:
            for operand in op.operands:
                if isinstance(operand.type, ir.RankedTensorType):
                    yield operand, _whole(self._shape(operand, env))

    def _pads(self, op: ir.Operation, env: Env) -> list[int]:
        dynamic = iter(list(op.operands)[1:])
        low = integers(op, "static_low")
        return [self._number(next(dynamic), env) if n == DYNAMIC else n for n in low]

    def _generic(self, op: ir.Operation) -> Generic:
        if op not in self._generics:
            self._generics[op] = Generic(op)
        return self._generics[op]

    def _of_generic(
        self, op: ir.Operation, number: int, box: Spans, env: Env
    ) -> Iterator[tuple[ir.Value, Spans]]:
        generic = self._generic(op)
        loops: list[Span] = [(0, 1)] * generic.maps[0].n_dims
        for value, map_ in zip(generic.operands, generic.maps, strict=True):
            for size, expression in zip(self._shape(value, env), map_.results, strict=True):
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
                yield tensor, _whole(self._shape(tensor, env))


def _carries_tensors(loop: ir.Operation) -> bool:
    return any(isinstance(v.type, ir.RankedTensorType) for v in loop.results)


def _insertions(block: ir.Block) -> Iterator[ir.Operation]:
    """All that put tiles into tensors, in the loops of a block, too."""
    for view in block.operations:
        op = view.operation
        if op.name in _PUT:
            yield op
        elif op.name in ("scf.for", "scf.if"):
            for region in op.regions:
                for inner in region.blocks:
                    yield from _insertions(inner)


def _printed(box: Spans) -> str:
    return "[" + ", ".join(f"{a} ... {b - 1}" if b - a > 1 else str(a) for a, b in box) + "]"


def _whole(shape: Sequence[int]) -> Spans:
    return tuple((0, n) for n in shape)


def _yields(region: ir.Region, number: int) -> ir.Value:
    return list(region.blocks[0].operations)[-1].operation.operands[number]


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
