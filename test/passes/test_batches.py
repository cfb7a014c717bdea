"""Which products to batch: levels, orders and bounds by hand, and their rules on random graphs."""

from collections import Counter
from dataclasses import dataclass, replace
from graphlib import CycleError, TopologicalSorter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rcompiler.device.cpu import cpu_device
from rcompiler.passes.products.batch_choice import choose, profitable
from rcompiler.passes.products.batches import Factor, ProductGraph, batches, order
from rcompiler.passes.products.merging import Product, Profit

ROW = Product(rows=1, columns=64, depth=10, itemsize=4)


@dataclass
class Simple(Profit):
    """A product takes 1 ns per row of x and of the weights, wherever it runs."""

    def ns(self, product):
        return product.depth + product.rows

    resident_ns = ns

    def shares(self, product):
        return 1


def simple(eus):
    return Simple(cpu_device("v4", eus=eus))


def graph_of(*nodes):
    """Each node: the nodes it reads, then its factors, each a key and the nodes that x is of."""
    factors = {
        i: [Factor(key, tuple(reads), ROW) for key, reads in node[1:]]
        for i, node in enumerate(nodes)
        if len(node) > 1
    }
    return ProductGraph([node[0] for node in nodes], factors)


def layers(steps, count):
    """Recurrent layers step by step, three nodes per cell: x w, h u and what is made of both.

    Node 3 (step * count + layer) + 2 is the output of a cell.
    """
    nodes = []
    for step in range(steps):
        for layer in range(count):
            own = len(nodes)
            below, before = [own - 1] * (layer > 0), [own + 2 - 3 * count] * (step > 0)
            nodes += [([], (f"w{layer}", below)), ([], (f"u{layer}", before)), ([own, own + 1],)]
    return graph_of(*nodes)


# -- batches ---------------------------------------------------------------------------------------
def test_products_without_dependences_are_one_batch():
    graph = graph_of(([], ("w", [])), ([0], ("v", [])), ([], ("w", [])), ([1], ("w", [])))
    assert batches(graph) == [((0, 0), (2, 0), (3, 0))]


def test_a_chain_has_no_batch():
    assert batches(graph_of(([], ("w", [])), ([], ("w", [0])), ([], ("w", [1])))) == []


def test_the_inputs_of_a_layer_are_a_batch_and_its_states_are_none():
    assert batches(layers(3, 2)) == [
        ((0, 0), (6, 0), (12, 0)),
        ((3, 0), (9, 0), (15, 0)),
    ]


def test_two_rounds_of_one_layer_are_two_batches():
    """x w, then w of the results: each round by itself; also through nodes between them."""
    first = [([], ("w", [])), ([], ("w", []))]
    second = [([0],), ([], ("w", [2])), ([], ("w", [1]))]
    assert batches(graph_of(*first, *second)) == [((0, 0), (1, 0)), ((3, 0), (4, 0))]


def test_members_go_by_the_longest_way():
    """Node 3 comes behind two others, by a way around: it is a level of its own."""
    nodes = [([], ("w", [])), ([], ("w", [0])), ([1],), ([], ("w", [0, 2])), ([], ("w", [0]))]
    assert batches(graph_of(*nodes)) == [((1, 0), (4, 0))]


def test_what_a_node_reads_besides_counts_for_its_readers_only():
    """The product of node 1 does not wait for node 0, which node 1 adds to it."""
    nodes = [([], ("w", [])), ([0], ("w", [])), ([], ("w", [1]))]
    assert batches(graph_of(*nodes)) == [((0, 0), (1, 0))]


def test_factors_of_one_node_are_batched_each_with_its_like():
    nodes = [([], ("w", []), ("u", [])), ([], ("w", []), ("u", [0])), ([], ("w", []), ("u", [1]))]
    assert batches(graph_of(*nodes)) == [((0, 0), (1, 0), (2, 0))]
    both = graph_of(([], ("w", []), ("w", [])))
    assert batches(both) == [((0, 0), (0, 1))]


def test_a_graph_without_nodes_or_products():
    assert batches(graph_of()) == []
    assert batches(graph_of(([],), ([0],))) == []


# -- order -----------------------------------------------------------------------------------------
def test_without_batches_the_order_stays():
    graph = layers(2, 2)
    assert order(graph, ()).steps == tuple(range(12))


def test_a_batch_comes_in_front_of_its_first_member_when_its_rows_are_there():
    graph = layers(3, 1)
    made = order(graph, batches(graph))
    assert made.steps == (9, *range(9))  # its rows are inputs
    assert made.reads[9] == [] and made.reads[3] == [9] and made.reads[4] == [2]


def test_what_reads_a_batch_waits_for_its_last_row():
    """A layer after the other, each in its old order."""
    graph = layers(2, 2)
    first, second = 12, 13
    made = order(graph, batches(graph))
    assert made.steps == (first, 0, 1, 2, 4, 6, 7, 8, second, 3, 5, 9, 10, 11)
    assert made.reads[second] == [2, 8]


def test_batches_that_read_one_another_have_no_order():
    """1 reads 0 and 2 reads 3: {0, 2} in front of {1, 3} in front of {0, 2}."""
    graph = graph_of(([], ("a", [])), ([], ("b", [0])), ([], ("b", [])), ([], ("a", [2])))
    found = batches(graph)
    assert found == [((0, 0), (3, 0)), ((1, 0), (2, 0))]
    assert order(graph, found) is None
    assert order(graph, found[:1]).steps == (2, 4, 0, 1, 3)
    assert order(graph, found[1:]).steps == (0, 4, 1, 2, 3)


# -- choose ----------------------------------------------------------------------------------------
@pytest.mark.parametrize(("eus", "count"), [(1, 2), (2, 1), (4, 0)])
def test_the_more_eus_the_fewer_batches(eus, count):
    """Three steps of two layers; 11 ns a product and 13 ns a batch of three.

    Apart: 132 ns of work, and 44 ns along the diagonals. Both batches: 92 ns of work, all of it in
    a row. The first alone: 112 ns of work, 57 ns in a row. So one EU takes 132 or 92 or 112 ns, two
    take 66 or 92 or 57, four 44 or 92 or 57.
    """
    graph = layers(3, 2)
    found = batches(graph)
    chosen = choose(graph, found, simple(eus))
    if count == 0:
        assert chosen is None
    else:
        assert chosen == (found[:count], order(graph, found[:count]))


def test_each_for_itself_if_all_together_have_no_order():
    graph = graph_of(([], ("a", [])), ([], ("b", [0])), ([], ("b", [])), ([], ("a", [2])))
    found = batches(graph)
    assert choose(graph, found, simple(1)) == (found[:1], order(graph, found[:1]))


def test_a_batch_without_a_gain_is_not_chosen():
    """Apart the two are as fast on two EUs, one on each."""
    graph = graph_of(([], ("w", [])), ([], ("w", [])))
    assert choose(graph, batches(graph), simple(1)) is not None
    assert choose(graph, batches(graph), simple(2)) is None
    assert choose(graph, [], simple(1)) is None


def test_a_product_that_is_not_cut_is_one():
    """Four steps of [x, h] w: 4 * 21 ns in a row, or cut 14 ns for all x and then 4 * 11 ns.

    Cut without the batch would be 4 * 11 ns in a row: h u of a step beside x w of the next.
    """
    graph = graph_of(*(([], ("w", []), ("u", [i - 1] * (i > 0))) for i in range(4)))
    found = batches(graph)
    assert found == [((0, 0), (1, 0), (2, 0), (3, 0))]
    assert choose(graph, found, simple(64)) == (found, order(graph, found))


@dataclass
class Cached(Simple):
    """An EU keeps 15 bytes of weights, and then multiplies four times as fast."""

    private_bytes = 15.0

    def ns(self, product):
        return 1e3 * product.depth + product.rows

    def resident_ns(self, product):
        return self.ns(product) / 4

    def shares(self, product):
        return self.device.eus


def recurrent(steps, layers, hidden):
    """Per step and layer x w + h u, one column each, w of 1 row and u of `hidden`."""
    w, u = (Product(rows=1, columns=1, depth=depth, itemsize=1) for depth in (1, hidden))
    factors = {
        layer * steps + step: [
            Factor(("w", layer), ((layer - 1) * steps + step,) if layer else (), w),
            Factor(("u", layer), (layer * steps + step - 1,) if step else (), u),
        ]
        for layer in range(layers)
        for step in range(steps)
    }
    return ProductGraph([()] * len(factors), factors)


@pytest.mark.parametrize(("hidden", "parts"), [(10, 4), (20, 1)])
def test_parts_where_an_eu_can_keep_a_whole_layer(hidden, parts):
    """Four layers of 64 steps on two EUs: a hand-off of 200 ns in each step is saved by parts, of
    which each EU computes a layer by itself; but of 20 bytes it would keep one half only.
    """
    graph = recurrent(64, 4, hidden)
    chosen = choose(graph, batches(graph), Cached(cpu_device("v4", eus=2)))
    assert chosen is not None
    taken, made = chosen
    assert Counter(len(part) for part in taken) == {64 // parts: 4 * parts}
    assert made == order(graph, taken)


@pytest.mark.parametrize("level", ["v3", "v4"])
def test_a_batch_must_be_worth_it_by_itself(level):
    """Rows enough to use each weight that was loaded many times gain nothing."""
    graph = graph_of(([], ("w", [])), ([], ("w", [])))
    profit = Profit(cpu_device(level))
    [batch] = batches(graph)

    def of(product):
        factors = {n: [replace(f, product=product) for f in fs] for n, fs in graph.factors.items()}
        return ProductGraph(graph.reads, factors)

    row = Product(rows=1, columns=256, depth=256, itemsize=4)
    assert profitable(of(row), batch, profit)
    assert not profitable(of(replace(row, rows=128)), batch, profit)
    for empty in ({"rows": 0}, {"columns": 0}, {"depth": 0}):
        assert not profitable(of(replace(row, **empty)), batch, profit)


# -- random graphs ---------------------------------------------------------------------------------
@st.composite
def graphs(draw):
    """Up to 14 nodes: products of one factor, or of two, and other nodes."""
    random = draw(st.randoms(use_true_random=False))
    keys = draw(st.sampled_from(["ab", "abc", "aaab"]))
    nodes = []
    for i in range(draw(st.integers(8, 14) | st.integers(1, 14))):

        def some(most, known=range(i)):
            return random.sample(known, min(len(known), random.randint(0, most)))

        count = random.choice([1, 1, 1, 1, 0, 2])
        factors = [(random.choice(keys), some(1 if count == 1 else 2)) for _ in range(count)]
        nodes.append((some(2) if count != 1 else [], *factors))
    return graph_of(*nodes)


def behind(graph):
    """Per factor, all factors that it depends on."""
    ancestors = []
    for node in range(len(graph.reads)):
        reads = set(graph.inputs(node))
        ancestors.append(reads.union(*(ancestors[r] for r in reads)))
    return {
        (node, number): {
            (other, n)
            for read in factor.reads
            for other in {read} | ancestors[read]
            for n in range(len(graph.factors.get(other, ())))
        }
        for node, factors in graph.factors.items()
        for number, factor in enumerate(factors)
    }


@settings(max_examples=200, derandomize=True)
@given(graphs())
def test_batches_are_as_few_as_can_be(graph):
    """Members of one do not depend on one another; as many levels as the longest way has members
    (Mirsky's theorem), of which those of one member are no batches.
    """
    found, before = batches(graph), behind(graph)
    keys = {(n, i): f.key for n, fs in graph.factors.items() for i, f in enumerate(fs)}
    members = [member for batch in found for member in batch]
    assert len(members) == len(set(members))
    for batch in found:
        assert len(batch) > 1 and list(batch) == sorted(batch)
        assert len({keys[member] for member in batch}) == 1
        assert not any(other in before[member] for member in batch for other in batch)
    longest = {}
    for member in sorted(keys):
        alike = [longest[m] for m in before[member] if keys[m] == keys[member]]
        longest[member] = 1 + max(alike, default=0)
    levels = Counter(keys[batch[0]] for batch in found)
    alone = Counter(key for member, key in keys.items() if member not in members)
    for key in set(keys.values()):
        assert levels[key] + alone[key] == max(longest[m] for m in keys if keys[m] == key)


CYCLES = []


@settings(max_examples=300, derandomize=True)
@given(graphs(), st.data())
def check_order(graph, data):
    chosen = [batch for batch in batches(graph) if data.draw(st.booleans() | st.just(True))]
    number = {m: len(graph.reads) + i for i, batch in enumerate(chosen) for m in batch}
    reads = {len(graph.reads) + i: set() for i in range(len(chosen))}
    for node in range(len(graph.reads)):
        reads[node] = set(graph.reads[node])
        for i, factor in enumerate(graph.factors.get(node, ())):
            step = number.get((node, i), node)
            reads[step].update(factor.reads)
            reads[node].update({step} - {node})
    made = order(graph, chosen)
    CYCLES.append(made is None)
    try:
        TopologicalSorter(reads).prepare()
    except CycleError:
        assert made is None
        return
    assert sorted(made.steps) == sorted(reads)
    place = {step: i for i, step in enumerate(made.steps)}
    assert all(place[read] < place[step] for step, own in reads.items() for read in own)
    assert {step: set(own) for step, own in enumerate(made.reads)} == reads


def test_an_order_is_found_exactly_if_there_is_one():
    CYCLES.clear()
    check_order()
    assert 3 <= sum(CYCLES) < len(CYCLES) / 2


@settings(max_examples=100, derandomize=True)
@given(graphs(), st.integers(1, 8))
def test_what_is_chosen_has_an_order_and_can_be_found_again(graph, eus):
    found = batches(graph)
    chosen = choose(graph, found, simple(eus))
    assert chosen == choose(graph, found, simple(eus))
    if chosen is not None:
        taken, made = chosen
        assert taken
        for part in taken:  # members in a row of one that was found
            assert any("".join(map(str, part)) in "".join(map(str, batch)) for batch in found)
        assert made == order(graph, taken)
