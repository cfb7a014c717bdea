"""PTX's fundamental types as numpy's."""

from __future__ import annotations

# Type -> numpy type. Types without arithmetic in numpy (bf16, packed pairs) are their bits.
DTYPES = {
    "b8": "u1", "u8": "u1", "s8": "i1",
    "b16": "u2", "u16": "u2", "s16": "i2", "f16": "f2", "bf16": "u2",
    "b32": "u4", "u32": "u4", "s32": "i4", "f32": "f4", "f16x2": "u4", "bf16x2": "u4", "tf32": "u4",
    "u16x2": "u4", "s16x2": "u4",
    "b64": "u8", "u64": "u8", "s64": "i8", "f64": "f8",
}  # fmt: skip
FLOATS = frozenset({"f16", "bf16", "f32", "f64"})
# Types that a register can have: predicates are booleans, the others their bits.
REGISTERS = frozenset(DTYPES) - {"b8", "u8", "s8"} | {"pred"}


def size_of(type_: str) -> int:
    """Bytes of a value."""
    return int(DTYPES[type_][1:])


def bits_of(type_: str) -> str:
    """The numpy type that holds the bits of a register of this type."""
    return "bool" if type_ == "pred" else f"u{size_of(type_)}"


def is_signed(type_: str) -> bool:
    return type_[0] == "s"
