"""rtask-merge-siblings: what it groups, when it pays, and that random graphs keep their numbers."""

import re
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from rcompiler.device.cpu import cpu_device
from rcompiler.frontend.builder import Builder
from rcompiler.passes.products.merging import (
    MAX_BYTES,
    Product,
    Profit,
    deepened,
    groups,
    merged,
    stacked,
)

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))
from s1 import assert_same_bits, module_of, product, run_passes  # noqa: E402

PASSES = "vdevice-attach-device{device=cpu},cse,rtask-merge-siblings"
GATE = Product(rows=1, columns=16, depth=16, itemsize=4)


def test_groups_have_two_members_and_keep_their_order():
    assert groups(enumerate("abacb")) == [[0, 2], [1, 4]]
    assert groups(enumerate("abc")) == []


def test_a_merged_product_has_the_columns_of_all():
    assert merged([GATE, replace(GATE, columns=3)]) == replace(GATE, columns=19)


@pytest.mark.parametrize("level", ["v3", "v4"])
def test_narrow_products_are_worth_merging_and_wide_ones_are_not(level):
    profit = Profit(cpu_device(level))
    gate = replace(GATE, columns=cpu_device(level).lanes(4))
    assert profit.merging_pays([gate] * 4)
    assert not profit.merging_pays([gate])
    assert not profit.merging_pays([])
    assert profit.narrow(gate)
    wide = Product(rows=128, columns=768, depth=768, itemsize=4)
    assert not profit.merging_pays([wide] * 3)
    assert not profit.narrow(wide)


def test_merged_weights_are_bounded():
    profit = Profit(cpu_device("v4"))
    rows = replace(GATE, columns=8, rows=64)
    deep = replace(rows, depth=MAX_BYTES // (8 * 4 * 4))
    assert profit.merging_pays([deep] * 4)
    assert not profit.merging_pays([deep] * 5)
    assert not profit.merging_pays([replace(rows, depth=0)] * 4)


def test_stacked_rows_and_joined_depths():
    assert stacked([GATE, replace(GATE, rows=3)]) == replace(GATE, rows=4)
    assert deepened([GATE, replace(GATE, depth=3)]) == replace(GATE, depth=19)


@pytest.mark.parametrize("level", ["v3", "v4"])
def test_few_rows_are_worth_stacking(level):
    profit = Profit(cpu_device(level))
    row = Product(rows=1, columns=256, depth=256, itemsize=4)
    assert profit.stacking_pays([row] * 2)
    assert not profit.stacking_pays([row])
    assert not profit.stacking_pays([replace(row, rows=128)] * 2)
    assert not profit.stacking_pays([replace(row, rows=0)] * 2)


@pytest.mark.parametrize(
    ("rows", "columns", "eus", "shares"),
    [(1, 64, 2, 2), (1, 64, 64, 4), (3, 64, 64, 12), (1, 64, 1, 1), (1, 16, 64, 1), (0, 64, 64, 1)],
)
def test_a_product_keeps_as_many_eus_busy_as_find_a_task(rows, columns, eus, shares):
    """Tasks of one row and one vector of 16 columns."""
    row = Product(rows=rows, columns=columns, depth=64, itemsize=4)
    assert Profit(cpu_device("v4", eus=eus)).shares(row) == shares


def test_weights_that_stay_in_private_caches_come_from_there():
    device = cpu_device("v4")
    profit, row = Profit(device), Product(rows=1, columns=512, depth=128, itemsize=4)
    l2 = device.level("L2")
    assert profit.private_bytes == 0.75 * l2.capacity
    assert profit.resident_ns(row) >= row.bytes / l2.bandwidth
    assert profit.resident_ns(row) < profit.ns(row)
    wide = replace(row, rows=512)  # bound by arithmetic wherever the weights are
    assert profit.resident_ns(wide) == pytest.approx(profit.ns(wide), rel=0.1)


class Siblings:
    """The values that the epilogues of one graph may use."""

    def __init__(self, b, random, rows):
        self.b, self.random, self.rows = b, random, rows
        self.shared = {}

    def once(self, key, make):
        if key not in self.shared:
            self.shared[key] = make()
        return self.shared[key]

    def add(self, *values):
        return self.b.elementwise(lambda s, a, e: a + e, *values)

    def sum(self, value):
        axis = [value.rank - 1]
        return self.b.reduce(value, axis, 0.0, lambda s, a, acc: acc + a, keepdims=True)

    def step(self, name, value, number):
        """One op of the epilogue of sibling `number`."""
        width = value.shape[-1]
        if name == "bias":
            return self.add(value, self.b.constant(self.random(width)))
        if name == "one bias for all":
            bias = self.once(width, lambda: self.b.constant(self.random(width)))
            return self.add(value, bias)
        if name == "row":
            return self.add(value, self.rows[0])
        if name == "row of its own":
            return self.add(value, self.rows[number % 2])
        if name == "sum of the first":
            return self.add(value, self.once("sum", lambda: self.sum(value)))
        relu = self.b.elementwise(lambda s, a: s.maximum(a, 0.0), value)
        if name == "gate":
            return self.b.elementwise(lambda s, a, e: a * e, value, relu)
        return relu


STEPS = ("bias", "one bias for all", "gate", "relu", "row", "row of its own", "sum of the first")
ENDS = ("combined", "combined", "reduced", "result", "concatenated", "with the last")


@st.composite
def graphs(draw):
    """Widths of siblings, their epilogues (often the same one), and what reads them."""
    equal = st.tuples(st.integers(1, 5), st.integers(2, 4)).map(lambda t: [t[0]] * t[1])
    widths = draw(equal | st.lists(st.integers(1, 5), min_size=2, max_size=4))
    chain = st.lists(st.sampled_from(STEPS), max_size=3)
    common = draw(chain)
    own = [draw(st.one_of(st.just(common), st.just(common), chain)) for _ in widths]
    return {
        "rows": draw(st.sampled_from([(), (1,), (3,), (2, 3)])),
        "depth": draw(st.integers(1, 4)),
        "widths": widths,
        "chains": own,
        "second": draw(st.booleans()),
        "ends": draw(st.lists(st.sampled_from(ENDS), min_size=4, max_size=4)),
        "seed": draw(st.integers(0, 99)),
    }


def build(graph):
    """The module's text, its constants and its inputs."""
    rng = np.random.default_rng(graph["seed"])

    def random(*shape):
        return rng.standard_normal(shape).astype(np.float32)

    b = Builder()
    arrays = [random(*graph["rows"], n) for n in (graph["depth"], graph["depth"], 1, 1)]
    x, h, *rows = (b.argument(f"x{k}", a.shape, "float32") for k, a in enumerate(arrays))
    siblings, results = Siblings(b, random, rows), []
    zipped = zip(graph["widths"], graph["chains"], graph["ends"], strict=False)
    for number, (width, chain, end) in enumerate(zipped):
        value = product(b, x, random(graph["depth"], width))
        if graph["second"]:
            value = siblings.add(value, product(b, h, random(graph["depth"], width)))
        for name in chain:
            value = siblings.step(name, value, number)
        results.append(finish(siblings, end, value, results))
    return module_of(b, results), b.constants, arrays


def finish(siblings, end, value, results):
    """What reads a sibling: a loop that combines it with something computed, or something else."""
    b, last = siblings.b, results[-1] if results else None
    if end == "with the last" and last is not None and last.shape == value.shape:
        return b.elementwise(lambda s, a, e: a - e, value, last)
    if end == "concatenated":
        return b.concat([value, value], value.rank - 1)
    if end == "reduced":
        return siblings.sum(value)
    if end == "result":
        return value
    return b.elementwise(lambda s, a, e: a * e, siblings.rows[0], value)


def merged_ops(text):
    """How many products and how many elementwise ops have parts cut from their results."""
    cut = set(re.findall(r"extract_slice (%[\w#]+)\[", text))
    ops = re.findall(r"(%[\w#]+) = linalg.generic .*?iterator_types = \[(.*?)\]", text)
    summed = {name for name, kinds in ops if "reduction" in kinds}
    return len(cut & summed), len(cut - summed)


def alike(*chain):
    """Three siblings with one epilogue, read by loops."""
    common = {"rows": (2,), "depth": 3, "widths": [2, 2, 2], "chains": [chain] * 3, "seed": 1}
    return common | {"second": False, "ends": ["combined"] * 3}


SEEN = []


@settings(max_examples=40, derandomize=True)
@given(graphs())
@example(alike("row of its own"))
@example(alike("sum of the first"))
@example(alike("one bias for all", "gate", "row", "bias"))
def check_random_graph(graph):
    text, constants, arrays = build(graph)
    after = run_passes(text, PASSES)
    SEEN.append(merged_ops(after))
    assert_same_bits((text, after), constants, arrays)


def test_random_graphs_keep_every_bit(monkeypatch):
    """Whatever can be merged is, also where it would not pay."""
    monkeypatch.setattr(Profit, "merging_pays", lambda self, products: len(products) > 1)
    SEEN.clear()
    check_random_graph()
    assert sum(products > 0 for products, _ in SEEN) >= 5
    assert sum(chains > 0 for _, chains in SEEN) >= 10
    assert (0, 0) in SEEN


def merge_everything(b, results, arrays, monkeypatch):
    monkeypatch.setattr(Profit, "merging_pays", lambda self, products: len(products) > 1)
    text = module_of(b, results)
    after = run_passes(text, PASSES)
    assert_same_bits((text, after), b.constants, arrays)
    return merged_ops(after)


def test_siblings_of_a_sibling(monkeypatch):
    """The tensor that some read is a part of what others were merged into."""
    rng = np.random.default_rng(1)
    b, arrays = Builder(), [rng.standard_normal((3, 4)).astype(np.float32)]
    x = b.argument("x", (3, 4), "float32")
    weights = [rng.standard_normal((4, 4)).astype(np.float32) for _ in range(4)]
    first, second = (product(b, x, w) for w in weights[:2])
    third, fourth = (product(b, first, w) for w in weights[2:])
    y = b.elementwise(lambda s, a, e, c: a * e - c, second, third, fourth)
    assert merge_everything(b, [y], arrays, monkeypatch) == (2, 0)


def test_both_readers_of_a_part_sink(monkeypatch):
    """v * max(v, 0) of each sibling: two ops, the second of which reads the first."""
    rng = np.random.default_rng(1)
    b, arrays = Builder(), [rng.standard_normal((3, 4)).astype(np.float32)]
    x = b.argument("x", (3, 4), "float32")
    parts = [product(b, x, rng.standard_normal((4, 2)).astype(np.float32)) for _ in "ab"]
    gated = [Siblings(b, None, ()).step("gate", v, 0) for v in parts]
    y = b.elementwise(lambda s, a, e: a - e, *gated)
    assert merge_everything(b, [y], arrays, monkeypatch) == (0, 1)
