"""What counts its results at run time: compaction, heaps, distinct elements, selected boxes.

The IR is run by MLIR's own lowering.
"""

import sys
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))

from s1 import RUN, module_of

from rcompiler.frontend.builder import Builder
from rcompiler.frontend.compaction import join_rows, kept_places
from rcompiler.frontend.distinct import distinct, element_keys, slice_keys
from rcompiler.frontend.suppression import Limits, selected_boxes


def runner(make, *kinds):
    """A function of arrays. make(b, *values) returns values; kinds: (shape, dtype) of each."""
    b = Builder()
    values = [b.argument(f"x{i}", *kind) for i, kind in enumerate(kinds)]
    text, constants = module_of(b, make(b, *values)), b.constants
    return lambda *arrays: RUN.run(text, constants, [np.asarray(a) for a in arrays])


@pytest.mark.parametrize("n", [1, 1025])
def test_kept_places_and_zeros_behind_them(n):
    run = runner(kept_places, ((n,), "bool"))
    for share in (0, 0.4, 1):
        kept = np.random.default_rng(n).random(n) < share
        places, count = run(kept)
        assert count == kept.sum()
        np.testing.assert_array_equal(places[: int(count)], np.flatnonzero(kept))
        assert not places[int(count) :].any()


def test_rows_of_any_length_joined():
    def joined(b, counts):
        found = join_rows(b, counts, 6)
        return found.row, found.place, found.total

    run = runner(joined, ((4,), "int32"))
    for counts, rows, places in (
        ([2, 0, 3, 1], [0, 0, 2, 2, 2, 3], [0, 1, 0, 1, 2, 0]),
        ([0, 0, 0, 0], [0] * 6, [0] * 6),
        ([0, 1, 0, 0], [1, 0, 0, 0, 0, 0], [0] * 6),
    ):
        row, place, total = run(np.int32(counts))
        assert total == sum(counts)
        np.testing.assert_array_equal(place, places)
        np.testing.assert_array_equal(row[: sum(counts)], rows[: sum(counts)])
    assert run(np.int32([5, 5, 5, 5]))[2] == 20  # more than there is room for are counted, too


def numbered(x, axis, in_order):
    """What numpy finds; f16 as f32, of which NaNs are last as they are of all other types."""
    x = x.astype(np.float32) if x.dtype in (np.float16, ml_dtypes.bfloat16) else x
    _, first, which, counts = np.unique(x, True, True, True, axis=axis)
    order = np.arange(first.size) if in_order else np.argsort(first)
    return first[order], counts[order], np.argsort(order)[which.reshape(-1)]


def draw(rng, shape, dtype, span):
    """Few different numbers: of floats also NaN, both zeros and infinity."""
    x = rng.integers(-span, span + 1, shape)
    if np.dtype(dtype).kind in "iub":
        return x.astype(dtype)
    odd = rng.choice([np.nan, -0.0, np.inf], shape)
    return np.where(rng.random(shape) < 0.3, odd, x / 2).astype(dtype)


@pytest.mark.parametrize(
    ("shape", "dtype", "in_order"),
    [
        ((13,), "float16", True), ((13,), "uint64", False), ((13,), "bool", True),
        ((9, 3), "bfloat16", True), ((9, 2), "int64", False), ((4, 0), "float32", True),
    ],
)  # fmt: skip
def test_distinct_elements_and_slices_of_any_type(shape, dtype, in_order):
    def all_of(b, x):
        keys = slice_keys(b, x) if x.rank > 1 else element_keys(b, x)
        found = distinct(b, keys, in_order)
        return found.first, found.counts, found.which, found.number

    run = runner(all_of, (shape, dtype))
    rng = np.random.default_rng(4)
    for span in (0, 1, 9):
        x = draw(rng, shape, getattr(ml_dtypes, dtype, dtype), span)
        first, counts, which, number = run(x)
        wanted = numbered(x, 0 if len(shape) > 1 else None, in_order)
        n = int(number)
        assert n == wanted[0].size and not first[n:].any() and not counts[n:].any()
        for got, want in zip((first[:n], counts[:n], which), wanted, strict=True):
            np.testing.assert_array_equal(got, want)


def test_distinct_ones_of_fewer_elements_than_there_is_room_for():
    def all_of(b, x, size):
        found = distinct(b, element_keys(b, x), False, size)
        return found.first, found.counts, found.which, found.number

    run = runner(all_of, ((8,), "int32"), ((), "int64"))
    highest = np.iinfo(np.int32).max
    for size in (0, 1, 5, 8):
        x = np.int32([highest, 3, highest, -1, 3, *[highest, 7, -9]])
        first, counts, which, number = run(x, np.int64(size))
        wanted = numbered(x[:size], None, False) if size else [[]] * 3
        assert number == len(wanted[0])
        np.testing.assert_array_equal(first[: int(number)], wanted[0])
        np.testing.assert_array_equal(counts[: int(number)], wanted[1])
        np.testing.assert_array_equal(which[:size], wanted[2])


def test_selected_boxes_by_hand():
    """Two of three boxes overlap; the score of the second is NaN in the second class."""
    boxes = np.float32([[[0, 0, 2, 2], [2, 2, 0, 0.1], [5, 5, 6, 6], [0, 0, 9, 9]]])
    scores = np.float32([[[0.5, 0.9, 0.9, 1], [0.5, np.nan, 0.1, 1]]])

    def all_of(b, boxes, scores, count, overlap, score, real):
        limits = Limits(2, count, overlap, score, real)
        return selected_boxes(b, boxes, scores, limits, 4, centred=False)

    scalars = [((), "int64"), ((), "float32"), ((), "float32"), ((2,), "int64")]
    run = runner(all_of, ((1, 4, 4), "float32"), ((1, 2, 4), "float32"), *scalars)

    def selected(count, overlap, score, real):
        limits = (np.int64(count), np.float32(overlap), np.float32(score), np.int64([real, real]))
        found, number = run(boxes, scores, *limits)
        assert not found[int(number) :].any()
        return found[: int(number)].tolist()

    assert selected(9, 0.5, 0, 3) == [[0, 0, 1], [0, 0, 2], [0, 1, 0], [0, 1, 2]]
    assert selected(9, 0.95, 0, 3) == [[0, 0, 1], [0, 0, 2], [0, 1, 0], [0, 1, 2]]  # no room for 3
    assert selected(1, 0.5, 0, 3) == [[0, 0, 1], [0, 1, 0]]
    assert selected(9, 0.5, 0.5, 3) == [[0, 0, 1], [0, 0, 2]]
    assert selected(9, 0.5, 0.5, 4) == [[0, 0, 3], [0, 0, 1], [0, 1, 3]]
    assert selected(0, 0.5, 0, 3) == selected(-1, 0.5, 0, 3) == selected(9, 0.5, 2, 3) == []
    assert selected(9, 0.5, 0, 0) == []
