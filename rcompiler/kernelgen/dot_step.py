"""Code of one dot group: the instruction for it, or multiplications of 16-bit pairs.

    acc[lane] += sum over g of a[.., g] * b[.., lane, g]

Products of integers without groups, such as those of depthwise convolutions, are pairs of 16 bits,
too, of which one factor is 0: one `pmaddwd`, where LLVM would multiply 32 bits or reorder the sums.
With VNNI, `vpdpwssd` adds them to the accumulator.

i8, an unsigned and a signed factor, with VNNI: `vpdpbusd`, which adds without saturation. Else the
even and the odd bytes of a word are extended to 16 bits, which two `pmaddwd` multiply and add by
pairs (`vpmaddubsw` would saturate). Both are exact. i16, bytes that were extended before
(rtask-widen-bytes): `pmaddwd` alone.

bf16, with AVX512_BF16: `vdpbf16ps`. It multiplies and adds in f32, rounding to nearest even after
each product, and takes denormals of factors, sums and results as 0. Else the low and the high half
of a word are f32 numbers with 16 bits of zeros, which two fused multiply-adds take one by one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from rcompiler.kernelgen.emitter import Emitter
from rcompiler.kernelgen.reader import NeedsScalars, Reader
from rcompiler.kernelgen.value import Val
from rcompiler.linalg.affine import Linear
from rcompiler.linalg.dot_group import DotGroup, NarrowFactors, dot_group, narrow_factors
from rcompiler.linalg.element_types import BITS
from rcompiler.linalg.generic import Generic

if TYPE_CHECKING:
    from torch_mlir import ir


_LEAST = 4  # lanes of the narrowest vector registers
_MULTIPLY_PAIRS = {
    4: "llvm.x86.sse2.pmadd.wd",
    8: "llvm.x86.avx2.pmadd.wd",
    16: "llvm.x86.avx512.pmaddw.d.512",
}


class DotStep:
    """Adds dot groups of products to their accumulators."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._groups: dict[ir.Operation, DotGroup | None] = {}
        self._narrow: dict[ir.Operation, NarrowFactors | None] = {}

    @property
    def _e(self) -> Emitter:
        return self._reader.emitter

    def group(self, generic: Generic) -> DotGroup | None:
        """The dot groups of `generic`, if it has some."""
        if generic.op not in self._groups:
            self._groups[generic.op] = dot_group(generic)
        return self._groups[generic.op]

    def narrow(self, generic: Generic) -> NarrowFactors | None:
        """The factors of `generic`, if `product` adds its steps."""
        if generic.op not in self._narrow:
            self._narrow[generic.op] = narrow_factors(generic)
        return self._narrow[generic.op]

    def product(
        self, narrow: NarrowFactors, arguments: list[Val], accumulator: Val, lanes: int
    ) -> Val:
        """The accumulator after one step; `arguments`: what it reads of either operand."""
        pairs = list(zip((arguments[k] for k in narrow.factors), narrow.signed, strict=True))
        pairs.sort(key=lambda pair: pair[1])  # an unsigned one needs no mask
        (first, first_signed), (second, second_signed) = pairs
        words = [self._low_half(first, first_signed), self._extended(second, second_signed, "i32")]
        values = [self._e.splat(v, lanes) for v in (*words, accumulator)]
        return self._in_registers(values, lambda v: self._added(v[2], *self._pairs(v[:2])))

    def _pairs(self, words: list[Val]) -> tuple[Val, Val]:
        first, second = (self._as(word, "i16") for word in words)
        return first, second

    def _extended(self, value: Val, signed: bool, element: str) -> Val:
        if value.element == element:
            return value
        return self._e.convert("extsi" if signed else "extui", value, element)

    def _low_half(self, value: Val, signed: bool) -> Val:
        """A number in the low 16 bits of a word, and 0 in the high ones."""
        return self._extended(self._extended(value, signed, "i16"), False, "i32")

    def step(
        self, generic: Generic, group: DotGroup, dims: list[Linear], accumulator: Val, lanes: int
    ) -> Val:
        """The accumulator after one group of steps; `dims` are those of its first step."""
        words = [self._words(generic, group, k, dims, lanes) for k in group.factors]
        return self._in_registers([*words, accumulator], lambda v: self._add(group, *v))

    def half_step(
        self,
        generic: Generic,
        group: DotGroup,
        dims: list[Linear],
        accumulator: Val,
        lanes: int,
        odd: bool,
    ) -> Val:
        """As `step`, of the even or of the odd numbers of bf16 in the words alone."""
        mask = -1 << 16 if odd else (1 << 16) - 1
        words = [self._words(generic, group, k, dims, lanes) for k in group.factors]
        words = [self._e.bit_and(each, mask) for each in words]
        return self._in_registers([*words, accumulator], lambda v: self._add(group, *v))

    def _words(
        self, generic: Generic, group: DotGroup, operand: int, dims: list[Linear], lanes: int
    ) -> Val:
        """One group of a factor as an i32, or one for each lane."""
        used = [dims[d] for d in generic.operand_dims[operand]]
        key = ("words", generic.op, operand, lanes, *used)
        return self._e.once(key, self._read, generic, group, operand, dims, lanes)

    def _read(
        self, generic: Generic, group: DotGroup, operand: int, dims: list[Linear], lanes: int
    ) -> Val:
        try:
            at = self._reader.coordinates(generic, operand, dims, lanes)
            return self._reader.words(generic.inputs[operand], at, lanes, group.steps)
        except NeedsScalars:
            each = [[d.at_lane(lane) for d in dims] for lane in range(lanes)]
            words = [self._words(generic, group, operand, at, 0) for at in each]
            return self._e.gather_lanes(words)

    # -- instructions ------------------------------------------------------------------------------
    def _in_registers(self, values: list[Val], compute: Callable[[list[Val]], Val]) -> Val:
        """`compute` on whole vector registers: narrow values fill one, wide ones are halved."""
        e = self._e
        lanes = max(v.lanes for v in values)
        if lanes > e.native_lanes:
            half, values = lanes // 2, [e.splat(v, lanes) for v in values]
            low, high = (
                self._in_registers([self._part(v, at, half) for v in values], compute)
                for at in (0, half)
            )
            return self._e.shuffle(low, high, range(lanes))
        if lanes >= _LEAST:
            return compute([e.splat(v, lanes) for v in values])
        if not lanes:
            return e.lane(compute([e.splat(v, _LEAST) for v in values]), 0)
        places = [k % lanes for k in range(_LEAST)]
        wide = [self._e.shuffle(v, v, places) for v in (e.splat(v, lanes) for v in values)]
        return self._part(compute(wide), 0, lanes)

    def _part(self, value: Val, start: int, lanes: int) -> Val:
        return self._e.shuffle(value, value, range(start, start + lanes))

    def _add(self, group: DotGroup, a: Val, b: Val, accumulator: Val) -> Val:
        """The instructions for vectors of whole registers."""
        first, second = group.signed
        there = group.element in self._e.dots
        if group.element == "bf16" and there:
            return self._accumulate("llvm.x86.avx512bf16.dpbf16ps", accumulator, a, b, "bf16")
        if group.element == "i8" and there and first != second:
            unsigned, signed = (b, a) if first else (a, b)
            return self._accumulate("llvm.x86.avx512.vpdpbusd", accumulator, unsigned, signed, "i8")
        if group.element == "i16":
            return self._added(accumulator, self._as(a, "i16"), self._as(b, "i16"))
        for odd in (False, True):
            if group.element == "bf16":
                accumulator = self._e.fma(self._half(a, odd), self._half(b, odd), accumulator)
                continue
            factors = self._bytes(a, first, odd), self._bytes(b, second, odd)
            accumulator = self._added(accumulator, *factors)
        return accumulator

    def _added(self, accumulator: Val, a: Val, b: Val) -> Val:
        """Products of 16 bits added to their accumulators, by pairs of neighbours.

        LLVM reorders sums of integers, and adds products of several steps first: those then need
        registers of their own, and accumulators are spilled. A fence, which it has for floats, is
        no instruction and keeps each step by itself.
        """
        e, lanes = self._e, accumulator.lanes
        if "i8" in e.dots:
            return self._accumulate("llvm.x86.avx512.vpdpwssd", accumulator, a, b, "i16")
        pairs = e.intrinsic(_MULTIPLY_PAIRS[lanes], [a, b], "i32", lanes)
        bits = e.bitcast(e.add(accumulator, pairs), "f32")
        return e.bitcast(e.intrinsic("llvm.arithmetic.fence", [bits], "f32", lanes), "i32")

    def _accumulate(self, name: str, accumulator: Val, a: Val, b: Val, element: str) -> Val:
        """An instruction that adds products of `element` to every lane of a register."""
        factors = [self._as(v, element) for v in (a, b)]
        lanes = accumulator.lanes
        operands = [accumulator, *factors]
        return self._e.intrinsic(f"{name}.{32 * lanes}", operands, accumulator.element, lanes)

    def _bytes(self, words: Val, signed: bool, odd: bool) -> Val:
        """The even or the odd bytes of every word as 16-bit numbers in their places."""
        e = self._e
        pairs = self._as(words, "i16")
        if not signed and not odd:
            return e.bit_and(pairs, 0xFF)
        if not odd:
            pairs = e.shift_left(pairs, 8)
        return e.shift_right_signed(pairs, 8) if signed else e.shift_right_unsigned(pairs, 8)

    def _half(self, words: Val, odd: bool) -> Val:
        """The first or the second bf16 of every word as an f32."""
        e = self._e
        half = e.bit_and(words, -1 << 16) if odd else e.shift_left(words, 16)
        return self._as(half, "f32")

    def _as(self, value: Val, element: str) -> Val:
        """The same bits as a vector of another element type."""
        if value.element == element:
            return value
        lanes = value.lanes * BITS[value.element] // BITS[element]
        return self._e.bitcast(value, element, lanes, dialect="vector")
