"""Four vectors of integers of 32 bits as one of bytes (AVX-512BW).

    vpackssdw a, b; vpackssdw c, d      16 bits, in each 128-bit part four of one and of the other
    vpackuswb or vpacksswb              bytes, in each part four of each of the four vectors
    vpermd                              those of one vector side by side

Four instructions and one store of a line, where each vector by itself takes an instruction of two
steps and a store of a quarter. The numbers fit into bytes, so that nothing saturates.

Source: Intel, Intrinsics Guide, _mm512_packs_epi32, _mm512_packus_epi16, _mm512_packs_epi16.
"""

from __future__ import annotations

from collections.abc import Sequence

from rcompiler.kernelgen.emitter import Emitter
from rcompiler.kernelgen.typed_ops import TypedOps
from rcompiler.kernelgen.value import Val

LANES, VECTORS = 16, 4  # of the vectors, and how many are packed
_NAME = "llvm.x86.avx512.{}.512"


def packs(emitter: Emitter, lanes: int) -> bool:
    """Whether vectors of so many lanes are packed: x86-64-v4, which also scales vectors."""
    return emitter.has_scalef and lanes == LANES


def packed(ops: TypedOps, wide: Sequence[Val], *, signed: bool) -> Val:
    """The bytes of VECTORS vectors of LANES i32, one after the other."""
    a, b = (
        ops.intrinsic(_NAME.format("packssdw"), wide[k : k + 2], "i16", 2 * LANES) for k in (0, 2)
    )
    name = _NAME.format("packsswb" if signed else "packuswb")
    mixed = ops.intrinsic(name, [a, b], "i8", 4 * LANES)
    words = ops.bitcast(mixed, "i32", LANES, dialect="vector")
    order = [VECTORS * part + k for k in range(VECTORS) for part in range(LANES // VECTORS)]
    return ops.bitcast(ops.shuffle(words, words, order), "i8", mixed.lanes, dialect="vector")
