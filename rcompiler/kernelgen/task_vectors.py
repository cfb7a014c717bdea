"""Numbers and vectors in the body of one rTask, as who writes a kernel by hand computes with them.

The passes write linalg on tiles, of which code generation chooses the vectors. A kernel that
somebody brings along may name its vectors itself: vector.transfer_read of an operand or a slice of
one, arith, math and vector.fma on what was read, sums in vectors that loops carry, and
vector.transfer_write into a result. What is read is read where it is used: operands do not change
while a task runs.
"""

from __future__ import annotations

from collections.abc import Sequence

from torch_mlir import ir

from rcompiler.errors import CompilerError
from rcompiler.kernelgen.evaluate import Evaluator
from rcompiler.kernelgen.value import Val
from rcompiler.linalg.affine import LANE, Linear
from rcompiler.linalg.element_types import element_name


class TaskVectors:
    """The values of numbers and vectors of a task."""

    def __init__(self, evaluator: Evaluator) -> None:
        self._evaluator = evaluator
        self._carried: dict[ir.Value, Val] = {}

    def put(self, value: ir.Value, val: Val) -> None:
        """Note what a loop carries, or results in."""
        self._carried[value] = val

    def value(self, value: ir.Value) -> Val:
        """A number or a vector, computed where the code is written now."""
        if value in self._carried:
            return self._carried[value]
        if isinstance(value.owner, ir.Block):
            raise CompilerError(f"{value}: no number that a task knows")
        op = value.owner.operation
        return self._evaluator.emitter.once(("number", value), lambda: self._compute(op))

    def positions(self, indices: Sequence[ir.Value], lanes: int) -> list[Linear]:
        """Coordinates of `lanes` elements in a row of a tensor; 0: of one element."""
        at = [self._evaluator.position_of(index) for index in indices]
        return [*at[:-1], at[-1] + Linear.of(LANE)] if lanes else at

    def _compute(self, op: ir.Operation) -> Val:
        lanes = lanes_of(op.result.type)
        if op.name == "vector.transfer_read":
            rank = len(ir.RankedTensorType(op.operands[0].type).shape)
            at = self.positions(list(op.operands)[1 : 1 + rank], lanes)
            return self._wide(self._evaluator.read(op.operands[0], at, lanes), lanes)
        if op.name == "tensor.extract":
            tensor, *indices = op.operands
            return self._evaluator.read(tensor, self.positions(indices, 0), 0)
        if op.name == "arith.constant" and lanes:
            return self._splat_of(op, lanes)
        operands = [self.value(v) for v in op.operands]
        if op.name == "vector.broadcast":
            return self._wide(operands[0], lanes)
        if op.name == "vector.fma":
            return self._evaluator.emitter.fma(*operands)
        return self._evaluator.body.op(op, operands)

    def _wide(self, value: Val, lanes: int) -> Val:
        return self._evaluator.emitter.splat(value, lanes)

    def _splat_of(self, op: ir.Operation, lanes: int) -> Val:
        attribute = ir.DenseElementsAttr(op.attributes["value"])
        if not attribute.is_splat:
            raise CompilerError(f"{op.location}: a constant vector has one number in all lanes")
        scalar, element = attribute.get_splat_value(), element_name(op.result.type)
        whole = element[0] == "i"
        number = ir.IntegerAttr(scalar).value if whole else ir.FloatAttr(scalar).value
        return self._evaluator.emitter.constant(number, element, lanes)


def lanes_of(type_: ir.Type) -> int:
    """Lanes of a vector; 0 for a number. Raises CompilerError for a vector of several dims."""
    if not isinstance(type_, ir.VectorType):
        return 0
    if type_.rank != 1 or type_.scalable:
        raise CompilerError(f"{type_}: a task computes with vectors of one dim")
    return type_.shape[0]
