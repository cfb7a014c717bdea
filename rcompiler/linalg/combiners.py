"""The ops that reductions combine elements with."""

from __future__ import annotations

from rcompiler.linalg.element_types import BITS

# combining op -> (vector.reduction kind, identity); None: see `identity_of`
COMBINERS: dict[str, tuple[str, float | None]] = {
    "arith.addf": ("add", 0.0),
    "arith.mulf": ("mul", 1.0),
    "arith.maximumf": ("maximumf", float("-inf")),
    "arith.minimumf": ("minimumf", float("inf")),
    "arith.maxnumf": ("maxnumf", float("-inf")),
    "arith.minnumf": ("minnumf", float("inf")),
    "arith.addi": ("add", 0),
    "arith.muli": ("mul", 1),
    "arith.maxsi": ("maxsi", None),
    "arith.minsi": ("minsi", None),
    "arith.maxui": ("maxui", 0),
    "arith.minui": ("minui", -1),
    "arith.ori": ("or", 0),
    "arith.andi": ("and", -1),
    "arith.xori": ("xor", 0),
}


def identity_of(combiner: str, element: str) -> float:
    """The number that `combiner` leaves any other number of this element type as it is with."""
    number = COMBINERS[combiner][1]
    if number is not None:
        return number
    half = 1 << (BITS[element] - 1)
    return -half if combiner == "arith.maxsi" else half - 1
