"""The numbers of the two published policies, as data: contractions and everything else.

Source: microsoft/nnfusion, branch osdi22_artifact, artifacts/roller/policy: the classes
ConstructionPolicyRT and ConstructionPolicyPlainRT.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class SearchRules:
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


CONTRACTION = SearchRules(
    multiples=32,
    reduction_start=1,
    reduction_growth=4,
    reduction_cap=32,
    matrix_cap=64,
    eps_step=0.2,
    scored=True,
    shrink=True,
)
PLAIN = SearchRules(
    multiples=512,
    reduction_start=4,
    reduction_growth=2,
    reduction_cap=128,
    matrix_cap=128,
    eps_step=0.1,
    scored=False,
    shrink=False,
)
