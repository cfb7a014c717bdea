"""runtime/storage.py: a load makes the weights that the compiler made; bad files are refused."""

import copy
import dataclasses
import os
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import recrafted
import small_models as sm
from artifact_loads import LOADS

from rcompiler.errors import ArtifactError, CompilerError, DeviceError
from rcompiler.passes.constants.storing import storage_of
from rcompiler.runtime import memory
from rcompiler.runtime import storage as storage_module
from rcompiler.runtime.artifact import Artifact
from rcompiler.runtime.container import PAGE, MappedFile
from rcompiler.runtime.deferred import write
from rcompiler.runtime.executable import Executable
from rcompiler.runtime.recipes import Cast, Combine, Derived, Form, Permute, Recipe
from rcompiler.runtime.storage import SHARED, Storage, layout

X = np.linspace(-3, 3, sm.N, dtype=np.float32)
MATRIX = ((1.0, 0.0), (0.5, 0.5), (0.5, -0.5), (0.0, 1.0))
START = 4 * sm.N  # of what lies behind the weights that the kernels read


def numbers(*shape):
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


def weighed(arrays) -> Artifact:
    """An artifact with the weights of the kernels, and these arrays behind them, 64 bytes apart."""
    placed, end = {0: sm.WEIGHTS}, START
    for array in arrays:
        placed[end] = array
        end += -(-array.nbytes // 64) * 64 + 64
    constants = np.zeros(end, np.uint8)
    for offset, array in placed.items():
        place = constants[offset : offset + array.nbytes].view(array.dtype)
        write(array, place.reshape(array.shape))
    storage = storage_of(placed, constants)
    return sm.artifact([sm.two_steps(2)], constants=constants, storage=storage)


def filters(*shape):
    """What a source makes that is half as large."""
    w = numbers(*shape, 2)
    return Derived(w, Cast("float64"), Combine(len(shape), MATRIX), Cast("float32"))


def sample(rows=300) -> Artifact:
    """Weights in two layouts, and others that are twice what they are made of."""
    w = numbers(rows, 128)
    made = weighed([w, Derived(w, Permute((1, 0))), filters(rows, 128), numbers(100, 128)])
    assert len(made.storage.recipes) == 2 and made.storage.aside.size == w.nbytes * 2
    another = pickle.loads(pickle.dumps(made.storage))  # as a process of its own is given it
    assert np.array_equal(another.aside[:], made.storage.aside[:])
    return made


@pytest.fixture
def path(tmp_path: Path) -> Path:
    sample().save(tmp_path / "m.rcx")
    return tmp_path / "m.rcx"


@pytest.mark.parametrize("way", LOADS)
def test_a_load_makes_what_the_compiler_made(way, path):
    made, loaded = sample(), LOADS[way](path)
    assert loaded.constants.tobytes() == made.constants.tobytes()
    assert loaded.certificate == made.certificate
    assert not loaded.constants.flags.writeable and loaded.constants.ctypes.data % 64 == 0
    assert np.array_equal(Executable(loaded)(X)[0], sm.expected(X))
    # what is missing: one layout of two, and half of what its source makes
    assert len(path.read_bytes()) < made.constants.size - 2 * 300 * 128 * 4 + 32768


@pytest.mark.parametrize("more", [64, SHARED + 640])
def test_weights_that_come_behind_others_are_kept_as_they_are(more):
    """Also where the last run gets so long that it is put elsewhere."""
    made = sample()
    before = made.constants.size
    constants = np.concatenate([made.constants, np.arange(more).astype(np.uint8)])
    storage = made.storage.grown(before, constants.size)
    grown = dataclasses.replace(made, constants=constants, storage=storage)
    loaded = Artifact.from_bytes(grown.to_bytes())
    assert loaded.constants.tobytes() == constants.tobytes()
    assert len(loaded.storage.recipes) == 2
    assert Storage().grown(64, 128).recipes == ()


@pytest.mark.parametrize("way", LOADS)
def test_saving_again_gives_the_same_bytes(way, path, tmp_path):
    LOADS[way](path).save(tmp_path / "again.rcx")
    assert (tmp_path / "again.rcx").read_bytes() == path.read_bytes()
    assert sample().to_bytes() == path.read_bytes()


def test_the_certificate_is_that_of_the_weights_as_they_are_run():
    plain = dataclasses.replace(sample(), storage=Storage())
    assert plain.certificate == sample().certificate
    assert len(plain.to_bytes()) > len(sample().to_bytes()) + 300_000


def test_a_file_that_is_read_may_go_with_its_memory(path):
    loaded = Artifact.load(path, mapped=False)
    os.unlink(path)
    assert str(path) not in Path("/proc/self/maps").read_text()
    again = Artifact.from_bytes(loaded.to_bytes())
    assert again.constants.tobytes() == loaded.constants.tobytes()


def big(path: Path) -> Artifact:
    """More weights than a load checks by sha256."""
    made = sample(rows=12000)
    made.save(path)
    return made


def test_pages_of_weights_that_lie_in_the_file_are_shared_with_it(tmp_path):
    path = tmp_path / "big.rcx"
    made = big(path)
    loaded = Artifact.load(path)
    assert loaded.constants.tobytes() == made.constants.tobytes()
    start = loaded.constants.ctypes.data
    shared = 0
    for line in Path("/proc/self/maps").read_text().splitlines():
        where, rights, *_ = line.split()
        first, last = (int(each, 16) for each in where.split("-"))
        if start <= first < start + loaded.constants.size:
            assert rights == "r--p"  # nobody writes to weights, made or mapped
            shared += (last - first) * line.endswith(str(path))
    kept = loaded.constants.size - sum(
        recipe.form.nbytes * (1 + (recipe.steps != (Permute((1, 0)),)))
        for recipe in loaded.storage.recipes
    )
    short = 100 * 128 * 4  # a run that is copied
    assert kept - short - 3 * 2 * PAGE <= shared <= kept
    del loaded
    assert sum(str(path) in line for line in Path("/proc/self/maps").read_text().splitlines()) == 0


def test_where_no_pages_can_be_mapped_they_are_copied(tmp_path, monkeypatch):
    path = tmp_path / "big.rcx"
    made = big(path)
    monkeypatch.setattr(MappedFile, "map", lambda *_: slice(0))
    assert Artifact.load(path).constants.tobytes() == made.constants.tobytes()


def test_damage_of_any_byte_is_found(path):
    good = path.read_bytes()
    for position in range(0, len(good), len(good) // 203):
        path.write_bytes(good[:position] + bytes([good[position] ^ 4]) + good[position + 1 :])
        with pytest.raises(ArtifactError, match="m.rcx: "):
            Artifact.load(path)


def test_large_weights_are_checked_in_both_ways(tmp_path):
    path = tmp_path / "big.rcx"
    made = big(path)
    assert Artifact.load(path, full=True).constants.tobytes() == made.constants.tobytes()
    # other weights in a layout that the header does not know, with all hashes of sections right
    header, sections = recrafted.split(path)
    sections["weights"][5000] ^= 1
    recrafted.joined(path, header, sections)
    with pytest.raises(ArtifactError, match="makes other weights than|not those of the compiler"):
        Artifact.load(path, full=True)


def test_runs_of_weights_begin_where_they_lie_in_a_page():
    made = [(5056, 96_000), (96_064, 192_000), (192_000, 320_000)]
    laid = layout(600_000, made)
    assert [(run.begin, run.end) for run in laid.runs] == [
        *((0, 5056), (96_000, 96_064), (320_000, 600_000)),
    ]
    ends = 0
    for begin, end, place in laid.runs:
        assert place >= ends and place % 64 == 0
        assert end - begin < SHARED or (place - begin) % PAGE == 0
        ends = place + end - begin
    assert laid.aside == ends + -ends % 64 and laid.aside < 285_120 + PAGE
    assert laid.place(320_100) == laid.runs[2].place + 100
    assert layout(100, []).runs == [(0, 100, 0)]
    assert layout(0, []) == ([], 0)


TERA = 1 << 40


def rewritten(path: Path, change) -> None:
    def changed(header):
        change(header["weights"]["recipes"], header["weights"])

    recrafted.rewrite(path, changed)


def put(recipe, place, value):
    recipe[place] = value


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda r, w: w.update(size=TERA), "cannot be made of|too little of the weights"),
        (lambda r, w: w.update(size=-1), "header is damaged"),
        (lambda r, w: w.update(size=w["size"] + 64), "too little|source leads|not those"),
        (lambda r, w: w.update(size="9"), "header is damaged"),
        (lambda r, w: w.update(size=10**400), "header is damaged"),
        (lambda r, w: w.pop("recipes"), "header is damaged"),
        (lambda r, w: w.pop("sha256"), "header is damaged"),
        (lambda r, w: w.update(recipes=3), "header is damaged"),
        (lambda r, w: r.append([]), "header is damaged"),
        (lambda r, w: r.clear(), "too little of the weights|not those of the compiler"),
        (lambda r, w: r.reverse(), "recipe 1 of the weights: it overlaps"),
        (lambda r, w: r.append(r[-1]), "recipe 2 of the weights: it overlaps"),
        (lambda r, w: put(r[0], 0, -64), "recipe 0 of the weights: it overlaps"),
        (lambda r, w: put(r[1], 0, TERA), "recipe 1 of the weights: it makes more than there is"),
        (lambda r, w: put(r[0], 1, -64), "recipe 0 of the weights: its source leads out"),
        (lambda r, w: put(r[0], 1, TERA), "recipe 0 of the weights: its source leads out"),
        (lambda r, w: put(r[0], 1, 0), "recipe 0 of the weights: it makes other weights"),
        (lambda r, w: put(r[0], 2, [300, 129]), "recipe [01] of the weights: "),
        (lambda r, w: put(r[0], 2, [TERA, 128]), "recipe [01] of the weights: "),
        (lambda r, w: put(r[0], 3, "float64"), "recipe [01] of the weights: "),
        (lambda r, w: put(r[0], 4, [["broadcast", [TERA, TERA]]]), "a broadcast to a shape"),
        (lambda r, w: put(r[0], 4, [["pad", [0, 0], [TERA, 128], "00000000"]]), "64 times the"),
        (lambda r, w: put(r[0], 4, [["reshape", [128, 300]]]), "it makes other weights"),
        (lambda r, w: put(r[0], 4, [["permute", [0, 0]]]), "no permutation"),
        (lambda r, w: put(r[0], 4, [["exec", "1"]]), "header is damaged"),
        (lambda r, w: put(r[0], 4, r[0][4] * 20), "more than 16 steps"),
        (lambda r, w: put(r[0], 5, 0), "it makes other weights than it did for the compiler"),
    ],
)  # fmt: skip
def test_crafted_recipes_are_refused_before_anything_is_reserved(path, change, reason, monkeypatch):
    rewritten(path, change)
    reserved = []
    whole_arena = storage_module.arena
    monkeypatch.setattr(
        storage_module, "arena", lambda n, what: reserved.append(n) or whole_arena(n, what)
    )
    with pytest.raises(ArtifactError, match=reason) as caught:
        Artifact.load(path)
    assert str(caught.value).count("m.rcx: ") == 1
    assert max(reserved, default=0) <= sample().constants.size + 64


def test_a_recipe_cannot_read_what_another_one_makes(path):
    """Sources lie in the section of the file, and what is made does not: there is no circle."""
    made = sample()
    kept = made.storage.section(made.constants)
    laid = made.storage.check(made.constants.size)
    assert kept.size == laid.aside + made.storage.aside.size
    assert sum(end - begin for begin, end, _ in laid.runs) < made.constants.size - 400_000


def test_a_file_of_which_far_too_much_would_be_made_is_refused():
    made = sample()
    [first, *_] = made.storage.recipes
    many = []
    for number in range(200):  # each is possible, and all together are more than 64 times the file
        steps = Derived(np.zeros(first.form.shape, np.float32), Cast("float64")).steps
        many.append(Recipe(number * 2 * first.form.nbytes, 0, first.form, steps, 0))
    size = 200 * 2 * first.form.nbytes
    with pytest.raises(ArtifactError, match="bytes of weights cannot be made of"):
        Storage(tuple(many), np.zeros(first.form.nbytes, np.uint8)).check(size)


def test_copies_and_replaced_parts_keep_how_a_file_has_the_weights():
    made = sample()
    for other in (copy.copy(made), dataclasses.replace(made, provenance={"a": "b"})):
        assert other.storage is made.storage and other.constants is made.constants


def test_only_numpy_is_needed(path, tmp_path):
    code = """
import sys
from rcompiler.runtime.artifact import Artifact
from rcompiler.runtime.container import PAGE
loaded = Artifact.load(sys.argv[1])
assert len(loaded.storage.recipes) == 2
assert not {"torch_mlir", "llvmlite", "onnx", "ml_dtypes"} & set(sys.modules)
"""
    subprocess.run([sys.executable, "-c", code, str(path)], check=True, timeout=60)


def test_an_artifact_with_impossible_recipes_is_not_run():
    made = sample()
    moved = tuple(dataclasses.replace(r, offset=r.offset + (1 << 30)) for r in made.storage.recipes)
    wrong = dataclasses.replace(made, storage=Storage(moved, made.storage.aside))
    with pytest.raises(CompilerError, match="recipe 0 of the weights: it makes more"):
        Executable(wrong)


def test_recipes_that_move_far_more_than_they_make_are_refused():
    """A hundred times the sums of all rows of one source, each of them two numbers."""
    sums = Combine(0, ((1.0,) * 128,))
    w = numbers(128, 64)
    recipes = tuple(
        Recipe(256 * number, 0, Form(w.shape, w.dtype), (sums,), 0) for number in range(1_000)
    )
    laid = Storage(recipes, np.zeros(w.nbytes, np.uint8))
    with pytest.raises(ArtifactError, match="move 33024000 bytes to make 256000"):
        laid.check(256_000)
    Storage(recipes[:8], np.zeros(w.nbytes, np.uint8)).check(256_000)


def test_nobody_writes_to_weights_that_were_made(path):
    weights = Artifact.load(path).constants
    assert not weights.flags.writeable
    with pytest.raises(ValueError, match="cannot set WRITEABLE"):
        weights.setflags(write=True)


def test_weights_that_cannot_be_protected_are_refused(path, monkeypatch):
    def refuse(start, size, protection, what, remedy):
        raise DeviceError(f"{what} (no); {remedy}")

    monkeypatch.setattr(memory, "set_protection", refuse)
    with pytest.raises(DeviceError, match="refuses to protect them"):
        Artifact.load(path)
