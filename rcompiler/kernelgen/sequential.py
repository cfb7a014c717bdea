"""Bodies that are one scf.for over tensors (scatter, sort, scans): run in order, updating the
result in place; or some of its iterations, where each has its own slab of the results.

The loop's initial tensors, but for empty ones, and those that it updates where they are, are copied
to the results first. Each
`tensor.insert` then writes the result buffer, so an older version of a tensor must not be read
after it was updated: such a body is refused, never miscompiled.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from torch_mlir import ir

from rcompiler.errors import CompilerError
from rcompiler.kernelgen.boxes import for_each_in
from rcompiler.kernelgen.buffer import Buffer
from rcompiler.kernelgen.emitter import Emitter
from rcompiler.kernelgen.evaluate import Evaluator
from rcompiler.kernelgen.tiling import Range
from rcompiler.kernelgen.value import Val
from rcompiler.linalg.affine import Linear
from rcompiler.linalg.independent_loops import UPDATES, Apart, loop_of


class SequentialWriter:
    """Writes the body of a sequential rTask: one iteration after the other, or several abreast that
    take the same way (`in_lockstep`). lanes: iterations of each of these members, in a vector.
    """

    def __init__(
        self, emitter: Emitter, evaluator: Evaluator, outputs: list[Buffer], lanes: int = 0
    ) -> None:
        self._e = emitter
        self._evaluator = evaluator
        self._outputs = outputs
        self._lanes = lanes
        self._members = 1
        self._scalars: dict[ir.Value, list[Val]] = {}  # of each member
        self._tensors: dict[ir.Value, Buffer] = {}
        self._stale: set[ir.Value] = set()

    def write(self, results: list[ir.Value]) -> None:
        """All results; each is a result of one and the same top-level loop."""
        self.copy(results, {})
        self._loop(self._bound(results), top=True)

    def copy(self, results: list[ir.Value], ranges: Mapping[int, Range]) -> None:
        """What the loop starts from, of some dims of the results only these ranges."""
        for init, output in self._copied(self._bound(results)):
            whole = [Range(Linear(), n, Linear(n)) for n in output.shape]
            self._copy(init, output, [ranges.get(d, own) for d, own in enumerate(whole)])

    def write_slabs(
        self, results: list[ir.Value], nest: Sequence[Apart], members: Sequence[Sequence[Linear]]
    ) -> None:
        """One iteration of each of `nest` (see `independent_loops`) for each of the members, which
        are where these are; their slabs of all results are copied already.
        """
        self._bound(results)
        self._members = len(members)
        self._iterate(nest, members)

    def _iterate(self, nest: Sequence[Apart], members: Sequence[Sequence[Linear]]) -> None:
        """One iteration of the outermost of the loops for each member."""
        apart, *inner = nest
        self._scalars[apart.iteration] = [
            Val(self._e.index(at.first), "i64", 0, at) for at, *_ in members
        ]
        rest = [list(places) for _, *places in members]
        yielded = self._block(apart.block, inner, rest)
        self._check_yield(apart.loop, list(apart.block.arguments)[1:], yielded)

    def _bound(self, results: list[ir.Value]) -> ir.Operation:
        """The loop, with its tensors bound to the outputs."""
        loop = loop_of(results)
        if loop is None:
            raise CompilerError(
                "a sequential rTask body must be one scf.for whose results it yields"
            )
        place = {list(loop.results).index(r): k for k, r in enumerate(results)}
        for k, init in enumerate(list(loop.operands)[3:]):
            if not _is_tensor(init):
                continue
            if k not in place:
                raise CompilerError(
                    f"{loop.location}: a sequential loop carries a tensor that is not a result"
                )
            self._tensors[loop.regions[0].blocks[0].arguments[k + 1]] = self._outputs[place[k]]
        return loop

    def _copied(self, loop: ir.Operation) -> list[tuple[ir.Value, Buffer]]:
        """The initial tensors that have elements, with what they are copied to."""
        if UPDATES in loop.attributes:
            return []
        arguments = list(loop.regions[0].blocks[0].arguments)[1:]
        pairs = zip(list(loop.operands)[3:], arguments, strict=True)
        return [
            (init, self._tensors[argument])
            for init, argument in pairs
            if _is_tensor(init) and not _is_empty(init)
        ]

    def _copy(self, init: ir.Value, output: Buffer, ranges: Sequence[Range]) -> None:
        """The box of these ranges."""

        def element(where: list[Linear], lanes: int) -> None:
            value = self._e.splat(self._evaluator.read(init, where, lanes), lanes)
            self._e.store(value, output.pointer, output.offset(where).first)

        for_each_in(self._e, ranges, element)

    # -- control flow ------------------------------------------------------------------------------
    def _loop(self, op: ir.Operation, *, top: bool = False) -> None:
        low, high, step, *inits = op.operands
        block = op.regions[0].blocks[0]
        arguments = list(block.arguments)[1:]
        if not top:
            self._bind_tensors(inits, arguments)
        carried = [k for k, v in enumerate(inits) if not _is_tensor(v)]
        width = self._symbol(step)
        if not width.is_constant:
            raise CompilerError(f"{op.location}: a sequential loop needs a constant step")

        def body(i: Linear, values: list[Val]) -> list[Val]:
            index = Val(self._e.index(i), "i64", 0, i)
            self._scalars[block.arguments[0]] = [index] * self._members
            self._share_out([arguments[k] for k in carried], values)
            yielded = self._block(block)
            self._check_yield(op, arguments, yielded)
            return self._wide([yielded[k] for k in carried])

        start = self._wide([inits[k] for k in carried])
        final = self._e.loop(self._symbol(low), self._symbol(high), width.constant, start, body)
        self._share_out([op.results[k] for k in carried], final)
        self._bind_results(op, arguments, inits)

    def _wide(self, values: list[ir.Value]) -> list[Val]:
        """What a loop carries of these for all members, in vectors where they are."""
        return [self._e.splat(one, self._lanes) for v in values for one in self._scalar(v)]

    def _share_out(self, values: list[ir.Value], carried: list[Val]) -> None:
        """Bind values to what a loop carries of them."""
        count = self._members
        for k, value in enumerate(values):
            self._scalars[value] = carried[k * count : (k + 1) * count]

    def _bind_results(
        self, op: ir.Operation, arguments: list[ir.Value], inits: list[ir.Value]
    ) -> None:
        for argument, init, result in zip(arguments, inits, op.results, strict=True):
            if _is_tensor(init):
                self._tensors[result] = self._tensors[argument]
                self._stale.add(init)

    def _bind_tensors(self, inits: list[ir.Value], arguments: list[ir.Value]) -> None:
        for init, argument in zip(inits, arguments, strict=True):
            if _is_tensor(init):
                self._tensors[argument] = self._tensor(init)
                self._stale.discard(argument)

    def _check_yield(
        self, op: ir.Operation, arguments: list[ir.Value], yielded: list[ir.Value]
    ) -> None:
        for argument, value in zip(arguments, yielded, strict=True):
            if _is_tensor(value) and self._tensor(value) is not self._tensors[argument]:
                raise CompilerError(
                    f"{op.location}: a sequential loop exchanges two tensors; that needs a copy"
                )

    def _if(self, op: ir.Operation) -> None:
        condition = self._scalar(op.operands[0])[0]  # members in lockstep have no branches
        scalars = [r for r in op.results if not _is_tensor(r)]
        buffers: list[Buffer | None] = [None] * len(op.results)

        def side(region: ir.Region) -> list[Val]:
            if not len(region.blocks):
                return []
            yielded = self._block(region.blocks[0])
            for k, value in enumerate(yielded):
                if _is_tensor(value):
                    buffer = self._tensor(value)
                    if buffers[k] not in (None, buffer):
                        raise CompilerError(
                            f"{op.location}: the sides of an scf.if yield different tensors"
                        )
                    buffers[k] = buffer
            return [self._scalar(v)[0] for v in yielded if not _is_tensor(v)]

        stale = set(self._stale)
        values = self._e.branch(
            condition.name,
            lambda: side(op.regions[0]),
            lambda: side(op.regions[1]) if len(op.regions) > 1 else [],
        )
        self._stale |= stale
        for result, value in zip(scalars, values, strict=True):
            self._scalars[result] = [value]
        for result, buffer in zip(op.results, buffers, strict=True):
            if buffer is not None:
                self._tensors[result] = buffer

    def _block(
        self,
        block: ir.Block,
        nest: Sequence[Apart] = (),
        members: Sequence[Sequence[Linear]] = (),
    ) -> list[ir.Value]:
        """What a block yields; of the loop inside that is the first of `nest` one iteration for
        each member.
        """
        for view in block.operations:
            op = view.operation
            match op.name:
                case "scf.yield":
                    return list(op.operands)
                case "scf.for" if nest and op == nest[0].loop:
                    inits, arguments = list(op.operands)[3:], list(nest[0].block.arguments)[1:]
                    self._bind_tensors(inits, arguments)
                    self._iterate(nest, members)
                    self._bind_results(op, arguments, inits)
                case "scf.for":
                    self._loop(op)
                case "scf.if":
                    self._if(op)
                case "tensor.extract":
                    tensor, *indices = op.operands
                    self._scalars[op.result] = [self._read(tensor, w) for w in self._where(indices)]
                case "tensor.insert":
                    scalar, tensor, *indices = op.operands
                    buffer = self._tensor(tensor)
                    pairs = zip(self._scalar(scalar), self._where(indices), strict=True)
                    for value, where in pairs:
                        offset = buffer.offset(where).first
                        self._e.store(self._e.splat(value, self._lanes), buffer.pointer, offset)
                    self._stale.add(tensor)
                    self._tensors[op.result] = buffer
                case _:
                    operands = [self._scalar(v) for v in op.operands]
                    self._scalars[op.result] = [
                        self._evaluator.body.op(op, [v[k] for v in operands])
                        for k in range(self._members)
                    ]
        return []

    # -- values ------------------------------------------------------------------------------------
    def _scalar(self, value: ir.Value) -> list[Val]:
        """Of each member."""
        if value in self._scalars:
            return self._scalars[value]
        return [self._evaluator.body.scalar(value)] * self._members

    def _symbol(self, value: ir.Value) -> Linear:
        """Of an index that all members have in common."""
        return self._scalar(value)[0].symbol

    def _where(self, indices: Sequence[ir.Value]) -> list[list[Linear]]:
        """The place of each member."""
        places = [[one.symbol for one in self._scalar(i)] for i in indices]
        return [[own[k] for own in places] for k in range(self._members)]

    def _tensor(self, value: ir.Value) -> Buffer:
        if value in self._stale:
            raise CompilerError(
                f"{value}: a sequential body reads a tensor after it was updated; that needs a copy"
            )
        if value not in self._tensors:
            raise CompilerError(
                f"{value}: a sequential body may update only the tensors that its loop carries"
            )
        return self._tensors[value]

    def _read(self, tensor: ir.Value, where: list[Linear]) -> Val:
        if tensor in self._tensors:
            return self._evaluator.load(self._tensor(tensor), where, self._lanes)
        return self._evaluator.read(tensor, where, self._lanes)


def has_plain_loops(block: ir.Block) -> bool:
    """Whether iterations of an innermost loop carry nothing but tensors, so that vectors may be
    possible.

    Bisections and merges carry numbers: LLVM would turn what they select into jumps, and they would
    take 1.3 times as long.
    """
    return any(all(map(_is_tensor, loop.results)) for loop in _innermost(block))


def carried_numbers(loop: ir.Operation) -> int:
    """The most numbers that a loop or one inside of it carries from step to step."""
    own = sum(not _is_tensor(r) for r in loop.results)
    inside = (view.operation for view in loop.regions[0].blocks[0].operations)
    return max([own, *(carried_numbers(op) for op in inside if op.name == "scf.for")])


def starts_empty(loop: ir.Operation) -> bool:
    """Whether a loop copies nothing to its results before it starts."""
    return all(_is_empty(v) for v in list(loop.operands)[3:] if _is_tensor(v))


def _innermost(block: ir.Block) -> Iterator[ir.Operation]:
    """The scf.for in a block that have none inside."""
    for view in block.operations:
        op = view.operation
        inner = [loop for region in op.regions for b in region.blocks for loop in _innermost(b)]
        yield from inner
        if op.name == "scf.for" and not inner:
            yield op


def _is_empty(value: ir.Value) -> bool:
    """Whether a tensor has no elements yet: the loop writes all of them."""
    return not isinstance(value.owner, ir.Block) and value.owner.operation.name == "tensor.empty"


def _is_tensor(value: ir.Value) -> bool:
    return isinstance(value.type, ir.RankedTensorType)
