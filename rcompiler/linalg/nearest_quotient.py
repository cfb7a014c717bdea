"""Whether a product with a reciprocal in two parts rounds to the integers of a division.

    r + e = 1 / b, both rounded       q0 = x r + (x e)       rint(q0) == rint(x / b) ?

Neither side falls anywhere while x rises (or neither rises, with a negative b), so they are equal
everywhere if they are equal at the floats around each x where the division goes on to the next
integer, and at both ends. These are few, and are looked at when a kernel is compiled. What is
computed here is rounded as the instructions of a CPU round it.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

_MOST = 1 << 17  # integers that are looked at
_AROUND = 4  # floats on each side of a step; the quotients differ by less than two


def reciprocal_of(divisor: float) -> tuple[float, float]:
    """1 / divisor as a float of 32 bits, and what that leaves as another one."""
    reciprocal = float(np.float32(1) / np.float32(divisor))
    return reciprocal, float(np.float32(1 / float(np.float32(divisor)) - reciprocal))


@lru_cache(maxsize=4096)
def same_integers(low: float, high: float, divisor: float) -> bool:
    """Whether q0 has the nearest integers of x / divisor for all x from low to high.

    Args:
        low, high, divisor: floats of 32 bits; no quotient overflows or is 2^30 or larger.

    Returns:
        False also where there are too many integers to look at.
    """
    ends = np.array([low, high], np.float32)
    least, greatest = np.sort(np.rint(ends / np.float32(divisor)).astype(np.float64))
    if greatest - least > _MOST:
        return False
    steps = (np.arange(least, greatest) + 0.5) * float(np.float32(divisor))
    below = above = steps.astype(np.float32)
    tried = [ends, below]
    for _ in range(_AROUND):
        below = np.nextafter(below, np.float32(-np.inf))
        above = np.nextafter(above, np.float32(np.inf))
        tried += [below, above]
    x = np.clip(np.concatenate(tried), ends[0], ends[1])
    return bool(np.array_equal(np.rint(_product(x, divisor)), np.rint(x / np.float32(divisor))))


def _product(x: NDArray[np.float32], divisor: float) -> NDArray[np.float32]:
    """q0: a product, and a fused multiply-add, of which 64 bits hold the product exactly.

    Their sum is rounded to 64 bits so that the last bit is odd where it is not exact; rounding that
    to 32 bits is the same as rounding once (Boldo and Melquiond, "Emulation of FMA", 2008).
    """
    reciprocal, rest = reciprocal_of(divisor)
    product = x.astype(np.float64) * reciprocal
    addend = (x * np.float32(rest)).astype(np.float64)
    total = product + addend
    part = total - product
    error = (product - (total - part)) + (addend - part)
    even = total.view(np.int64) % 2 == 0
    towards = np.copysign(np.inf, error)
    odd = np.where((error != 0) & even, np.nextafter(total, towards), total)
    return odd.astype(np.float32)
