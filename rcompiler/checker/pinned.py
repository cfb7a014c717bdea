"""Boxes that EUs keep in memory of their own: each is read where it is."""

from typing import TYPE_CHECKING

import numpy as np

from rcompiler.checker.boxes import Access
from rcompiler.checker.facts import ramp, refuse

if TYPE_CHECKING:
    from rcompiler.checker.check import Check


def check_pinned(found: "Check") -> None:
    """On its EU a box is pinned once, lies inside of the memory and has its bytes for itself, and a
    run reads the very box that was pinned there before.
    """
    facts, uses = found.facts, found.uses
    pinned = np.array([n in own[3] for own in facts.sizes for n in range(len(own[1]))], bool)
    if (pinned[uses.access] != (found.base[found.buffer] < 0)).any():
        refuse("buffer", "an operand is pinned, and its kernel does not know it, or reverse")
    for number in np.unique(uses.access[pinned[uses.access]]).tolist():
        if not _side_by_side(uses.accesses[number]):
            refuse("buffer", "the pinned boxes of a run are not bytes side by side")
    # a row for each run and pinned operand
    some = np.flatnonzero(pinned[uses.access])
    sizes = uses.sizes[uses.owner[some]]
    use = np.repeat(some, sizes)
    run = np.repeat(uses.begin[uses.owner[some]], sizes) + ramp(sizes)
    first, count, stride = uses.tasks[run].T
    taken = np.array([bool(launch.taken_by) for launch in facts.launches], bool)
    if (taken[found.order.thread_program(uses.run[run])] | ((count > 1) & (stride != 1))).any():
        refuse("buffer", "which EU has a pinned box is not known")
    size = np.array([access.task_bytes for access in uses.accesses], np.int64)[uses.access[use]]
    most = np.array([access.bytes for access in uses.accesses], np.int64)[uses.access[use]]
    box = np.stack([first * size, np.minimum((first + count) * size, most)])
    low, high = uses.low[use], uses.low[use] + count * size
    thread = found.steps.thread[uses.run[run]]
    unit = thread * (len(uses.names[1]) + 1) + found.buffer[use]
    made = np.flatnonzero(uses.writes[use])
    if (high[made] > facts.pinned).any():
        refuse("buffer", "a pinned box leaves the memory of its EU")
    order = made[np.lexsort((low[made], thread[made]))]
    over = (thread[order[1:]] == thread[order[:-1]]) & (low[order[1:]] < high[order[:-1]])
    made = made[np.argsort(unit[made], kind="stable")]
    if over.any() or (unit[made[1:]] == unit[made[:-1]]).any():
        refuse("clobber", "a pinned box lies over another one")
    read = np.flatnonzero(~uses.writes[use])
    source = np.append(made, -1)[np.searchsorted(unit[made], unit[read])]
    same = (unit[source] == unit[read]) & (box[:, source] == box[:, read]).all(axis=0)
    if not (same & (source >= 0) & (uses.run[run[source]] < uses.run[run[read]])).all():
        refuse("buffer", "a run reads a box that is not pinned on its EU")


def _side_by_side(access: Access) -> bool:
    """Whether the box of each task is one run of bytes, behind that of the task before."""
    every = np.arange(int(np.prod(access.grid)))
    ones = np.ones(len(every), np.int64)
    owner, boxes = access.ranges(every, ones, ones)
    want = np.stack([every, every + 1], axis=1) * access.task_bytes
    want = np.minimum(want, access.bytes)
    size = (boxes[:, :, 1] - boxes[:, :, 0]).prod(axis=1) * access.itemsize
    return (
        np.array_equal(owner, every)
        and np.array_equal(access.hulls(boxes), want)
        and np.array_equal(size, want[:, 1] - want[:, 0])
    )
