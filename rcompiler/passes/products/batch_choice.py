"""How many rows of a recurrent network to multiply at once, by what the whole graph takes.

All steps at once read the weights of a layer least often, and let each EU keep its share of the
state's weights from step to step; but layers then run one after the other, and all EUs wait for one
another in every step. In several parts, a layer starts when the one before has done its first part:
EUs work on layers of their own, if each can keep all weights of one. Along the diagonals, with no
batches, there is most to do at once, and weights are read again in every step. Which is fastest is
a matter of the number of EUs, of their caches and of what a hand-off costs.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Sequence
from dataclasses import dataclass
from enum import Enum

from rcompiler.passes.products.batches import Batch, Factor, Graph, Member, Order, order
from rcompiler.passes.products.merging import Product, Profit, deepened, stacked

_PARTS = (1, 2, 4, 8)  # that the rows of a batch are cut into
_LEAST_ROWS = 8  # of a part: fewer do not hide that the weights are read again
_LESS = 0.95  # of the time that more parts have to take


def worth(graph: Graph, batch: Batch, profit: Profit) -> bool:
    """Whether one product takes less EU time than those of the members."""
    return profit.worth_stacking([graph.factors[node][n].product for node, n in batch])


def choose(
    graph: Graph, found: Sequence[Batch], profit: Profit
) -> tuple[list[Batch], Order] | None:
    """The batches that make the graph faster on the device, and an order with them; or None.

    All batches are tried at once, whole and in parts; if that is no gain or there is a cycle, each
    for itself, those of the first nodes first.
    """
    least, _ = _estimate(graph, (), profit)
    best: tuple[list[Batch], Order] | None = None
    for parts in _PARTS:
        cut = [part for batch in found for part in _cut(batch, parts)]
        if best is not None and cut == best[0]:
            break
        time, made = _estimate(graph, cut, profit)
        if made is not None and time < least * (1.0 if best is None else _LESS):
            least, best = time, (cut, made)
    if best is not None:
        return best
    chosen: list[Batch] = []
    for batch in found:
        time, made = _estimate(graph, [*chosen, batch], profit)
        if made is not None and time < least:
            chosen, least = [*chosen, batch], time
            best = (chosen, made)
    return best


def _cut(batch: Batch, parts: int) -> list[Batch]:
    """Near-equal parts of the members in a row; fewer, if they would get too short."""
    parts = max(1, min(parts, len(batch) // _LEAST_ROWS))
    ends = [len(batch) * i // parts for i in range(parts + 1)]
    return [batch[a:b] for a, b in zip(ends, ends[1:], strict=False)]


@dataclass(frozen=True)
class _Step:
    """Products that run together. distance: bytes of weights that were used since theirs were."""

    products: Sequence[Product]
    distance: float
    batched: bool


def _estimate(graph: Graph, chosen: Sequence[Batch], profit: Profit) -> tuple[float, Order | None]:
    """ns that it takes by the times of the products alone, and the order; inf for a cycle."""
    made = order(graph, chosen)
    if made is None:
        return float("inf"), None
    steps = _steps(graph, chosen, made)
    return min(_time(steps, made, profit, way) for way in _Way), made


class _Way(Enum):
    """How EUs go through a graph.

    TOGETHER: all work on one product after the other, and keep their share of its weights until it
    comes again. ALONE: each works on products of its own, and keeps all of their weights. BESIDE:
    all work on whatever is ready, and keep nothing, as too much comes in between.
    """

    TOGETHER = 0
    ALONE = 1
    BESIDE = 2


def _steps(graph: Graph, chosen: Sequence[Batch], made: Order) -> dict[int, _Step]:
    """What there is to compute, by the number of the node or batch."""
    count, taken = len(graph.reads), {member for batch in chosen for member in batch}
    found: dict[int, _Step] = {}
    used, last = 0.0, dict[Hashable, float]()
    for node in made.steps:
        if node >= count:
            rows = [graph.factors[n][number].product for n, number in chosen[node - count]]
            found[node] = _Step([stacked(rows)], float("inf"), True)
            continue
        factors = _left(graph, node, taken)
        if not factors:
            continue
        key = tuple(factor.key for factor in factors)
        products = [factor.product for factor in factors]
        whole = [deepened(products)] if len(factors) == len(graph.factors[node]) else products
        used += sum(product.bytes for product in products)
        found[node] = _Step(whole, used - last.get(key, -float("inf")), False)
        last[key] = used
    return found


def _left(graph: Graph, node: int, taken: Collection[Member]) -> list[Factor]:
    """What a node computes itself."""
    factors = enumerate(graph.factors.get(node, ()))
    return [factor for number, factor in factors if (node, number) not in taken]


def _time(steps: dict[int, _Step], made: Order, profit: Profit, way: _Way) -> float:
    """ns; the critical path or the work that each EU has, whichever is longer."""
    eus = profit.device.eus
    room = {_Way.TOGETHER: profit.private_bytes * eus, _Way.ALONE: profit.private_bytes}.get(way, 0)
    work, row, ends = 0.0, 0.0, dict[int, float]()
    for node in made.steps:
        latency = 0.0
        step = steps.get(node)
        for product in step.products if step is not None else ():
            assert step is not None
            resident = step.distance <= room
            ns = profit.resident_ns(product) if resident else profit.ns(product)
            shares = profit.shares(product) if step.batched or way is not _Way.ALONE else 1
            hand_off = profit.device.costs.hand_off_ns if shares > 1 else 0.0
            work, latency = work + ns, max(latency, ns / shares + hand_off)
        row += latency
        ends[node] = max((ends[read] for read in made.reads[node]), default=0.0) + latency
    path = row if way is _Way.TOGETHER else max(ends.values(), default=0.0)
    return max(work / eus, path)
