"""The count of lines and files, and budgets, by hand on a small tree; and what the product has."""

from importlib import metadata
from pathlib import Path

import pytest

from size import budget, show
from size.budget import Account, BadBudget, accounts, failures, used
from size.count import code_lines, files

PYPROJECT = """
[tool.setuptools.packages.find]
include = ["rcompiler", "rcompiler.*"]
exclude = ["rcompiler.tools.bench*"]
"""
TREE = {
    "setup.py": 3,
    "rcompiler/a.py": 40,
    "rcompiler/b/c.py": 39,
    "rcompiler/b/inner/d.py": 100,
    "tools/t.py": 50,
    "tools/bench/m.py": 60,
    "docs/d.py": 70,
    "test/x.py": 100,
    "build/lib/y.py": 100,
    ".ci/z.py": 100,
}
BUDGET = """
[core]
"." = [{ lines = 3, date = 2026-11-01, reason = "began" }]
"rcompiler" = [{ lines = 41, date = 2026-11-01, reason = "began" }]
"rcompiler/b" = [
    { lines = 20, date = 2026-11-01, reason = "began" },
    { lines = 40, date = 2026-11-02, reason = "does more" },
]
[periphery]
"docs" = [{ lines = 70, date = 2026-11-01, reason = "began" }]
"rcompiler/b/inner" = [{ lines = 100, date = 2026-11-01, reason = "began" }]
"tools" = [{ lines = 50, date = 2026-11-01, reason = "began" }]
"tools/bench" = [{ lines = 60, date = 2026-11-01, reason = "began" }]
[code]
"rcompiler/b" = [{ lines = 140, date = 2026-11-01, reason = "is read" }]
[files]
"small" = [{ lines = 4, date = 2026-11-01, reason = "began" }]
"""


@pytest.fixture
def tree(tmp_path):
    for name, lines in TREE.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x = 1\n" * lines)
    (tmp_path / "pyproject.toml").write_text(PYPROJECT)
    (tmp_path / "rcompiler" / "__init__.py").write_text('"""Marks a package."""\n')
    (tmp_path / "rcompiler" / "b" / "__init__.py").write_text('"""Does more."""\n\nimport os\n')
    (tmp_path / "rcompiler" / "tools").symlink_to("../tools")
    (tmp_path / "budget.toml").write_text(BUDGET)
    return tmp_path


def judged(tree):
    return failures(files(tree), accounts(tree / "budget.toml"))


def rewrite(path, old, new):
    assert path.read_text().count(old) == 1
    path.write_text(path.read_text().replace(old, new))


def test_lines_and_files_by_hand(tree):
    found = {str(file.path): file for file in files(tree)}
    assert set(found) == {
        *("setup.py", "rcompiler/a.py", "rcompiler/b/c.py", "tools/t.py", "tools/bench/m.py"),
        *("docs/d.py", "rcompiler/__init__.py", "rcompiler/b/__init__.py"),
        "rcompiler/b/inner/d.py",
    }
    assert {name for name, file in found.items() if not file.installed} == {
        *("setup.py", "docs/d.py", "tools/bench/m.py"),
    }
    assert {name for name, file in found.items() if file.marker} == {"rcompiler/__init__.py"}
    assert {name for name, file in found.items() if file.small} == {
        *("setup.py", "rcompiler/b/c.py", "rcompiler/b/__init__.py"),
    }
    assert {name: file.lines for name, file in found.items()} == {
        **{name: lines for name, lines in TREE.items() if name in found},
        **{"rcompiler/__init__.py": 1, "rcompiler/b/__init__.py": 3},
    }
    assert found["tools/bench/m.py"].folder == "tools/bench" and found["setup.py"].folder == "."
    assert found["rcompiler/b/inner/d.py"].folder == "rcompiler/b"


def test_lines_of_code():
    assert code_lines('"""Doc."""\n\n# why\ndef f():\n    """Doc."""\n    return """a\nb"""\n') == 3


def test_a_file_counts_for_the_deepest_folder_that_has_a_budget(tree):
    sums = used(files(tree), accounts(tree / "budget.toml"))
    assert {(account.kind, account.name): lines for account, lines in sums.items()} == {
        ("core", "."): 3,
        ("core", "rcompiler"): 41,
        ("core", "rcompiler/b"): 42,
        ("periphery", "docs"): 70,
        ("periphery", "rcompiler/b/inner"): 100,
        ("periphery", "tools"): 50,
        ("periphery", "tools/bench"): 60,
        ("code", "rcompiler/b"): 140,
        ("files", "small"): 3,
    }


def test_the_last_entry_counts_and_5_percent_are_free(tree):
    """40 lines are the budget of rcompiler/b: 42 are free, 43 are not."""
    assert Account("core", "a", 40).limit == 42 and Account("core", "a", 19).limit == 19
    assert judged(tree) == []
    (tree / "rcompiler" / "b" / "c.py").write_text("# x\n" * 40)
    [line] = judged(tree)
    assert line == (
        "[core] rcompiler/b: 43, which is 3 more than its budget of 40 (to 42 nobody asks): make "
        'it smaller, or write { lines = 43, date = YYYY-MM-DD, reason = "..." } as its last line '
        "in test/size/budget.toml"
    )
    raised = '{ lines = 43, date = 2026-11-03, reason = "reads c" },\n]\n[periphery]'
    rewrite(tree / "budget.toml", "]\n[periphery]", raised)
    assert judged(tree) == []


def test_a_folder_without_a_budget_is_told_what_to_write(tree):
    new = tree / "rcompiler" / "new" / "part" / "n.py"
    new.parent.mkdir(parents=True)
    new.write_text("x = 1\n" * 44)
    [line] = judged(tree)  # that of rcompiler is for the modules in it
    assert line == (
        'rcompiler/new: 44 lines, and no budget: write "rcompiler/new" = [{ lines = 44, date = '
        'YYYY-MM-DD, reason = "..." }] under [core] or [periphery] of test/size/budget.toml'
    )
    new.unlink()
    begun = '"rcompiler/new/part" = [{ lines = 9, date = 2026-11-03, reason = "x" }]'
    rewrite(tree / "budget.toml", "[periphery]", f"{begun}\n[periphery]")
    assert judged(tree) == ["[core] rcompiler/new/part has no file: take its budget away"]


def test_what_is_counted_otherwise_has_budgets_too(tree):
    rewrite(tree / "budget.toml", "lines = 140", "lines = 133")
    rewrite(tree / "budget.toml", "lines = 4,", "lines = 2,")
    assert [line.partition(", ")[0] for line in judged(tree)] == [
        *("[code] rcompiler/b: 140", "[files] small: 3"),
    ]
    rewrite(tree / "budget.toml", '"small"', '"tiny"')
    assert "test/size/budget.toml has no small under [files]" in judged(tree)


@pytest.mark.parametrize(
    "old, new, said",
    [
        ('"does more"', '" "', r"\[core\] rcompiler/b: entry 2 has no reason"),
        (', reason = "does more"', "", r"rcompiler/b: entry 2 has lines, date instead of .*reason"),
        ("lines = 40", "lines = 40.5", "entry 2: 40.5 is no number of lines"),
        ("lines = 40", "lines = -1", "entry 2: -1 is no number of lines"),
        ("2026-11-02", '"yesterday"', "entry 2: 'yesterday' is no date"),
        ("2026-11-02", "2026-10-02", "the newest raise stands last"),
        ('"docs" = [', '"docs" = []\n"x" = [', r"\[periphery\] docs: is no list of"),
        ('"docs" = [', '"docs" = 7\n"x" = [', r"\[periphery\] docs: is no list of"),
        ('"tools" = [', '"rcompiler" = [', r"\[core\] and \[periphery\] both have rcompiler"),
        ("[periphery]", "[outside]", r"\[outside\]: there is no such table"),
        ("[periphery]", "[periphery", "budget.toml is no TOML"),
    ],
)
def test_a_budget_that_does_not_say_why_is_refused(tree, old, new, said):
    rewrite(tree / "budget.toml", old, new)
    with pytest.raises(BadBudget, match=said):
        accounts(tree / "budget.toml")


def test_the_command(tree, monkeypatch, capsys):
    monkeypatch.setattr(show, "files", lambda: files(tree))
    monkeypatch.setattr(budget, "BUDGET", tree / "budget.toml")
    assert show.main(["--small"]) == 0
    out = capsys.readouterr().out
    cells = {row[0]: row[1:] for line in out.splitlines() if (row := line.split("  "))}
    figures = {name: [cell.strip() for cell in row if cell.strip()] for name, row in cells.items()}
    assert figures["all of core"] == ["5", "86", "84", "2", "83", "3", "1"]
    assert figures["all of periphery"] == ["4", "280", "280", "13", "150", "0", "0"]
    assert figures["rcompiler/b: lines of code"] == ["140", "140", "7"]
    assert figures["small files"] == ["3", "4", "1"]
    assert figures["all lines"] == ["366", "364"]
    assert " 39 rcompiler/b/c.py" in out
    (tree / "docs" / "d.py").write_text("x = 1\n" * 74)
    assert show.main([]) == 1
    assert "error: [periphery] docs: 74" in capsys.readouterr().err
    rewrite(tree / "budget.toml", '"does more"', '""')
    assert show.main([]) == 1
    assert "error: [core] rcompiler/b: entry 2 has no reason" in capsys.readouterr().err


def test_the_product_keeps_to_its_budgets():
    """What it says is what to write."""
    assert failures(files(), accounts()) == []


def test_installed_is_what_the_wheel_has():
    listed = metadata.files("rcompiler") or []
    wheel = {str(path) for path in listed if path.suffix == ".py" and path.parts[0] == "rcompiler"}
    if not wheel:
        pytest.skip("the package is installed by a link to its sources")
    counted = {file.path for file in files() if file.installed}
    assert wheel == {
        str(path if path.parts[0] == "rcompiler" else Path("rcompiler", path)) for path in counted
    }
