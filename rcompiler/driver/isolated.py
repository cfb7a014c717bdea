"""The child of `isolate.py`: compiles what the request in a folder asks for, and answers there.

The compiler is imported where it is used: what it prints and warns of while it loads is caught as
what it says later is.
"""

from __future__ import annotations

import json
import os
import pickle
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from rcompiler import errors
from rcompiler.bucketed import BucketedModel
from rcompiler.composite_model import CompositeModel
from rcompiler.driver.collector import COLLECTOR
from rcompiler.driver.cross_compiled import CrossCompiledModel
from rcompiler.driver.isolate import ERROR, MODEL, REQUEST, WARNINGS, Progress
from rcompiler.errors import CompilerError, ScheduleTextError
from rcompiler.model import Model
from rcompiler.runtime.artifact import Artifact
from rcompiler.support.workers import Tell, serve_telling

# Bytes of memory: a child that has had more is not kept for the next request.
_KEPT = 1 << 30


def main() -> int:
    """Answers the request in the folder that is named; the exit status."""
    steps = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # whatever MLIR prints must not get between the steps

    def progress(step: str, seconds: float) -> None:
        print(step, seconds, file=steps, flush=True)

    return answer(Path(sys.argv[1]), progress)


def serve() -> None:
    """Answers the requests of one folder after the other, as a worker process."""

    def answered(question: bytes, tell: Tell) -> tuple[int, bytes]:
        def progress(step: str, seconds: float) -> None:
            tell(f"{step} {seconds}".encode())

        folder, here, variables = json.loads(question)
        os.chdir(here)
        os.environ.clear()
        os.environ.update(variables)
        return answer(Path(folder), progress), b""

    serve_telling(answered, _KEPT)


def answer(folder: Path, progress: Progress) -> int:
    """Answer the request in a folder; the status."""
    with (folder / REQUEST).open("rb") as file:
        kind, *request = pickle.load(file)
    try:
        with _recorded(folder / WARNINGS):
            make: Callable[..., Model | CrossCompiledModel | BucketedModel | Artifact] = (
                _of_onnx if kind == "onnx" else _of_schedule
            )
            make(*request, progress=progress).save(folder / MODEL)
    except CompilerError as error:
        kind = next(k for k in type(error).__mro__ if k.__module__ == errors.__name__)
        report = {
            "kind": kind.__name__,
            "message": str(error),
            "rule": getattr(error, "rule", ""),
            "place": _place(error),
            "peak": _peak_address_space(),
        }
        (folder / ERROR).write_text(json.dumps(report))
        return 1
    return 0


def _place(error: CompilerError) -> tuple[str, int, int] | None:
    """Of an error in a text: the reason, the line and the column."""
    if isinstance(error, ScheduleTextError):
        return error.reason, error.line, error.column
    return None


def _of_onnx(
    model: Any, options: Mapping[str, Any], progress: Progress
) -> Model | CrossCompiledModel | BucketedModel:
    with COLLECTOR.importing():
        from rcompiler.compile import compile_onnx

    found = compile_onnx(model, **options, progress=progress)
    assert not isinstance(found, CompositeModel)  # functions stay in the parent
    return found


def _of_schedule(
    text: str,
    constants: Mapping[str, np.ndarray],
    options: Mapping[str, Any],
    progress: Progress,
) -> Artifact:
    with COLLECTOR.importing():
        from rcompiler.driver.from_schedule import schedule_artifact

    return schedule_artifact(text, constants, **options, progress=progress)


@contextmanager
def _recorded(path: Path) -> Iterator[None]:
    """Write what is warned of inside to a file, as module and name of the kind, and text."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            yield
        finally:
            told = [(w.category.__module__, w.category.__name__, str(w.message)) for w in caught]
            path.write_text(json.dumps(told))


def _peak_address_space() -> int:
    """Bytes; 0 where the system does not say."""
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) << 10 for line in lines if line.startswith("VmPeak")), 0)


if __name__ == "__main__":
    sys.exit(main())
