"""Every error the compiler raises on purpose.

A message is one paragraph for the person who can fix it: what was being looked at (the ONNX node,
the file, the option), the reason, and what to do about it.
"""


class CompilerError(Exception):
    """Base: anything the user can fix. Tools print it without a traceback."""


class InvalidModel(CompilerError):
    """A model that is not valid ONNX, or cannot be read."""


class UnsupportedOp(CompilerError):
    """A valid ONNX operator, attribute or type that the compiler does not translate."""


class ShapeError(CompilerError):
    """A shape that is unknown, or does not fit: of a model or of an argument of a call."""


class DeviceError(CompilerError):
    """A device that is unknown or absent, or that a program does not fit on."""


class PipelineError(CompilerError):
    """A pass pipeline that cannot be built."""


class ScheduleError(CompilerError):
    """A schedule that must not run, or a graph that cannot be scheduled.

    rule: which law it breaks ("graph", "buffer", "task", "deadlock", "race", "clobber").
    """

    def __init__(self, message: str, rule: str = "graph") -> None:
        super().__init__(message)
        self.rule = rule


class WrongKernel(CompilerError):
    """Generated code that does not compute its operator: a defect of the compiler."""


class ArtifactError(CompilerError):
    """A compiled file that cannot be loaded: damaged, of another version or another machine."""
