"""Bodies of elementwise generics evaluated with numpy, bit for bit as the target would.

Only ops whose result IEEE 754 fixes: numpy computes f16 and bf16 in f32 and rounds, which is
exact for + - * / and square root (f32 has more than twice their digits).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from torch_mlir import ir

from rcompiler.linalg.constants import scalar_of
from rcompiler.linalg.element_types import numpy_type

_ARITHMETIC: dict[str, Callable[..., np.ndarray]] = {
    "arith.addf": np.add,
    "arith.divf": np.divide,
    "arith.mulf": np.multiply,
    "arith.negf": np.negative,
    "arith.subf": np.subtract,
    "math.sqrt": np.sqrt,
}
_CASTS = ("arith.extf", "arith.truncf", "arith.sitofp", "arith.uitofp", "arith.extsi",
          "arith.extui", "arith.trunci")  # fmt: skip


@dataclass(frozen=True)
class Body:
    """An elementwise body as numpy functions, without the IR.

    steps: functions, each of values by number: first come the inputs, then the results of the
    steps. result: the number of the yielded value. text: the body, independent of value names.
    """

    steps: tuple[tuple[Callable[..., np.ndarray], tuple[int, ...]], ...]
    result: int
    text: str

    def __call__(self, *inputs: np.ndarray) -> np.ndarray:
        """The yielded array; inputs broadcast against each other."""
        values = list(inputs)
        with np.errstate(all="ignore"):
            for function, operands in self.steps:
                values.append(function(*(values[k] for k in operands)))
        return values[self.result]


def read_body(block: ir.Block, inputs: int) -> Body | None:
    """The body of a generic of so many inputs; None if it has an op that is not evaluated here, or
    uses the old elements of the result."""
    reader = _Reader(block, inputs)
    *body, terminator = [view.operation for view in block.operations]
    text: list[str] = []
    for number, op in enumerate(body):
        if op.name == "arith.constant":
            continue
        operands = [k for k in map(reader.number, op.operands) if k is not None]
        function = _function(op)
        if function is None or len(operands) != len(op.operands):
            return None
        named = ", ".join(reader.names[k] for k in operands)
        text.append(f"t{number} = {op.name} {named} : {op.results[0].type}")
        reader.append(op.results[0], function, operands, f"t{number}")
    result = reader.number(terminator.operands[0])
    if result is None or len(terminator.operands) != 1:
        return None
    return Body(tuple(reader.steps), result, "; ".join([*text, reader.names[result]]))


def is_float_cast(block: ir.Block) -> bool:
    """Whether a body is one cast of its first argument between f32 and f64."""
    if len(block.operations) != 2:
        return False
    [cast, terminator] = [view.operation for view in block.operations]
    if cast.name not in ("arith.extf", "arith.truncf"):
        return False
    [value] = cast.operands
    floats = all(isinstance(v.type, ir.F32Type | ir.F64Type) for v in (value, cast.results[0]))
    return (
        floats and value == block.arguments[0] and list(terminator.operands) == list(cast.results)
    )


class _Reader:
    """The values of a body by number, with their names and the steps that make them."""

    def __init__(self, block: ir.Block, inputs: int) -> None:
        self.names = [f"a{k}" for k in range(inputs)]
        self.steps: list[tuple[Callable[..., np.ndarray], tuple[int, ...]]] = []
        self._numbers = {v: k for k, v in enumerate(list(block.arguments)[:inputs])}

    def append(self, value: ir.Value, function: Any, operands: Sequence[int], name: str) -> None:
        self._numbers[value] = len(self.names)
        self.names.append(name)
        self.steps.append((function, tuple(operands)))

    def number(self, value: ir.Value) -> int | None:
        """Number of a value that is known; of a scalar constant when it is first met, too."""
        if value not in self._numbers:
            scalar = scalar_of(value)
            if scalar is None:
                return None
            name = f"{value.type} {scalar.tobytes().hex()}"
            self.append(value, partial(np.asarray, scalar), (), name)
        return self._numbers[value]


def _function(op: ir.Operation) -> Callable[..., np.ndarray] | None:
    """What makes the result of an op, as arrays of its type."""
    dtype = numpy_type(op.results[0].type) if len(op.results) == 1 else None
    if dtype is None:
        return None
    if op.name in _ARITHMETIC:
        return partial(_arithmetic, _ARITHMETIC[op.name], dtype)
    return partial(_cast, op.name, dtype) if op.name in _CASTS else None


def _arithmetic(
    function: Callable[..., np.ndarray], dtype: np.dtype, *operands: np.ndarray
) -> np.ndarray:
    return np.asarray(function(*operands)).astype(dtype, copy=False)


def _cast(name: str, dtype: np.dtype, array: np.ndarray) -> np.ndarray:
    if array.dtype.kind in "iu":  # the IR has no signs; the array may have any
        unsigned = name in ("arith.uitofp", "arith.extui")
        array = array.view(f"{'u' if unsigned else 'i'}{array.dtype.itemsize}")
    if array.dtype == np.bool_ and name in ("arith.extsi", "arith.sitofp"):
        return -array.astype(np.int8).astype(dtype)
    if dtype == np.bool_:  # of arith.trunci, whose operand is an integer
        array = array & 1
    return array.astype(dtype)
