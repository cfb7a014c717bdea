"""Register tiles that the groups of a block take in turn."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from rcompiler.kernelgen.evaluate import Evaluator
from rcompiler.kernelgen.simt.emitter import SimtEmitter
from rcompiler.kernelgen.value import Val
from rcompiler.linalg.affine import Linear

Count = int | Linear  # of the tiles along one dim; none is negative


def in_turns(
    e: SimtEmitter, counts: Sequence[Count], together: int, write: Callable[[list[Linear]], None]
) -> None:
    """Tiles of so many along each dim, by their numbers in row-major order.

    together: how many a group takes at a time, as long as there are so many; write: those tiles.
    """
    total = _product(e, counts)

    def bounded(number: Linear) -> Linear:
        if total.is_constant:
            e.ranges.update((symbol, total.constant) for symbol, _ in number.terms)
        return number

    def tile(number: Linear, _: list[Val]) -> None:
        guard = e.guard
        if idle:
            e.guard = e.depth
        write([bounded(number)])
        e.guard = guard

    def tiles(number: Linear, _: list[Val]) -> None:
        write([bounded(number + k * e.groups) for k in range(together)])

    # What all groups load in front of the loop, the one that has the element may have stored.
    idle = e.in_place and not (total.is_constant and total.constant >= e.groups)
    first = e.next_group(total.constant if total.is_constant else e.groups)
    turns = total.constant // (e.groups * together) if total.is_constant else 0
    if together > 1 and turns:
        done = Linear(turns * e.groups * together)
        e.loop(first, done, e.groups * together, [], tiles)
        first = first + done
    else:
        turns = 0
    if not total.is_constant or total.constant > turns * e.groups * together:
        e.loop(first, total, e.groups, [], tile)


def coordinates(evaluator: Evaluator, number: Linear, counts: Sequence[Count]) -> list[Linear]:
    """Where the tile of a number is along each dim."""
    found: list[Linear] = []
    for count in reversed(counts):
        if isinstance(count, int):
            number, position = evaluator.split(number, count)
        else:
            e = evaluator.emitter
            whole = e.div_unsigned(number, count)
            number, position = whole.symbol, e.rem_unsigned(number, count).symbol
        found.insert(0, position)
    return found


def _product(e: SimtEmitter, counts: Sequence[Count]) -> Linear:
    total = Linear(math.prod(count for count in counts if isinstance(count, int)))
    for count in counts:
        if isinstance(count, Linear):
            total = e.mul(total, count).symbol
    return total
