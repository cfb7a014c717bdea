"""What files may read, on a small tree: whatever is left out here would be skipped wrongly."""

import shutil
import subprocess

import pytest

from check import tree as trees
from check.facts import FactsOf, facts_of
from check.reach import Reacher

FILES = {
    "pyproject.toml": "",
    "rcompiler/__init__.py": "import importlib\n_HOME = {'load': 'rcompiler.loading'}\n",
    "rcompiler/loading.py": "from rcompiler.runtime.table import rows\n",
    "rcompiler/runtime/__init__.py": "",
    "rcompiler/runtime/table.py": "import numpy\n",
    "rcompiler/runtime/rows.json": "[]",
    "rcompiler/passes/__init__.py": "import importlib\nfound = importlib.import_module('x')\n",
    "rcompiler/passes/form.py": "def late():\n    from . import other\n",
    "rcompiler/passes/other.py": "",
    "dialects/rtask.py": "",
    "tools/__init__.py": "",
    "tools/_record.py": "import subprocess\n",
    "tools/bench/__main__.py": "",
    "tools/bench/measurements/__init__.py": "",
    "tools/bench/measurements/speed.py": "",
    "tools/bench/results/speed.json": "{}",
    "docs/guide.md": "",
    "docs/reference/face.py": "",
    "test/conftest.py": "",
    "test/Inputs/v3.json": "{}",
    "test/Inputs/v4.json": "{}",
    "test/support/turns.py": "from rcompiler.tools._record import commit\n",
    "test/support/small.py": "from rcompiler.runtime import table\n",
    "test/support/places.py": "HERE = Path(__file__).parent",
    "test/fuzz/__init__.py": "",
    "test/fuzz/graphs.py": "",
    "test/unit/conftest.py": "import sys\nfrom pathlib import Path\n"
    "sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1] / 'support')]\n",
    "test/unit/beside.py": "",
    "test/unit/graph.mlir": "",
    "test/unit/Inputs/data.txt": "",
}
ALWAYS = {
    *("test/unit/test_it.py", "test/unit/conftest.py", "test/conftest.py"),
    *("test/unit/graph.mlir", "test/unit/Inputs/data.txt"),
}
WHOLE = {path for path in FILES if path.split("/")[0] in ("rcompiler", "dialects")}
WHOLE |= {"tools/__init__.py", "tools/_record.py", "rcompiler/tools", "rcompiler/dialects"}


@pytest.fixture
def folder(tmp_path):
    for name, text in FILES.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    for name in ("tools", "dialects"):
        (tmp_path / "rcompiler" / name).symlink_to(f"../{name}")
    return tmp_path


@pytest.fixture
def reach(folder):
    def of(text, path="test/unit/test_it.py"):
        (folder / path).write_text(text)
        found = Reacher(trees.read(folder)).of([path])
        return found.files - ALWAYS, found.by_commit

    return of


LATE = {"rcompiler/__init__.py", "rcompiler/dialects", "rcompiler/tools"}
TABLE = LATE | {f"rcompiler/runtime/{name}" for name in ("__init__.py", "table.py", "rows.json")}
FUZZ = {"test/fuzz/__init__.py", "test/fuzz/graphs.py"}
BENCH = {"tools/__init__.py", "tools/bench/results/speed.json"} | {
    f"tools/bench/{name}.py" for name in ("measurements/__init__", "measurements/speed")
}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("import numpy", set()),
        ("import beside", {"test/unit/beside.py"}),
        ("from rcompiler.runtime.table import rows", TABLE),
        ("def test():\n    import small", {"test/support/small.py"} | TABLE),
        ("from rcompiler.dialects import rtask", LATE | {"dialects/rtask.py"}),
        ("from fuzz import graphs", FUZZ),
        ("import fuzz.graphs as g", FUZZ),
        ("from reference import face", {"docs/reference/face.py"}),
        ("from measurements import speed", BENCH - {"tools/bench/results/speed.json"}),
        ("monkeypatch.setattr('rcompiler.runtime.table.rows', 1)", TABLE),
        ("if TYPE_CHECKING:\n    from rcompiler import load", set()),
        ('"""Is beside docs/guide.md."""', set()),
        ("open('docs/guide.md')", {"docs/guide.md"}),
        ("X = Path(__file__).parents[1] / 'Inputs' / 'v3.json'", {"test/Inputs/v3.json"}),
        (
            "X = str(Path(__file__).parents[1] / 'Inputs' / name)",
            {"test/Inputs/v3.json", "test/Inputs/v4.json"},
        ),
        ("X = Path(__file__).resolve().parent.parent / 'Inputs/v4.json'", {"test/Inputs/v4.json"}),
        ("assert caught.filename == __file__", set()),
        ("run([python, __file__])", set()),
        ("path.parent.mkdir()", set()),
    ],
)
def test_what_a_file_names_is_reached(reach, text, expected):
    assert reach(text) == (expected, False)


@pytest.mark.parametrize(
    "text",
    [
        "import rcompiler",
        "from rcompiler import load",
        "from rcompiler import *",
        "import subprocess",
        "from multiprocessing import get_context",
        "from concurrent.futures import ProcessPoolExecutor",
        "import os\nos.system('rc-opt x.mlir')",
        "import runpy",
        "__import__(name)",
        "exec(text)",
        "from importlib import import_module",
        "import importlib\nimportlib.import_module(name)",
        "import rcompiler.runtime\nX = rcompiler.runtime.__file__",
        "from rcompiler.passes import form",  # the package finds passes by their names
        "from rcompiler.passes.form import late",
        "def test(pytester): ...",
    ],
)
def test_what_finds_modules_by_name_reaches_the_whole_product(reach, text):
    files, _ = reach(text)
    assert files >= WHOLE and "test/Inputs/v3.json" not in files
    assert not any(path.startswith("tools/bench") for path in files)


@pytest.mark.parametrize(
    "text",
    [
        "ROOT = Path(__file__).parents[2]",
        "ROOT = os.path.dirname(os.path.dirname(__file__))",
        "ROOT = Path(__file__).parents[count]",
        "HERE = Path(__file__)\nROOT = HERE.parent.parent",
        "HERE = Path(__file__).parent\nROOT = HERE / '..' / '..'",
        "from places import HERE\nROOT = HERE.parents[1]",
    ],
)
def test_what_takes_its_place_reaches_the_whole_tree(reach, folder, text):
    assert reach(text)[0] >= {*FILES} - ALWAYS


def test_the_commit_is_asked_for(reach):
    assert reach("from turns import in_turn")[1]
    assert reach("from rcompiler.tools import _record")[1]
    assert not reach("from rcompiler.tools import other\nimport subprocess")[1]


def test_configuration_and_what_it_imports_is_reached(reach, folder):
    (folder / "test" / "conftest.py").write_text("from rcompiler import passes\n")
    assert reach("x = 1")[0] >= WHOLE


def test_a_file_that_is_no_python_reaches_itself(reach):
    assert reach("def") == (set(), False)


def test_facts_are_kept_by_content(folder, monkeypatch):
    kept, path = folder / "facts.json", "test/support/small.py"
    first = FactsOf(trees.read(folder), kept)
    found = first(path)
    first.keep()
    monkeypatch.setattr("check.facts.facts_of", lambda text, path: pytest.fail("read anew"))
    again = FactsOf(trees.read(folder), kept)
    again.keep()  # of no file was anything asked
    assert again(path) == found
    monkeypatch.setattr("check.facts.facts_of", facts_of)
    another = FactsOf(trees.read(folder), kept)
    another("test/conftest.py")
    another.keep()
    monkeypatch.setattr("check.facts.facts_of", lambda text, path: pytest.fail("read anew"))
    assert FactsOf(trees.read(folder), kept)(path) == found
    kept.write_text(kept.read_text()[:-20])
    monkeypatch.setattr("check.facts.facts_of", facts_of)
    assert FactsOf(trees.read(folder), kept)(path) == found
    (folder / path).write_text("import other\n")
    assert FactsOf(trees.read(folder), kept)(path) == facts_of("import other\n", path)


def git(folder, *arguments):
    author = ("-c", "user.name=A", "-c", "user.email=a@b")
    subprocess.run(["git", "-C", folder, *author, *arguments], check=True, capture_output=True)


@pytest.mark.skipif(shutil.which("git") is None, reason="there is no git")
def test_a_checkout_and_what_changed_in_it(folder):
    (folder / ".gitignore").write_text("build/\n")
    for arguments in (["init", "-q"], ["add", "."], ["commit", "-qm", "all"]):
        git(folder, *arguments)
    clean = trees.read(folder)
    assert {*FILES} <= {*clean.hashes} and clean.commit and "dirty" not in clean.commit
    assert clean.real("rcompiler/dialects/rtask.py") == "dialects/rtask.py"
    (folder / "build").mkdir()
    (folder / "build" / "x.py").write_text("")
    assert trees.read(folder) == clean
    (folder / "new.py").write_text("")
    (folder / "docs" / "guide.md").write_text("another")
    (folder / "dialects" / "rtask.py").unlink()
    changed = trees.read(folder)
    assert changed.commit == clean.commit + "-dirty"
    assert {*changed.hashes} == {*clean.hashes, "new.py"} - {"dialects/rtask.py"}
    expected = {"new.py", "docs/guide.md", "dialects/rtask.py"}
    assert trees.changed_since("HEAD", folder) == expected
    assert trees.changed_since("nowhere", folder) is None


def test_without_git_the_same_files_are_found(folder):
    (folder / "build").mkdir()
    (folder / "build" / "x.py").write_text("")
    found = trees.read(folder)
    assert {*found.hashes} == {*FILES, "rcompiler/tools", "rcompiler/dialects"}
    assert found.commit is None
