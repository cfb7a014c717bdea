"""QLinearConv and QLinearMatMul by the letter of the standard: sums are rounded, half to even,
before the zero point is added; onnx.reference (1.23) rounds what it has added that to."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from onnx.reference.ops.op_conv import _conv_implementation

from .definitions import Attributes, define


@define("QLinearMatMul")
def _matmul(
    a: Attributes,
    x: np.ndarray,
    x_scale: np.ndarray,
    x_zero: np.ndarray,
    w: np.ndarray,
    w_scale: np.ndarray,
    w_zero: np.ndarray,
    y_scale: np.ndarray,
    y_zero: np.ndarray,
) -> Sequence[Any]:
    sums = (x.astype(np.int64) - x_zero) @ (w.astype(np.int64) - w_zero)
    return [_bytes(sums * (x_scale * w_scale / y_scale), y_zero)]


@define("QLinearConv")
def _conv(
    a: Attributes,
    x: np.ndarray,
    x_scale: np.ndarray,
    x_zero: np.ndarray,
    w: np.ndarray,
    w_scale: np.ndarray,
    w_zero: np.ndarray,
    y_scale: np.ndarray,
    y_zero: np.ndarray,
    bias: np.ndarray | None = None,
) -> Sequence[Any]:
    by_row = (-1, *[1] * (w.ndim - 1))
    sums = _conv_implementation(
        x.astype(np.int64) - x_zero,
        w.astype(np.int64) - w_zero.reshape(by_row),
        bias,
        a.get("auto_pad", "NOTSET"),
        a.get("dilations"),
        a.get("group", 1),
        a.get("kernel_shape", w.shape[2:]),
        a.get("pads"),
        a.get("strides"),
    )
    steps = (x_scale * w_scale / y_scale).reshape(by_row[:-1])
    return [_bytes(sums * steps, y_zero)]


def _bytes(sums: np.ndarray, zero: np.ndarray) -> np.ndarray:
    limits = np.iinfo(zero.dtype)
    return np.clip(np.rint(sums) + zero, limits.min, limits.max).astype(zero.dtype)
