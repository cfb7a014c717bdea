"""Which policy an operator gets: does its reuse grow with the tile? (artifact: IODependent)."""

import math

from rcompiler.roller.osdi22.expression import Expression
from rcompiler.roller.osdi22.quantities import input_traffic
from rcompiler.roller.osdi22.rules import CONTRACTION, PLAIN, SearchRules

_LEAST_SLOPE = 2
_MEAN_SLOPE = 4


def rules_of(expr: Expression) -> SearchRules:
    """The contraction policy when reuse grows with the tile, else the plain one."""
    return CONTRACTION if reuse_grows(expr) else PLAIN


def reuse_grows(expr: Expression) -> bool:
    """Whether points per input byte rise steadily over nine scaled copies of the operator."""
    # quirk (parity): 0.1 * 3 is a little above 0.3, which decides how a size rounds
    shares = [0.1 * tenth for tenth in range(1, 10)]
    reuse = []
    for share in shares:
        shape = [max(1, int(share * size)) for size in expr.sizes]
        read = input_traffic(expr, shape)
        if not read:
            return False
        reuse.append(math.prod(shape) / read)
    slopes = [
        (reuse[i + 1] - reuse[i]) / (shares[i + 1] - shares[i]) for i in range(len(shares) - 1)
    ]
    return min(slopes) > _LEAST_SLOPE and sum(slopes) / len(slopes) > _MEAN_SLOPE
