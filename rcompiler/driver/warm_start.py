"""compile_onnx without the compiler: the finished model of the cache, where it has it."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from rcompiler.driver.finished_models import FinishedModels, Kept
from rcompiler.driver.model_key import is_kept, model_key
from rcompiler.driver.model_source import ModelSource
from rcompiler.errors import CompilerError
from rcompiler.options import checked_cache, keeps_models
from rcompiler.support import stage_arrays
from rcompiler.support.code_version import is_current

STEP = "kept model"  # what progress is told in the place of all steps


def finished_models(cache: Any) -> FinishedModels | None:
    """The finished models of a cache folder, as compile_onnx is given it; None where none are kept.

    Raises CompilerError where it is no folder.
    """
    folder = checked_cache(cache)
    return FinishedModels(folder) if folder is not None and keeps_models() else None


class WarmStart:
    """One call of compile_onnx, beside the compiler."""

    def __init__(self, given: Mapping[str, Any]) -> None:
        """given: all arguments of the call, by name. Raises CompilerError for a cache that is no
        folder."""
        model = given["model"]
        self._start = time.perf_counter()
        self._source = model if isinstance(model, ModelSource) else ModelSource(model)
        self._given = dict(given)
        kept = is_kept(given) and not stage_arrays.wanted()
        self._models = finished_models(given["cache"]) if kept else None
        self._key = self._found_key()

    @contextmanager
    def model(self) -> Iterator[Any]:
        """What the compiler is given, inside of the context. Raises InvalidModel."""
        with self._source.opened() as model:
            yield model

    def given(self) -> Any:
        """What another process is given, which reads it itself. Raises InvalidModel."""
        model = self._given["model"]
        if hasattr(model, "ListFields"):
            from rcompiler.frontend import load

            return load.whole(model)
        return self._source.proto() if model is self._source else model

    def found(self) -> Kept | None:
        """The finished model; None where it has to be compiled. Raises DeviceError."""
        if self._models is None or self._key is None:
            return None
        return self._models.get(self._key, self._given["eus"], self._begin)

    def _begin(self) -> None:
        if self._given["progress"] is not None:
            self._given["progress"](STEP, time.perf_counter() - self._start)

    def keep(self, made: Any) -> None:
        """Keep what was compiled, unless the model or the code has changed meanwhile."""
        if self._models is None:
            return
        self._source.keep_facts(self._models)
        key = self._key or self._found_key()  # now it is known in which files the model is
        try:
            same = key is not None and is_current() and self._source.is_unchanged()
        except OSError:
            return
        if same and key is not None:
            self._models.put(key, made)

    def _found_key(self) -> str | None:
        if self._models is None:
            return None
        try:
            digest = self._source.digest(self._models)
            folder = self._models.folder
            return None if digest is None else model_key(digest, self._given, folder)
        except (CompilerError, OSError, ValueError, TypeError):
            return None  # the compiler says what is wrong
