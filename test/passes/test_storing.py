"""passes/constants/storing.py: what a file keeps, what it makes, and what is not worth it."""

import ml_dtypes
import numpy as np
import pytest

from rcompiler.passes.constants.storing import storage_of
from rcompiler.runtime.deferred import Deferred, whole, write
from rcompiler.runtime.recipes import Broadcast, Cast, Combine, Derived, Pad, Permute, Reshape
from rcompiler.runtime.storage import Storage

TWICE = ((1.0, 0.0), (0.5, 0.5), (0.5, -0.5), (0.0, 1.0))
TURNED = Permute((1, 0))


def numbers(*shape):
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


def grown(source):
    return Derived(source, Cast("float64"), Combine(1, TWICE), Cast("float32"))


def kept(*arrays, sources=False) -> Storage:
    """How a file keeps these, one behind the other; its recipes make them again."""
    placed, end = {}, 0
    for array in arrays:
        placed[end] = array
        end += -(-array.nbytes // 64) * 64
    weights = np.zeros(end, np.uint8)
    for offset, array in placed.items():
        place = weights[offset : offset + array.nbytes].view(array.dtype)
        write(array, place.reshape(array.shape))
    storage = storage_of(placed, weights, sources=sources)
    storage.check(weights.size)
    section = storage.section(weights)
    for recipe in storage.recipes:
        wanted = np.ascontiguousarray(whole(placed[recipe.offset]))
        assert np.ascontiguousarray(whole(recipe.made(section))).tobytes() == wanted.tobytes()
    return storage


def offsets(storage):
    return [recipe.offset for recipe in storage.recipes]


def test_a_source_that_is_smaller_lies_in_the_place_of_what_is_made():
    w = numbers(20_000, 2)
    storage = kept(numbers(64), grown(w))
    assert offsets(storage) == [256] and storage.aside[:].tobytes() == w.tobytes()


def test_one_source_does_for_all_that_is_made_of_it():
    w = numbers(20_000, 2)
    storage = kept(
        grown(w), numbers(64), Derived(grown(w), Reshape((200, 400))), Derived(w, TURNED)
    )
    assert offsets(storage) == [0, 320_256, 640_256] and storage.aside.size == w.nbytes


def test_what_a_load_would_refuse_lies_in_the_file_as_it_is():
    """Made of one source: 40 times its bytes do, and twice that, 64 times at most, do not."""
    w = numbers(1_000, 1)
    wide = Derived(w, Broadcast((1_000, 40)))
    assert len(kept(wide).recipes) == 1
    assert kept(wide, Derived(wide, Reshape((40_000,)), Reshape((200, 200)))).recipes == ()


def test_a_source_that_is_a_weight_itself_is_kept_once():
    w = numbers(400, 300)
    storage = kept(Derived(w, TURNED), w, numbers(64))
    assert offsets(storage) == [0] and storage.aside.size == 0


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_what_was_rounded_on_the_way_is_kept_as_it_was_rounded(dtype):
    """In half of the bytes; of bf16, which no file names, as 16 bits."""
    w = numbers(400, 300)
    halves = np.ascontiguousarray(w.astype(np.dtype(dtype)))
    wide = Derived(w, Cast(dtype), Cast("float32"), TURNED)
    storage = kept(wide)
    [recipe] = storage.recipes
    assert storage.aside.size == w.nbytes // 2 and storage.aside[:].tobytes() == halves.tobytes()
    assert np.array_equal(whole(recipe.made(storage.aside[:])), halves.astype(np.float32).T)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_what_is_rounded_in_two_layouts_is_kept_once(dtype):
    """Embeddings that are weights of a product, too, which the importer transposes."""
    w = numbers(400, 300)
    rows, columns = Derived(w, Cast(dtype)), Derived(w.T, Cast(dtype), Reshape((30, 10, 400)))
    storage = kept(rows, columns)
    assert offsets(storage) == [rows.nbytes] and storage.aside.size == 0


@pytest.mark.parametrize("padded", [False, True])
def test_a_view_of_a_weight_is_known_as_one(padded):
    """The importer transposes constants as views of numpy, before anything is derived."""
    w = numbers(400, 301)
    steps = (Pad((0, 0), (304, 400), bytes(4)), Reshape((19, 16, 400)), Permute((0, 2, 1)))
    view = Derived(w.T, *steps) if padded else w.T
    storage = kept(w, view)
    assert len(storage.recipes) == 1 and storage.aside.size == 0
    assert storage.recipes[0].steps[0] == TURNED


def test_three_dims_are_turned_back_as_well():
    w = numbers(40, 30, 50)
    view = w.transpose(2, 0, 1)
    assert offsets(kept(w, view)) == [w.nbytes]


def test_what_saves_little_is_kept_as_it_is():
    small = numbers(1500, 2)  # 12 KB
    assert not kept(grown(small)).recipes
    assert not kept(small, Derived(small, TURNED)).recipes
    large = numbers(1000, 2048)
    packed = (Pad((0, 0), (1024, 2048), bytes(4)), Reshape((64, 16, 2048)), Permute((0, 2, 1)))
    assert not kept(Derived(large, *packed)).recipes  # 200 KB, but of 8 MB that a load would make
    assert not kept(Derived(large, TURNED)).recipes
    assert not kept().recipes


def test_other_types_are_moved_as_bytes():
    for dtype in (ml_dtypes.bfloat16, np.int8, np.float64, np.bool_):
        w = numbers(800, 301).astype(dtype)
        storage = kept(w, Derived(w, TURNED))
        assert len(storage.recipes) == 1, dtype
    w = numbers(400, 300).astype(np.complex128)
    assert not kept(w, Derived(w, TURNED)).recipes


def test_a_source_may_be_computed():
    w = numbers(20_000, 2)
    source = Deferred(w.shape, w.dtype, lambda box: w[box] * 2)
    storage = kept(grown(source))
    assert storage.aside[:].tobytes() == (w * 2).tobytes()


def test_steps_that_no_file_may_have_are_done_by_the_compiler():
    w = numbers(20_000, 2)
    many = Derived(w, *[Cast("float64"), Cast("float32")] * 9, Combine(1, TWICE))
    assert not kept(many).recipes
    one = numbers(16)
    far = Derived(one, Pad((0,), (1 << 20,), bytes(4)))
    assert not kept(far).recipes


def test_of_several_levels_every_source_lies_apart():
    """Also where that saves nothing; small constants, and what no recipe makes, stay."""
    w, plain, small = numbers(400, 300), numbers(300, 500), numbers(64)
    storage = kept(Derived(w, TURNED), small, plain, Derived(small, Reshape((8, 8))), sources=True)
    assert offsets(storage) == [0, w.nbytes + small.nbytes]
    assert storage.recipes[1].steps == ()
    assert storage.aside[:].tobytes() == w.tobytes() + plain.tobytes()
    wide = np.zeros(20_000, np.complex128)
    assert kept(wide, sources=True).recipes == ()


def test_of_several_levels_one_source_is_there_once():
    w = numbers(400, 320)
    storage = kept(w, Derived(w, TURNED), Derived(w, Reshape((800, 160))), sources=True)
    assert offsets(storage) == [0, w.nbytes, 2 * w.nbytes] and storage.aside.size == w.nbytes
