"""Changes of a legal schedule, one kind per mistake that a scheduler could make."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from rcompiler.errors import ScheduleError
from rcompiler.rammer.program import Barrier, Buffer, Instruction, Program, Run, Signal, Wait

Queues = list[list[Instruction]]
# Changes the queues of one program in place; False: there is nothing of that kind to change.
Change = Callable[[random.Random, Queues], bool]


def mutant(
    rng: random.Random, kind: str, programs: Sequence[Program]
) -> tuple[Program, ...] | None:
    """The programs with one change of this kind (see KINDS); None where there is nothing to."""
    if kind == "two-changes":
        first = mutant(rng, rng.choice(KINDS[:-1]), programs)
        return mutant(rng, rng.choice(KINDS[:-1]), first) if first else None
    if kind == "move-buffer":
        return _move_buffer(rng, programs)
    number = rng.randrange(len(programs))
    program = programs[number]
    if kind == "other-kind":
        changed = replace(program, dynamic=not program.dynamic, eus=len(program.queues))
    else:
        queues = [list(queue) for queue in program.queues]
        if not _CHANGES[kind](rng, queues):
            return None
        changed = replace(program, queues=tuple(map(tuple, queues)))
    return (*programs[:number], changed, *programs[number + 1 :])


def _places(queues: Queues, what: type | tuple[type, ...]) -> list[tuple[int, int]]:
    return [(e, i) for e, q in enumerate(queues) for i, s in enumerate(q) if isinstance(s, what)]


def _drop(what: type) -> Change:
    def change(rng: random.Random, queues: Queues) -> bool:
        places = _places(queues, what)
        if places:
            eu, at = rng.choice(places)
            del queues[eu][at]
        return bool(places)

    return change


def _move(what: type) -> Change:
    """To another place of its queue; half of the time to the next one."""

    def change(rng: random.Random, queues: Queues) -> bool:
        places = [(e, i) for e, i in _places(queues, what) if len(queues[e]) > 1]
        if places:
            eu, at = rng.choice(places)
            step = queues[eu].pop(at)
            near = at + rng.choice((-1, 1)) if rng.random() < 0.5 else rng.randint(0, 99)
            queues[eu].insert(near % (len(queues[eu]) + 1), step)
        return bool(places)

    return change


def _swap_order(rng: random.Random, queues: Queues) -> bool:
    """Two neighbours of a queue, or two of its runs."""
    eu = rng.randrange(len(queues))
    queue = queues[eu]
    runs = [i for i, step in enumerate(queue) if isinstance(step, Run)]
    if len(runs) > 1 and rng.random() < 0.5:
        one, two = rng.sample(runs, 2)
    elif len(queue) > 1:
        one = rng.randrange(len(queue) - 1)
        two = one + 1
    else:
        return False
    queue[one], queue[two] = queue[two], queue[one]
    return True


def _on_two(change: Callable[[random.Random, Queues, int, int], None]) -> Change:
    """A change of two different queues, in any order."""

    def changed(rng: random.Random, queues: Queues) -> bool:
        if len(queues) < 2:
            return False
        one, two = rng.sample(range(len(queues)), 2)
        change(rng, queues, one, two)
        return True

    return changed


def _swap_queues(rng: random.Random, queues: Queues, one: int, two: int) -> None:
    """Half of the time neighbours. Of a dynamic program, the order of taking."""
    if rng.random() < 0.5:
        two = (one + 1) % len(queues)
    queues[one], queues[two] = queues[two], queues[one]


def _join_queues(_: random.Random, queues: Queues, one: int, two: int) -> None:
    """A queue goes on with what another one did."""
    queues[one] += queues[two]
    queues[two] = []


def _threshold(step: int) -> Change:
    def change(rng: random.Random, queues: Queues) -> bool:
        places = [(e, i) for e, i in _places(queues, Wait) if _wait(queues, e, i).count + step >= 0]
        if places:
            eu, at = rng.choice(places)
            wait = _wait(queues, eu, at)
            queues[eu][at] = Wait(wait.event, wait.count + step)
        return bool(places)

    return change


def _wait(queues: Queues, eu: int, at: int) -> Wait:
    step = queues[eu][at]
    assert isinstance(step, Wait)
    return step


def _run(queues: Queues, place: tuple[int, int]) -> Run:
    step = queues[place[0]][place[1]]
    assert isinstance(step, Run)
    return step


def _other_event(rng: random.Random, queues: Queues) -> bool:
    """A wait or a signal of another event."""
    places = _places(queues, (Wait, Signal))
    events = sorted({s.event for q in queues for s in q if isinstance(s, Signal)})
    if not places or len(events) < 2:
        return False
    eu, at = rng.choice(places)
    step = queues[eu][at]
    assert isinstance(step, Wait | Signal)
    queues[eu][at] = replace(step, event=rng.choice([e for e in events if e != step.event]))
    return True


def _other_eu(rng: random.Random, queues: Queues) -> bool:
    """A run at the same or any place of the queue of another EU."""
    places = _places(queues, Run)
    if not places or len(queues) < 2:
        return False
    eu, at = rng.choice(places)
    step = queues[eu].pop(at)
    target = queues[rng.choice([e for e in range(len(queues)) if e != eu])]
    target.insert(min(at, len(target)) if rng.random() < 0.5 else rng.randint(0, len(target)), step)
    return True


def _duplicate_task(rng: random.Random, queues: Queues) -> bool:
    """One task of a run, once more."""
    places = _places(queues, Run)
    if not places:
        return False
    run = _run(queues, rng.choice(places))
    task = run.first + run.stride * rng.randrange(run.count)
    queue = rng.choice(queues)
    queue.insert(rng.randint(0, len(queue)), replace(run, first=task, count=1))
    return True


def _missing_task(rng: random.Random, queues: Queues) -> bool:
    """The first or the last task of a run is not run."""
    places = _places(queues, Run)
    if not places:
        return False
    eu, at = rng.choice(places)
    run = _run(queues, (eu, at))
    if run.count == 1:
        del queues[eu][at]
    else:
        first = run.first + run.stride * rng.randrange(2)
        queues[eu][at] = replace(run, first=first, count=run.count - 1)
    return True


def _shift_range(rng: random.Random, queues: Queues) -> bool:
    """One run a task further, or, in half of the cases, the border between two runs moved."""
    places = _places(queues, Run)
    if not places:
        return False
    one = rng.choice(places)
    run = _run(queues, one)
    after = [
        other
        for other in places
        if (next_run := _run(queues, other)).operator == run.operator
        and next_run.first == run.first + run.count
        and run.stride == next_run.stride == 1
    ]
    by = rng.choice((-1, 1))
    if not after or rng.random() < 0.2:
        queues[one[0]][one[1]] = replace(run, first=run.first + by)
        return True
    two = after[0]
    follower = _run(queues, two)
    if (run.count if by < 0 else follower.count) == 1:
        return False
    queues[one[0]][one[1]] = replace(run, count=run.count + by)
    queues[two[0]][two[1]] = replace(follower, first=follower.first + by, count=follower.count - by)
    return True


def _exchange_ranges(rng: random.Random, queues: Queues) -> bool:
    """Two runs of one operator take each other's tasks."""
    places = _places(queues, Run)
    pairs = [
        (a, b) for a in places for b in places
        if a < b and _run(queues, a).operator == _run(queues, b).operator
    ]  # fmt: skip
    if not pairs:
        return False
    one, two = rng.choice(pairs)
    queues[one[0]][one[1]], queues[two[0]][two[1]] = _run(queues, two), _run(queues, one)
    return True


def _change_stride(rng: random.Random, queues: Queues) -> bool:
    """Another stride; or a run of even count as two runs of twice the stride, apart or not."""
    places = _places(queues, Run)
    if not places:
        return False
    eu, at = rng.choice(places)
    run = _run(queues, (eu, at))
    if run.count % 2 or rng.random() < 0.2:
        queues[eu][at] = replace(run, stride=max(1, run.stride + rng.choice((-1, 1, 2))))
        return True
    even = replace(run, count=run.count // 2, stride=run.stride * 2)
    odd = replace(even, first=run.first + run.stride)
    halves = [even, odd] if rng.random() < 0.5 else [odd, even]
    queues[eu][at] = halves[0]
    queues[eu].insert(at + 1 if rng.random() < 0.6 else rng.randint(0, len(queues[eu])), halves[1])
    return True


def _split_run(rng: random.Random, queues: Queues) -> bool:
    """The second part of a range somewhere else in the queue."""
    places = [place for place in _places(queues, Run) if _run(queues, place).count > 1]
    if not places:
        return False
    eu, at = rng.choice(places)
    run = _run(queues, (eu, at))
    cut = rng.randint(1, run.count - 1)
    queues[eu][at] = replace(run, count=cut)
    rest = replace(run, first=run.first + cut * run.stride, count=run.count - cut)
    queues[eu].insert(at + 1 if rng.random() < 0.4 else rng.randint(0, len(queues[eu])), rest)
    return True


def _add_barrier(rng: random.Random, queues: Queues) -> bool:
    """One barrier for all EUs, at any places; now and then one that an EU misses."""
    missing = rng.randrange(len(queues)) if rng.random() < 0.2 else -1
    for eu, queue in enumerate(queues):
        if eu != missing:
            queue.insert(rng.randint(0, len(queue)), Barrier())
    return True


def _drop_barrier(rng: random.Random, queues: Queues) -> bool:
    """The n-th barrier of all EUs; now and then of one of them only."""
    met = [[i for i, step in enumerate(queue) if isinstance(step, Barrier)] for queue in queues]
    if not all(met):
        return False
    number = rng.randrange(min(map(len, met)))
    some = range(len(queues)) if rng.random() < 0.8 else [rng.randrange(len(queues))]
    for eu in some:
        del queues[eu][met[eu][number]]
    return True


def _move_buffer(rng: random.Random, programs: Sequence[Program]) -> tuple[Program, ...] | None:
    """Temp values at other bytes: onto another, onto a part of it, or onto fresh bytes.

    In all programs, now and then in one of them only; mostly one value, else up to four stacked.
    """
    temps = sorted({b for p in programs for b in p.buffers if b.kind == "temp"}, key=_by_name)
    roots = {b.name: b for b in temps if b.alias_of is None}
    if not roots:
        return None
    number = 1 if rng.random() < 0.6 else rng.randint(1, min(4, len(roots)))
    moved, arena = rng.sample(sorted(roots), number), programs[0].arena
    targets = [b.offset + rng.choice((0, 0, 1, b.bytes // 2)) for b in temps if b.name not in moved]
    target = rng.choice([*targets, arena, rng.randint(0, arena)])
    only = rng.randrange(len(programs)) if rng.random() < 0.1 else -1
    size = max([arena, *(target + roots[name].bytes for name in moved)])
    by = {name: target - roots[name].offset for name in moved}
    try:
        return tuple(
            replace(p, arena=size, buffers=_moved(p, by) if only in (-1, i) else p.buffers)
            for i, p in enumerate(programs)
        )
    except ScheduleError:
        return None  # no program: a view would lie outside of what it views


def _by_name(buffer: Buffer) -> tuple[str, int]:
    return buffer.name, buffer.offset


def _moved(program: Program, by: Mapping[str, int]) -> tuple[Buffer, ...]:
    """Buffers with some roots, and all their views, moved by so many bytes."""

    def root(buffer: Buffer) -> str:
        name = buffer.name
        while name in program.buffer and (parent := program.buffer[name].alias_of) is not None:
            name = parent
        return name

    return tuple(replace(b, offset=b.offset + by.get(root(b), 0)) for b in program.buffers)


_CHANGES: dict[str, Change] = {
    "drop-wait": _drop(Wait),
    "move-wait": _move(Wait),
    "drop-signal": _drop(Signal),
    "move-signal": _move(Signal),
    "swap-order": _swap_order,
    "swap-queues": _on_two(_swap_queues),
    "join-queues": _on_two(_join_queues),
    "shrink-threshold": _threshold(-1),
    "raise-threshold": _threshold(1),
    "other-event": _other_event,
    "other-eu": _other_eu,
    "duplicate-task": _duplicate_task,
    "missing-task": _missing_task,
    "shift-range": _shift_range,
    "exchange-ranges": _exchange_ranges,
    "change-stride": _change_stride,
    "split-run": _split_run,
    "add-barrier": _add_barrier,
    "move-barrier": _move(Barrier),
    "drop-barrier": _drop_barrier,
}
KINDS = (*_CHANGES, "move-buffer", "other-kind", "two-changes")
