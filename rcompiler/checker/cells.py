"""Values that follow one another on bytes: which uses must be over before which."""

import numpy as np

from rcompiler.checker.facts import Bools, Ints, distinct, forbid, ramp


def neighbours(low: Ints, high: Ints, value: Ints, writes: Bools, place: Ints) -> tuple[Ints, Ints]:
    """(one, two): pairs of uses of common bytes of which the first must be over before the second.

    A value is written, then read, then the next one is written; so neighbours are enough. place: of
    each use in one execution, which says in which order they can only be. A cell is bytes that the
    same uses touch.
    """
    edges = np.unique(np.append(low, high))
    at, end = np.searchsorted(edges, low), np.searchsorted(edges, high)
    use = np.repeat(np.arange(len(low)), end - at)
    cell = at[use] + ramp(end - at)
    key = cell * (value.max(initial=0) + 1) + value[use]
    made = np.flatnonzero(writes[use])
    made = made[np.lexsort((place[use[made]], cell[made]))]
    same = cell[made[1:]] == cell[made[:-1]]
    after = np.append(np.where(same, made[1:], -1), -1)[: len(made)]
    last = np.flatnonzero(np.append(key[made[1:]] != key[made[:-1]], True)[: len(made)])
    last = last[np.argsort(key[made[last]])]  # the last write of each value, by value
    wanted = key[made[last]]
    forbid(wanted[1:] == wanted[:-1], "clobber", "values are written in turns to the same bytes")
    read = np.flatnonzero(~writes[use])
    at = np.searchsorted(wanted, key[read])
    forbid(np.append(wanted, -1)[at] != key[read], "task", "a run reads what no operator writes")
    over = after[last[at]]  # the next write there
    one = np.concatenate([made[:-1][same], made[last[at]], read[over >= 0]])
    two = np.concatenate([made[1:][same], read, over[over >= 0]])
    return divmod(distinct(use[one] * len(low) + use[two]), max(len(low), 1))
