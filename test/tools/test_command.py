"""What all programs have in common, and what runs those that are not installed."""

import argparse
import sys
from pathlib import Path

import measurements
import oracles
import pytest

from rcompiler.errors import CompilerError
from rcompiler.tools._command import Command, Misused, run_one_of


def options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("names", nargs="*")
    parser.add_argument("--json")
    parser.add_argument("--twice", action="store_true")


def work(given: argparse.Namespace) -> int:
    if given.twice:
        raise Misused("--twice goes with nothing")
    if "bad" in given.names:
        raise CompilerError("bad is not good")
    return len(given.names)


TEXT = """prog: do a thing
that takes two lines.

And more.
"""
PROG = Command("some.prog", TEXT, options, work)


def test_the_work_decides_the_exit_code(capsys):
    assert PROG([]) == 0 and PROG(["a", "b"]) == 2
    assert PROG(["bad"]) == 1 and capsys.readouterr().err == "prog: error: bad is not good\n"


def test_the_docstring_describes_it(capsys):
    with pytest.raises(SystemExit) as ended:
        PROG(["--help"])
    out = capsys.readouterr().out
    assert ended.value.code == 0 and out.startswith("usage: prog ")
    assert "\n\nDo a thing that takes two lines.\n\n" in out


@pytest.mark.parametrize(
    "argument, said", [("--twice", "--twice goes with nothing"), ("--x", "unrecognized arguments")]
)
def test_wrong_options_are_one_line_and_exit_code_2(argument, said, capsys):
    with pytest.raises(SystemExit) as ended:
        PROG([argument])
    err = capsys.readouterr().err
    assert ended.value.code == 2 and said in err and err.count("\n") == 1


def test_what_cannot_be_written_is_said_before_the_work(tmp_path, capsys):
    missing = tmp_path / "no" / "file.json"
    assert PROG(["bad", f"--json={missing}"]) == 1
    assert capsys.readouterr().err == f"prog: error: {missing}: No such file or directory\n"
    anywhere = Command("prog", TEXT, options, lambda given: 0, writes=())
    assert anywhere([f"--json={missing}"]) == 0


def test_arguments_between_options():
    mixed = Command("prog", TEXT, options, work, intermixed=True)
    assert mixed(["a", "--json=", "b"]) == 2
    assert mixed.parse(["a", "--twice", "b"]).names == ["a", "b"]


# -- those that are not installed
@pytest.mark.parametrize("package", [measurements, oracles], ids=lambda p: p.__name__)
def test_all_of_a_package_are_listed_and_describe_themselves(package, capsys):
    assert run_one_of(package, "here", []) == 0
    out = capsys.readouterr().out
    known = [path.stem for path in Path(package.__path__[0]).glob("[a-z]*.py")]
    assert len(known) >= 3
    for name in known:
        [line] = [line for line in out.splitlines() if line.split()[:1] == [name]]
        assert len(line) <= 124 and line.endswith((".", ";"))


def test_one_is_run_with_its_arguments(capsys):
    assert run_one_of(oracles, "here", ["interpret_dags", "--graphs=1"]) == 0
    assert "1 graphs, 0 failures" in capsys.readouterr().out


@pytest.mark.parametrize("name", ["no_such", "_mutants", "__main__"])
def test_there_is_no_such(name, capsys):
    assert run_one_of(oracles, "here", [name]) == 2
    assert capsys.readouterr().err == f"here: there is no {name!r}; see here --help\n"


def test_a_measurement_in_a_process_of_its_own():
    assert measurements.command("x", "--y")[0] == sys.executable
    assert Path(measurements.command("x")[1], "__main__.py").exists()
