"""Deferred arrays: blocks cover every element once, rows stay whole, reshapes copy nothing."""

import gc
import math
import weakref

import numpy as np
import pytest

from rcompiler.runtime import deferred as deferred_module
from rcompiler.runtime.deferred import Deferred, reshape, whole, write


def counting(array, rows=()):
    """The array as a deferred one, and the boxes that were asked for."""
    boxes = []

    def block(box):
        boxes.append(box)
        return array[box]

    return Deferred(array.shape, array.dtype, block, frozenset(rows)), boxes


def numbers(*shape):
    return np.arange(math.prod(shape), dtype=np.int32).reshape(shape)


@pytest.mark.parametrize("shape", [(), (0, 3), (7,), (5, 3, 7), (2, 1, 40)])
@pytest.mark.parametrize("rows", [(), (0,), (1,)])
def test_blocks_cover_all_elements_once(monkeypatch, shape, rows):
    monkeypatch.setattr(deferred_module, "BLOCK", 8)
    rows = [r for r in rows if r < len(shape)]
    array = numbers(*shape)
    deferred, boxes = counting(array, rows)
    np.testing.assert_array_equal(deferred.whole, array)
    sizes = [tuple(part.stop - part.start for part in box) for box in boxes]
    assert sum(map(math.prod, sizes)) == array.size
    for size in sizes:
        assert all(size[row] == shape[row] for row in rows)
        assert math.prod(n for d, n in enumerate(size) if d not in rows) <= 8


def test_blocks_are_the_last_dims(monkeypatch):
    monkeypatch.setattr(deferred_module, "BLOCK", 8)
    deferred, boxes = counting(numbers(3, 4, 2))
    write(deferred, np.empty((3, 4, 2), np.int32))
    assert boxes == [(slice(i, i + 1), slice(0, 4), slice(0, 2)) for i in range(3)]


def test_a_reshape_writes_to_its_place(monkeypatch):
    monkeypatch.setattr(deferred_module, "BLOCK", 8)
    array = numbers(6, 4)
    deferred, boxes = counting(array)
    out = np.empty((2, 3, 4), np.int32)
    write(reshape(reshape(deferred, (24,)), (2, 3, 4)), out)
    np.testing.assert_array_equal(out, array.reshape(2, 3, 4))
    assert len(boxes) == 3


def test_reshapes_of_arrays_are_views_or_deferred():
    array = numbers(6, 4)
    assert np.shares_memory(reshape(array, (2, 12)), array)
    turned = reshape(array.T, (24,))
    assert isinstance(turned, Deferred)
    assert turned.nbytes == array.nbytes
    np.testing.assert_array_equal(whole(turned), array.T.reshape(24))
    np.testing.assert_array_equal(turned[(slice(3, 9),)], array.T.reshape(24)[3:9])


@pytest.mark.parametrize("shape", [(4, 3, 5), (5, 12)])
def test_a_reshaped_array_goes_when_nobody_needs_it(shape):
    """Its elements are weights: they do not wait for a collection of garbage."""
    array = numbers(12, 5)
    gone = weakref.ref(array)
    gc.disable()
    try:
        made = reshape(Deferred(array.shape, array.dtype, array.__getitem__), shape)
        assert np.array_equal(whole(made), numbers(*shape))
        del array, made
        assert gone() is None
    finally:
        gc.enable()
