"""Few byte intervals as plain Python: most values have one, for which numpy's calls are too long.

A list of intervals is sorted and disjoint: [(first byte, byte behind the last), ...].
"""

from collections.abc import Sequence

Interval = tuple[int, int]


def meet(a: Sequence[Interval], b: Sequence[Interval]) -> bool:
    """Whether two lists have a byte in common."""
    i = j = 0
    while i < len(a) and j < len(b):
        if a[i][1] <= b[j][0]:
            i += 1
        elif b[j][1] <= a[i][0]:
            j += 1
        else:
            return True
    return False


def without(a: Sequence[Interval], b: Sequence[Interval]) -> list[Interval]:
    """What of `a` is not in `b`."""
    rest: list[Interval] = []
    j = 0
    for low, high in a:
        while j < len(b) and b[j][1] <= low:
            j += 1
        k = j
        while low < high and k < len(b) and b[k][0] < high:
            if low < b[k][0]:
                rest.append((low, b[k][0]))
            low = b[k][1]
            k += 1
        if low < high:
            rest.append((low, high))
    return rest
