"""Compile a schedule in a process of its own: whatever hand-written text does to MLIR, we live.

The parent writes text and weights to a folder, the child answers with an artifact in it, or with
the kind and text of the error. Steps come back as lines while it works.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, cast

import numpy as np

from rcompiler import errors
from rcompiler.errors import CompilerError, InvalidModel, ScheduleError
from rcompiler.options import CompileOptions, Precision
from rcompiler.runtime.artifact import Artifact

Progress = Callable[[str, float], None]
_TEXT, _WEIGHTS, _MODEL, _ERROR = "schedule.mlir", "weights.npz", "model.rcx", "error.json"


def isolated(
    text: str,
    constants: Mapping[str, np.ndarray],
    options: CompileOptions,
    progress: Progress | None,
) -> Artifact:
    """The artifact of an S4 text. Errors as for `compile.schedule_artifact`.

    Raises also InvalidModel when the text ended the process that compiled it.
    """
    with tempfile.TemporaryDirectory(prefix="rc-schedule-") as name:
        folder = Path(name)
        (folder / _TEXT).write_text(text)
        arrays: dict[str, Any] = {k: np.asarray(v) for k, v in constants.items()}
        np.savez(folder / _WEIGHTS, **arrays)
        home = str(Path(__file__).parents[1])
        paths = [home, *filter(None, [os.environ.get("PYTHONPATH")])]
        child = subprocess.Popen(
            [
                sys.executable,
                "-P",
                "-m",
                "rcompiler.isolate",
                name,
                options.target,
                str(options.cache or ""),
                options.precision,
                "machine" if options.machine_code else "",
            ],
            stdout=subprocess.PIPE,
            # What MLIR says about bad text comes back as the error. (A pipe that nobody reads
            # would stop the child once it is full.)
            stderr=subprocess.DEVNULL if progress is None else None,
            text=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
        )
        assert child.stdout is not None
        with child:
            for line in child.stdout:
                step, _, seconds = line.strip().rpartition(" ")
                if progress is not None:
                    progress(step, float(seconds))
        if child.returncode == 0:
            # Not mapped: the file goes when this returns, and would keep its blocks on the disk.
            return Artifact.load(folder / _MODEL, mapped=False)
        raise _failure(folder, child.returncode)


def _failure(folder: Path, status: int) -> CompilerError:
    try:
        error = json.loads((folder / _ERROR).read_text())
    except (OSError, ValueError):
        what = f"signal {signal.Signals(-status).name}" if status < 0 else f"status {status}"
        return InvalidModel(
            f"the schedule is not valid: compiling it ended the compiler's process ({what}); "
            "undo the last change of the text, and look at it with rc-opt"
        )
    kind = getattr(errors, error["kind"], CompilerError)
    if kind is ScheduleError:
        return ScheduleError(error["message"], error["rule"])
    found: CompilerError = kind(error["message"])
    return found


def main() -> int:
    """The child: folder, target, cache folder, precision, and whether machine code is wanted."""
    folder, (target, cache, precision, machine) = Path(sys.argv[1]), sys.argv[2:]
    steps = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # whatever MLIR prints must not get between the steps

    def progress(step: str, seconds: float) -> None:
        print(step, seconds, file=steps, flush=True)

    from rcompiler.compile import schedule_artifact

    try:
        with np.load(folder / _WEIGHTS, allow_pickle=False) as weights:
            constants = {name: weights[name] for name in weights.files}
        options = CompileOptions(
            target,
            cache=Path(cache) if cache else None,
            precision=cast(Precision, precision),
            machine_code=bool(machine),
        )
        artifact = schedule_artifact((folder / _TEXT).read_text(), constants, options, progress)
        artifact.save(folder / _MODEL)
    except CompilerError as error:
        kind = next(k for k in type(error).__mro__ if k.__module__ == errors.__name__)
        report = {"kind": kind.__name__, "message": str(error), "rule": getattr(error, "rule", "")}
        (folder / _ERROR).write_text(json.dumps(report))
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
