"""Names that stand in two places, since neither may import the other."""

from typing import get_args

import pytest

from rcompiler import options
from rcompiler.dialects import rtask
from rcompiler.rammer import schedule
from rcompiler.roller import expr, policy, roots


def test_dialect_and_roller_name_the_same_kinds():
    assert rtask.KINDS == expr.KINDS


@pytest.mark.parametrize(
    ("choices", "made"),
    [
        (options.Policy, (*schedule.POLICIES,)),
        (options.RollerPolicy, (*policy.POLICIES,)),
        (options.Roots, ("auto", *roots.ROOTS)),
    ],
)
def test_options_offer_what_the_algorithms_have(choices, made):
    assert get_args(choices) == made
