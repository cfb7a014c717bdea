"""Axis fusion on plain data: by hand, and that every point keeps its elements."""

from itertools import product

from hypothesis import given, settings
from hypothesis import strategies as st

from rcompiler.roller.fuse import LoopNest, Reshape, fuse_axes, fused_loops

PARALLEL, REDUCTION = "parallel", "reduction"


def nest(kinds, *accesses, split=()):
    names = {"p": PARALLEL, "r": REDUCTION}
    return LoopNest(tuple(names[k] for k in kinds), tuple(accesses), frozenset(split))


def test_elementwise_axes_become_one():
    """[17, 11, 3] -> [561]"""
    relu = nest("ppp", (0, (0, 1, 2)), (1, (0, 1, 2)))
    groups = fuse_axes([3, 3], [relu])
    assert groups == [((0, 1, 2),)] * 2
    assert fused_loops(relu, groups) == ((0, 1, 2),)


def test_axes_fuse_only_with_those_they_always_travel_with():
    """x[n, h, w] + b[n]: rows and columns of every image."""
    add = nest("ppp", (0, (0, 1, 2)), (1, (0,)), (2, (0, 1, 2)))
    groups = fuse_axes([3, 1, 3], [add])
    assert groups == [((0,), (1, 2)), ((0,),), ((0,), (1, 2))]
    assert fused_loops(add, groups) == ((0,), (1, 2))


def test_a_product_keeps_its_axes_but_batches_of_rows():
    """y[b, m, n] = x[b, m, k] w[k, n]"""
    rows = nest("pppr", (0, (0, 1, 3)), (1, (3, 2)), (2, (0, 1, 2)))
    groups = fuse_axes([3, 2, 3], [rows])
    assert groups == [((0, 1), (2,)), ((0,), (1,)), ((0, 1), (2,))]
    assert fused_loops(rows, groups) == ((0, 1), (2,), (3,))


def test_a_convolution_has_three_axes_where_its_layout_allows():
    """1x1, images first: y[f, n, h, w] = x[c, n, h, w] k[f, c] is a product of f, pixels and c."""
    conv = nest("ppppr", (0, (4, 1, 2, 3)), (1, (0, 4)), (2, (0, 1, 2, 3)))
    groups = fuse_axes([4, 2, 4], [conv])
    assert fused_loops(conv, groups) == ((0,), (1, 2, 3), (4,))


def test_a_transpose_keeps_apart_what_changes_its_order():
    """y[a, b, c] = x[b, c, a]"""
    swap = nest("ppp", (0, (1, 2, 0)), (1, (0, 1, 2)))
    assert fuse_axes([3, 3], [swap]) == [((0, 1), (2,)), ((0,), (1, 2))]


def test_sums_and_results_are_apart():
    """y[a, b] = sum over c, d of x[a, b, c, d]"""
    total = nest("pprr", (0, (0, 1, 2, 3)), (1, (0, 1)))
    assert fuse_axes([4, 2], [total]) == [((0, 1), (2, 3)), ((0, 1),)]
    mean = nest("prpr", (0, (0, 1, 2, 3)), (1, (0, 2)))
    assert fuse_axes([4, 2], [mean]) == [((0,), (1,), (2,), (3,)), ((0,), (1,))]


def test_one_reader_that_needs_a_dim_keeps_it_everywhere():
    """t = relu(x), y = t + b[n]: the dims of x stay apart where those of t do."""
    relu = nest("ppp", (0, (0, 1, 2)), (1, (0, 1, 2)))
    add = nest("ppp", (1, (0, 1, 2)), (2, (0,)), (3, (0, 1, 2)))
    apart = ((0,), (1, 2))
    assert fuse_axes([3, 3, 1, 3], [relu, add]) == [apart, apart, ((0,),), apart]
    assert fuse_axes([3, 3], [relu], whole=[1]) == [((0,), (1,), (2,))] * 2


def test_loops_inside_of_other_expressions_stay():
    """x[n, h + k]: the dim is walked by no loop alone, and h stays as it is."""
    window = nest("ppr", (0, (0, None)), (1, (0, 1)), split=[1, 2])
    assert fuse_axes([2, 2], [window]) == [((0,), (1,))] * 2


def test_scalars_have_no_dims():
    assert fuse_axes([0, 1], [nest("p", (0, ()), (1, (0,)))]) == [(), ((0,),)]


@st.composite
def programs(draw):
    """Nests over shared values, each dim walked by a loop of its size."""
    sizes = draw(st.lists(st.integers(1, 3), min_size=1, max_size=4))
    values = [tuple(range(len(sizes)))]
    nests = []
    for _ in range(draw(st.integers(1, 3))):
        kinds = tuple(draw(st.sampled_from([PARALLEL, PARALLEL, REDUCTION])) for _ in sizes)
        accesses = []
        for _ in range(draw(st.integers(1, 3))):
            order = draw(st.permutations(range(len(sizes))))
            named = order[: draw(st.integers(0, len(order)))]
            values.append(tuple(sorted(named) if draw(st.booleans()) else named))
            accesses.append((len(values) - 1, values[-1]))
        shared = draw(st.sampled_from(range(len(values))))
        nests.append(LoopNest(kinds, (*accesses, (shared, values[shared]))))
    return sizes, values, nests


def flat(loops, sizes, point):
    position = 0
    for loop in loops:
        position = position * sizes[loop] + point[loop]
    return position


@settings(max_examples=300)
@given(programs())
def test_every_point_of_the_fused_loops_names_the_same_elements(program):
    sizes, values, nests = program
    groups = fuse_axes([len(loops) for loops in values], nests)
    for value, found in zip(values, groups, strict=True):
        assert [d for group in found for d in group] == list(range(len(value)))
    for one in nests:
        chains = fused_loops(one, groups)
        assert sorted(loop for chain in chains for loop in chain) == list(range(len(sizes)))
        for chain in chains:
            assert len({one.kinds[loop] for loop in chain}) == 1
        number = {loop: k for k, chain in enumerate(chains) for loop in chain}
        lengths = [1] * len(chains)
        for loop, size in enumerate(sizes):
            lengths[number[loop]] *= size
        for point in product(*map(range, sizes)):
            fused = [flat(chain, sizes, point) for chain in chains]
            for value, loops in one.accesses:
                named = [number[loops[group[0]]] for group in groups[value]]
                assert flat(loops, sizes, point) == flat(named, lengths, fused)


# value 0 [784, 64] is value 1 [28, 28, 64] with rows of pixels as one
PIXELS = Reshape(1, 0, ((0, 1), (2,)))


def test_axes_of_a_reshape_become_the_same_on_both_sides():
    """A bias of each column keeps columns apart on both sides; rows are one on both."""
    bias = nest("pp", (0, (0, 1)), (2, (1,)))
    relu = nest("ppp", (1, (0, 1, 2)), (3, (0, 1, 2)))
    found = fuse_axes([2, 3, 1, 3], [bias, relu], reshapes=[PIXELS])
    assert found == [((0,), (1,)), ((0, 1), (2,)), ((0,),), ((0, 1), (2,))]


def test_all_axes_of_a_reshape_may_become_one():
    relu = nest("ppp", (1, (0, 1, 2)), (2, (0, 1, 2)))
    assert fuse_axes([2, 3, 3], [relu], reshapes=[PIXELS])[:2] == [((0, 1),), ((0, 1, 2),)]


def test_a_reshape_of_axes_that_stay_apart_keeps_all_of_both_sides():
    """A bias of each line of pixels."""
    bias = nest("ppp", (1, (0, 1, 2)), (2, (0, 2)))
    found = fuse_axes([2, 3, 2], [bias], reshapes=[PIXELS])
    assert found[:2] == [((0,), (1,)), ((0,), (1,), (2,))]
