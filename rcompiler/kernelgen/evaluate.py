"""Pull evaluation: the value of a tensor element at symbolic coordinates, through the region back
to the operands.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from functools import partial

from torch_mlir import ir

from rcompiler.errors import CompilerError
from rcompiler.kernelgen.body import BodyEvaluator
from rcompiler.kernelgen.buffer import Buffer
from rcompiler.kernelgen.combination import Combiner
from rcompiler.kernelgen.emitter import Emitter
from rcompiler.kernelgen.lane_sums import vector_reducer
from rcompiler.kernelgen.prefetch import Prefetcher
from rcompiler.kernelgen.reader import NeedsScalars, Reader
from rcompiler.kernelgen.reduction import Reducer
from rcompiler.kernelgen.scratch import Scratch
from rcompiler.kernelgen.stack import StackSlots
from rcompiler.kernelgen.value import Val
from rcompiler.linalg.affine import LANE, Linear, lanes_differ
from rcompiler.linalg.element_types import item_bytes
from rcompiler.linalg.generic import Forms, Generic
from rcompiler.linalg.maps import Expression, compile_expression
from rcompiler.linalg.pieces import pad_value
from rcompiler.linalg.values import defining, element_of, integers, shape_of
from rcompiler.linalg.views import kept_dims, view_coordinates
from rcompiler.roller.vectors import WORD


class Evaluator:
    """Reads tensor elements of one rTask's region."""

    def __init__(
        self,
        emitter: Emitter,
        buffers: dict[ir.Value, Buffer],
        new_reducer: Callable[[Reader], Reducer] = vector_reducer,
        *,
        keeps_rows: bool = True,
        shuffles: bool = True,
    ) -> None:
        """new_reducer: makes what computes reductions, which reads its operands here; keeps_rows:
        whether expensive values wait on the task's stack (`scratch`); shuffles: whether one
        instruction takes lanes out of two vectors, as on CPUs.
        """
        self.emitter = emitter
        self.buffers = buffers
        self.body = BodyEvaluator(emitter, self.read, self.applied)
        self.slots = StackSlots(emitter)
        self.reducer = new_reducer(self)
        self.combiner = Combiner(self)
        self._generics: dict[ir.Operation, Generic] = {}
        self._forms = Forms()
        self._definitions: dict[ir.Value, ir.Operation | None] = {}
        self._elements: dict[ir.Value, Callable[[list[Linear], int], Val]] = {}
        self._maps: dict[ir.Attribute, list[Expression]] = {}
        self._rows = Scratch(self) if keeps_rows else None
        self.prefetcher = Prefetcher(emitter)
        self._shuffles = shuffles

    point = 0
    """Which of several points of a forall is computed: equal values differ from point to point."""

    def op_of(self, value: ir.Value) -> ir.Operation | None:
        """As `defining`, which is asked once."""
        if value not in self._definitions:
            self._definitions[value] = defining(value)
        return self._definitions[value]

    def depth(self, op: ir.Operation) -> int:
        """The loop that an op stands in: what it computes is not known further out."""
        return 0

    def around(self, op: ir.Operation) -> Sequence[Linear]:
        """As `Reader.around`: there is none."""
        return ()

    def moved(self, names: Mapping[str, str]) -> AbstractContextManager[None]:
        """As `Reader.moved`: there is none."""
        return nullcontext()

    def applied(self, op: ir.Operation, dims: Mapping[ir.Value, Linear], lanes: int) -> Linear:
        """What an affine.apply inside of a body computes; `dims`: those of its operands that are
        positions of the body's own loops.
        """
        self._lane_count = max(lanes, 1)
        [expression] = self.map_of(op)
        values = [dims[v] if v in dims else self.position_of(v) for v in op.operands]
        return expression(values, self.split)

    def map_of(self, op: ir.Operation) -> list[Expression]:
        """What an affine op computes of its operands; many ops have the same map."""
        attribute = op.attributes["map"]
        found = self._maps.get(attribute)
        if found is None:
            results = ir.AffineMapAttr(attribute).value.results
            found = self._maps[attribute] = list(map(compile_expression, results))
        return found

    def position_of(self, value: ir.Value) -> Linear:
        """A position that is computed outside of the body of an op."""
        raise CompilerError(f"{value}: no position of a whole operator")

    def generic(self, op: ir.Operation) -> Generic:
        if op not in self._generics:
            self._generics[op] = self._forms.of(op)
        return self._generics[op]

    # -- reading -----------------------------------------------------------------------------------
    def read(self, value: ir.Value, at: list[Linear], lanes: int) -> Val:
        """The element (or `lanes` elements, if a coordinate contains LANE) of `value`; a scalar if
        all lanes agree.
        """
        if lanes and not lanes_differ(at):
            lanes = 0
        key = self.read_key(value, at, lanes)
        return self.emitter.once(key, self._read, value, at, lanes)

    def read_key(self, value: ir.Value, at: list[Linear], lanes: int) -> tuple[object, ...]:
        """Under which the emitter remembers what is read."""
        return "read", self.point, value, tuple(at), lanes

    def _read(self, value: ir.Value, at: list[Linear], lanes: int) -> Val:
        buffer = self.buffers.get(value)
        if buffer is not None:
            return self.load(buffer, at, lanes)
        found = self._elements.get(value)
        if found is None:
            found = self._elements[value] = self._element(value)
        try:
            return found(at, lanes)
        except NeedsScalars:
            if not lanes:
                raise
            scalars = [self.read(value, [c.at_lane(k) for c in at], 0) for k in range(lanes)]
            return self.emitter.gather_lanes(scalars)

    def _element(self, value: ir.Value) -> Callable[[list[Linear], int], Val]:
        """What computes elements of the result of an op."""
        op = defining(value)
        if op is None:
            raise CompilerError(f"{value}: not an operand of the region")
        method = getattr(self, "_" + op.name.replace(".", "_"), None)
        if method is None:
            raise CompilerError(f"{op.location}: {op.name} cannot stand in an rTask body")
        return partial(method, op, list(op.results).index(value))

    def load(self, buffer: Buffer, at: list[Linear], lanes: int, steps: int = 1) -> Val:
        """The element at `at`, or `lanes` of them; `steps`: elements that are read as one."""
        offset = buffer.offset(at)
        stride = offset.stride if lanes else 0

        def load(offset: Linear, lanes: int) -> Val:
            return self.emitter.load(
                buffer.pointer, buffer.element, offset, lanes, readonly=buffer.readonly, steps=steps
            )

        plain = offset.first
        if stride == 0:
            self.prefetcher.broadcast(buffer, plain)
            return load(plain, 0)
        if stride == steps:
            self.prefetcher.vector(buffer, plain)
            return load(plain, lanes)
        if stride == 2 and steps == 1 and self._shuffles and item_bytes(buffer.element) >= WORD:
            # two vectors that end with the last element that is wanted, and every other lane
            self.prefetcher.vector(buffer, plain)
            first, second = load(plain, lanes), load(plain + (lanes - 1), lanes)
            order = [2 * k + (2 * k >= lanes) for k in range(lanes)]
            return self.emitter.shuffle(first, second, order)
        return self.emitter.gather_lanes([load(plain + stride * k, 0) for k in range(lanes)])

    def words(self, value: ir.Value, at: list[Linear], lanes: int, steps: int) -> Val:
        """`steps` consecutive elements of an operand as one integer, or of a slice or a reshape of
        one, see `dot_group`.
        """
        buffer, at = self._memory_of(value, at, lanes)
        return self.load(buffer, at, lanes, steps)

    def place_of(self, value: ir.Value, at: list[Linear], lanes: int) -> tuple[Buffer, Linear]:
        """Where an element of such an operand lies: the memory, and the elements in front of it."""
        buffer, at = self._memory_of(value, at, lanes)
        return buffer, buffer.offset(at)

    def _memory_of(
        self, value: ir.Value, at: list[Linear], lanes: int
    ) -> tuple[Buffer, list[Linear]]:
        """The memory of an operand that a slice or a reshape shows, and where an element is."""
        while (op := self.op_of(value)) is not None and op.name == "tensor.extract_slice":
            value, at = op.operands[0], self.view_coordinates(op, at, lanes)
        shape = shape_of(value)
        while value not in self.buffers:
            value = value.owner.operation.operands[0]
        buffer = self.buffers[value]
        return buffer if buffer.shape == shape else replace(buffer, shape=shape), at

    def split(self, value: Linear, divisor: int) -> tuple[Linear, Linear]:
        """Quotient (rounded down) and remainder of a coordinate by a constant."""
        e = self.emitter
        ranges = e.ranges
        ranges[LANE] = self._lane_count
        done = value.split(divisor, ranges)
        if done is not None:
            return done
        if value.stride:
            raise NeedsScalars
        steps = -(min(value.lowest(ranges), 0) // divisor)  # whole steps that make it positive
        value = value + steps * divisor
        number = e.number(value)
        quotient = e.div_unsigned(number, divisor)
        remainder = e.rem_unsigned(number, divisor)
        e.ranges[remainder.name] = divisor
        return quotient.symbol + -steps, remainder.symbol

    _lane_count = 1

    def coordinates(
        self, generic: Generic, operand: int, dims: list[Linear], lanes: int
    ) -> list[Linear]:
        """Where `operand` is read for the loop coordinates `dims`."""
        plain = generic.dims[operand]
        if -1 not in plain:
            return [dims[d] for d in plain]
        self._lane_count = lanes or 1
        return [expression(dims, self.split) for expression in generic.expressions[operand]]

    def operand(self, generic: Generic, k: int, dims: list[Linear], lanes: int) -> Val:
        """The value of an operand of `generic` for the loop coordinates `dims`.

        Remembered by the dims that the operand depends on: the positions of a register tile share
        most operands.
        """
        places = [dims[d] for d in generic.operand_dims[k]]
        key = ("operand", self.point, generic.op, k, lanes, *places)
        return self.emitter.once(key, self._operand, generic, k, dims, lanes)

    def _operand(self, generic: Generic, k: int, dims: list[Linear], lanes: int) -> Val:
        try:
            where = self.coordinates(generic, k, dims, lanes)
        except NeedsScalars:
            scalars = [
                self.operand(generic, k, [d.at_lane(n) for d in dims], 0) for n in range(lanes)
            ]
            return self.emitter.gather_lanes(scalars)
        return self.read(generic.operands[k], where, lanes)

    # -- region ops
    def _linalg_fill(self, op: ir.Operation, index: int, at: list[Linear], lanes: int) -> Val:
        return self.body.scalar(op.operands[0])

    def _tensor_empty(self, op: ir.Operation, index: int, at: list[Linear], lanes: int) -> Val:
        return self.emitter.constant(0, element_of(op.result))

    def _arith_constant(self, op: ir.Operation, index: int, at: list[Linear], lanes: int) -> Val:
        attribute = ir.DenseElementsAttr(op.attributes["value"])
        if not attribute.is_splat:
            raise CompilerError(
                f"{op.location}: a constant tensor of an rTask body must be an operand or a splat"
            )
        scalar = attribute.get_splat_value()
        element = element_of(op.result)
        number = ir.IntegerAttr(scalar).value if element[0] == "i" else ir.FloatAttr(scalar).value
        return self.emitter.constant(number, element)

    def _linalg_generic(self, op: ir.Operation, index: int, at: list[Linear], lanes: int) -> Val:
        generic = self.generic(op)
        if generic.combination is not None:
            return self.combiner.read(generic, generic.combination, at, lanes)
        if generic.reduction_dims:
            return self.reducer.reduce(generic, [at], lanes)[0][index]
        rows = self._rows if generic.outputs == 1 else None
        if rows is not None and (columns := rows.columns(generic)):
            kept = rows.read(generic, columns, at, lanes)
            if kept is not None:
                return kept
        return self.inline(generic, at, lanes)[index]

    def inline(self, generic: Generic, at: list[Linear], lanes: int) -> list[Val]:
        """All results of an elementwise generic at the result coordinates `at`."""
        dims = generic.loop_dims(at)
        arguments = []
        for k, element in enumerate(generic.elements):
            init = k - len(generic.inputs)
            if init >= 0 and not generic.init_used[init]:
                arguments.append(self.emitter.constant(0, element))
            else:
                arguments.append(self._operand(generic, k, dims, lanes))
        return self.body.run(generic.block, arguments, dims, lanes)

    def _tensor_extract_slice(
        self, op: ir.Operation, index: int, at: list[Linear], lanes: int
    ) -> Val:
        return self.read(op.operands[0], self.view_coordinates(op, at, lanes), lanes)

    _tensor_collapse_shape = _tensor_expand_shape = _tensor_extract_slice

    def _rtask_stage(self, op: ir.Operation, index: int, at: list[Linear], lanes: int) -> Val:
        """A stage that is not computed ahead is the value itself."""
        return self.read(op.operands[0], at, lanes)

    def view_coordinates(self, op: ir.Operation, at: list[Linear], lanes: int) -> list[Linear]:
        """Source coordinates of an element of an extract_slice, collapse_shape or expand_shape."""
        self._lane_count = max(lanes, 1)
        return view_coordinates(op, at, self.split)

    def _tensor_pad(self, op: ir.Operation, index: int, at: list[Linear], lanes: int) -> Val:
        low, source = integers(op, "static_low"), op.operands[0]
        where = [c + -offset for c, offset in zip(at, low, strict=True)]
        inside = self._inside(where, [(0, n) for n in shape_of(source)], shape_of(op.result), low)
        if inside is True:
            return self.read(source, where, lanes)
        fill = self.body.scalar(pad_value(op))
        return self._chosen(inside, lambda: self.read(source, where, lanes), lambda: fill, lanes)

    def _tensor_concat(self, op: ir.Operation, index: int, at: list[Linear], lanes: int) -> Val:
        axis = ir.IntegerAttr(op.attributes["dim"]).value
        return self._concat_from(list(op.operands), axis, at, lanes)

    def _concat_from(
        self, operands: list[ir.Value], axis: int, at: list[Linear], lanes: int
    ) -> Val:
        if len(operands) == 1:
            return self.read(operands[0], at, lanes)
        left, right = operands[: len(operands) // 2], operands[len(operands) // 2 :]
        first = sum(shape_of(operand)[axis] for operand in left)
        rest = list(at)
        rest[axis] = at[axis] + -first
        return self._chosen(
            self._below(at[axis], first),
            lambda: self._concat_from(left, axis, at, lanes),
            lambda: self._concat_from(right, axis, rest, lanes),
            lanes,
        )

    def _tensor_insert_slice(
        self, op: ir.Operation, index: int, at: list[Linear], lanes: int
    ) -> Val:
        source, into = op.operands
        inside, where = self._inserted_at(op, at, lanes)
        return self._chosen(
            inside,
            lambda: self.read(source, where, lanes),
            lambda: self.read(into, at, lanes),
            lanes,
        )

    def _chosen(
        self, test: str | bool, then: Callable[[], Val], other: Callable[[], Val], lanes: int
    ) -> Val:
        """One of two values, of which the other one is not read."""
        if isinstance(test, bool):
            return then() if test else other()

        def side(read: Callable[[], Val]) -> Callable[[], list[Val]]:
            return lambda: [self.emitter.splat(read(), lanes)]

        return self.emitter.branch(test, side(then), side(other))[0]

    def _inserted_at(
        self, op: ir.Operation, at: list[Linear], lanes: int
    ) -> tuple[str | bool, list[Linear]]:
        """Whether the element `at` comes from the inserted tensor, and its coordinates there."""
        offsets, sizes, strides = (
            integers(op, f"static_{n}") for n in ("offsets", "sizes", "strides")
        )
        kept = kept_dims(sizes, shape_of(op.operands[0]))
        self._lane_count = max(lanes, 1)
        tests: list[str | bool] = []
        where = []
        boxes = zip(at, offsets, sizes, strides, shape_of(op.result), strict=True)
        for d, (coordinate, offset, size, stride, extent) in enumerate(boxes):
            # whole strides in front, so that the division sees no negative number
            steps = -(-offset // stride)
            quotient, remainder = self.split(coordinate + (steps * stride - offset), stride)
            inner = quotient + -steps
            if stride > 1:
                tests.append(self._is_zero(remainder))
            if offset > 0:
                tests.append(self._negated(self._below(inner, 0)))
            if offset + size * stride < extent:
                tests.append(self._below(inner, size))
            if d in kept:
                where.append(inner)
        return self._all(tests), where

    # -- conditions --------------------------------------------------------------------------------
    def _below(self, value: Linear, bound: int) -> str | bool:
        """value < bound: decided now, or the name of an i1."""
        return value.constant < bound if value.is_constant else self._test("slt", value, bound)

    def _is_zero(self, value: Linear) -> str | bool:
        return value.constant == 0 if value.is_constant else self._test("eq", value, 0)

    def _test(self, predicate: str, value: Linear, bound: int) -> str:
        """The i1 of a comparison that is made when the code runs."""
        if value.stride:
            raise NeedsScalars
        return self.emitter.compare(predicate, value, bound).name

    def _inside(
        self,
        at: list[Linear],
        bounds: list[tuple[int, int]],
        padded: tuple[int, ...],
        low: tuple[int, ...],
    ) -> str | bool:
        tests: list[str | bool] = []
        for coordinate, (start, end), total, before in zip(at, bounds, padded, low, strict=True):
            if before > 0:
                tests.append(self._negated(self._below(coordinate, start)))
            if total - before > end:
                tests.append(self._below(coordinate, end))
        return self._all(tests)

    def _all(self, tests: list[str | bool]) -> str | bool:
        """The conjunction: decided now, or the name of an i1."""
        if any(test is False for test in tests):
            return False
        return self.emitter.all_of([test for test in tests if isinstance(test, str)]) or True

    def _negated(self, test: str | bool) -> str | bool:
        if isinstance(test, bool):
            return not test
        return self.emitter.bit_xor(Val(test, "i1"), True).name
