"""What rounding did to weights, for reports."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

_BLOCK = 1 << 16  # numbers that are compared at a time, which stay in a second-level cache


@dataclass(frozen=True)
class WeightError:
    """What rounding did to the weights of one operator.

    shape: of a matrix [depth, columns], or of a table [..., rows, columns]. largest: error, as a
    part of the largest weight; rms: of all errors, as a part of that of all weights.
    """

    node: str
    shape: tuple[int, ...]
    largest: float
    rms: float

    def __str__(self) -> str:
        return (
            f"{self.node}: {' x '.join(map(str, self.shape))} weights, largest error "
            f"{self.largest:.2g} of the largest weight, rms {self.rms:.2g}"
        )


def weight_errors(exact: np.ndarray, found: np.ndarray) -> tuple[float, float]:
    """`WeightError.largest` and `rms` of an array that was rounded to another of its shape."""
    most = largest = squares = square = 0.0
    before, after = exact.reshape(-1), found.reshape(-1)
    with np.errstate(invalid="ignore"):  # of infinite weights
        for start in range(0, before.size, _BLOCK):
            own = before[start : start + _BLOCK].astype(np.float64)
            error = after[start : start + _BLOCK].astype(np.float64) - own
            most = max(most, float(np.abs(own).max()))
            largest = max(largest, float(np.abs(error).max()))
            squares, square = squares + float(own @ own), square + float(error @ error)
    return (largest / most, math.sqrt(square / squares)) if squares else (0.0, 0.0)
