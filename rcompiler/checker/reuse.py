"""Values that share bytes of the arena: whoever writes over one comes after all that use it."""

from bisect import bisect_left
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from rcompiler.checker.facts import ramp
from rcompiler.checker.memory import matches

if TYPE_CHECKING:
    from rcompiler.checker.check import Check


def check_reuse(found: "Check") -> None:
    """Whoever comes after a value on some bytes comes there after all that came before it, so
    neighbours are enough.

    Operators are compared whole, in the order of their first runs. Where that is not enough (they
    may be at work at the same time, on different bytes) it is decided byte by byte.
    """
    uses = found.uses
    taken = np.array([*_successors(found)], np.int64).reshape(-1, 4)
    root, low, high, later = np.unique(taken, axis=0).T
    everything = np.argsort(uses.root, kind="stable")
    pair, one = matches(uses.root[everything], root)
    one, two = everything[one], later[pair]
    common = (uses.low[one] < high[pair]) & (low[pair] < uses.high[one])
    for k in np.flatnonzero(common & (uses.owner[one] == uses.owner[two])).tolist():
        common[k] = not _in_place(found, int(one[k]), int(two[k]))
    clashes = uses.clashes(one[common], two[common])
    spans = {(max(uses.low[a], uses.low[b]), min(uses.high[a], uses.high[b])) for a, b in clashes}
    for span in sorted(spans):
        _byte_by_byte(found, *span)


def _in_place(found: "Check", x: int, y: int) -> bool:
    """Whether an operator writes each element where, and after, it read that very element."""
    uses = found.uses
    pair = int(uses.number[x]), int(uses.number[y])
    if uses.low[x] != uses.low[y] or pair not in found.in_place[uses.kernel[x]]:
        return False
    left, right = (uses.accesses[uses.access[u]] for u in (x, y))
    return left.key == right.key and bool((left.dims == right.dims).all()) and right.disjoint


def _successors(found: "Check") -> Iterator[tuple[int, int, int, int]]:
    """(value, first byte, end, use that writes there next), in the order of operators."""
    uses = found.uses
    writes = np.flatnonzero(found.temp[uses.root] & uses.writes & (uses.low < uses.high))
    first = np.minimum.reduceat(uses.rank, uses.begin) if len(uses.begin) else uses.begin
    writes = writes[np.argsort(first[uses.owner[writes]], kind="stable")]
    held: list[tuple[int, int, int]] = []  # bytes and the value that has them: sorted, disjoint
    columns = (writes, uses.root[writes], uses.low[writes], uses.high[writes])
    for use, root, low, high in zip(*(column.tolist() for column in columns), strict=True):
        at = max(bisect_left(held, (low, 0, 0)) - 1, 0)
        if at < len(held) and held[at][1] <= low:
            at += 1
        end = at
        while end < len(held) and held[end][0] < high:
            begin, stop, value = held[end]
            if value != root:
                yield value, max(begin, low), min(stop, high), use
            end += 1
        left = [(held[at][0], low, held[at][2])] if at < end and held[at][0] < low else []
        right = [(high, *held[end - 1][1:])] if at < end and held[end - 1][1] > high else []
        held[at:end] = [*left, (low, high, root), *right]


def _byte_by_byte(found: "Check", low: int, high: int) -> None:
    """The values of some bytes of the arena, task by task: on each byte every task that uses a
    value comes before those that write the next one.
    """
    uses = found.uses
    some = np.flatnonzero(found.temp[uses.root] & (uses.low < high) & (low < uses.high))
    use, run, task, span = uses.tasks_on(some, low, high)
    # the bytes in cells of equal use; a row for each task and cell
    at, end = np.searchsorted(np.unique(span), span)
    step = ramp(end - at)
    row = np.repeat(np.arange(len(use)), end - at)
    key = (at[row] + step) * (int(uses.root.max()) + 1) + uses.root[use[row]]
    # values of a cell follow one another as they are first written
    row = row[sort := np.lexsort((task[row], uses.rank[run[row]], key))]
    key = key[sort]
    made = uses.writes[use[row]]
    values, which = np.unique(key[made], return_index=True)
    first = row[made][which]
    cell = values // (int(uses.root.max()) + 1)
    order = np.lexsort((task[first], uses.rank[run[first]], cell))
    follows = np.flatnonzero(cell[order[1:]] == cell[order[:-1]])
    earlier, later = values[order[follows]], values[order[follows + 1]]
    pair, one = matches(key, earlier)
    side, two = matches(key[made], later[pair])
    a, b = row[one[side]], row[made][two]
    over = uses.order.before(uses.run[run[a]], uses.run[run[b]])
    over |= (run[a] == run[b]) & (task[a] < task[b])
    for k in np.flatnonzero(~over).tolist():
        x, y = int(use[a[k]]), int(use[b[k]])
        same = run[a[k]] == run[b[k]] and task[a[k]] == task[b[k]]
        if not (same and _in_place(found, x, y)):
            uses.refuse("clobber", x, y)
