"""The key of a unit changes with each thing that may change what it finds, and with no other."""

import dataclasses
import os

import pytest

from check import environment as environments
from check.environment import Environment, machine, variables
from check.keys import Keys
from check.passed import Passed
from check.steps import STEPS, Step
from check.tree import Tree

FILES = {
    "pyproject.toml": "",
    ".ci/run": "",
    "README.md": "",
    "rcompiler/__init__.py": "",
    "rcompiler/roller.py": "",
    "rcompiler/rammer.py": "",
    "test/conftest.py": "",
    "test/unit/test_roller.py": "from rcompiler.roller import tile\n",
    "test/unit/test_rammer.py": "import cases\n",
    "test/unit/cases.py": "from rcompiler.rammer import graph\n",
    "test/unit/shapes.txt": "",
    "test/support/turns.py": "from rcompiler.tools._record import commit\n",
    "test/e2e/test_turns.py": "from turns import in_turn\n",
    "test/check/runner.py": "",
    "test/check/test_runner.py": "",
    "test/passes/form.mlir": "",
}
ROLLER, RAMMER, TURNS = (
    "test/unit/test_roller.py",
    "test/unit/test_rammer.py",
    "test/e2e/test_turns.py",
)
COMMIT = "1" * 40


@pytest.fixture
def fixed(tmp_path, monkeypatch):
    """The tree on a machine that stays the same."""
    root = tmp_path / "checkout"
    for name, text in FILES.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    monkeypatch.setattr(environments, "machine", lambda: ["a CPU"])
    monkeypatch.setattr(environments, "variables", lambda: [])
    hashes = {name: f"hash of {name}" for name in FILES}
    (tmp_path / "home").mkdir()
    return Tree(root, hashes, COMMIT), Environment(tmp_path / "home", "python3")


def keys(fixed, changed="", commit=COMMIT, turns=""):
    tree, environment = fixed
    hashes = {**tree.hashes, **({changed: "another"} if changed else {})}
    tree = Tree(tree.root, hashes, commit)
    made = Keys(tree, environment, {"RC_TURNS": turns})
    return {file: made.of_tests(file) for file in (ROLLER, RAMMER, TURNS)}


def differing(fixed, **changes):
    before, now = keys(fixed), keys(fixed, **changes)
    return {file for file in before if before[file] != now[file]}


@pytest.mark.parametrize(
    ("changed", "files"),
    [
        ("pyproject.toml", {ROLLER, RAMMER, TURNS}),
        (".ci/run", {ROLLER, RAMMER, TURNS}),
        ("test/conftest.py", {ROLLER, RAMMER, TURNS}),
        ("test/check/runner.py", {ROLLER, RAMMER, TURNS}),
        ("test/check/test_runner.py", set()),
        ("README.md", set()),
        ("rcompiler/__init__.py", {ROLLER, RAMMER, TURNS}),
        ("rcompiler/roller.py", {ROLLER}),
        ("rcompiler/rammer.py", {RAMMER}),
        ("test/unit/cases.py", {RAMMER}),
        ("test/unit/shapes.txt", {ROLLER, RAMMER}),
        ("test/support/turns.py", {TURNS}),
        (ROLLER, {ROLLER}),
    ],
)
def test_a_file_changes_the_keys_of_those_that_may_read_it(fixed, changed, files):
    assert differing(fixed, changed=changed) == files


def test_the_commit_counts_where_turns_are_taken(fixed):
    assert differing(fixed, commit="2" * 40) == {TURNS}
    assert differing(fixed, turns="all") == {TURNS}


@pytest.mark.parametrize("name", ["machine", "variables"])
def test_the_machine_counts(fixed, monkeypatch, name):
    before = keys(fixed)
    monkeypatch.setattr(environments, name, lambda: ["another"])
    assert not {*before.values()} & {*keys(fixed).values()}


def test_packages_count(fixed):
    before = keys(fixed)
    folder = fixed[1].home / "venv" / "lib" / "python3.11" / "site-packages"
    (folder / "rcompiler-0.1.0.dist-info").mkdir(parents=True)
    assert keys(fixed) == before  # its files count
    (folder / "numpy-2.1.dist-info").mkdir()
    assert not {*before.values()} & {*keys(fixed).values()}


def test_without_git_nothing_has_a_key(fixed):
    assert {*keys(fixed, commit=None).values()} == {None}


def test_steps(fixed):
    tree, environment = fixed
    steps = {each.name: each for each in STEPS}

    def of(name, changed=""):
        hashes = {**tree.hashes, **({changed: "another"} if changed else {})}
        return Keys(Tree(tree.root, hashes, COMMIT), environment, {}).of_step(steps[name])

    always = ("ruff", "mypy", "sweep", "operators", "interpret", "peers")
    assert [of(name) for name in always] == [None] * 6
    for name in ("lit", "conformance", "replay", "fuzz"):
        assert of(name, "rcompiler/roller.py") != of(name)
        assert of(name, "README.md") == of(name)
    assert of("lit", "test/passes/form.mlir") != of("lit") != of("lit", "test/unit/cases.py")
    assert of("lit", ROLLER) == of("lit")
    assert of("conformance", "test/passes/form.mlir") == of("conformance")


def test_a_step_reads_what_its_entries_import(fixed):
    tree, environment = fixed
    step = Step("one", "python it", reads=("README.md",), entries=("test/unit/cases.py",))

    def of(changed, step=step):
        hashes = {**tree.hashes, changed: "another"}
        return Keys(Tree(tree.root, hashes, COMMIT), environment, {}).of_step(step)

    assert of("README.md") != of("rcompiler/rammer.py") != of("rcompiler/roller.py")
    assert of(".ci/run") != of("rcompiler/roller.py")
    assert of("rcompiler/roller.py") != of(
        "rcompiler/roller.py", dataclasses.replace(step, command="x")
    )


def test_what_is_asked_of_this_machine():
    assert any("flags" in line or "model" in line for line in machine())
    given = {
        "RC_HOST_LEVEL": "v3",
        "HOME": "/",
        "RC_CACHE_DIR": "x",
        "RC_TURNS": "all",
        "TZ": "UTC",
    }
    assert variables(given) == ["RC_HOST_LEVEL=v3", "TZ=UTC"]


def test_steps_find_the_environment_first(tmp_path):
    given = {"PATH": "/bin", "PYTHONPATH": "x", "PYTHONDONTWRITEBYTECODE": "1", "RC_EUS": "2"}
    assert Environment(tmp_path).variables(given) == {
        "RC_CACHE_DIR": f"{tmp_path}/objects",
        "RC_CACHE_MODELS": "0",
        "RC_EUS": "2",
        "PATH": f"{tmp_path}/venv/bin:/bin",
    }
    assert Environment(tmp_path).variables({**given, "RC_CACHE_DIR": ""})["RC_CACHE_DIR"] == ""


def test_the_environment_is_made_anew_only_for_other_packages(fixed):
    tree, environment = fixed
    made = []

    def run(name, command):
        made.append(name)
        (environment.home / "venv").mkdir(exist_ok=True)

    def names(tree):
        made.clear()
        environment.make(tree, run)
        return made[:]

    assert names(tree) == ["environment", "packages"]
    assert names(tree) == [] and environment.package(tree) is None
    (tree.root / "build" / "lib").mkdir(parents=True)
    other = Tree(tree.root, {**tree.hashes, "rcompiler/roller.py": "another"}, COMMIT)
    assert names(other) == []
    assert environment.package(other).needed and not (tree.root / "build" / "lib").exists()
    assert environment.package(tree), "it may be half installed"
    environment.has_package(other)
    assert environment.package(other) is None
    assert environment.package(Tree(tree.root, {**other.hashes, "x.md": ""}, COMMIT)) is None
    (tree.root / "pyproject.toml").write_text("[project]")
    assert names(other) == ["environment", "packages"]


def test_an_installation_that_fails_is_made_again(fixed):
    tree, environment = fixed

    def run(name, command):
        (environment.home / "venv").mkdir(exist_ok=True)
        if name == "packages":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        environment.make(tree, run)
    with pytest.raises(KeyboardInterrupt):
        environment.make(tree, run)


def test_the_oldest_objects_go(tmp_path):
    environment = Environment(tmp_path)
    environment.trim()
    (tmp_path / "objects" / "inside").mkdir(parents=True)
    for number in range(4):
        path = tmp_path / "objects" / "inside" / f"{number}.o"
        path.write_bytes(bytes(10))
        os.utime(path, (number, number))
    environment.trim(25)
    assert sorted(path.name for path in tmp_path.rglob("*.o")) == ["2.o", "3.o"]


def test_what_passed_is_kept_for_a_few_contents(tmp_path):
    path = tmp_path / "passed.json"
    record = Passed(path)
    for number in range(20):
        record.add("lit", f"key {number}", f"commit {number}")
    record.add("replay", "key", "commit")
    record.write()
    again = Passed(path)
    assert [again.commit("lit", f"key {n}") for n in (11, 12, 19)] == [
        None,
        "commit 12",
        "commit 19",
    ]
    again.remove("lit", "key 19")
    assert again.commit("lit", "key 19") is None and again.commit("replay", "key") == "commit"


@pytest.mark.parametrize("text", ["", "{", "[]", '{"lit": []}', '{"lit": {"key": 1}}', "\0"])
def test_a_damaged_record_is_none(tmp_path, text):
    (tmp_path / "passed.json").write_text(text)
    record = Passed(tmp_path / "passed.json")
    assert record.commit("lit", "key") is None
    record.add("lit", "key", "commit")
    record.write()
    assert Passed(tmp_path / "passed.json").commit("lit", "key") == "commit"


def test_a_record_that_cannot_be_written_is_a_warning(tmp_path, capsys):
    record = Passed(tmp_path / "gone" / "passed.json")
    record.add("lit", "key", "commit")
    record.write()
    assert "warning: what has passed is not kept" in capsys.readouterr().out
