"""Scalar and vector values of the generated code: element types, sizes, literals."""

from __future__ import annotations

import struct
from contextlib import suppress
from typing import NamedTuple

import numpy as np

from rcompiler.linalg.affine import Linear
from rcompiler.linalg.element_types import BITS, dtype_of


def type_name(element: str, lanes: int = 0) -> str:
    """The MLIR type of a scalar (no lanes) or of a vector."""
    return f"vector<{lanes}x{element}>" if lanes else element


class Val(NamedTuple):
    """An SSA value: its name, element type and number of lanes (0: a scalar). `linear` is its
    symbolic value, if any; `extended`: wider values that it was cut from, and that its extensions
    (arith.extsi, arith.extui) are equal to.

    A tuple, because thousands are made for one kernel.
    """

    name: str
    element: str
    lanes: int = 0
    linear: Linear | None = None
    extended: tuple[tuple[str, Val], ...] = ()

    @property
    def type(self) -> str:
        return type_name(self.element, self.lanes)

    @property
    def symbol(self) -> Linear:
        """Of an i64: its symbolic value, where it has none itself as a symbol."""
        return Linear.of(self.name) if self.linear is None else self.linear


def literal(value: float | int | bool, element: str) -> str:
    """A constant in MLIR's syntax, exact: floats by their bits, integers cut to their width."""
    if element == "i1":
        return "true" if value else "false"
    if element[0] == "i":
        bits = BITS[element]
        number = int(value) & ((1 << bits) - 1)
        return str(number - (1 << bits) if number >> (bits - 1) else number)
    if element == "f64":
        return f"0x{struct.unpack('<Q', struct.pack('<d', float(value)))[0]:016X}"
    digits = BITS[element] // 4
    if element == "f32":
        with suppress(OverflowError):  # too large: infinity
            return f"0x{struct.unpack('<I', struct.pack('<f', float(value)))[0]:08X}"
    with np.errstate(over="ignore"):
        raw = np.array(value).astype(dtype_of(element)).tobytes()
    return f"0x{int.from_bytes(raw, 'little'):0{digits}X}"
