"""The search for loops in a flat list of instructions: periods by hashing, then the best savings.

Whether three instructions lie on a line is asked of a sum of their numbers, each times a constant
of its place, in arithmetic modulo 2^64: instructions on a line have sums on a line. So a period is
tried in a few operations on whole arrays; what is chosen is checked number by number.
"""

import heapq
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
_Words = NDArray[np.uint64]

FEWEST = 3  # iterations of a loop: any two lie on a line
COMMON = 4  # distances kept for each length of context
MULTIPLES = 4  # of a distance: what moves may need more than one round to come back
_MIX, _NEXT = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBF58476D1CE4E5B9)


@dataclass(frozen=True, slots=True)
class Loop:
    """`count` times `period` instructions from `start` on; steps: of the numbers of one round."""

    start: int
    period: int
    count: int
    steps: tuple[int, ...]


class Flat:
    """n instructions as arrays.

    kind: (n,) equal for instructions that may be the same line of a loop; these have equally many
    numbers. place: (n + 1,) where the numbers of each begin in `number`; size: (n + 1,) sum of the
    sizes of those before; total: (n,) hash of the numbers that is linear in them.
    """

    def __init__(
        self, kind: Sequence[int], numbers: Sequence[tuple[int, ...]], sizes: Sequence[int]
    ) -> None:
        self.kind = np.array(kind, np.int64)
        self.place = _sums(list(map(len, numbers)))
        self.number = np.array([n for row in numbers for n in row], np.int64)
        self.size = _sums(sizes)
        position = np.arange(len(self.number)) - np.repeat(self.place[:-1], np.diff(self.place))
        with np.errstate(over="ignore"):
            weight = (position.astype(np.uint64) + np.uint64(1)) * _MIX
            weight = (weight ^ (weight >> np.uint64(29))) * _NEXT | np.uint64(1)
            sums = np.concatenate([[np.uint64(0)], np.cumsum(self.number.view(np.uint64) * weight)])
        self.total: _Words = sums[self.place[1:]] - sums[self.place[:-1]]

    def rounds(self, start: int, period: int, count: int) -> Ints:
        """(count, m): the numbers of each round."""
        low, high = self.place[start], self.place[start + count * period]
        return self.number[low:high].reshape(count, -1)


def search(
    flat: Flat, loop_size: int, step_size: int, fewest: int = FEWEST, shortest: int = 1
) -> list[Loop]:
    """Loops of at least `fewest` rounds of at least `shortest` instructions that make the list
    smaller, in order, none in another.

    The one that saves most is taken first, then what is left is looked at again. loop_size: of a
    loop beside its body; step_size: of each number of a round that moves.
    """
    n = len(flat.kind)
    # most saved, smallest period, first; exact: the saving is no longer an estimate
    queue: list[tuple[int, int, int, int, bool]] = []

    def push(period: int, low: int, high: int) -> None:
        count = (high - low) // period
        if count >= fewest:
            saved = flat.size[low + count * period] - flat.size[low + period] - loop_size
            if saved > 0:
                heapq.heappush(queue, (-int(saved), period, low, high, False))

    for period in filter(lambda period: period >= shortest, _periods(flat.kind)):
        for low, high in _stretches(flat, period):
            push(period, low, high)
    free = np.ones(n, np.bool_)
    found: list[Loop] = []
    while queue:
        saved, period, low, high, exact = heapq.heappop(queue)
        if not free[low:high].all():
            for a, b in _true(free[low:high]):
                push(period, low + a, low + b)
            continue
        count = (high - low) // period
        steps = _steps(flat.rounds(low, period, count))
        if steps is None:  # equal hashes of what is not on a line
            continue
        if not exact:
            saved += step_size * int(np.count_nonzero(steps))
            if saved < 0:
                heapq.heappush(queue, (saved, period, low, high, True))
            continue
        free[low : low + count * period] = False
        found.append(Loop(low, period, count, tuple(steps.tolist())))
    return sorted(found, key=lambda loop: loop.start)


def _periods(kind: Ints) -> list[int]:
    """Distances at which the same instructions come again most often, and multiples of them.

    Of each instruction with the 1, 2, 4, ... that follow it, the distance to the next equal ones.
    """
    n = len(kind)
    found: set[int] = set()
    gram = (kind.astype(np.uint64) + np.uint64(1)) * _MIX
    length = 1
    while len(gram) > 1:
        order = np.argsort(gram, kind="stable")
        same = gram[order[1:]] == gram[order[:-1]]
        if not same.any():
            break
        times = np.bincount(order[1:][same] - order[:-1][same])
        common = np.argsort(-times, kind="stable")[:COMMON]
        found.update(common[times[common] > 0].tolist())
        gram = (gram[:-length] ^ (gram[:-length] >> np.uint64(31))) * _NEXT + gram[length:] * _MIX
        length *= 2
    periods = {distance * k for distance in found for k in range(1, MULTIPLES + 1)}
    return sorted(period for period in periods if period * FEWEST <= n)


def _stretches(flat: Flat, period: int) -> Iterator[tuple[int, int]]:
    """(low, high) of all longest stretches of rounds on a line, of at least FEWEST rounds."""
    kind, total = flat.kind, flat.total
    same = kind[period:] == kind[:-period]
    change = total[period:] - total[:-period]
    even = same[period:] & same[:-period] & (change[period:] == change[:-period])
    for low, high in _true(even, period):
        yield low, high + 2 * period


def _true(mask: NDArray[np.bool_], least: int = 1) -> list[tuple[int, int]]:
    """(low, high) of the longest stretches of True, of those of at least so many."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], mask, [False]]).astype(np.int8)))
    low, high = edges.reshape(-1, 2).T
    long = high - low >= least
    return list(zip(low[long].tolist(), high[long].tolist(), strict=True))


def _steps(rounds: Ints) -> Ints | None:
    """(m,): how each number moves from round to round; None unless evenly."""
    moves = np.diff(rounds, axis=0)
    return moves[0] if (moves == moves[0]).all() else None


def _sums(sizes: Sequence[int]) -> Ints:
    return np.concatenate([[0], np.cumsum(np.array(sizes, np.int64), dtype=np.int64)])
