"""Fixtures of the command-line tools.

Tests may import the helper modules in test/support: importlib mode leaves sys.path alone.
"""

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
