"""How tensor cores sum: products in blocks, cut off at a place below the largest exponent.

NVIDIA does not say how its tensor cores add. Others measured it and found the same, bit for bit:

- F. A. Khattak and M. Mikaitis: Accurate Models of NVIDIA Tensor Cores. arXiv:2512.07004.
- P. Xie, Y. Wang, F. Yang, M. Yang: MMA-Sim, Bit-Accurate Reference Model of Tensor Cores and
  Matrix Cores. arXiv:2511.10909.
- M. Fasi, N. J. Higham, M. Mikaitis, S. Pranesh: Numerical behavior of NVIDIA tensor cores. PeerJ
  Computer Science 7:e330, 2021.

One block takes the accumulator and some products. Products are exact. All terms are aligned to the
largest exponent among them, where that of a product is the sum of its factors' exponents, and what
lies more than `bits` places below it is cut off each term, towards zero. The sum of what is left is
exact; it is cut off to f32, or rounded to the nearest even f16. The next block starts with that.

Every step is exact in f8, so neither the host nor the shape of the matrices changes a bit.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from rcompiler.emulator.lanes import Array
from rcompiler.errors import DeviceError

_BYTES = {"f16": 2, "bf16": 2, "tf32": 4}
_LEAST = {"f16": -14, "bf16": -126, "tf32": -126, "f32": -126}  # exponents of normal numbers
_OF_ZERO = -2000  # below any exponent of a product


@dataclass(frozen=True)
class TensorCore:
    """bits: kept below the largest exponent. block_bytes: of the factors of A in one block."""

    bits: int
    block_bytes: int

    def multiply_add(self, a: Array, b: Array, c: Array, type_: str) -> Array:
        """a @ b + c of stacks of matrices.

        a: f4 [..., m, k] and b: f4 [..., k, n] with values of `type_` (f16, bf16 or tf32). c: f4 or
        f2 [..., m, n], which is also the type of the result and of the sums between blocks.
        """
        step = self.block_bytes // _BYTES[type_]
        with np.errstate(all="ignore"):
            for k in range(0, a.shape[-1], step):
                c = self._block(a[..., k : k + step], b[..., k : k + step, :], c, _LEAST[type_])
        return c

    def _block(self, a: Array, b: Array, c: Array, least: int) -> Array:
        exponents_a, exponents_b = _exponents(a, least), _exponents(b, least)
        # Not below the least exponent of f32: no accumulator has less, not even 0.
        top = np.maximum(_exponents(c, _LEAST["f16" if c.dtype == "f2" else "f32"]), _LEAST["f32"])
        for k in range(a.shape[-1]):
            np.maximum(top, exponents_a[..., k, None] + exponents_b[..., k, None, :], out=top)
        scale = np.ldexp(1.0, (self.bits - top).astype(np.int32))
        total = np.trunc(c * scale)
        a, b, term = a.astype(np.float64), b.astype(np.float64), np.empty_like(total)
        for k in range(a.shape[-1]):
            np.multiply(a[..., k, None], b[..., k, None, :], out=term)
            np.multiply(term, scale, out=term)
            total += np.trunc(term, out=term)
        return _rounded(total / scale, c.dtype)


def _exponents(values: Array, least: int) -> Array:
    """Of the leading places; subnormal numbers have the least exponent."""
    exponents = np.maximum(np.frexp(values)[1] - 1, least)
    return np.where(values == 0, _OF_ZERO, exponents).astype(np.int16)


def _rounded(total: Array, dtype: np.dtype[Any]) -> Array:
    """f8 to the nearest even f2, or towards zero to f4; what is too large for f4 is infinite."""
    if dtype == np.float16:
        return total.astype(np.float16)
    cut = (total.view(np.int64) & ~0x1FFFFFFF).view(np.float64)
    subnormal = np.abs(total) < 2.0**-126
    if subnormal.any():
        cut = np.where(subnormal, np.trunc(total * 2.0**149) * 2.0**-149, cut)
    return np.where(np.isnan(total), np.uint32(0x7FFFFFFF).view(np.float32), cut.astype(np.float32))


# By compute capability. Both models above have these figures; of 7.5 the second alone.
_KNOWN = {
    (7, 0): TensorCore(23, 8),
    (7, 5): TensorCore(24, 16),
    (8, 0): TensorCore(24, 16),
    (8, 6): TensorCore(24, 16),
    (8, 9): TensorCore(24, 16),
    (9, 0): TensorCore(25, 32),
}


def tensor_core(capability: tuple[int, int]) -> TensorCore:
    """Raises DeviceError if nobody has published how that one sums."""
    if capability not in _KNOWN:
        known = ", ".join(f"{a}.{b}" for a, b in _KNOWN)
        raise DeviceError(f"the tensor cores of {capability} are not emulated; known are: {known}")
    return _KNOWN[capability]


def multiply_add_integers(a: Array, b: Array, c: Array) -> Array:
    """a @ b + c of i4, exact but for overflow of the sum, which wraps."""
    return c + np.matmul(a, b)  # numpy's own loops: BLAS has no integers
