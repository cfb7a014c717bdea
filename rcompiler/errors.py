"""Every error the compiler raises on purpose.

A message is one paragraph for the person who can fix it: what was being looked at (the ONNX node,
the file, the option), the reason, and what to do about it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal


@dataclass(frozen=True)
class Gap:
    """Why a part of a model cannot be compiled.

    Attributes:
        node: name of the part.
        op: the node's operator; for an input or a tensor the first operator that reads it, for an
            output the one that makes it ("" when there is none).
        reason: what is wrong with it.
        remedy: what to do about it.
        detail: the types, shapes or attributes in question.
        needs: graph inputs whose shapes or values would have to be known.
        kind: what the part is.
        bounds: names for which `bounds` may say how many there are at most, which would do as well.
    """

    node: str
    op: str
    reason: str
    remedy: str
    detail: str = ""
    needs: tuple[str, ...] = ()
    kind: Literal["node", "input", "output", "tensor"] = "node"
    bounds: tuple[str, ...] = ()

    def __str__(self) -> str:
        op = f" ({self.op})" if self.op else ""
        detail = f" ({self.detail})" if self.detail else ""
        return f"{self.kind} '{self.node}'{op}: {self.reason}{detail}. {self.remedy}"


class CompilerError(Exception):
    """Base: anything the user can fix. Tools print it without a traceback.

    Made of a message, or of the Gap that it reports.
    """

    @property
    def gap(self) -> Gap | None:
        """The part of the model that is refused, where one is known."""
        first = self.args[0] if self.args else None
        return first if isinstance(first, Gap) else None


class InvalidModel(CompilerError):
    """A model that is not valid ONNX, or cannot be read."""


class ScheduleTextError(InvalidModel):
    """A text in the schedule form that is not of its grammar, or names what is not there.

    Attributes:
        reason: what is wrong there, and the remedy.
        line, column: where, from 1.
    """

    def __init__(self, reason: str, line: int, column: int) -> None:
        super().__init__(reason, line, column)
        self.reason, self.line, self.column = reason, line, column

    def __str__(self) -> str:
        return f"line {self.line}, column {self.column}: {self.reason}"


class UnsupportedOp(CompilerError):
    """A valid ONNX operator, attribute or type that the compiler does not translate."""


class ShapeError(CompilerError):
    """A shape that is unknown, or does not fit: of a model or of an argument of a call."""


class FallbackError(CompilerError):
    """A function of the caller's that stands for an operator raised an error, or returned something
    else than was promised of it; or such a function is missing."""


class RangeError(CompilerError):
    """An argument of a call, or what the model computes of it, has an index that is outside of what
    it leads into, or lets a loop run more often than it was compiled for.

    Attributes:
        bound: the name in `bounds` under which more would have to be allowed; "" for indices.
        found: how many there are, or iterations of a loop may be; else what is outside.
    """

    def __init__(self, message: str, bound: str = "", found: int = 0) -> None:
        super().__init__(message)
        self.bound, self.found = bound, found

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (str(self), self.bound, self.found)


class AbsentError(CompilerError, AttributeError):
    """A name that onnxruntime has and there is not here; it says what to use instead."""


class DeviceError(CompilerError):
    """A device that is unknown or absent, or that a program does not fit on."""


class BusyError(CompilerError):
    """A call that no instance of a pool was free for in time; or one by a signal handler or a
    finaliser whose thread is inside a call of the same model, and would wait for itself."""


class TooManyBlocks(DeviceError):
    """More EUs wait for one another than the device runs blocks of the model at the same time."""


class PipelineError(CompilerError):
    """A pass pipeline that cannot be built."""


class ScheduleError(CompilerError):
    """A schedule that must not run, or a graph that cannot be scheduled.

    Attributes:
        rule: which law it breaks: "graph", "buffer", "task", "deadlock", "race" or "clobber".
    """

    def __init__(self, message: str, rule: str = "graph") -> None:
        super().__init__(message)
        self.rule = rule


class ToolError(CompilerError):
    """A program of somebody else's that is absent, cannot be run, or does not come to an end."""


class AssemblyError(CompilerError):
    """Code that an assembler rejects: a defect of the compiler.

    Attributes:
        line: of the code, from 1; None where the assembler names none.
    """

    def __init__(self, message: str, line: int | None = None) -> None:
        super().__init__(message)
        self.line = line


class WrongKernel(CompilerError):
    """Generated code that does not compute its operator: a defect of the compiler."""


class DroppedPlanWarning(UserWarning):
    """A plan that was tried has stopped, or computed something else, and is never tried again: a
    defect of the compiler, but all answers are right.
    """


class OptionalPassWarning(UserWarning):
    """A pass that only makes programs faster failed, and the model was compiled without it: a
    defect of the compiler.
    """


class CompiledHereWarning(UserWarning):
    """There is no Python that another process could be started with: models are compiled in this
    one, on one thread, and what ends LLVM or MLIR ends it. It names what to set.
    """


class LargerFileWarning(UserWarning):
    """A model is saved with more bytes than it needs: what some weights are made of lay in the file
    that it was compiled from, which was written to since then.
    """


class EagerGraphWarning(UserWarning):
    """A graph of PyTorch's that is not compiled, and runs operator by operator; it says why."""


class FailedBuildWarning(UserWarning):
    """A program that was to be built while its model serves could not be: the next larger one goes
    on to serve its sizes.
    """


class IgnoredOptionWarning(UserWarning):
    """An option of another runtime that was given to a session, and changes nothing here."""


class RecompiledWarning(UserWarning):
    """A program is compiled again that was dropped to make room for others, or that had not room
    enough for what a call counts: calls wait for it. It has the remedy.
    """


class CacheWarning(UserWarning):
    """The cache folder could not be used or held a damaged entry; the result is not affected."""


class CacheError(CompilerError):
    """A cache that somebody else may have written."""


class ArtifactError(CompilerError):
    """A compiled file that cannot be loaded: damaged, of another version or another machine."""
