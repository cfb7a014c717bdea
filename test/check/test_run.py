"""A run: its steps, what pytest is given, the lines at its end, and its exit status."""

import re
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from check import report, runner, suite
from check.environment import Environment
from check.lanes import Done, Lanes
from check.steps import STEPS, Step
from check.tree import Tree

PYTHON = sys.executable
COMMIT = "1" * 40


def test_steps_run_in_order_and_all_of_them(tmp_path, capsys):
    steps = (
        Step("first", f"{PYTHON} -c 'print(1); raise SystemExit(3)'"),
        Step("apart", f"{PYTHON} -c 'print(2)'", beside=True),
        Step("second", f"{PYTHON} -c 'import sys; print(sys.argv[1])' {{home}}/x"),
        Step("none", "no-such-program"),
    )
    done = {each.name: each for each in Lanes(tmp_path, tmp_path, {"PATH": "/bin"}).run(steps)}
    assert {name: each.status for name, each in done.items()} == {
        **{"first": 3, "apart": 0, "second": 0, "none": 127},
    }
    assert done["first"].cpu > 0 and done["first"].seconds > 0
    out = capsys.readouterr().out
    assert re.search(r"^== first: FAILED with exit status 3, \d+ s\n1$", out, re.M)
    assert f"{tmp_path}/x\n" in out and "no-such-program cannot be run" in out
    assert out.index("== first") < out.index("-- second")


TREE = Tree(
    root=Path(),
    hashes=dict.fromkeys(
        ("test/unit/test_a.py", "test/unit/b_test.py", "test/e2e/test_c.py", "test/unit/helper.py",
         "test/unit/Inputs/test_d.py", "test/x.mlir", "tools/test_e.py"), ""
    ),
    commit=COMMIT,
)  # fmt: skip


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ([], ["test/e2e/test_c.py", "test/unit/b_test.py", "test/unit/test_a.py"]),
        (["test/unit"], ["test/unit/b_test.py", "test/unit/test_a.py"]),
        (["./test/e2e/", "test/unit/test_a.py"], ["test/e2e/test_c.py", "test/unit/test_a.py"]),
        (["test/unit/test_a.py::test_one"], ["test/unit/test_a.py::test_one"]),
        (["test/unit::test_one"], None),
        (["test/unit", "-k", "a"], None),
        (["test/nothing"], None),
    ],
)
def test_files_of_tests_are_known_where_arguments_name_nothing_else(arguments, expected):
    assert suite.chosen(TREE, arguments) == expected


FILES = {
    "test_good.py": "import pytest\ndef test_a(): pass\n"
    "@pytest.mark.xfail\ndef test_x(): assert 0\n",
    "test_bad.py": "def test_a(): pass\ndef test_b(): assert 0\n",
    "test_skips.py": "import pytest\ndef test_a(): pytest.skip('no GPU')\ndef test_b(): pass\n",
    "test_module.py": "import pytest\npytest.importorskip('no_such_module')\n",
    "test_broken.py": "import no_such_module\n",
    "test_ends_badly.py": "import pytest\n@pytest.fixture\ndef f():\n    yield\n    assert 0\n"
    "def test_a(f): pass\n",
}


@pytest.mark.parametrize("workers", ["-n0", "-n1"])
def test_what_became_of_each_file(tmp_path, workers, capfdbinary, monkeypatch):
    """On this interpreter, with the plugin that counts."""
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    monkeypatch.setattr(suite, "COMMAND", (PYTHON, *suite.COMMAND[1:]))
    arguments = ["--continue-on-collection-errors", workers, *FILES]
    found = suite.run(arguments, tmp_path, tmp_path, {})
    assert [each.status for each in found.done] == [1]
    assert found.complete == {"test_good.py"}
    assert found.counts == {"passed": 4, "failed": 3, "skipped": 2}
    assert found.seconds.keys() == FILES.keys()
    assert (tmp_path / "pytest.log").read_bytes() == capfdbinary.readouterr().out
    [done] = suite.run([workers, "test_good.py"], tmp_path, tmp_path, {}).done
    assert done.status == 0


def test_pytest_that_cannot_begin(tmp_path, monkeypatch):
    monkeypatch.setattr(suite, "COMMAND", (PYTHON, *suite.COMMAND[1:]))
    found = suite.run(["--no-such-option"], tmp_path, tmp_path, {})
    assert [each.status for each in found.done] == [4]
    assert not found.counts and not found.complete


@pytest.mark.parametrize(
    ("cpu", "expected"), [(6.0, [1.0, 5.0]), (3.0, [0.5, 2.5]), (9.0, [1.0, 5.0])]
)
def test_seconds_of_a_busy_machine_are_those_of_cpus(cpu, expected):
    outcome = suite.Outcome((Done("pytest", 0, 60.0, cpu),), {}, {"a.py": 1.0, "b.py": 5.0})
    assert [*outcome.cpu_seconds().values()] == expected
    assert suite.Outcome().cpu_seconds() == {}


def test_the_lines_at_the_end():
    done = [Done("lit", 0, 70.4, 120.0), Done("mypy", 1, 8.0, 8.0)]
    unchanged = {"replay": COMMIT, "test/unit/test_a.py": COMMIT, "test/unit/test_b.py": COMMIT}
    lines = report.lines(done, unchanged, {"a.py": 1.0, "b.py": 2.0}, 80.0)
    assert lines[2:5] == [
        "     70       120  lit",
        "      8         8  mypy  FAILED with exit status 1",
        "     80       128  all",
    ]
    assert lines[7:9] == ["    2.0  b.py", "    1.0  a.py"]
    assert lines[-2:] == [
        "on 111111111111: replay",
        "on 111111111111: test/unit: test_a.py test_b.py",
    ]


@pytest.mark.parametrize(
    ("statuses", "counts", "expected"),
    [
        ({"lit": 0, "pytest": 0}, {"passed": 5}, "5 passed, 0 failed"),
        ({"pytest": 1}, {"passed": 5, "failed": 2, "skipped": 3}, "5 passed, 2 failed, 3 skipped"),
        ({"lit": 1, "pytest": 1}, {"passed": 5, "failed": 2}, "5 passed, 3 failed"),
        ({"lit": 1, "pytest": 0}, {"passed": 5}, "5 passed, 1 failed"),
        ({"lit": 0, "pytest": 3}, {"passed": 5}, "5 passed, 1 failed"),
        ({"lit": 0, "pytest": 4}, {}, "1 passed, 1 failed"),
        ({"lit": 0}, {}, "1 passed, 0 failed"),
    ],
)  # fmt: skip
def test_the_last_line_counts(statuses, counts, expected):
    done = [Done(name, status, 1.0, 1.0) for name, status in statuses.items()]
    lines = report.closing(done, counts, {})
    assert lines[-1] == expected
    bad = [name for name, status in statuses.items() if status]
    assert lines[:-1] == ([f"failed: {', '.join(bad)}"] if bad else [])


@pytest.fixture
def checkout(tmp_path, monkeypatch):
    """A run of two steps and two files of tests in an environment that is made: what it printed."""
    root, home = tmp_path / "checkout", tmp_path / "home"
    files = {
        "pyproject.toml": "",
        "rcompiler/__init__.py": "",
        "rcompiler/roller.py": "",
        "test/unit/test_roller.py": "from rcompiler.roller import tile\n",
        "test/unit/test_other.py": "",
    }
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    home.mkdir()
    for name in ("make", "package"):
        monkeypatch.setattr(Environment, name, lambda *arguments: None)
    ok = "python -c pass"
    steps = (Step("style", ok, beside=True), Step("lit", ok, reads=("rcompiler/*",)))
    monkeypatch.setattr(runner, "STEPS", steps)
    hashes: dict[str, str] = dict.fromkeys(files, "1")
    now = SimpleNamespace(hashes=hashes, commit=COMMIT, status=0, meanwhile={})

    def read(root=root):
        return Tree(root, dict(now.hashes), now.commit)

    def lanes(self, steps):
        return [Done(step.name, now.status, 1.0, 1.0) for step in steps]

    def tests(arguments, *places):
        files, now.hashes = [*arguments], now.hashes | now.meanwhile
        done = (Done("pytest", now.status, 1.0, 1.0),)
        complete = frozenset(files if not now.status else ())
        return suite.Outcome(done, {"passed": 1}, dict.fromkeys(files, 1.0), complete)

    monkeypatch.setattr(runner, "read", read)
    monkeypatch.setattr(runner.Lanes, "run", lanes)
    monkeypatch.setattr(runner.suite, "run", tests)
    monkeypatch.setenv("RC_CHECK_CACHE", str(home))
    return now


def units(out):
    """The units that were not run, and those that were."""
    _, _, unchanged = out.partition("== not run")
    skipped = {w for line in unchanged.splitlines() if line.startswith("on ") for w in line.split()}
    begun = [line for line in out.splitlines() if line.startswith("-- pytest: ")]
    ran = {path.split("/")[-1] for path in (begun[0].split()[2:] if begun else [])}
    return skipped & {"lit", "style", "test_roller.py", "test_other.py"}, ran


def test_what_passed_is_not_run_again_until_it_changes(checkout, capsys):
    def run(*arguments):
        status = runner.main(arguments)
        out = capsys.readouterr().out
        assert out.splitlines()[-1].endswith((" passed, 0 failed", " failed"))
        return status, *units(out)

    both = {"test_roller.py", "test_other.py"}
    assert run() == (0, set(), both)
    assert run() == (0, {"lit", *both}, set())
    assert run("--all") == (0, set(), both)
    checkout.hashes["rcompiler/roller.py"] = "2"
    assert run() == (0, {"test_other.py"}, {"test_roller.py"})
    checkout.hashes["rcompiler/roller.py"] = "1"
    assert run() == (0, {"lit", *both}, set())
    assert run("test/unit/test_other.py", "-q") == (0, {"lit"}, {"test_other.py", "-q"})
    checkout.commit = None
    assert run() == (0, set(), both)


def test_what_failed_runs_again(checkout, capsys):
    checkout.status = 1
    assert runner.main([]) == 1
    assert runner.main([]) == 1
    assert "failed: style, lit, pytest\n1 passed, 3 failed\n" in capsys.readouterr().out
    checkout.status = 0
    capsys.readouterr()
    assert runner.main([]) == 0
    assert units(capsys.readouterr().out) == (set(), {"test_roller.py", "test_other.py"})


def test_what_changed_meanwhile_did_not_pass(checkout, capsys):
    checkout.meanwhile = {"rcompiler/roller.py": "2"}
    assert runner.main([]) == 0
    checkout.meanwhile, checkout.hashes["rcompiler/roller.py"] = {}, "1"
    capsys.readouterr()
    assert runner.main([]) == 0
    assert units(capsys.readouterr().out)[1] == {"test_roller.py", "test_other.py"}


def test_some_of_the_steps(checkout, capsys):
    assert runner.main(["--only=lit"]) == 0
    out = capsys.readouterr().out
    assert "style" not in out and "-- pytest" not in out
    assert out.endswith("\n2 passed, 0 failed\n")  # with the making of the environment
    with pytest.raises(SystemExit):
        runner.main(["--only=litt"])
    assert "no step is called 'litt'" in capsys.readouterr().err


def test_the_names_of_steps_differ():
    names = [step.name for step in STEPS]
    assert len({*names, runner.PYTEST}) == len(names) + 1
