"""The order in which blocks advance: together, or as hostile as hardware may be."""

from __future__ import annotations

import random
from collections.abc import Iterator

from rcompiler.emulator.faults import EmulationFault
from rcompiler.emulator.machine.cohort import ASLEEP, DONE, Cohort
from rcompiler.emulator.machine.launch import Launch

_WIDTH = 2048  # lanes of a cohort that is fast
_ENDLESS = 1 << 60


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
    live: list[Cohort] = []
    starved: dict[int, int] = {}  # id of a cohort -> turns that it still has to wait
    quiet: set[int] = set()  # cohorts that only spin since something last happened
    before = launch.progress
    while live or waiting:
        while waiting and len(live) < resident:
            live.append(Cohort(launch, [waiting.pop(0)], order))
        able = [c for c in live if not starved.get(id(c)) and id(c) not in quiet]
        if not able:
            able = [c for c in live if id(c) not in quiet]
            starved.clear()
        if not able:
            _idle(launch, live)
            quiet.clear()
            continue
        for key in starved:
            starved[key] = max(0, starved[key] - 1)
        for cohort in order.sample(able, order.randint(1, len(able))):
            status = _advance(cohort, _while(order))
            if launch.progress != before:
                before, launch.idle = launch.progress, 0
                quiet.clear()
            if status == DONE:
                live.remove(cohort)
            elif status == ASLEEP:
                quiet.add(id(cohort))
            if order.random() < 0.05:
                starved[id(cohort)] = order.randint(1, 50)


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
