"""How many rows of a recurrent network to multiply at once, by what the whole graph takes.

All steps at once read the weights of a layer least often, and let each EU keep its share of the
state's weights from step to step; but layers then run one after the other, and all EUs wait for one
another in every step. In several parts, a layer starts when the one before has done its first part:
EUs work on layers of their own, if each can keep all weights of one. Along the diagonals, with no
batches, there is most to do at once, and weights are read again in every step. Which is fastest is
a matter of the number of EUs, of their caches and of what a hand-off costs.
"""

from __future__ import annotations

from collections.abc import Sequence

from rcompiler.passes.products.batch_estimate import Estimates
from rcompiler.passes.products.batches import Batch, Order, ProductGraph, order
from rcompiler.passes.products.merging import Profit

_PARTS = (1, 2, 4, 8)  # that the rows of a batch are cut into
_LEAST_ROWS = 8  # of a part: fewer do not hide that the weights are read again
_LESS = 0.95  # of the time that more parts have to take


def profitable(graph: ProductGraph, batch: Batch, profit: Profit) -> bool:
    """Whether one product takes less EU time than those of the members."""
    return profit.stacking_pays([graph.factors[node][n].product for node, n in batch])


def choose(
    graph: ProductGraph, found: Sequence[Batch], profit: Profit
) -> tuple[list[Batch], Order] | None:
    """The batches that make the graph faster on the device, and an order with them; or None.

    All batches are tried at once, whole and in parts; if that is no gain or there is a cycle, each
    for itself, those of the first nodes first. Of those of the same rows (the gates of a layer)
    none is tried where all of them are no gain.
    """
    estimates = Estimates(graph, profit)
    least = estimates.of(())
    best: list[Batch] | None = None
    for parts in _PARTS:
        cut = [part for batch in found for part in _cut(batch, parts)]
        if best is not None and cut == best:
            break
        time = estimates.of(cut)
        if time < least * (1.0 if best is None else _LESS):
            least, best = time, cut
    if best is None:
        chosen: list[Batch] = []
        for together in _of_the_same_rows(graph, found):
            if len(together) > 1 and estimates.of([*chosen, *together]) >= least:
                continue
            for batch in together:
                time = estimates.of([*chosen, batch])
                if time < least:
                    chosen, least = [*chosen, batch], time
        best = chosen or None
    if best is None:
        return None
    made = order(graph, best)
    assert made is not None  # else it would take for ever
    return best, made


def _of_the_same_rows(graph: ProductGraph, found: Sequence[Batch]) -> list[list[Batch]]:
    """All batches; in one list those whose members read the same nodes, one by one."""
    groups: dict[tuple[tuple[int, ...], ...], list[Batch]] = {}
    for batch in found:
        rows = tuple(graph.factors[node][number].reads for node, number in batch)
        groups.setdefault(rows, []).append(batch)
    return list(groups.values())


def _cut(batch: Batch, parts: int) -> list[Batch]:
    """Near-equal parts of the members in a row; fewer, if they would get too short."""
    parts = max(1, min(parts, len(batch) // _LEAST_ROWS))
    ends = [len(batch) * i // parts for i in range(parts + 1)]
    return [batch[a:b] for a, b in zip(ends, ends[1:], strict=False)]
