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
    from rcompiler.batching import Batching
    from rcompiler.compile import compile_onnx
    from rcompiler.driver.isolate import compile_schedule
    from rcompiler.errors import CompilerError
    from rcompiler.fallback import Fallback
    from rcompiler.loading import load
    from rcompiler.pool import Pool
    from rcompiler.session.inference_session import InferenceSession
    from rcompiler.session.io_binding import IOBinding
    from rcompiler.session.options import (
        ExecutionMode,
        ExecutionOrder,
        GraphOptimizationLevel,
        RunOptions,
        SessionOptions,
        disable_telemetry_events,
        enable_telemetry_events,
        get_all_providers,
        get_available_providers,
        get_device,
        set_default_logger_severity,
        set_default_logger_verbosity,
    )
    from rcompiler.session.signature import ModelMetadata, NodeArg
    from rcompiler.session.values import OrtValue
    from rcompiler.support.random_keys import set_seed

_HOME = {
    "Batching": "rcompiler.batching",
    "CompilerError": "rcompiler.errors",
    "Fallback": "rcompiler.fallback",
    "compile_onnx": "rcompiler.compile",
    "compile_schedule": "rcompiler.driver.isolate",
    "Pool": "rcompiler.pool",
    "load": "rcompiler.loading",
    "set_seed": "rcompiler.support.random_keys",
    # as onnxruntime has them
    "ExecutionMode": "rcompiler.session.options",
    "ExecutionOrder": "rcompiler.session.options",
    "GraphOptimizationLevel": "rcompiler.session.options",
    "IOBinding": "rcompiler.session.io_binding",
    "InferenceSession": "rcompiler.session.inference_session",
    "ModelMetadata": "rcompiler.session.signature",
    "NodeArg": "rcompiler.session.signature",
    "OrtValue": "rcompiler.session.values",
    "RunOptions": "rcompiler.session.options",
    "SessionOptions": "rcompiler.session.options",
    "disable_telemetry_events": "rcompiler.session.options",
    "enable_telemetry_events": "rcompiler.session.options",
    "get_all_providers": "rcompiler.session.options",
    "get_available_providers": "rcompiler.session.options",
    "get_device": "rcompiler.session.options",
    "set_default_logger_verbosity": "rcompiler.session.options",
    "set_default_logger_severity": "rcompiler.session.options",
}

__all__ = [
    "Batching",
    "CompilerError",
    "ExecutionMode",
    "ExecutionOrder",
    "Fallback",
    "GraphOptimizationLevel",
    "IOBinding",
    "InferenceSession",
    "ModelMetadata",
    "NodeArg",
    "OrtValue",
    "Pool",
    "RunOptions",
    "SessionOptions",
    "compile_onnx",
    "compile_schedule",
    "disable_telemetry_events",
    "enable_telemetry_events",
    "get_all_providers",
    "get_available_providers",
    "get_device",
    "load",
    "set_default_logger_severity",
    "set_default_logger_verbosity",
    "set_seed",
]

__version__ = "0.1.0"  # pyproject.toml reads it here, without importing anything


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise import_module("rcompiler.session.absent").absent("", name)
    try:
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
