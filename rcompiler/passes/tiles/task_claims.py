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
from rcompiler.linalg.element_types import item_bytes
from rcompiler.linalg.maps import dim_of
from rcompiler.linalg.values import element_of, integers, shape_of, yielded
from rcompiler.passes.tiles.box import type_of
from rcompiler.passes.tiles.needed_boxes import Env, Span, Spans, Task, TaskBoxes, whole

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
        self._block = kernel.regions[0].blocks[0]
        self._current = Task(ir.StringAttr(kernel.attributes["sym_name"]).value)
        self._boxes = TaskBoxes(self._current, self._block)
        self._grid = integers(kernel, "grid")
        results = yielded(self._block)
        operands = operands_of(self._block, len(results))
        *outs, self._task = list(self._block.arguments)[len(operands) :]
        self._operands = {a: k for k, a in enumerate(operands)}
        self._outs = {a: k for k, a in enumerate(outs)}
        self._written = [np.zeros(type_of(r).shape, np.uint8) for r in results]
        self._said = {name: to_python(kernel.attributes[name]) for name in ("reads", "writes")}
        self._seen: set[object] = set()
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
            self._current.at = tuple(int(n) for n in np.unravel_index(number, self._grid or (1,)))
            self._seen.clear()
            self._run(self._block, {self._task: number})
        for k, counts in enumerate(self._written):
            if counts.size and (counts != 1).any():
                where = [int(n) for n in np.argwhere(counts != 1)[0]]
                times = int(counts[tuple(where)])
                raise self._current.wrong(
                    f"element {where} of result {k} is written "
                    f"{'never' if not times else f'{times} times'}; tiles must cover a result once"
                )

    # -- what the text says, whatever the task
    def _check_ops(self, block: ir.Block) -> None:
        for view in block.operations:
            op = view.operation
            dialect, _, short = op.name.partition(".")
            if dialect not in _DIALECTS and (dialect != "vector" or short not in _VECTORS):
                raise self._current.wrong(
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
            raise self._current.wrong(
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
                raise self._current.wrong(
                    f"a tile is put into result {result}, and what is yielded does not have it; "
                    "yield the tensor that it was put into"
                )
            if self._in_place and op.name == "vector.transfer_write":
                raise self._current.wrong(
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
                start, end, step = (self._boxes.number(v, env) for v in list(op.operands)[:3])
                if step < 1:
                    raise self._current.wrong(f"a loop has steps of {step}")
                inner = op.regions[0].blocks[0]
                for turn in range(start, end, step):
                    self._run(inner, {**env, inner.arguments[0]: turn})
            elif op.name == "scf.if":
                side = 0 if self._boxes.number(op.operands[0], env) else 1
                self._run(op.regions[side].blocks[0], env)
            elif op.name == "tensor.insert_slice":
                self._insert(op, env)
            elif op.name == "rtask.stage":
                self._need(op.operands[0], whole(self._boxes.shape(op.operands[0], env)), env)

    # -- vectors
    def _only_reads(self, loop: ir.Operation, env: Env, spans: dict[ir.Value, Span]) -> None:
        """A loop that stores nothing: its reads at all of its positions at once."""
        start, end, step = (self._boxes.span_of(v, env, spans) for v in list(loop.operands)[:3])
        if step[0] < 1:
            raise self._current.wrong(f"a loop has steps of {step[0]}")
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
                raise self._current.wrong("a loop that carries numbers only has a branch")

    def _read_numbers(self, op: ir.Operation, env: Env, spans: dict[ir.Value, Span]) -> None:
        source, *indices = op.operands
        self._need(source, self._lanes_at(op, source, indices, op.result, env, spans), env)
        while not isinstance(source.owner, ir.Block) and (
            source.owner.operation.name == "tensor.extract_slice"
        ):
            source = source.owner.operation.operands[0]
        if source not in self._operands:
            raise self._current.wrong(f"{op.name} reads what is no operand, nor a slice of one")

    def _write_vector(self, op: ir.Operation, env: Env) -> None:
        vector, into, *indices = op.operands
        box = self._lanes_at(op, into, indices, vector, env, {})
        result = self._result(into)
        if result is None:
            return
        self._said_so("writes", result, box, type_of(into).shape)
        self._count(result, tuple(slice(a, b) for a, b in box))

    def _lanes_at(
        self, op: ir.Operation, tensor: ir.Value, indices: Sequence[ir.Value], value: ir.Value,
        env: Env, spans: dict[ir.Value, Span],
    ) -> Spans:  # fmt: skip
        """The box that a number or a vector at some positions of a tensor is, in its bounds."""
        lanes = ir.VectorType(value.type).shape[0] if op.name != "tensor.extract" else 1
        shape = self._boxes.shape(tensor, env)
        box = [self._boxes.span_of(v, env, spans) for v in indices[: len(shape)]]
        if box:
            box[-1] = box[-1][0], box[-1][1] + lanes - 1
        for d, (start, end) in enumerate(box):
            if start < 0 or end > shape[d]:
                raise self._current.wrong(
                    f"task {list(self._current.at)}: {op.name} goes from {start} to {end - 1} in "
                    f"dim {d} of a tensor of {shape[d]}"
                )
        return tuple(box)

    # -- boxes
    def _insert(self, op: ir.Operation, env: Env) -> None:
        tile, into = op.operands[0], op.operands[1]
        box = self._boxes.slice_box(op, env, list(type_of(into).shape))
        steps = integers(op, "static_strides")
        result = self._result(into)
        alike = result in self._in_place and set(steps) <= {1}
        self._place = (-1 if result is None else result), box
        self._need(tile, whole(self._boxes.shape(tile, env)), env, alike)
        if result is None:
            return
        self._said_so("writes", result, box, type_of(into).shape)
        place = tuple(slice(a, b, s) for (a, b), s in zip(box, steps, strict=True))
        self._count(result, place)

    def _count(self, result: int, place: tuple[slice, ...]) -> None:
        """Note that some elements of a result are written once more."""
        counts = self._written[result]
        counts[place] = np.minimum(counts[place] + 1, 200)

    def _result(self, value: ir.Value) -> int | None:
        """Which result a tensor is, with tiles in it or not."""
        while True:
            if value in self._outs:
                return self._outs[value]
            if isinstance(value.owner, ir.Block):
                block = value.owner
                owner = block.owner.operation
                if owner.name != "scf.for":
                    raise self._current.wrong("a tile is put into an operand")
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
                    raise self._current.wrong("the sides of a branch give different results")
                return sides.pop()
            elif op.name == "tensor.empty":
                return None
            else:
                raise self._current.wrong(f"a tile is put into what {op.name} makes")

    def _said_so(self, name: str, number: int, box: Spans, shape: Sequence[int]) -> None:
        """Whether a box of an operand or result is in what the kernel says of the task."""
        for d, ((start, end), (axis, scale, offset, extent)) in enumerate(
            zip(box, self._said[name][number], strict=True)
        ):
            if axis < 0 or start >= end:
                continue
            first = scale * self._current.at[axis] + offset
            if start < max(first, 0) or end > min(first + extent, shape[d]):
                what = f"operand {number}" if name == "reads" else f"result {number}"
                raise self._current.wrong_here(
                    f"touches {start} ... {end - 1} in dim {d} of {what}, "
                    f"and '{name}' says {first} ... {first + extent - 1}"
                )

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
        for k, (operand, own) in enumerate(self._boxes.sources(op, number, box, env)):
            self._need(operand, own, env, alike and self._boxes.keeps_places(op, number, k))

    def _check_in_place(self, operand: int, box: Spans, alike: bool) -> None:
        """What is read of an operand whose bytes the result may have taken is read where a tile is
        put, and for that tile alone: no element is read after it was written over.
        """
        result, place = self._place
        ours = operand in self._in_place.get(result, ())
        if ours and alike and box == place and self._same_bytes(operand, result):
            return
        [over] = {r for r, operands in self._in_place.items() if operand in operands} or {result}
        raise self._current.wrong_here(
            f"reads {_printed(box)} of operand {operand} for "
            f"{f'{_printed(place)} of result {result}' if result >= 0 else 'a tile it keeps'}, and "
            f"'in_place' says that result {over} may lie in the same bytes; read only the elements "
            "that are written there, or remove 'in_place'"
        )

    def _same_bytes(self, operand: int, result: int) -> bool:
        """Whether equal places are equal bytes."""
        read, written = self._block.arguments[operand], yielded(self._block)[result]
        sizes = [item_bytes(element_of(value)) for value in (read, written)]
        return shape_of(read) == shape_of(written) and sizes[0] == sizes[1]


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


def _yields(region: ir.Region, number: int) -> ir.Value:
    return list(region.blocks[0].operations)[-1].operation.operands[number]
