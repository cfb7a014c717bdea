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
from rcompiler.roller.published import NoTile, published
from rcompiler.roller.ranking import ranked

POLICIES = ("roller", "osdi22")


def decide(
    expr: TensorExpr, device: Device, policy: str = "roller", eus: int | None = None
) -> list[Decision]:
    """The decisions for an operator, the preferred first; of the published search its Top-1.

    eus: how many EUs it may get, by default all. Deterministic; never empty. Raises CompilerError
    for an unknown policy.
    """
    return shortlist(expr, device, 1, policy, eus)[1]


def shortlist(
    expr: TensorExpr, device: Device, top: int, policy: str = "roller", eus: int | None = None
) -> tuple[list[Decision], list[Decision]]:
    """The `top` tilings to measure, the best by the policy first, and what `decide` returns."""
    if policy not in POLICIES:
        raise CompilerError(f"policy {policy!r} is none of {', '.join(POLICIES)}")
    if policy == "roller":
        return (ranked(expr, device, top) if top > 1 else []), construct(expr, device, eus)
    try:
        found = published(expr, device, top, eus)
    except NoTile as reason:
        note = f"published search: {reason}; decided by policy roller"
        best, decisions = shortlist(expr, device, top, eus=eus)
        return _noted(best, note), _noted(decisions, note)
    return found, found[:1]


def _noted(decisions: list[Decision], note: str) -> list[Decision]:
    return [
        replace(d, explanation=replace(d.explanation, note=note)) if d.explanation else d
        for d in decisions
    ]
