"""rcompiler/kernelgen/next_panel.py: what is asked for of the panel behind the one that is read."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kernel_cases import Kernel, Tile, random, sum_of_products

from rcompiler.codegen.cpu import Target
from rcompiler.kernelgen.cpu import CpuFeatures
from rcompiler.kernelgen.next_panel import PASSES, Nest, panel_of
from rcompiler.kernelgen.scopes import Loop
from rcompiler.linalg.affine import Linear

LINE = 16


def nest(passes: int | None, steps: int = 384) -> Nest:
    """Tasks, the columns of one, its rows, the steps of a reduction."""
    loops = [Loop("task", 1, None), Loop("column", 2, 2), Loop("row", 3, passes)]
    depths = {"task": 1, "column": 2, "row": 3, "step": 4}
    return Nest([*loops, Loop("step", 4, steps)], 3, depths.__getitem__)


def at(**terms: int) -> Linear:
    return Linear(0, tuple(sorted(terms.items())))


def asked(places: list[Linear], loops: list[Loop]) -> list[int]:
    """The elements of all bodies, in the order of time; loops around them count as 0."""
    names = [loop.variable for loop in loops]
    return [
        place.constant + sum(place.coefficient(n) * v for n, v in zip(names, point, strict=True))
        for point in itertools.product(*(range(loop.trips or 0) for loop in loops))
        for place in places
    ]


def test_two_streams_by_hand():
    """768 x 32 weights as two panels of 16 columns, two of the 768 steps in a body: 24,576 elements
    are 1536 lines, four passes of 384 bodies ask for one each.
    """
    panel = panel_of(at(task=49152, column=24576, step=32), nest(4), 2)
    assert panel is not None and panel.elements == 24576
    (place,) = panel.shares(LINE)
    assert place == Linear(24576, (("column", 24576), ("row", 6144), ("step", 16), ("task", 49152)))


def test_five_passes_share_what_is_no_multiple():
    """8 x 48 in registers: 2304 lines among 1920 bodies are two requests of 9.6 elements apart, so
    of 10.
    """
    panel = panel_of(at(column=36864, step=32), nest(5), 3)
    assert panel is not None
    places = panel.shares(LINE)
    assert [p.constant for p in places] == [36864, 36874]
    assert places[0].coefficient("step") == 20 and places[0].coefficient("row") == 7680


@given(
    passes=st.integers(PASSES, 40),
    steps=st.integers(1, 50),
    unrolled=st.integers(1, 4),
    vectors=st.integers(1, 4),
)
def test_each_line_of_the_next_panel_is_asked_for(passes, steps, unrolled, vectors):
    elements = steps * unrolled * vectors * LINE
    offset = at(column=elements, step=unrolled * LINE)
    panel = panel_of(offset, nest(passes, steps), vectors)
    assert panel is not None
    found = asked(panel.shares(LINE), [*panel.passes, panel.steps])
    lines = {element // LINE for element in found}
    assert {*range(elements // LINE, 2 * elements // LINE)} <= lines
    assert found == sorted(found)  # as the next panel will be read
    count = len(found) // (passes * steps)
    assert max(found) - elements < elements + passes * steps * count  # less than one each too far


@pytest.mark.parametrize(
    "offset, passes, vectors",
    [
        (at(column=24576, step=32), PASSES - 1, 2),  # memory is what is waited for
        (at(column=24576, step=32), None, 2),  # as many as a run says
        (at(step=32), 8, 2),  # all of it is one panel
        (at(column=32, step=6144), 8, 2),  # rows of a matrix: its columns are apart
        (at(column=24576, step=32), 8, 4),  # streams of several panels
        (at(column=100000, step=32), 8, 2),  # with gaps
        (at(column=-24576, step=32), 8, 2),  # backwards
    ],
)
def test_nothing_is_asked_for(offset, passes, vectors):
    assert panel_of(offset, nest(passes), vectors) is None


def test_steps_are_one_loop():
    """A window has one for each of its axes."""
    window = nest(8)
    window = Nest([*window.loops, Loop("tap", 5, 3)], 3, window.depth_of)
    assert panel_of(at(column=24576, step=32), window, 2) is None


def test_the_number_of_a_task_moves_by_its_last_coordinate():
    """Batches, and panels of each: both are known where a task begins."""
    loops = [Loop("i", 1, None), Loop("row", 2, 8), Loop("step", 3, 384)]
    depths = {"batch": 1, "part": 1, "row": 2, "step": 3}
    panel = panel_of(at(batch=589824, part=24576, step=32), Nest(loops, 2, depths.__getitem__), 2)
    assert panel is not None and panel.elements == 24576


@pytest.mark.parametrize(
    ("rows", "cache", "expected"),
    [
        (64, 1 << 20, 1),
        (12, 1 << 20, 0),  # three register tiles
        (64, 1 << 16, 0),  # two panels are more than the cache
    ],
)
def test_a_body_asks_for_its_share(rows: int, cache: int, expected: int):
    """Panels of 16 columns, 1024 steps: 64 KiB."""
    features = CpuFeatures(16, has_fma=True, private_bytes=cache)
    x, w = random((rows, 1024)), random((4, 1024, 16), 1)
    shapes = (x.shape, w.shape, (rows, 64))
    body = sum_of_products("m, n, k", ("m, k", "n floordiv 16, k, n mod 16", "m, n"), shapes)
    tile = Tile((rows, 64), [rows, 64], [4, 16], [1, 0], 1, 16)
    kernel = Kernel(body, ["%r"], [x, w], [((rows, 64), "float32")], tile, features)
    right = np.einsum("mk,jkn->mjn", x, w).reshape(rows, 64)
    np.testing.assert_allclose(kernel.run()[0], right, rtol=1e-4, atol=1e-4)
    loop = kernel.loop(Target.named("x86-64-v4"), "vfmadd")
    assert sum("prefetcht1" in line for line in loop) == expected
