"""A graph of products with fewer of the nodes between them: what is computed often is computed
faster.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from rcompiler.passes.products.batches import Factor, Graph


def condensed(graph: Graph) -> tuple[Graph, list[int]]:
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
    return Graph(reads, factors), numbers
