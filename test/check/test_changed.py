"""What --changed chooses, and how many seeded faults it finds."""

import re
from pathlib import Path

import pytest

from check import runner
from check.changed import PASSES, SMOKE, Chooser, judge, seeded
from check.durations import Durations
from check.reach import Reacher
from check.tree import ROOT, Tree, read

FILES = {
    "rcompiler/__init__.py": "",
    "rcompiler/roller.py": "",
    "rcompiler/passes/__init__.py": "",
    "rcompiler/passes/rtask_fuse_axes.py": "from rcompiler.passes.ir import tensor\n",
    "rcompiler/passes/ir/tensor.py": "",
    "docs/guide.md": "",
    "test/conftest.py": "",
    "test/support/small.py": "from rcompiler.roller import tile\n",
    "test/support/other.py": "",
    "test/unit/test_roller.py": "import small\n",
    "test/unit/test_own.py": "import other\n",
    "test/unit/test_guide.py": "open('docs/guide.md')\n",
    "rcompiler/texts.py": "",
    "test/unit/test_wording.py": "open('rcompiler/texts.py')\n",
    "test/e2e/test_fuse_axes.py": "import rcompiler\n",
    "test/e2e/test_network.py": "from rcompiler import compile_onnx\n",
    "test/mutants/pass_faults.py": f"""
SMOKE = {next(test for test in SMOKE if "::" in test)!r}
from types import SimpleNamespace as Fault
FAULTS = (
    Fault(name="a", file="roller.py", check="unit/test_roller.py::test_a"),
    Fault(name="b", file="roller.py", check="e2e/test_network.py::test_b"),
    Fault(name="c", file="passes/ir/tensor.py", check="e2e/test_fuse_axes.py"),
    Fault(name="e", file="roller.py", check=SMOKE.removeprefix("test/") + "[mlp]"),
    Fault(name="d", file="passes/ir/tensor.py", check="passes/fuse-axes.mlir"),
)
""",
}


@pytest.fixture
def tree(tmp_path):
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return read(tmp_path)


def choose(tree, changed, seconds=(), budget=100.0, faults=False):
    chooser = Chooser(tree, Reacher(tree), dict(seconds))
    found = chooser.choose([changed], budget, faults)
    return {test: why for test, why in found.chosen.items() if why != "smoke"}, found.left_out


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ("rcompiler/roller.py", {"test/unit/test_roller.py": "imports"}),
        ("rcompiler/passes/ir/tensor.py", {"test/e2e/test_fuse_axes.py": "named"}),
        ("rcompiler/passes/rtask_fuse_axes.py", {"test/e2e/test_fuse_axes.py": "named"}),
        ("test/support/other.py", {"test/unit/test_own.py": "changed"}),
        ("test/unit/test_own.py", {"test/unit/test_own.py": "changed"}),
        ("rcompiler/texts.py", {"test/unit/test_wording.py": "reads"}),
        ("docs/guide.md", {"test/unit/test_guide.py": "changed"}),
        ("CHANGELOG.md", {}),
    ],
)
def test_what_is_near(tree, changed, expected):
    assert choose(tree, changed) == (expected, {})


def test_a_seeded_fault_names_its_check(tree):
    found, _ = choose(tree, "rcompiler/roller.py", faults=True)
    assert found == {
        "test/unit/test_roller.py": "imports",
        "test/e2e/test_network.py::test_b": "fault",
    }


def test_the_cheapest_come_first_and_the_smoke_set_always(tree):
    seconds = {"test/unit/test_roller.py": 40.0, "test/unit/test_own.py": 3.0}
    seconds |= dict.fromkeys(SMOKE, 1.0)
    every = {file for file in FILES if "/test_" in file}
    found, left_out = choose(tree, "test/conftest.py", seconds, budget=len(SMOKE) + 50.0)
    assert left_out == {"test/unit/test_roller.py": 40.0}
    assert {*found} == every - {*left_out}
    none, left_out = choose(tree, "test/conftest.py", seconds, budget=0.0)
    assert not none and {*left_out} == every
    chosen = Chooser(tree, Reacher(tree), seconds).choose(["test/conftest.py"], 0.0).chosen
    assert {*chosen} == {*SMOKE}


def test_half_of_the_seconds_is_for_what_is_near(tree):
    seconds = dict.fromkeys(SMOKE, 1000.0) | {"test/unit/test_roller.py": 40.0}
    found, left_out = choose(tree, "rcompiler/roller.py", seconds, budget=100.0)
    assert found == {"test/unit/test_roller.py": "imports"} and not left_out
    found, left_out = choose(tree, "rcompiler/roller.py", seconds, budget=70.0)
    assert not found and left_out == {"test/unit/test_roller.py": 40.0}


def test_a_single_test_is_not_chosen_beside_its_file(tree):
    file, _, _ = SMOKE[-1].partition("::")
    tree = Tree(tree.root, {**tree.hashes, file: ""}, None)
    (tree.root / file).write_text("import small\n")
    found, _ = choose(tree, "rcompiler/roller.py")
    assert found[file] == "imports"
    assert not any("::" in test for test in found if test.startswith(file))


def test_the_judge_says_which_faults_are_found(tree):
    chooser = Chooser(tree, Reacher(tree), {})
    single = next(test for test in SMOKE if "::" in test)
    assert judge(tree, chooser, 100.0) == [
        ("a", "unit/test_roller.py::test_a", "imports"),
        ("b", "e2e/test_network.py::test_b", ""),
        ("c", "e2e/test_fuse_axes.py", "named"),
        ("e", f"{single.removeprefix('test/')}[mlp]", "smoke"),
        ("d", "passes/fuse-axes.mlir", "lit"),
    ]


def test_seconds_are_kept_and_recorded(tmp_path):
    record = tmp_path / "record.json"
    record.write_text('{"a.py": 1, "b.py": 2}')
    first = Durations(tmp_path, record)
    first.add({"b.py": 3.04, "c.py": 4})
    again = Durations(tmp_path, record)
    assert again.seconds == {"a.py": 1, "b.py": 3.0, "c.py": 4}
    assert again.record(["a.py", "b.py", "d.py"]) == 2
    assert record.read_text() == '{\n"a.py": 1.0,\n"b.py": 3.0\n}\n'
    record.write_text("[]")
    assert Durations(tmp_path / "none", record).seconds == {}


@pytest.fixture(scope="module")
def here():
    """The tree of this checkout, and what chooses in it by the record of seconds."""
    tree = read()
    return tree, Chooser(tree, Reacher(tree), Durations(Path("nowhere")).seconds)


def test_faults_of_this_checkout_are_found(here):
    """By their files alone: that a fault is seeded there does not count."""
    tree, chooser = here
    rows = judge(tree, chooser, runner.BUDGET_S)
    assert len(rows) == len(seeded(tree, PASSES)) > 0
    missed = [row for row in rows if not row[2]]
    assert len(rows) - len(missed) >= runner.LEAST_FOUND, missed


def test_the_smoke_set_leaves_time_for_what_is_near(here):
    assert sum(map(here[1].cost, SMOKE)) < runner.BUDGET_S / 2


@pytest.mark.parametrize("test", SMOKE)
def test_the_smoke_set_is_there(test):
    file, _, single = test.partition("::")
    text = (ROOT / file).read_text()
    name, _, _ = single.partition("[")
    assert not name or re.search(rf"^def {name}\(", text, re.M)
