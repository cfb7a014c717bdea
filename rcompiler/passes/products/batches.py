"""Which products with the same weights to compute as one: a graph algorithm, without the IR.

The steps of a recurrent network multiply by the same weights. Step by step, all weights of a layer
are read for one row each time; where the rows do not depend on one another, one product of all of
them reads the weights once. Its price is order: the product waits for its last row, so a layer is
computed after another and not beside it, along the diagonals of the unrolled network; in between
are batches of some of the rows. `batch_choice` says which are best.
"""

from __future__ import annotations

import heapq
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from rcompiler.passes.products.merging import Product


@dataclass(frozen=True)
class Factor:
    """x w of one node, which adds up all of its factors; it is one product if none is batched.

    key: equal for factors that may be batched. reads: nodes that x is computed from.
    """

    key: Hashable
    reads: tuple[int, ...]
    product: Product


# numbers of a node and of one of its factors
Member = tuple[int, int]
# one product instead of these, none of which depends on another
Batch = tuple[Member, ...]


@dataclass(frozen=True)
class ProductGraph:
    """Nodes in topological order. reads: per node, the nodes that it reads besides those of its
    factors. factors: of the nodes that are products.
    """

    reads: Sequence[Sequence[int]]
    factors: Mapping[int, Sequence[Factor]]

    def inputs(self, node: int) -> list[int]:
        """All nodes that one reads."""
        found = list(self.reads[node])
        for factor in self.factors.get(node, ()):
            found += factor.reads
        return found


def batches(graph: ProductGraph) -> list[Batch]:
    """Factors with one key, in as few batches as dependences allow; two or more members each.

    A factor goes with those of its key that have as many others of that key behind them on the
    longest way: of two on one way, one has more.
    """
    counts: dict[Hashable, int] = {}
    for factors in graph.factors.values():
        for factor in factors:
            counts[factor.key] = counts.get(factor.key, 0) + 1
    column = {key: i for i, key in enumerate(k for k, n in counts.items() if n > 1)}
    found: dict[tuple[Hashable, int], list[Member]] = {}
    depths = np.zeros((len(graph.reads), len(column)), np.int32)
    for node in range(len(graph.reads)) if column else ():
        own, inputs = depths[node], graph.inputs(node)
        if inputs:
            depths[inputs].max(axis=0, out=own)
        for number, factor in enumerate(graph.factors.get(node, ())):
            if factor.key in column:
                at = column[factor.key]
                depth = max((int(depths[read, at]) for read in factor.reads), default=0)
                own[at] = max(own[at], depth + 1)
                found.setdefault((factor.key, depth), []).append((node, number))
    return [tuple(members) for members in found.values() if len(members) > 1]


@dataclass(frozen=True)
class Order:
    """Nodes, and batches as the numbers behind them, so that each comes after all it reads."""

    steps: tuple[int, ...]
    reads: Sequence[Sequence[int]]


def order(graph: ProductGraph, chosen: Sequence[Batch]) -> Order | None:
    """An order with the batches of `chosen`, near the one that was; None if there is a cycle."""
    return Orders(graph).of(chosen)


class Orders:
    """Orders of one graph with different batches: what no batch changes is found once."""

    def __init__(self, graph: ProductGraph) -> None:
        self._graph = graph
        self._reads = [graph.inputs(node) for node in range(len(graph.reads))]
        self._readers: list[list[int]] = [[] for _ in self._reads]
        for node, own in enumerate(self._reads):
            for read in set(own):
                self._readers[read].append(node)
        self._waiting = [len(set(own)) for own in self._reads]

    def of(self, chosen: Sequence[Batch]) -> Order | None:
        """See `order`."""
        count = len(self._reads)
        reads, readers, waiting = self._changed(chosen)
        # a batch comes in front of its first node; one number holds that and the node, as to
        # compare pairs of numbers takes most of the time
        base = count + len(chosen)
        ranks = (*range(0, 2 * count, 2), *(2 * batch[0][0] - 1 for batch in chosen))
        rank = [rank * base + node for node, rank in enumerate(ranks)]
        ready = [rank[node] for node, n in enumerate(waiting) if n == 0]
        heapq.heapify(ready)
        steps = []
        while ready:
            node = heapq.heappop(ready) % base
            steps.append(node)
            for reader in readers[node]:
                waiting[reader] -= 1
                if waiting[reader] == 0:
                    heapq.heappush(ready, rank[reader])
        return Order(tuple(steps), reads) if len(steps) == len(reads) else None

    def _changed(
        self, chosen: Sequence[Batch]
    ) -> tuple[list[list[int]], list[list[int]], list[int]]:
        """What nodes and batches read, who reads them, and how many others each waits for."""
        graph, count = self._graph, len(self._reads)
        batch_of = {member: count + i for i, batch in enumerate(chosen) for member in batch}
        reads, waiting = list(self._reads), list(self._waiting)
        readers = [*self._readers, *([] for _ in chosen)]
        own = set(range(count, count + len(chosen)))  # lists that are not those of the graph
        for node in dict.fromkeys(node for node, _ in batch_of):
            now = list(graph.reads[node])
            for number, factor in enumerate(graph.factors[node]):
                instead = batch_of.get((node, number))
                now += factor.reads if instead is None else [instead]
            for read in set(now) ^ set(reads[node]):
                if read not in own:
                    own.add(read)
                    readers[read] = list(readers[read])
                change = readers[read].append if read in now else readers[read].remove
                change(node)
            reads[node], waiting[node] = now, len(set(now))
        for i, batch in enumerate(chosen):
            rows = [r for node, number in batch for r in graph.factors[node][number].reads]
            for read in set(rows):
                if read not in own:
                    own.add(read)
                    readers[read] = list(readers[read])
                readers[read].append(count + i)
            reads.append(rows)
            waiting.append(len(set(rows)))
        return reads, readers, waiting


def condensed(graph: ProductGraph) -> tuple[ProductGraph, list[int]]:
    """The same products with the same dependences on one another, and the new number of each node
    that is left; -1 of the others.

    A node that is no product only hands on what it reads. Who reads it reads that instead, where
    this makes no more pairs of readers and read: with n and m of them, n + m become n * m.
    """
    readers = [0] * len(graph.reads)
    for node in range(len(graph.reads)):
        for read in set(graph.inputs(node)):
            readers[read] += 1
    numbers: list[int] = []
    instead: list[tuple[int, ...]] = []  # of each node, what those who read it read
    reads: list[tuple[int, ...]] = []
    factors: dict[int, list[Factor]] = {}

    def left(nodes: Iterable[int]) -> tuple[int, ...]:
        return tuple(dict.fromkeys(number for node in nodes for number in instead[node]))

    for node, known in enumerate(graph.reads):
        own = left(known)
        if node not in graph.factors and len(own) * readers[node] <= len(own) + readers[node]:
            numbers.append(-1)
            instead.append(own)
            continue
        number = len(reads)
        if node in graph.factors:
            factors[number] = [replace(f, reads=left(f.reads)) for f in graph.factors[node]]
        numbers.append(number)
        instead.append((number,))
        reads.append(own)
    return ProductGraph(reads, factors), numbers
