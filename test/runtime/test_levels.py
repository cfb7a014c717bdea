"""runtime/levels.py: one file for several CPUs, of which the best that runs is taken."""

import dataclasses
from pathlib import Path

import numpy as np
import pytest
import small_models as sm
from artifact_loads import LOADS

from rcompiler.device.host_flags import LEVEL_FLAGS, host_flags
from rcompiler.errors import ArtifactError
from rcompiler.passes.constants.storing import storage_of
from rcompiler.runtime import container
from rcompiler.runtime.artifact import Artifact, together
from rcompiler.runtime.deferred import write
from rcompiler.runtime.executable import Executable
from rcompiler.runtime.levels import MOST_LEVELS
from rcompiler.runtime.recipes import Derived, Permute, Reshape

X = np.linspace(-3, 3, sm.N, dtype=np.float32)
OTHER_WEIGHTS = sm.WEIGHTS[::-1].copy()
FLAGS = {
    "x86-64": ("sse", "sse2"),
    "x86-64-v3": ("avx2", "sse", "sse2"),
    "x86-64-v4": ("avx2", "avx512f", "sse", "sse2"),
    "x86-64-v4+amx": ("amx_int8", "amx_tile", "avx2", "avx512f", "sse", "sse2"),
}


def level(target: str, **more) -> Artifact:
    """It says that it needs so much; its code runs everywhere."""
    stages = {"linalg": "module {}\n" * 500, "vdevice": f"module {{}} // {target}\n"}
    facts = {"cpu_flags": FLAGS.get(target, ()), "stages": stages, **more}
    return sm.artifact([sm.two_steps(2)], target=target, **facts)


def several() -> list[Artifact]:
    return [level("x86-64", constants=OTHER_WEIGHTS), *map(level, [*FLAGS][1:])]


@pytest.fixture
def here(monkeypatch):
    """Says which flags the host has."""

    def has(*flags: str, tiles: str | None = None) -> None:
        monkeypatch.setattr("rcompiler.runtime.cpu_needs.host_flags", lambda: frozenset(flags))
        monkeypatch.setattr("rcompiler.runtime.cpu_needs.request_tiles", lambda: tiles)

    return has


@pytest.fixture
def file(tmp_path) -> Path:
    together(several()).save(tmp_path / "m.rcx")
    return tmp_path / "m.rcx"


@pytest.mark.parametrize("load", LOADS.values(), ids=LOADS)
@pytest.mark.parametrize("target", FLAGS)
def test_the_best_level_that_the_host_has_is_taken(here, file, target, load):
    here(*FLAGS[target], "abm")
    artifact = load(file)
    assert artifact.target == target
    [alone] = [each for each in several() if each.target == target]
    assert artifact.certificate == alone.certificate
    assert artifact.stage("vdevice") == f"module {{}} // {target}\n"
    assert [each.target for each in artifact.levels] == [*FLAGS][::-1]
    weights = OTHER_WEIGHTS if target == "x86-64" else sm.WEIGHTS
    assert artifact.constants.tobytes() == weights.tobytes()
    assert np.array_equal(Executable(artifact)(X)[0], 2 * X * weights)


def test_without_the_permission_for_tiles_the_next_one_is_taken(here, file):
    here(*FLAGS["x86-64-v4+amx"], tiles="Operation not permitted")
    assert Artifact.load(file).target == "x86-64-v4"
    assert Executable(Artifact.load(file)).artifact.target == "x86-64-v4"


def test_where_none_runs_each_says_what_it_needs(here, tmp_path):
    here("sse", "sse2", "avx512f", *FLAGS["x86-64-v4+amx"][:2])
    together([level("x86-64-v3"), level("x86-64-v4+amx")]).save(tmp_path / "m.rcx")
    artifact = Artifact.load(tmp_path / "m.rcx")
    assert artifact.target == "x86-64-v4+amx"  # to be looked at
    with pytest.raises(ArtifactError) as raised:
        Executable(artifact)
    assert str(raised.value) == (
        "this machine runs none of the 2 levels of the model: x86-64-v4+amx needs avx2, which this "
        "CPU lacks; x86-64-v3 needs avx2, which this CPU lacks; compile the model on this machine, "
        "or for target cpu:x86-64, too"
    )


def test_where_linux_is_in_the_way_of_all_it_is_said(here):
    here(*FLAGS["x86-64-v4+amx"], tiles="Operation not permitted")
    tiles = FLAGS["x86-64-v4+amx"]
    whole = together([level("x86-64-v4+amx"), level("other", cpu_flags=(*tiles, "sse3"))])
    with pytest.raises(ArtifactError, match="other needs sse3, .*; x86-64-v4[+]amx needs tile reg"):
        Executable(whole)
    with pytest.raises(ArtifactError, match="does not give this process .Operation not permitted."):
        Executable(whole)


def test_equal_levels_give_equal_bytes_and_so_does_saving_again(here, tmp_path):
    here(*FLAGS["x86-64-v3"])
    whole = together(several())
    whole.save(tmp_path / "a.rcx")
    together(several()[::-1]).save(tmp_path / "b.rcx")
    Artifact.load(tmp_path / "a.rcx").save(tmp_path / "c.rcx")
    assert Artifact.load(tmp_path / "a.rcx").to_bytes() == whole.to_bytes()
    here(*FLAGS["x86-64"])  # whichever is taken
    Artifact.load(tmp_path / "a.rcx", mapped=False).save(tmp_path / "d.rcx")
    assert len({(tmp_path / f"{name}.rcx").read_bytes() for name in "abcd"}) == 1


def test_one_level_is_a_file_as_ever(tmp_path):
    one = level("x86-64")
    assert together([one]) is one and one.levels == one.others == ()
    one.save(tmp_path / "m.rcx")
    assert "levels" not in container.read(tmp_path / "m.rcx")[0]


def test_what_is_equal_is_there_once(file):
    header, sections = container.read(file)
    places = [entry["sections"] for entry in header["levels"]]
    # best first; the last has weights of its own
    assert [each["weights"] for each in places] == ["0 weights"] * 3 + ["3 weights"]
    assert len({each["stage:linalg"] for each in places}) == 1
    assert len({each["stage:vdevice"] for each in places}) == 4
    assert len({each["tables"] for each in places}) == 1
    assert {place for each in places for place in each.values()} == {*sections}


def test_damage_of_any_byte_is_found(here, file):
    """Also of a level that is not taken."""
    here(*FLAGS["x86-64"])
    good = file.read_bytes()
    size = int.from_bytes(good[8:16], "little")
    for position in [*range(64), *range(64, 64 + size, 97), *range(64 + size, len(good), 197)]:
        file.write_bytes(good[:position] + bytes([good[position] ^ 4]) + good[position + 1 :])
        with pytest.raises(ArtifactError, match="m.rcx: "):
            Artifact.load(file)


def rewritten(file: Path, change) -> None:
    """A file whose hashes are right again. change: of the entries of levels, and the sections."""
    header, sections = container.read(file)
    header.pop("sections")
    sections = {name: np.array(data) for name, data in sections.items()}
    header["levels"] = change(header["levels"], sections) or header["levels"]
    container.write(file, header, dict(sorted(sections.items())))


def entry(number: int, **changed):
    return lambda levels, _: levels[number].update(changed)


WRONG = {
    "no list": lambda levels, _: {"0": levels[0]},
    "a number": lambda levels, _: 3,
    "an entry that is none": lambda levels, _: [1, *levels],
    "an entry without a header": lambda levels, _: levels[1].pop("header") and None,
    "an entry without sections": lambda levels, _: levels[1].pop("sections") and None,
    "a header that is none": entry(1, header=[]),
    "sections that are none": entry(1, sections=["0 code"]),
    "levels inside of a level": lambda levels, _: levels[0]["header"].update(levels=levels[1:]),
    "a section that is not there": lambda levels, _: levels[1]["sections"].update(code="9 code"),
    "a place that is no name": lambda levels, _: levels[1]["sections"].update(code=["0 code"]),
    "a level without code": lambda levels, _: levels[1]["sections"].pop("code") and None,
    "code that is none": lambda levels, _: levels[1]["sections"].update(code="0 weights"),
    "a section of no level": lambda _, sections: sections.update(more=np.zeros(8, np.uint8)),
    "a level twice too often": lambda levels, _: levels * MOST_LEVELS,
    "a level without inputs": lambda levels, _: levels[3]["header"].pop("inputs") and None,
}


@pytest.mark.parametrize("change", WRONG.values(), ids=WRONG)
def test_levels_that_are_none_are_refused(here, file, change):
    here(*FLAGS["x86-64-v4"])
    rewritten(file, change)
    with pytest.raises(ArtifactError, match="m.rcx: the header is damaged or cut off"):
        Artifact.load(file)


def test_levels_of_different_models_are_refused(here, file):
    here(*FLAGS["x86-64"])
    rewritten(file, lambda levels, _: levels[2]["header"].update(inputs=[["x", [3], "float32"]]))
    with pytest.raises(ArtifactError, match="m.rcx: artifact: its levels have different inputs"):
        Artifact.load(file)
    other = dataclasses.replace(level("x86-64-v3"), outputs=(sm.X,))
    with pytest.raises(ArtifactError, match="different inputs or outputs"):
        together([level("x86-64"), other])


def test_no_levels_are_refused(tmp_path):
    container.write(tmp_path / "m.rcx", {"levels": []}, {})
    with pytest.raises(ArtifactError, match="m.rcx: the header is damaged or cut off"):
        Artifact.load(tmp_path / "m.rcx")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda level: level["header"].update(certificate="0" * 64), "the certificate is not of"),
        (lambda level: level["sections"].update(weights="3 weights"), "the certificate is not of"),
        (lambda level: level["header"].update(arena_bytes=-5), "the certificate is not of"),
        (lambda level: level["header"].update(arena_bytes="5"), "the header is damaged"),
        (lambda level: level["sections"].update(tables="0 code"), "the header is damaged"),
    ],
)
def test_the_level_that_is_taken_is_checked_as_a_file_of_its_own(here, file, change, message):
    here(*FLAGS["x86-64-v3"])
    rewritten(file, lambda levels, _: change(levels[2]))
    with pytest.raises(ArtifactError, match=f"m.rcx: {message}"):
        Artifact.load(file)
    here(*FLAGS["x86-64-v4"])
    assert Artifact.load(file).target == "x86-64-v4"


def test_too_many_levels_are_not_written():
    many = [level(f"t{n}") for n in range(MOST_LEVELS + 1)]
    with pytest.raises(ArtifactError, match=f"{MOST_LEVELS + 1} levels; give at most"):
        together(many)


@pytest.mark.parametrize("cap", ["v4", "v3", "x86-64"])
def test_the_flags_are_those_of_the_host(monkeypatch, tmp_path, cap):
    """As it counts now."""
    made = [level(name, cpu_flags=tuple(sorted(flags))) for name, flags in LEVEL_FLAGS.items()]
    together(made).save(tmp_path / "m.rcx")
    monkeypatch.setenv("RC_HOST_LEVEL", cap)
    best = next(name for name in LEVEL_FLAGS if LEVEL_FLAGS[name] <= host_flags())
    assert Artifact.load(tmp_path / "m.rcx").target == best


# -- weights of which a load makes some

SOURCE = np.arange(4 * sm.N, dtype=np.float32)
OTHER = np.arange(4 * sm.N, dtype=np.float32) + 5


def made_level(target: str, *steps, sources=(SOURCE, OTHER)) -> Artifact:
    """The weights of `sm`, and what the steps make of each source."""
    placed = {0: sm.WEIGHTS}
    for source in sources:
        end = max(placed) + placed[max(placed)].nbytes
        placed[end] = Derived(source, *steps)
    weights = np.zeros(max(placed) + placed[max(placed)].nbytes, np.uint8)
    for offset, array in placed.items():
        part = weights[offset : offset + array.nbytes].view(np.float32)
        write(array, part.reshape(array.shape))
    storage = storage_of(placed, weights, sources=True)
    return level(target, constants=weights, storage=storage)


@pytest.fixture
def small(monkeypatch):
    """Constants count as large from so many bytes on."""
    monkeypatch.setattr("rcompiler.passes.constants.storing._LEAST", 1024)


def turned(rows: int) -> tuple:
    return Reshape((rows, 4 * sm.N // rows)), Permute((1, 0))


def test_levels_share_what_they_make_their_weights_of(small, here, tmp_path):
    levels = [
        made_level("x86-64", *turned(4)),
        made_level("x86-64-v3", *turned(8)),
        made_level("x86-64-v4", sources=(OTHER, SOURCE)),  # as they are, in another order
    ]
    whole = together(levels)
    whole.save(tmp_path / "m.rcx")
    header, sections = container.read(tmp_path / "m.rcx")
    weights = [entry["sections"]["weights"] for entry in header["levels"]]
    assert [len(each) for each in weights] == [3, 3, 3]
    assert weights[0] == ["0 weights 0", "0 weights 1", "0 weights 2"]
    assert weights[1] == weights[2] == ["0 weights 0", "0 weights 2", "0 weights 1"]
    kept = sum(data.size for name, data in sections.items() if " weights" in name)
    assert kept == sm.WEIGHTS.nbytes + SOURCE.nbytes + OTHER.nbytes
    for load in LOADS.values():
        for made in levels:
            here(*made.cpu_flags)
            loaded = load(tmp_path / "m.rcx")
            assert loaded.target == made.target
            assert loaded.constants.tobytes() == made.constants.tobytes()
            assert loaded.certificate == made.certificate
            assert loaded.to_bytes() == (tmp_path / "m.rcx").read_bytes()
            assert np.array_equal(Executable(loaded)(X)[0], sm.expected(X))


def test_equal_sources_of_a_level_are_both_there(small, here, tmp_path):
    """So a list of sections names none twice, and no file makes more than it has."""
    twice = made_level("x86-64", *turned(4), sources=(SOURCE, SOURCE.copy()))
    together([twice, made_level("x86-64-v3", *turned(4))]).save(tmp_path / "m.rcx")
    header, _ = container.read(tmp_path / "m.rcx")
    first, last = (entry["sections"]["weights"] for entry in header["levels"])
    assert len({*last}) == 3 and len({*first} & {*last}) == 2
    here(*twice.cpu_flags)
    assert Artifact.load(tmp_path / "m.rcx").constants.tobytes() == twice.constants.tobytes()


@pytest.mark.parametrize(
    "change",
    [
        lambda level: level["sections"]["weights"].append(level["sections"]["weights"][0]),
        lambda level: level["sections"].update(weights=[]),
        lambda level: level["sections"].update(code=[level["sections"]["code"]]),
        lambda level: level["sections"]["weights"].append(3),
        lambda level: level["sections"]["weights"].append("9 weights"),
        lambda level: level["header"].pop("weights"),
        lambda level: level["header"].update(weights=1),
    ],
)
def test_pieces_that_are_none_are_refused(small, here, tmp_path, change):
    both = made_level("x86-64", *turned(4)), made_level("x86-64-v3", *turned(8))
    together(both).save(tmp_path / "m.rcx")
    here(*FLAGS["x86-64"])
    rewritten(tmp_path / "m.rcx", lambda levels, _: change(levels[1]) and None)
    with pytest.raises(ArtifactError, match="m.rcx: the header is damaged or cut off"):
        Artifact.load(tmp_path / "m.rcx")


def test_pieces_whose_hash_nobody_has_are_refused_also_where_they_are_not_taken(
    small, here, tmp_path
):
    both = made_level("x86-64", *turned(4)), made_level("x86-64-v3", *turned(8))
    together(both).save(tmp_path / "m.rcx")
    here(*FLAGS["x86-64"])
    rewritten(tmp_path / "m.rcx", lambda levels, _: levels[0]["header"].pop("weights") and None)
    with pytest.raises(ArtifactError, match="m.rcx: the header is damaged or cut off"):
        Artifact.load(tmp_path / "m.rcx")


@pytest.mark.parametrize("full", [False, True])
def test_pieces_in_another_order_make_other_weights(small, here, tmp_path, full):
    both = made_level("x86-64", *turned(4)), made_level("x86-64-v3", *turned(8))
    together(both).save(tmp_path / "m.rcx")
    here(*FLAGS["x86-64"])
    rewritten(tmp_path / "m.rcx", lambda levels, _: levels[1]["sections"]["weights"].reverse())
    with pytest.raises(ArtifactError, match="m.rcx: artifact: "):
        Artifact.load(tmp_path / "m.rcx", full=full)
