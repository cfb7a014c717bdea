"""The kinds of operators stand in the dialect and in Roller, which import nothing of each other."""

from rcompiler.dialects import rtask
from rcompiler.roller import expr


def test_dialect_and_roller_name_the_same_kinds():
    assert rtask.KINDS == expr.KINDS
