"""The numbers of the two published policies, as data: contractions and everything else; and which
of the two an operator gets: does its reuse grow with the tile? (artifact: IODependent)

Source: microsoft/nnfusion, branch osdi22_artifact, artifacts/roller/policy: the classes
ConstructionPolicyRT and ConstructionPolicyPlainRT.
"""

import math
from dataclasses import dataclass

from rcompiler.roller.osdi22.expression import Expression
from rcompiler.roller.osdi22.quantities import input_traffic


@dataclass(frozen=True)
class Rules:
    """`multiples`: sizes tried per spatial axis of the shared tile.

    `reduction_start`: first reduction step, in transactions; `reduction_growth`: from one step to
    the next; `reduction_cap`: the last one in elements, `matrix_cap` with matrix fragments.
    `eps_step`: padding added per round. `scored`: axes in the order of their reuse score, threads
    that fill every partition of an SM, tiles accepted by the roofline; otherwise innermost axis
    first, whole warps, and tiles accepted when every row is aligned. `shrink`: whether small
    operators get smaller tiles.
    """

    multiples: int
    reduction_start: int
    reduction_growth: int
    reduction_cap: int
    matrix_cap: int
    eps_step: float
    scored: bool
    shrink: bool


CONTRACTION = Rules(
    multiples=32,
    reduction_start=1,
    reduction_growth=4,
    reduction_cap=32,
    matrix_cap=64,
    eps_step=0.2,
    scored=True,
    shrink=True,
)
PLAIN = Rules(
    multiples=512,
    reduction_start=4,
    reduction_growth=2,
    reduction_cap=128,
    matrix_cap=128,
    eps_step=0.1,
    scored=False,
    shrink=False,
)


# Of the reuse over the share of the sizes.
_LEAST_SLOPE = 2
_MEAN_SLOPE = 4


def rules_of(expr: Expression) -> Rules:
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
