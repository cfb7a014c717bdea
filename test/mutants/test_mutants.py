"""Each seeded fault of `pass_faults` is found: pytest -m slow -v test/mutants"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from pass_faults import FAULTS

from rcompiler.passes import names

ROOT = Path(__file__).parents[2]
NEEDED = ("rcompiler", "dialects", "pipelines", "tools", "test", "pyproject.toml")


def test_every_pass_has_a_fault():
    assert {fault.name for fault in FAULTS} == set(names("passes"))


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_the_table_fits_the_sources(fault):
    """One place for each fault; and the checks exist."""
    assert (ROOT / "rcompiler" / fault.file).read_text().count(fault.old) == 1
    path, _, name = fault.check.partition("::")
    assert (
        f"def {name.partition('[')[0]}" in (ROOT / "test" / path).read_text()
        if name
        else (ROOT / "test" / path).exists()
    )


@pytest.fixture(scope="module")
def copy(tmp_path_factory):
    """A tree of its own, whose sources a test may change."""
    folder = tmp_path_factory.mktemp("tree")
    for name in NEEDED:
        source = ROOT / name
        if source.is_dir():
            skip = shutil.ignore_patterns("__pycache__")
            shutil.copytree(source, folder / name, symlinks=True, ignore=skip)
        else:
            shutil.copy(source, folder / name)
    return folder


def checked(tree, check):
    """The check in a tree: exit status and output."""
    path, tool = tree / "test" / check.partition("::")[0], [sys.executable, "-m"]
    command = [*tool, "pytest", "-q", "-x", "-p", "no:cacheprovider", str(tree / "test" / check)]
    if path.suffix == ".mlir":
        command = [sys.executable, "-c", "from lit.main import main; main()", "-v", str(path)]
    environment = {**os.environ, "PYTHONPATH": str(tree), "RC_CACHE_DIR": str(tree / "cache")}
    done = subprocess.run(
        command, cwd=tree, env=environment, capture_output=True, text=True, timeout=900, check=False
    )
    return done.returncode, done.stdout + done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_the_fault_is_found(fault, copy):
    path = copy / "rcompiler" / fault.file
    right = path.read_text()
    status, output = checked(copy, fault.check)
    assert status == 0, f"the check fails without the fault:\n{output[-2000:]}"
    path.write_text(right.replace(fault.old, fault.new))
    try:
        status, output = checked(copy, fault.check)
    finally:
        path.write_text(right)
    assert status == 1, f"{fault.check} does not find the fault"
    assert re.search(fault.says, output), output[-2000:]
