"""Graphs of products with fewer nodes between them: by hand, and what must hold of random ones."""

from hypothesis import given, settings
from hypothesis import strategies as st

from rcompiler.passes.products.batches import Factor, ProductGraph, condensed
from rcompiler.passes.products.merging import Product

ROW = Product(rows=1, columns=64, depth=10, itemsize=4)


def graph_of(*nodes):
    """Each node: the nodes it reads, then per factor the nodes that its x is of."""
    factors = {
        i: [Factor("w", tuple(reads), ROW) for reads in node[1:]]
        for i, node in enumerate(nodes)
        if len(node) > 1
    }
    return ProductGraph([node[0] for node in nodes], factors)


def test_a_cell_of_two_products_is_its_products():
    """x w, h u, their sum, a function of it; then the h u of the next step."""
    graph = graph_of(([], []), ([], []), ([0, 1],), ([2],), ([], [3]))
    short, numbers = condensed(graph)
    assert numbers == [0, 1, -1, -1, 2]
    assert short.reads == [(), (), ()]
    assert [f.reads for f in short.factors[2]] == [(0, 1)]


def test_a_node_between_many_stays():
    """Two products read by three: 2 + 3 pairs are fewer than 2 * 3; by two they are as many."""
    three = graph_of(([], []), ([], []), ([0, 1],), *[([], [2])] * 3)
    assert condensed(three)[1] == [0, 1, 2, 3, 4, 5]
    two = graph_of(([], []), ([], []), ([0, 1],), *[([], [2])] * 2)
    assert condensed(two)[1] == [0, 1, -1, 2, 3]


def test_what_nobody_reads_and_what_reads_nothing_goes():
    short, numbers = condensed(graph_of(([],), ([0], []), ([1],)))
    assert numbers == [-1, 0, -1] and short.reads == [()]


@st.composite
def graphs(draw):
    nodes = []
    for i in range(draw(st.integers(1, 16))):
        some = st.lists(st.integers(0, i - 1), max_size=3) if i else st.just([])
        nodes.append((draw(some), *[draw(some) for _ in range(draw(st.integers(0, 2)))]))
    return graph_of(*nodes)


def needed(graph):
    """Per node the products that it needs, itself not among them."""
    found = []
    for node in range(len(graph.reads)):
        found.append(
            set().union(
                *(found[r] | ({r} if r in graph.factors else set()) for r in graph.inputs(node))
            )
        )
    return found


@settings(max_examples=300, derandomize=True)
@given(graphs())
def test_products_need_the_same_products_as_before(graph):
    short, numbers = condensed(graph)
    before, after = needed(graph), needed(short)
    assert sorted(numbers[node] for node in graph.factors) == sorted(short.factors)
    for node in graph.factors:
        assert numbers[node] >= 0
        assert {numbers[n] for n in before[node]} == after[numbers[node]]
    kept = [node for node, number in enumerate(numbers) if number >= 0]
    assert [numbers[node] for node in kept] == list(range(len(short.reads)))
    pairs = [sum(len(set(g.inputs(n))) for n in range(len(g.reads))) for g in (graph, short)]
    assert pairs[1] <= pairs[0]
