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
    from rcompiler.driver.isolate import compile_schedule
    from rcompiler.errors import CompilerError
    from rcompiler.loading import load

_HOME = {
    "CompilerError": "rcompiler.errors",
    "compile_onnx": "rcompiler.compile",
    "compile_schedule": "rcompiler.driver.isolate",
    "load": "rcompiler.loading",
}

__all__ = ["CompilerError", "compile_onnx", "compile_schedule", "load"]

__version__ = "0.1.0"  # pyproject.toml reads it here, without importing anything


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'rcompiler' has no attribute {name!r}")
    try:
        if name == "compile_onnx":
            isolate = import_module("rcompiler.driver.isolate")
            if isolate.space_is_scarce():  # also loading the compiler could end this process
                return isolate.compile_onnx
        return getattr(import_module(_HOME[name]), name)
    except ModuleNotFoundError as error:
        installed = import_module("rcompiler.support.installed")
        if not installed.is_compilers(error.name):
            raise
        return installed.refusing(f"rcompiler.{name}", error.name)


def __dir__() -> list[str]:
    """What users may use: nothing of it need be imported yet."""
    return sorted([*__all__, *(name for name in globals() if _is_special(name))])


def _is_special(name: str) -> bool:
    return name.startswith("__") and name.endswith("__")
