"""runtime/stored.py: constants in a file are what they are in memory, and nothing of them stays."""

import os
import weakref

import numpy as np
import pytest

from rcompiler.errors import InvalidModel
from rcompiler.frontend.weights_outside import File
from rcompiler.passes.constants.storing import storage_of
from rcompiler.runtime.deferred import Constant, whole, write
from rcompiler.runtime.recipes import Cast, Combine, Derived, Permute, Reshape, in_memory
from rcompiler.runtime.stored import Stored

TWICE = ((1.0, 0.0), (0.5, 0.5), (0.5, -0.5), (0.0, 1.0))
START = 100  # bytes in front of the array
STEPS = {
    "none": (),
    "moves": (Permute((1, 0)), Reshape((5, 1200))),
    "packing": (Reshape((150, 20, 2)), Permute((2, 0, 1)), Reshape((2, 3000))),
    "sums": (Cast("float64"), Combine(1, TWICE), Cast("float32")),
}


@pytest.fixture
def numbers():
    return np.random.default_rng(0).standard_normal((3000, 2)).astype(np.float32)


@pytest.fixture
def path(tmp_path, numbers):
    path = tmp_path / "weights"
    path.write_bytes(bytes(START) + numbers.tobytes())
    return path


@pytest.fixture
def stored(path, numbers):
    return Stored(File(os.open(path, os.O_RDONLY)), START, numbers.shape, numbers.dtype)


@pytest.mark.parametrize("name", STEPS)
def test_what_is_made_of_it_is_the_same(name, stored, numbers):
    made, expected = Derived(stored, *STEPS[name]), Derived(numbers, *STEPS[name])
    assert (made.shape, made.dtype, made.steps) == (expected.shape, expected.dtype, expected.steps)
    more = Derived(made, Reshape((made.shape[0] * made.shape[1],)))
    wanted = np.ascontiguousarray(whole(expected))
    out = np.empty_like(wanted)
    write(made, out)
    assert out.tobytes() == wanted.tobytes() == np.ascontiguousarray(whole(made)).tobytes()
    assert np.ascontiguousarray(whole(more)).tobytes() == wanted.tobytes()
    box = (slice(0, wanted.shape[0]), slice(0, wanted.shape[1]))
    for array in (made, in_memory(made)):
        assert np.ascontiguousarray(array[box]).tobytes() == wanted.tobytes()


def test_parts_are_those_of_its_bytes(stored, numbers):
    assert stored.part(5, 1005).tobytes() == numbers.tobytes()[5:1005]
    assert np.array_equal(whole(in_memory(stored)), numbers)
    assert in_memory(numbers) is numbers


def test_nothing_that_was_read_stays(stored):
    made = Derived(stored, *STEPS["sums"])
    for array in (stored, made):
        read = whole(array)
        gone = weakref.ref(read if read.base is None else read.base)
        del read
        assert gone() is None


def test_a_file_that_was_written_to_is_refused(path, stored):
    assert stored.is_there()
    os.utime(path, ns=(1, 1))
    assert not stored.is_there()
    with pytest.raises(InvalidModel, match="cannot be read again: its file was written to"):
        whole(Derived(stored, *STEPS["moves"]))


def test_a_file_that_is_removed_is_read_still(path, stored, numbers):
    path.unlink()
    assert stored.is_there()
    assert np.array_equal(whole(stored), numbers)


@pytest.mark.parametrize("before", [(), (Cast("float16"),)])
def test_a_file_of_a_model_keeps_the_same_of_it(before, stored, numbers):
    """In whatever parts it is written."""
    steps = (*before, Cast("float64"), Combine(1, TWICE), Cast("float32"))
    sections = []
    for source in (stored, numbers):
        placed: dict[int, Constant] = {0: Derived(source, *steps), 48_000: np.ones(16, np.float32)}
        weights = np.zeros(48_064, np.uint8)
        for offset, array in placed.items():
            part = weights[offset : offset + array.nbytes].view(array.dtype)
            write(array, part.reshape(array.shape))
        storage = storage_of(placed, weights, sources=True)
        assert storage.recipes
        section = storage.section(weights)
        parts = [section[at : at + 777] for at in range(0, section.size, 777)]
        assert np.concatenate(parts).tobytes() == section[:].tobytes()
        sections.append((storage.recipes, section[:].tobytes()))
        assert storage.is_there()
    assert sections[0] == sections[1]


def test_what_moves_only_is_read_piece_by_piece(tmp_path, monkeypatch):
    """Nothing of its size is there beside the result: the largest read is a piece."""
    numbers = np.arange(1 << 20, dtype=np.int32).reshape(1024, 1024)
    path = tmp_path / "weights"
    path.write_bytes(numbers.tobytes())
    file = File(os.open(path, os.O_RDONLY))
    reads = []
    monkeypatch.setattr(file, "read", lambda *a, read=file.read: reads.append(a[1]) or read(*a))
    moved = Derived(Stored(file, 0, (1024, 1024), numbers.dtype),
                    Reshape((1024, 64, 16)), Permute((1, 0, 2)))  # fmt: skip
    out = np.empty(moved.shape, np.int32)
    write(moved, out)
    assert np.array_equal(out, numbers.reshape(1024, 64, 16).transpose(1, 0, 2))
    assert sum(reads) == numbers.nbytes and max(reads) <= 1 << 20
