"""Equivalent placements (Astra §4.4): of equal rTasks only how many each EU gets is a choice."""

from collections.abc import Iterator, Sequence
from itertools import product


def distributions(equal: Sequence[int], eus: int) -> Iterator[tuple[tuple[int, ...], ...]]:
    """All ways to deal classes of equal rTasks out to EUs.

    For one class of n there are C(n + eus - 1, eus - 1), where naming each rTask makes eus ** n.

    Args:
        equal: how many rTasks each class has.
        eus: at least 1.

    Yields:
        For each class how many of its rTasks each EU gets.
    """
    if eus < 1:
        raise ValueError(f"{eus} EUs")
    yield from product(*([*_dealt(count, eus)] for count in equal))


def _dealt(count: int, eus: int) -> Iterator[tuple[int, ...]]:
    if eus == 1:
        yield (count,)
        return
    for own in range(count, -1, -1):
        for others in _dealt(count - own, eus - 1):
            yield (own, *others)
