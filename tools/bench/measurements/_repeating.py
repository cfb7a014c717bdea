"""Weights that are drawn at random and take little room: a short row of numbers, again and again.

Artifacts carry their weights, those of BERT-base 440 MB, and random numbers cannot be packed.
Numbers that repeat can: to a hundredth, whatever order the compiler stores them in. To the device
they are random: as far apart in memory, as different in their bits as those next to them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

# Primes, so that no two rows of a matrix are alike, nor two channels whose number differs by a
# power of two. Vectors have fewer values: those of a normalisation are multiplied into the weights
# of each channel in front of it, which then repeat only as far as these do.
_MATRIX = 4093
_VECTOR = 13


class Repeating(np.random.Generator):
    """Draws of two dimensions or more repeat after 4093 numbers, those of one after 13."""

    def __init__(self, seed: int) -> None:
        super().__init__(np.random.PCG64(seed))

    def standard_normal(self, size: Any = None, dtype: Any = np.float64, out: Any = None) -> Any:
        return _repeated(super().standard_normal, size, dtype)

    def random(self, size: Any = None, dtype: Any = np.float64, out: Any = None) -> Any:
        return _repeated(super().random, size, dtype)


def _repeated(draw: Callable[..., np.ndarray], shape: tuple[int, ...], dtype: Any) -> np.ndarray:
    period = _MATRIX if len(shape) > 1 else _VECTOR
    return np.resize(draw(min(int(np.prod(shape)), period), dtype=dtype), shape)
