"""Operators that count, of operands that are not all there."""

from __future__ import annotations

from .rules import as_usual, rule

# Their translations mask what is not there themselves.
rule("Compress", "NonMaxSuppression", "NonZero", "TopK", "Unique")(as_usual)
