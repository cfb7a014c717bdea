"""Which sizes a model will be called with, by those that it was called with.

Pure numbers: a call is a tuple with the size of each symbol. From those that were seen follow how
symbols depend on others (a mask is as long as what is past and what is new together), and, once an
axis has had three sizes, a range for it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

Sizes = tuple[int, ...]
Interval = tuple[int, int]  # the least and the greatest size
Bucket = tuple[Interval, ...]  # of each symbol

_DIFFERENT = 3  # sizes of an axis that make a range of it
# The least end of a range: of a first axis, which is mostly a batch, and of others, where sizes
# come one after the other, as the lengths of what a decoder has generated, and where not.
_LEAST_BATCH, _LEAST_COUNTED, _LEAST = 16, 128, 32
_AHEAD = 4  # times the end of a range is that of the next one, where sizes come one by one
_MOST = 1 << 24


@dataclass(frozen=True)
class Sum:
    """What a symbol is made of: the sum of others, and a number."""

    symbols: tuple[int, ...]
    more: int = 0

    def at(self, sizes: Sizes) -> int:
        """Its size where the others are these."""
        total = self.more
        for n in self.symbols:
            total += sizes[n]
        return total


def relations(seen: Sequence[Sizes], first: Sequence[bool]) -> dict[int, Sum]:
    """By symbol what it is made of, as far as that holds for all that was seen; or for the last
    calls, as many as make a range, where it holds for more symbols of these: a decoder may begin
    with a past that is none.

    Args:
        seen: calls.
        first: of each symbol whether it is that of a first axis, which is rarely part of a sum.
    """
    every, last = _relations(seen, first), _relations(seen[-_DIFFERENT:], first)
    return last if len(seen) > _DIFFERENT and len(last) > len(every) else every


def _relations(seen: Sequence[Sizes], first: Sequence[bool]) -> dict[int, Sum]:
    count = len(seen[0])
    varied = [n for n in range(count) if len({sizes[n] for sizes in seen}) > 1]
    found: dict[int, Sum] = {}
    used: set[int] = set()
    for k in varied:
        others = [n for n in range(count) if n != k and n not in found]
        if k not in used and (made := _sum(k, others, varied, seen, first)) is not None:
            found[k] = made
            used.update(made.symbols)
    return found


def _sum(
    k: int,
    others: Sequence[int],
    varied: Sequence[int],
    seen: Sequence[Sizes],
    first: Sequence[bool],
) -> Sum | None:
    def holds(candidate: Sum) -> bool:
        return all(candidate.at(sizes) == sizes[k] for sizes in seen)

    lengths = [n for n in others if not first[n]]
    pairs = [(a, b) for a in lengths for b in lengths if a < b and (a in varied or b in varied)]
    for pair in pairs:
        if holds(Sum(pair)):
            return Sum(pair)
    for n in others:
        if n in varied and n < k and holds(Sum((n,))):
            return Sum((n,))
    for n in lengths:
        candidate = Sum((n,), seen[-1][k] - seen[-1][n])
        if n in varied and candidate.more > 0 and holds(candidate):
            return candidate
    return None


def agrees(sizes: Sizes, made: Mapping[int, Sum]) -> bool:
    """Whether the sizes of a call are as the relations say."""
    for k, each in made.items():  # a loop, as each token of a decoder comes here
        if each.at(sizes) != sizes[k]:
            return False
    return True


def bucket_for(
    seen: Sequence[Sizes], first: Sequence[bool], factors: Sequence[int] | None = None
) -> Bucket | None:
    """What a program should take, so that calls as the last one are answered by it.

    Args:
        seen: calls, the last one at the end; each once. Of symbols that depend on no others.
        first: as of `relations`.
        factors: of each symbol how many elements an axis has for each one of it; 1 where nothing
            is said.

    Returns:
        None while there have been too few calls.
    """
    now, every = seen[-1], range(len(first))
    different = [len({sizes[k] for sizes in seen}) for k in every]
    nearest: list[int] | None = None
    for other in reversed(seen[:-1]):
        apart = [k for k in every if other[k] != now[k]]
        enough = apart and all(different[k] >= _DIFFERENT for k in apart)
        if enough and (nearest is None or len(apart) < len(nearest)):
            nearest = apart
    if nearest is None:
        return None
    alike = [s for s in seen if all(s[k] == now[k] for k in every if k not in nearest)]
    return tuple(
        _interval([sizes[k] for sizes in alike], first[k], factors[k] if factors else 1)
        if k in nearest
        else (now[k], now[k])
        for k in every
    )


def _interval(sizes: Sequence[int], first: bool, factor: int) -> Interval:
    """Sizes in the order in which they came; factor: elements of an axis for each one."""
    most = max(sizes)
    if is_counted(sizes):
        least, wanted = _LEAST_BATCH if first else _LEAST_COUNTED, 2 * most
    else:
        least, wanted = _LEAST_BATCH if first else _LEAST, most + most // 4
    return min(1, *sizes), min(max(-(-least // factor), _power(wanted)), max(most, _MOST))


def is_counted(sizes: Sequence[int]) -> bool:
    """Whether the last of some sizes follows on the one before."""
    return len(sizes) > 1 and sizes[-1] - sizes[-2] == 1


def next_bucket(bucket: Bucket, before: Sizes, now: Sizes) -> Bucket | None:
    """The bucket behind one, where calls come near its end; None where they do not.

    Args:
        bucket: that takes the call.
        before: the call before.
        now: the call.
    """
    wider: list[Interval] | None = None
    for k, (low, high) in enumerate(bucket):
        if low == high:
            continue
        if now[k] - before[k] == 1 and _AHEAD * now[k] > high:
            times = _AHEAD
        elif 4 * now[k] > 3 * high:
            times = 2
        else:
            continue
        wider = wider or list(bucket)
        wider[k] = (low, min(times * high, _MOST))
    return None if wider is None else tuple(wider)


def follows(before: Sizes, now: Sizes) -> bool:
    """Whether a call is the next step of the one before, as of a decoder."""
    for a, b in zip(before, now, strict=True):
        if b - a == 1:
            return True
    return False


def tighter(bucket: Sequence[Interval], now: Sizes) -> Bucket:
    """The part of a bucket up to the next power of two behind a call.

    Args:
        bucket: that takes the call.
        now: the call.
    """
    return tuple(
        (low, high) if low == high else (low, min(high, max(low, _power(size))))
        for (low, high), size in zip(bucket, now, strict=True)
    )


def within(bucket: Bucket, built: Sequence[Bucket], failed: Sequence[Bucket], now: Sizes) -> Bucket:
    """A bucket whose ends are not beyond those that a model could be compiled for, as far as
    others that failed say that there is such an end: of a table of positions, say, or below the
    size of a window.

    Args:
        bucket: that is to be tried.
        built, failed: what was tried.
        now: the call, whose sizes are never below the least ones.
    """
    found = []
    for k, (low, high) in enumerate(bucket):
        if low < high and built:
            least, most = min(each[k][0] for each in built), max(each[k][1] for each in built)
            if any(each[k][1] > most for each in failed) and low < most:
                high = min(high, most)
            if any(each[k][0] < least for each in failed):
                low = max(low, min(least, now[k]))
        found.append((low, high))
    return tuple(found)


def holds(bucket: Bucket, other: Bucket) -> bool:
    """Whether all sizes of another bucket are in one, which then fails where that did."""
    pairs = zip(bucket, other, strict=True)
    return all(low <= least and most <= high for (low, high), (least, most) in pairs)


def narrower(bucket: Bucket, seen: Sequence[Sizes]) -> list[Bucket]:
    """What is left to be tried where a model cannot be compiled for a bucket: from the least size
    that was seen, and up to the greatest one, too.

    Args:
        bucket: what it could not be compiled for.
        seen: calls.
    """
    inside = [
        s for s in seen if all(low <= n <= high for n, (low, high) in zip(s, bucket, strict=True))
    ]
    found: list[Bucket] = []
    for whole in (True, False):
        ends: list[Interval] = [
            (low, high)
            if low == high
            else (min(s[k] for s in inside), high if whole else max(s[k] for s in inside))
            for k, (low, high) in enumerate(bucket)
        ]
        found.append(tuple(ends))
    return found


def _power(size: int) -> int:
    """The next power of two."""
    return 1 << max(size - 1, 0).bit_length()
