"""Tile registers (AMX) in numpy: what the instructions do, on machines that have none.

Generated code calls this instead of the instructions, see `rewritten`. It holds code to what the
processor asks for: shapes that are set before they are used and fit each other, and registers that
are released at the end.

Source: Intel, Architecture Instruction Set Extensions, "Intel AMX": LDTILECFG, TILELOADD, TDPBUSD,
TDPBF16PS.
"""

import ctypes
import re
from collections.abc import Callable

import ml_dtypes
import numpy as np

_ROWS, _BYTES, _REGISTERS = 16, 64, 8
_SIGNED = {"s": np.int8, "u": np.uint8}
_CALL = re.compile(
    r'llvm\.call_intrinsic "llvm\.x86\.(\w+)"(\([^)]*\))(?: \{[^}]*\})? : (\([^)]*\)) -> \(\)'
)


class TileRegisters:
    """The registers of one thread. `counts`: how often each instruction ran; `faults`: what the
    processor would have ended the program for.
    """

    def __init__(self) -> None:
        self.counts: dict[str, int] = {}
        self.faults: list[str] = []
        self._rows = np.zeros(_REGISTERS, np.int64)
        self._bytes = np.zeros(_REGISTERS, np.int64)
        self._data = np.zeros((_REGISTERS, _ROWS, _BYTES), np.uint8)
        byte, pointer, number = ctypes.c_uint8, ctypes.c_void_p, ctypes.c_int64
        kinds: dict[str, tuple[Callable[..., None], list[type]]] = {
            "ldtilecfg": (self._configure, [pointer]),
            "tilerelease": (self._release, []),
            "tilezero": (self._zero, [byte]),
            "tileloadd64": (self._load, [byte, pointer, number]),
            "tilestored64": (self._store, [byte, pointer, number]),
        }
        for a in "su":
            for b in "su":
                name = f"tdpb{a}{b}d"
                kinds[name] = (self._multiplier(_SIGNED[a], _SIGNED[b]), [byte] * 3)
        kinds["tdpbf16ps"] = (self._multiply_halves, [byte] * 3)
        # kept, since code calls them for as long as it lives
        self._functions = {
            name: ctypes.CFUNCTYPE(None, *types)(self._counted(name, function))
            for name, (function, types) in kinds.items()
        }

    def rewritten(self, source: str) -> str:
        """Code that calls this object instead of the instructions."""
        count = 0

        def call(match: re.Match[str]) -> str:
            nonlocal count
            name, operands, types = match.groups()
            if name not in self._functions:
                return match.group()
            count += 1
            address = ctypes.cast(self._functions[name], ctypes.c_void_p).value
            return (
                f"%rc_a{count} = llvm.mlir.constant({address} : i64) : i64\n"
                f"%rc_f{count} = llvm.inttoptr %rc_a{count} : i64 to !llvm.ptr\n"
                f"llvm.call %rc_f{count}{operands} : !llvm.ptr, {types} -> ()"
            )

        return _CALL.sub(call, source)

    @property
    def released(self) -> bool:
        """Whether the registers have no shapes, as at the end of code that leaves none behind."""
        return not self._rows.any()

    def _counted(self, name: str, function: Callable[..., None]) -> Callable[..., None]:
        def run(*arguments: int) -> None:
            self.counts[name] = self.counts.get(name, 0) + 1
            function(*arguments)

        return run

    def _configure(self, pointer: int) -> None:
        memory = _memory(pointer, _BYTES)
        widths, rows = memory[16:32].view(np.uint16).astype(int), memory[48:56].astype(int)
        if memory[0] != 1 or memory[1:16].any() or memory[32:48].any() or memory[56:].any():
            self.faults.append("ldtilecfg: not palette 1, or reserved bytes are not 0")
        if (rows > _ROWS).any() or (widths > _BYTES).any() or ((rows == 0) != (widths == 0)).any():
            self.faults.append(f"ldtilecfg: rows {rows}, bytes {widths}")
        self._rows, self._bytes = rows, widths
        self._data[:] = 0

    def _release(self) -> None:
        self._rows, self._bytes = np.zeros((2, _REGISTERS), np.int64)

    def _zero(self, register: int) -> None:
        self._data[register] = 0

    def _load(self, register: int, pointer: int, stride: int) -> None:
        self._data[register] = 0
        for row in range(self._shape(register)):
            width = self._bytes[register]
            self._data[register, row, :width] = _memory(pointer + row * stride, width)

    def _store(self, register: int, pointer: int, stride: int) -> None:
        for row in range(self._shape(register)):
            width = self._bytes[register]
            _memory(pointer + row * stride, width)[:] = self._data[register, row, :width]

    def _shape(self, register: int) -> int:
        if not self._rows[register]:
            self.faults.append(f"register {register} has no shape")
        return int(self._rows[register])

    def _fits(self, sums: int, a: int, b: int) -> bool:
        rows, words, width = self._rows[sums], self._rows[b], self._bytes[sums]
        fits = (rows, words * 4, width) == (self._rows[a], self._bytes[a], self._bytes[b])
        if not fits or not rows:
            self.faults.append(f"registers {sums}, {a}, {b} do not fit each other")
        return bool(fits and rows)

    def _multiplier(self, first: type, second: type) -> Callable[[int, int, int], None]:
        def multiply(sums: int, a: int, b: int) -> None:
            if not self._fits(sums, a, b):
                return
            rows, words, width = self._rows[sums], self._rows[b], self._bytes[sums]
            left = self._data[a, :rows, : words * 4].view(first).astype(np.int32)
            right = self._data[b, :words, :width].view(second).astype(np.int32)
            right = right.reshape(words, -1, 4).transpose(0, 2, 1).reshape(words * 4, -1)
            self._data[sums, :rows, :width].view(np.int32)[:] += left @ right

        return multiply

    def _multiply_halves(self, sums: int, a: int, b: int) -> None:
        """tdpbf16ps: fused multiply-adds of the even and of the odd numbers of all words, each from
        0 on, both sums added, and that to the sum; numbers below the normal ones count as 0.
        """
        if not self._fits(sums, a, b):
            return
        rows, words, width = self._rows[sums], self._rows[b], self._bytes[sums]
        left, right = (
            _flushed(self._data[k, :high, :wide].view(ml_dtypes.bfloat16).astype(np.float32))
            for k, high, wide in ((a, rows, words * 4), (b, words, width))
        )
        parts = np.zeros((2, rows, width // 4), np.float32)
        for word in range(words):
            for odd in (0, 1):
                factor = np.multiply.outer(left[:, 2 * word + odd], right[word, odd::2])
                parts[odd] = fused(parts[odd], factor)
        result = self._data[sums, :rows, :width].view(np.float32)
        result[:] = _flushed(_flushed(result) + _flushed(parts[0] + parts[1]))


def fused(sums: np.ndarray, products: np.ndarray) -> np.ndarray:
    """f32 `sums` plus products of two bf16, f32 or wider and exact, rounded once to nearest."""
    a, b = sums.astype(np.float64), products.astype(np.float64)
    total = a + b
    back = total - a
    rest = (a - (total - back)) + (b - back)  # Knuth: what the sum in f64 lost
    # rounded to odd, the sum in f64 is a tie of f32 only where the exact one is
    toward = np.where((rest > 0) == (total > 0), 1, -1)
    bits = total.view(np.int64)
    lost = np.isfinite(total) & (rest != 0) & (bits & 1 == 0)
    return _flushed(np.where(lost, bits + toward, bits).view(np.float64).astype(np.float32))


def _flushed(x: np.ndarray) -> np.ndarray:
    return np.where(np.abs(x) < np.finfo(np.float32).tiny, np.copysign(np.float32(0), x), x)


def _memory(pointer: int, size: int) -> np.ndarray:
    return np.ctypeslib.as_array((ctypes.c_uint8 * int(size)).from_address(pointer))
