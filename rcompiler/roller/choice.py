"""Which of the evaluated task tiles an operator gets: the efficient one, and faster ones."""

from typing import TypeVar

import numpy as np

from rcompiler.device.model import Device
from rcompiler.roller.cost import TaskCosts, balance, cuts, unevenness
from rcompiler.roller.expr import TensorExpr
from rcompiler.roller.nest import Array
from rcompiler.roller.unit_cost import least_ns

_T = TypeVar("_T")

FEW_EUS = tuple(range(1, 9))  # that the efficient tile is good on, in the mean
_SHARE = 96  # a large operator has about this many tasks: enough to balance, few to place
_CUT = 0.01  # every axis that is cut makes dependences more
_FAST = 3  # decisions besides the efficient one
# Times the hand-off that an rTask of a faster decision takes at least; of short sums that vectors
# run along, on a device of so many EUs that some are idle anyway: these are the steps of recurrent
# networks, of which each waits for the one before.
_HAND_OFFS, _HAND_OFFS_IDLE = 5, 1


def has_idle_eus(eus: int) -> bool:
    """Whether there are so many EUs that an operator may leave some without work."""
    return eus > max(FEW_EUS)


def least_fast_ns(device: Device, eus: int, *, horizontal: bool) -> float:
    """ns that an rTask of a decision for `eus` EUs takes at least to be worth a hand-off;
    horizontal: whether vectors run along its sums.
    """
    times = _HAND_OFFS_IDLE if horizontal and has_idle_eus(eus) else _HAND_OFFS
    return times * device.costs.hand_off_ns


def shortest_task_ns(device: Device) -> float:
    """ns that each rTask of an operator of several takes at least, on multiply-adds."""
    return min(device.costs.min_task_ns, _HAND_OFFS * device.costs.hand_off_ns)


def preferred(found: list[_T], eus: int) -> list[_T]:
    """Of decisions that are ever faster, those to keep where some EUs are idle anyway: the first
    and the fastest ones.
    """
    return [*found[:1], *found[1:][-2:]] if has_idle_eus(eus) else found


def efficient(
    expr: TensorExpr,
    device: Device,
    tiles: Array,
    costs: TaskCosts,
    allowed: Array | bool = True,
) -> tuple[int, Array]:
    """The candidate with the least EU time over 1 to 8 EUs among those that are allowed and have
    long enough tasks, and the scores of all.
    """
    scores = _scores(expr, device, tiles, costs, allowed)
    # equal scores: fewer tasks, then the first tile
    return int(np.lexsort((np.arange(len(scores)), costs.tasks, scores))[0]), scores


def _scores(
    expr: TensorExpr, device: Device, tiles: Array, costs: TaskCosts, allowed: Array | bool
) -> Array:
    """EU time over 1 to 8 EUs; infinite for tiles that are not allowed or too short."""
    whole = float(costs.ns[0])
    floor = max(least_ns(expr, device), whole / _SHARE)
    enough = allowed & ((costs.ns >= floor) | (costs.tasks == 1))
    enough = enough if enough.any() else allowed
    score = eu_time(expr, device, tiles, costs.tasks, costs.ns)
    return np.where(enough, score, np.inf).round(1)


def eu_time(expr: TensorExpr, device: Device, tiles: Array, tasks: Array, ns: Array) -> Array:
    """EU time in ns, on average over 1 to 8 EUs, of `tasks` rTasks of `ns` in the mean.

    tiles: int64 [candidates, parallel axes].
    """
    spent = balance(tasks, ns, FEW_EUS, device.costs.hand_off_ns, unevenness(expr, tiles))
    return spent * (1 + _CUT * cuts(expr, tiles))


def faster(
    expr: TensorExpr,
    device: Device,
    costs: TaskCosts,
    span: Array,
    first: int,
    eus: int,
    allowed: Array | bool = True,
    *,
    horizontal: bool = False,
) -> list[int]:
    """Pareto candidates with a clearly shorter makespan on `eus` EUs, most efficient first.

    None for an operator that is too short for a second EU as a whole. span: `spans` on so many.
    horizontal: see `least_fast_ns`.
    """
    hand_off, least = device.costs.hand_off_ns, least_ns(expr, device)
    few = (
        2 * least_fast_ns(device, eus, horizontal=True)
        if horizontal and has_idle_eus(eus)
        else least
    )
    if eus == 1 or costs.ns[0] < min(few, least):
        return []
    spent = costs.tasks * (costs.ns + hand_off)
    eligible = allowed & (
        costs.ns
        >= (least_fast_ns(device, eus, horizontal=horizontal) if expr.unit is None else least)
    )
    chosen: list[int] = []
    best = float(span[first])
    for i in np.lexsort((np.arange(len(span)), span, spent)):
        if eligible[i] and span[i] < 0.9 * best and spent[i] >= spent[first]:
            chosen.append(int(i))
            best = float(span[i])
    # of a long front keep both ends and the middle; of one with many short rTasks not its begin
    most = _FAST if expr.unit is None else _FAST - 1
    if len(chosen) > most:
        chosen = [chosen[0], chosen[len(chosen) // 2], chosen[-1]][-most:]
    return chosen
