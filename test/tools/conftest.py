"""Fixtures of the command-line tools.

Tests may import the helper modules in test/support: importlib mode leaves sys.path alone.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))


@pytest.fixture
def tool(tmp_path, monkeypatch, capsys):
    """Runs a tool in an empty folder: tool(main, *arguments) -> (exit code, stdout, stderr)."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RC_CACHE_DIR", "")

    def run(main, *arguments):
        code = main(arguments)
        return code, *capsys.readouterr()

    return run


# What a machine that runs compiled models need not have.
_COMPILERS = ("onnx", "torch_mlir", "llvmlite", "rich", "ml_dtypes", "onnxruntime")
_RUN_WITHOUT = """if True:
    import runpy, sys

    refused, module = sys.argv[1].split(","), sys.argv[2]

    class Refusing:
        def find_spec(self, name, path=None, target=None):
            if name.partition(".")[0] in refused:
                raise ModuleNotFoundError(f"No module named {name!r}", name=name)

    sys.meta_path.insert(0, Refusing())
    del sys.argv[1:3]
    runpy.run_module(module, run_name="__main__", alter_sys=True)
"""


@pytest.fixture
def numpy_only(tmp_path):
    """Runs a module where only numpy is installed: numpy_only(module, *arguments) -> (exit code,
    stdout, stderr), in an empty folder.
    """

    def run(module, *arguments):
        command = [sys.executable, "-c", _RUN_WITHOUT, ",".join(_COMPILERS), module, *arguments]
        done = subprocess.run(
            command, capture_output=True, text=True, cwd=tmp_path, timeout=120, check=False,
            env={**os.environ, "RC_CACHE_DIR": ""},
        )  # fmt: skip
        return done.returncode, done.stdout, done.stderr

    return run
