"""Weights of 2, 4 or 8 bits in words of 32 bits, as a product with few rows reads them.

    y[r, n] = sum over blocks b of scale[n, b] * sum over k in b of x[r, k] * (q[n, k] - zero[n, b])

A word has 32 / bits numbers of one column, the first one in its lowest bits. A panel has `LANES`
columns side by side, which fill a line of a cache, and below them the next words of these columns:
[panels, blocks, words of a block, LANES]. A vector of words is taken apart in place, by one mask
for each number but the last, for which a shift is enough: number i then counts 2^(bits i) times,
and is multiplied by x / 2^(bits i), which is exact unless x is less than 2^-96.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

LANES = 16  # words of a line of 64 bytes
WORD = 32  # bits
BITS = (2, 4, 8)


@dataclass(frozen=True)
class BlockWeights:
    """A matrix [columns, depth] of small numbers with a scale for each block of the depth.

    numbers: uint8 [columns, blocks, block], of any value behind the depth; scales: f32 [columns,
    blocks]; zeros: f32 of that shape, or one number for all.
    """

    bits: int
    depth: int
    numbers: np.ndarray
    scales: np.ndarray
    zeros: np.ndarray | float

    @property
    def columns(self) -> int:
        return self.numbers.shape[0]

    @property
    def block(self) -> int:
        return self.numbers.shape[2]

    @property
    def padded(self) -> int:
        """The depth of whole blocks."""
        return self.numbers.shape[1] * self.block

    @property
    def per_word(self) -> int:
        return WORD // self.bits

    @property
    def fills_words(self) -> bool:
        """Whether blocks are whole words."""
        return self.block % self.per_word == 0

    @property
    def word_shape(self) -> tuple[int, int, int]:
        """Blocks, words of a block, numbers of a word."""
        return self.numbers.shape[1], self.block // self.per_word, self.per_word

    def part(self, first: int, end: int) -> BlockWeights:
        """Some of the blocks."""
        own = slice(first, end)
        zeros = self.zeros[:, own] if isinstance(self.zeros, np.ndarray) else self.zeros
        depth = min(end * self.block, self.depth) - first * self.block
        return BlockWeights(self.bits, depth, self.numbers[:, own], self.scales[:, own], zeros)

    def words(self) -> np.ndarray:
        """uint32 [panels, blocks, words of a block, LANES], 0 behind the last column."""
        apart = self.numbers.reshape(self.columns, *self.word_shape)
        whole = np.zeros(apart.shape[:-1], np.uint32)
        for number in range(self.per_word):
            whole |= apart[..., number].astype(np.uint32) << np.uint32(number * self.bits)
        return in_panels(whole)

    def masks(self) -> list[int]:
        """The bits of each number of a word but the last one."""
        return [((1 << self.bits) - 1) << self.bits * i for i in range(self.per_word - 1)]

    def shares(self) -> np.ndarray:
        """f32 [numbers of a word]: by what the factors of numbers that stay in place are
        multiplied; the last number does not.
        """
        exponents = [*range(0, WORD - self.bits, self.bits), 0]
        return np.exp2(-np.array(exponents, np.float32))

    def dense(self) -> np.ndarray:
        """f32 [depth, columns]."""
        zeros = self.zeros[..., None] if isinstance(self.zeros, np.ndarray) else self.zeros
        real = (self.numbers.astype(np.float32) - np.float32(zeros)) * self.scales[..., None]
        return np.ascontiguousarray(real.reshape(self.columns, -1)[:, : self.depth].T)


def in_panels(rows: np.ndarray) -> np.ndarray:
    """[columns, ...] as [panels, ..., LANES], with zeros behind the last column."""
    panels = -(-len(rows) // LANES)
    padded = np.zeros((panels * LANES, *rows.shape[1:]), rows.dtype)
    padded[: len(rows)] = rows
    return np.ascontiguousarray(np.moveaxis(padded.reshape(panels, LANES, *rows.shape[1:]), 1, -1))


def in_blocks(numbers: np.ndarray, block: int) -> np.ndarray:
    """[columns, depth] as [columns, blocks, block], with zeros behind the depth."""
    columns, depth = numbers.shape
    blocks = -(-depth // block)
    padded = np.zeros((columns, blocks * block), numbers.dtype)
    padded[:, :depth] = numbers
    return padded.reshape(columns, blocks, block)


def unpacked(packed: np.ndarray, bits: int) -> np.ndarray:
    """Numbers of 2, 4 or 8 bits out of bytes, the lowest bits first: uint8 [.., n * 8 / bits]."""
    shifts = np.arange(0, 8, bits, dtype=np.uint8)
    apart = packed[..., None] >> shifts & ((1 << bits) - 1)
    return apart.reshape(*packed.shape[:-1], -1).astype(np.uint8)


def bit_fields(packed: np.ndarray, bits: int) -> np.ndarray:
    """Numbers of 1 to 8 bits that follow each other in the bytes of a row, also from one byte to
    the next, the lowest bits first: uint8 [.., bytes * 8 // bits].
    """
    apart = np.unpackbits(packed, axis=-1, bitorder="little")
    count = apart.shape[-1] // bits
    each = apart[..., : count * bits].reshape(*packed.shape[:-1], count, bits)
    return np.packbits(each, axis=-1, bitorder="little")[..., 0]


def packed(numbers: np.ndarray, bits: int) -> np.ndarray:
    """What `unpacked` takes apart: uint8 [.., n] as [.., n * bits / 8]."""
    per_byte = 8 // bits
    apart = numbers.reshape(*numbers.shape[:-1], -1, per_byte)
    whole = np.zeros(apart.shape[:-1], np.uint8)
    for number in range(per_byte):
        whole |= apart[..., number] << np.uint8(number * bits)
    return whole


def rounded(columns: np.ndarray, bits: int, block: int) -> BlockWeights:
    """f32 [columns, depth] in symmetric blocks: the largest number of a block is 2^(bits - 1) - 1
    steps from zero, and each is rounded to the nearest step, to the even one of two.
    """
    parts = in_blocks(columns, block)
    most, middle = (1 << bits - 1) - 1, 1 << bits - 1
    largest = np.abs(parts).max(axis=-1)
    scales = np.where(largest > 0, largest / np.float32(most), 1).astype(np.float32)
    steps = np.rint(parts / scales[..., None]).clip(-most, most)
    numbers = (steps + middle).astype(np.uint8)
    return BlockWeights(bits, columns.shape[1], numbers, scales, float(middle))
