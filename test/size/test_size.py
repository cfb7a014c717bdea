"""The count of lines and files, by hand on a small tree; and that the product does not grow."""

import json
from importlib import metadata
from pathlib import Path

import pytest

from size import count
from size.count import MOST, Figures, figures, files, too_large

PYPROJECT = """
[tool.setuptools.packages.find]
include = ["rcompiler", "rcompiler.*"]
exclude = ["rcompiler.tools.bench*"]
"""
TREE = {
    "setup.py": 3,
    "rcompiler/a.py": 40,
    "rcompiler/b/c.py": 39,
    "tools/t.py": 50,
    "tools/bench/m.py": 60,
    "docs/d.py": 70,
    "test/x.py": 100,
    "build/lib/y.py": 100,
    ".ci/z.py": 100,
}


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
    return tmp_path


def test_lines_and_files_by_hand(tree):
    found = {str(file.path): file for file in files(tree)}
    assert set(found) == {
        *("setup.py", "rcompiler/a.py", "rcompiler/b/c.py", "tools/t.py", "tools/bench/m.py"),
        *("docs/d.py", "rcompiler/__init__.py", "rcompiler/b/__init__.py"),
    }
    assert {name for name, file in found.items() if not file.installed} == {
        *("setup.py", "docs/d.py", "tools/bench/m.py"),
    }
    assert {name for name, file in found.items() if file.marker} == {"rcompiler/__init__.py"}
    assert figures([*found.values()]) == Figures(
        product=3 + 40 + 39 + 50 + 60 + 70 + 1 + 3,
        installed=40 + 39 + 50 + 1 + 3,
        small=3,
        markers=1,
    )
    assert found["tools/bench/m.py"].folder == "tools/bench" and found["setup.py"].folder == "."


def test_what_is_too_large_is_said():
    most = {"product": 10, "installed": 10, "small": 2}
    assert too_large(Figures(10, 9, 2, 1), most) == []
    [line] = too_large(Figures(13, 9, 2, 1), most)
    assert line == "product: 13, which is 3 more than test/size/most.json allows"


def test_the_command(tree, monkeypatch, capsys):
    monkeypatch.setattr(count, "files", lambda: files(tree))
    monkeypatch.setattr(count, "MOST", tree / "most.json")
    assert count.main(["--record", "--small"]) == 0
    out = capsys.readouterr().out
    assert "39 rcompiler/b/c.py" in out and out.count(" 266 ") == 2
    (tree / "rcompiler" / "a.py").write_text("x = 1\n" * 41)
    assert count.main([]) == 1
    assert "error: product: 267" in capsys.readouterr().err


def test_the_product_does_not_grow():
    """`python test/size --record` allows what is there, in a commit that says why."""
    assert too_large(figures(files()), json.loads(MOST.read_text())) == []


def test_installed_is_what_the_wheel_has():
    listed = metadata.files("rcompiler") or []
    wheel = {str(path) for path in listed if path.suffix == ".py" and path.parts[0] == "rcompiler"}
    if not wheel:
        pytest.skip("the package is installed by a link to its sources")
    counted = {file.path for file in files() if file.installed}
    assert wheel == {
        str(path if path.parts[0] == "rcompiler" else Path("rcompiler", path)) for path in counted
    }
