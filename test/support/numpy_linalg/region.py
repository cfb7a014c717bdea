"""The body of a linalg op as a list of functions of arrays."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from torch_mlir import ir

from numpy_linalg.elements import constant
from numpy_linalg.scalars import ASSOCIATIVE, scalar_function
from numpy_linalg.tensors import element


@dataclass(frozen=True)
class Step:
    """One op: a function of values by number, and the number of its result.

    associative: whether the order of many such ops does not matter, but for rounding.
    """

    function: Callable[..., np.ndarray]
    operands: tuple[int, ...]
    result: int
    associative: bool = False


class Region:
    """Values are numbered: those of the block's arguments come first.

    outer: values from outside of the body, with their numbers. indices: of each dim that
    linalg.index asks for, the numbers of its values.
    """

    def __init__(self, block: ir.Block) -> None:
        self._numbers: dict[ir.Value, int] = {a: k for k, a in enumerate(block.arguments)}
        self.outer: dict[ir.Value, int] = {}
        self.indices: dict[int, list[int]] = {}
        self.constants: dict[int, np.ndarray] = {}
        self.steps: list[Step] = []
        *body, last = [view.operation for view in block.operations]
        self._inside = {result for op in body for result in op.results}
        for op in body:
            self._read(op)
        self.yielded = [self._number(value) for value in last.operands]
        self.size = len(self._numbers)

    def dependent(self, sources: Sequence[int]) -> set[int]:
        """The numbers of values that depend on some of the arguments."""
        found = set(sources)
        for step in self.steps:
            if found.intersection(step.operands):
                found.add(step.result)
        return found

    def _number(self, value: ir.Value) -> int:
        if value not in self._numbers:
            self._numbers[value] = len(self._numbers)
            if value not in self._inside:
                self.outer[value] = self._numbers[value]
        return self._numbers[value]

    def _read(self, op: ir.Operation) -> None:
        operands = tuple(self._number(value) for value in op.operands)
        if op.name == "linalg.index":
            dim = ir.IntegerAttr(op.attributes["dim"]).value
            self.indices.setdefault(dim, []).append(self._number(op.result))
            return
        if op.name == "arith.constant":
            value = constant(op.attributes["value"], op.result.type, {})
            self.constants[self._number(op.result)] = value
            return
        function: Any = element if op.name == "tensor.extract" else scalar_function(op)
        if function is None:
            raise NotImplementedError(f"{op.name} in the body of a linalg op")
        associative = op.name in ASSOCIATIVE
        self.steps.append(Step(function, operands, self._number(op.result), associative))
