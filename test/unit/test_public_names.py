"""What `import rcompiler` offers, and what the package says of itself where it is installed."""

import ast
import subprocess
import sys
import tomllib
from pathlib import Path

import rcompiler

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())


def test_the_version_has_one_source_which_is_read_without_an_import():
    """setuptools reads a literal; anything else it would have to import, packages and all."""
    assert "version" not in PROJECT["project"] and PROJECT["project"]["dynamic"] == ["version"]
    found = PROJECT["tool"]["setuptools"]["dynamic"]["version"]
    assert found == {"attr": "rcompiler.__version__"}
    tree = ast.parse((ROOT / "rcompiler" / "__init__.py").read_text())
    [literal] = [
        node.value
        for node in tree.body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__version__"
    ]
    assert ast.literal_eval(literal) == rcompiler.__version__
    assert all(part.isdigit() for part in rcompiler.__version__.split("."))


def test_completion_finds_the_public_names_and_imports_nothing():
    code = """
import sys, rcompiler
there = dir(rcompiler)
public = [name for name in there if not name.startswith("__")]
assert public == sorted(rcompiler.__all__), public
assert {"__version__", "__doc__", "__file__", "__name__", "__path__"} <= {*there}
loaded = [name for name in sys.modules if name.startswith("rcompiler.") or name == "numpy"]
assert not loaded, loaded
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_the_wheel_says_whose_it_is_and_what_it_runs_on():
    project = PROJECT["project"]
    assert project["authors"] == [{"name": "rcompiler developers"}]
    assert {"onnx", "mlir"} <= {*project["keywords"]}
    classifiers = project["classifiers"]
    assert classifiers == sorted({*classifiers})
    assert "Operating System :: POSIX :: Linux" in classifiers
    oldest = project["requires-python"].removeprefix(">=")
    assert f"Programming Language :: Python :: {oldest}" in classifiers
    # next to `license`, an expression, setuptools refuses one of these
    assert not [name for name in classifiers if name.startswith("License ::")]
