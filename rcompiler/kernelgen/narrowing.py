"""Words of 32 bits cut to bytes, in vectors of 256 bits.

LLVM takes a vector apart for it: four instructions of the one port that moves between lanes. Two
do: the bytes of either half go into its first word, and these words side by side. With AVX-512 it
is one instruction, which LLVM finds.
"""

from __future__ import annotations

from rcompiler.kernelgen.emitter import Emitter
from rcompiler.kernelgen.typed_ops import TypedOps
from rcompiler.kernelgen.value import Val

LANES = 8


def are_two_halves(e: Emitter, words: Val) -> bool:
    """Whether a vector of words fills a register of 256 bits, the widest that there is."""
    return words.lanes == LANES == e.native_lanes


def cut_to_bytes(ops: TypedOps, words: Val) -> Val:
    """The low bytes of a vector of 8 words."""
    whole = ops.bitcast(words, "i8", 4 * LANES, dialect="vector")
    half = [*range(0, 16, 4), *range(1, 16, 4), *range(2, 16, 4), *range(3, 16, 4)]
    gathered = ops.shuffle(whole, whole, [*half, *(16 + k for k in half)])
    pairs = ops.bitcast(gathered, "i32", LANES, dialect="vector")
    low = ops.shuffle(pairs, pairs, [0, 4, 1, 5, 2, 6, 3, 7])
    joined = ops.bitcast(low, "i8", 4 * LANES, dialect="vector")
    return ops.shuffle(joined, joined, range(LANES))
