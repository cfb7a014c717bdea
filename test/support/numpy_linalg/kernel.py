"""The body of one rKernel: of a whole operator, or of one rTask."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from torch_mlir import ir

from numpy_linalg.interpret import Interpreter
from rcompiler.dialects import rtask

Arrays = Sequence[np.ndarray]


class Kernel:
    """An rtask.kernel, whose ops are read once.

    constants: the arrays of dense_resource by key. rng: orders what has no order.

    Attributes:
        is_task: whether the body is that of one rTask; else it is that of the whole operator.
        operands, results: the types of the tensors that it takes and makes.
    """

    def __init__(
        self,
        op: ir.Operation,
        constants: Mapping[str, np.ndarray],
        rng: np.random.Generator,
    ) -> None:
        self._block = op.regions[0].blocks[0]
        self._interpreter = Interpreter(constants, rng)
        self.is_task = rtask.is_task_body(self._block)
        types = [argument.type for argument in self._block.arguments]
        yielded = list(self._block.operations)[-1].operation.operands
        self.results = rtask.unpacked_types(yielded[0].type) if len(yielded) else []
        arguments = len(types) - (len(self.results) + 1 if self.is_task else 0)
        self.operands = types[:arguments]

    def whole(self, operands: Arrays) -> list[np.ndarray]:
        """The results of a body of the whole operator.

        Raises:
            IndexError, ValueError: it takes elements that are not there.
            NotImplementedError: an op that is not known here.
        """
        return self._run(operands)

    def task(self, operands: Arrays, results: Arrays, number: int) -> list[np.ndarray]:
        """The results after one rTask, from what they were before it; raises as `whole`."""
        return self._run([*operands, *results, np.asarray(number)])

    def _run(self, arguments: Arrays) -> list[np.ndarray]:
        """What rtask.yield takes: nothing, a tensor, or a tuple of them."""
        found = []
        for value in self._interpreter.run(self._block, arguments):
            found += value if isinstance(value, tuple) else [value]
        return found
