"""rtask-batch-products: random graphs and hard cases keep their numbers."""

import random
import re
import sys
from pathlib import Path

import ml_dtypes  # noqa: F401  numpy's bfloat16
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rcompiler.frontend.builder import Builder
from rcompiler.passes.products.merging import Profit

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))
from s1 import assert_same_bits, batched, module_of, numbers, product, run_passes  # noqa: E402

PASSES = "vdevice-attach-device{device=cpu},cse,rtask-batch-products"
WIDTH = 4


@pytest.fixture
def everything(monkeypatch):
    """Whatever can be batched is, also where it would not pay: rows cost nothing."""
    for time in ("ns", "resident_ns"):
        monkeypatch.setattr(Profit, time, lambda self, product: 1e6 * product.bytes)
    monkeypatch.setattr(Profit, "shares", lambda self, product: 10**9)


class Network:
    """A graph under construction: steps of a sequence, other rows, and what is made of them."""

    def __init__(self, seed, steps=3, lead=(1,), dtype="float32", width=WIDTH):
        self.b, self.dtype, self.lead, self.width = Builder(), np.dtype(dtype), lead, width
        self._draws = np.random.default_rng(seed)
        self.arrays = []
        x = self.argument((steps, *lead, width))
        starts = ([step] + [0] * (x.rank - 1) for step in range(steps))
        parts = (self.b.slice(x, start, [1, *lead, width]) for start in starts)
        self.steps = [self.b.reshape(part, [*lead, width]) for part in parts]

    def random(self, *shape):
        """Values for which long chains of products stay in range."""
        if self.dtype.kind == "i":
            return self._draws.integers(-3, 4, shape).astype(self.dtype)
        return self._draws.uniform(-0.5, 0.5, shape).astype(self.dtype)

    def argument(self, shape):
        self.arrays.append(self.random(*shape))
        return self.b.argument(f"x{len(self.arrays)}", shape, self.dtype.name)

    def row(self):
        """An input like one step."""
        return self.argument((*self.lead, self.width))

    def weights(self, joined=1):
        return self.random(joined * self.width, self.width)

    def product(self, x, weights, by_rows=False):
        if not by_rows:
            return product(self.b, x, weights)
        w, n = self.b.constant(np.ascontiguousarray(weights.T)), x.rank - 1
        rows = ", ".join(f"d{i}" for i in range(n))
        return self.b.contract(
            (x, f"{rows}, d{n + 1}"),
            (w, f"d{n}, d{n + 1}"),
            ((*x.shape[:-1], w.shape[0]), f"{rows}, d{n}"),
            "p" * (n + 1) + "r",
        )

    def joined(self, *parts):
        return self.b.concat(parts, parts[0].rank - 1)

    def add(self, *values):
        return self.b.elementwise(lambda s, a, e: a + e, *values)

    def relu(self, value):
        return self.b.elementwise(lambda s, a: s.maximum(a, s.const(0, a.dtype)), value)

    def layer(self, below, h, weights, by_rows=False):
        """h of each step, made of what is below and of the h before."""
        outputs = []
        for x in below:
            h = self.relu(self.product(self.joined(x, h), weights, by_rows))
            outputs.append(h)
        return outputs

    def batched(self, *results):
        """How many products were made of several, and how many parts of weights were cut off."""
        text = module_of(self.b, results)
        after = run_passes(text, PASSES)
        found = batched(after)
        if found[1] == 0 or self.dtype.kind == "i":
            assert_same_bits((text, after), self.b.constants, self.arrays)
        else:
            rtol = 0.05 if self.dtype.itemsize == 2 else 1e-4
            for a, c in numbers((text, after), self.b.constants, self.arrays):
                a, c = a.astype(np.float64), c.astype(np.float64)
                np.testing.assert_allclose(c, a, rtol=rtol, atol=rtol * max(1.0, abs(a).max()))
        assert run_passes(text, PASSES) == after
        return found


# -- random graphs ---------------------------------------------------------------------------------
def random_network(draws, dtype):
    """Chains and layers that share a few weights, in any order."""
    lead = draws.choice([(1,), (1,), (3,), (2, 1), (1, 2), (0,)])
    net = Network(draws.randrange(100), draws.randint(2, 4), lead, dtype)
    values = [*net.steps, net.row(), net.b.constant(net.random(*lead, WIDTH))]
    plain, wide = [net.weights() for _ in "ab"], [net.weights(2) for _ in "ab"]
    by_rows = draws.random() < 0.3
    for _ in range(draws.randint(4, 14)):
        x, h = (draws.choice(values) for _ in "xh")
        kind = draws.choice(["product", "product", "joined", "layer", "add", "relu"])
        if kind == "product":
            made = [net.product(x, draws.choice(plain), by_rows)]
        elif kind == "joined":
            made = [net.product(net.joined(x, h), draws.choice(wide), by_rows)]
        elif kind == "layer":
            below = draws.choice([net.steps, values[-3:]])
            made = net.layer(below, h, draws.choice(wide), by_rows)
        else:
            made = [net.add(x, h) if kind == "add" else net.relu(x)]
        values += made
    results = [*values[-3:], net.joined(*draws.sample(values, 2))]
    return net, results


SEEN = []


@settings(max_examples=60, derandomize=True)
@given(st.integers(0, 1 << 30), st.sampled_from(["float32", "float32", "int32", "bfloat16"]))
def check_random_network(seed, dtype):
    net, results = random_network(random.Random(seed), dtype)
    SEEN.append(net.batched(*results))


def test_random_graphs_keep_their_numbers(everything):
    """To the bit, unless a product of floats was cut in two."""
    SEEN.clear()
    check_random_network()
    assert sum(batches > 0 for batches, _ in SEEN) >= 20
    assert sum(batches > 1 for batches, _ in SEEN) >= 5
    assert sum(cuts > 0 for _, cuts in SEEN) >= 10
    assert sum(cuts == 0 and batches > 0 for batches, cuts in SEEN) >= 5


# -- hard cases ------------------------------------------------------------------------------------
@pytest.mark.parametrize("lead", [(1,), (3,), (2, 1), (1, 2, 1)])
@pytest.mark.parametrize("by_rows", [False, True])
def test_rows_of_any_rank(everything, lead, by_rows):
    net = Network(1, lead=lead)
    w = net.weights()
    assert net.batched(*(net.product(x, w, by_rows) for x in net.steps)) == (1, 0)


@pytest.mark.parametrize(
    ("shape", "x", "w", "y", "first"),
    [
        ((WIDTH, 1), "d2, d0", "d2, d1", "d0, d1", "x"),  # x is [depth, rows]
        ((1, WIDTH), "d0, d2", "d1, d2", "d0, d1", "w"),
        ((3, 2, WIDTH), "d1, d0, d3", "d3, d2", "d0, d1, d2", "x"),  # rows are transposed
        ((WIDTH, 2, 1), "d3, d0, d1", "d3, d2", "d1, d0, d2", "w"),
    ],
)
def test_rows_along_any_axis(everything, shape, x, w, y, first):
    net = Network(1)
    weights, results = net.b.constant(net.weights()), []
    rows = net.argument((3, *shape))
    parallel = y.count("d")
    for step in range(3):
        part = net.b.slice(rows, [step] + [0] * len(shape), [1, *shape])
        operands = {"x": (net.b.reshape(part, shape), x), "w": (weights, w)}
        sizes = dict(zip(x.split(", "), shape, strict=True)) | {f"d{parallel - 1}": WIDTH}
        out = [sizes[dim] for dim in y.split(", ")]
        a, b = (operands[name] for name in (first, *({"x", "w"} - {first})))
        results.append(net.b.contract(a, b, (out, y), "p" * parallel + "r"))
    assert net.batched(*results) == (1, 0)


def test_a_vector_has_no_rows(everything):
    net = Network(1, lead=())
    w = net.weights()
    assert net.batched(*(product(net.b, x, w) for x in net.steps)) == (0, 0)


def test_inputs_and_results_of_the_function(everything):
    """Neither has an op in front of or behind it."""
    net = Network(1)
    w = net.weights()
    assert net.batched(*(net.product(net.row(), w) for _ in range(3))) == (1, 0)


def test_the_same_rows_twice(everything):
    """[x, x] w, and what is joined is read by others too."""
    net, h, results = Network(1), None, []
    w = net.weights(2)
    for x in net.steps:
        both = net.joined(x, x if h is None else h)
        h = net.product(both, w)
        results += [h, net.relu(both)]
    assert net.batched(*results) == (1, 1 + 3)  # weights cut for all x, and for each h


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16", "int32", "int64"])
def test_types(everything, dtype):
    net = Network(1, dtype=dtype)
    assert net.batched(*net.layer(net.steps, net.row(), net.weights(2))) == (1, 1 + 3)


def test_narrow_integers(everything):
    """int8 rows and weights, int32 sums; the state is made narrow again."""
    net = Network(1, dtype="int8")
    w, h, results = net.b.constant(net.weights(2)), net.row(), []
    for x in net.steps:
        wide = net.b.matmul(net.joined(x, h), w, "int32")
        h = net.b.cast(wide, "int8")
        results += [wide, h]
    assert net.batched(*results) == (1, 1 + 3)


@pytest.mark.parametrize("cut", [False, True])
def test_rows_that_are_products_themselves(everything, cut):
    """No op stands between a batch and the next, nor between a batch and what is joined."""
    net = Network(1)
    v = net.weights()
    below = [net.product(x, v) for x in net.steps]
    if cut:
        results, cuts = net.layer(below, net.row(), net.weights(2)), 1 + 3
    else:
        w, cuts = net.weights(), 0
        results = [net.product(x, w) for x in below]
    assert net.batched(*results) == (1, cuts)  # the second takes the whole of the first


def test_constant_rows(everything):
    """Some of the rows that are stacked, or of those that are joined, are constants."""
    net = Network(1)
    w, constant = net.weights(), net.b.constant(net.random(1, WIDTH))
    known = net.relu(constant)
    assert net.batched(*(net.product(x, w) for x in (net.steps[0], known, net.steps[1]))) == (1, 0)
    wide, h, results = net.weights(3), net.row(), []
    for x in net.steps:
        h = net.product(net.joined(x, constant, h), wide)
        results.append(h)
    assert net.batched(*results) == (2, 2 + 3)


def test_batches_that_wait_for_one_another(everything):
    """Only one of them can be made."""
    net = Network(1)
    v, w = net.weights(), net.weights()
    a, b = net.product(net.steps[0], v), net.product(net.steps[1], w)
    assert net.batched(net.product(net.relu(a), w), net.product(net.relu(b), v)) == (1, 0)


def test_rows_that_a_loop_makes(everything):
    """A loop reads the product of the first step inside of its body."""
    net = Network(1)
    w = net.weights()
    first = net.product(net.steps[0], w)

    def body(s, i, state):
        return [
            s.insert(s.extract(first, [s.const(0, "index"), i]), state, [s.const(0, "index"), i])
        ]

    [looped] = net.b.loop(WIDTH, [net.row()], body)
    assert net.batched(net.product(looped, w), net.product(net.steps[1], w)) == (1, 0)


def test_no_rows(everything):
    net = Network(1)
    w = net.weights()
    assert net.batched(*(net.product(net.argument((0, WIDTH)), w) for _ in range(2))) == (0, 0)


@pytest.mark.parametrize(("start", "found"), [(0, (1, 1 + 3)), (1.5, (0, 0))])
def test_only_sums_from_zero_are_cut(everything, start, found):
    """Each part would add the start again."""
    net = Network(1)
    w, h, results = net.b.constant(net.weights(2)), net.row(), []
    for x in net.steps:
        init = net.b.fill((1, WIDTH), "float32", start)
        operands, out = [(net.joined(x, h), "d0, d2"), (w, "d2, d1")], [(init, "d0, d1")]
        [h] = net.b.generic(operands, out, "ppr", lambda s, a, e, sum: sum + a * e)
        results.append(h)
    assert net.batched(*results) == found


def test_sums_that_start_alike_are_batched(everything):
    net = Network(1)
    w, results = net.b.constant(net.weights()), []
    for x, start in zip([*net.steps, net.row()], (1.5, 1.5, 2.5, 2.5), strict=True):
        operands = [(x, "d0, d2"), (w, "d2, d1")]
        out = [(net.b.fill((1, WIDTH), "float32", start), "d0, d1")]
        results += net.b.generic(operands, out, "ppr", lambda s, a, e, sum: sum + a * e)
    assert net.batched(*results) == (2, 0)


def test_a_batch_says_where_its_members_come_from(everything):
    net = Network(1)
    w, results = net.weights(), []
    for k, x in enumerate(net.steps):
        net.b.at(f"step {k}", "product")
        results.append(net.product(x, w))
    after = run_passes(module_of(net.b, results), PASSES, locations=True)
    names = dict(re.findall(r'(#loc\d*) = loc\("(.*?)"\)', after))
    [members] = re.findall(r"loc\(fused\[(.*?)\]\)", after)
    assert [names[member] for member in members.split(", ")] == ["step 0", "step 1", "step 2"]
