"""A deep-learning compiler on MLIR: rTask tiling, rTask scheduling, one static program.

    model = rcompiler.compile_onnx("model.onnx")
    outputs = model(x)
    model.save("model.rcx")
    model = rcompiler.load("model.rcx")        # needs numpy only

Names are imported on first use: running a saved model must not import the compiler.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rcompiler.compile import compile_onnx
    from rcompiler.errors import CompilerError
    from rcompiler.isolate import compile_schedule
    from rcompiler.model import load

_HOME = {
    "CompilerError": "rcompiler.errors",
    "compile_onnx": "rcompiler.compile",
    "compile_schedule": "rcompiler.isolate",
    "load": "rcompiler.model",
}

__all__ = ["CompilerError", "compile_onnx", "compile_schedule", "load"]


def __getattr__(name: str) -> Any:
    if name == "compile_onnx":
        isolate = import_module("rcompiler.isolate")
        if isolate.space_is_scarce():  # also loading the compiler could end this process
            return isolate.compile_onnx
    if name in _HOME:
        return getattr(import_module(_HOME[name]), name)
    raise AttributeError(f"module 'rcompiler' has no attribute {name!r}")
