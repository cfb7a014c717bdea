"""What the results of an operator must be, and whether a kernel computes them.

Two checks. All tilings of an operator give the same bits (`kernelgen/reduction.py`), so a kernel
has to agree with the scalar, untiled one in every bit. And that one has to agree with a
computation in f64 of the same body, within the error of its operations:

    |x - y| <= eps * (operations on the way to one result) * max |y|      Higham, 2002, §3.1

The inputs are small multiples of a power of two, whose sums of products have no error at all, so a
wrong element of a contraction is off by more than that.
"""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Sequence

import ml_dtypes
import numpy as np
from torch_mlir import ir

from rcompiler.errors import WrongKernel
from rcompiler.roller.decision import Decision
from rcompiler.roller.expr import TensorExpr

_HEX = re.compile(r"\b0x([0-9A-F]{8})( : |> : tensor<(?:\d+x)*)f32\b")
_FLOAT = re.compile(r"(?<![A-Za-z_%@.])f32\b|(?<=x)f32\b")
_SLACK = 64.0  # operations that are not counted: functions, epilogues


def untiled(expr: TensorExpr) -> Decision:
    """One task, one element at a time."""
    sizes = expr.extents
    ones = (1,) * len(sizes)
    return Decision(
        tile=sizes, grid=ones, register_tile=ones, vector_dim=-1, vector_reduction=-1, lanes=1,
        reduction_unroll=(1,) * len(expr.reduction), order=tuple(range(len(sizes))),
        reduction_tile=(), tasks=1, estimated_ns=0.0, on_chip_bytes=0, registers=0,
    )  # fmt: skip


def widened(kernel: ir.Operation) -> str | None:
    """The text of a kernel in f64; None for a body that computes in another type than f32."""
    text = str(kernel.get_asm(use_local_scope=True, enable_debug_info=False))
    if re.search(r"\b(x?f16|x?bf16|x?f64)\b", text.partition("}) {")[0]):
        return None
    return _FLOAT.sub("f64", _HEX.sub(_wide_bits, text))


def _wide_bits(found: re.Match[str]) -> str:
    [value] = struct.unpack(">f", bytes.fromhex(found[1]))
    return f"0x{struct.pack('>d', value).hex().upper()}{found[2]}f64"


def check_bits(outputs: Sequence[np.ndarray], expected: Sequence[np.ndarray], name: str) -> None:
    """Raises WrongKernel, which names the kernel (`name` says its tile) and an element."""
    for number, (got, wanted) in enumerate(zip(outputs, expected, strict=True)):
        wrong = _bits(got) != _bits(wanted)
        if got.dtype.kind not in "biu":  # NaN is NaN
            wrong &= ~(np.isnan(got) & np.isnan(wanted))
        _refuse(wrong, got, wanted, number, name)


def check_value(
    outputs: Sequence[np.ndarray], exact: Sequence[np.ndarray], expr: TensorExpr, name: str
) -> None:
    """Compare results with those of f64. Raises WrongKernel."""
    steps = math.prod(expr.axes[r].size for r in expr.reduction)
    operations = steps * max(1.0, expr.ops) + expr.epilogue_ops + _SLACK
    for number, (got, wanted) in enumerate(zip(outputs, exact, strict=True)):
        if got.dtype.kind in "biu":
            wrong = got != wanted
        else:
            wide = got.astype(np.float64)
            finite = np.abs(wanted[np.isfinite(wanted)])
            most = finite.max(initial=0.0)
            bound = float(ml_dtypes.finfo(got.dtype).eps) * operations * most
            with np.errstate(invalid="ignore"):
                wrong = ~(np.abs(wide - wanted) <= bound)
            wrong &= ~((wide == wanted) | (np.isnan(wide) & np.isnan(wanted)))
        _refuse(wrong, got, wanted, number, name)


def _bits(array: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(array).view(f"u{array.dtype.itemsize}").reshape(array.shape)


def _refuse(wrong: np.ndarray, got: np.ndarray, wanted: np.ndarray, number: int, name: str) -> None:
    if wrong.any():
        at = tuple(int(i) for i in np.argwhere(wrong)[0])
        raise WrongKernel(
            f"{name}: element {list(at)} of result {number} is {got[at]}, not {wanted[at]} "
            f"({int(wrong.sum())} of {wrong.size} are wrong); this is a defect of the compiler, "
            "report it with the model"
        )
