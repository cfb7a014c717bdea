"""Each seeded fault is found: pytest -m slow -v test/mutants; the tables, and the list of kills."""

import json

import pytest

from mutants import kills
from mutants.fault import Fault
from mutants.pass_faults import FAULTS as PASS_FAULTS
from mutants.room_faults import FAULTS as ROOM_FAULTS
from mutants.tables import ALL
from mutants.tree import ROOT, Outcome, Tree, Tried
from rcompiler.passes import names

# What has no fault of its own in the table of rooms.
_ELSEWHERE = {
    "passes": "pass_faults has one for each",
    "pipelines": "lists of passes, whose texts lit tests compare whole",
    "tools": "command lines, the built-in models and measurements",
    "viz": "pictures of schedules",
}


def by_name(fault):
    return fault.name


def test_every_pass_has_a_fault():
    assert {fault.name for fault in PASS_FAULTS} == set(names("passes"))


def test_every_room_has_a_fault():
    """A folder of the package, or the modules that lie in none."""
    rooms = {path.parent.name for path in (ROOT / "rcompiler").glob("*/*.py")}
    found = {fault.file.rpartition("/")[0].partition("/")[0] for fault in ROOM_FAULTS}
    assert found == {"", *rooms} - set(_ELSEWHERE)


def test_names_are_different():
    assert len({fault.name for fault in ALL}) == len(ALL)


@pytest.mark.parametrize("fault", ALL, ids=by_name)
def test_the_table_fits_the_sources(fault):
    """One place for each fault; and the checks exist."""
    assert (ROOT / "rcompiler" / fault.file).read_text().count(fault.old) == 1
    path, _, name = fault.check.partition("::")
    assert (
        f"def {name.partition('[')[0]}" in (ROOT / "test" / path).read_text()
        if name
        else (ROOT / "test" / path).exists()
    )


def test_the_record_has_all_of_them():
    """python test/mutants --record --only=NAME tries a new one, and adds it."""
    wanted = [{"name": f.name, "killed": True, "check": f.check} for f in ALL]
    assert kills.read(kills.RECORD) == wanted


A_TREE = {
    "rcompiler/__init__.py": "",
    "rcompiler/a.py": "A = 1\n",
    "test/test_a.py": "from rcompiler.a import A\n\n\ndef test_one():\n    assert A == 1\n"
    "\n\ndef test_any():\n    pass\n\n\ndef test_three():\n    assert A == 3\n",
}


def test_what_becomes_of_a_fault(tmp_path):
    for name, text in A_TREE.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    tree = Tree(tmp_path)
    for check, says, outcome in (
        ("one", "assert 2 == 1", "killed"),
        ("one", "another thing", "otherwise"),
        ("any", "", "survived"),
        ("three", "", "wrong without"),
    ):
        fault = Fault("a", "a.py", "1", "2", f"test_a.py::test_{check}", "result", says)
        assert tree.tried(fault).outcome == outcome
        assert (tmp_path / "rcompiler" / "a.py").read_text() == A_TREE["rcompiler/a.py"]


@pytest.fixture
def two_faults(tmp_path, monkeypatch):
    """A tool that tries nothing: `survivors` are the names that survive."""
    faults = [Fault(n, "a.py", "1", "2", f"test_{n}.py", "result", "") for n in ("one", "two")]
    survivors: set[str] = set()

    class Made(Tree):
        def tried(self, fault):
            outcome: Outcome = "survived" if fault.name in survivors else "killed"
            return Tried(outcome, "1 passed\n\n", 1.25)

    monkeypatch.setattr(kills, "ALL", faults)
    monkeypatch.setattr(kills, "RECORD", tmp_path / "kills.json")
    monkeypatch.setattr(kills.Tree, "copied", lambda folder: Made(folder))
    return survivors


def test_the_list_of_kills(two_faults, tmp_path, capsys):
    listed = tmp_path / "list.json"
    assert kills.main([f"--json={listed}", "--record"]) == 0
    assert json.loads(listed.read_text()) == [
        {"name": name, "killed": True, "check": f"test_{name}.py", "seconds": 1.2}
        for name in ("one", "two")
    ]
    assert [set(kill) for kill in kills.read(kills.RECORD)] == [{"name", "killed", "check"}] * 2
    assert kills.main([f"--against={listed}"]) == 0
    two_faults.add("two")
    capsys.readouterr()
    assert kills.main([f"--against={listed}", "--only=two", "--record"]) == 1
    assert capsys.readouterr().err.splitlines() == [
        "mutants: error: two: its check passes: 1 passed",
        "mutants: error: two: was killed by test_two.py, and is not",
    ]
    assert [kill["killed"] for kill in kills.read(kills.RECORD)] == [True, False]


def test_a_fault_that_left_the_tables_is_named(two_faults, tmp_path, monkeypatch, capsys):
    listed = tmp_path / "list.json"
    kills.main([f"--json={listed}"])
    monkeypatch.setattr(kills, "ALL", kills.ALL[:1])
    assert kills.main([f"--against={listed}", "--only=one"]) == 0
    assert kills.main([f"--against={listed}"]) == 1
    assert "two: was killed by test_two.py, and is in no table" in capsys.readouterr().err


def test_a_name_that_is_in_no_table(two_faults, capsys):
    with pytest.raises(SystemExit):
        kills.main(["--only=three"])
    assert "no fault has a name that 'three' matches" in capsys.readouterr().err


@pytest.fixture(scope="module")
def copy(tmp_path_factory):
    return Tree.copied(tmp_path_factory.mktemp("tree"))


@pytest.mark.slow
@pytest.mark.parametrize("fault", ALL, ids=by_name)
def test_the_fault_is_found(fault, copy):
    tried = copy.tried(fault)
    assert tried.outcome == "killed", f"{fault.check}: {tried.outcome}\n{tried.output}"
