"""Nodes of onnxruntime's domain that tests in test/frontend compare, as cases of the table."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path

from fuzz.graphs import Case
from onnx import ModelProto

from rcompiler.frontend import contrib

from .judge import Trial

_TEST = Path(__file__).parents[1]


@cache
def trials() -> dict[str, list[Trial]]:
    """By operator. Their tests run without compiling anything, in a process of their own."""
    files = sorted(str(path) for path in (_TEST / "frontend").glob("test_contrib_*.py"))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "found"
        command = [sys.executable, "-m", "pytest", "-q", "-n0", "-p", "operators.collector", *files]
        subprocess.run(
            command,
            cwd=_TEST.parent,
            env={**os.environ, "RC_COLLECT": str(path), "PYTHONPATH": _path()},
            stdout=subprocess.DEVNULL,
            check=False,  # tests of messages fail where nothing is compiled
        )
        written = pickle.loads(path.read_bytes())
    found: dict[str, list[Trial]] = {}
    for text, feeds, known, apart in written:
        model = ModelProto.FromString(text)
        [node] = model.graph.node
        if node.domain == contrib.DOMAIN:
            case = Case(model, feeds, {"eus": 1}, node.op_type)
            found.setdefault(node.op_type, []).append(Trial(case, known=known, apart=apart))
    return found


def _path() -> str:
    return os.pathsep.join([str(_TEST), str(_TEST.parent), os.environ.get("PYTHONPATH", "")])
