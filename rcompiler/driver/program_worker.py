"""The worker of `background.py`: compiles one more program of a model, with a lower priority.

Compiling is Python and MLIR for a second and more: in a thread of a process that serves it would
have the interpreter's lock when calls want it, and what ends it would end them.
"""

from __future__ import annotations

import os
import pickle
import sys
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from rcompiler import errors
from rcompiler.driver.sized_program import SizedPrograms
from rcompiler.errors import CompilerError, InvalidModel
from rcompiler.frontend.load import load
from rcompiler.frontend.weights_outside import File, outside
from rcompiler.passes.constants.weight_pool import WeightPool
from rcompiler.runtime.artifact import Artifact
from rcompiler.support.workers import serve_answers

BUILT, REFUSED = 0, 1  # status of an answer
_NICE = 10


@dataclass(frozen=True)
class Wanted:
    """One question.

    Attributes:
        file: with a `SizedPrograms`, pickled, its model as bytes.
        shapes: of the program.
        known, size: of the weights of the programs before, see `WeightPool.behind`.
        files: of the model, which are open in the process that asks: their paths and what the
            system said of them, by the names by which the model says that weights lie there.
    """

    file: str
    shapes: Mapping[str, Any]
    known: Mapping[bytes, int]
    size: int
    files: Mapping[str, tuple[str, tuple[int, ...]]] = field(default_factory=dict)


@dataclass(frozen=True)
class Made:
    """The answer.

    Attributes:
        program: without weights.
        start, added: where the weights that are new begin in the block, and their bytes.
        known: the same as of `Wanted`, with these.
        warned: of each warning module and name of its kind, and the text.
    """

    program: Artifact
    start: int
    added: np.ndarray
    known: Mapping[bytes, int]
    warned: Sequence[tuple[str, str, str]]


class Refusal(NamedTuple):
    """The answer where the compiler raised: name of the kind of the error, and its text."""

    kind: str
    text: str


def serve() -> None:
    """Worker process: answer questions until the end of the input."""
    os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))  # of a parent in real time, too
    os.nice(_NICE)
    serve_answers(_answer)


def _answer(question: bytes) -> tuple[int, bytes]:
    paths, data = pickle.loads(question)  # of the parent of this process
    sys.path += [path for path in paths if path not in sys.path]
    try:
        return BUILT, pickle.dumps(_made(pickle.loads(data)))
    except CompilerError as error:
        kind = next(k for k in type(error).__mro__ if k.__module__ == errors.__name__)
        return REFUSED, pickle.dumps(Refusal(kind.__name__, str(error)))


def _made(wanted: Wanted) -> Made:
    pool = WeightPool.behind(wanted.known, wanted.size)
    with warnings.catch_warnings(record=True) as caught, _files(wanted):
        warnings.simplefilter("always")
        program = _programs(wanted.file).program(wanted.shapes, pool)
        start, added = pool.added()
    told = [(w.category.__module__, w.category.__name__, str(w.message)) for w in caught]
    return Made(program, start, added, pool.known, told)


@contextmanager
def _files(wanted: Wanted) -> Iterator[None]:
    """Inside of the context the weights that lie in files of the model are read there. Raises
    InvalidModel.
    """
    with outside() as stores, ExitStack() as opened:
        for name, (path, status) in wanted.files.items():
            try:
                file = File(os.open(path, os.O_RDONLY | os.O_CLOEXEC), status)
            except OSError as error:
                raise InvalidModel(
                    f"the file of the model cannot be read again: {error.strerror or error}"
                ) from None
            opened.callback(file.close)
            stores.add(file, name)
        yield


@lru_cache(maxsize=1)
def _programs(file: str) -> SizedPrograms:
    programs: SizedPrograms = pickle.loads(Path(file).read_bytes())
    return SizedPrograms(
        load(programs.model), programs.values, programs.options, programs.base, programs.device
    )
