"""Scalar and vector values of the generated code: element types, sizes, literals."""

from __future__ import annotations

import struct
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
        return f"vector<{self.lanes}x{self.element}>" if self.lanes else self.element

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
        return f"0x{struct.pack('>d', value).hex().upper()}"
    if element == "f32":
        try:
            return f"0x{struct.pack('>f', value).hex().upper()}"
        except OverflowError:
            pass  # too large: infinity
    digits = BITS[element] // 4
    with np.errstate(over="ignore"):
        raw = np.array(value).astype(dtype_of(element)).tobytes()
    return f"0x{int.from_bytes(raw, 'little'):0{digits}X}"
