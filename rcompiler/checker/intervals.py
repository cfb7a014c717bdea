"""Intervals of bytes: which meet, and which values follow one another on common bytes."""

import numpy as np

from rcompiler.checker.facts import Bools, Ints, distinct, forbid, ramp, spans


def meeting(one: Ints, two: Ints) -> tuple[Ints, Ints]:
    """Which intervals (rows of begin, end) have bytes in common with which of the second ones."""
    sort = np.argsort(two[:, 0])
    begin, end = two[sort].T
    # running maxima of the ends are sorted and leave nothing out
    first = np.searchsorted(np.maximum.accumulate(end), one[:, 0], side="right")
    sizes = np.maximum(np.searchsorted(begin, one[:, 1]) - first, 0)
    i, j = np.repeat(np.arange(len(one)), sizes), ramp(sizes) + np.repeat(first, sizes)
    some = one[i, 0] < end[j]
    return i[some], sort[j[some]]


def neighbours(low: Ints, high: Ints, value: Ints, writes: Bools, place: Ints) -> tuple[Ints, ...]:
    """(one, two): pairs of uses of common bytes of which the first must be over before the second.

    A value is written, then read, then the next one is written; so neighbours are enough. place: of
    each use in one execution, which says in which order they can only be. A cell is bytes that the
    same uses touch.
    """
    edges = distinct(np.append(low, high))
    at, end = np.searchsorted(edges, low), np.searchsorted(edges, high)
    # reads of one value on the same bytes are alike: one of them stands for all
    span = np.unique(at * len(edges) + end, return_inverse=True)[1]
    alike = np.where(writes, -1 - np.arange(len(at)), span * (value.max(initial=0) + 1) + value)
    _, some, of, times = np.unique(alike, True, True, True)
    use, cell = np.repeat(some, (end - at)[some]), spans(at[some], (end - at)[some])
    key = cell * (value.max(initial=0) + 1) + value[use]
    made, read = np.flatnonzero(writes[use]), np.flatnonzero(~writes[use])
    made = made[np.lexsort((place[use[made]], cell[made]))]
    more = np.append(cell[made[1:]] == cell[made[:-1]], False)[: len(made)]  # another write there
    last = np.flatnonzero(np.append(key[made[1:]] != key[made[:-1]], True)[: len(made)])
    last = last[np.argsort(key[made[last]])]  # the last write of each value, by value
    wanted = key[made[last]]
    forbid(wanted[1:] == wanted[:-1], "clobber", "values are written in turns to the same bytes")
    at = np.searchsorted(wanted, key[read])
    forbid(np.append(wanted, -1)[at] != key[read], "task", "a run reads what no operator writes")
    at, next_ = last[at], np.flatnonzero(more)
    one = np.concatenate([made[next_], made[at], read[more[at]]])
    two = np.concatenate([made[next_ + 1], read, made[at[more[at]] + 1]])
    one, two = divmod(distinct(use[one] * len(low) + use[two]), max(len(low), 1))
    # of a pair one writes, and is like no other
    begin, sizes, sort = np.cumsum(times) - times, times[of[one]] * times[of[two]], np.argsort(of)
    groups = (np.repeat([begin[of[n]], times[of[n]]], sizes, axis=1) for n in (one, two))
    return tuple(sort[first + ramp(sizes) % size] for first, size in groups)
