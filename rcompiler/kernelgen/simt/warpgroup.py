"""What a warpgroup does together: wgmma, and the descriptors of matrices in shared memory."""

from __future__ import annotations

from collections.abc import Sequence

from rcompiler.kernelgen.simt.boxed import Boxed
from rcompiler.kernelgen.simt.emitter import SHARED, SimtEmitter
from rcompiler.kernelgen.value import Val
from rcompiler.linalg.affine import Linear, Terms

THREADS = 128
_LINES = 8  # of a pattern
_UNIT = 16  # bytes that addresses and distances of a descriptor count
_MODE = {128: 1, 64: 2, 32: 3}  # of a descriptor, by the bytes of a line


def descriptor(e: SimtEmitter, side: Boxed, start: str, place: Linear) -> str:
    """Of the matrix that begins `place` bytes behind `start`, an i32 address in shared memory (PTX
    ISA, "Matrix descriptor format"): address, distance of the next unit of positions, distance of
    the next eight lines, pattern.
    """
    unit = side.chunks.size * side.line if side.unit else _UNIT
    fixed = (unit // _UNIT) << 16 | (_LINES * side.line // _UNIT) << 32 | _MODE[side.line] << 62
    low = _units_of(e, start, place.terms)
    bits = fixed + place.constant // _UNIT
    return e.add(low, Linear(bits - (bits >> 63 << 64))).name


def _units_of(e: SimtEmitter, start: str, terms: Terms) -> Val:
    """The address without its constant, in the units of descriptors, as an i64. It is the same in
    all threads of a warp; matrices that lie a constant apart have it in common.
    """
    key = "descriptor", start, terms
    known: Val | None = e.recall(key)
    if known is None:
        byte = Val(start, "i32")
        if terms:
            byte = e.add(byte, e.word(Linear(0, terms)))
        units = e.uniform(e.shift_right_unsigned(byte, _UNIT.bit_length() - 1))
        known = e.convert("extui", units, "i64")
        e.remember(key, known)
    return known


def address(e: SimtEmitter, pointer: str) -> str:
    """A pointer to shared memory as an i32."""
    return e.op(f"llvm.ptrtoint {pointer} : {SHARED} to i32", [Val(pointer, SHARED)], "i32").name


class Accumulators:
    """The sums of a thread for one row tile of its warpgroup."""

    def __init__(self, e: SimtEmitter, types: tuple[str, str], columns: int) -> None:
        """types: of both factors, as PTX names them; columns: of the tile, two for each sum."""
        self._e, self._types, self._columns = e, types, columns
        self._count = columns // 2
        self._element = "i32" if types[0] in ("s8", "u8") else "f32"
        self._type = f"!llvm.struct<({', '.join([self._element] * self._count)})>"

    def pack(self, values: Sequence[Val]) -> Val:
        """Sums as one value. They are in registers from here on: LLVM would write constants behind
        the fence, and ptxas serialises products whose registers were written behind it.
        """
        return Val(self._held([value.name for value in values]), self._type)

    def unpack(self, packed: Val) -> list[Val]:
        """The sums, which nothing may read in front of here: the compiler does not know that the
        products are made later.
        """
        e, count = self._e, self._count
        made = self._held([e.part(packed.name, k, self._type) for k in range(count)])
        return [Val(e.part(made, k, self._type), self._element) for k in range(count)]

    def _held(self, values: Sequence[str]) -> str:
        """The values, as the compiler must have them here."""
        e, count = self._e, self._count
        kinds, register = ", ".join([self._element] * count), {"i32": "r"}.get(self._element, "f")
        constraints = ",".join([f"={register}"] * count + [str(k) for k in range(count)])
        made = e.define(e.fresh())
        e.line(
            f'{made} = llvm.inline_asm has_side_effects "", "{constraints}" {", ".join(values)} : '
            f"({kinds}) -> {self._type}"
        )
        return made

    def multiply(self, sums: Val, left: str, right: str, turned: bool, turned_right: bool) -> Val:
        """Start to add the product of two matrices; turned: whose lines have positions."""
        e, one = self._e, "#nvvm.wgmma_scale_in<one>"
        first, second = self._types
        steps, sums_of, wraps = (
            (32, "s32", ", <wrapped>") if self._element == "i32" else (16, "f32", "")
        )
        a, b = ("col" if turned else "row"), ("row" if turned_right else "col")
        name = e.define(e.fresh("w"))
        e.line(
            f"{name} = nvvm.wgmma.mma_async {left}, {right}, {sums.name}, "
            f"#nvvm.shape<m = 64, n = {self._columns}, k = {steps}>, "
            f"D [<{sums_of}>, #nvvm.wgmma_scale_out<one>{wraps}], "
            f"A [<{first}>, {one}, <{a}>], B [<{second}>, {one}, <{b}>] : "
            f"{self._type} -> {self._type}"
        )
        return Val(name, self._type)

    def fence(self) -> None:
        """What was written to the registers of sums is there for products that are started now."""
        self._e.line("nvvm.wgmma.fence.aligned")

    def commit(self) -> None:
        """The products that were started since the last time are a group."""
        self._e.line("nvvm.wgmma.commit.group.sync.aligned")

    def wait(self, groups: int) -> None:
        """Until all groups of the warpgroup but the last `groups` are done."""
        self._e.line(f"nvvm.wgmma.wait.group.sync.aligned {groups}")
