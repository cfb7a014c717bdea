"""Integer arithmetic. Operands have the dtype of the instruction's type, results have it too."""

from __future__ import annotations

from typing import Any

import numpy as np

Array = Any  # an array or one number, of the dtype that the caller says


def _bits(a: Array) -> int:
    return 8 * int(a.dtype.itemsize)


def shift_left(a: Array, by: Array) -> Array:
    """by: u32; a shift by the width or more gives 0."""
    width = _bits(a)
    moved = a << np.minimum(by, np.uint32(width - 1)).astype(a.dtype)
    return np.where(by < width, moved, a.dtype.type(0))


def shift_right(a: Array, by: Array) -> Array:
    """Logical of unsigned, arithmetic of signed numbers; by: u32."""
    width = _bits(a)
    moved = a >> np.minimum(by, np.uint32(width - 1)).astype(a.dtype)
    return moved if a.dtype.kind == "i" else np.where(by < width, moved, a.dtype.type(0))


def funnel(low: Array, high: Array, by: Array, left: bool, wrap: bool) -> Array:
    """32 bits out of high:low, shifted by `by` mod 32 (wrap) or min(by, 32)."""
    by = (by & np.uint32(31) if wrap else np.minimum(by, np.uint32(32))).astype(np.uint64)
    both = (high.astype(np.uint64) << np.uint64(32)) | low.astype(np.uint64)
    if left:
        return ((both << by) >> np.uint64(32)).astype(np.uint32)
    return (both >> by).astype(np.uint32)


def multiply_high(a: Array, b: Array) -> Array:
    """The upper half of the product."""
    if a.dtype.itemsize < 8:
        wide = np.int64 if a.dtype.kind == "i" else np.uint64
        product = a.astype(wide) * b.astype(wide)
        return (product >> wide(_bits(a))).astype(a.dtype)
    signed = a.dtype.kind == "i"
    x, y = a.astype(np.uint64), b.astype(np.uint64)
    low = np.uint64(0xFFFFFFFF)
    half = np.uint64(32)
    middle = (x >> half) * (y & low) + (((x & low) * (y & low)) >> half)
    other = (x & low) * (y >> half) + (middle & low)
    high = (x >> half) * (y >> half) + (middle >> half) + (other >> half)
    if signed:
        high = high - np.where(a < 0, y, np.uint64(0)) - np.where(b < 0, x, np.uint64(0))
    return high.astype(a.dtype)


def multiply_wide(a: Array, b: Array, wide: str) -> Array:
    return np.asarray(a).astype(wide) * np.asarray(b).astype(wide)


def multiply_24(a: Array, b: Array) -> Array:
    """The low half of the product of the low 24 bits."""
    shift = np.uint32(8) if a.dtype.kind == "u" else np.int32(8)
    return ((a << shift) >> shift) * ((b << shift) >> shift)


def divide(a: Array, b: Array) -> Array:
    """Towards zero; by zero: all bits set, as hardware does."""
    by = np.where(b == 0, b.dtype.type(1), b)
    quotient = a // by
    if a.dtype.kind == "i":
        quotient = quotient + ((quotient < 0) & (quotient * by != a)).astype(a.dtype)
    ones = ~a.dtype.type(0)
    return np.where(b == 0, ones, quotient)


def remainder(a: Array, b: Array) -> Array:
    """With the sign of `a`; by zero: `a`."""
    by = np.where(b == 0, b.dtype.type(1), b)
    return np.where(b == 0, a, a - divide(a, by) * by)


def saturating(a: Array, b: Array, subtract: bool) -> Array:
    """s32 sum or difference, clamped."""
    wide = a.astype(np.int64) - b if subtract else a.astype(np.int64) + b
    return np.clip(wide, -(2**31), 2**31 - 1).astype(np.int32)


def add_carry(a: Array, b: Array, carry: Array) -> tuple[Array, Array]:
    """a + b + carry and the carry out; unsigned, carry: bool."""
    first = a + b
    total = first + carry.astype(a.dtype)
    return total, (first < a) | (total < first)


def population(a: Array) -> Array:
    return np.bitwise_count(a).astype(np.uint32)


def leading_zeros(a: Array) -> Array:
    width = _bits(a)
    for shift in (1, 2, 4, 8, 16, 32):
        if shift < width:
            a = a | (a >> a.dtype.type(shift))
    return np.uint32(width) - population(a)


def find_bit(a: Array, amount: bool) -> Array:
    """Place of the highest bit that differs from the sign; ~0 without one. amount: to shift by."""
    width = _bits(a)
    unsigned = a.view(f"u{width // 8}")
    if a.dtype.kind == "i":
        unsigned = np.where(a < 0, ~unsigned, unsigned)
    zeros = leading_zeros(unsigned)
    found = zeros if amount else np.uint32(width - 1) - zeros
    return np.where(zeros == width, ~np.uint32(0), found)


def reverse(a: Array) -> Array:
    width = _bits(a)
    masks = {1: 0x5555555555555555, 2: 0x3333333333333333, 4: 0x0F0F0F0F0F0F0F0F}
    for shift, mask in masks.items():
        m, s = a.dtype.type(mask & ((1 << width) - 1)), a.dtype.type(shift)
        a = ((a >> s) & m) | ((a & m) << s)
    return np.ascontiguousarray(a).byteswap()


def extract(a: Array, position: Array, length: Array) -> Array:
    """Bit field; signed ones are extended by their highest bit, or by that of `a` beyond it."""
    width = _bits(a)
    position = position & np.uint32(255)
    length = np.minimum(length & np.uint32(255), np.uint32(width))
    unsigned = a.view(f"u{width // 8}")
    field = np.asarray(shift_right(a, position)).view(unsigned.dtype)
    mask = ~shift_left(np.full_like(field, ~field.dtype.type(0)), length)
    field = field & mask
    if a.dtype.kind == "u":
        return field
    top = np.minimum(position + length - np.uint32(1), np.uint32(width - 1))
    sign = (shift_right(unsigned, top) & unsigned.dtype.type(1)).astype(bool) & (length > 0)
    return np.where(sign, field | ~mask, field).view(a.dtype)


def insert(field: Array, into: Array, position: Array, length: Array) -> Array:
    """The low `length` bits of `field` at `position` of `into`; unsigned."""
    position, length = position & np.uint32(255), length & np.uint32(255)
    ones = np.full_like(into, ~into.dtype.type(0))
    mask = shift_left(~shift_left(ones, length), position)
    return (into & ~mask) | (shift_left(field, position) & mask)


def permute(a: Array, b: Array, selector: Array) -> Array:
    """Four bytes out of b:a by the nibbles of the selector; bit 3 of one: the byte's sign."""
    both = (b.astype(np.uint64) << np.uint64(32)) | a.astype(np.uint64)
    result = np.zeros_like(a)
    for k in range(4):
        nibble = (selector >> np.uint32(4 * k)).astype(np.uint64) & np.uint64(15)
        byte = (both >> (np.uint64(8) * (nibble & np.uint64(7)))) & np.uint64(255)
        sign = np.where(byte >= 128, np.uint64(255), np.uint64(0))
        byte = np.where(nibble >= 8, sign, byte)
        result = result | (byte.astype(np.uint32) << np.uint32(8 * k))
    return result


def logic3(a: Array, b: Array, c: Array, table: int) -> Array:
    """Any function of three bits, its eight values in `table`."""
    result = np.zeros_like(a)
    for k in range(8):
        if table >> k & 1:
            term = (a if k & 4 else ~a) & (b if k & 2 else ~b) & (c if k & 1 else ~c)
            result = result | term
    return result


def dot4(a: Array, b: Array, c: Array, types: tuple[str, str]) -> Array:
    """c plus the products of the four bytes of a and b; types: i1 or u1 of their bytes."""
    x, y = (
        np.ascontiguousarray(v).view(t).reshape(-1, 4).astype(np.int64)
        for v, t in zip((a, b), types, strict=True)
    )
    return ((x * y).sum(axis=1) + c.astype(np.int64)).astype(np.uint32)


def clamp(a: Array, type_: str) -> Array:
    """Into the range of another integer type; of its own type still."""
    to, of = np.iinfo(type_), np.iinfo(a.dtype)
    return np.clip(a, max(to.min, of.min), min(to.max, of.max))
