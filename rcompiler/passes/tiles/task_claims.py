"""What the body of one rTask reads and writes, for every task: against the tensors, and against
what the kernel says of its tasks.

The proof of a schedule rests on `reads` and `writes`. Of a body that was edited by hand both are
claims; here all tasks are walked through, positions as numbers and tensors as boxes, all turns of a
loop at the same time (`points`): a slice that leaves its tensor, an element of a result that two
tasks or none write, and a box that a task is said not to touch are found. So is an operand that may
lie in the bytes of a result, and of which another element is read than is written there. Nothing is
computed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
from torch_mlir import ir

from rcompiler.dialects.attributes import to_python
from rcompiler.dialects.rtask import operands_of
from rcompiler.dialects.task_body import BARRIER, IN_PARALLEL, MEMORY, PUT, THREADS, stores_in
from rcompiler.errors import InvalidModel
from rcompiler.linalg.element_types import item_bytes
from rcompiler.linalg.generic import LANE_DIM, Generic
from rcompiler.linalg.maps import dim_of
from rcompiler.linalg.shared_sums import AT_POSITION, GUARDS, LANES, guard_of, shared_in
from rcompiler.linalg.values import (
    defining,
    element_of,
    integers,
    ops_of,
    shape_of,
    string,
    yielded,
)
from rcompiler.passes.tiles.barrier_claims import check_barriers
from rcompiler.passes.tiles.box import type_of
from rcompiler.passes.tiles.needed_boxes import TaskBoxes, TaskErrors, whole
from rcompiler.passes.tiles.points import (
    Condition,
    Number,
    Points,
    Span,
    Spans,
    WriteCounts,
    at_point,
    bounded,
    greatest,
    least,
    picked,
    same_key,
    tasks,
    times,
)
from rcompiler.passes.tiles.thread_boxes import Forall

Place = tuple[int, Spans]  # the result that a tile is put into, and where


_DIALECTS = ("affine", "arith", "builtin", "linalg", "math", "rtask", "scf", "tensor")
_VECTORS = ("transfer_read", "transfer_write", "broadcast", "fma")


def check_task_body(kernel: ir.Operation) -> None:
    """Raises InvalidModel naming the kernel and what a task does that it may not."""
    errors = TaskErrors(string(kernel, "sym_name"))
    try:
        _Tasks(kernel, errors).check()
    except OverflowError:
        raise errors.wrong("it has a position that no tensor is large enough for") from None


class _Tasks:
    """Walks through all tasks of one kernel."""

    def __init__(self, kernel: ir.Operation, errors: TaskErrors) -> None:
        self._block, self._errors = kernel.regions[0].blocks[0], errors
        self._stores = stores_in(self._block)
        self._boxes = TaskBoxes(self._errors, self._block, self._stores)
        self._grid = integers(kernel, "grid")
        results = yielded(self._block)
        operands = operands_of(self._block, len(results))
        *outs, self._task = list(self._block.arguments)[len(operands) :]
        self._operands = {a: k for k, a in enumerate(operands)}
        self._outs = {a: k for k, a in enumerate(outs)}
        self._written = [WriteCounts(type_of(r).shape) for r in results]
        self._said = {name: to_python(kernel.attributes[name]) for name in ("reads", "writes")}
        self._seen: dict[object, Points] = {}  # what was looked at, and keeps its points
        self._parts: dict[object, Points] = {}
        pairs = to_python(kernel.attributes["in_place"]) if "in_place" in kernel.attributes else []
        # the operands that may lie in the bytes of each result
        self._in_place: dict[int, set[int]] = {}
        for operand, result in zip(pairs[::2], pairs[1::2], strict=False):
            self._in_place.setdefault(result, set()).add(operand)
        self._over = set().union(*self._in_place.values())

    def check(self) -> None:
        check_ops(self._block, self._errors)
        self._check_kept()
        self._check_shared()
        check_barriers(self._block, self._errors, self._result)
        for points in tasks(self._task, self._grid):
            self._run(self._block, points)
        for k, counts in enumerate(self._written):
            wrong = counts.first_not_once()
            if wrong is not None:
                where, count = wrong
                raise self._errors.wrong(
                    f"element {where} of result {k} is written "
                    f"{f'{count} times' if count else 'never'}; tiles must cover a result once"
                )

    # -- what the text says, whatever the task
    def _check_kept(self) -> None:
        """Every tile that is put into a result has to be in what the body yields."""
        kept: set[ir.Operation] = set()
        for value in yielded(self._block):
            self._keep(value, kept)
        for op in self._stores:
            result = None if op in kept else self._result(op.operands[1])
            if result is not None:
                raise self._errors.wrong(
                    f"a tile is put into result {result}, and what is yielded does not have it; "
                    "yield the tensor that it was put into"
                )
            if self._in_place and op.name == "vector.transfer_write":
                raise self._errors.wrong(
                    "'in_place' is not proved of a body in vectors, which reads operands at any "
                    "time; remove it, and give the result bytes of its own"
                )

    def _check_shared(self) -> None:
        """The lanes of a warp that share in a sum meet there: all of them have to come."""
        # what a tile takes the place of is read by those threads only that store an element
        guards = {*GUARDS, AT_POSITION} if self._in_place else GUARDS
        for op in shared_in(self._block):
            generic = Generic(op) if op.name == "linalg.generic" else None
            if generic is None or generic.lane_dim is None or generic.combiner is None:
                raise self._errors.wrong(
                    f"'{LANES}' of {op.name}: lanes share in a linalg.generic that combines "
                    f"neighbours along one dim, its '{LANE_DIM}', by one operation"
                )
            guard = guard_of(op, guards)
            if guard is not None:
                raise self._errors.wrong(
                    f"lanes share in a sum ('{LANES}') that {guard.name} may have computed by some "
                    f"of them only, and the others would wait; remove '{LANES}', and each lane "
                    "adds up its own"
                )

    def _keep(self, value: ir.Value, kept: set[ir.Operation]) -> None:
        """Note the insertions that lead to a tensor."""
        while (op := defining(value)) is not None:
            if op in kept:
                return
            number = list(op.results).index(value)
            if op.name in ("scf.for", "scf.if"):
                for region in op.regions:
                    self._keep(_yields(region, number), kept)
            if op.name == THREADS:
                carried = list(op.regions[0].blocks[0].arguments)[-len(op.results) + number]
                kept.update(use.owner.operation for use in carried.uses)
                value = list(op.operands)[-len(op.results) + number]
                continue
            if op.name in PUT:
                kept.add(op)
                value = op.operands[1]
            elif op.name == "scf.for":
                value = op.operands[3 + number]
            else:
                return

    # -- control flow
    def _run(self, block: ir.Block, points: Points) -> None:
        self._seen.clear()
        self._parts.clear()
        for op in ops_of(block):
            if op.name == "scf.for" and not _carries_tensors(op):
                self._only_reads(op, points, {})
            elif op.name in ("vector.transfer_read", "tensor.extract"):
                self._read_numbers(op, points, {})
            elif op.name == "vector.transfer_write":
                self._write_vector(op, points)
            elif op.name == "scf.for":
                start, end, step = (self._boxes.number(v, points) for v in list(op.operands)[:3])
                self._check_steps(points, step)
                inner = op.regions[0].blocks[0]
                for turns in points.turns(inner.arguments[0], start, end, step):
                    self._run(inner, turns)
            elif op.name == "scf.if":
                then = self._boxes.holds(op.operands[0], points)
                otherwise = ~then if isinstance(then, np.ndarray) else not then
                for region, side in zip(op.regions, (then, otherwise), strict=True):
                    own = points.where(side)
                    if own.count:
                        self._run(region.blocks[0], own)
            elif op.name == THREADS:
                self._share_out(op, points)
            elif op.name == "tensor.insert_slice" and op in self._stores:
                self._insert(op, points)
            elif op.name == "rtask.stage":
                tile = op.operands[0]
                self._need(tile, whole(self._boxes.shape(tile, points)), points)

    def _check_steps(self, points: Points, step: Number) -> None:
        self._errors.check(points, step < 1, "has a loop in steps of {}", step)

    # -- vectors
    def _only_reads(self, loop: ir.Operation, points: Points, spans: dict[ir.Value, Span]) -> None:
        """A loop that stores nothing: its reads at all of its positions at once."""
        start, end, step = (self._boxes.span_of(v, points, spans) for v in list(loop.operands)[:3])
        self._check_steps(points, step[0])
        turns = -(-(end[1] - 1 - start[0]) // step[0])
        some = points.where(turns >= 1)
        if some is not points:  # of some of them only, whose spans are other arrays
            if some.count:
                mask = np.asarray(turns >= 1)
                own = {v: _picked_span(span, mask) for v, span in spans.items()}
                self._only_reads(loop, some, own)
            return
        last = start[1] - 1 + (turns - 1) * step[0]
        block = loop.regions[0].blocks[0]
        inner = {**spans, block.arguments[0]: (start[0], last + 1)}
        for op in ops_of(block):
            if op.name == "scf.for":
                self._only_reads(op, points, inner)
            elif op.name in ("vector.transfer_read", "tensor.extract"):
                self._read_numbers(op, points, inner)
            elif op.name == "scf.if":
                raise self._errors.wrong("a loop that carries numbers only has a branch")

    def _read_numbers(self, op: ir.Operation, points: Points, spans: dict[ir.Value, Span]) -> None:
        source, *indices = op.operands
        self._need(source, self._lanes_at(op, source, indices, op.result, points, spans), points)
        while (made := defining(source)) is not None and made.name == "tensor.extract_slice":
            source = made.operands[0]
        if source not in self._operands:
            raise self._errors.wrong(f"{op.name} reads what is no operand, nor a slice of one")

    def _write_vector(self, op: ir.Operation, points: Points) -> None:
        vector, into, *indices = op.operands
        box = self._lanes_at(op, into, indices, vector, points, {})
        result = self._result(into)
        if result is None:
            return
        self._said_so("writes", result, box, type_of(into).shape, points)
        self._written[result].add(box, (1,) * len(box), points.count)

    def _lanes_at(
        self, op: ir.Operation, tensor: ir.Value, indices: Sequence[ir.Value], value: ir.Value,
        points: Points, spans: dict[ir.Value, Span],
    ) -> Spans:  # fmt: skip
        """The box that a number or a vector at some positions of a tensor is, in its bounds."""
        lanes = ir.VectorType(value.type).shape[0] if op.name != "tensor.extract" else 1
        shape = self._boxes.shape(tensor, points)
        box = [self._boxes.span_of(v, points, spans) for v in indices[: len(shape)]]
        if box:
            box[-1] = box[-1][0], box[-1][1] + lanes - 1
        for d, ((start, end), size) in enumerate(zip(box, shape, strict=True)):
            does = f"{op.name} goes from {{}} to {{}} in dim {d} of a tensor of {{}}"
            outside = (start < 0) | (end > size)
            self._errors.check(points, outside, does, start, end - 1, size)
        return tuple(box)

    # -- foralls
    def _share_out(self, op: ir.Operation, points: Points) -> None:
        """What the points of a forall read and write: of all of them at once, and point by point
        where that does not tell.
        """
        forall = Forall.of(op)
        if forall is None:
            raise self._errors.wrong("a forall of threads counts from 0 in steps of 1")
        for inner in ops_of(forall.inner):
            if inner.name == BARRIER or (
                inner.name.startswith("scf.") and inner.name != IN_PARALLEL
            ):
                raise self._errors.wrong(f"a forall of threads has {inner.name} in it")
        for number in range(len(forall.counts)):
            points = points.where(self._count(forall, number, points) > 0)
        if not points.count:
            return
        spans = {v: (0, self._count(forall, n, points)) for n, v in enumerate(forall.variables)}
        together = replace(points, spans=spans)
        for put in forall.puts:
            if forall.covers_once(put):
                box = self._box_of(put, together)
                self._write(put, together, box, (1,) * len(box))
            else:
                for each in self._each(forall, points):
                    self._write(put, each, self._box_of(put, each), integers(put, "static_strides"))
        linear = forall.is_linear()
        try:
            self._read_tiles(forall, together)
        except InvalidModel:
            linear = False  # perhaps the box of all of them has more than theirs
            for each in self._each(forall, points):
                self._read_tiles(forall, each)
        if self._over:
            # what is equal at one point, and one step of each dim further, is equal everywhere
            for each in self._steps(forall, points) if linear else self._each(forall, points):
                self._read_tiles(forall, each)

    def _read_tiles(self, forall: Forall, points: Points) -> None:
        for put in forall.puts:
            self._read_tile(put, points)

    def _count(self, forall: Forall, number: int, points: Points) -> Number:
        count = forall.counts[number]
        return count if isinstance(count, int) else self._boxes.number(count, points)

    def _each(self, forall: Forall, points: Points, number: int = 0) -> Iterator[Points]:
        """All points of a forall from one of its dims on, in groups that are not too large."""
        if number == len(forall.variables):
            yield points
            return
        count = self._count(forall, number, points)
        for turns in points.turns(forall.variables[number], 0, count, 1):
            yield from self._each(forall, turns, number + 1)

    def _steps(self, forall: Forall, points: Points) -> Iterator[Points]:
        """The first point of a forall, and those that are one step of one dim further."""
        first = {**points.known, **dict.fromkeys(forall.variables, 0)}
        yield replace(points, known=first)
        for number, variable in enumerate(forall.variables):
            longer = points.where(self._count(forall, number, points) > 1)
            if longer.count:
                known = {**longer.known, **dict.fromkeys(forall.variables, 0), variable: 1}
                yield replace(longer, known=known)

    # -- boxes
    def _insert(self, op: ir.Operation, points: Points) -> None:
        self._read_tile(op, points)
        self._write(op, points, self._box_of(op, points), integers(op, "static_strides"))

    def _box_of(self, op: ir.Operation, points: Points) -> Spans:
        return self._boxes.slice_box(op, points, list(type_of(op.operands[1]).shape))

    def _read_tile(self, op: ir.Operation, points: Points) -> None:
        """What the tile that is put into a tensor is computed from."""
        tile, result = op.operands[0], self._result(op.operands[1])
        apart = integers(op, "static_strides") if result in self._in_place else None
        place = -1 if result is None else result, self._box_of(op, points)
        self._need(tile, whole(self._boxes.shape(tile, points)), points, place, apart=apart)

    def _write(self, op: ir.Operation, points: Points, box: Spans, steps: Sequence[int]) -> None:
        into = op.operands[1]
        result = self._result(into)
        if result is None:
            return
        self._said_so("writes", result, box, type_of(into).shape, points)
        self._written[result].add(box, steps, points.count)

    def _result(self, value: ir.Value) -> int | None:
        """Which result a tensor is, with tiles in it or not."""
        while True:
            if value in self._outs:
                return self._outs[value]
            op = defining(value)
            if op is None:
                owner = value.owner.owner.operation
                if owner.name == THREADS:
                    behind = value.arg_number - len(list(value.owner.arguments))
                    value = list(owner.operands)[behind]
                    continue
                if owner.name != "scf.for":
                    raise self._errors.wrong("a tile is put into an operand")
                value = owner.operands[2 + value.arg_number]
                continue
            number = list(op.results).index(value)
            if op.name in PUT:
                value = op.operands[1]
            elif op.name == "scf.for":
                value = op.operands[3 + number]
            elif op.name == THREADS:
                value = list(op.operands)[-len(op.results) + number]
            elif op.name == "scf.if":
                sides = {self._result(_yields(r, number)) for r in op.regions}
                if len(sides) > 1:
                    raise self._errors.wrong("the sides of a branch give different results")
                return sides.pop()
            elif op.name in ("tensor.empty", MEMORY):
                return None
            else:
                raise self._errors.wrong(f"a tile is put into what {op.name} makes")

    def _said_so(
        self, name: str, number: int, box: Spans, shape: Sequence[int], points: Points
    ) -> None:
        """Whether a box of an operand or result is in what the kernel says of the task."""
        for d, ((start, end), (axis, scale, offset, extent)) in enumerate(
            zip(box, self._said[name][number], strict=True)
        ):
            if axis < 0:
                continue
            first = times(points.task[axis], scale) + bounded(offset)
            outside = (start < greatest(first, 0)) | (
                end > least(first + bounded(extent), shape[d])
            )
            what = f"operand {number}" if name == "reads" else f"result {number}"
            self._errors.check(
                points,
                (start < end) & outside,
                f"touches {{}} ... {{}} in dim {d} of {what}, and '{name}' says {{}} ... {{}}",
                start, end - 1, first, first + extent - 1,
            )  # fmt: skip

    def _need(
        self,
        value: ir.Value,
        box: Spans,
        points: Points,
        place: Place = (-1, ()),
        *,
        apart: tuple[int, ...] | None = None,
    ) -> None:
        """Follow a box of a value back to the operands that it is computed from.

        place: the result that the tile is put into, -1 for what a task keeps, and where. apart:
        where each element of the tile is computed from one of this box only, how far apart in the
        result neighbours of the box are put.
        """
        op = defining(value)
        if op is None:
            if value in self._operands:
                number = self._operands[value]
                self._said_so("reads", number, box, type_of(value).shape, points)
                if number in self._over and not points.spans:
                    self._check_in_place(number, box, points, place, apart)
            return  # what other tiles wait in
        points, box, place = self._of_any(box, points, place)
        where = place if self._over else (-1, ())
        key = (value, id(points), apart, where[0], _key(box), _key(where[1]))
        if key in self._seen or not points.count:
            return
        self._seen[key] = points
        number = list(op.results).index(value)
        for k, (operand, own) in enumerate(self._boxes.sources(op, number, box, points)):
            own_apart = None
            if apart is not None and (strides := self._boxes.strides(op, number, k)) is not None:
                own_apart = _divided(apart, strides)
            self._need(operand, own, points, place, apart=own_apart)

    def _of_any(self, box: Spans, points: Points, place: Place) -> tuple[Points, Spans, Place]:
        """The points at which a box has any element."""
        some: Condition = True
        for start, end in box:
            some = some & (start < end)
        if not isinstance(some, np.ndarray):
            return points.where(some), box, place
        if some.all():
            return points, box, place
        key = (id(points), some.tobytes())
        if key not in self._parts:
            self._parts[key] = points.taken(some)
        result, there = place
        own = tuple(_picked_span(span, some) for span in box)
        return self._parts[key], own, (result, tuple(_picked_span(span, some) for span in there))

    def _check_in_place(
        self,
        operand: int,
        box: Spans,
        points: Points,
        place: Place,
        apart: tuple[int, ...] | None,
    ) -> None:
        """What is read of an operand whose bytes the result may have taken is read where a tile is
        put, and for that tile alone: no element is read after it was written over.
        """
        result, there = place
        ours = operand in self._in_place.get(result, ())
        elsewhere: Condition = True
        alike = apart is not None and all(n == 1 for n in apart)
        if ours and alike and self._same_bytes(operand, result):
            elsewhere = False
            for (a, b), (c, d) in zip(box, there, strict=True):
                elsewhere = elsewhere | (a != c) | (b != d)
        where = points.first(elsewhere)
        if where is None:
            return
        [over] = {r for r, operands in self._in_place.items() if operand in operands} or {result}
        tile = f"{_printed(there, where)} of result {result}" if result >= 0 else "a tile it keeps"
        raise self._errors.of_task(
            points,
            where,
            f"reads {_printed(box, where)} of operand {operand} for {tile}, and 'in_place' says "
            f"that result {over} may lie in the same bytes; read only the elements that are "
            "written there, or remove 'in_place'",
        )

    def _same_bytes(self, operand: int, result: int) -> bool:
        """Whether equal places are equal bytes."""
        read, written = self._block.arguments[operand], yielded(self._block)[result]
        sizes = [item_bytes(element_of(value)) for value in (read, written)]
        return shape_of(read) == shape_of(written) and sizes[0] == sizes[1]


def _divided(apart: tuple[int, ...], strides: tuple[int, ...]) -> tuple[int, ...] | None:
    """How far apart what lies some strides apart is put, where neighbours are `apart`."""
    if any(n % stride for n, stride in zip(apart, strides, strict=True) if stride):
        return None
    return tuple(n // stride if stride else 0 for n, stride in zip(apart, strides, strict=True))


def _carries_tensors(loop: ir.Operation) -> bool:
    return any(isinstance(v.type, ir.RankedTensorType) for v in loop.results)


def _printed(box: Spans, where: int) -> str:
    """A box at one point."""
    found = [(at_point(a, where), at_point(b, where)) for a, b in box]
    return "[" + ", ".join(f"{a} ... {b - 1}" if b - a > 1 else str(a) for a, b in found) + "]"


def _picked_span(span: Span, which: np.ndarray) -> Span:
    start, end = span
    return picked(start, which), picked(end, which)


def _key(box: Spans) -> object:
    """Equal for equal boxes."""
    return tuple((same_key(a), same_key(b)) for a, b in box)


def _yields(region: ir.Region, number: int) -> ir.Value:
    """What a loop or branch hands on as its result of that number."""
    return ops_of(region.blocks[0])[-1].operands[number]


def check_ops(block: ir.Block, errors: TaskErrors) -> None:
    """Raises InvalidModel for an op, also in loops and branches, that no task can have."""
    for op in ops_of(block):
        dialect, _, short = op.name.partition(".")
        if (
            dialect not in _DIALECTS
            and op.name not in (MEMORY, BARRIER)
            and (dialect != "vector" or short not in _VECTORS)
        ):
            raise errors.wrong(
                f"{op.name} cannot stand in the body of a task; write it as linalg on slices "
                f"of tensors, or with vector.{', vector.'.join(_VECTORS)}, arith and math"
            )
        if short.startswith("transfer"):
            _check_transfer(op, errors)
        for region in op.regions:
            for inner in region.blocks:
                check_ops(inner, errors)


def _check_transfer(op: ir.Operation, errors: TaskErrors) -> None:
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
        raise errors.wrong(
            f"{op.name} moves vectors of one dim along the last dim of a tensor, in bounds and "
            "without a mask"
        )
