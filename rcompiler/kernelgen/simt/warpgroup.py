"""What a warpgroup does together: wgmma, and the descriptors of matrices in shared memory."""

from __future__ import annotations

from collections.abc import Sequence

from rcompiler.kernelgen.simt.boxed import Boxed
from rcompiler.kernelgen.simt.emitter import SHARED, SimtEmitter
from rcompiler.kernelgen.value import Val
from rcompiler.linalg.affine import Linear

THREADS = 128
_LINES = 8  # of a pattern
_MODE = {128: 1, 64: 2, 32: 3}  # of a descriptor, by the bytes of a line


def descriptor(e: SimtEmitter, side: Boxed, start: str, place: Linear) -> str:
    """Of the matrix that begins `place` bytes behind `start`, an i32 address in shared memory (PTX
    ISA, "Matrix descriptor format"): address, distance of the next unit of positions, distance of
    the next eight lines, pattern.
    """
    unit = side.chunks.size * side.line if side.unit else 16
    fixed = (unit >> 4) << 16 | (_LINES * side.line >> 4) << 32 | _MODE[side.line] << 62
    byte = e.add(e.convert("extui", Val(start, "i32"), "i64"), place)
    return e.bit_or(e.shift_right_unsigned(byte, 4), fixed).name


def address(e: SimtEmitter, pointer: str) -> str:
    """A pointer to shared memory as an i32."""
    return e.op(f"llvm.ptrtoint {pointer} : {SHARED} to i32", [Val(pointer, SHARED)], "i32").name


class Accumulators:
    """The sums of a thread for one row tile of its warpgroup."""

    def __init__(self, e: SimtEmitter, unit: str, columns: int) -> None:
        """unit: element type of the factors; columns: of the tile, two for each sum."""
        self._e, self._unit, self._columns = e, unit, columns
        self._count = columns // 2
        self._type = f"!llvm.struct<({', '.join(['f32'] * self._count)})>"

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
        return [Val(e.part(made, k, self._type), "f32") for k in range(count)]

    def _held(self, values: Sequence[str]) -> str:
        """The values, as the compiler must have them here."""
        e, count = self._e, self._count
        kinds = ", ".join(["f32"] * count)
        constraints = ",".join(["=f"] * count + [str(k) for k in range(count)])
        made = e.define(e.fresh())
        e.line(
            f'{made} = llvm.inline_asm has_side_effects "", "{constraints}" {", ".join(values)} : '
            f"({kinds}) -> {self._type}"
        )
        return made

    def multiply(self, sums: Val, left: str, right: str, turned: bool, turned_right: bool) -> Val:
        """Start to add the product of two matrices; turned: whose lines have positions."""
        e, unit = self._e, self._unit
        one = "#nvvm.wgmma_scale_in<one>"
        a, b = ("col" if turned else "row"), ("row" if turned_right else "col")
        name = e.define(e.fresh("w"))
        e.line(
            f"{name} = nvvm.wgmma.mma_async {left}, {right}, {sums.name}, "
            f"#nvvm.shape<m = 64, n = {self._columns}, k = 16>, "
            f"D [<f32>, #nvvm.wgmma_scale_out<one>], "
            f"A [<{unit}>, {one}, <{a}>], B [<{unit}>, {one}, <{b}>] : "
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
