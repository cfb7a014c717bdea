"""Policies: who decides the tiles of an operator.

roller   the cost model, over the whole aligned space (`construct`)
osdi22   the published search (`published`); `roller` for operators that it cannot express
"""

from dataclasses import replace

from rcompiler.device.model import Device
from rcompiler.errors import CompilerError
from rcompiler.roller.construct import construct
from rcompiler.roller.decision import Decision
from rcompiler.roller.expr import TensorExpr
from rcompiler.roller.published import AS_PUBLISHED, NoTile, Variant, published
from rcompiler.roller.ranking import ranked

POLICIES = ("roller", "osdi22")


def decisions(
    expr: TensorExpr,
    device: Device,
    policy: str = "roller",
    eus: int | None = None,
    variant: Variant = AS_PUBLISHED,
) -> list[Decision]:
    """The decisions for an operator, the preferred first; of the published search its Top-1.

    eus: how many EUs it may get, by default all. variant: of the published search. Deterministic;
    never empty. Raises CompilerError for an unknown policy.
    """
    return shortlist(expr, device, 1, policy, eus, variant)[1]


def shortlist(
    expr: TensorExpr,
    device: Device,
    top: int,
    policy: str = "roller",
    eus: int | None = None,
    variant: Variant = AS_PUBLISHED,
) -> tuple[list[Decision], list[Decision]]:
    """The `top` tilings to measure, the best by the policy first, and what `decisions` returns."""
    if policy not in POLICIES:
        raise CompilerError(f"policy {policy!r} is none of {', '.join(POLICIES)}")
    if policy == "roller":
        return (ranked(expr, device, top) if top > 1 else []), construct(expr, device, eus)
    try:
        found = published(expr, device, top, eus, variant)
    except NoTile as reason:
        best, decided = shortlist(expr, device, top, eus=eus)
        return left_over(best, str(reason)), left_over(decided, str(reason))
    return found, found[:1]


def left_over(found: list[Decision], reason: str) -> list[Decision]:
    """Decisions of the cost model that say why the published search did not decide."""
    note = f"published search: {reason}; decided by policy roller"
    return [
        replace(d, explanation=replace(d.explanation, note=note)) if d.explanation else d
        for d in found
    ]
