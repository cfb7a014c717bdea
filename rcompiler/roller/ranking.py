"""The K best tilings by the model, and the choice among them by measured times (Roller §3.3)."""

import math
import random
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from rcompiler.device.model import Device
from rcompiler.roller.choice import eu_time
from rcompiler.roller.construct import TilingSpace, construct
from rcompiler.roller.cost import makespan
from rcompiler.roller.decision import Decision
from rcompiler.roller.expr import TensorExpr

_ALL = 1 << 30  # register tiles
_WIDE = 8  # EUs that the decisions after the first one are for, at least


def ranked(expr: TensorExpr, device: Device, count: int) -> list[Decision]:
    """Up to `count` tilings, best by the model first; the first is `construct`'s.

    Tilings whose tasks are too short to be placed are not among them.
    """
    space = TilingSpace(expr, device)
    found = [construct(expr, device)[0]]
    for number in np.argsort(space.scores, kind="stable"):
        if len(found) >= count or not math.isfinite(space.scores[number]):
            break
        decision = space.decision(int(number))
        if decision not in found:
            found.append(decision)
    return found


def sampled(expr: TensorExpr, device: Device, count: int, seed: int = 0) -> list[Decision]:
    """Up to `count` different tilings, drawn evenly from all register tiles and task tiles."""
    space = TilingSpace(expr, device, registers=_ALL)
    numbers = random.Random(seed).sample(range(len(space)), min(count, len(space)))
    return [space.decision(number) for number in numbers]


def with_times(
    decisions: Sequence[Decision], ns: Sequence[float], beside: Sequence[float] | None = None
) -> list[Decision]:
    """The decisions, measured: `ns` is the time of all tasks of each, one after the other on one
    EU; `beside` the same while all other EUs do so, too, if that was measured.
    """
    return [
        replace(
            decision,
            source="measured",
            measured_ns=round(alone / decision.tasks, 1),
            beside_ns=round(others / decision.tasks, 1),
        )
        for decision, alone, others in zip(decisions, ns, beside or [0.0] * len(ns), strict=True)
    ]


def choose(
    expr: TensorExpr,
    device: Device,
    best: Sequence[Decision],
    fast: Sequence[Decision],
    eus: int | None = None,
) -> list[Decision]:
    """What `construct` returns, by measured times: the efficient decision first.

    A program of several EUs keeps all of them busy, so what counts for it is the time of an rTask
    beside others; for one of one EU that of an rTask alone.

    best: candidates for it; all of them measured. fast: those that may come after it, more tasks
    last; they stay if their makespan on `eus` EUs (see `construct`) is clearly shorter.
    """
    eus = eus or max(_WIDE, device.eus)
    tiles = np.array([d.tile for d in best], np.int64).reshape(len(best), -1)
    tasks = np.array([d.tasks for d in best])
    ns = np.array([d.timed_ns for d in best])
    times = eu_time(expr, device, tiles, tasks, ns)
    order = [int(i) for i in np.argsort(times, kind="stable")]
    first = best[order[0]]
    if first.explanation is not None and len(best) > 1:
        by = "measured EU time" + (" beside others" if first.beside_ns else "")
        ratio = float(times[order[1]] / max(times[order[0]], 1e-9))
        first = first.compared(best[order[1]].as_runner_up(by, ratio))
    chosen, shortest = [first], _span(first, device, eus)
    for decision in fast:
        if _span(decision, device, eus) < 0.9 * shortest:
            chosen.append(decision)
            shortest = _span(decision, device, eus)
    return chosen


def _span(decision: Decision, device: Device, eus: int) -> float:
    hand_off = device.costs.hand_off_ns
    return float(makespan(np.array(decision.tasks), decision.timed_ns, eus, hand_off))
