"""Compile in a process of its own: whatever happens to MLIR and LLVM there, we live.

So are compiled schedules, which may be text written by hand, and models where a limit leaves little
address space: libraries that are refused memory end their process.
The parent writes a request to a folder, the child (`isolated.py`) answers with an artifact in it,
or with the kind and text of the error. Steps come back while it works.

The child that compiles schedules is kept for the next one: it takes longer to import the compiler
than to compile most. Where a limit leaves little address space each has a child of its own, whose
peak says whether the limit was in its way.
"""

from __future__ import annotations

import json
import os
import pickle
import signal
import subprocess
import sys
import warnings
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from rcompiler import errors
from rcompiler.bucketed import BucketedModel
from rcompiler.driver.cross_compiled import CrossCompiledModel, compiled_family, compiled_model
from rcompiler.errors import (
    CompilerError,
    DeviceError,
    InvalidModel,
    ScheduleError,
    ScheduleTextError,
)
from rcompiler.model import Model
from rcompiler.options import Precision, checked_cache, policy_of
from rcompiler.runtime import family
from rcompiler.runtime.artifact import Artifact
from rcompiler.runtime.family import Family
from rcompiler.runtime.memory import (
    address_space_left,
    address_space_limit,
    too_little_space,
)
from rcompiler.support.callers import callers_level
from rcompiler.support.interpreter import NoInterpreter, interpreter
from rcompiler.support.scratch import scratch_folder
from rcompiler.support.workers import WorkerDied, Workers

Progress = Callable[[str, float], None]
# Files of the folder.
REQUEST, MODEL = "request.pickle", "model.rcx"
ERROR, WARNINGS = "error.json", "warnings.json"
_CHILD = "RC_COMPILES_APART"  # set in the environment of the child
# Bytes of address space below which a model is compiled apart: where there is more, what runs out
# first is the machine's memory.
_AMPLE = 6 << 30
_NEARLY = 0.75  # of the limit: a step that failed there may have failed for want of more


def space_is_scarce() -> bool:
    """Whether compiling in this process could exhaust the address space that a limit leaves it; not
    asked of the child, which may."""
    left = address_space_left()
    return left is not None and left < _AMPLE and _CHILD not in os.environ


def compiler() -> Callable[..., Model | CrossCompiledModel | BucketedModel]:
    """The function that compiles."""
    found: Callable[..., Model | CrossCompiledModel | BucketedModel]
    found = import_module("rcompiler.compile").compile_onnx
    return found


def compile_onnx(model: Any, **options: Any) -> Model | CrossCompiledModel | BucketedModel:
    """As `compile.compile_onnx`, in a process of its own; this one loads no compiler.

    Raises also DeviceError: the process needed more address space than its limit, or is asked for
    functions of the caller's, which stay in this one.
    """
    if options.pop("fallback", None) is not None:
        raise DeviceError(
            "fallback= has functions of this process, and a limit leaves it little address space; "
            "leave fallback out, or raise the limit"
        )
    if options.pop("build", "all") != "all":
        raise DeviceError(
            "build= builds programs while the model serves, and a limit leaves this process little "
            "address space; leave build out, or raise the limit"
        )
    progress = options.pop("progress", None)
    if options.get("policy") is not None:
        options["policy"] = policy_of(options["policy"])
    if hasattr(model, "SerializeToString"):  # onnx.ModelProto
        model = model.SerializeToString()
    found = _answered(_once, ("onnx", model, options), progress)
    if isinstance(found, Family):
        return compiled_family(found, options.get("eus"))
    return compiled_model(found)


def compile_schedule(
    text: str,
    constants: Mapping[str, np.ndarray] | None = None,
    *,
    target: str | None = None,
    precision: Precision | None = None,
    machine_code: bool = True,
    cache: str | os.PathLike[str] | bool | None = None,
    progress: Progress | None = None,
) -> Model | CrossCompiledModel:
    """Compile an S4 module, the text of stage "schedule" or "vdevice", possibly edited.

    It is compiled for the target, precision and device that it says it is for. The work is done in
    a process of its own: text written by hand can make MLIR abort.

    Args:
        text: the module.
        constants: arrays by the keys that the text names, as `CompiledModel.constants` returns
            them; only their bytes count.
        target, precision: what the caller takes the text to be for; None for whatever it is.
        machine_code, cache, progress: as of `compile_onnx`.

    Returns:
        A model that is ready to run; for a CPU with instructions that this one lacks a
        CrossCompiledModel, see `compile_onnx`.

    Raises:
        InvalidModel: the text is no S4 module; a ScheduleTextError, which says where, if it is in
            the schedule form and not of its grammar.
        ScheduleError: the schedule is not proved right.
        ArtifactError: a constant that the text names is not among `constants`.
        DeviceError: the text is for another target or precision, or does not say for which.
    """
    arrays = {key: np.asarray(array) for key, array in (constants or {}).items()}
    options = {
        "target": target,
        "precision": precision,
        "machine_code": machine_code,
        "cache": checked_cache(cache),
    }
    child = _kept if address_space_limit() is None else _once
    if interpreter() is None:
        child = _here_alone
    found = _answered(child, ("schedule", text, arrays, options), progress)
    assert isinstance(found, Artifact)
    return compiled_model(found)


def _answered(
    child: Callable[[str, Progress | None], int],
    request: tuple[Any, ...],
    progress: Progress | None,
) -> Artifact | Family:
    """child: has a process answer the request of a folder, and returns its status."""
    with scratch_folder("rc-compile-") as folder:
        # Policies and devices are objects of the caller's. Only this process can write into the
        # folder, so what its child unpickles is from no stranger.
        with (folder / REQUEST).open("wb") as file:
            pickle.dump(request, file)
        status = child(str(folder), progress)
        _warn_again(folder)
        if status == 0:
            # Not mapped: the file goes when this returns, and would keep its blocks on the disk.
            return family.load(folder / MODEL, mapped=False)
        raise _failure(folder, status)


def _once(folder: str, progress: Progress | None) -> int:
    """By a child that ends with the answer."""
    home = str(Path(__file__).parents[2])
    paths = [home, *map(os.path.abspath, sys.path)]  # where a policy of the caller's may be
    program = interpreter()
    if program is None:
        raise DeviceError(
            f"a limit leaves this process little address space, and {NoInterpreter()}, so that "
            "another process can compile; or raise the limit (ulimit -v)"
        )
    child = subprocess.Popen(
        [program, "-P", "-m", "rcompiler.driver.isolated", folder],
        stdout=subprocess.PIPE,
        # What MLIR says about bad text comes back as the error, also where steps are shown. (A
        # pipe that nobody reads would stop the child once it is full.)
        stderr=subprocess.DEVNULL,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths), _CHILD: "1"},
    )
    assert child.stdout is not None
    with child:
        for line in child.stdout:
            _tell(progress, line)
    return child.returncode


def _kept(folder: str, progress: Progress | None) -> int:
    """By the child that is kept, or a new one; it is told what may have changed since it began."""
    question = json.dumps([folder, _here(), dict(os.environ)]).encode()
    try:
        with _WORKERS.borrow() as worker:
            status, _ = worker.ask(question, told=lambda line: _tell(progress, line.decode()))
            return status
    except WorkerDied as died:
        return died.status


def _here_alone(folder: str, progress: Progress | None) -> int:
    """By this process, where no other one can be started: what ends it ends its caller."""
    isolated = import_module("rcompiler.driver.isolated")
    status: int = isolated.answer(Path(folder), progress or (lambda step, seconds: None))
    return status


def _here() -> str:
    try:
        return os.getcwd()
    except OSError:  # it was removed
        return "/"


def _tell(progress: Progress | None, line: str) -> None:
    step, _, seconds = line.strip().rpartition(" ")
    if progress is not None:
        progress(step, float(seconds))


def _warn_again(folder: Path) -> None:
    """What the child warned of. A kind that this process has not loaded becomes a UserWarning."""
    if (folder / WARNINGS).exists():
        for module, kind, text in json.loads((folder / WARNINGS).read_text()):
            category = getattr(sys.modules.get(module), kind, UserWarning)
            warnings.warn(text, category, stacklevel=callers_level())


def _failure(folder: Path, status: int) -> CompilerError:
    try:
        error = json.loads((folder / ERROR).read_text())
    except (OSError, ValueError):
        what = f"signal {signal.Signals(-status).name}" if status < 0 else f"status {status}"
        if space_is_scarce():
            return too_little_space(f"the compiler's process ended ({what})")
        return InvalidModel(
            f"the schedule is not valid: compiling it ended the compiler's process ({what}); "
            "undo the last change of the text, and look at it with rc-opt"
        )
    limit = address_space_limit()
    if limit is not None and error["peak"] > _NEARLY * limit and error["kind"] != "DeviceError":
        return too_little_space(error["message"])
    kind = getattr(errors, error["kind"], CompilerError)
    if kind is ScheduleError:
        return ScheduleError(error["message"], error["rule"])
    if kind is ScheduleTextError:
        return ScheduleTextError(*error["place"])
    found: CompilerError = kind(error["message"])
    return found


_WORKERS = Workers("rcompiler.driver.isolated", as_here=True)
