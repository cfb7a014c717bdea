"""An optional pass may not refuse a model: where one fails, the model is compiled without it.

A compilation is a function of the passes that are left out, and starts anew when one more is.
- A pass that raises is left out.
- Where a step that must run fails, or its result is not valid, some optional pass may have made
  what it fails on: if the model compiles without all of them, the last of them that it takes to
  leave out is the one that is blamed, with those that run after it.
What is left out is warned of once, with a reproducer: the module as the pass gets it.
"""

from __future__ import annotations

import hashlib
import tempfile
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from torch_mlir import ir

from rcompiler.errors import (
    AssemblyError,
    CompilerError,
    OptionalPassWarning,
    ScheduleError,
    WrongKernel,
)
from rcompiler.passes import Pass, PassFailure, _reproducer

Result = TypeVar("Result")
_DEFECTS = (PassFailure, AssemblyError, WrongKernel)


@dataclass(frozen=True)
class LeftOut:
    """A pass, the operator that it failed on ("" if that is not known), and why."""

    name: str
    operator: str
    reason: str

    def __str__(self) -> str:
        at = f" at {self.operator}" if self.operator else ""
        return (
            f"compiled without the optional pass '{self.name}', which failed{at}: {self.reason}; "
            "this is a defect of the compiler"
        )


class OptionalPasses:
    """Which passes a compilation runs, and which it leaves out: a `_pipeline_text.Watch`.

    folder: where reproducers go, None for the temporary folder.
    """

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder
        self._out: dict[str, LeftOut] = {}
        self._ran: dict[str, None] = {}  # the optional ones of this attempt, in order
        self._failed: LeftOut | None = None
        self._at = ""  # the operator that a pass of this attempt failed on
        self._reproducers: dict[str, str] = {}

    @property
    def notes(self) -> tuple[LeftOut, ...]:
        """What is left out now."""
        return tuple(self._out.values())

    # -- what a pipeline asks
    def left_out(self, element: Pass) -> bool:
        return element.name() in self._out and element.without() is not None

    def skip(self, element: Pass, module: ir.Operation) -> None:
        name = element.name()
        if name not in self._reproducers:
            self._reproducers[name] = _written(self._folder, element, module.get_asm())

    @contextmanager
    def running(self, element: Pass, module: ir.Operation) -> Iterator[None]:
        optional = element.without() is not None
        if optional:
            self._ran.setdefault(element.name())
        try:
            yield
        except MemoryError:
            raise
        except Exception as error:
            self._at = _operator(error, module)
            if optional:
                self._failed = LeftOut(element.name(), self._at, _told(error))
            raise

    # -- attempts
    def compiled(self, attempt: Callable[[], Result]) -> Result:
        """The result of `attempt`, which compiles a model with these passes from its beginning, as
        often as it takes. Raises what the first attempt does where no pass is to blame.
        """
        while True:
            try:
                return self._tried(attempt)
            except Exception as error:
                if self._failed is not None:
                    self._out[self._failed.name] = self._failed
                elif is_defect(error) and self._ran:
                    return self._without_the_blamed(attempt, error)
                else:
                    raise

    def warn(self, stacklevel: int) -> None:
        """One OptionalPassWarning for each pass that is left out."""
        for each in self.notes:
            text = f"{each}, report it with {self._reproducers.get(each.name, 'the model')}"
            warnings.warn(text, OptionalPassWarning, stacklevel=stacklevel + 1)

    def _tried(self, attempt: Callable[[], Result]) -> Result:
        self._ran, self._failed, self._at = {}, None, ""
        return attempt()

    def _without_the_blamed(self, attempt: Callable[[], Result], error: Exception) -> Result:
        """The result without as few of the last passes as are found by halving."""
        ran, before = list(self._ran), dict(self._out)
        why = f"what comes after it fails: {_told(error)}"
        blamed = [LeftOut(name, self._at, why) for name in ran]

        def tried(first: int) -> Result:
            self._out = before | {each.name: each for each in blamed[first:]}
            return self._tried(attempt)

        try:
            found, low, high = tried(0), 0, len(ran) - 1
        except Exception:
            raise error from None  # no optional pass is to blame
        while low < high:  # leaving out all from `low` on is enough
            middle = (low + high + 1) // 2
            try:
                found, low = tried(middle), middle
            except Exception:
                high = middle - 1
        self._out = before | {each.name: each for each in blamed[low:]}
        return found


def is_defect(error: BaseException) -> bool:
    """Whether an error is the compiler's own: none of the model, the options or the machine."""
    if isinstance(error, ScheduleError):
        return error.rule != "graph"  # a schedule of ours that is not proved
    if isinstance(error, CompilerError):
        return type(error) is CompilerError or isinstance(error, _DEFECTS)
    return isinstance(error, Exception) and not isinstance(error, MemoryError)


def _told(error: BaseException) -> str:
    text = " ".join(str(error).split())
    return text if isinstance(error, CompilerError) else f"{type(error).__name__}: {text}"


def _operator(error: BaseException, module: ir.Operation) -> str:
    """The op that the innermost function that has one was looking at, by its name or place."""
    if isinstance(error, PassFailure):
        return _place(error.location)
    there = set(_nested(module))  # what is not there any more must not be touched
    found, frame = "", error.__traceback__
    while frame is not None:
        for value in frame.tb_frame.f_locals.values():
            op = value.operation if isinstance(value, ir.OpView) else value
            if isinstance(op, ir.Operation) and op in there:
                named = op.attributes["sym_name"] if "sym_name" in op.attributes else None
                found = _place(op.location) if named is None else ir.StringAttr(named).value
        frame = frame.tb_next
    return found


def _nested(op: ir.Operation) -> Iterator[ir.Operation]:
    for region in op.regions:
        for block in region.blocks:
            for view in block.operations:
                yield view.operation
                yield from _nested(view.operation)


def _place(location: ir.Location) -> str:
    return str(location).removeprefix("loc(").removesuffix(")").strip('"')


def _written(folder: Path | None, element: Pass, module: str) -> str:
    """The path of a reproducer, or why there is none."""
    digest = hashlib.sha256(f"{element}\n{module}".encode()).hexdigest()[:16]
    try:
        if folder is None:
            home = Path(tempfile.mkdtemp(prefix="rcompiler-"))
        else:
            home = folder / "reproducers"
            home.mkdir(parents=True, exist_ok=True)
        path = home / f"{element.name()}-{digest}.mlir"
        _reproducer.write(str(path), module, str(element), False)
    except (OSError, CompilerError) as error:
        return f"the model (no reproducer could be written: {error})"
    return str(path)
