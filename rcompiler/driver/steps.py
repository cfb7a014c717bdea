"""The steps of a compilation: reported when they begin, and named by what goes wrong in them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rcompiler.errors import CompilerError, InvalidModel
from rcompiler.runtime.memory import refusal

Progress = Callable[[str, float], None]


class CompilationSteps:
    """progress: called with (step, seconds since the start) when a step begins."""

    def __init__(self, progress: Progress | None) -> None:
        if progress is not None and not callable(progress):
            raise CompilerError(f"progress={progress!r}: give a function of (stage, seconds)")
        self._progress = progress
        self._start = time.perf_counter()
        self._step = ""

    def begin(self, step: str) -> None:
        """Note and report the step that begins now."""
        self._step = step
        if self._progress is not None:
            self._progress(step, time.perf_counter() - self._start)

    @contextmanager
    def boundary(self) -> Iterator[None]:
        """Only CompilerErrors leave: whatever else happens inside is called a defect."""
        try:
            yield
        except CompilerError:
            raise
        except RecursionError:
            raise InvalidModel(
                f"{self._step}: the model is nested too deeply; flatten it"
            ) from None
        except Exception as error:
            if (refused := refusal(self._step, error)) is not None:
                raise refused from None
            raise CompilerError(
                f"{self._step}: {type(error).__name__}: {error}; this is a defect of the compiler, "
                "report it with the model"
            ) from error
