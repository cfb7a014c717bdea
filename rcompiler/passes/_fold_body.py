"""Bodies of elementwise generics evaluated with numpy, bit for bit as the target would.

Only ops whose result IEEE 754 fixes: numpy computes f16 and bf16 in f32 and rounds, which is
exact for + - * / and square root (f32 has more than twice their digits).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import ml_dtypes
import numpy as np
from torch_mlir import ir

_TYPES: dict[str, Any] = {
    "i1": np.bool_,
    "i8": np.int8,
    "i16": np.int16,
    "i32": np.int32,
    "i64": np.int64,
    "f16": np.float16,
    "bf16": ml_dtypes.bfloat16,
    "f32": np.float32,
    "f64": np.float64,
}
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


def numpy_type(element: ir.Type) -> np.dtype | None:
    """numpy dtype that stores an element type."""
    found = _TYPES.get(str(element))
    return None if found is None else np.dtype(found)


def scalar_of(value: ir.Value) -> Any:
    """The number of a scalar arith.constant as a numpy scalar of its type, else None."""
    if isinstance(value.owner, ir.Block) or value.owner.operation.name != "arith.constant":
        return None
    attribute = value.owner.operation.attributes["value"]
    dtype = numpy_type(value.type)
    if dtype is None or not isinstance(attribute, ir.FloatAttr | ir.IntegerAttr | ir.BoolAttr):
        return None
    return np.asarray(attribute.value).astype(dtype)[()]


def copied_argument(block: ir.Block) -> int | None:
    """Number of the block argument that a body of one yield copies."""
    ops = list(block.operations)
    if len(ops) != 1 or len(ops[0].operation.operands) != 1:
        return None
    arguments = list(block.arguments)
    value = ops[0].operation.operands[0]
    return arguments.index(value) if value in arguments else None


def evaluate(block: ir.Block, inputs: Sequence[np.ndarray]) -> tuple[np.ndarray, str] | None:
    """The yielded array and a text of the body independent of value names; None if the body has
    an op that is not evaluated here. ``inputs`` broadcast against each other."""
    known: dict[ir.Value, np.ndarray] = dict(zip(block.arguments, inputs, strict=False))
    names = {v: f"a{i}" for i, v in enumerate(block.arguments)}
    text: list[str] = []
    *body, terminator = [view.operation for view in block.operations]
    with np.errstate(all="ignore"):
        for number, op in enumerate(body):
            operands = [_look_up(known, names, v) for v in op.operands]
            if op.name == "arith.constant":
                continue
            made = (
                None if None in [n for n, _ in operands] else _apply(op, [a for _, a in operands])
            )
            if made is None:
                return None
            known[op.results[0]], names[op.results[0]] = made, f"t{number}"
            kind = op.results[0].type
            text.append(f"t{number} = {op.name} {', '.join(str(n) for n, _ in operands)} : {kind}")
    name, result = _look_up(known, names, terminator.operands[0])
    if name is None or len(terminator.operands) != 1:
        return None
    return result, "; ".join([*text, name])


def _look_up(
    known: dict[ir.Value, np.ndarray], names: dict[ir.Value, str], value: ir.Value
) -> tuple[str | None, Any]:
    if value in known:
        return names[value], known[value]
    scalar = scalar_of(value)
    if scalar is None:
        return None, None
    return f"{value.type} {scalar.tobytes().hex()}", np.asarray(scalar)


def _apply(op: ir.Operation, operands: list[np.ndarray]) -> np.ndarray | None:
    dtype = numpy_type(op.results[0].type) if len(op.results) == 1 else None
    if dtype is None:
        return None
    if op.name in _ARITHMETIC:
        return np.asarray(_ARITHMETIC[op.name](*operands)).astype(dtype, copy=False)
    if op.name not in _CASTS:
        return None
    [array] = operands
    if array.dtype.kind in "iu":  # the IR has no signs; the array may have any
        unsigned = op.name in ("arith.uitofp", "arith.extui")
        array = array.view(f"{'u' if unsigned else 'i'}{array.dtype.itemsize}")
    if array.dtype == np.bool_ and op.name in ("arith.extsi", "arith.sitofp"):
        return -array.astype(np.int8).astype(dtype)
    if dtype == np.bool_:
        return (array & 1).astype(dtype) if array.dtype.kind in "iu" else None
    return array.astype(dtype)
