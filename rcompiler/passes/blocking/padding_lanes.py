"""Which numbers the padding lanes of a blocked tensor can hold.

A tensor [n, C, ...] blocked by `lanes` has lanes beyond C when C is no multiple. Their numbers
never reach a result, but a convolution multiplies them by zero weights, so they must be finite.
They start as zeros; the bodies that they go through are evaluated here on the few numbers that
can occur. None: not known.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from torch_mlir import ir

from rcompiler.linalg.constants import scalar_number
from rcompiler.linalg.generic import Generic
from rcompiler.linalg.values import integer, ops_of

Numbers = frozenset[float] | None
_MOST = 8  # numbers followed at once
_EXTREMES = ("arith.maximumf", "arith.minimumf", "arith.maxnumf", "arith.minnumf")

_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "arith.addf": lambda a, b: a + b,
    "arith.subf": lambda a, b: a - b,
    "arith.mulf": lambda a, b: a * b,
    "arith.divf": np.divide,
    "arith.negf": lambda a: -a,
    "arith.maximumf": np.maximum,
    "arith.minimumf": np.minimum,
    "arith.maxnumf": np.fmax,
    "arith.minnumf": np.fmin,
    "arith.select": lambda c, a, b: a if c else b,
    "math.absf": np.abs,
    "math.ceil": np.ceil,
    "math.erf": lambda a: np.float32(math.erf(a)),
    "math.erfc": lambda a: np.float32(math.erfc(a)),
    "math.exp": np.exp,
    "math.expm1": np.expm1,
    "math.floor": np.floor,
    "math.fma": lambda a, b, c: a * b + c,
    "math.log": np.log,
    "math.log1p": np.log1p,
    "math.powf": np.power,
    "math.rsqrt": lambda a: np.float32(1) / np.sqrt(a),
    "math.sqrt": np.sqrt,
    "math.tanh": np.tanh,
}
# arith.cmpf predicates 1..6 (ordered) and 8..13 (unordered) agree on numbers that are not NaN
_COMPARE: dict[int, Callable[[float, float], bool]] = {
    1: lambda a, b: a == b,
    2: lambda a, b: a > b,
    3: lambda a, b: a >= b,
    4: lambda a, b: a < b,
    5: lambda a, b: a <= b,
    6: lambda a, b: a != b,
}


def finite(numbers: Numbers) -> bool:
    """Whether zero times any of them is zero."""
    return numbers is not None and all(math.isfinite(x) for x in numbers)


def after(generic: Generic, operands: Sequence[Numbers]) -> list[Numbers]:
    """What the padding lanes of each result hold when those of the operands hold ``operands``."""
    if not generic.reduction_dims:
        return _outcomes(generic.block, operands)
    if generic.outputs != 1:
        return [None] * generic.outputs
    start = operands[-1]
    reached, previous = start, None
    while reached is not None and reached != previous:  # the accumulator takes every step
        previous = reached
        [step] = _outcomes(generic.block, [*operands[:-1], reached])
        reached = None if step is None or len(reached | step) > _MOST else reached | step
    if reached is not None and start is not None and generic.combiner in _EXTREMES:
        # -inf stays only where a window holds nothing but padding; there the real lanes are -inf
        rest = {x for x in reached - start if math.isfinite(x)}
        reached = frozenset(rest) if rest and not any(map(math.isfinite, start)) else reached
    return [reached]


def _outcomes(block: ir.Block, operands: Sequence[Numbers]) -> list[Numbers]:
    choices = [[None] if x is None else sorted(x) for x in operands]
    count = len(ops_of(block)[-1].operands)
    if math.prod(map(len, choices)) > _MOST**2:
        return [None] * count
    runs = [_run(block, combination) for combination in itertools.product(*choices)]
    found: list[Numbers] = []
    for k in range(count):
        held = [float(number) for run in runs if (number := run[k]) is not None]
        known = len(held) == len(runs) and len(set(held)) <= _MOST
        found.append(frozenset(held) if known else None)
    return found


def _run(block: ir.Block, arguments: Sequence[float | None]) -> list[float | None]:
    known: dict[ir.Value, Any] = {
        a: None if x is None else np.float32(x)
        for a, x in zip(block.arguments, arguments, strict=True)
    }
    *body, end = ops_of(block)
    with np.errstate(all="ignore"):
        for op in body:
            number = _apply(op, [known[v] if v in known else scalar_number(v) for v in op.operands])
            known.update(dict.fromkeys(op.results, number))
    return [known[v] if v in known else scalar_number(v) for v in end.operands]


def _apply(op: ir.Operation, operands: list[Any]) -> Any:
    if op.name == "arith.constant":
        number = scalar_number(op.results[0])
        return None if number is None else np.float32(number)
    if any(x is None for x in operands):
        return None
    if op.name == "arith.cmpf":
        predicate = integer(op, "predicate")
        compare = _COMPARE.get(predicate if predicate < 7 else predicate - 7)
        nan = any(math.isnan(x) for x in operands)
        return None if compare is None or nan else compare(*operands)
    function = _FUNCTIONS.get(op.name)
    return None if function is None else function(*operands)
