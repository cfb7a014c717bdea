"""What the printer and the parser of the schedule form have in common: its words and names."""

from __future__ import annotations

import math
import re

FIRST_LINE = "schedule 1"
IN_ORDER = "in order"
"""Behind the first line: the items stand in the order of the module."""

LARGEST = 1 << 62
"""Of any number, as the verifier has it: sums of two are in 64 bits."""

LETTERS = "ijklmnop"
"""The iterations of repeats inside of each other, outermost first."""

NAME = re.compile(r"[A-Za-z_](?:[\w$.]|\{[\w+-]*\})*", re.ASCII)
"""A name without quotes; `{4+2i}` in it is a number that moves."""

STRING = r'"(?:[^"\\\n]|\\.)*"'
TYPE = re.compile(r"(?:\d{1,18}x)*(?!x)[a-zA-Z]\w*", re.ASCII)
"""What stands in `tensor<...>` of a static tensor of numbers."""

SPACE = re.compile(r"(?:\s|//[^\n]*(?:\n|$))*")
"""Space and comments."""


ARENAS = {"arena": "arena", "bound": "arena_bound", "constants": "constants", "pinned": "pinned"}
"""The words for bytes of a program, and the attributes that have them."""

# In which order the items of a module stand: in the text, and in MLIR.
PRINTED = {"main": 0, "device": 1, "program": 2, "module": 3, "kernel": 4}
IN_MODULE = {"kernel": 0, "device": 1, "program": 2, "main": 3}

_BEGINNINGS = {'"vdevice.device"': "device", '"vdevice.program"': "program", "func.func": "main"}


def is_schedule_form(text: str) -> bool:
    """Whether a text is in the schedule form, which its first line says."""
    start = SPACE.match(text)
    assert start
    return re.match(r"schedule\b", text[start.end() : start.end() + 9]) is not None


def kind_of(mlir: str) -> str:
    """What an op of the module is, by the beginning of its text: one of IN_MODULE."""
    return next((k for start, k in _BEGINNINGS.items() if mlir.startswith(start)), "kernel")


def written_name(escaped: str) -> str:
    """A name as it is written: between quotes where it must be.

    Args:
        escaped: its text with MLIR's escapes.
    """
    return escaped if NAME.fullmatch(escaped) else f'"{escaped}"'


def tensor_bytes(type_: str) -> int | None:
    """The bytes of a tensor by its type; None where the type does not say its bits."""
    sizes, element = _parts(type_)
    bits = re.match(r"[a-z]+(\d{1,4})", element)
    if bits is None:
        return None
    return math.prod(sizes) * (1 if bits[1] == "1" else int(bits[1]) // 8)


def usual_dtype(type_: str) -> str:
    """What numpy calls the elements of a type that has no sign; other names are said."""
    _, element = _parts(type_)
    names = {"i1": "bool", "bf16": "bfloat16"}
    if element in names:
        return names[element]
    return {"f": "float", "i": "int"}.get(element[:1], "") + element[1:]


def _parts(type_: str) -> tuple[list[int], str]:
    """Sizes, and the type of elements."""
    sizes = re.match(r"(?:\d+x)*", type_, re.ASCII)
    assert sizes
    return [int(size) for size in sizes[0].split("x") if size], type_[sizes.end() :]
