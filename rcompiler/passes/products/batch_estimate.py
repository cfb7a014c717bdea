"""What a recurrent network takes with some rows multiplied at once, by its products alone."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from rcompiler.passes.products.batches import Batch, Order, Orders, ProductGraph, condensed
from rcompiler.passes.products.merging import Product, Profit, deepened, stacked


class _Traversal(Enum):
    """How EUs go through a graph.

    TOGETHER: all work on one product after the other, and keep their share of its weights until it
    comes again. ALONE: each works on products of its own, and keeps all of their weights. STREAMED:
    all work on whatever is ready, and keep nothing, as too much comes in between.
    """

    TOGETHER = 0
    ALONE = 1
    STREAMED = 2


@dataclass(frozen=True)
class _Figure:
    """Of a product: ns of EU time, also of weights that were kept; EUs that it keeps busy."""

    ns: float
    resident_ns: float
    shares: int


@dataclass(frozen=True)
class _Own:
    """Products that a node computes itself. key: equal for those of the same weights; nbytes: of
    these.
    """

    key: int
    figures: tuple[_Figure, ...]
    nbytes: float


@dataclass(frozen=True)
class _Step:
    """Products that run together. distance: bytes of weights that were used since theirs were."""

    node: int
    figures: tuple[_Figure, ...]
    distance: float
    batched: bool


class Estimates:
    """Times of one graph with different batches: what no batch changes is found once."""

    def __init__(self, graph: ProductGraph, profit: Profit) -> None:
        graph, self._number = condensed(graph)
        self._graph, self._profit, self._orders = graph, profit, Orders(graph)
        self._figures: dict[Product, _Figure] = {}
        self._keys: dict[Hashable, int] = {}
        self._known: dict[tuple[int, tuple[int, ...]], _Own] = {}
        self._whole = {
            node: self._own(node, tuple(range(len(factors))))
            for node, factors in graph.factors.items()
            if factors
        }

    def of(self, batches: Sequence[Batch]) -> float:
        """ns that it takes by the times of the products alone; inf for a cycle."""
        chosen = [tuple((self._number[node], n) for node, n in batch) for batch in batches]
        made = self._orders.of(chosen)
        if made is None:
            return float("inf")
        steps, eus, least = self._steps(chosen, made), self._profit.device.eus, float("inf")
        for traversal in _Traversal:
            work, latencies = self._latencies(steps, traversal)
            if work / eus >= least:  # the path only makes it longer
                continue
            if traversal is _Traversal.TOGETHER:
                path = sum(latencies.values())
            else:
                path = _longest(made, latencies)
            least = min(least, max(work / eus, path))
        return least

    def _figure(self, product: Product) -> _Figure:
        found = self._figures.get(product)
        if found is None:
            of = self._profit
            found = _Figure(of.ns(product), of.resident_ns(product), of.shares(product))
            self._figures[product] = found
        return found

    def _own(self, node: int, numbers: tuple[int, ...]) -> _Own:
        """The factors of these numbers; all of them are one product."""
        found = self._known.get((node, numbers))
        if found is None:
            factors = self._graph.factors[node]
            left = [factors[number] for number in numbers]
            products = [factor.product for factor in left]
            whole = [deepened(products)] if len(left) == len(factors) else products
            key = self._keys.setdefault(tuple(factor.key for factor in left), len(self._keys))
            nbytes = float(sum(product.bytes for product in products))
            found = _Own(key, tuple(map(self._figure, whole)), nbytes)
            self._known[node, numbers] = found
        return found

    def _steps(self, chosen: Sequence[Batch], made: Order) -> list[_Step]:
        """What there is to compute, in order."""
        graph, count = self._graph, len(self._graph.reads)
        own: dict[int, _Own | None] = {**self._whole}
        taken = {member for batch in chosen for member in batch}
        for node in {node for node, _ in taken}:
            numbers = range(len(graph.factors[node]))
            left = tuple(number for number in numbers if (node, number) not in taken)
            own[node] = self._own(node, left) if left else None
        found: list[_Step] = []
        used, last = 0.0, dict[int, float]()
        for node in made.steps:
            if node >= count:
                rows = [graph.factors[n][number].product for n, number in chosen[node - count]]
                figures = (self._figure(stacked(rows)),)
                found.append(_Step(node, figures, float("inf"), True))
                continue
            mine = own.get(node)
            if mine is None:
                continue
            used += mine.nbytes
            distance = used - last.get(mine.key, -float("inf"))
            found.append(_Step(node, mine.figures, distance, False))
            last[mine.key] = used
        return found

    def _latencies(
        self, steps: Sequence[_Step], traversal: _Traversal
    ) -> tuple[float, Mapping[int, float]]:
        """ns of EU time in all, and of each node the ns until it is done."""
        profit = self._profit
        eus, room = profit.device.eus, 0.0
        if traversal is not _Traversal.STREAMED:
            room = profit.private_bytes * (eus if traversal is _Traversal.TOGETHER else 1)
        work, found = 0.0, dict[int, float]()
        for step in steps:
            latency = 0.0
            for figure in step.figures:
                ns = figure.resident_ns if step.distance <= room else figure.ns
                shares = figure.shares if step.batched or traversal is not _Traversal.ALONE else 1
                hand_off = profit.device.costs.hand_off_ns if shares > 1 else 0.0
                work, latency = work + ns, max(latency, ns / shares + hand_off)
            found[step.node] = latency
        return work, found


def _longest(made: Order, latencies: Mapping[int, float]) -> float:
    """ns of the critical path."""
    ends, get = [0.0] * len(made.reads), latencies.get
    for node in made.steps:
        end = 0.0
        for read in made.reads[node]:  # no max(): most of the time goes by here
            if ends[read] > end:
                end = ends[read]
        ends[node] = end + get(node, 0.0)
    return max(ends, default=0.0)
