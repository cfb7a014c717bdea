"""The order in which blocks advance: together, or as hostile as hardware may be."""

from __future__ import annotations

import random
from collections.abc import Iterator

from rcompiler.emulator.faults import EmulationFault
from rcompiler.emulator.machine.cohort import ASLEEP, DONE, Cohort
from rcompiler.emulator.machine.launch import Launch

_WIDTH = 2048  # lanes of a cohort that is fast
_ENDLESS = 1 << 60
_CROWD = 32  # blocks that a hostile order begins with; more begin when these end, or all wait


def run(launch: Launch, resident: int, order: random.Random | None) -> None:
    """Run all blocks, `resident` at once at most. order: whom to ask for a hostile order."""
    if order is None:
        _together(launch, resident)
    else:
        _hostile(launch, resident, order)


def _together(launch: Launch, resident: int) -> None:
    """Cohorts of many blocks one after another; more are begun only when all so far wait."""
    size = max(1, min(_WIDTH // launch.threads, resident, launch.blocks))
    waiting: Iterator[list[int]] = (
        list(range(k, min(k + size, launch.blocks))) for k in range(0, launch.blocks, size)
    )
    live: list[Cohort] = []
    more = True
    while live or more:
        before = launch.progress
        live = [cohort for cohort in live if _advance(cohort, _ENDLESS) != DONE]
        if launch.progress != before:
            launch.idle = 0
            if live:
                continue
        numbers = next(waiting, None) if len(live) < max(1, resident // size) else None
        if numbers is not None:
            live.append(Cohort(launch, numbers))
        elif live:
            _idle(launch, live)
        else:
            more = False


def _hostile(launch: Launch, resident: int, order: random.Random) -> None:
    """One block at a time for a random while; some are left out for long."""
    waiting = list(range(launch.blocks))
    order.shuffle(waiting)
    live = [Cohort(launch, [n], order) for n in waiting[: min(_CROWD, resident)]]
    del waiting[: len(live)]
    starved: dict[Cohort, int] = {}  # turns that they still have to wait
    quiet: set[Cohort] = set()  # those that only spin since something last happened
    before = launch.progress
    while live:
        able = [c for c in live if c not in quiet and not starved.get(c)]
        if not able:
            starved.clear()
            able = [c for c in live if c not in quiet]
        if not able:
            more = waiting[: min(len(live), resident - len(live))]
            del waiting[: len(more)]
            live += [Cohort(launch, [n], order) for n in more]
            quiet.clear()
            if not more:
                _idle(launch, live)
            continue
        starved = {c: turns - 1 for c, turns in starved.items() if turns > 1}
        for cohort in order.sample(able, order.randint(1, len(able))):
            status = _advance(cohort, _while(order))
            if launch.progress != before:
                before, launch.idle = launch.progress, 0
                quiet.clear()
            if status == DONE:
                live.remove(cohort)
                live += [Cohort(launch, [waiting.pop()], order)] if waiting else []
            elif status == ASLEEP:
                quiet.add(cohort)
            if order.random() < 0.05:
                starved[cohort] = order.randint(1, 50)


def _while(order: random.Random) -> int:
    """Basic blocks until somebody else may advance: mostly few, now and then until it waits."""
    return _ENDLESS if order.random() < 0.05 else 1 << order.randint(0, 5)


def _advance(cohort: Cohort, budget: int) -> str:
    status = cohort.run(budget)
    if status == DONE:
        cohort.bulk.finish()
    return status


def _idle(launch: Launch, live: list[Cohort]) -> None:
    """Everybody waits for somebody else: time passes, up to a limit."""
    launch.leap()
    if launch.idle <= launch.limits.patience:
        return
    waits = tuple(found for cohort in live for found in cohort.waiting())
    site, address = waits[0]
    others = "; ".join(f"{s} for {a:#x}" for s, a in waits[1:8])
    near = launch.memory.find(address)
    raise EmulationFault(
        "timeout",
        site,
        f"{len(waits)} groups of threads wait for what nobody does any more"
        + (f", also {others}" if others else ""),
        address=address,
        allocation=str(near) if near else "shared memory",
        waiting=waits,
    )
